//! Other paths: a failing origin, and what stands in for it.

use super::scene::scenes;

scenes! {
    a_failing_origin_is_stood_in_for_and_its_failures_replace_nothing: r#"
        with fails: 503 down | cc: max-age=60 || 500 down || 429 slow down | retry-after: 1 || hangup || hang
        set origin.timeout=1s
        GET /api/x < 200 good | cc: max-age=0 | etag: "a" > 200 good
        with control: must-revalidate || stale-if-error=0
        GET /api/strict < 200 good | cc: max-age=0, $control | etag: "a" > 200 good
        wait 5s
        GET /api/x < $fails > 200 good | cs: ~detail=stale-if-error
        wait 90s
        GET /api/x < $fails > 200 good | cs: ~detail=stale-if-error
        wait 90s
        GET /api/strict < $fails > !200
        wait 90s
        GET /api/x < 200 better > 200 better
    "#

    a_body_that_stalls_ends_after_the_timeout: r#"
        set origin.timeout=2s
        GET /api/x < 200 first | cc: max-age=60 | +90s: never > broken
        took 2
        GET /api/x < 200 whole > 200 whole
    "#

    a_body_that_drips_arrives_however_long_the_whole_takes: r#"
        set origin.timeout=2s
        GET /api/x < 200 start | cc: max-age=60 | +1s: 1 | +1s: 2 | +1s: 3 | +1s: 4 > 200 start1234
        took 4
        GET /api/x > 200 start1234
    "#

    a_client_that_cannot_share_a_slow_answer_of_another_asks_alone: r#"
        set passthrough.request_headers=["X-Own"]
        & GET /api/x | x-own: something < 200 whole | cc: max-age=60 | +6s: . > 200 whole.
        GET /api/x < 200 whole | cc: max-age=60 > 200 whole
        took 0
    "#

    what_is_kept_serves_clients_that_insist_while_the_origin_is_gone: r#"
        GET /api/x < 200 good | cc: max-age=60 > 200 good
        GET /api/x | cc: no-cache < hangup > 200 good | cs: ~stale-if-error
        GET /api/other < hangup > problem 503 | retry-after: 1..60
    "#
}
