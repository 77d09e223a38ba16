#!/bin/sh
# Installs what building grandstand needs and this machine lacks: a C compiler, make, cmake, pkg-config,
# curl for trying it out, and faketime for the tests. Does nothing when all of it is there. Rust itself is not installed.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

# A compiler without the C library's headers is of no use, so compile something.
c_compiler_works() {
    have cc && printf '#include <stdio.h>\nint main(void) { return 0; }\n' | cc -x c -o /dev/null - 2>/dev/null
}

if ! have cargo; then
    echo "setup: cargo is missing; install the Rust toolchain first (https://rustup.rs)" >&2
    exit 1
fi

missing=""
if ! c_compiler_works || ! have make; then missing="$missing build-essential"; fi
have cmake || missing="$missing cmake"
have pkg-config || missing="$missing pkg-config"
have curl || missing="$missing curl"
# Tests move the wall clock of the running program with it.
have faketime || missing="$missing faketime"

if [ -z "$missing" ]; then
    exit 0
fi
if ! have apt-get; then
    echo "setup: please install these, under the names that your system has for them:$missing" >&2
    exit 1
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! have sudo; then
        echo "setup: not root and no sudo; as root, run: apt-get install$missing" >&2
        exit 1
    fi
    as_root="sudo"
fi

echo "setup: installing$missing"
$as_root apt-get update -q || echo "setup: the package lists could not be refreshed, trying with the old ones" >&2
# shellcheck disable=SC2086 # one word per package
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
