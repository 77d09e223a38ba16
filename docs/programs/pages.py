"""All pages of a list. Waits as `Retry-After` says; the last request gets 304, because nothing has changed. pip install requests"""
import os

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

session = requests.Session()
for scheme in ("http://", "https://"):
    session.mount(scheme, HTTPAdapter(max_retries=Retry(5, status_forcelist=[429, 503])))
url = os.environ.get("MIRROR", "http://127.0.0.1:8080") + "/api/listings.json?state=texas"
while url:
    answer = session.get(url)
    answer.raise_for_status()
    print([venue["name"] for venue in answer.json()["items"]])
    url = answer.links.get("next", {}).get("url")
print(session.get(answer.url, headers={"If-None-Match": answer.headers["ETag"]}).status_code)
