"""Whether the mirror answers as the origin does. Callers: trial.py."""

import json
import re

ITEMS = re.compile(r'"items"\s*:\s*\[')
SEPARATOR = re.compile(r"[\s,]*")


class Number(str):
    """A number as it is spelled."""


def parse(body):
    return json.loads(body.decode("utf-8-sig"), parse_int=Number, parse_float=Number)


def raw_items(text):
    """Each item of a list as it is spelled: bytes, escapes and line breaks included."""
    at, decoder, items = ITEMS.search(text).end(), json.JSONDecoder(), []
    while text[(at := SEPARATOR.match(text, at).end())] != "]":
        _, end = decoder.raw_decode(text, at)
        items.append(text[at:end])
        at = end
    return items


def difference(origin, mirror, addresses, in_order=True, spelled=True, formed=True):
    """What differs between two answers, or None. `addresses`: of the origin, and what stands for it here.

    `spelled`: listings are compared byte for byte; else their values. `formed`: all fields of a list are compared, not only its
    total and its listings.
    """
    if origin.status != mirror.status:
        return f"status {mirror.status} instead of {origin.status}"
    if origin.status >= 400 and mirror.media == "application/problem+json":
        return None  # a refusal in other words
    try:
        theirs = parse(origin.body)
    except ValueError:
        return None if origin.body == mirror.body else f"body {mirror.body[:80]!r} instead of {origin.body[:80]!r}"
    try:
        ours = parse(mirror.body)
    except ValueError:
        return f"no JSON: {mirror.body[:80]!r}"
    if isinstance(theirs, dict) and "items" in theirs and isinstance(ours, dict) and "items" in ours:
        return _lists(theirs, ours, origin.body, mirror.body, in_order, spelled, formed)
    rewritten = _rewritten(theirs, *addresses)
    if rewritten != ours:
        return f"{json.dumps(ours)[:160]} instead of {json.dumps(rewritten)[:160]}"
    # What holds no address of ours is as it was sent.
    return _spelling([origin.body.decode("utf-8-sig")], [mirror.body.decode()]) if spelled and rewritten == theirs else None


def _lists(theirs, ours, their_body, our_body, in_order, spelled, formed):
    for key in [*theirs, *ours] if formed else ["total"]:
        if key not in ("generated_at", "items") and theirs.get(key) != ours.get(key):
            return f"{key} {json.dumps(ours.get(key))} instead of {json.dumps(theirs.get(key))}"
    if not in_order:
        return _ties(theirs, ours)
    their_ids, our_ids = ([item["id"] for item in answer["items"]] for answer in (theirs, ours))
    if their_ids != our_ids:
        return f"{len(our_ids)} items {_few(our_ids)} instead of {len(their_ids)} {_few(their_ids)}"
    if not spelled:
        return _spelling(theirs["items"], ours["items"])
    return _spelling(raw_items(their_body.decode("utf-8-sig")), raw_items(our_body.decode("utf-8-sig")))


def _ties(theirs, ours):
    """Rows with equal `modified` may stand in any order, so that a cut page holds any of them."""
    their_items, our_items = theirs["items"], ours["items"]
    if len(their_items) != len(our_items):
        return f"{len(our_items)} items instead of {len(their_items)}"
    if theirs["page"] == "1" and len(their_items) < int(theirs["per_page"]):
        their_rows, our_rows = (set(map(json.dumps, items)) for items in (their_items, our_items))
        if their_rows != our_rows:
            return f"other items: {sorted(our_rows - their_rows)[:1]} instead of {sorted(their_rows - our_rows)[:1]}"
    for place, (their, our) in enumerate(zip(their_items, our_items)):
        if their["modified"] != our["modified"]:
            return f"place {place} has {our['id']}, modified {our['modified']}, where the origin's is modified {their['modified']}"
    return None


def _spelling(theirs, ours):
    for their, our in zip(theirs, ours):
        if their != our:
            return f"{str(our)[:120]!r} instead of {str(their)[:120]!r}"
    return None


def _rewritten(value, theirs, ours):
    """The answer with every `api_url` moved from one address to the other."""
    if isinstance(value, list):
        return [_rewritten(one, theirs, ours) for one in value]
    if isinstance(value, dict):
        moved = {key: _rewritten(one, theirs, ours) for key, one in value.items()}
        if isinstance(moved.get("api_url"), str):
            moved["api_url"] = moved["api_url"].replace(theirs, ours, 1)
        return moved
    return value


def _few(ids):
    return f"[{', '.join(ids[:4])}{', ..' if len(ids) > 4 else ''}]"
