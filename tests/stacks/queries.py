"""What is asked of origin and mirror: ordinary queries and odd ones, each with the name of its kind. Callers: trial.py."""

import datetime
import itertools

from world import CITIES, SPORTS

STATES = sorted({city[2] for city in CITIES})
NUMBERS = ["2.0", "+2", "%2B2", "%202", "2%20", "2abc", "02", "1_0", "1e1", "0", "-1", "word", "", "99999999"]
SLUGS = ["sport=Golf", "sport=GOLF", "state=TEXAS", "state=Texas", "city=austin%20", "city=%20austin", "city=Canon-City", "sport=",
         "sport=curling", "state=atlantis", "city=nowhere", "sport=curling&page=2", "city=chicago&state=texas", "sport=golf&sport=tennis"]
DATES = ["{0:%Y%m%d}", "{0:%Y%m%d}T120000Z", "{0:%G}-W{0:%V}-{0:%u}", "{0:%G}-W{0:%V}", "{0:%Y-%m-%d}T12:00:00,5Z",
         "{0:%Y-%m-%d}T12:00:00.1234567891Z", "{0:%Y-%m-%d}%2012:00:00", "{0:%Y-%m-%d}T12:00", "{0:%Y-%m}",
         "{0:%Y-%m-%d}T12:00:00%2B25:00", "{0:%Y-%m-%d}T23:59:60Z"]


def lists(stamps):
    """(kind, target) of every list query. `stamps`: times as the origin shows them."""
    for size in (None, 1, 7, 25, 50, 99, 100):
        last = -(-260 // (size or 50))
        for page in sorted({1, 2, last // 2, last, last + 1, last + 9}):
            yield "pages", _list(page=page, per_page=size)
    yield "pages", _list(per_page=101)
    yield "pages", _list(per_page=100000)
    every = [("sport", list(SPORTS)), ("state", STATES), ("city", [city[0] for city in CITIES])]
    for name, slugs in every:
        for slug in slugs:
            yield "filters", _list(**{name: slug}, per_page=100)
            yield "filters", _list(**{name: slug}, page=2, per_page=10)
    for (one, ones), (other, others) in itertools.combinations(every, 2):
        for pair in zip(ones, itertools.cycle(others)):
            yield "filters", _list(**{one: pair[0], other: pair[1]})
    today = datetime.datetime.now(datetime.timezone.utc).date()
    days = [today - datetime.timedelta(days=ago) for ago in range(0, 32)]
    for day in days:
        yield "dates", _list(modified_since=day, per_page=100)
    for day in days[::4]:
        yield "dates", _list(modified_since=day, sport="golf")
        for time in ("T00:00:00Z", "T05:00:00Z", "T12:34:56.789Z", "T00:00:00-06:00", "T00:00:00%2B09:30"):
            yield "times", _list(modified_since=f"{day}{time}", per_page=100)
        yield "times without offset", _list(modified_since=f"{day}T00:00:00", per_page=100)
    for stamp in stamps:
        stamp = datetime.datetime.fromisoformat(stamp).astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
        yield "cursors", _list(modified_since=stamp, per_page=100)
        yield "cursors", _list(modified_since=stamp, sport="golf")
    for form, day in itertools.product(DATES, days[5::12]):
        yield "other dates", _list(modified_since=form.format(day), per_page=100)
    for since in ("9999-12-31", "1970-01-01", f"{today:%Y-%m-%d}T23:59:59Z", "never-ever", "soon", ""):
        yield "other dates", _list(modified_since=since)
    for number in NUMBERS:
        yield "odd numbers", f"/api/listings.json?page={number}"
        yield "odd numbers", f"/api/listings.json?per_page={number}"
    for slug in SLUGS:
        yield "odd slugs", f"/api/listings.json?{slug}"


def _list(**parameters):
    words = "&".join(f"{name}={value}" for name, value in parameters.items() if value is not None)
    return f"/api/listings.json?{words}"


def others(ids):
    """Taxonomies, every detail, and ids that are odd."""
    for kind in ("sports", "states", "cities"):
        yield "taxonomies", f"/api/{kind}.json"
    for number in ids:
        yield "details", f"/api/listings/{number}.json"
    for odd in ("012", "0", "-5", "12.0", "%2012", "12abc", "abc", "999999", "1_2"):
        yield "odd ids", f"/api/listings/{odd}.json"
