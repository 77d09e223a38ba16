//! Known endpoints: when a stale answer may be served, while a new one is fetched and when none can be had.

use crate::cache::scene::scenes;

scenes! {
    no_stale_answer_stands_in_where_the_origin_forbids_it: r#"
        with control: max-age=1, stale-if-error=0 || max-age=1, must-revalidate || max-age=1, proxy-revalidate
            || max-age=1, must-revalidate, stale-if-error=60 || max-age=3600, no-cache || no-cache
        GET /api/listings.json?sport=x < 200 [1] | cc: $control | etag: "a" > 200 [1]
        wait 2s
        GET /api/listings.json?sport=x < hangup > problem 503 | retry-after: 1..60
    "#

    one_background_refresh_serves_whoever_asks_and_they_get_the_stale_answer_at_once: r#"
        set cache.stale_while_revalidate=1m
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 | etag: "1" > 200 [1]
        wait 3s
        60* GET /api/listings/1.json ? if-none-match: "1" < after 5s 200 [2] | cc: max-age=60 | etag: "2"
            > 200 [1] | cs: grandstand; hit; ttl=-3
        wait 6s
        GET /api/listings/1.json > 200 [2]
    "#

    the_window_of_stale_while_revalidate_is_the_origins_or_the_configured_one: r#"
        with configured: 0s || 1m
        set cache.stale_while_revalidate=$configured
        GET /api/listings/1.json < 200 [1] | cc: max-age=1, stale-while-revalidate=60 > 200 [1]
        wait 2s
        GET /api/listings/1.json < 200 [2] > 200 [1] | cs: grandstand; hit; ttl=-2
        each control: stale-while-revalidate=0 || stale-while-revalidate=60, must-revalidate
            || stale-while-revalidate=60, proxy-revalidate || stale-while-revalidate=60, s-maxage=1
            || stale-while-revalidate=60, no-cache
        GET /api/listings/2$i.json < 200 [1] | cc: max-age=1, $control | etag: "a" > 200 [1]
        wait 2s
        GET /api/listings/2$i.json < 200 [2] > 200 [2] | cs: ~grandstand; fwd=stale; fwd-status=200
    "#

    a_background_refresh_that_fails_never_replaces_what_is_kept: r#"
        with fails: 500 oops || 200 <html>not it</html> | cc: max-age=3600 || 200 [7 | cc: max-age=3600
            || 302 | location: /elsewhere || hangup
        set cache.stale_while_revalidate=1m
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 > 200 [1]
        wait 2s
        GET /api/listings/1.json < $fails > 200 [1] | cs: ~grandstand; hit; ttl=-
        always $fails
        20* GET /api/listings/1.json > 200 [1] | cs: ~grandstand; hit; ttl=-
        wait 1s
        20* GET /api/listings/1.json > 200 [1] | cs: ~grandstand; hit; ttl=-
        asked 0..2
    "#

    what_stood_in_is_confirmed_when_the_origin_is_back: r#"
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 | etag: "a" > 200 [1]
        wait 2s
        GET /api/listings/1.json < 503
            > 200 [1] | age: 2 | cs: grandstand; fwd=stale; fwd-status=503; detail=stale-if-error
        GET /api/listings/1.json ? if-none-match: "a" < 304 | cc: max-age=1 | etag: "a"
            > 200 [1] | age: 0 | cs: grandstand; fwd=stale; fwd-status=304; stored
    "#

    clients_that_could_be_served_something_stale_wait_two_seconds_for_an_origin_that_hangs: r#"
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 > 200 [1]
        wait 2s
        GET /api/listings/1.json < hang > 200 [1] | cs: ~stale-if-error
        took 2
    "#

    what_is_missing_shows_when_its_time_is_over_and_what_is_gone_goes: r#"
        GET /api/listings/1.json < 404 | cc: max-age=1 > 404 | content-type: ~problem+json
        GET /api/listings/2.json < 200 [1] | cc: max-age=1 > 200 [1]
        wait 2s
        GET /api/listings/1.json < 200 [1] | cc: max-age=1
            > 200 [1] | cs: grandstand; fwd=stale; fwd-status=200; stored
        GET /api/listings/2.json < 404 | cc: max-age=1 > 404 | cs: grandstand; fwd=stale; fwd-status=404; stored
    "#
}
