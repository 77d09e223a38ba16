#!/usr/bin/env python3
"""Checks `rust-version` in Cargo.toml: no dependency asks for a newer Rust; with --compile, that Rust compiles the program.

The second half takes minutes, needs rustup with that toolchain, and says so where it is missing.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def number(version):
    return tuple(int(part) for part in version.split(".")[:2])


def main():
    promised = re.search(r'^rust-version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    newer = [f"{package['name']} {package['version']} needs Rust {package['rust_version']}"
             for package in metadata["packages"]
             if package["rust_version"] and number(package["rust_version"]) > number(promised)]
    if newer:
        sys.exit(f"oldest_rust: Cargo.toml promises Rust {promised}, but\n  " + "\n  ".join(newer))
    print(f"oldest_rust: none of {len(metadata['packages'])} packages needs more than Rust {promised}")
    if "--compile" not in sys.argv[1:]:
        return
    toolchain = f"+{promised}.0"
    if subprocess.run(["cargo", toolchain, "--version"], capture_output=True, check=False).returncode:
        print(f"SKIPPED: rustup has no toolchain {promised}. The program was NOT compiled with it.")
        return
    subprocess.run(["cargo", toolchain, "check", "--locked", "--lib", "--bins"], cwd=ROOT, check=True)
    print(f"oldest_rust: Rust {promised} compiles the program")


if __name__ == "__main__":
    main()
