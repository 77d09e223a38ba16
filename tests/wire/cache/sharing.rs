//! Other paths: what is stored, for how long, and who shares a fetch.

use super::scene::scenes;

scenes! {
    clients_at_once_on_a_cold_key_make_one_request: r#"
        60* GET /api/x < after 1s 200 here | cc: max-age=60 > 200 here
            > 1* 200 here | cs: grandstand; fwd=uri-miss; fwd-status=200 > 59* 200 here | cs: ~; collapsed
        GET /api/x > 200 here | cs: grandstand; hit; ttl=58 | age: 1
    "#

    what_says_nothing_of_its_freshness_is_shared_by_those_who_wait_and_stands_in_for_a_failing_origin: r#"
        60* GET /api/x < after 1s 200 bare > 200 bare
        GET /api/x < 200 bare > 200 bare
        GET /api/x < hangup > 200 bare | cs: ~detail=stale-if-error
    "#

    a_failure_is_shared_by_all_who_waited_for_it: r#"
        50* GET /api/x < after 1s 503 down > 503
        GET /api/y < 200 good | cc: max-age=0 | etag: "a" > 200 good
        50* GET /api/y < after 1s 503 down > 200 good | cs: ~detail=stale-if-error
    "#

    a_clients_no_cache_is_heeded_once_per_resource_in_a_while: r#"
        with field: cc: no-cache || cc: max-age=0 || pragma: no-cache
        GET /api/x < 200 one | cc: max-age=3600 | etag: "a" > 200 one
        50* GET /api/x | $field ? if-none-match: "a" < after 1s 304 | cc: max-age=3600 > 200 one
            > 1* 200 | cs: ~fwd=request
        wait 8s
        GET /api/x | $field > 200 one
        GET /api/other | $field < 200 two | cc: max-age=3600 > 200 two
        wait 3s
        GET /api/x | $field < 304 > 200 one
    "#

    only_if_cached_never_reaches_the_origin: r#"
        GET /api/x | cc: only-if-cached > problem 504
        GET /api/x < 200 x | cc: max-age=60 > 200 x
        GET /api/x | cc: only-if-cached > 200 x
    "#

    a_request_with_no_store_leaves_nothing_behind_and_spoils_nothing: r#"
        GET /api/x | cc: no-store < 200 x | cc: max-age=60 > 200 x
        GET /api/x | cc: no-store < 200 x | cc: max-age=60 > 200 x
        50* GET /api/x < after 1s 200 x | cc: max-age=60 > 200 x
        GET /api/x > 200 x
    "#

    what_one_client_asks_for_alone_does_not_make_the_resource_private: r#"
        with field: cookie: session=1 || authorization: Bearer secret || cc: no-store
        GET /api/x | $field < 200 no | cc: private > 200
        50* GET /api/x < after 1s 200 none | cc: max-age=60 > 200 none
        GET /api/y | range: bytes=0-1 < 206 no | cc: private | content-range: bytes 0-1/4 > 206
        50* GET /api/y < after 1s 200 none | cc: max-age=60 > 200 none
    "#

    an_answer_that_is_private_for_the_fields_of_one_client_changes_nothing_for_others: r#"
        set passthrough.request_headers=["*"]
        with field: cookie: session=1 || authorization: Bearer secret || x-odd: 1
        with control: private, max-age=60 || no-store
        GET /api/x | $field | cc: no-cache < 200 mine | cc: $control | etag: "m" > 200 mine
        30* GET /api/x < after 1s 200 good | cc: max-age=60 | etag: "g" > 200 good
        wait 10s
        GET /api/x | $field | cc: no-cache < 200 mine | cc: $control | etag: "m" > 200 mine
        GET /api/x > 200 good
    "#

    a_304_that_is_private_for_the_fields_of_one_client_changes_nothing_for_others: r#"
        set passthrough.request_headers=["*"]
        with field: cookie: session=1 || authorization: Bearer secret || x-odd: 1
        GET /api/x < 200 good | cc: max-age=60 | etag: "g" > 200 good
        GET /api/x | $field | cc: no-cache < 304 | cc: private | etag: "g" > 200 good
        GET /api/x > 200 good
    "#

    a_client_that_gets_something_of_its_own_does_not_take_the_stale_copy_of_the_others: r#"
        with field: cookie: session=1 || authorization: Bearer secret
        with again: 304 | cc: max-age=0 || 200 good | cc: max-age=0 | etag: "g"
        GET /api/x < 200 good | cc: max-age=0 | etag: "g" > 200 good
        GET /api/x | $field < $again > 200 good
        GET /api/x | cc: no-store < 200 good | cc: max-age=0 | etag: "g" > 200 good
        GET /api/x < 503 down > 200 good | cs: ~detail=stale-if-error
    "#

    a_private_resource_is_asked_for_by_each_at_once_and_shared_with_nobody: r#"
        with control: private, max-age=60 || no-store
        always < after 1s 200 {n} | cc: $control | set-cookie: id={n}
        GET /api/x > 200 1 | set-cookie: id=1
        asked 1
        # All requests reach the origin before its first answer.
        & GET /api/x > 200 2 | set-cookie: id=2
        & GET /api/x > 200 3 | set-cookie: id=3
        asked 2
        join
        # Even before it is known to be private, nobody gets the answer of another.
        20* GET /api/cold > 1* 200 1 > 1* 200 20
        asked 20
    "#

    cookies_and_authorization_need_the_origins_leave_to_share: r#"
        with field: authorization: Bearer one || cookie: id=one
        GET /api/mine | $field ? $field < 200 one | cc: max-age=60 > 200 one
        GET /api/mine < 200 two | cc: max-age=60 > 200 two
        with control: public, max-age=60 || s-maxage=60
        GET /api/shared | $field < 200 one | cc: $control > 200 one
        GET /api/shared > 200 one
    "#

    set_cookie_is_passed_and_kept_only_where_the_origin_says_that_it_is_public: r#"
        with control: max-age=60 || s-maxage=60 || x
        GET /api/own < 200 x | cc: $control | set-cookie: a=1 | set-cookie: b=2 > 200 x | set-cookie: a=1, b=2
        GET /api/own < 200 x | cc: $control | set-cookie: c=3 > 200 x | set-cookie: c=3
        GET /api/public < 200 x | cc: public, max-age=60 | set-cookie: a=1 | set-cookie: b=2 > 200 x
        GET /api/public > 200 x | set-cookie: a=1, b=2
    "#

    stale_while_revalidate_is_the_origins_to_allow: r#"
        set cache.stale_while_revalidate=1m
        GET /api/may < 200 old | cc: max-age=0, stale-while-revalidate=60 > 200 old
        20* GET /api/may < after 1s 200 new | cc: max-age=60 > 200 old | cs: ~grandstand; hit; ttl=
        wait 1s
        GET /api/may > 200 new
        GET /api/not < 200 old | cc: max-age=0 > 200 old
        GET /api/not < after 1s 200 new | cc: max-age=60 > 200 new
    "#

    what_is_refreshed_in_the_background_is_asked_for_in_nobodys_name: r#"
        with field: authorization: Bearer secret || cookie: a=1
        GET /api/x < 200 x | cc: public, max-age=0, stale-while-revalidate=60 | etag: "a" > 200 x
        GET /api/x | $field ? authorization: - | cookie: - | if-none-match: "a" < 200 x > 200 x
    "#

    path_and_raw_query_are_the_key_byte_for_byte: r#"
        with target: /api/x? || /api/x?b=2&a=1&a=1&&c || /api/x?q=%7e+%7E&r=a/b?c || /api/%7Euser/%c3%A9 || /api/x;v=1,2:3@4!$&'()* || /api/trailing/
        GET $target ? GET $target < 200 x | cc: max-age=60 > 200 x
        GET $target > 200 x
        GET /api/x < 200 other | cc: max-age=60 > 200 other
    "#

    what_passes_takes_from_the_budget: r#"
        set origin.requests_per_minute=5
        set origin.wait=0s
        always < 200 x | cc: max-age=600
        5* GET /api/%n > 200 x
        asked 5
        wait 10s
        GET /api/more > problem 503 budget | retry-after: 50..51
        GET /api/0 > 200 x
        wait 51s
        GET /api/more > 200 x
        asked 1
    "#

    a_path_that_wants_to_be_left_alone_rests_and_no_other_does: r#"
        with status: 429 || 503
        GET /api/busy < $status wait | retry-after: 30 > $status wait | retry-after: 30
        wait 10s
        GET /api/busy > problem 503 | retry-after: 19..20
        GET /api/x < 200 x > 200 x
        wait 21s
        GET /api/busy < 200 back > 200 back
    "#

    a_head_that_nothing_is_kept_for_goes_to_the_origin_as_head: r#"
        HEAD /api/x ? HEAD /api/x < 200 seven!! | cc: max-age=60 > 200 | content-length: 7
        GET /api/x ? GET < 200 seven!! | cc: max-age=60 > 200 seven!!
        HEAD /api/x > 200 | content-length: 7
    "#

    a_good_entry_survives_an_answer_that_breaks_off: r#"
        GET /api/x < 200 good | cc: max-age=0 | etag: "a" > 200 good
        GET /api/x < cut 200 bad | cc: max-age=0 > broken
        GET /api/x < hangup > 200 good | cs: ~detail=stale-if-error
    "#

    an_answer_is_kept_before_its_client_has_it: r#"
        GET /api/length < 200 x | cc: max-age=60 > 200 x | cs: grandstand; fwd=uri-miss; fwd-status=200
        GET /api/length | cc: only-if-cached > 200 x
        2* GET /api/pieces < 200 first | +1s: second | cc: max-age=60 > 200 firstsecond
            > 1* 200 firstsecond | cs: grandstand; fwd=uri-miss; fwd-status=200
            > 1* 200 firstsecond | cs: grandstand; fwd=uri-miss; fwd-status=200; collapsed
        GET /api/pieces | cc: only-if-cached > 200 firstsecond
        with status: 200 || 204
        GET /api/empty < $status | cc: max-age=60 > $status | cs: grandstand; fwd=uri-miss; fwd-status=$status; stored
        GET /api/empty > $status | cs: ~; hit
    "#

    a_client_that_leaves_takes_nobody_with_it: r#"
        with target: /api/x || /api/listings/1.json
        & leave 2s GET $target < after 9s 200 [1] | cc: max-age=60
        & 20* GET $target > 200 [1] | cs: ~; collapsed
        wait 1s
        & GET $target > 200 [1] | cs: ~; collapsed
        join
        GET $target > 200 [1] | cs: ~; hit
    "#

    a_path_is_purged_with_all_its_queries: r#"
        set mirror.enabled=false
        always < 200 [{n}] | cc: max-age=600
        each path: /api/listings.json || /api/listings/7.json || /api/sports.json || /api/x.json || /api/caf%C3%A9.json
        GET $path > 200 [1]
        GET $path?sport=golf&x=%2F
        GET /api/other > 200 [1]
        purge ?path=$path 1..2
        GET $path > 200 [2]
        GET /api/other > 200 [1]
        end
        purge ?path=%2Fapi%2Fx.json 1
        purge ?path=/api/nothing 0
        purge ? 1..6
        GET /api/other > 200 [2]
    "#

    what_was_asked_before_a_purge_is_not_kept_after_it: r#"
        with target: /api/x || /api/listings.json
        & GET $target < after 9s 200 [1] | cc: max-age=600 > 200 [1]
        purge ?path=$target 0
        GET $target < 200 [2] | cc: max-age=600 > 200 [2]
        join
        GET $target > 200 [2]
    "#
}
