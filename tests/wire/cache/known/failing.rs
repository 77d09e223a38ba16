//! Known endpoints: the origin fails, kept answers stand in, others are an honest error, and its return is noticed.

use crate::cache::scene::scenes;

scenes! {
    whatever_goes_wrong_with_the_origin_a_good_answer_stands_in_and_others_are_503: r#"
        set origin.timeout=1s
        set origin.max_body=1KiB
        with fails: 500 [9] | cc: max-age=3600 || 502 || 503 | cc: public, max-age=3600 || 504 || 599 || hang
            || 200 [ | +20s: 1] || hangup
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 | etag: "a" > 200 [1]
        wait 2s
        GET /api/listings/1.json | accept-encoding: gzip < $fails
            > 200 | age: 2..3 | cc: max-age=1 | etag: W/"a" | cs: ~detail=stale-if-error
        wait 90s
        GET /api/listings/1.json | if-none-match: "a" < $fails > 304 | cs: ~detail=stale-if-error
        wait 90s
        GET /api/listings.json?sport=x < $fails > problem 503 | retry-after: 1..60
        wait 90s
        GET /api/listings/1.json < 200 [2] | cc: max-age=60 | etag: "b" > 200 [2]
    "#

    whatever_nonsense_the_origin_answers_a_good_answer_stands_in_and_others_are_502: r#"
        set origin.timeout=1s
        set origin.max_body=1KiB
        with fails: cut 200 [9] || 200 <html>maintenance</html> | cc: max-age=3600
            || 200 {"number":9, | cc: max-age=3600 || 200 || 200 \xff
            || 200 [LARGE] || 200 {} | content-encoding: gzip
            || 301 | location: http://127.0.0.1:1/ || 302 | location: /api/listings.json?sport=other || 307
            || 403 [9] | cc: max-age=3600 || 201 [9] || 206 [9] | content-range: bytes 0-5/6 || 204
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 | etag: "a" > 200 [1]
        wait 2s
        GET /api/listings/1.json | accept-encoding: gzip < $fails
            > 200 | age: 2..3 | cc: max-age=1 | etag: W/"a" | cs: ~detail=stale-if-error
        wait 90s
        GET /api/listings/1.json | if-none-match: "a" < $fails > 304 | cs: ~detail=stale-if-error
        wait 90s
        GET /api/listings.json?sport=x < $fails > problem 502 | retry-after: -
        wait 90s
        GET /api/listings/1.json < 200 [2] | cc: max-age=60 | etag: "b" > 200 [2]
    "#

    beyond_stale_if_error_a_failure_shows: r#"
        set cache.stale_if_error=1s
        with status: 502 || 503
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 > 200 [1]
        wait 3s
        GET /api/listings/1.json < $status > problem 503
    "#

    a_429_is_heeded_and_what_is_kept_stands_in_without_a_wait: r#"
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 > 200 [1]
        GET /api/listings/2.json < 200 [1] | cc: max-age=1 > 200 [1]
        wait 2s
        GET /api/listings/1.json < 429 | retry-after: 3
            > 200 [1] | cs: grandstand; fwd=stale; fwd-status=429; detail=stale-if-error
        wait 2900ms
        GET /api/listings/1.json > 200 [1] | cs: grandstand; fwd=stale; detail=stale-if-error
        GET /api/listings/2.json > 200 [1] | cs: grandstand; fwd=stale; detail=stale-if-error
        always < 200 [2]
        wait 200ms
        GET /api/listings/1.json > 200 [2]
        asked 2
    "#

    a_dead_origin_is_tried_gently_and_its_return_is_noticed_within_seconds: r#"
        with fails: hangup || 500 oops
        always < 200 [1] | cc: max-age=1
        50* GET /api/listings/%n.json > 200 [1]
        asked 50
        wait 2s
        always $fails
        50* GET /api/listings/%n.json > 200 [1] | cs: ~stale-if-error
        asked 50
        each turn: 1 || 2 || 3 || 4 || 5 || 6 || 7 || 8
        GET /api/listings/1.json > 200 [1] | cs: ~stale-if-error
        GET /api/listings/2.json > 200 [1] | cs: ~stale-if-error
        GET /api/unknown.json > !200
        wait 500ms
        end
        asked 2..12
        always < 200 [2] | cc: max-age=60
        wait 20s
        GET /api/listings/1.json > 200 [2]
        asked 1..50
    "#

    a_resource_that_hangs_is_no_outage_of_the_others: r#"
        set origin.timeout=2s
        set origin.wait=0s
        & GET /api/listings/1.json < hang > problem 503
        each turn: 1 || 2 || 3 || 4
        GET /api/listings/2$turn.json < 200 [1] > 200 [1]
        wait 1s
    "#

    a_resource_that_wants_to_be_left_alone_stops_no_other: r#"
        GET /api/listings/1.json < 503 | retry-after: 3600 > problem 503
        each turn: 1 || 2 || 3 || 4
        GET /api/listings/1.json > problem 503 | retry-after: 280..300
        GET /api/listings/2$turn.json < 200 [1] > 200 [1]
        wait 2s
    "#
}
