"""The sample origin and its edits, and grandstand as a mirror of it. Not what clients ask of them."""

import json
import subprocess

from .processes import check, free_port, start, wait_for
from .web import LIST, get, post


def start_origin(binary, core, directory, listings):
    """Its port, and the process, which ends with this one."""
    port = free_port()
    command = [binary, "origin", "--listen", f"127.0.0.1:{port}", "--listings", listings, "--until-stdin-closes"]
    pipe = subprocess.PIPE
    child = start(command, core, directory / "origin.log", stdin=pipe, stdout=pipe, text=True)
    check(child.stdout.readline(), "the origin did not start")
    wait_for("the origin", 300, lambda: get(port, LIST)[0] == 200)
    return port, child


def edit(origin, line):
    """Changes the origin's data; how many listings that changed."""
    origin.stdin.write(line + "\n")
    origin.stdin.flush()
    return int(origin.stdout.readline())


class Grandstand:
    """The mirror, with everything on that is on by default and a limit that is never reached."""

    def __init__(self, binary, core, directory, origin_port, *more):
        directory.mkdir(exist_ok=True)
        self.port, self.admin = free_port(), free_port()
        self.core, self.log = core, directory / "grandstand.log"
        self.binary = binary
        self.sets = [
            f'listen=["127.0.0.1:{self.port}"]',
            f'public_url="http://127.0.0.1:{self.port}"',
            f'admin.listen="127.0.0.1:{self.admin}"',
            f'data_dir="{directory / "data"}"',
            f'origin.url="http://127.0.0.1:{origin_port}"',
            "origin.requests_per_minute=0",
            'origin.cache_ttl="1s"',
            "rate_limit.requests_per_minute=100000000",
            *more,
        ]
        self.child = self.tls_port = None

    def arguments(self):
        return [part for item in self.sets for part in ("--set", item)]

    def start(self):
        self.child = start([self.binary, "serve", *self.arguments()], self.core, self.log)

    def accepts(self, *sets):
        """Whether this binary takes some more settings; if so, they are its own from now on."""
        command = [self.binary, "check", *self.arguments(), *(part for item in sets for part in ("--set", item))]
        taken = subprocess.run(command, capture_output=True).returncode == 0
        if taken:
            self.sets.extend(sets)
        return taken

    def status(self):
        return json.loads(get(self.admin, "/status")[2])

    def asked(self):
        """Requests to the origin by what they were for."""
        return self.status()["origin"]["requests"]

    def refresh(self):
        """Sets off a refresh and does not wait for it."""
        check(post(self.admin, "/refresh") == 202, "a refresh was not accepted")

    def wait(self, seconds=120):
        """Until every listing is there, and every detail that is fetched ahead, and no term is in doubt."""
        check(self.child is not None, "grandstand was not started")

        def covered():
            status = self.status()
            details, terms = status["details"], status["terms"]
            if terms is None or status["snapshot"]["certificate"] == "provisional":
                return None
            on_demand = 'mirror.details="on-demand"' in self.sets
            whole = on_demand or (details and details["mirrored"] == details["of"])
            return status if whole and not any(term["doubtful"] for term in terms.values()) else None

        return wait_for("full coverage", seconds, covered)
