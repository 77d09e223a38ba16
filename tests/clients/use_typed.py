"""Uses the client that openapi-generator has generated in `of-python/`: it raises errors, with the body as text."""

import sys

sys.path.insert(0, "of-python")

from openapi_client import APIApi, ApiClient, ApiException, Configuration  # noqa: E402

api = APIApi(ApiClient(Configuration(host=sys.argv[1])))
page = api.listings(per_page=2)
assert page.total == 400 and isinstance(page.items[0].id, int), page
assert api.listing(page.items[0].id).phone, page
assert api.sports().items[0].slug

refusing = APIApi(ApiClient(Configuration(host=sys.argv[2])))
for body in ["html", "object", "list", "problem", "text"]:
    try:
        refusing.listings(city="404", sport=body)
    except ApiException as error:
        assert error.status == 404 and "gone" in error.body, error
    else:
        raise AssertionError(body)
print("clients: the other Python client works")
