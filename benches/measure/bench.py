"""How a bench begins: its arguments, what it needs, its cores, and a directory that is gone afterwards. Not what it
measures."""

import argparse
import atexit
import os
import tempfile
from pathlib import Path

from . import tools
from .processes import check, end_on_signals, stop_all


def argument_parser(description):
    """Arguments of a bench; `--grandstand` is one of them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--grandstand", default=f"{target}/release/grandstand", help="the binary (%(default)s)")
    return parser


def built(path):
    """The path of a binary, which must be there."""
    check(Path(path).exists(), f"{path} does not exist: cargo build --release --locked")
    return Path(path).resolve()


def two_cores():
    """One for the server, one for everything else."""
    cores = sorted(os.sched_getaffinity(0))
    check(len(cores) >= 2, "two cores are needed")
    return cores[:2]


def scratch(name):
    """A directory that is removed at the end. Before that, everything that was started is stopped."""
    end_on_signals()
    directory = tempfile.TemporaryDirectory(prefix=f"{name}-")
    atexit.register(directory.cleanup)
    atexit.register(stop_all)
    return Path(directory.name)


def begin(name, options, programs=()):
    """The binary, the server's core, the other one, on which this process runs from now on, and a scratch directory."""
    binary = built(options.grandstand)
    tools.install_programs([*programs, "taskset"])
    server_core, load_core = two_cores()
    directory = scratch(name)
    os.sched_setaffinity(0, {load_core})
    return binary, server_core, load_core, directory
