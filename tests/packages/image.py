#!/usr/bin/env python3
"""Builds the container image and tries it: user, size, health check, and a mirror in it that stops and starts again.

    tests/packages/image.py
    tests/packages/image.py --stand-ins [--binary target/release/grandstand]

It uses Docker if a daemon answers, else podman. `--stand-ins` is for a machine that cannot reach the registries of the base
images: images made of Debian packages take their names, for this run only (`stand_ins.py`). It needs podman, debootstrap and
root. With `--binary`, the stand-in does not compile: its cargo puts this program where the Dockerfile expects it. The
Dockerfile is the same in each case. Exit code 69: something is missing, and nothing was checked.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import stand_ins
from steps import ROOT, check, output, run, unavailable, wait_until

CONTAINER = ROOT / "config" / "container"
MOST_BYTES = 100 << 20
LISTINGS = 300
PAGE = "http://127.0.0.1:8080/api/listings.json"
# As in compose.yaml. The script asks for the health by itself: podman's timer for it needs systemd.
SAFE = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--no-healthcheck"]


def answers(*command):
    return bool(shutil.which(command[0])) and subprocess.run(command, capture_output=True, check=False).returncode == 0


class Engine:
    """Docker, or podman with a storage of its own below `work`."""

    def __init__(self, work, needs_podman):
        self.podman = needs_podman or not answers("docker", "info")
        self.words, self.safe, self.made = ["docker"], list(SAFE), []
        self.storage = work / "storage"
        if not self.podman:
            return
        if not answers("podman", "--version"):
            unavailable("podman is missing" if needs_podman else "no Docker daemon answers, and podman is missing")
        self.words = ["podman", f"--root={self.storage}", f"--runroot={work / 'run'}", "--cgroup-manager=cgroupfs"]
        if shutil.which("runc"):
            # The other runtime, crun, refuses a machine that has both versions of cgroups.
            self.words.append("--runtime=runc")
        # podman asks for more than some machines grant.
        self.safe += ["--ulimit=nofile=16384:16384", "--ulimit=nproc=4096:4096"]

    def run(self, *words, **options):
        return run(*self.words, *words, **options)

    def output(self, *words, **options):
        return output(*self.words, *words, **options).strip()

    def look(self, what):
        return json.loads(subprocess.run([*self.words, "inspect", what], check=True, stdout=subprocess.PIPE).stdout)[0]

    def start(self, image, options, *words):
        container = self.output("run", "--detach", *self.safe, *options, image, *words)
        self.made.append(["rm", "--force", "--volumes", container])
        return container

    def stop(self, container, what):
        self.run("stop", "--time=60", container, stdout=subprocess.DEVNULL)
        code = self.look(container)["State"]["ExitCode"]
        check(code == 0, f"{what} stops with exit code 0 (it was {code})")

    def volume(self, name):
        self.run("volume", "create", name, stdout=subprocess.DEVNULL)
        self.made.append(["volume", "rm", "--force", name])
        return f"--volume={name}:/var/lib/grandstand"

    def remove_all(self):
        for words in reversed(self.made):
            self.run(*words, check=False, stdout=subprocess.DEVNULL)
        # podman leaves mounts, which would keep the storage from being removed.
        mounted = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        for path in sorted(mounted, reverse=True):
            if path.startswith(f"{self.storage}/"):
                subprocess.run(["umount", path], check=False)


def build(engine, work):
    named, dockerfile = work / "id", CONTAINER / "Dockerfile"
    # podman keeps a health check only in this format, and does not look for the second file by itself.
    more = ["--format=docker", f"--ignorefile={dockerfile}.dockerignore", "--network=host"] if engine.podman else []
    engine.run("build", *more, f"--file={dockerfile}", f"--iidfile={named}", ROOT, env={**os.environ, "DOCKER_BUILDKIT": "1"})
    return named.read_text()


def checks_image(engine, image):
    """The words of the health check."""
    found = engine.look(image)
    check(found["Config"]["User"] == "nonroot", "the image has a user without rights")
    check(found["Size"] < MOST_BYTES, f"the image has {found['Size'] / (1 << 20):.1f} MiB")
    version = engine.output("run", "--rm", "--network=none", *engine.safe, image, "--version")
    check(version.startswith("grandstand "), f"it runs, and is {version}")
    shell = engine.run("run", "--rm", "--network=none", *engine.safe, "--entrypoint=/bin/sh", image, "-c", "true", check=False,
                       capture_output=True)
    check(shell.returncode in (125, 126, 127), "it has no shell")
    health = (found["Config"].get("Healthcheck") or found.get("Healthcheck") or {}).get("Test", [])
    check(health[:1] == ["CMD"] and len(health) > 1, f"it has a health check: {' '.join(health[1:])}")
    return health[1:]


def checks_process(engine, container):
    process = engine.look(container)["State"]["Pid"]
    status = pathlib.Path(f"/proc/{process}/status")
    if os.geteuid() != 0 or not status.exists():
        print("SKIPPED: this script does not run as root, or the containers run on another machine. The rights of the process and "
              "its public listener were NOT checked.")
        return
    code = f"import urllib.request; print(urllib.request.urlopen({PAGE!r}, timeout=60).status)"
    asked = output("nsenter", f"--target={process}", "--net", sys.executable, "-c", code)
    check(asked.strip() == "200", f"{PAGE} answers in the container")
    value = lambda key: re.search(rf"^{key}:\s+(\S+)", status.read_text(), re.M)[1]
    check(value("Uid") == "65532", "the server runs as the user nonroot")
    check(int(value("CapBnd"), 16) == 0 and value("NoNewPrivs") == "1", "it has no capabilities and cannot get any")


def try_out(engine, image):
    health = checks_image(engine, image)

    def asks(container, *words):
        return subprocess.run([*engine.words, "exec", container, *words], capture_output=True, text=True, check=False)

    def status(container):
        printed = asks(container, *health, "--json").stdout
        return json.loads(printed) if printed.startswith("{") else {}

    # Loopback is all the network that these containers have, and they share it.
    origin = engine.start(image, ["--network=none"], "origin", "--listen=127.0.0.1:8000", f"--listings={LISTINGS}")
    data = engine.volume(f"grandstand-image-{os.getpid()}")
    setting = "--env=GRANDSTAND__ORIGIN__URL=http://127.0.0.1:8000"
    mirror = engine.start(image, [f"--network=container:{origin}", data, setting])

    def healthy():
        if not engine.look(mirror)["State"]["Running"]:
            engine.run("logs", mirror)
            check(False, "the mirror has ended")
        return asks(mirror, *health).returncode == 0

    wait_until(healthy, "the health check of a mirror succeeds when it has data")
    check(status(mirror)["listings"] == LISTINGS, f"it has copied the {LISTINGS} listings of the sample origin")
    checks_process(engine, mirror)
    engine.run("kill", "--signal=HUP", mirror, stdout=subprocess.DEVNULL)
    wait_until(lambda: (status(mirror).get("reload") or {}).get("ok"), "a HUP reloads the configuration")
    engine.stop(mirror, "the mirror")

    alone = engine.start(image, ["--network=none", data, setting])
    served = lambda: status(alone).get("listings") == LISTINGS
    wait_until(served, "another container has the data of the volume, without the origin")
    engine.stop(alone, "this one")
    engine.stop(origin, "the sample origin")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stand-ins", action="store_true", help="make the base images of Debian packages")
    parser.add_argument("--binary", type=pathlib.Path, help="with --stand-ins: do not compile, take this program")
    arguments = parser.parse_args()
    if arguments.binary and not arguments.stand_ins:
        parser.error("--binary needs --stand-ins")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="grandstand-image-") as made:
        work = pathlib.Path(made)
        engine = Engine(work, arguments.stand_ins)
        try:
            if arguments.stand_ins:
                stand_ins.make(engine, CONTAINER / "Dockerfile", work, arguments.binary)
            try_out(engine, build(engine, work))
        finally:
            engine.remove_all()
    print(f"image: all is well, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
