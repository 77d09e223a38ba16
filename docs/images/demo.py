#!/usr/bin/env python3
"""Draws demo.svg: real output of `grandstand demo` and of three commands beside it.

    pip install rich pyte
    docs/images/demo.py target/release/grandstand

It needs the ports 8080 and 9090.
"""
import fcntl, os, pathlib, pty, re, select, shutil, signal, struct, subprocess, sys, tempfile, termios, time

import pyte
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

COLUMNS, ROWS = 104, 40
LIST = "http://127.0.0.1:8080/api/listings.json?state=texas&per_page=2"
SHOWN = "HTTP|Age|ETag|Mirror|Cache-S"


def demo(program):
    """Starts the demo in a terminal; the process and the screen when everything is mirrored."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(program, [program, "demo"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream, end = pyte.ByteStream(screen), time.time() + 120
    while not any("Ctrl-C to stop" in line for line in screen.display):
        if time.time() > end:
            sys.exit("the demo was not complete in two minutes")
        if select.select([terminal], [], [], 0.2)[0]:
            stream.feed(os.read(terminal, 65536))
    return pid, "\n".join(line.rstrip() for line in screen.display).strip("\n")


def run(command):
    return subprocess.run(["sh", "-c", command], text=True, stdout=subprocess.PIPE).stdout.strip("\r\n").replace("\r", "")


def main():
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(sys.argv[1], directory + "/grandstand")
        os.environ["PATH"] = directory + ":" + os.environ["PATH"]
        pid, screen = demo("grandstand")
        picture = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), highlight=False)

        def show(command, output):
            picture.print(Text("$ ", "green") + Text(command, "bold"), overflow="fold")
            picture.print(Text(output + "\n"), overflow="fold")

        try:
            show("grandstand demo", screen)
            head = f"curl -sD- -o /dev/null '{LIST}' \\\n    | grep -E '^({SHOWN})'"
            first = run(head)
            show(head, first)
            tag = re.search("ETag: (.*)", first).group(1)
            again = f"curl -sI -H 'If-None-Match: {tag}' \\\n    '{LIST}' | head -n 1"
            show(again, run(again))
            show("grandstand status", run("grandstand status"))
        finally:
            os.kill(pid, signal.SIGINT)
    svg = picture.export_svg(title="grandstand demo", theme=DIMMED_MONOKAI)
    # Forges show no fonts of other hosts in a picture.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S).replace("Fira Code, monospace", "ui-monospace, monospace")
    pathlib.Path(__file__).with_name("demo.svg").write_text(svg)


main()
