//! Other paths: methods that change something, HEAD, ranges, and the conditions of clients.

use super::scene::scenes;

scenes! {
    methods_that_are_not_listed_never_reach_the_origin: r#"
        with method: POST || PUT || DELETE || TRACE || PATCH
        $method /api/x > problem 405 GET, HEAD, OPTIONS | allow: GET, HEAD, OPTIONS
        $method /api/listings/1.json > problem 405
    "#

    a_preflight_and_options_name_the_methods_that_pass_where_they_pass: r#"
        set passthrough.methods=["POST", "GET", "PATCH"]
        OPTIONS /api/x | origin: https://page.example | access-control-request-method: PATCH
            > 204 | access-control-allow-methods: GET, HEAD, POST, PATCH
        OPTIONS /api/x > 204 | allow: POST, GET, PATCH, OPTIONS
        OPTIONS * > 204 | allow: GET, HEAD, POST, PATCH, OPTIONS
        with target: /api/listings.json || /api/sports.json || /changes.json
        OPTIONS $target | origin: https://page.example | access-control-request-method: PATCH
            > 204 | access-control-allow-methods: GET, HEAD
        OPTIONS $target > 204 | allow: GET, HEAD, OPTIONS
        with elsewhere: /elsewhere || /api/%zz
        OPTIONS $elsewhere | origin: https://page.example | access-control-request-method: PATCH
            > 204 | access-control-allow-methods: GET, HEAD
    "#

    options_is_the_origins_to_answer_where_the_operator_lets_it_pass: r#"
        set passthrough.methods=["GET", "OPTIONS"]
        OPTIONS /api/x < 200 theirs | allow: GET, REPORT > 200 theirs | allow: GET, REPORT
        OPTIONS /api/x | origin: https://page.example | access-control-request-method: GET > 204
    "#

    what_changes_a_resource_makes_what_is_kept_of_it_and_of_what_it_names_void: r#"
        set passthrough.methods=["GET", "HEAD", "POST", "PUT", "DELETE"]
        set passthrough.paths=["/"]
        always < 200 {n} | cc: max-age=600
        with method: POST || PUT || DELETE
        with target: /other || /api/located || /api/content
        GET $target > 200 1
        $method /api/fails < 500 no | location: $target > 500 no | cs: ~fwd=method
        $method /api/elsewhere
            < 201 | location: http://elsewhere.example$target | content-location: //elsewhere.example$target
            > 201 | location: http://elsewhere.example$target
        GET $target > 200 1
        asked 1
        $method $target < 204 > 204 | cs: ~fwd=method
        GET $target > 200 3
        $method /api/names < 201 | location: $target > 201
        GET $target > 200 4
        $method /api/names < 201 | content-location: ORIGIN$target > 201
        GET $target > 200 5
        asked 3
    "#

    an_answer_that_was_asked_for_before_a_change_is_not_kept_and_not_joined: r#"
        set passthrough.methods=["GET", "POST"]
        & GET /api/x < after 9s 200 old | cc: max-age=60 > 200 old
        POST /api/x < 204 > 204
        GET /api/x < 200 new | cc: max-age=60 > 200 new
        join
        GET /api/x > 200 new
    "#

    an_answer_to_post_is_for_its_client_alone: r#"
        set passthrough.methods=["GET", "POST"]
        GET /api/x < 200 got | cc: max-age=60 > 200 got
        POST /api/x | x-name: any ? x-name: any < 200 posted | cc: max-age=60 | content-location: /api/x
            > 200 posted | cs: grandstand; fwd=method; fwd-status=200
        GET /api/x < 200 got | cc: max-age=60 > 200 got
    "#

    ranges_come_from_what_is_kept_or_from_the_origin: r#"
        GET /api/x | range: bytes=2-4 ? range: bytes=2-4 < 206 234 | content-range: bytes 2-4/10 | cc: max-age=60
            > 206 234 | content-range: bytes 2-4/10
        GET /api/x < 200 0123456789 | etag: "a" | cc: max-age=60 > 200 0123456789
        GET /api/x | range: bytes=2-4 > 206 234 | content-range: bytes 2-4/10
        GET /api/x | range: bytes=-3 > 206 789 | content-range: bytes 7-9/10
        GET /api/x | range: bytes=8-100 > 206 89 | content-range: bytes 8-9/10
        GET /api/x | range: bytes=10- > 416 | content-range: bytes */10
        with whole: range: bytes=4-2 || range: lines=1-2 || range: bytes=2-4 | if-range: "b"
        GET /api/x | $whole > 200 0123456789 | content-range: -
        GET /api/x | range: bytes=2-4 | if-range: "a" > 206 234
        GET /api/x | range: bytes=2-4 | if-none-match: "a" > 304 | content-range: -
    "#

    clients_conditions_hold_against_kept_and_streamed_answers: r#"
        with control: max-age=60 || private
        always < 200 body | cc: $control | etag: "a" | last-modified: Sat, 01 Aug 2020 00:00:00 GMT
        GET /api/x | if-none-match: "a"
            > 304 | etag: "a" | content-length: - | content-type: - | transfer-encoding: -
        GET /api/x | if-none-match: W/"a", "b"
            > 304 | etag: "a" | content-length: - | content-type: - | transfer-encoding: -
        GET /api/x | if-none-match: "b" > 200 body
        GET /api/x | if-modified-since: Sat, 01 Aug 2020 00:00:00 GMT > 304
        GET /api/x | if-modified-since: Sat, 01 Aug 2015 00:00:00 GMT > 200 body
        GET /api/x | if-match: "b" > 412
        GET /api/x | if-match: "a" > 200 body
        GET /api/x | if-unmodified-since: Sat, 01 Aug 2015 00:00:00 GMT > 412
    "#

    a_condition_of_one_client_gets_the_whole_for_the_others: r#"
        GET /api/x | if-none-match: "a" ? if-none-match: - < 200 body | cc: max-age=60 | etag: "a" > 304
        GET /api/x > 200 body
    "#

    an_answer_to_head_confirms_what_is_kept: r#"
        GET /api/x < 200 one | cc: max-age=0 | etag: "a" > 200 one
        HEAD /api/x < 200 one | cc: max-age=60 | etag: "a" | x-new: 1 > 200
        GET /api/x > 200 one | x-new: 1
    "#

    an_answer_to_head_voids_what_it_disagrees_with_which_still_stands_in: r#"
        GET /api/x < 200 one | cc: max-age=60 | etag: "a" > 200 one
        HEAD /api/x | cc: no-cache < 200 two! | cc: max-age=60 | etag: "b" > 200
        GET /api/x < hangup > 200 one | cs: ~stale-if-error
        wait 30s
        GET /api/x < 200 two! | cc: max-age=60 | etag: "b" > 200 two!
    "#

    an_answer_to_head_that_one_client_chose_changes_nothing_for_others: r#"
        set passthrough.request_headers=["*"]
        with field: cookie: a=1 || authorization: Bearer x || x-odd: 1 || accept-language: xx
        GET /api/x < 200 one | cc: max-age=60 | etag: "a" > 200 one
        HEAD /api/x | $field | cc: no-cache < 200 other | cc: max-age=60 | etag: "b" > 200
        GET /api/x > 200 one
    "#

    a_304_to_the_conditions_of_a_client_confirms_nothing_that_is_kept: r#"
        with method: GET || HEAD
        GET /api/x < 200 old | cc: max-age=0 | etag: "old" > 200 old
        $method /api/x | cc: no-store | if-none-match: "new" ? if-none-match: "new"
            < 304 | cc: max-age=60 | etag: "new" > 304 | etag: "new"
        GET /api/x ? if-none-match: "old" < 304 > 200 old | etag: "old"
    "#

    what_leads_to_the_origin_or_an_alias_leads_to_us: r#"
        set passthrough.methods=["GET", "HEAD", "POST"]
        set origin.aliases=["https://www.alias.example:8443/data"]
        GET /api/0 < 301 | cc: max-age=60 | location: ORIGIN/api/there?x=1#part | content-location: ORIGIN/api/there?x=1#part > 301 | location: http://mirror.test/api/there?x=1#part | content-location: http://mirror.test/api/there?x=1#part
        GET /api/1 < 301 | cc: max-age=60 | location: ORIGIN | content-location: ORIGIN > 301 | location: http://mirror.test/ | content-location: http://mirror.test/
        GET /api/2 < 301 | cc: max-age=60 | location: https://www.alias.example:8443/data/api/x | content-location: https://www.alias.example:8443/data/api/x > 301 | location: http://mirror.test/api/x | content-location: http://mirror.test/api/x
        GET /api/3 < 301 | cc: max-age=60 | location: //www.alias.example:8443/data | content-location: //www.alias.example:8443/data > 301 | location: http://mirror.test | content-location: http://mirror.test
        GET /api/4 < 301 | cc: max-age=60 | location: https://www.alias.example:8443/database | content-location: https://www.alias.example:8443/database > 301 | location: https://www.alias.example:8443/database | content-location: https://www.alias.example:8443/database
        GET /api/5 < 301 | cc: max-age=60 | location: https://www.alias.example/data/x | content-location: https://www.alias.example/data/x > 301 | location: https://www.alias.example/data/x | content-location: https://www.alias.example/data/x
        GET /api/6 < 301 | cc: max-age=60 | location: https://elsewhere.example/api/x | content-location: https://elsewhere.example/api/x > 301 | location: https://elsewhere.example/api/x | content-location: https://elsewhere.example/api/x
        GET /api/7 < 301 | cc: max-age=60 | location: ftp://www.alias.example:8443/data/x | content-location: ftp://www.alias.example:8443/data/x > 301 | location: ftp://www.alias.example:8443/data/x | content-location: ftp://www.alias.example:8443/data/x
        GET /api/8 < 301 | cc: max-age=60 | location: /api/there | content-location: /api/there > 301 | location: /api/there | content-location: /api/there
        GET /api/9 < 301 | cc: max-age=60 | location: there.json?x=1 | content-location: there.json?x=1 > 301 | location: there.json?x=1 | content-location: there.json?x=1
        GET /api/10 < 301 | cc: max-age=60 | location: ?page=2 | content-location: ?page=2 > 301 | location: ?page=2 | content-location: ?page=2
        HEAD /api/0
            > 301 | location: http://mirror.test/api/there?x=1#part | content-location: http://mirror.test/api/there?x=1#part
        POST /api/post < 201 ORIGIN | location: ORIGIN/api/there | content-location: ORIGIN/api/there
            > 201 ORIGIN | location: http://mirror.test/api/there | content-location: http://mirror.test/api/there
    "#

    the_path_of_the_origin_becomes_the_path_of_public_url: r#"
        set origin.url=ORIGIN/v1
        set public_url=https://mirror.test/listings
        GET /api/0 < 301 | cc: max-age=60 | location: ORIGIN/v1/api/there | content-location: ORIGIN/v1/api/there > 301 | location: https://mirror.test/listings/api/there | content-location: https://mirror.test/listings/api/there
        GET /api/1 < 301 | cc: max-age=60 | location: /v1/api/there?x=1 | content-location: /v1/api/there?x=1 > 301 | location: /listings/api/there?x=1 | content-location: /listings/api/there?x=1
        GET /api/2 < 301 | cc: max-age=60 | location: /v1 | content-location: /v1 > 301 | location: /listings | content-location: /listings
        GET /api/3 < 301 | cc: max-age=60 | location: /v12/api/there | content-location: /v12/api/there > 301 | location: /v12/api/there | content-location: /v12/api/there
        GET /api/4 < 301 | cc: max-age=60 | location: /elsewhere | content-location: /elsewhere > 301 | location: /elsewhere | content-location: /elsewhere
        GET /api/5 < 301 | cc: max-age=60 | location: there | content-location: there > 301 | location: there | content-location: there
    "#

    what_a_post_makes_void_is_found_by_the_addresses_of_the_origin: r#"
        set origin.url=ORIGIN/v1
        set public_url=https://mirror.test/listings
        set passthrough.methods=["GET", "POST"]
        GET /api/there ? GET /v1/api/there < 200 one | cc: max-age=60 > 200 one
        POST /api/other < 201 | location: /v1/api/there > 201 | location: /listings/api/there
        GET /api/there < 200 two > 200 two
    "#

    what_a_client_changes_is_void_even_if_it_does_not_wait_for_the_answer: r#"
        set passthrough.methods=["GET", "DELETE"]
        GET /api/x < 200 one | cc: max-age=60 > 200 one
        & leave 2s DELETE /api/x < after 9s 204
        wait 5s
        GET /api/x > 200 one
        wait 5s
        GET /api/x < 200 two > 200 two
    "#
}
