# Varnish as a shield of the rate-limited origin. shields.py fills in the names between @.
vcl 4.1;

import std;

backend origin {
    .host = "127.0.0.1";
    .port = "@PORT@";
    .connect_timeout = 2s;
    .first_byte_timeout = 10s;
    .between_bytes_timeout = 10s;
}

sub vcl_recv {
    if (req.url == "/ready") {
        return (synth(204));
    }
    set req.url = std.querysort(req.url);
    unset req.http.Cookie;
}

sub vcl_backend_response {
    # Stale for a day while it is fetched in the background, and kept for revalidation.
    set beresp.grace = 24h;
    set beresp.keep = 24h;
    if (beresp.status == 429 || beresp.status >= 500) {
        # A refresh that fails leaves the stale copy alone; a first fetch that fails is told, not kept.
        if (bereq.is_bgfetch) {
            return (abandon);
        }
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
        set beresp.grace = 0s;
        set beresp.keep = 0s;
        return (deliver);
    }
    if (beresp.status == 404) {
        set beresp.ttl = 10s;
    }
}

sub vcl_backend_error {
    if (bereq.is_bgfetch) {
        return (abandon);
    }
}
