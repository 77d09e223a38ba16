"""Single requests over loopback: what a server answers. Not load."""

import http.client
import re
import socket
import subprocess
import time

from .processes import check

LIST = "/api/listings.json"


def get(port, target, headers=None, timeout=30):
    """Status, headers and body. No field is sent but those given, and Host."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.putrequest("GET", target, skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def post(port, target, timeout=60):
    """The status of a request without a body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", target)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def raw_answer(port, target, headers):
    """Head and body of one answer as they come, on a connection that stays open, as wrk sees it."""
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", *(f"{k}: {v}" for k, v in headers.items())]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += sock.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        size = int(length[1]) if length and b" 304 " not in head.split(b"\r\n")[0] else 0
        while len(body) < size:
            body += sock.recv(65536)
        return head + b"\r\n\r\n", body


def settled(port, target, headers):
    """Asks until an answer is as it will stay: what is hot is coded once more, well, in the background."""
    sizes = []
    for _ in range(50):
        sizes.append(len(get(port, target, headers)[2]))
        # The third request sets it off.
        if len(sizes) >= 10 and len(set(sizes[-5:])) == 1:
            return
        time.sleep(0.1)
    check(False, f"{target} with {headers} does not settle: bodies of {sizes} bytes")


def timeless(body):
    """A body without the time at which it was made."""
    return re.sub(rb'"generated_at":"[^"]*"', b'"generated_at":""', body)


def decoded(port, target, headers, scheme="http", version="1.1", *options):
    """A body with its content coding undone, and without the time at which it was made. `version`: of HTTP, which must
    be the answer's; `options`: of curl."""
    command = ["curl", "-sS", "--fail", "--compressed", *options, "-w", "%{stderr}%{http_version}"]
    command.append(f"{scheme}://127.0.0.1:{port}{target}")
    # curl asks for everything it knows unless told otherwise.
    command += ["-H", f"Accept-Encoding: {headers.get('Accept-Encoding', '')}".rstrip()]
    done = subprocess.run(command, capture_output=True)
    said = done.stderr.decode()
    check(done.returncode == 0 and said == version, f"curl {scheme}, {target}: HTTP {version} expected, {said!r}")
    return timeless(done.stdout)
