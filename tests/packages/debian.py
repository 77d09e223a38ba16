#!/usr/bin/env python3
"""Builds the Debian package and tries it in a clean Debian root: install, start, upgrade, remove, purge.

    tests/packages/debian.py [--binary target/debug/grandstand] [--suite bookworm]

It takes a program that is built already: packing does not depend on how it was built. At first systemd does not run in the
root, so the script is the service manager: it runs the command of the unit as the unit's user, waits for READY=1, reloads and
stops. Then systemd-nspawn boots the root, and systemd does all of it again, under load (`booted.py`).
Needs root, debootstrap, cargo-deb and cargo-cyclonedx, for the second half systemd-nspawn. Exit code 69: something is missing, and nothing
was checked.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import booted
from steps import PATIENCE, ROOT, check, check_links, output, run, unavailable

UNIT = "usr/lib/systemd/system/grandstand.service"
CONFIG = "etc/grandstand/grandstand.toml"


def build(binary, work, revision):
    """Packs the program, its manual pages and its completions; the path of the package."""
    run(ROOT / "config/release/build.sh", "--binary", binary, "--revision", revision, work)
    return next(work.glob(f"grandstand_*-{revision}_*.deb"))


class Root:
    """A Debian root."""

    def __init__(self, path, suite):
        self.path = path
        if run("debootstrap", "--variant=minbase", suite, path, stdout=subprocess.DEVNULL, check=False).returncode:
            unavailable("debootstrap could not make a Debian root")
        # A service manager that is not there starts nothing; a policy that forbids it says so clearly.
        (path / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (path / "usr/sbin/policy-rc.d").chmod(0o755)

    def run(self, *command, **options):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        environment.update({name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")})
        return run("chroot", self.path, *command, env=environment, **options)

    def install(self, package):
        shutil.copy(package, self.path / "tmp")
        self.run("apt-get", "install", "--quiet", "--yes", "--no-install-recommends", f"/tmp/{package.name}")

    def owner(self, path):
        found = (self.path / path).stat()
        users = (self.path / "etc/passwd").read_text().splitlines()
        names = {int(line.split(":")[2]): line.split(":")[0] for line in users}
        return names.get(found.st_uid), found.st_mode & 0o7777


class Service:
    """The unit's command, run as the unit's user, with ports that the system chooses."""

    def __init__(self, root):
        unit = (root.path / UNIT).read_text()
        value = lambda key: re.search(rf"^{key}=(.+)$", unit, re.M)[1]
        user, command = value("User"), value("ExecStart").split()
        self.settings = ['GRANDSTAND__LISTEN=["127.0.0.1:0"]', "GRANDSTAND__ADMIN__LISTEN=127.0.0.1:0"]
        self.root, self.inside = root, root.path / "run/notify"
        self.inside.unlink(missing_ok=True)
        self.messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.messages.bind(str(self.inside))
        self.inside.chmod(0o777)
        self.messages.settimeout(PATIENCE)
        self.said = ""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--inh-caps=-all"]
        words = ["chroot", root.path, *as_user, "env", "NOTIFY_SOCKET=/run/notify", *self.settings, *command]
        self.process = subprocess.Popen([str(word) for word in words], cwd=root.path)
        self.hears("READY=1")

    def hears(self, line, times=1):
        while self.said.splitlines().count(line) < times:
            self.said += self.messages.recv(65536).decode()

    def reload(self):
        self.process.send_signal(signal.SIGHUP)
        self.hears("RELOADING=1")
        self.hears("READY=1", 2)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.messages.close()
        check(code == 0, f"it stops with exit code 0 (it was {code})")

    def status(self):
        command = ["grandstand", "status", "--json", "--config", f"/{CONFIG}"]
        options = {"stdout": subprocess.PIPE, "text": True}
        words = ["chroot", str(self.root.path), "env", *command]
        return subprocess.run(words, check=False, **options).stdout


def try_out(binary, suite, work):
    first, second = build(binary, work, 1), build(binary, work, 2)
    listed = output("dpkg-deb", "--contents", first)
    for path in ["usr/bin/grandstand", UNIT, "usr/lib/systemd/system/grandstand.socket",
                 "usr/lib/systemd/system/grandstand@.service", "etc/logrotate.d/grandstand",
                 "usr/lib/systemd/system/grandstand-https.socket", "usr/share/man/man1/grandstand.1.gz",
                 "usr/share/man/man1/grandstand-bundle-export.1.gz", "usr/share/bash-completion/completions/grandstand",
                 "usr/share/zsh/vendor-completions/_grandstand", "usr/share/fish/vendor_completions.d/grandstand.fish",
                 "usr/share/doc/grandstand/examples/mirror.toml", "usr/share/doc/grandstand/docs/service.md",
                 "usr/share/doc/grandstand/docs/programs/changes.py", "usr/share/doc/grandstand/examples/proxies/nginx.conf",
                 "usr/share/doc/grandstand/changelog.Debian.gz", "usr/share/doc/grandstand/copyright", CONFIG]:
        check(re.search(rf"\./{re.escape(path)}$", listed, re.M), f"the package has {path}")
    root = Root(work / "root", suite)

    root.install(first)
    check(root.owner("var/lib/grandstand") == ("grandstand", 0o700), "the data directory is the user's alone")
    check((root.path / CONFIG).exists(), "there is a configuration")
    check_links(root.path / "usr/share/doc/grandstand")
    root.run("bash", "-n", "/usr/share/bash-completion/completions/grandstand")
    root.run("grandstand", "--version")

    service = Service(root)
    check('"use": "offline"' in service.status(), "it is found by its own user's files and tells how it is")
    service.reload()
    config = root.path / CONFIG
    config.write_text(config.read_text() + "\n[pages]\nenabled = false\n")
    service.process.send_signal(signal.SIGHUP)
    service.hears("READY=1", 3)
    check("pages.enabled" in service.status(), "a reload applies an edited configuration")
    service.stop()
    kept = sorted(path.name for path in (root.path / "var/lib/grandstand").iterdir())
    check("grandstand.redb" in kept, f"it has stored data: {kept}")

    root.install(second)
    check("enabled = false" in config.read_text(), "an upgrade keeps an edited configuration")
    check(kept == sorted(path.name for path in (root.path / "var/lib/grandstand").iterdir()), "and the data")
    check("-2" in output("chroot", root.path, "dpkg-query", "--show", "grandstand"), "the new version is installed")
    service = Service(root)
    service.stop()

    root.run("apt-get", "remove", "--quiet", "--yes", "grandstand")
    check(not (root.path / "usr/bin/grandstand").exists(), "a removal takes the program away")
    check(config.exists() and (root.path / "var/lib/grandstand/grandstand.redb").exists(), "and leaves configuration and data")
    instance = [root.path / "etc/grandstand/second.toml", root.path / "var/lib/grandstand-second/grandstand.redb"]
    other = root.path / "var/lib/grandstand-of-others"
    for path in instance:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    other.mkdir()
    root.run("apt-get", "purge", "--quiet", "--yes", "grandstand")
    check(not config.exists() and not (root.path / "var/lib/grandstand").exists(), "a purge takes both")
    check(not any(path.parent.exists() for path in instance) and other.exists(), "those of instances, too, and nobody else's")

    booted.try_out(root, first, second, work / "console")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/debug/grandstand")
    parser.add_argument("--suite", default="bookworm")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        unavailable("it needs root for a Debian root")
    for tool in ["debootstrap", "setpriv", "dpkg-deb"]:
        if not shutil.which(tool):
            unavailable(f"{tool} is missing")
    if subprocess.run(["cargo", "deb", "--version"], capture_output=True, check=False).returncode:
        unavailable("cargo-deb is missing (cargo install --locked cargo-deb)")
    if not arguments.binary.exists():
        sys.exit(f"debian: {arguments.binary} is missing; build it first")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="grandstand-deb-") as work:
        try_out(arguments.binary.resolve(), arguments.suite, pathlib.Path(work))
    print(f"debian: all is well, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
