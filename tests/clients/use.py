"""Uses the client that openapi-python-client has generated in `client/`: every answer is parsed into its type."""

import sys

from client import Client
from client.api.api import cities, listing, listings, sports, states
from client.api.mirror import changes
from client.models import Changes, ListingPage, TermSet, Venue

client = Client(base_url=sys.argv[1])

page = listings.sync(client=client, per_page=2)
assert isinstance(page, ListingPage) and page.total == 400 and len(page.items) == 2, page
first = page.items[0]
assert isinstance(first.id, int) and isinstance(first.name, str) and isinstance(first.lat, float), first

detail = listing.sync(first.id, client=client)
assert isinstance(detail, Venue) and detail.id == first.id and detail.phone and detail.address, detail

for kind in (sports, states, cities):
    terms = kind.sync(client=client)
    assert isinstance(terms, TermSet) and terms.items[0].slug and terms.items[0].count > 0, terms
filtered = listings.sync(client=client, sport=sports.sync(client=client).items[0].slug)
assert isinstance(filtered, ListingPage) and 0 < filtered.total < 400, filtered

# Errors that the origin may have its own words for are text.
unknown = listing.sync_detailed(4711471147, client=client)
assert unknown.status_code == 404 and isinstance(unknown.parsed, str) and unknown.parsed, unknown
wrong = listings.sync_detailed(client=client, modified_since="yesterday")
assert wrong.status_code == 400 and "yesterday" in wrong.parsed, wrong

snapshot = listings.sync_detailed(client=client).headers["mirror-snapshot"]
since = changes.sync(client=client, since=snapshot)
assert isinstance(since, Changes) and since.changed == [], since
client = Client(base_url=sys.argv[2], raise_on_unexpected_status=True)
for status in ["400", "402", "404", "405", "409", "410", "412", "414", "422", "431", "451"]:
    for body in ["html", "object", "list", "problem", "text"]:
        refused = listings.sync_detailed(client=client, city=status, sport=body)
        assert refused.status_code == int(status) and "gone" in refused.parsed, (body, refused)
for refused in [kind.sync_detailed(client=client) for kind in (sports, states, cities)]:
    assert refused.status_code == 404 and refused.parsed == "<h1>gone</h1>", refused
print("clients: the Python client works")
