#!/usr/bin/env python3
"""Completes command lines in bash, zsh and fish, with the scripts that `grandstand completions` prints.

    cargo build --locked
    tests/completions/run.py [--binary target/debug/grandstand] [--only bash|zsh|fish] [--show LINE]

A shell loads a script in two ways: as it is printed (`source <(grandstand completions zsh)`), and from the directory where the
Debian package puts it. The table below has lines, what must be offered for each, and what must not. For every command, the
options and their descriptions must be those of its help. Exit codes: 0 all well, 1 not, 69 a shell is missing and nothing was
checked. Needs Debian's bash-completion, fish and zsh.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from shells import BASH, COMPLAINT, ZSH, Fish, Terminal

ROOT = Path(__file__).resolve().parents[2]
BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")

# The directory in which lines are completed.
FILES, DIRECTORIES = ["mirror.toml", "plain.gsb", "two words.toml"], ["bundles"]
PATHS = {*FILES, *DIRECTORIES}

# How many faults of a shell are printed.
SHOWN = 20

# Nothing else is offered.
ONLY = object()


def words(text):
    return set(text.split())


# What is typed behind `grandstand `; what is offered; what is not.
TABLE = [
    ("", words("serve demo sync bundle snapshot completions help"), words("export --wait") | PATHS),
    ("bun", words("bundle"), ONLY),
    ("s", words("serve snapshot status sync"), ONLY),
    ("zzz", set(), ONLY),
    ("bundle ", words("export import verify inspect"), words("serve rollback") | PATHS),
    ("bundle zzz", set(), ONLY),
    ("snapshot ", words("list verify rollback release accept pin unpin"), words("export") | PATHS),
    ("snapshot ro", words("rollback"), ONLY),
    # Options.
    ("sync --wa", words("--wait"), ONLY),
    ("sync --wait --js", words("--json"), ONLY),
    ("sync --zzz", set(), ONLY),
    ("bundle export --s", words("--set --since --sign"), ONLY),
    # Values.
    ("completions ", words("bash elvish fish powershell zsh"), PATHS),
    ("completions z", words("zsh"), ONLY),
    ("bundle export --format ", words("bundle csv ndjson"), words("--json") | PATHS),
    ("bundle export --format c", words("csv"), ONLY),
    ("bundle export --format=c", words("csv"), ONLY),
    # Files, also those in directories.
    ("serve --config ", PATHS, ONLY),
    ("serve --config mi", words("mirror.toml"), ONLY),
    ("serve --config=mi", words("mirror.toml"), ONLY),
    ("serve --config tw", {"two words.toml"}, ONLY),
    ("serve -c mi", words("mirror.toml"), ONLY),
    ("serve -c bundles/", words("bundles/today.gsb"), ONLY),
    ("check mi", words("mirror.toml"), ONLY),
    ("check tw", {"two words.toml"}, ONLY),
    ("bundle import pl", words("plain.gsb"), ONLY),
    ("bundle export --since pl", words("plain.gsb"), ONLY),
    ("bundle export --sign pl", words("plain.gsb"), ONLY),
    ("man bu", words("bundles"), ONLY),
    # No files.
    ("origin --listings ", set(), ONLY),
    ("status --admin ", set(), ONLY),
    ("sync ", set(), PATHS),
    ("snapshot rollback ", set(), PATHS),
    ("purge ", set(), PATHS),
    # Keys.
    ("serve --set ", words("ttl= cache.max_bytes= origin.url="), words("--config") | PATHS),
    ("serve --set cache.max_by", words("cache.max_bytes="), ONLY),
    ("serve --set=cache.max_by", words("cache.max_bytes="), ONLY),
    ("bundle export --set origin.ur", words("origin.url="), ONLY),
    ("serve --set ttl=1s --set mirror.ke", words("mirror.keep="), ONLY),
    ("serve --set zzz", set(), ONLY),
]

# The same, and the line after Tab: the value of a key follows without a space.
AFTER_TAB = [
    ("bun", "bundle "),
    ("completions z", "completions zsh "),
    ("serve --set cache.max_by", "serve --set cache.max_bytes="),
    ("serve --set=cache.max_by", "serve --set=cache.max_bytes="),
    ("serve --config mir", "serve --config mirror.toml "),
    ("serve --config bun", "serve --config bundles/"),
    ("serve --config tw", "serve --config two\\ words.toml "),
    ("bundle export --format c", "bundle export --format csv "),
]


def fail(message, code=1):
    print(f"completions: {message}", file=sys.stderr)
    sys.exit(code)


class Help:
    """A command as its help describes it: the commands below it, and the options with their descriptions."""

    def __init__(self, binary, words):
        ran = subprocess.run([binary, *words, "--help"], capture_output=True, text=True, check=True)
        sections = re.split(r"^(\w+):$", ran.stdout, flags=re.M)
        self.words = words
        self.commands = re.findall(r"^  ([a-z]+)", self.section(sections, "Commands"), re.M)
        options = re.split(r"^ +(?:-\w, )?(--[\w-]+)", self.section(sections, "Options"), flags=re.M)[1:]
        self.options = {name: self.about(text) for name, text in zip(options[::2], options[1::2])}
        # It differs between short and long help.
        self.options["--help"] = "Print help"

    @staticmethod
    def section(sections, name):
        return sections[sections.index(name) + 1] if name in sections else ""

    @staticmethod
    def about(text):
        """The first paragraph, without the name of a value and without defaults."""
        about = re.split(r"\n\s*\n", re.sub(r"^ <[^>]*>", "", text).strip())[0]
        return re.sub(r" ?\[(default|possible values): .*", "", " ".join(about.split()))


def helps(binary, words=()):
    """The help of a command, and of every command below it."""
    here = Help(binary, list(words))
    return [here] + [one for name in here.commands if name != "help" for one in helps(binary, [*words, name])]


def packaged(top, scripts):
    """Puts the scripts below a directory, where the Debian package has them."""
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["metadata"]["deb"]["assets"]
    names = {"grandstand.bash": "bash", "_grandstand": "zsh", "grandstand.fish": "fish"}
    for source, target, _ in package:
        if shell := names.pop(Path(source).name, None):
            path = top / (f"{target}{Path(source).name}" if target.endswith("/") else target)
            path.parent.mkdir(parents=True)
            path.write_text(scripts[shell])
    if names:
        fail(f"Cargo.toml: the Debian package lacks {', '.join(names)}")


class World:
    """A directory for everything: a home without settings, the program, the scripts, and files to complete."""

    def __init__(self, top, binary):
        self.top, self.here, self.root = top, top / "here", top / "root"
        for directory in [top / "home", top / "bin", self.here, *(self.here / name for name in DIRECTORIES)]:
            directory.mkdir()
        for name in [*FILES, "bundles/today.gsb"]:
            (self.here / name).touch()
        (top / "bin/grandstand").symlink_to(binary)
        printed = lambda shell: subprocess.run([binary, "completions", shell], capture_output=True, text=True, check=True)
        packaged(self.root, {shell: printed(shell).stdout for shell in ["bash", "zsh", "fish"]})
        self.environment = {
            "HOME": str(top / "home"), "PATH": f"{top / 'bin'}:{os.environ['PATH']}", "TERM": "xterm", "LC_ALL": "C.UTF-8",
            "XDG_DATA_DIRS": f"{self.root / 'usr/share'}:/usr/local/share:/usr/share",
        }

    def terminal(self, name, load, keys, command):
        """A shell that reads the commands `load` and `keys`; what `load` prints is in a file."""
        log, home = self.top / f"{name}.log", self.top / name
        home.mkdir()
        # The names that bash and zsh give them.
        for file in [".bashrc", ".zshrc"]:
            (home / file).write_text(f"{{ {load}\n}} >{shlex.quote(str(log))} 2>&1\n{keys}")
        environment = {**self.environment, "ZDOTDIR": str(home), "INPUTRC": "/dev/null"}
        return Terminal(name, [part.format(home=home) for part in command], environment, self.here, log)

    def bash(self, name, load):
        return self.terminal(name, load, BASH, ["bash", "--noprofile", "--rcfile", "{home}/.bashrc", "-i"])

    def zsh(self, name, load):
        return self.terminal(name, load, ZSH, ["zsh", "-d", "-i"])

    def fish(self, name, load):
        return Fish(name, load, self.environment, self.here)

    def ways(self):
        """The shells with their ways to load a script. Each starts when it is asked for."""
        compinit = "autoload -Uz compinit && compinit -u -D"
        # Where Debian's zsh looks for completions, below the root of the package.
        looks = f"fpath=({shlex.quote(str(self.root))}$^fpath $fpath)"
        return [
            ("bash", "bash-strict", self.bash, "set -u\nsource <(grandstand completions bash)"),
            ("bash", "bash-packaged", self.bash, f"source {BASH_COMPLETION}"),
            ("zsh", "zsh-sourced", self.zsh, f"{compinit}\nsource <(grandstand completions zsh)"),
            ("zsh", "zsh-packaged", self.zsh, f"{looks}\n{compinit}"),
            ("fish", "fish-sourced", self.fish, "grandstand completions fish | source"),
            ("fish", "fish-packaged", self.fish, ""),
        ]


def faults_of_table(offers):
    for (_, offered, absent), offer in zip(TABLE, offers):
        if missing := offered - offer.words:
            yield f"{offer.typed!r}: not offered: {sorted(missing)}"
        if wrong := offer.words - offered if absent is ONLY else offer.words & absent:
            yield f"{offer.typed!r}: offered, too: {sorted(wrong)}"


def faults_after_tab(offers):
    for (_, line), offer in zip(AFTER_TAB, offers):
        if offer.completed not in (None, f"grandstand {line}"):
            yield f"{offer.typed!r}: after Tab it is {offer.completed!r}"


def faults_of_options(commands, offers, has_descriptions):
    for command, offer in zip(commands, offers):
        options = set(command.options)
        if offer.words != options:
            yield f"{offer.typed!r}: offered, and not in the help, or the other way round: {sorted(offer.words ^ options)}"
        # A single one is completed, and not shown.
        for name, about in command.options.items() if has_descriptions and len(options) > 1 else []:
            if name in offer.words and about not in offer.text:
                yield f"{offer.typed!r}: {name} lacks its description: {about}"


def tried(name, shell, commands):
    """Whether a shell offers what it should."""
    began = time.monotonic()
    typed = [*(row[0] for row in TABLE + AFTER_TAB), *(" ".join([*command.words, "--"]) for command in commands)]
    offers = shell.offers([f"grandstand {line}" for line in typed])
    tabs, options = len(TABLE), len(TABLE + AFTER_TAB)
    complaints = [(offer.typed, COMPLAINT.search(offer.text)) for offer in offers]
    faults = [
        *([f"the script prints: {said}"] if (said := shell.said()) else []),
        *faults_of_table(offers[:tabs]),
        *faults_after_tab(offers[tabs:options]),
        *faults_of_options(commands, offers[options:], not name.startswith("bash")),
        *(f"{line!r} prints: {complaint[0]!r}" for line, complaint in complaints if complaint),
    ]
    for fault in faults[:SHOWN]:
        print(f"completions: {name}: {fault}")
    print(f"completions: {name}: {len(offers)} lines, {len(faults)} faults, {time.monotonic() - began:.1f} s", flush=True)
    return not faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=ROOT / "target/debug/grandstand", type=Path)
    parser.add_argument("--only", choices=["bash", "zsh", "fish"])
    parser.add_argument("--show", metavar="LINE", help="print what is offered for a line, and test nothing")
    arguments = parser.parse_args()
    missing = [shell for shell in ["bash", "zsh", "fish"] if not shutil.which(shell)]
    missing += [] if BASH_COMPLETION.exists() else ["bash-completion"]
    if missing:
        fail(f"{', '.join(missing)} missing; nothing was checked", 69)
    if not arguments.binary.exists():
        fail(f"{arguments.binary} is missing; build it with: cargo build --locked")
    binary = arguments.binary.resolve()
    commands = helps(binary)
    if len(commands) < 20:
        fail(f"the help names only {len(commands)} commands")
    well = True
    with tempfile.TemporaryDirectory() as top:
        world = World(Path(top).resolve(), binary)
        for kind, name, start, script in world.ways():
            if arguments.only not in (None, kind):
                continue
            shell = start(name, script)
            try:
                if arguments.show is None:
                    well &= tried(name, shell, commands)
                else:
                    [offer] = shell.offers([arguments.show])
                    print(f"{name}: {sorted(offer.words)}, {offer.completed!r}")
            finally:
                shell.stop()
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
