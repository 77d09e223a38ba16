//! Client fields beside the request itself: they change nothing and never reach the origin.

use http::Method;

use super::{answer, case_of, in_both, nothing, number, target};
use crate::harness::Upstream;

/// Fields that other caches heed or forward.
const IGNORED: &[(&str, &str)] = &[
    ("cache-control", "no-cache"),
    ("cache-control", "max-age=0"),
    ("cache-control", "no-store"),
    ("cache-control", "min-fresh=100000"),
    ("cache-control", "max-stale=0"),
    ("cache-control", "only-if-cached"),
    ("pragma", "no-cache"),
    ("cookie", "session=secret"),
    ("authorization", "Bearer secret"),
    ("range", "bytes=0-5"),
    ("if-range", "\"a\""),
    ("if-modified-since", "Tue, 01 Jan 2019 01:01:01 GMT"),
    ("if-unmodified-since", "Wed, 01 Jan 2020 00:00:00 GMT"),
    ("x-forwarded-for", "192.0.2.1"),
    ("x-forwarded-host", "evil.example"),
    ("x-forwarded-proto", "https"),
    ("forwarded", "for=192.0.2.1;host=evil.example"),
    ("x-real-ip", "192.0.2.1"),
    ("via", "1.1 evil"),
    ("host", "evil.example"),
    ("origin", "https://page.example"),
    ("referer", "https://page.example/secret"),
    ("user-agent", "a-client/1.0"),
    ("accept", "text/html"),
    ("accept-language", "de"),
    ("te", "trailers"),
    ("x-http-method-override", "DELETE"),
    ("x-original-url", "/admin"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
];

#[tokio::test]
async fn what_a_client_says_beyond_its_question_changes_nothing_and_stays_here() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(
                seen.nth,
                &[
                    ("cache-control", "max-age=3600"),
                    ("etag", "\"a\""),
                    ("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT"),
                    ("vary", "cookie, authorization, user-agent, accept-language"),
                ],
            ),
        })
        .await;
        let server = uses.start(&upstream).await;
        for (row, field) in IGNORED.iter().enumerate() {
            let target = target(row);
            // On a miss, and on a hit.
            for _ in 0..2 {
                let reply = server.get_with(&target, &[*field]).await;
                assert_eq!((reply.status, number(&reply)), (200, 1), "{uses:?} {field:?}");
                assert_eq!(reply.header("content-range"), None);
            }
            let seen = upstream.seen_of(&target);
            assert_eq!(seen.len(), 1, "{uses:?} {field:?}: one request serves all");
            assert_eq!(unsigned(&seen[0].head), canonical(&upstream, &target), "{uses:?} {field:?}");
        }
    })
    .await;
}

/// A head without the name of the server that asks, which it has in it once each.
pub fn unsigned(head: &str) -> String {
    let (names, rest): (Vec<&str>, Vec<&str>) =
        head.split_inclusive("\r\n").partition(|line| line.starts_with("via: ") || line.starts_with("cdn-loop: "));
    assert!(names.len() == 2 && names.iter().all(|line| line.matches("grandstand-").count() == 1), "{head}");
    rest.concat()
}

/// The head of the canonical request for a target.
pub fn canonical(upstream: &Upstream, target: &str) -> String {
    let host = upstream.url();
    let host = host.strip_prefix("http://").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "GET {target} HTTP/1.1\r\naccept: application/json\r\n\
         user-agent: grandstand/{version}\r\naccept-encoding: zstd,gzip,br\r\nhost: {host}\r\n\r\n"
    )
}

/// The origin may let in clients with a password; we have none, and its answer to us is for everybody.
#[tokio::test]
async fn a_client_with_a_secret_shares_the_answer_of_those_without() {
    in_both(async |uses| {
        for (case, control) in ["max-age=100000", "max-age=100000, public", "s-maxage=3600"].into_iter().enumerate() {
            let upstream = Upstream::start(move |seen| match case_of(seen) {
                None => nothing(),
                Some(_) => answer(seen.nth, &[("cache-control", control)]),
            })
            .await;
            let server = uses.start(&upstream).await;
            let target = target(case);
            for secret in [Some("a"), None, Some("b")] {
                let field = secret.map(|secret| ("authorization", secret));
                assert_eq!(number(&server.get_with(&target, field.as_slice()).await), 1, "{uses:?} {control}");
            }
            assert_eq!(upstream.count_of(&target), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_or_another_method_never_reaches_the_origin() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| if case_of(seen).is_some() { answer(1, &[]) } else { nothing() }).await;
        let server = uses.start(&upstream).await;
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::TRACE] {
            let reply = server.send(method.clone(), &target(0), &[("content-length", "0")]).await;
            assert_eq!(reply.status, 405, "{uses:?} {method}: {reply:?}");
        }
        let request =
            format!("GET {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}", target(0));
        let reply = crate::client::raw(server.public, request.as_bytes()).await.unwrap();
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(upstream.count_of(&target(0)), 0);
    })
    .await;
}
