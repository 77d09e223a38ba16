//! Known endpoints: the fields that the origin sees, and those that clients get.

use crate::cache::scene::scenes;

scenes! {
    fields_are_kept_dropped_replaced_or_appended_to_as_promised: r#"
        set rate_limit.requests_per_minute=1000
        GET /api/listings/1.json
            < 200 [1] | cc: max-age=3600 | etag: "a" | link: </terms>; rel="terms-of-service" | cs: edge; hit; ttl=5
            | x-foo: bar | test-header: a | content-foo: b | content-language: en | content-location: /foo
            | content-security-policy: default-src 'self' | x-frame-options: deny | x-xss-protection: 1
            | clear-site-data: cache | last-modified: Wed, 01 Jan 2020 00:00:00 GMT | expires: Fri, 01 Jan 2038 01:01:01 GMT
            | server: the-origin | connection: a, B | a: 1 | b: 2 | keep-alive: timeout=77 | proxy-authenticate: Basic
            | proxy-authentication-info: x | proxy-authorization: x | proxy-connection: x | te: x | upgrade: x
            | set-cookie: a=b | set-cookie2: a=b | alt-svc: h3=":443" | strict-transport-security: max-age=1 | nel: {}
            | report-to: {} | ratelimit-remaining: 7 | access-control-allow-credentials: true | access-control-max-age: 5
            | access-control-allow-methods: PUT | mirror-snapshot: forged | mirror-confirmed: forged
            | ratelimit: "default";r=7;t=7 | ratelimit-policy: "default";q=7;w=7 | accept-ranges: bytes | vary: cookie
            | access-control-allow-origin: https://evil.example | access-control-expose-headers: secret
            | content-md5: x | digest: x | content-digest: x | repr-digest: x
            > 200 [1] | cs: ~edge; hit; ttl=5, grandstand; fwd=uri-miss
        with method: GET || HEAD
        with tag: "other" || "a"
        $method /api/listings/1.json | if-none-match: $tag
            > !500 | x-foo: bar | test-header: a | content-foo: b | content-language: en
            | content-location: /foo | content-security-policy: default-src 'self' | x-frame-options: deny
            | x-xss-protection: 1 | clear-site-data: cache | last-modified: Wed, 01 Jan 2020 00:00:00 GMT
            | expires: Fri, 01 Jan 2038 01:01:01 GMT | server: the-origin | a: - | b: - | proxy-authenticate: -
            | proxy-authentication-info: - | proxy-authorization: - | proxy-connection: - | te: - | upgrade: -
            | set-cookie: - | set-cookie2: - | alt-svc: - | strict-transport-security: - | nel: - | report-to: -
            | ratelimit-remaining: - | access-control-allow-credentials: - | access-control-max-age: -
            | access-control-allow-methods: - | mirror-snapshot: - | mirror-confirmed: - | ratelimit: ~r=9
            | ratelimit-policy: ~q=1000 | accept-ranges: none | vary: accept-encoding | access-control-allow-origin: *
            | access-control-expose-headers: ~Cache-Status | content-md5: - | digest: - | content-digest: - | repr-digest: -
            | etag: W/"a" | link: ~</terms>; rel="terms-of-service" | cs: ~edge; hit; ttl=5, grandstand; hit
    "#

    head_fills_the_cache_for_get: r#"
        HEAD /api/listings/1.json ? GET /api/listings/1.json < 200 [1] | cc: max-age=3600 | etag: "a" | x-foo: bar
            > 200 "" | etag: W/"a" | x-foo: bar | content-length: 3 | content-type: application/json
        GET /api/listings/1.json
            > 200 [1] | etag: W/"a" | x-foo: bar | content-length: 3 | content-type: application/json
    "#

    documents_are_called_json_whatever_the_origin_calls_them: r#"
        each kind: text/html || image/svg+xml || application/javascript || application/jsonp || text/html; application/json
            || application/json | content-type: text/html
        GET /api/listings/1$i.json < 200 [1] | content-type: $kind
            > 200 | content-type: application/json | x-content-type-options: nosniff
        end
        each kind: application/json; charset=utf-8 || Application/JSON ;x=y
        GET /api/listings/2$i.json < 200 [1] | content-type: $kind
            > 200 | content-type: $kind | x-content-type-options: nosniff
    "#

    the_links_of_a_taxonomy_are_rewritten_and_those_of_a_list_are_not: r#"
        set mirror.enabled=false
        GET /api/sports.json
            < 200 [{"slug":"x","name":"X","count":1,"api_url":"ORIGIN/api/listings.json?sport=x"}] | etag: "a"
            > 200 [{"slug":"x","name":"X","count":1,"api_url":"http://mirror.test/api/listings.json?sport=x"}] | etag: W/"a"
        GET /api/listings.json?sport=x < 200 [{"api_url":"ORIGIN/api/listings.json?sport=x"}]
            > 200 [{"api_url":"ORIGIN/api/listings.json?sport=x"}]
    "#

    what_a_client_says_beyond_its_question_changes_nothing_and_stays_here: r#"
        each field: cc: no-cache || cc: max-age=0 || cc: no-store || cc: min-fresh=100000 || cc: max-stale=0
            || cc: only-if-cached || pragma: no-cache || cookie: session=secret || authorization: Bearer secret
            || range: bytes=0-5 || if-range: "a" || if-modified-since: Tue, 01 Jan 2019 01:01:01 GMT
            || if-unmodified-since: Wed, 01 Jan 2020 00:00:00 GMT || x-forwarded-for: 192.0.2.1
            || x-forwarded-host: evil.example || x-forwarded-proto: https || forwarded: for=192.0.2.1;host=evil.example
            || x-real-ip: 192.0.2.1 || via: 1.1 evil || host: evil.example || origin: https://page.example
            || referer: https://page.example/secret || user-agent: a-client/1.0 || accept: text/html || accept-language: de
            || te: trailers || x-http-method-override: DELETE || x-original-url: /admin
            || traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
        GET /api/listings/1$i.json | $field
            ? names: accept, accept-encoding, cdn-loop, host, user-agent, via | accept: application/json
            | user-agent: ~grandstand/ | host: 127.0.0.1:1 | accept-encoding: zstd,gzip,br | via: ~1.1 grandstand-
            < 200 [1] | cc: max-age=3600 | etag: "a" | last-modified: Wed, 01 Jan 2020 00:00:00 GMT
            | vary: cookie, authorization, user-agent, accept-language > 200 [1] | content-range: -
        GET /api/listings/1$i.json | $field > 200 [1] | content-range: -
    "#

    a_refusal_of_a_list_is_the_origins_and_remembered_for_a_minute: r#"
        each status: 400 || 404 || 410 || 422 || 451
        20* GET /api/listings.json?sport=x$i
            < after 1s $status {"error":"no such thing"} | content-type: application/json
            > $status {"error":"no such thing"} | cc: public, max-age=60 | access-control-allow-origin: *
        GET /api/listings.json?sport=x$i > $status | cs: ~hit
    "#

    a_refusal_that_is_not_about_the_question_is_not_passed_on: r#"
        with status: 401 || 403 || 408 || 421 || 425
        GET /api/listings.json?sport=x < $status {"error":"no such thing"} | content-type: application/json
            > problem ~50
    "#

    what_is_missing_is_asked_for_once_by_however_many: r#"
        each status: 404 || 410
        50* GET /api/listings/1$i.json
            < after 100ms $status <html>secret path</html> | content-type: text/html | set-cookie: a=b | x-foo: bar
            > 404 | content-type: ~application/problem+json | set-cookie: - | x-foo: bar | cc: public, max-age=60
        GET /api/listings/1$i.json | cc: no-cache > 404 | cs: grandstand; hit; ttl=59
    "#

    what_is_missing_and_must_not_be_kept_is_asked_for_each_time: r#"
        each turn: 1 || 2 || 3
        GET /api/listings.json?sport=x < 404 | cc: no-store
            > 404 | cc: no-store | cs: grandstand; fwd=uri-miss; fwd-status=404
    "#
}
