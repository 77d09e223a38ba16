"""grandstand as a mirror of one stack, and what it says of itself. Callers: trial.py."""

import email.utils
import http.client
import json
import random
from collections import namedtuple

from processes import free_port

TTL = 8
# `confirmed`: the instant of `Mirror-Confirmed`, in seconds of the wall clock, or 0. `media`: the type of the body.
Answer = namedtuple("Answer", "status body confirmed media")


def client():
    """The address of another client: each has two requests a minute whose answer the documentation leaves open."""
    return "10." + ".".join(str(random.randrange(256)) for _ in range(3))


class Connection:
    """One connection that is kept, to one port."""

    def __init__(self, port):
        self.port, self.connection = port, http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, target):
        """The answer, without a content coding."""
        for attempt in (1, 2):
            try:
                self.connection.request("GET", target, headers={"Accept": "application/json", "X-Forwarded-For": client()})
                answer = self.connection.getresponse()
                confirmed = answer.getheader("Mirror-Confirmed")
                instant = email.utils.parsedate_to_datetime(confirmed).timestamp() if confirmed else 0
                return Answer(answer.status, answer.read(), instant, answer.getheader("Content-Type", ""))
            except (http.client.HTTPException, OSError):
                self.connection.close()
                if attempt == 2:
                    raise


class Mirror:
    def __init__(self, binary, children, origin, cache_ttl):
        self.port, self.admin = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        settings = {
            "origin.url": origin, "origin.cache_ttl": f"{cache_ttl}s", "origin.requests_per_minute": 12000, "ttl": f"{TTL}s",
            "listen": json.dumps([f"127.0.0.1:{self.port}"]), "admin.listen": f"127.0.0.1:{self.admin}",
            "data_dir": str(children.scratch / "data"), "rate_limit.requests_per_minute": 0,
            "client_ip.trusted_proxies": json.dumps(["127.0.0.1"]), "client_ip.header": "x-forwarded-for",
        }
        words = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        children.start("grandstand", [binary, "serve", *words], self.admin, {"NO_COLOR": "1"})

    def ready(self):
        return Connection(self.admin).get("/readyz").status == 200

    def status(self):
        """The HTTP status of `/status`, and what it says."""
        answer = Connection(self.admin).get("/status")
        return answer.status, json.loads(answer.body)
