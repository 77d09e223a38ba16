#!/usr/bin/env python3
"""Makes a release twice with config/release/build.sh, and checks it: the same bytes, whole, signed, and usable.

    tests/packages/release.py [--binary target/debug/grandstand]

It takes a program that is built already. Needs cargo-deb, cargo-cyclonedx and minisign. Exit code 69: one is missing.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib

from steps import ROOT, check, output, run, unavailable

PASSWORD = "no secret"


def release(binary, directory, key):
    environment = {**os.environ, "MINISIGN_KEY": str(key), "MINISIGN_PASSWORD": PASSWORD}
    run(ROOT / "config/release/build.sh", "--binary", binary, directory, env=environment, stdout=subprocess.DEVNULL)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/debug/grandstand")
    binary = parser.parse_args().binary.resolve()
    for tool in ["deb", "cyclonedx"]:
        if subprocess.run(["cargo", tool, "--version"], capture_output=True, check=False).returncode:
            unavailable(f"cargo-{tool} is missing (cargo install --locked cargo-{tool})")
    if not shutil.which("minisign"):
        unavailable("minisign is missing")
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        keys = [work / "key", work / "key.pub"]
        # Twice: minisign asks for it once more.
        run("minisign", "-G", "-s", keys[0], "-p", keys[1], input=f"{PASSWORD}\n{PASSWORD}\n", text=True, stdout=subprocess.DEVNULL)
        first = release(binary, work / "first", keys[0])
        second = release(binary, work / "second", keys[0])
        [tarball] = [name for name in first if name.endswith(".tar.gz")]
        [parts] = [name for name in first if name.endswith(".cdx.json")]
        [package] = [name for name in first if name.endswith(".deb")]
        for name in [tarball, parts, package, "SHA256SUMS"]:
            check(first[name] == second[name], f"{name} has the same bytes when it is made again")
        os.chdir(work / "first")
        run("sha256sum", "--check", "--quiet", "SHA256SUMS")
        check(len(first["SHA256SUMS"].splitlines()) == 3, "the sums are those of the three files")
        run("minisign", "-V", "-p", keys[1], "-m", "SHA256SUMS", stdout=subprocess.DEVNULL)

        run("tar", "--extract", "--file", tarball)
        top = work / "first" / tarball.removesuffix(".tar.gz")
        version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        check(output(top / "grandstand", "--version").strip() == f"grandstand {version}", "the tarball's program runs")
        for name in ["man/grandstand.1.gz", "completions/_grandstand", "systemd/grandstand.service", "LICENSE-MIT"]:
            check((top / name).is_file(), f"the tarball has {name}")
        for sample in (top / "samples").iterdir():
            check(subprocess.run([top / "grandstand", "check", "--config", sample], capture_output=True, check=False).returncode == 0,
                  f"the tarball's program accepts {sample.name}")

        listed = {(one["name"], one["version"]) for one in json.loads(first[parts])["components"]}
        locked = {(one["name"], one["version"]) for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
        check(listed <= locked and len(listed) > 200, f"the list of parts names {len(listed)} crates of the lock file")
        unchanged = output("git", "-C", ROOT, "status", "--porcelain", "--", ".", ":!target")
        check("sbom-" not in unchanged, "nothing is left between the sources")


if __name__ == "__main__":
    main()
