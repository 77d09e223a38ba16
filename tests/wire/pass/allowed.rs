//! The origin sees only those fields of a client's GET and HEAD that `passthrough.request_headers` names.

use http::Method;

use super::{Wire, kept};
use crate::harness::{Script, Seen, Server, Setup, Upstream};

async fn shield(answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> (Upstream, Server) {
    let origin = Upstream::start(answer).await;
    let server = Setup::shield_of_url(&origin.url()).start().await;
    (origin, server)
}

/// What the origin saw of a request, without this proxy's own fields.
fn said(seen: &Seen) -> Vec<String> {
    let own = ["host", "user-agent", "via", "cdn-loop"];
    let mut said: Vec<String> =
        seen.headers.keys().map(ToString::to_string).filter(|name| !own.contains(&name.as_str())).collect();
    said.sort_unstable();
    said.dedup();
    said
}

const EVERYTHING: &str = "Accept: a/b\r\nAccept-Charset: utf-8\r\nAccept-Encoding: gzip\r\nAccept-Language: de\r\n\
    Authorization: Basic x\r\nCache-Control: no-cache\r\nCookie: a=b\r\nDNT: 1\r\nOrigin: http://x\r\nPragma: x\r\n\
    Referer: http://x\r\nUser-Agent: browser\r\nX-Invoke-Status: 404\r\nRSC: 1\r\nX-Tenant: evil\r\nBase-Url: evil\r\n\
    X-Forwarded-For: 192.0.2.1\r\nTraceparent: x\r\n";

#[tokio::test]
async fn only_named_fields_of_a_get_reach_the_origin() {
    let (origin, server) = shield(|_| kept("x")).await;
    for method in ["GET", "HEAD"] {
        let request = format!("{method} /api/{method} HTTP/1.1\r\nHost: x\r\n{EVERYTHING}Connection: close\r\n\r\n");
        Wire::send(server.public, &request).await.rest().await;
        let seen = origin.seen().pop().unwrap();
        assert_eq!(said(&seen), ["accept", "accept-language", "authorization", "cookie"], "{}", seen.head);
        assert!(seen.header("user-agent").unwrap().starts_with("grandstand/"));
    }
}

#[tokio::test]
async fn conditions_and_ranges_are_sent_as_the_cache_needs_them() {
    let (origin, server) = shield(|seen| {
        let parts = seen.header("range").is_some();
        let answer =
            if parts { Script::new(206, "x").with("Content-Range", "bytes 0-0/9") } else { Script::new(200, "x") };
        answer.with("ETag", "\"a\"").with("Cache-Control", "max-age=0")
    })
    .await;
    server.get_with("/api/part", &[("range", "bytes=0-0"), ("if-range", "\"a\""), ("x-tenant", "y")]).await;
    assert_eq!(said(&origin.seen()[0]), ["accept", "if-range", "range"]);
    server.ok("/api/whole").await;
    server.ok("/api/whole").await;
    let again = origin.seen_of("/api/whole").pop().unwrap();
    assert_eq!(
        (said(&again), again.header("if-none-match")),
        (vec!["accept".into(), "if-none-match".into()], Some("\"a\""))
    );
}

#[tokio::test]
async fn a_field_that_no_vary_names_chooses_nothing_for_others() {
    const FIELDS: [&str; 8] =
        ["x-invoke-status", "rsc", "x-tenant", "base-url", "x-middleware-prefetch", "accept-charset", "dnt", "x-odd"];
    let (_origin, server) = shield(|seen| {
        let chosen = FIELDS.iter().any(|name| seen.header(name).is_some());
        kept(if chosen { "chosen" } else { "right" })
    })
    .await;
    for name in FIELDS {
        let target = format!("/api/{name}");
        assert_eq!(server.get_with(&target, &[(name, "evil")]).await.text(), "right", "{name}");
        assert_eq!(server.ok(&target).await.text(), "right", "{name}");
    }
}

/// `Connection` takes a field out of what is sent: what is sent does not say what the client wants.
#[tokio::test]
async fn what_one_client_wants_alone_is_not_kept_whatever_of_it_is_sent() {
    let (_origin, server) = shield(|seen| {
        let chosen = ["range", "if-none-match"].iter().any(|name| seen.header(name).is_some());
        kept(if chosen { "chosen" } else { "right" })
    })
    .await;
    let tag = ("if-none-match", "\"a\"");
    for (number, fields) in [
        &[tag, ("cache-control", "no-store")][..],
        &[tag, ("cache-control", "no-store"), ("connection", "cache-control")],
        &[tag, ("range", "bytes=0-0"), ("connection", "range")],
    ]
    .iter()
    .enumerate()
    {
        let target = format!("/api/{number}");
        assert_eq!(server.get_with(&target, fields).await.text(), "chosen", "{fields:?}");
        assert_eq!(server.ok(&target).await.text(), "right", "{fields:?}");
    }
}

#[tokio::test]
async fn a_vary_on_a_field_that_is_not_sent_makes_no_variants() {
    let (origin, server) = shield(|_| kept("x").with("Vary", "User-Agent, X-Tenant, Accept-Language")).await;
    for agent in ["one", "two", "three"] {
        server.get_with("/api/x", &[("user-agent", agent), ("x-tenant", agent)]).await;
    }
    assert_eq!(origin.count(), 1);
    for language in ["de", "en", "de"] {
        server.get_with("/api/x", &[("accept-language", language)]).await;
    }
    assert_eq!(origin.count(), 3, "what is sent makes variants as before");
}

#[tokio::test]
async fn credentials_are_for_one_client_alone_unless_the_origin_says_otherwise() {
    let (origin, server) = shield(|seen| {
        let answer = kept(format!("for {:?} {:?}", seen.header("authorization"), seen.header("cookie")));
        if seen.target.contains("public") { answer.with("Cache-Control", "public") } else { answer }
    })
    .await;
    for field in ["authorization", "cookie"] {
        let target = format!("/api/{field}");
        for value in ["one", "two"] {
            let reply = server.get_with(&target, &[(field, value)]).await;
            assert!(reply.text().contains(value), "{reply:?}");
        }
        assert_eq!(server.ok(&target).await.text(), "for None None", "{field}");
    }
    assert_eq!(origin.count(), 6);
}

#[tokio::test]
async fn other_fields_may_be_named_and_other_methods_carry_all() {
    let origin = Upstream::start(|_| kept("x")).await;
    let setup = Setup::shield_of_url(&origin.url())
        .set("passthrough.request_headers", r#"["X-Tenant", "user-agent"]"#)
        .set("passthrough.methods", r#"["GET", "HEAD", "POST"]"#);
    let server = setup.start().await;
    let headers = [("x-tenant", "y"), ("user-agent", "browser"), ("accept", "a/b"), ("x-odd", "z")];
    server.get_with("/api/x", &headers).await;
    let seen = origin.seen().pop().unwrap();
    assert_eq!((said(&seen), seen.header("user-agent")), (vec!["x-tenant".to_owned()], Some("browser")));
    server.send(Method::POST, "/api/y", &headers).await;
    let seen = origin.seen().pop().unwrap();
    for (name, value) in headers {
        assert_eq!(seen.header(name), Some(value), "a POST carries all");
    }
}

#[tokio::test]
async fn an_error_is_kept_where_no_field_of_a_client_went_out_with_its_request() {
    let (origin, server) = shield(|_| Script::new(404, "no").with("Cache-Control", "max-age=60")).await;
    for agent in ["one", "two"] {
        let reply = server.get_with("/api/x", &[("user-agent", agent), ("x-search", "<script>")]).await;
        assert_eq!(reply.status, 404);
    }
    assert_eq!(origin.count(), 1, "the origin saw nothing that is one client's own");
}
