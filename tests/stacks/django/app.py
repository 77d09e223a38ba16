"""The API on Django REST framework: its paginator (an empty list has one page, a page beyond the last is 404), numbers by int().

Reads the SQLite file that the environment names. `application` is what gunicorn runs.
"""

import hashlib
import json
import os

import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="tests", USE_TZ=True, TIME_ZONE="UTC", INSTALLED_APPS=["rest_framework"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DATABASE"]}},
    MIDDLEWARE=["django.middleware.gzip.GZipMiddleware", "django.middleware.http.ConditionalGetMiddleware"],
    REST_FRAMEWORK={"DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"], "UNAUTHENTICATED_USER": None,
                    "DEFAULT_AUTHENTICATION_CLASSES": [], "DEFAULT_PERMISSION_CLASSES": []},
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import models  # noqa: E402
from django.db.models import Count, F  # noqa: E402
from django.http import Http404  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils import timezone  # noqa: E402
from django.utils.dateparse import parse_date, parse_datetime  # noqa: E402
from rest_framework import pagination, serializers  # noqa: E402
from rest_framework.decorators import api_view  # noqa: E402
from rest_framework.response import Response  # noqa: E402

BASE, FRESH = os.environ["BASE"], os.environ["FRESH"]
COLUMNS = {"sport": "sport", "state": "state_slug", "city": "city_slug"}
TERMS = {"sports": ("sport", "sport_name", "sport"), "states": ("state_slug", "state", "state"), "cities": ("city_slug", "city", "city")}


class Listing(models.Model):
    id = models.IntegerField(primary_key=True)
    name, url, city, city_slug, state, state_slug, sport, sport_name, detail = (models.TextField() for _ in range(9))
    lat, lng, rating = (models.FloatField() for _ in range(3))
    review_count, deleted = models.IntegerField(), models.IntegerField()
    modified = models.TextField()

    class Meta:
        managed, db_table, app_label = False, "listings", "venues"


class Summary(serializers.ModelSerializer):
    class Meta:
        model = Listing
        fields = ["id", "name", "url", "city", "state", "sport", "lat", "lng", "rating", "review_count", "modified"]


class Pages(pagination.PageNumberPagination):
    page_size, page_size_query_param, max_page_size = 50, "per_page", 100


def send(body, **volatile):
    tag = hashlib.md5(json.dumps(body).encode()).hexdigest()
    return Response({**body, **volatile}, headers={"ETag": f'"{tag}"', "Cache-Control": f"public, max-age={FRESH}"})


def instant(text):
    """As `make_aware` reads it: without an offset in the zone of the server, a date is its midnight."""
    try:
        day = parse_date(text)
        if day:
            return timezone.make_aware(timezone.datetime.combine(day, timezone.datetime.min.time()))
        at = parse_datetime(text)
        return timezone.make_aware(at) if at and timezone.is_naive(at) else at
    except (ValueError, OverflowError):
        return None


@api_view(["GET"])
def listings(request):
    found, filters = Listing.objects.filter(deleted=0), {}
    for name, column in COLUMNS.items():
        if value := request.query_params.get(name):
            filters[name] = value
            found = found.filter(**{column: value})
    if text := request.query_params.get("modified_since"):
        since = instant(text)
        if since is None:
            raise serializers.ValidationError({"modified_since": ["Enter a valid date/time."]})
        filters["modified_since"] = text
        # The column is text of whole seconds in UTC; "Z" sorts after a fraction's point, as it must.
        found = found.filter(modified__gt=since.astimezone(timezone.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    pages = Pages()
    rows = pages.paginate_queryset(found.order_by("-modified", "-id"), request)
    return send({
        "@context": "https://schema.org", "license": "https://creativecommons.org/licenses/by/4.0/", "attribution": "Venues",
        "docs": f"{BASE}/docs", "@type": "ItemList", "page": pages.page.number, "per_page": pages.page.paginator.per_page,
        "total": pages.page.paginator.count, "total_pages": pages.page.paginator.num_pages, "filters": filters,
        "items": Summary(rows, many=True).data}, generated_at=timezone.now().isoformat())


@api_view(["GET"])
def listing(_request, pk):
    row = Listing.objects.filter(deleted=0, pk=pk).first()
    if row is None:
        raise Http404
    return send(json.loads(row.detail))


@api_view(["GET"])
def terms(_request, kind):
    slug, name, parameter = TERMS[kind]
    found = Listing.objects.filter(deleted=0).values(key=F(slug), label=F(name)).annotate(listings=Count("id")).order_by("key")
    return send({"count": len(found), "results": [
        {"slug": term["key"], "title": term["label"], "listings": term["listings"],
         "api_url": f"{BASE}/api/listings.json?{parameter}={term['key']}"} for term in found]})


urlpatterns = [path("api/listings.json", listings), path("api/listings/<int:pk>.json", listing),
               *[path(f"api/{kind}.json", terms, {"kind": kind}) for kind in TERMS]]
application = get_wsgi_application()
