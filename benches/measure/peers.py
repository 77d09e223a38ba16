"""The servers beside grandstand that answer hot objects: nginx, Varnish, bare pingora, and the floor in C."""

import json
import os
import re
import string
import subprocess
from pathlib import Path

from .load import PARTS
from .processes import check, free_port, say, start
from .web import raw_answer

# Of the same resource, or made by nginx itself.
LEFT_TO_NGINX = {"date", "etag", "content-type", "content-length", "content-encoding", "connection", "server"}


def header_lines(ours):
    """Our response headers as nginx directives: the same bytes for it to send."""
    lines = []
    for name, value in ours.items():
        if name.lower() in LEFT_TO_NGINX:
            continue
        value = value.replace("\\", "\\\\").replace('"', '\\"')
        lines += [f"            proxy_hide_header {name};", f'            add_header {name} "{value}";']
    return "\n".join(lines)


def start_nginx(core, directory, origin_port, list_headers, other_headers, listen=()):
    """Its port; `listen`: more directives, of other ports."""
    directory.mkdir()
    port = free_port()
    text = string.Template((PARTS / "nginx.conf").read_text()).safe_substitute(
        DIR=directory,
        USER="user root;" if os.geteuid() == 0 else "",
        ORIGIN=f"127.0.0.1:{origin_port}",
        LISTEN=f"127.0.0.1:{port}",
        MORE="\n".join(f"        {line};" for line in listen),
        LIST_HEADERS=header_lines(list_headers),
        OTHER_HEADERS=header_lines(other_headers),
    )
    config = directory / "nginx.conf"
    config.write_text(text)
    return port, start(["nginx", "-p", directory, "-c", config], core, directory / "out.log")


def start_varnish(core, directory, origin_port, *parameters):
    directory.mkdir()
    port = free_port()
    command = ["varnishd", "-F", "-j", "none", "-n", directory, "-a", f"127.0.0.1:{port}", "-T", "none"]
    command += ["-b", f"127.0.0.1:{origin_port}", "-s", "malloc,256m", "-p", "thread_pools=1"]
    # A thread per connection that is in use: enough of them from the start.
    command += ["-p", "thread_pool_min=100"]
    for parameter in parameters:
        command += ["-p", parameter]
    return port, start(command, core, directory / "out.log")


def start_raw(core, directory, number, port_of_ours, target, headers):
    """The floor: a loop that reads and sends what grandstand sent, byte for byte, whatever it is asked."""
    binary = directory / "raw"
    if not binary.exists():
        done = subprocess.run(["cc", "-O2", "-o", binary, PARTS / "raw.c"], capture_output=True, text=True)
        check(done.returncode == 0, f"cc: {done.stderr}")
    answer = directory / f"raw-{number}"
    answer.write_bytes(b"".join(raw_answer(port_of_ours, target, headers)))
    port = free_port()
    return port, start([binary, port, answer], core, directory / "raw.log")


def build_bare():
    """The bare pingora of benches/bare_pingora.rs, in release; None where it cannot be built."""
    command = ["cargo", "build", "--release", "--locked", "--bench", "bare_pingora", "--message-format=json"]
    say(" ".join(command))
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "bare_pingora":
            return message["executable"]
    say(f"bare pingora is left out:\n{done.stderr[-2000:]}")
    return None


def start_bare(binary, core, directory, port_of_ours, requests):
    """Bare pingora with the answers that grandstand gave to some requests: pairs of a target and headers."""
    directory.mkdir()
    for number, (target, headers) in enumerate(requests):
        head, body = raw_answer(port_of_ours, target, headers)
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        status = re.match(r"HTTP/1.1 (\d+)", first)[1]
        # pingora writes the date itself.
        lines = [line for line in lines if line.partition(":")[0].lower() not in ("date", "connection")]
        conditional = "1" if "If-None-Match" in headers else "0"
        (directory / f"{number}.key").write_text(f"{target}\n{headers.get('Accept-Encoding', '')}\n{conditional}\n")
        (directory / f"{number}.head").write_text("\n".join([status, *lines]) + "\n")
        (directory / f"{number}.body").write_bytes(body)
    port = free_port()
    command = [binary, "--listen", f"127.0.0.1:{port}", "--answers", directory]
    return port, start(command, core, directory / "out.log")


def make_certificate(directory):
    """A certificate of our own making and its key, on the curve that most servers use."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "30",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    done = subprocess.run([*command, "-keyout", key, "-out", cert], capture_output=True, text=True)
    check(done.returncode == 0, f"openssl: {done.stderr}")
    return cert, key
