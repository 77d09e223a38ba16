"""Stand-ins for the base images of the Dockerfile, made of Debian packages: for a machine that cannot reach their registries.

They have what the Dockerfile relies on, and no more: not the patches, the labels or all the packages of the real ones.

Callers: `image.py`.
"""

import os
import pathlib
import re
import shutil
import subprocess

from steps import output, run, unavailable

SUITE = "bookworm"
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"
# What gcr.io/distroless/cc-debian12 is made of.
DISTROLESS = ["base-files", "ca-certificates", "gcc-12-base", "libc6", "libgcc-s1", "libgomp1", "libssl3", "libstdc++6",
              "media-types", "netbase", "tzdata"]
NONROOT = 65532
# Instead of cargo, where a program is built already.
CARGO = """#!/bin/sh
test "$*" = "build --release --locked --bin grandstand" || exit 64
mkdir -p target/release && cp /usr/local/lib/grandstand target/release/
"""


def inside(root, *command):
    ours = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    environment = {**os.environ, **ours}
    run("chroot", root, *command, env=environment, stdout=subprocess.DEVNULL)


def imports(engine, root, name, *changes):
    packed = subprocess.Popen(["tar", "--create", "--numeric-owner", "--directory", str(root), "."], stdout=subprocess.PIPE)
    engine.run("import", *[f"--change={change}" for change in changes], "-", name, stdin=packed.stdout, stdout=subprocess.DEVNULL)
    if packed.wait() != 0:
        raise subprocess.CalledProcessError(packed.returncode, "tar")


def runtime(engine, debian, work, name):
    """The image that ours starts from: a C library, certificate authorities and a user."""
    root, packages = work / "runtime", debian / "var/cache/runtime"
    packages.mkdir()
    inside(debian, "sh", "-c", f"cd /var/cache/runtime && apt-get download {' '.join(DISTROLESS)}")
    root.mkdir(mode=0o755)
    for package in sorted(packages.glob("*.deb")):
        run("dpkg-deb", "--extract", package, root)
    shutil.rmtree(root / "usr/share/doc")
    certificates = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    (root / AUTHORITIES).parent.mkdir(parents=True, exist_ok=True)
    (root / AUTHORITIES).write_text("".join(path.read_text() for path in certificates))
    nonroot = f"nonroot:x:{NONROOT}:{NONROOT}:nonroot:/home/nonroot:/sbin/nologin"
    (root / "etc/passwd").write_text(f"root:x:0:0:root:/root:/sbin/nologin\n{nonroot}\n")
    (root / "etc/group").write_text(f"root:x:0:\nnonroot:x:{NONROOT}:\n")
    home = root / "home/nonroot"
    home.mkdir(mode=0o700, parents=True)
    os.chown(home, NONROOT, NONROOT)
    imports(engine, root, name, f"USER {NONROOT}", "WORKDIR /home/nonroot", f"ENV SSL_CERT_FILE=/{AUTHORITIES}",
            "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def builder(engine, debian, name, binary):
    """The image that compiles: Debian with this machine's Rust and its certificate authorities; or with a program to copy."""
    bin = debian / "usr/local/cargo/bin"
    bin.mkdir(parents=True)
    path = "/usr/local/cargo/bin"
    if binary:
        shutil.copy(binary, debian / "usr/local/lib/grandstand")
        (bin / "cargo").write_text(CARGO)
        (bin / "cargo").chmod(0o755)
    else:
        inside(debian, "apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "gcc", "g++", "make", "libc6-dev",
               "pkg-config", "ca-certificates")
        rust = pathlib.Path(output("rustc", "--print", "sysroot").strip())
        shutil.copytree(rust, debian / "usr/local/rust", symlinks=True, ignore=shutil.ignore_patterns("doc", "man", "src"))
        shutil.copy(f"/{AUTHORITIES}", debian / AUTHORITIES)
        path = "/usr/local/rust/bin"
    imports(engine, debian, name, f"ENV PATH={path}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "ENV CARGO_HOME=/usr/local/cargo")


def make(engine, dockerfile, work, binary):
    """Makes both base images under the names that the Dockerfile gives them."""
    if os.geteuid() != 0:
        unavailable("stand-ins need root")
    for tool in ["debootstrap", "dpkg-deb", "chroot"]:
        if not shutil.which(tool):
            unavailable(f"{tool} is missing")
    compiles, starts = re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.M)
    debian = work / "debian"
    run("debootstrap", "--variant=minbase", SUITE, debian, stdout=subprocess.DEVNULL)
    runtime(engine, debian, work, starts)
    builder(engine, debian, compiles, binary)
