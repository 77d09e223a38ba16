//! Known endpoints: how long an answer is used, and what must not be kept. Spellings of dates, ages and directives are rows
//! of the tables in `src/protocol/caching` and of the public HTTP cache test suite.

use crate::cache::scene::scenes;

scenes! {
    what_is_fresh_is_used_without_asking_again: r#"
        each fields: x-states: nothing || date: @0 || last-modified: @-10 || pragma: no-cache || cc: public
            || set-cookie: a=b || authorization: x | www-authenticate: Basic || cc: max-age=3600
            || cc: max-age=3600 | expires: @-7200 | date: @0 || cc: max-age=1, s-maxage=3600
            || cc: max-age=3600, must-revalidate || cc: max-age=3600 | set-cookie: a=b
            || cc: max-age=3600 | age: abc | date: @0 || expires: @2592000 | date: @0 || expires: @3600
            || cdn-cache-control: max-age=3600 | cc: max-age=1 || cdn-cache-control: max-age=10000 | cc: no-store
            || cc: max-age=3600 | vary: Foo || cc: max-age=3600 | vary: Accept-Encoding, Cookie, User-Agent
            || cc: max-age=3600 | vary: origin | vary: accept-language
        GET /api/listings/1$i.json < 200 [1] | etag: "a" | $fields
            > 200 [1] | cs: grandstand; fwd=uri-miss; fwd-status=200; stored
        wait 2s
        GET /api/listings/1$i.json | accept-encoding: br > 200 | etag: W/"a" | cs: ~grandstand; hit; ttl=
    "#

    what_has_outlived_its_freshness_is_never_used_unasked: r#"
        each fields: cc: max-age=1 || cc: max-age=0 || cc: max-age=3600 | age: 7200 | date: @0
            || cc: max-age=3600 | date: @-7200 || cc: s-maxage=1, max-age=3600
            || cc: max-age=10000, no-cache | expires: @10000 | date: @0 || cc: max-age=1, must-revalidate
            || expires: @0 | date: @0 || expires: @1 | date: @0 || expires: 0 | date: @0
            || expires: @10 | age: 25 | date: @-10 || cdn-cache-control: max-age=1 | cc: max-age=3600
            || cdn-cache-control: no-cache | cc: max-age=10000 | expires: @10000 | date: @0
        GET /api/listings.json?sport=x$i < 200 [1] | $fields > 200 [1]
        wait 2s
        GET /api/listings.json?sport=x$i < 200 [2] | $fields > 200 [2]
    "#

    what_must_not_be_kept_is_asked_for_each_time: r#"
        each fields: cc: private, max-age=3600 || cc: no-store || cc: max-age=10000 | cc: no-store
            || cdn-cache-control: private | cc: max-age=10000 || cdn-cache-control: max-age=10000, &&&&& | cc: no-store
            || cc: max-age=5000 | vary: * || cc: max-age=5000 | vary: Foo, * || cc: max-age=5000 | vary: Foo | vary: *
        GET /api/listings/1$i.json < 200 [1] | etag: "a" | $fields
            > 200 [1] | cs: grandstand; fwd=uri-miss; fwd-status=200
        GET /api/listings/1$i.json | accept-encoding: br ? if-none-match: - < 200 [2] | etag: "a" | $fields
            > 200 | cs: grandstand; fwd=uri-miss; fwd-status=200
    "#

    freshness_is_the_configured_one_where_the_origin_states_none: r#"
        set ttl=2s
        GET /api/listings/1.json < 200 [1] > 200 [1] | cc: ~public, max-age=2,
        GET /api/listings/2.json < 200 [1] | cc: max-age=3600 > 200 [1] | cc: max-age=3600
        wait 2100ms
        GET /api/listings/1.json < 200 [2] > 200 [2]
        GET /api/listings/2.json > 200 [1]
    "#

    age_is_that_of_the_origins_copy_and_the_time_since: r#"
        GET /api/listings/1.json < 200 [1] | cc: max-age=100000 | date: @0 > 200 | age: 0
        GET /api/listings/2.json < 200 [1] | cc: max-age=100000 | date: @0 | age: 30 > 200 | age: 30
        GET /api/listings/3.json < 200 [1] | cc: max-age=100000 | date: @-50 | age: 30 > 200 | age: 50
        GET /api/listings/4.json < 200 [1] | cc: max-age=100000 | date: @50 | age: 30 > 200 | age: 30
        GET /api/listings/5.json < 200 [1] | expires: @2592000 | date: @0 | age: 30 > 200 | age: 30
        GET /api/listings/6.json < 200 [1] | cc: max-age=60 | age: 30 > 200 | age: 30
        GET /api/listings/7.json < 200 [1] | age: 30 > 200 | age: 30
        wait 2s
        GET /api/listings/1.json > 200 | age: 2 | cs: grandstand; hit; ttl=99997
        GET /api/listings/2.json > 200 | age: 32 | cs: grandstand; hit; ttl=99967
        GET /api/listings/3.json > 200 | age: 52 | cs: grandstand; hit; ttl=99947
        GET /api/listings/4.json > 200 | age: 32 | cs: grandstand; hit; ttl=99967
        GET /api/listings/5.json > 200 | age: 32 | cs: grandstand; hit; ttl=2591967
        GET /api/listings/6.json > 200 | age: 32 | cs: grandstand; hit; ttl=27
        GET /api/listings/7.json > 200 | age: 32 | cs: grandstand; hit; ttl=567
    "#

    what_is_missing_is_remembered_for_a_minute_at_most_and_as_the_origin_says: r#"
        GET /api/listings/1.json < 404 | x-a: b > 404
        GET /api/listings/1.json > 404 | cs: grandstand; hit; ttl=59
        GET /api/listings/2.json < 404 | cc: max-age=3600 > 404
        GET /api/listings/2.json > 404 | cs: grandstand; hit; ttl=59
        GET /api/listings/3.json < 404 | cc: max-age=10 > 404
        GET /api/listings/3.json > 404 | cs: grandstand; hit; ttl=9
        GET /api/listings/4.json < 404 | expires: @3600 | date: @0 > 404
        GET /api/listings/4.json > 404 | cs: grandstand; hit; ttl=59
        GET /api/listings/5.json < 404 | cc: max-age=3600 | age: 50 > 404
        GET /api/listings/5.json > 404 | cs: grandstand; hit; ttl=9
        GET /api/listings/6.json < 404 | cdn-cache-control: max-age=20 | cc: max-age=3600 > 404
        GET /api/listings/6.json > 404 | cs: grandstand; hit; ttl=19
    "#
}
