"""What has to be there: programs by apt-get, Datasette, ROAPI and json-server by pip and npm, versions, the machine."""

import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from .processes import check, say

# Programs and their Debian packages.
PACKAGES = {
    "nginx": "nginx-light",
    "varnishd": "varnish",
    "wrk": "wrk",
    "h2load": "nghttp2-client",
    "openssl": "openssl",
    "redis-server": "redis-server",
    "h2o": "h2o",
    "taskset": "util-linux",
    "curl": "curl",
    "cc": "gcc",
}
APT = ["apt-get", "install", "-y", "--no-install-recommends"]
# Wanted by npm's and pip's packages, without which some columns are left out.
NPM, VENV = "npm", "python3-venv"
# A directory for each, so that "as installed" stays what it says.
PYTHON = {
    "datasette": ["datasette"],
    "datasette-tuned": ["datasette", "uvloop", "httptools"],
    "roapi": ["roapi", "pyarrow"],
}
NODE = {"json-server": "json-server@0.17"}
# Options whose value is a place on this machine, and what a report says instead.
PLACES = {
    "--grandstand": [],
    "--bare-pingora": [],
    "--against": ["--against", "OTHER"],
    "--origin": ["--origin", "OTHER"],
}


def cache_directory():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "grandstand-side-by-side"


def install_programs(tools):
    """Installs Debian packages as root; says the command to anyone else."""
    missing = sorted({PACKAGES[tool] for tool in tools if not shutil.which(tool)})
    command = " ".join([*APT, *missing])
    check(not missing or install_packages(missing), f"missing: {command}")


def install_packages(names):
    """Whether Debian packages could be installed, which takes root."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"not installed: {' '.join([*APT, *names])}")
        return False
    say(" ".join([*APT, *names]))
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update"], env=environment, stdout=sys.stderr, check=False)
    return subprocess.run([*APT, *names], env=environment, stdout=sys.stderr, check=False).returncode == 0


def install_python(name):
    """The `bin` directory of an environment with some packages; None where they cannot be installed."""
    directory = cache_directory() / name
    mark = directory / "installed"
    if not mark.exists():
        if not importlib.util.find_spec("ensurepip") and not install_packages([VENV]):
            return None
        say(f"installing {' '.join(PYTHON[name])} in {directory}")
        steps = [
            [sys.executable, "-m", "venv", "--clear", directory],
            [directory / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *PYTHON[name]],
        ]
        if not all(quiet(step) for step in steps):
            return None
        mark.touch()
    return directory / "bin"


def install_node(name):
    """The command of a package of npm's; None where it cannot be installed."""
    directory = cache_directory() / name
    command = directory / "node_modules" / ".bin" / name
    if not command.exists():
        if not shutil.which("npm") and not install_packages([NPM]):
            return None
        say(f"installing {NODE[name]} in {directory}")
        directory.mkdir(parents=True, exist_ok=True)
        if not quiet(["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", directory, NODE[name]]):
            return None
    return command


def quiet(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        say(f"failed: {' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return done.returncode == 0


def python_version(directory, package):
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([directory / "python", "-c", code], capture_output=True, text=True)
    return f"{package} {done.stdout.strip()}"


def version(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().splitlines()[0]


def versions(binary):
    """Of what is measured and what measures."""
    names = [version(str(binary), "--version")]
    names.append(version("rustc", "-V") if shutil.which("rustc") else "rustc unknown")
    names.append(version("nginx", "-v").removeprefix("nginx version: "))
    names.append(re.search(r"varnish-[\d.]+", version("varnishd", "-V"))[0])
    names.append(version("h2o", "--version"))
    names.append(version("wrk", "-v").split(" Copyright")[0])
    if shutil.which("h2load"):
        names.append(version("h2load", "--version"))
    return names


def fingerprint(binary):
    """Its version, and what tells two builds of one version apart."""
    with open(binary, "rb") as file:
        return f"{version(str(binary), '--version')} (sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:12]})"


def command_line():
    """The command as it is repeated: not with the places of this machine."""
    kept, arguments = [], iter(sys.argv[1:])
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if name in PLACES:
            if not equals:
                next(arguments, None)
            kept += PLACES[name]
        else:
            kept.append(argument)
    return shlex.join(["python3", f"benches/{Path(sys.argv[0]).name}", *kept])


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / 2**20
    virtual = "hypervisor" in Path("/proc/cpuinfo").read_text()
    kind = "virtual machine" if virtual else "machine"
    kernel = ".".join(platform.release().split(".")[:2])
    name = cpu[1] if cpu else platform.machine()
    return f"{kind} with {os.cpu_count()} cores of {name}, {memory:.0f} GiB; Linux {kernel}"
