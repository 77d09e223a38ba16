//! Other paths: the fields of an answer that clients get.

use super::scene::scenes;

scenes! {
    fields_of_the_origin_are_kept_dropped_and_replaced_as_promised: r#"
        set rate_limit.requests_per_minute=100
        GET /api/x | origin: https://one.example
            < 200 x | cc: max-age=3600 | cc: public | set-cookie: a=1 | link: </a>; rel=next | cs: cdn; hit | etag: "own"
            | vary: Accept-Language | x-own: 1 | x-accel-expires: 3600 | access-control-allow-origin: https://one.example
            | access-control-allow-credentials: true | alt-svc: h3=":443" | strict-transport-security: max-age=1 | nel: {}
            | report-to: {} | ratelimit: "x";r=1 | ratelimit-policy: "x" | keep-alive: timeout=5 | connection: X-Hop | x-hop: 1
            > 200 x | cs: cdn; hit, grandstand; fwd=uri-miss; fwd-status=200
        with method: GET || HEAD
        $method /api/x | origin: https://two.example
            > 200 | cs: cdn; hit, grandstand; hit; ttl=3599 | set-cookie: a=1 | link: </a>; rel=next | etag: "own"
            | vary: Accept-Language | x-own: 1 | cc: max-age=3600, public | access-control-allow-origin: *
            | access-control-allow-credentials: - | alt-svc: - | strict-transport-security: - | nel: - | report-to: -
            | x-hop: - | x-accel-expires: - | ratelimit: ~"default";r= | access-control-expose-headers: ~Cache-Status
    "#
}
