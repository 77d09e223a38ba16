"""The servers beside grandstand that answer hot objects: nginx, Varnish, H2O, bare pingora, and the floor in C."""

import gzip
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


def start_h2o(core, directory, port_of_ours, targets, https=None):
    """Its port: HTTP/1.1 and HTTP/2 with prior knowledge. It serves our bodies as files, plain and as gzip. `https`: a
    second port, with the certificate and the key for it."""
    files = directory / "files"
    for target in targets:
        body, file = raw_answer(port_of_ours, target, {})[1], files / target.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(body, 6))
    port = free_port()
    paths = {"/": {"file.dir": str(files), "file.send-compressed": "ON"}}
    # A host for each port: it takes one `listen` in each.
    hosts = {"cleartext": {"listen": {"host": "127.0.0.1", "port": port}, "paths": paths}}
    if https:
        tls_port, cert, key = https
        ssl = {"certificate-file": str(cert), "key-file": str(key), "minimum-version": "TLSv1.3"}
        hosts["https"] = {"listen": {"host": "127.0.0.1", "port": tls_port, "ssl": ssl}, "paths": paths}
    settings = {"num-threads": 1, "error-log": str(directory / "error.log"), "hosts": hosts}
    settings |= {"user": "root"} if os.geteuid() == 0 else {}
    config = directory / "h2o.conf"
    # JSON is YAML.
    config.write_text(json.dumps(settings, indent=1))
    return port, start(["h2o", "-m", "worker", "-c", config], core, directory / "out.log")


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
