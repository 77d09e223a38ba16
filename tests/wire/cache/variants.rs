//! Other paths: answers that vary, which of them are kept, and who gets one.

use super::scene::scenes;

scenes! {
    clients_of_the_same_variant_share_one_fetch_even_before_it_is_known_what_matters: r#"
        set passthrough.request_headers=["*"]
        always < after 1s 200 for {user-agent} | cc: max-age=60 | vary: User-Agent
        & 20* GET /api/x | user-agent: a > 19* 200 for a
        & 20* GET /api/x | user-agent: b > 200 for b
        & 20* GET /api/x | user-agent: c > 200 for c
        join
        asked 4
    "#

    variants_are_kept_by_what_vary_names: r#"
        set passthrough.request_headers=["*"]
        with name: origin || x-requested-with || referer || x-kind
        always < 200 for {$name} | cc: max-age=60 | vary: $name
        # Nobody knows yet what matters here.
        GET /api/x | $name: zero
        each turn: 1 || 2
        GET /api/x | $name: one > 200 for one
        GET /api/x | $name: two > 200 for two
        GET /api/x > 200 for none
    "#

    variants_are_bounded_and_those_that_are_used_stay: r#"
        always < 200 for {accept} | cc: max-age=600 | vary: Accept
        GET /api/x | accept: text/csv > 200 for text/csv
        GET /api/x | accept: text/csv > 200 for text/csv
        asked 1
        40* GET /api/x | accept: x/%n > 200 for x/%n
        40* GET /api/x | accept: y/%n > 200 for y/%n
        asked 80
        GET /api/x | accept: text/csv > 200 for text/csv
        asked 0
    "#

    a_new_variant_gets_a_place_when_it_comes_again_and_the_one_that_was_used_longest_ago_goes: r#"
        always < 200 for {accept} | cc: max-age=600 | vary: Accept
        GET /api/x | accept: text/csv
        GET /api/x | accept: text/csv
        15* GET /api/x | accept: y/%n
        15* GET /api/x | accept: y/%n
        GET /api/x | accept: text/csv
        asked 16
        GET /api/x | accept: z/z
        asked 1
        GET /api/x | accept: z/z
        asked 1
        GET /api/x | accept: z/z > 200 for z/z
        GET /api/x | accept: text/csv > 200 for text/csv
        asked 0
        GET /api/x | accept: y/0
        asked 1
    "#

    fields_that_never_reach_the_origin_make_no_variants: r#"
        GET /api/x | x-forwarded-for: 192.0.2.1 | accept-encoding: gzip | user-agent: one | x-tenant: one
            ? x-forwarded-for: - | user-agent: ~grandstand | x-tenant: -
            < 200 x | cc: max-age=60 | vary: X-Forwarded-For, Forwarded, Accept-Encoding, User-Agent, X-Tenant > 200 x
        GET /api/x | forwarded: for=x | accept-encoding: br | user-agent: two | x-tenant: two > 200 x
    "#

    vary_star_is_shared_with_nobody: r#"
        always < 200 {n} | cc: max-age=60 | vary: *
        20* GET /api/x > 1* 200 1 > 1* 200 20
        asked 20
    "#

    a_resource_that_begins_to_vary_is_asked_again_with_what_it_varies_by: r#"
        GET /api/x < 200 all | cc: max-age=0 > 200 all
        GET /api/x | accept-language: de ? accept-language: - < 200 all | cc: max-age=0 > 200 all
        GET /api/x | accept-language: de ? accept-language: - < 200 all | cc: max-age=0 | vary: Accept-Language
            ? accept-language: de < 200 de | cc: max-age=0 | vary: Accept-Language > 200 de
        GET /api/x | accept-language: fr ? accept-language: fr < 200 fr | cc: max-age=0 | vary: Accept-Language
            > 200 fr
    "#

    a_favourite_language_is_shared_only_from_a_plain_request_in_that_language: r#"
        always < 200 for {accept-language} | cc: max-age=60 | vary: Accept-Language | content-language: en
        GET /api/x | accept-language: fr, en > 200 for fr, en
        GET /api/x | accept-language: en, fr > 200 for en, fr
        GET /api/x | accept-language: fr,en > 200 for fr, en
        asked 2
        GET /api/x | accept-language: en > 200 for en
        GET /api/x | accept-language: EN > 200 for en
        GET /api/x | accept-language: de;q=0.5, en;q=0.9 > 200 for en
        asked 1
    "#

    a_favourite_language_that_came_with_another_field_is_not_shared: r#"
        set passthrough.request_headers=["*"]
        always < 200 for {accept-language} | cc: max-age=60 | vary: Accept-Language | content-language: en
        GET /api/x | accept-language: en | x-odd: 1 > 200 for en
        GET /api/x | accept-language: en;q=0.9 > 200 for en;q=0.9
        asked 2
    "#

    an_odd_accept_language_chooses_for_nobody_else: r#"
        with attack: en;q=1, <script>;q=0.1 || en, union select;q=0.1 || en;q=1.0 || fr;q=0.1, en
        with status: 200 || 403
        GET /api/x | accept-language: $attack
            < $status odd | cc: max-age=60 | vary: Accept-Language | content-language: en > $status odd
        GET /api/x | accept-language: en < 200 right | cc: max-age=60 | vary: Accept-Language | content-language: en
            > 200 right
        GET /api/x | accept-language: EN > 200 right
    "#
}
