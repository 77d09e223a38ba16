#!/usr/bin/env python3
"""Fuzzes the readers of foreign bytes, target by target, with stable Rust.

    tests/fuzz/run.py                              # each target for ten minutes
    tests/fuzz/run.py --seconds 60 query path      # these two, for a minute each

The fuzzer is libFuzzer. What it learns stays in target/fuzz/corpus. An input that makes a target fail is written to
tests/fuzz/corpus/TARGET, where `cargo test --test wire corpus` replays it from then on: fix what it shows, then commit
it. Exit codes: 0, 1 an input failed, 69 the fuzzer could not be built. Needs a C++ compiler.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILT = ROOT / "target" / "fuzz"
TARGETS = re.findall(r'^    \("([a-z-]+)", \w+\),$', (HERE / "targets.rs").read_text(), re.MULTILINE)
# The longest input in bytes.
LONGEST = {
    "bundle": 1 << 16, "bundle-parts": 1 << 14, "fleet-head": 1 << 13, "journal": 1 << 12, "page": 1 << 14, "taxonomy": 1 << 14, "proxy-header": 4200, "store": 256,
}


def build():
    environment = dict(os.environ, RUSTC_WRAPPER=str(HERE / "rustc.sh"), CXXFLAGS="-O2")
    command = ["cargo", "build", "--locked", "--manifest-path", str(HERE / "Cargo.toml"), "--target-dir", str(BUILT)]
    return subprocess.run(command, env=environment, check=False).returncode == 0


def fuzz(target, seconds):
    """Whether no input made the target fail."""
    learned, kept = BUILT / "corpus" / target, HERE / "corpus" / target
    learned.mkdir(parents=True, exist_ok=True)
    arguments = [f"-max_total_time={seconds}", f"-max_len={LONGEST.get(target, 1024)}", f"-artifact_prefix={kept}/",
                 "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", str(learned), str(kept)]
    done = subprocess.run([str(BUILT / "debug" / "fuzz"), *arguments], env=dict(os.environ, FUZZ_TARGET=target),
                          stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    lines = done.stderr.splitlines()
    if done.returncode != 0:
        print("\n".join(lines[-60:]))
    stats = dict(line[len("stat::"):].split(":", 1) for line in lines if line.startswith("stat::"))
    coverage = [match[1] for line in lines if (match := re.search(r"\bcov: (\d+)", line))]
    runs = stats.get("number_of_executed_units", "?").strip()
    print(f"{target}: {runs} runs, {coverage[-1] if coverage else '?'} places reached, "
          f"{'no failure' if done.returncode == 0 else 'FAILED'}", flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="how long each target runs (default: 600)")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: all of {', '.join(TARGETS)}")
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    if not build():
        return 69
    results = [fuzz(target, options.seconds) for target in options.targets or TARGETS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
