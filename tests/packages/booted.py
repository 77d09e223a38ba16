"""The Debian package under systemd itself: systemd-nspawn boots a Debian root, which has a network of its own.

Callers: `debian.py`.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from steps import PATIENCE, ROOT, check, run, wait_until

CONFIG = "/etc/grandstand/grandstand.toml"
DATA = "var/lib/grandstand"
PAGE = "http://127.0.0.1:8080/api/listings.json"
# Asks for a page until its standard input ends, each time over a new connection. Prints a line after the first answer, and at
# the end the number of answers and each failure.
CLIENT = """
import json, sys, threading, urllib.request
answers, failures, over = 0, [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set())).start()
while not over.is_set():
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=60) as answer:
            answer.read()
        answers += 1
    except Exception as error:
        failures.append(repr(error))
    if answers + len(failures) == 1:
        print("asking", flush=True)
print(json.dumps([answers, failures]))
"""


class Machine:
    """A booted root."""

    def __init__(self, root, log):
        options = ["--boot", "--register=no", "--private-network", "--console=pipe", "--quiet"]
        if not Path("/run/systemd/system").exists():
            # Without systemd outside, there is no one to ask for a scope.
            options.append("--keep-unit")
        self.path, self.log = root.path, log
        with log.open("w") as console:
            self.process = subprocess.Popen(["systemd-nspawn", f"--directory={root.path}", *options],
                                            stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        self.init = self.started()

    def started(self):
        """The process number of the systemd inside; `None` if it does not start."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return child
            time.sleep(0.2)
        return None

    def inside(self, *command):
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        environment = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        return ["nsenter", f"--target={self.init}", *spaces, "env", "-i", *environment, *command]

    def run(self, *command):
        print("inside", end=" ")
        return run(*self.inside(*command))

    def tries(self, *command):
        """The exit code and what the command printed."""
        done = subprocess.run(self.inside(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout.strip()

    def install(self, package):
        # Not to /tmp: systemd mounts another directory there.
        shutil.copy(package, self.path / "root")
        self.run("apt-get", "install", "--quiet", "--yes", f"/root/{package.name}")

    def shows(self, name, unit="grandstand.service"):
        return self.tries("systemctl", "show", f"--property={name}", "--value", unit)[1]

    def client(self):
        command = ["nsenter", f"--target={self.init}", "--net", sys.executable, "-c", CLIENT, PAGE]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def checks_sandbox(machine):
    """The unit's hardening is in effect, as far as the process shows it."""
    main = machine.shows("MainPID")
    _, status = machine.tries("cat", f"/proc/{main}/status")
    value = lambda key: re.search(rf"^{key}:\s+(\S+)", status, re.M)[1]
    _, user = machine.tries("id", "--user", "grandstand")
    check(value("Uid") == user, "the server is the user grandstand")
    check(int(value("CapBnd"), 16) == 0 and value("NoNewPrivs") == "1", "it has no capabilities and cannot get any")
    check(value("Seccomp") == "2", "its system calls are filtered")
    code, said = machine.tries("nsenter", f"--target={main}", "--mount", "touch", "/etc/grandstand/written")
    check(code != 0 and "Read-only" in said, "it sees a system that it cannot change")


def checks_mistakes(machine, config):
    """A mistake in the configuration neither stops a running server nor makes systemd start a server again and again."""
    good = config.read_text()
    config.write_text("mistake = 1\n" + good)
    code, _ = machine.tries("systemctl", "reload", "grandstand")
    check(code != 0 and machine.shows("ActiveState") == "active", "a reload with a mistake fails, and the server goes on")
    machine.tries("systemctl", "stop", "grandstand.socket", "grandstand.service")
    code, _ = machine.tries("systemctl", "start", "grandstand.service")
    check(code != 0, "a start with a mistake fails")
    check(machine.shows("ActiveState") == "failed" and machine.shows("NRestarts") == "0", "systemd does not try that again")
    check(machine.shows("ExecMainStatus") == "64", "its exit code says that the configuration is wrong")
    config.write_text(good)
    machine.run("systemctl", "reset-failed", "grandstand.service")
    machine.run("systemctl", "start", "grandstand.socket", "grandstand.service")


def without_failure(machine, what, action):
    """Clients ask while the action goes on: each request is answered, and the server is another one afterwards."""
    before, client = machine.shows("MainPID"), machine.client()
    client.stdout.readline()
    action()
    new = machine.shows("MainPID") not in ("0", before)
    check(new and machine.shows("ActiveState") == "active", f"{what}: a new server runs")
    answers, failures = json.loads(client.communicate()[0])
    check(not failures and answers, f"{what}: all {answers} requests meanwhile were answered {failures or ''}".rstrip())


def goes_through(machine, first, second):
    config = machine.path / CONFIG[1:]
    machine.install(first)
    check(machine.shows("ActiveState") == "inactive", "the package does not start the service")
    machine.run("systemctl", "enable", "--now", "grandstand.socket", "grandstand")
    check(machine.shows("ActiveState") == "active", "docs/service.md's command starts it")
    checks_sandbox(machine)

    shutil.copy(ROOT / "tests/fixtures/bundle-v1.gsb", machine.path / "root")
    machine.run("grandstand", "bundle", "import", "/root/bundle-v1.gsb", "--config", CONFIG)
    serves = lambda: "serving 12 listings" in machine.shows("StatusText")
    wait_until(serves, "it serves a bundle, and systemctl status says so")
    config.write_text(config.read_text() + "\n[rate_limit]\nrequests_per_minute = 0\n")
    machine.run("systemctl", "reload", "grandstand")
    status = lambda: machine.tries("grandstand", "status", "--json", "--config", CONFIG)[1]
    wait_until(lambda: '"rate_limit.requests_per_minute"' in status(), "systemctl reload applies an edited configuration")

    checks_mistakes(machine, config)
    without_failure(machine, "a restart", lambda: machine.run("systemctl", "restart", "grandstand"))
    without_failure(machine, "an upgrade", lambda: machine.install(second))
    check("requests_per_minute = 0" in config.read_text(), "the upgrade keeps an edited configuration")
    wait_until(serves, "and the data")
    machine.run("systemctl", "kill", "--signal=KILL", "grandstand.service")
    restarted = lambda: machine.shows("NRestarts") == "1" and machine.shows("ActiveState") == "active"
    wait_until(restarted, "systemd starts a killed server again")

    machine.run("apt-get", "remove", "--quiet", "--yes", "grandstand")
    gone = [machine.shows("ActiveState", f"grandstand.{kind}") for kind in ("service", "socket")]
    check(gone == ["inactive", "inactive"] and machine.tries("pgrep", "grandstand")[0] == 1, "a removal stops server and socket")
    check(config.exists() and (machine.path / DATA / "grandstand.redb").exists(), "and leaves configuration and data")
    machine.run("apt-get", "purge", "--quiet", "--yes", "grandstand")
    check(not config.exists() and not (machine.path / DATA).exists(), "a purge takes both")


def try_out(root, first, second, log):
    """Boots the root and tries the package in it. Says so where systemd-nspawn cannot boot."""
    if not shutil.which("systemd-nspawn"):
        print("SKIPPED: systemd-nspawn is missing (package systemd-container). The units were NOT run by systemd.")
        return
    root.run("apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "systemd-sysv", "dbus", "procps",
             "adduser", "ca-certificates")
    (root.path / "usr/sbin/policy-rc.d").unlink()
    machine = Machine(root, log)
    try:
        if machine.init is None:
            print(log.read_text())
            print("SKIPPED: systemd-nspawn cannot boot here. The units were NOT run by systemd.")
            return
        wait_until(lambda: machine.tries("systemctl", "is-system-running")[1] in ("running", "degraded"), "systemd has started")
        goes_through(machine, first, second)
    finally:
        machine.stop()
