//! Known endpoints: load that the origin never sees, and a fairly shared budget.

use crate::cache::scene::scenes;

scenes! {
    clients_at_once_on_a_stale_key_make_one_request: r#"
        set cache.stale_if_error=0s
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 | etag: "a" > 200 [1]
        wait 2s
        60* GET /api/listings/1.json < after 3s 304 | cc: max-age=60 > 200 [1]
            > 1* 200 | cs: grandstand; fwd=stale; fwd-status=304; stored
            > 59* 200 | cs: grandstand; fwd=stale; fwd-status=304; stored; collapsed
    "#

    clients_at_once_share_an_answer_that_may_not_be_kept: r#"
        with control: private, max-age=60 || no-store
        60* GET /api/listings/1.json < after 3s 200 [1] | cc: $control > 200 [1]
            > 1* 200 | cs: grandstand; fwd=uri-miss; fwd-status=200
            > 59* 200 | cs: grandstand; fwd=uri-miss; fwd-status=200; collapsed
        GET /api/listings/1.json < 200 [2] | cc: $control > 200 [2]
    "#

    reads_that_get_no_slot_in_time_are_refused_at_once_and_told_when_there_is_room: r#"
        set origin.requests_per_minute=6
        set origin.wait=10s
        set mirror.enabled=false
        GET /api/listings/1.json < 200 [1] | cc: max-age=1 > 200 [1]
        always < 200 [1] | cc: max-age=3600
        5* GET /api/listings/2%n.json > 200 [1]
        30* GET /api/listings/3%n.json > problem 503 budget | retry-after: 60..61
        took 0
        wait 2s
        GET /api/listings/20.json > 200 [1] | cs: ~grandstand; hit; ttl=
        GET /api/listings/1.json > 200 [1] | cs: grandstand; fwd=stale; detail=stale-if-error
        took 0
        asked 5
    "#

    as_many_reads_wait_as_slots_come_in_time: r#"
        set origin.requests_per_minute=3
        set origin.wait=20s
        set mirror.enabled=false
        always < 200 [1] | cc: max-age=3600
        3* GET /api/listings/1%n.json > 200 [1]
        wait 50s
        6* GET /api/listings/2%n.json > 3* 200 [1] > 3* problem 503 budget
        took 10
        asked 6
    "#

    what_several_households_were_refused_is_fetched_before_they_come_back: r#"
        set origin.requests_per_minute=4
        set origin.wait=1s
        set client_ip.trusted_proxies=["0.0.0.0"]
        set mirror.enabled=false
        always < 200 [1] | cc: max-age=3600
        4* GET /api/listings/1%n.json > 200 [1]
        asked 4
        wait 1s
        20* GET /api/listings/2%n.json | x-forwarded-for: 192.0.2.1 > problem 503 budget
        GET /api/listings/3.json | x-forwarded-for: 192.0.2.1 > problem 503 budget
        GET /api/listings/3.json | x-forwarded-for: 192.0.2.2 > problem 503 budget
        GET /api/listings/3.json | x-forwarded-for: 192.0.2.3 > problem 503 budget
        wait 55s
        asked 0
        wait 40s
        asked 1
        GET /api/listings/3.json > 200 [1] | cs: ~grandstand; hit; ttl=
    "#

    no_client_is_refused_because_the_one_whose_fetch_it_shares_is: r#"
        set origin.requests_per_minute=12
        set origin.wait=20s
        set client_ip.trusted_proxies=["0.0.0.0"]
        set mirror.enabled=false
        always < 200 [1] | cc: max-age=3600
        12* GET /api/listings/1%n.json | x-forwarded-for: 192.0.2.9 > 200 [1]
        asked 12
        wait 50s
        & 11* GET /api/listings/2%n.json | x-forwarded-for: 192.0.2.1
        & GET /api/listings/31.json | x-forwarded-for: 192.0.2.1 > problem 503 budget
        & 8* GET /api/listings/31.json | x-forwarded-for: 192.0.2.1
        & GET /api/listings/31.json | x-forwarded-for: 192.0.2.2 > 200 [1]
        wait 1s
        & GET /api/listings/32.json | x-forwarded-for: 192.0.2.3 > 200 [1]
        join
        asked 10..13
    "#

    reads_wait_while_the_origin_wants_to_be_left_alone_and_are_then_answered: r#"
        set origin.wait=30s
        set mirror.enabled=false
        GET /api/listings/1.json < 429 | retry-after: 2 > problem 503 429 | retry-after: 2
        always < 200 [1]
        5* GET /api/listings/2%n.json > 200 [1]
        took 1..2
        asked 5
    "#

    nobody_waits_for_a_pause_that_is_longer_than_their_patience: r#"
        set origin.wait=5s
        set mirror.enabled=false
        GET /api/listings/1.json < 429 | retry-after: 30 > problem 503 429
        wait 4s
        GET /api/listings/2.json > problem 503 | retry-after: 26
        took 0
    "#
}
