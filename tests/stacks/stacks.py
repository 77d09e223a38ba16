"""The stacks: what each consists of, how it starts, and what is known of it. Callers: run.py.

A stack starts below a scratch directory, on free ports. `front` is the port of its cache, `direct` that of the application
behind it, which always tells the truth.
"""

import grp
import os
import pwd
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import install
import world
from processes import free_port

HERE = Path(__file__).resolve().parent
# Seconds that a cache may keep an answer.
FRESH = 3


@dataclass
class Stack:
    """A kind of stack, before it runs."""

    start: object  # (stack, children, base) -> Running
    words: str
    options: dict = field(default_factory=dict)
    # How old a copy is at most, in seconds: what the mirror is told as `origin.cache_ttl`.
    cache_ttl: int = FRESH
    silent: bool = False  # the cache sends no Age
    disproves: bool | None = False  # whether it filters otherwise than assumed (dates or times in its own zone); None: as may be
    shuffles: bool = False  # keys have another order at each answer
    normalises: bool = False  # it shows `modified_since` in another spelling; the mirror's echo is the client's
    partial: bool = False  # its pages do not show every listing
    ties: str = ""  # the order is not unique, so that pages contradict each other: "at first", or after a change


@dataclass
class Running:
    front: int
    direct: int
    world: world.World


def _render(source, target, **values):
    text = (HERE / source).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    target.write_text(text)
    return target


def _servants(user):
    """The user and group that a server started by root should become; else who we are."""
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        return entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name
    return pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name


def _sqlite(scratch, after=lambda _connection: None):
    rows = world.World()
    rows.fill(world.sqlite(scratch / "venues.db", after), "TEXT", "TEXT")
    return rows


def php(stack, children, base):
    apache, fpm = install.programs({"apache2": ["apache2"], "php-fpm": ["/usr/sbin/php-fpm*"]})
    install.programs({"php-sqlite3": ["/usr/lib/php/*/pdo_sqlite.so"]})
    scratch, front, direct, fcgi = children.scratch, free_port(), free_port(), free_port()
    rows = _sqlite(scratch)
    user, group = _servants("www-data")
    # Where the user that Apache becomes may read it.
    (scratch / "site").mkdir()
    shutil.copy(HERE / "php" / "index.php", scratch / "site")
    (scratch / "cache").mkdir()
    if os.geteuid() == 0:
        shutil.chown(scratch / "cache", user, group)
    mark, since = stack.options.get("mark", "no"), stack.options.get("since", "time")
    names = {"SCRATCH": scratch, "FRONT": front, "DIRECT": direct, "FCGI": fcgi, "BASE": base, "FRESH": FRESH,
             "USER": user, "GROUP": group, "MARK": mark, "SINCE": since, "AS_USER": f"user = {user}\ngroup = {group}" if os.geteuid() == 0 else ""}
    children.start("php-fpm", [fpm, "--fpm-config", _render("php/fpm.conf", scratch / "fpm.conf", **names)], fcgi)
    config = _render("php/httpd.conf", scratch / "httpd.conf", **names)
    children.start("apache", [apache, "-D", "FOREGROUND", "-f", config], direct)
    return Running(front, direct, rows)


def perl(_stack, children, base):
    (apache,) = install.programs({"apache2": ["apache2"]})
    install.programs({"libjson-xs-perl": ["/usr/lib/*/perl5/*/JSON/XS.pm"]})
    scratch, front = children.scratch, free_port()
    file, (user, group) = scratch / "rows.json", _servants("www-data")
    rows = _sqlite(scratch, world.rows_as_json(file))
    (scratch / "site").mkdir()
    shutil.copy(HERE / "perl" / "venues.pl", scratch / "site")
    (scratch / "site" / "venues.pl").chmod(0o755)
    config = _render("perl/httpd.conf", scratch / "httpd.conf", SCRATCH=scratch, FRONT=front, BASE=base, ROWS=file, USER=user,
                     GROUP=group)
    children.start("apache", [apache, "-D", "FOREGROUND", "-f", config], front)
    return Running(front, front, rows)


def express(stack, children, base):
    (nginx,) = install.programs({"nginx-light": ["nginx"]})
    home = install.npm("express", ["express@5.1.0"])
    scratch, front, direct = children.scratch, free_port(), free_port()
    file = scratch / "rows.json"
    rows = _sqlite(scratch, world.rows_as_json(file))
    environment = {"PORT": str(direct), "BASE": base, "ROWS": str(file), "FRESH": str(FRESH), "TZ": "America/New_York",
                   "NODE_PATH": str(home / "node_modules"), "NODE_ENV": "production", **stack.options}
    children.start("express", ["node", HERE / "express" / "server.js"], direct, environment)
    config = _render("express/nginx.conf", scratch / "nginx.conf", SCRATCH=scratch, FRONT=front, DIRECT=direct, FRESH=FRESH)
    children.start("nginx", [nginx, "-p", scratch, "-e", scratch / "nginx-error.log", "-c", config], front)
    return Running(front, direct, rows)


def django(_stack, children, base):
    (varnish,) = install.programs({"varnish": ["varnishd"]})
    python = install.pip("django", ["django==5.2.8", "djangorestframework==3.16.1", "gunicorn==23.0.0"])
    scratch, front, direct = children.scratch, free_port(), free_port()
    rows = _sqlite(scratch)
    environment = {"DATABASE": str(scratch / "venues.db"), "BASE": base, "FRESH": str(FRESH)}
    command = [python, "-m", "gunicorn", "--chdir", HERE / "django", "--bind", f"127.0.0.1:{direct}", "--threads", 4,
               "--keep-alive", 60, "--worker-tmp-dir", scratch, "app:application"]
    children.start("django", command, direct, {**environment, "PYTHONDONTWRITEBYTECODE": "1"})
    config = _render("django/varnish.vcl", scratch / "varnish.vcl", DIRECT=direct, FRESH=FRESH)
    _varnish(children, varnish, config, front)
    return Running(front, direct, rows)


def _varnish(children, varnish, config, front):
    home = children.scratch / "varnish"
    command = [varnish, "-F", "-j", "none", "-n", home, "-a", f"127.0.0.1:{front}", "-f", config, "-s", "malloc,32m"]
    children.start("varnish", command, front)


def fastapi(_stack, children, base):
    packages = ["fastapi==0.121.2", "fastapi-cache2==0.2.2", "uvicorn==0.38.0"]
    python = install.pip("fastapi", packages)
    scratch, front, direct = children.scratch, free_port(), free_port()
    rows = _sqlite(scratch)
    environment = {"DATABASE": str(scratch / "venues.db"), "BASE": base, "FRESH": str(FRESH), "PYTHONDONTWRITEBYTECODE": "1"}
    for name, port, cached in (("fastapi-direct", direct, "no"), ("fastapi", front, "yes")):
        command = [python, "-m", "uvicorn", "--app-dir", HERE / "fastapi", "--host", "127.0.0.1", "--port", port,
                   "--log-level", "warning", "app:app"]
        children.start(name, command, port, {**environment, "CACHE": cached})
    return Running(front, direct, rows)


def postgres(stack, children, base):
    psql, edge = install.programs({"postgresql-client": ["psql"], **_edge(stack)})
    server, initdb = install.programs({"postgresql": ["/usr/lib/postgresql/*/bin/postgres", "/usr/lib/postgresql/*/bin/initdb"]})
    home = install.npm("postgres", ["fastify@5.6.1", "pg@8.16.3"])
    scratch, front, direct, port = children.scratch, free_port(), free_port(), free_port()
    data = scratch / "postgres"
    data.mkdir(mode=0o700)
    # PostgreSQL refuses to run as root.
    as_user = []
    if os.geteuid() == 0:
        shutil.chown(data, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    made = install.run([*as_user, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])
    if made != 0:
        raise RuntimeError("initdb failed")
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": data, "fsync": "off", "timezone": "UTC"}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    children.start("postgres", [*as_user, server, "-D", data, *options], port)
    rows = world.World(hidden=stack.options.get("TOTAL") == "all")
    execute = world.postgres(psql, port, "postgres")
    rows.fill(execute, "TIMESTAMPTZ", "JSON")
    if stack.ties == "at first":
        rows.bulk_change()
    environment = {"PORT": str(direct), "BASE": base, "FRESH": str(FRESH), "DATABASE": f"postgres://postgres@127.0.0.1:{port}/postgres",
                   "ORDER": "modified DESC" if stack.ties else "modified DESC, id DESC", "NODE_PATH": str(home / "node_modules"),
                   **stack.options}
    children.start("fastify", ["node", HERE / "postgres" / "server.js"], direct, environment)
    if "EDGE" in stack.options:
        _varnish(children, edge, _render("postgres/edge.vcl", scratch / "edge.vcl", DIRECT=direct, FRESH=FRESH), front)
    else:
        config = _render("postgres/haproxy.cfg", scratch / "haproxy.cfg", FRONT=front, DIRECT=direct, FRESH=FRESH)
        children.start("haproxy", [edge, "-db", "-f", config], front)
    return Running(front, direct, rows)


def _edge(stack):
    return {"varnish": ["varnishd"]} if "EDGE" in stack.options else {"haproxy": ["haproxy"]}


STACKS = {
    "php": Stack(php, "Apache, PHP-FPM, mod_deflate, mod_cache; local dates", disproves=True),
    "php-mark": Stack(php, "the same, with a byte order mark before each body", {"mark": "yes"}, disproves=True),
    "php-text": Stack(php, "the same, `modified_since` compared as text", {"since": "text"}, disproves=True),
    "perl": Stack(perl, "a Perl CGI, whose keys have another order in each process", shuffles=True, disproves=True),
    "express": Stack(express, "Express behind nginx proxy_cache, which sends no Age", cache_ttl=2 * FRESH, silent=True,
                     disproves=True),
    "window": Stack(express, "the same with pages of 50, and a window of 200 results", {"WINDOW": "200"}, cache_ttl=2 * FRESH,
                    silent=True, disproves=None, partial=True),
    "django": Stack(django, "Django REST framework behind Varnish with grace", cache_ttl=2 * FRESH),
    "fastapi": Stack(fastapi, "FastAPI with fastapi-cache2, which sends weak tags and no Age", cache_ttl=FRESH, silent=True,
                     normalises=True),
    "postgres": Stack(postgres, "PostgreSQL with a unique order, Fastify, HAProxy"),
    "edge": Stack(postgres, "the same behind an edge with weak tags, Age and stale answers", {"EDGE": "weak"}, cache_ttl=2 * FRESH),
    "arrays": Stack(postgres, "the same, each detail an array", {"ARRAYS": "yes"}),
    "hidden": Stack(postgres, "the same, `total` counts rows that are deleted softly", {"TOTAL": "all"}, disproves=None),
    "ties": Stack(postgres, "the same without a unique order, and `total` as in hidden", {"TOTAL": "all"}, ties="at first", disproves=None),
    "late-ties": Stack(postgres, "the same without a unique order, which shows after the bulk update", ties="later", disproves=None),
}
