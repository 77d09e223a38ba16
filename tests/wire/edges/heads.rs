//! Odd requests by HEAD, as an audit sends them.

use std::io;

use async_trait::async_trait;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response};
use sample_origin::{Asked, Body, FaultRule, Mishap};

use super::{LIST, edges, is_odd, learned};
use crate::harness::run;

#[tokio::test]
async fn an_audit_sends_some_odd_requests_with_head() {
    let (origin, server) = learned("strict", 60).await;
    let arguments = server.setup.arguments(&["audit", "--samples", "100"], &server.data_dir());
    // They are drawn: about one in eighty samples.
    for _ in 0..30 {
        let (code, said) = run(&arguments).await;
        assert_eq!(code, 0, "{said}");
        if origin.log().iter().any(|seen| seen.method == "HEAD" && is_odd(&origin, &seen.path_and_query)) {
            return;
        }
    }
    panic!("no odd request was sent with HEAD");
}

/// Another media type in answers to HEAD alone.
#[derive(Debug)]
struct OtherHeads;

#[async_trait]
impl Mishap for OtherHeads {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let mut answer = asked.right().await;
        if asked.method == Method::HEAD {
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        }
        Ok(answer)
    }
}

/// Such an origin breaks RFC 9110 §9.3.2; grandstand does not.
#[tokio::test]
async fn an_origin_whose_answers_to_head_alone_differ_is_not_followed_and_not_asked_again() {
    let (origin, server) = learned("strict", 60).await;
    let before = edges(&server).await["probed_at"].clone();
    origin.set(|switches| switches.faults.push(FaultRule::always(LIST, OtherHeads)));
    let arguments = server.setup.arguments(&["audit", "--samples", "400"], &server.data_dir());
    let (code, said) = run(&arguments).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(" equal (100 %); skipped: "), "{said}");
    assert_eq!(edges(&server).await["probed_at"], before);
}
