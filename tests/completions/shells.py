"""bash, zsh and fish, asked for completions: bash and zsh at a terminal, as a person asks, fish by its own `complete -C`."""

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time

# Seconds for each wait.
PATIENCE = 120

# Control characters around everything that is read from a shell: people and scripts print none of them.
PROMPT = "\x1e>\x1f"
LINE = re.compile("\x1e=(.*?)\x1f", re.S)

# Ctrl-X a inserts all that is offered; Ctrl-X r reports the line, and clears it.
BASH = r"""
PS1=$'\036>\037'
bind 'set show-all-if-ambiguous on'
bind 'set page-completions off'
bind 'set completion-query-items 0'
bind '"\C-xa": insert-completions'
report() { printf '\036=%s\037' "$READLINE_LINE"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\C-xr": report'
"""
ZSH = r"""
PS1=$'%{\036>\037%}' LISTMAX=10000
zle -C every complete-word _generic
zstyle ':completion:every::::' completer _all_matches _complete
zstyle ':completion:every:*' insert true
report() { print -rn -- $'\036='$BUFFER$'\037' >/dev/tty; BUFFER= }
zle -N report
bindkey -e
bindkey '^Xa' every
bindkey '^Xr' report
"""
FISH = r"""
while read --local typed
    printf '\x1e=%s\n' $typed
    complete -C $typed
end
"""

# What a shell prints when a script does something wrong.
COMPLAINT = re.compile(r".*(?:unbound variable|not found|bad substitution|: line \d+: |_\w+:\d+: |_arguments:).*")


class Offer:
    """What a shell offers for a line."""

    def __init__(self, typed, words, text, completed=None):
        """`text`: what the shell has shown. `completed`: the line after Tab; None: not known."""
        self.typed, self.text, self.completed = typed, text, completed
        # Some shells show the `=` of an option, the slash of a directory and an option before its value, others do not.
        plain = [word.rstrip("/") for word in words]
        self.words = {word.rstrip("=") if word.startswith("--") else word for word in plain}


class Terminal:
    """A shell at a terminal."""

    def __init__(self, name, command, environment, directory, log):
        """`log`: the file with what the shell prints while it starts."""
        self.name, self.log, self.text = name, log, ""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(directory)
            os.execvpe(command[0], command, environment)
        # Wide enough for a description beside each word.
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 100, 500, 0, 0))
        self.read_until(lambda: PROMPT in self.text)

    def read_until(self, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            is_readable = select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]
            try:
                read = os.read(self.terminal, 65536) if is_readable else b""
            except OSError:
                read = b""
            if not read:
                sys.exit(f"completions: {self.name} has stopped, or does not answer: {self.text[-2000:]!r}")
            self.text += read.decode(errors="replace")

    def line(self, keys):
        """The line after these keys."""
        self.text = ""
        os.write(self.terminal, f"{keys}\x18r".encode())
        self.read_until(lambda: LINE.search(self.text))
        return LINE.search(self.text)[1]

    def offers(self, lines):
        return [self.offer(typed) for typed in lines]

    def offer(self, typed):
        every, text = self.line(f"{typed}\x18a"), self.text
        completed = self.line(f"{typed}\t")
        kept = typed[: max(typed.rfind(" "), typed.rfind("=")) + 1]
        if not every.startswith(kept):
            sys.exit(f"completions: {self.name} makes {every!r} of {typed!r}, and prints {text[-500:]!r}")
        words = [] if every == typed else shlex.split(every[len(kept) :])
        return Offer(typed, words, text + self.text, completed)

    def said(self):
        """What the shell has printed while it loaded the script."""
        return self.log.read_text().strip()

    def stop(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


class Fish:
    """fish, which is asked for many lines at once."""

    def __init__(self, name, load, environment, directory):
        self.name, self.environment, self.directory, self.errors = name, environment, directory, ""
        self.script = f"{load}\n{FISH}"

    def offers(self, lines):
        ran = subprocess.run(
            ["fish", "--private", "-c", self.script], input="".join(f"{line}\n" for line in lines), text=True,
            capture_output=True, env=self.environment, cwd=self.directory, check=False, timeout=PATIENCE,
        )
        self.errors = ran.stderr
        answers = ran.stdout.split("\x1e=")[1:]
        if len(answers) != len(lines):
            sys.exit(f"completions: {self.name} ended with {ran.returncode}: {ran.stderr[-2000:]}")
        return [self.offer(*answer.split("\n", 1)) for answer in answers]

    @staticmethod
    def offer(typed, text):
        words = [line.split("\t")[0] for line in text.splitlines()]
        # Of `--config=FILE`, the other shells show FILE.
        option, is_value, _ = typed.rsplit(" ", 1)[-1].rpartition("=")
        if is_value:
            words = [word.removeprefix(f"{option}=") for word in words]
        return Offer(typed, words, text)

    def said(self):
        """What fish has printed beside its answers."""
        return self.errors.strip()

    def stop(self):
        """It has ended."""
