#!/usr/bin/env python3
"""Makes a release twice with config/release/build.sh, and checks it: the same bytes, whole, signed, and usable.

    tests/packages/release.py [--binary target/debug/grandstand]

It takes a program that is built already. Needs cargo-deb, cargo-cyclonedx and minisign. Exit code 69: one is missing.
Without ruby, the Homebrew formula is checked less; no test installs it with brew.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib

from steps import ROOT, check, check_links, output, run, unavailable

PASSWORD = "no secret"
REPOSITORY = "https://forge.example/owner/grandstand"
MANIFEST = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]
VERSION = MANIFEST["version"]


def release(binary, directory, key):
    environment = {**os.environ, "MINISIGN_KEY": str(key), "MINISIGN_PASSWORD": PASSWORD, "REPOSITORY": REPOSITORY}
    run(ROOT / "config/release/build.sh", "--binary", binary, directory, env=environment, stdout=subprocess.DEVNULL)
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def formula(text, tarball, content, top):
    """The formula names this tarball, and installs files that are in it."""
    check("@" not in text, "the formula has nothing left to fill")
    check(text.count("  url ") == 1 == text.count("depends_on arch:"), "with one tarball, it is for one kind of machine")
    check(f'"{url(tarball)}"' in text and hashlib.sha256(content).hexdigest() in text, "it names the tarball and its sum")
    installed = re.findall(r'\.install (?:Dir\[)?"(.+?)"', text)
    check(len(installed) == 7 and all(list(top.glob(path)) for path in installed), "it installs what the tarball has")
    if shutil.which("ruby"):
        run("ruby", "-c", "grandstand.rb", stdout=subprocess.DEVNULL)
    else:
        print("SKIPPED: ruby is missing. The syntax of the formula was NOT checked.")


def formula_of_two(tarball, directory):
    """After builds on two kinds of machines, the formula is for both."""
    directory.mkdir()
    for machine in ["x86_64", "aarch64"]:
        shutil.copy(tarball, directory / f"grandstand-{VERSION}-{machine}-unknown-linux-gnu.tar.gz")
    run(ROOT / "config/release/finish.sh", directory, env={**os.environ, "REPOSITORY": REPOSITORY}, stdout=subprocess.DEVNULL)
    text = (directory / "grandstand.rb").read_text()
    check("@" not in text and text.count("  url ") == 2 and "arch:" not in text, "with two tarballs, the formula is for both machines")


def url(tarball):
    return f"{REPOSITORY}/releases/download/v{VERSION}/{tarball}"


def binstall(tarball, top):
    """The metadata of `cargo binstall` lead to the tarball and to the program in it."""
    metadata = MANIFEST["metadata"]["binstall"]
    target = tarball.removeprefix(f"grandstand-{VERSION}-").removesuffix(".tar.gz")
    values = {"repo": REPOSITORY, "name": MANIFEST["name"], "version": VERSION, "target": target, "bin": "grandstand", "binary-ext": ""}
    filled = {key: re.sub(r"\{ ([\w-]+) \}", lambda found: values[found[1]], metadata[key]) for key in ["pkg-url", "bin-dir"]}
    check(filled["pkg-url"] == url(tarball), "cargo binstall finds the tarball")
    check((top.parent / filled["bin-dir"]).is_file(), "cargo binstall finds the program in it")


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
        for name in [tarball, parts, package, "grandstand.rb", "SHA256SUMS"]:
            check(first[name] == second[name], f"{name} has the same bytes when it is made again")
        os.chdir(work / "first")
        run("sha256sum", "--check", "--quiet", "SHA256SUMS")
        check(len(first["SHA256SUMS"].splitlines()) == 4, "the sums are those of the four files")
        run("minisign", "-V", "-p", keys[1], "-m", "SHA256SUMS", stdout=subprocess.DEVNULL)

        run("tar", "--extract", "--file", tarball)
        top = work / "first" / tarball.removesuffix(".tar.gz")
        check(output(top / "grandstand", "--version").strip() == f"grandstand {VERSION}", "the tarball's program runs")
        for name in ["man/grandstand.1.gz", "completions/_grandstand", "config/systemd/grandstand.service",
                     "config/grafana/grandstand.json", "config/proxies/nginx.conf", "docs/service.md",
                     "docs/programs/changes.py", "LICENSE-MIT"]:
            check((top / name).is_file(), f"the tarball has {name}")
        check_links(top)
        for sample in (top / "config").glob("*.toml"):
            check(subprocess.run([top / "grandstand", "check", "--config", sample], capture_output=True, check=False).returncode == 0,
                  f"the tarball's program accepts {sample.name}")
        formula(first["grandstand.rb"].decode(), tarball, first[tarball], top)
        formula_of_two(tarball, work / "two")
        binstall(tarball, top)

        listed = {(one["name"], one["version"]) for one in json.loads(first[parts])["components"]}
        locked = {(one["name"], one["version"]) for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
        check(listed <= locked and len(listed) > 200, f"the list of parts names {len(listed)} crates of the lock file")
        check(not {"reqwest", "criterion"} & {name for name, _ in listed}, "and none that only tests need")
        check(str(ROOT).encode() not in first[parts] and b"/tmp/" not in first[parts], "it names no directory of this machine")


if __name__ == "__main__":
    main()
