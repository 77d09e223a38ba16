//! Known endpoints: revalidation at the origin, and by clients.

use crate::cache::scene::scenes;

scenes! {
    what_is_kept_is_confirmed_with_the_origins_own_validator_and_never_replaced_by_the_empty_304: r#"
        with validators: etag: "a" || etag: W/"a" || etag: "a" | last-modified: Wed, 01 Jan 2020 00:00:00 GMT
            || etag: "a" | vary: Abc
        each short: cc: max-age=1 || cc: max-age=1, must-revalidate || cc: no-cache || expires: @1 | date: @0
            || cc: max-age=10000, no-cache | expires: @10000 | date: @0
            || cc: max-age=3600 | cdn-cache-control: max-age=1
        GET /api/listings/1$i.json < 200 [1] | $short | $validators
            > 200 [1] | cs: grandstand; fwd=uri-miss; fwd-status=200; stored | etag: W/"a"
        wait 2s
        GET /api/listings/1$i.json ? if-none-match: ~"a" < 304 | $short | $validators
            > 200 [1] | cs: grandstand; fwd=stale; fwd-status=304; stored | etag: W/"a" | age: 0
        wait 2s
        GET /api/listings/1$i.json ? if-none-match: ~"a" < 304 | $short | $validators
            > 200 [1] | cs: grandstand; fwd=stale; fwd-status=304; stored | etag: W/"a" | age: 0
    "#

    a_date_confirms_what_has_no_tag: r#"
        GET /api/listings.json?sport=x < 200 [1] | cc: max-age=1 | last-modified: Wed, 01 Jan 2020 00:00:00 GMT
            > 200 [1] | etag: -
        GET /api/listings.json?sport=x | if-modified-since: Wed, 01 Jan 2020 00:00:00 GMT > 304
        GET /api/listings.json?sport=x | if-modified-since: Thu, 02 Jan 2020 00:00:00 GMT > 304
        GET /api/listings.json?sport=x | if-modified-since: Tue, 31 Dec 2019 00:00:00 GMT > 200 [1]
        GET /api/listings.json?sport=x | if-modified-since: yesterday > 200 [1]
        wait 2s
        GET /api/listings.json?sport=x ? if-none-match: - | if-modified-since: Wed, 01 Jan 2020 00:00:00 GMT < 304
            > 200 [1] | last-modified: Wed, 01 Jan 2020 00:00:00 GMT
    "#

    a_304_renews_freshness_for_its_whole_length: r#"
        GET /api/listings/1.json < 200 [1] | cc: max-age=2 | etag: "a" > 200 [1]
        wait 3s
        GET /api/listings/1.json < 304 | etag: "a" > 200 [1]
        wait 1900ms
        GET /api/listings/1.json > 200 [1] | age: 1
        wait 200ms
        GET /api/listings/1.json < 304 | etag: "a" > 200 [1] | age: 0
    "#

    a_304_updates_the_header_but_for_what_describes_the_body: r#"
        GET /api/listings/1.json
            < 200 [1] | cc: max-age=1 | etag: "a" | test-header: A | x-content-foo: A | content-foo: A
            | content-location: /foo | x-kept: A | content-language: en | expires: @99 | age: 1
            > 200 [1] | test-header: A
        wait 2s
        GET /api/listings/1.json | accept-encoding: gzip
            < 304 | cc: max-age=3600 | etag: "a" | test-header: B | x-content-foo: B | x-content-foo: C | content-foo: B
            | content-location: /bar | content-type: text/html | content-length: 3 | content-encoding: gzip
            | set-cookie: a=b | connection: x-hop | x-hop: 1 | access-control-allow-origin: https://evil.example > 200
        GET /api/listings/1.json
            > 200 [1] | test-header: B | x-content-foo: B, C | content-foo: B | content-location: /bar | x-kept: A
            | content-language: en | cc: max-age=3600 | content-type: application/json | etag: W/"a" | content-length: 3
            | access-control-allow-origin: * | set-cookie: - | x-hop: - | age: 0
    "#

    a_client_that_has_it_is_told_so_in_every_coding_and_nothing_of_the_body: r#"
        set rate_limit.requests_per_minute=100
        with tag: "a" || W/"a"
        GET /api/listings/1.json
            < 200 [1] | cc: max-age=3600 | etag: $tag | last-modified: Wed, 01 Jan 2020 00:00:00 GMT | content-language: en
            | link: </terms>; rel="terms-of-service" | date: @0 | age: 7 > 200 [1] | etag: W/"a"
        with coding: identity || br
        with method: GET || HEAD
        each has: W/"a" || "a" || * || "a", "1234", "5678" || "1234" , "5678",W/"a"
        $method /api/listings/1.json | if-none-match: $has | accept-encoding: $coding | if-modified-since: @-9999999999
            > 304 | content-type: - | content-length: - | content-encoding: - | transfer-encoding: - | content-range: -
            | etag: W/"a" | cc: max-age=3600 | vary: accept-encoding | link: ~rel="terms-of-service" | age: 7
            | cs: grandstand; hit; ttl=3592 | date: ~GMT | ratelimit: ~r= | access-control-allow-origin: *
        GET /api/listings/1.json | if-none-match: "1234", W/"5678" > 200 [1]
        GET /api/listings/1.json | if-match: $tag > 412
        GET /api/listings/1.json | if-match: * > 200 [1]
    "#

    a_stale_answer_is_confirmed_before_a_client_is_told_that_it_has_it: r#"
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 | etag: "1" > 200 [1]
        wait 2s
        GET /api/listings/1.json | if-none-match: W/"1" < 304 | cc: max-age=1
            > 304 | cs: grandstand; fwd=stale; fwd-status=304; stored
        wait 2s
        GET /api/listings/1.json | if-none-match: W/"1" < 200 [2] | cc: max-age=1 | etag: "2"
            > 200 [2] | cs: grandstand; fwd=stale; fwd-status=200; stored
    "#

    a_304_that_nobody_asked_for_is_no_answer: r#"
        GET /api/listings/1.json < 304 > problem 502
        GET /api/listings/2.json < 200 [1] | cc: max-age=1 > 200 [1]
        GET /api/listings/3.json < 404 | cc: max-age=1 > 404
        wait 2s
        GET /api/listings/2.json < 304 > 200 [1] | cs: grandstand; fwd=stale; detail=stale-if-error
        GET /api/listings/3.json < 304 > 404 | cs: grandstand; fwd=stale; detail=stale-if-error
    "#

    a_new_body_replaces_the_old_one_in_every_coding_at_once: r#"
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 | etag: "1" > 200 [1]
        GET /api/listings/1.json | accept-encoding: gzip > 200 | etag: W/"1"
        wait 2s
        GET /api/listings/1.json | accept-encoding: gzip < 200 [2] | cc: max-age=60 | etag: "2"
            > 200 | etag: W/"2"
        GET /api/listings/1.json > 200 [2] | etag: W/"2"
    "#
}
