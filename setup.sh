#!/bin/sh
# Installs what this machine lacks. Does nothing when all of it is there. Rust itself is not installed.
#
#   ./setup.sh build   what building grandstand needs: a C compiler, make, cmake, pkg-config; and curl for trying it out
#   ./setup.sh         the same, and the programs that the tests use
set -eu

case "${1-}" in
    "" | build) ;;
    *)
        echo "setup: unknown argument '$1'; use ./setup.sh or ./setup.sh build" >&2
        exit 64
        ;;
esac

have() { command -v "$1" >/dev/null 2>&1; }

here=$(cd "$(dirname "$0")" && pwd)

# An S3 server for tests. It is a Python package, which gets a directory of its own below target/.
lacks_moto=""
install_moto() {
    if [ -z "$lacks_moto" ]; then
        return 0
    fi
    echo "setup: installing moto into target/moto"
    if python3 -m venv "$here/target/moto" && "$here/target/moto/bin/pip" install -q "moto[server]==5.2.1"; then
        return 0
    fi
    echo "setup: moto could not be installed; some tests fail without it" >&2
}

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
# Only tests need these: one moves the wall clock of the running program, one is an origin behind TLS, one makes keys and
# signs bundles, one shows system calls, one reads metrics as Prometheus does, one is a cache in front of the program, one
# is a load balancer in front of it, one reads dumps, one rates the systemd unit, one makes a Debian root for the package, one
# counts for a fleet.
for_tests=""
if [ "${1-}" != build ]; then
    have faketime || for_tests="$for_tests faketime"
    have openssl || for_tests="$for_tests openssl"
    have minisign || for_tests="$for_tests minisign"
    have strace || for_tests="$for_tests strace"
    have promtool || for_tests="$for_tests prometheus"
    have nginx || [ -x /usr/sbin/nginx ] || for_tests="$for_tests nginx-light"
    have haproxy || [ -x /usr/sbin/haproxy ] || for_tests="$for_tests haproxy"
    have jq || for_tests="$for_tests jq"
    if ! have moto_server && [ ! -x "$here/target/moto/bin/moto_server" ]; then
        lacks_moto=yes
        python3 -c "import venv, ensurepip" 2>/dev/null || for_tests="$for_tests python3-venv"
    fi
    have systemd-analyze || for_tests="$for_tests systemd"
    have debootstrap || for_tests="$for_tests debootstrap"
    have redis-server || for_tests="$for_tests redis-server"
fi

if [ -z "$missing$for_tests" ]; then
    install_moto
    exit 0
fi

# Goes on where only tests miss something.
give_up() {
    echo "setup: $1:$missing$for_tests" >&2
    if [ -z "$missing" ]; then
        echo "setup: without$for_tests some tests fail; everything else works" >&2
        exit 0
    fi
    exit 1
}

if ! have apt-get; then
    give_up "please install these, under the names that your system has for them"
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! have sudo; then
        give_up "not root and no sudo; as root, run apt-get install with these"
    fi
    as_root="sudo"
fi

install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# Debian starts each server that it installs, now and after every boot. The tests start their own.
install_stopped() {
    policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then
        install "$1"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod +x "$policy"
    status=0
    install "$1" || status=$?
    $as_root rm -f "$policy"
    if have systemctl; then
        $as_root systemctl disable --quiet --now "${1%-light}" 2>/dev/null || true
    fi
    return "$status"
}

echo "setup: installing$missing$for_tests"
$as_root apt-get update -q || echo "setup: the package lists could not be refreshed, trying with the old ones" >&2
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # one word per package
    install $missing
fi
for package in $for_tests; do
    case $package in
        nginx-light | haproxy | prometheus | redis-server) install=install_stopped ;;
        *) install=install ;;
    esac
    $install "$package" || echo "setup: $package could not be installed; some tests fail without it" >&2
done
install_moto
