//! Other paths: what confirms a kept answer, and what does not.

use super::scene::scenes;

scenes! {
    a_304_with_another_tag_confirms_nothing_and_the_answer_is_asked_for_again: r#"
        with target: /api/x || /api/listings/1.json
        GET $target < 200 [1] | cc: max-age=0 | etag: "1" > 200 [1]
        GET $target ? if-none-match: "1" < 304 | etag: "2" ? if-none-match: -
            < 200 [2] | cc: max-age=60 | etag: "2" > 200 [2]
        GET $target > 200 [2]
    "#

    what_nobody_asked_for_is_no_answer: r#"
        with method: GET || HEAD
        with answer: 304 || 206
        $method /api/x < $answer | etag: "1" > 502
        $method /api/x < 200 1 | cc: max-age=60 > 200
    "#

    a_tag_that_came_with_two_bodies_is_not_used: r#"
        GET /api/x < 200 1 | cc: max-age=0 | etag: "same" > 200 1
        GET /api/x ? if-none-match: "same" < 200 2 | cc: max-age=0 | etag: "same" > 200 2
        GET /api/x ? if-none-match: - < 200 3 | cc: max-age=60 | etag: "same" > 200 3
        GET /api/x | if-none-match: "same" > 200 3
    "#

    a_request_after_the_head_of_an_answer_that_needs_revalidation_reaches_the_origin: r#"
        with control: max-age=0 || no-cache || max-age=0,must-revalidate || x
        & GET /api/x < 200 first | +9s: end | cc: $control | etag: "same" > 200 firstend
        & GET /api/x < 200 second | +9s: end | cc: $control | etag: "same" > 200 secondend
    "#

    a_request_after_the_head_of_an_answer_that_is_kept_shares_it: r#"
        & GET /api/x < 200 first | +9s: end | cc: max-age=60 > 200 firstend
        & GET /api/x > 200 firstend | cs: ~collapsed
    "#
}
