"""Load: wrk for HTTP/1.1, h2load for HTTP/2 and TLS, openssl for handshakes, a pool of clients for slow servers."""

import http.client
import json
import re
import subprocess
import threading
import time
from pathlib import Path

from .processes import check

PARTS = Path(__file__).resolve().parent.parent / "side_by_side"
CONNECTIONS = 32


def wrk(core, port, target, seconds, headers=None, script="done.lua", arguments=()):
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(PARTS / script)]
    for name, value in (headers or {}).items():
        command += ["-H", f"{name}: {value}"]
    command += [f"http://127.0.0.1:{port}{target}", "--", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30)
    found = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    check(found, f"wrk said nothing:\n{done.stdout}{done.stderr}")
    return json.loads(found[1])


def h2load(core, url, seconds, headers, streams, http1, expected="2xx"):
    """Requests, bytes of bodies, rate; every answer was `expected`."""
    command = ["taskset", "-c", str(core), "h2load", "-t1", f"-c{CONNECTIONS}", f"-m{streams}", "-D", str(seconds)]
    command += ["--h1"] if http1 else []
    for name, value in headers.items():
        command += ["-H", f"{name.lower()}: {value}"]
    done = subprocess.run([*command, url], capture_output=True, text=True, timeout=seconds + 30)
    text = done.stdout
    number = lambda pattern: int((re.search(pattern, text) or check(False, f"h2load said:\n{text}{done.stderr}"))[1])
    requests = number(r"requests: .* (\d+) done")
    check(requests > 0 and number(r"(\d+) failed") == 0, f"{url}: {text}")
    check(number(rf"status codes: .*?(\d+) {expected}") >= requests, f"{url}: {text}")
    # h2load counts the requests that are done; a few bodies more may have come in.
    size = number(r"\((\d+)\) data")
    return {"requests": requests, "bytes": size, "micros": seconds * 1_000_000}


def handshakes(core, port, target, seconds):
    """New connections with a full handshake and one request each, one after another."""
    command = ["taskset", "-c", str(core), "openssl", "s_time", "-new", "-connect", f"127.0.0.1:{port}"]
    command += ["-time", str(seconds), "-www", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30)
    found = re.search(r"(\d+) connections in (\d+) real seconds, (\d+) bytes", done.stdout)
    check(found and int(found[1]) > 0, f"openssl s_time said:\n{done.stdout}{done.stderr}")
    return {"requests": int(found[1]), "micros": seconds * 1_000_000, "bytes": int(found[3]) * int(found[1])}


class Pool:
    """A few clients that ask one after another, for servers that answer in milliseconds: what was begun is finished
    before it counts."""

    CLIENTS = 4

    def __init__(self, port):
        self.port, self.next = port, 0

    def run(self, items, seconds):
        """Asks until the time is over, each client once at least. `items`: the requests that one answer takes. Items
        answered, and the seconds it took."""
        lock, errors, answered = threading.Lock(), [], [0]
        began = time.monotonic()

        def work():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            try:
                while True:
                    with lock:
                        item, self.next = items[self.next % len(items)], self.next + 1
                    for request in item:
                        status, _ = ask(connection, request)
                        check_status(status, request)
                    with lock:
                        answered[0] += 1
                    if time.monotonic() - began >= seconds:
                        return
            except Exception as error:  # noqa: BLE001 - reported below, in the thread that can end the run
                errors.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=work) for _ in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(not errors, f"port {self.port}: {errors and errors[0]!r}")
        return answered[0], time.monotonic() - began


def check_status(status, request):
    if status != 200:
        raise ValueError(f"{request}: status {status}")


def ask(connection, request):
    """Sends (method, target, body); the status and the whole answer."""
    method, target, body = request
    connection.request(method, target, body)
    answer = connection.getresponse()
    answer.body = answer.read()
    return answer.status, answer
