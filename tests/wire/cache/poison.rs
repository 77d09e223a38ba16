//! Other paths: nothing that one client sends shows in another client's answer, or decides about it.

use super::scene::scenes;

scenes! {
    only_named_fields_of_a_get_reach_the_origin: r#"
        with method: GET || HEAD
        $method /api/x | accept: a/b | accept-language: de | authorization: Basic x | cookie: a=b | accept-charset: utf-8
            | accept-encoding: gzip | cc: no-cache | dnt: 1 | origin: http://x | pragma: x | referer: http://x
            | user-agent: browser | x-invoke-status: 404 | rsc: 1 | x-tenant: evil | x-forwarded-for: 192.0.2.1
            | traceparent: x | forwarded: for=x | x-forwarded-host: x | x-real-ip: 192.0.2.1 | te: trailers
            | proxy-authorization: Basic x | if-none-match: "a" | if-modified-since: @0
            ? accept: a/b | accept-language: de | authorization: Basic x | cookie: a=b | accept-charset: -
            | accept-encoding: - | cc: - | dnt: - | origin: - | pragma: - | referer: -
            | user-agent: ~grandstand/ | x-invoke-status: - | rsc: - | x-tenant: - | x-forwarded-for: -
            | traceparent: - | forwarded: - | x-forwarded-host: - | x-real-ip: - | te: -
            | proxy-authorization: - | if-none-match: - | if-modified-since: - | host: 127.0.0.1:1 < 200 x > 200
    "#

    conditions_and_ranges_are_sent_as_the_cache_needs_them: r#"
        GET /api/x | range: bytes=0-0 | if-range: "a" | x-tenant: y
            ? range: bytes=0-0 | if-range: "a" | x-tenant: - < 206 x | content-range: bytes 0-0/9 | etag: "a"
            > 206 x
        GET /api/x ? if-none-match: - | range: - < 200 x | etag: "a" | cc: max-age=0 > 200 x
        GET /api/x ? if-none-match: "a" | range: - < 304 > 200 x
    "#

    other_fields_may_be_named_and_other_methods_carry_all: r#"
        set passthrough.request_headers=["X-Tenant", "user-agent"]
        set passthrough.methods=["GET", "POST"]
        GET /api/x | x-tenant: y | user-agent: browser | accept: a/b | x-odd: z
            ? x-tenant: y | user-agent: browser | accept: - | x-odd: - < 200 x > 200 x
        POST /api/y | x-tenant: y | user-agent: browser | accept: a/b | x-odd: z
            ? x-tenant: y | user-agent: browser | accept: a/b | x-odd: z < 200 x > 200 x
    "#

    what_one_client_wants_alone_is_not_kept_whatever_of_it_is_sent: r#"
        with fields: if-none-match: "a" | cc: no-store || if-none-match: "a" | cc: no-store | connection: cache-control || range: bytes=0-0 | connection: range
        GET /api/x | $fields < 200 chosen | cc: max-age=60 > 200 chosen
        GET /api/x < 200 right | cc: max-age=60 > 200 right
    "#

    a_listed_field_that_no_vary_names_is_part_of_the_key: r#"
        set passthrough.request_headers=["X-Tenant"]
        always < 200 for {x-tenant} | cc: max-age=0 | etag: "a"
        each turn: 1 || 2
        GET /api/x | x-tenant: one > 200 for one
        GET /api/x | x-tenant: two > 200 for two
        GET /api/x > 200 for none
    "#

    clients_with_wishes_of_their_own_share_what_an_ordinary_request_gets: r#"
        GET /api/x | accept-language: de | via: 1.1 de ? accept-language: de | via: ~de < 200 for de | cc: max-age=60
            > 200 for de
        GET /api/x | accept-language: de | via: 1.1 de > 200 for de
        GET /api/x | accept-language: fr | via: 1.1 fr ? accept-language: - | via: ~1.1 grandstand-
            < 200 for all | cc: max-age=60 > 200 for all
        GET /api/x | accept-language: en, de > 200 for all
        GET /api/x | accept-language: de | via: 1.1 de > 200 for all
    "#

    a_crowd_with_wishes_of_their_own_makes_few_requests: r#"
        60* GET /api/x | accept-language: x-%n ? accept-language: x-0 < after 1s 200 here | cc: max-age=60
            ? accept-language: - < after 1s 200 here | cc: max-age=60 > 200 here
    "#

    what_is_hidden_in_a_request_does_not_choose_what_others_get: r#"
        set passthrough.request_headers=["*"]
        with name: x-original-url || x-rewrite-url || x-http-method-override || x-forwarded-host || x-host
        with more: accept: */* || range: bytes=0-1 || cc: no-store || cc: no-cache
        always < 200 {$name} | cc: max-age=60
        GET /api/x | $name: /evil | $more > !500
        GET /api/x > 200 none
    "#

    what_fails_for_the_fields_of_one_client_fails_for_nobody_else: r#"
        set passthrough.request_headers=["*"]
        with field: cc: no-store || range: bytes=0-1 || authorization: Bearer x || cookie: a=b || x-odd: 1 || accept-language: xx
        always < 500 broken | cc: public, max-age=60
        GET /api/x | $field > 500 broken
        GET /api/x | $field > 500 broken
        GET /api/x | $field > 500 broken
        GET /api/x | $field > 500 broken
        asked 4
        GET /api/x < 200 whole | cc: max-age=60 > 200 whole
    "#

    an_error_that_the_fields_of_one_client_brought_about_is_not_kept_for_others: r#"
        set passthrough.request_headers=["*"]
        with field: x-odd: 1 || x-search: <script>alert(1)</script> || accept-language: x-'--
        with status: 400 || 403 || 404 || 405 || 410 || 414 || 431 || 451 || 500 || 501 || 504 || 599
        GET /api/x | $field < $status odd | cc: public, max-age=60 | etag: "a" > $status odd
        GET /api/x | $field < $status odd | cc: public, max-age=60 | etag: "a" > $status odd
        GET /api/x < 200 right | cc: max-age=60 > 200 right
    "#

    an_error_that_is_due_to_the_resource_is_kept: r#"
        with status: 404 || 410 || 403 || 451
        GET /api/x | user-agent: one | x-search: <script> < $status no | cc: max-age=60 > $status no
        GET /api/x | accept: application/json | user-agent: two > $status no
        GET /api/y < 404 nothing here > 404 nothing here
        5* GET /api/y > 404 nothing here
    "#
}
