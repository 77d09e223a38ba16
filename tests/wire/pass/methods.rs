//! Unsafe methods that the operator allows: bodies of requests.

use super::{PATH, Wire};
use crate::client::raw;
use crate::harness::{Script, Seen, Server, Setup, Upstream};

/// A shield that lets everything pass.
async fn open(answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> (Upstream, Server) {
    let origin = Upstream::start(answer).await;
    let methods = r#"["GET", "HEAD", "POST", "PUT", "DELETE"]"#;
    let setup = Setup::shield_of_url(&origin.url()).set("passthrough.methods", methods);
    let server = setup.set("passthrough.paths", r#"["/"]"#).start().await;
    (origin, server)
}

#[tokio::test]
async fn bodies_of_requests_reach_the_origin_whole_within_bounds() {
    let (origin, server) = open(|seen| Script::new(200, format!("{} bytes", seen.body.len()))).await;
    let post = |head: &str, body: &str| {
        format!("POST {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n\r\n{body}")
    };
    let body = "b".repeat(1 << 20);
    let full = post(&format!("Content-Length: {}\r\nX-Mine: yes\r\nCookie: a=1", body.len()), &body);
    assert_eq!(raw(server.public, full.as_bytes()).await.unwrap().text(), "1048576 bytes");
    let seen = origin.seen().pop().unwrap();
    assert_eq!((seen.header("x-mine"), seen.header("cookie")), (Some("yes"), Some("a=1")));
    origin.forget();
    let large = post("Content-Length: 1048577\r\nExpect: 100-continue", "");
    let refused = raw(server.public, large.as_bytes()).await.unwrap();
    refused.assert_problem(413, &[]);
    for chunked in [
        post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\nContent-Length: 5", "5\r\nhello\r\n0\r\n\r\n"),
    ] {
        let refused = raw(server.public, chunked.as_bytes()).await.unwrap();
        assert!(matches!(refused.status, 400 | 411), "{refused:?}");
    }
    let get = format!("GET {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(raw(server.public, get.as_bytes()).await.unwrap().status, 400);
    assert_eq!(origin.count(), 0, "{:?}", origin.seen());
}

#[tokio::test]
async fn a_client_that_expects_to_be_told_to_go_on_is_told() {
    let (origin, server) = open(|seen| Script::new(200, seen.body.clone())).await;
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut wire = Wire::send(server.public, &head).await;
    wire.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(origin.count(), 0);
    wire.write("hello").await;
    let all = wire.rest().await;
    assert!(all.contains("HTTP/1.1 200") && all.ends_with("hello"), "{all}");
    assert_eq!(origin.seen()[0].header("expect"), None);
}
