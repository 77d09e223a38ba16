//! Unsafe methods that the operator allows, ranges, and conditions of clients.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::sync::Semaphore;

use super::{PATH, Wire, asked, kept, shield};
use crate::client::raw;
use crate::harness::{Script, Seen, Server, Setup, Upstream, wait_until};

/// A shield that lets everything pass.
async fn open(answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> (Upstream, Server) {
    let origin = Upstream::start(answer).await;
    let methods = r#"["GET", "HEAD", "POST", "PUT", "DELETE"]"#;
    let setup = Setup::shield_of_url(&origin.url()).set("passthrough.methods", methods);
    let server = setup.set("passthrough.paths", r#"["/"]"#).start().await;
    (origin, server)
}

fn counted(seen: &Seen) -> Script {
    kept(format!("answer {}", seen.number))
}

#[tokio::test]
async fn methods_that_are_not_listed_never_reach_the_origin() {
    let (origin, server) = shield(counted).await;
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::TRACE] {
        let reply = server.send(method, PATH, &[]).await;
        reply.assert_problem(405, &["GET, HEAD, OPTIONS"]);
        assert_eq!(reply.the("allow"), "GET, HEAD, OPTIONS");
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn a_preflight_and_options_name_the_methods_that_pass_where_they_pass() {
    let origin = Upstream::start(counted).await;
    let methods = r#"["POST", "GET", "PATCH"]"#;
    let server = Setup::shield_of_url(&origin.url()).set("passthrough.methods", methods).start().await;
    let preflight = [("origin", "https://page.example"), ("access-control-request-method", "PATCH")];
    let allowed = async |target: &str| {
        let reply = server.send(Method::OPTIONS, target, &preflight).await;
        assert_eq!(reply.status, 204, "{target}: {reply:?}");
        reply.the("access-control-allow-methods")
    };
    assert_eq!(allowed(PATH).await, "GET, HEAD, POST, PATCH");
    for target in ["/api/listings.json", "/api/sports.json", "/changes.json", "/elsewhere", "/api/%zz"] {
        assert_eq!(allowed(target).await, "GET, HEAD", "{target}");
    }
    let asked = server.send(Method::OPTIONS, PATH, &[]).await;
    assert_eq!((asked.status, asked.the("allow")), (204, "POST, GET, PATCH, OPTIONS".to_owned()));
    let known = server.send(Method::OPTIONS, "/api/listings.json", &[]).await;
    assert_eq!((known.status, known.the("allow")), (204, "GET, HEAD, OPTIONS".to_owned()));
    let whole = b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let whole = raw(server.public, whole).await.unwrap();
    assert_eq!((whole.status, whole.the("allow")), (204, "GET, HEAD, POST, PATCH, OPTIONS".to_owned()));
    assert_eq!(origin.count(), 0, "{:?}", origin.seen());
}

#[tokio::test]
async fn options_is_the_origins_to_answer_where_the_operator_lets_it_pass() {
    let origin = Upstream::start(|_| Script::new(200, "theirs").with("Allow", "GET, REPORT")).await;
    let methods = r#"["GET", "OPTIONS"]"#;
    let server = Setup::shield_of_url(&origin.url()).set("passthrough.methods", methods).start().await;
    let reply = server.send(Method::OPTIONS, PATH, &[]).await;
    assert_eq!((reply.status, reply.text(), reply.the("allow")), (200, "theirs", "GET, REPORT".to_owned()));
    let preflight = [("origin", "https://page.example"), ("access-control-request-method", "GET")];
    assert_eq!(server.send(Method::OPTIONS, PATH, &preflight).await.status, 204);
    assert_eq!(origin.count(), 1, "preflights are answered here");
}

#[tokio::test]
async fn what_changes_a_resource_makes_what_is_kept_of_it_void() {
    let (origin, server) = open(|seen| match seen.method.as_str() {
        "GET" => counted(seen),
        _ if seen.target.contains("fails") => Script::new(500, "no"),
        _ if seen.target.contains("names") => Script::new(201, "")
            .with("Location", "/api/located")
            .with("Content-Location", format!("http://{}/api/content", seen.header("host").unwrap())),
        _ if seen.target.contains("elsewhere") => Script::new(201, "")
            .with("Location", "http://elsewhere.example/api/located")
            .with("Content-Location", "//elsewhere.example/api/content"),
        _ => Script::new(204, ""),
    })
    .await;
    let all = ["/other", "/api/fails", "/api/names", "/api/located", "/api/content", "/api/elsewhere"];
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        for (target, void) in [
            ("/other", &["/other"][..]),
            ("/api/fails", &[]),
            ("/api/elsewhere", &["/api/elsewhere"]),
            ("/api/names", &["/api/names", "/api/located", "/api/content"]),
        ] {
            let mut before = Vec::new();
            for target in all {
                before.push(server.ok(target).await.body);
            }
            let reply = server.send(method.clone(), target, &[]).await;
            assert!(reply.the("cache-status").contains("fwd=method"), "{reply:?}");
            for (target, before) in all.iter().zip(&before) {
                let changed = server.ok(target).await.body != *before;
                assert_eq!(changed, void.contains(target), "{method} on {target}");
            }
        }
    }
    assert!(origin.count() > 0);
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

#[tokio::test]
async fn an_answer_that_was_asked_for_before_a_change_is_not_kept_and_not_joined() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = open({
        let gate = gate.clone();
        move |seen| match seen.method.as_str() {
            "GET" if seen.number == 1 => kept("old").held_by(&gate),
            "GET" => kept("new"),
            _ => Script::new(204, ""),
        }
    })
    .await;
    let early = Wire::get(server.public, PATH).await;
    asked(&origin, 1).await;
    assert_eq!(server.send(Method::POST, PATH, &[]).await.status, 204);
    assert_eq!(server.ok(PATH).await.text(), "new", "it does not wait for the old one");
    gate.add_permits(1);
    assert!(early.rest().await.ends_with("old"));
    assert_eq!(server.ok(PATH).await.text(), "new");
    assert_eq!(origin.count(), 3);
}

#[tokio::test]
async fn an_answer_to_post_is_for_its_client_alone() {
    let (origin, server) = open(|seen| {
        let answer = kept(format!("{} {}", seen.method, seen.header("x-name").unwrap_or("-")));
        answer.with("Content-Location", &seen.target)
    })
    .await;
    for field in [&[][..], &[("x-name", "<script>")]] {
        let reply = server.send(Method::POST, PATH, field).await;
        assert!(!reply.the("cache-status").contains("stored"), "{reply:?}");
        assert_eq!(server.ok(PATH).await.text(), "GET -");
    }
    assert_eq!(origin.count(), 4, "a POST invalidates");
}

#[tokio::test]
async fn ranges_come_from_what_is_kept_or_from_the_origin() {
    let (origin, server) = shield(|seen| match seen.header("range") {
        Some(range) => Script::new(206, "234").with("Content-Range", "bytes 2-4/10").with("X-Range", range),
        None => kept("0123456789").with("ETag", "\"a\""),
    })
    .await;
    let miss = server.get_with(PATH, &[("range", "bytes=2-4")]).await;
    assert_eq!((miss.status, miss.text(), miss.the("x-range").as_str()), (206, "234", "bytes=2-4"));
    assert_eq!(server.ok(PATH).await.text(), "0123456789", "a part is not kept as the whole");
    assert_eq!(origin.count(), 2);
    for (headers, status, body, content_range) in [
        (&[("range", "bytes=2-4")][..], 206, "234", Some("bytes 2-4/10")),
        (&[("range", "bytes=-3")], 206, "789", Some("bytes 7-9/10")),
        (&[("range", "bytes=8-")], 206, "89", Some("bytes 8-9/10")),
        (&[("range", "bytes=8-100")], 206, "89", Some("bytes 8-9/10")),
        (&[("range", "bytes=10-")], 416, "", Some("bytes */10")),
        (&[("range", "bytes=4-2")], 200, "0123456789", None),
        (&[("range", "lines=1-2")], 200, "0123456789", None),
        (&[("range", "bytes=2-4"), ("if-range", "\"a\"")], 206, "234", Some("bytes 2-4/10")),
        (&[("range", "bytes=2-4"), ("if-range", "\"b\"")], 200, "0123456789", None),
        (&[("range", "bytes=2-4"), ("if-none-match", "\"a\"")], 304, "", None),
    ] {
        let reply = server.get_with(PATH, headers).await;
        assert_eq!((reply.status, reply.text()), (status, body), "{headers:?}: {reply:?}");
        assert_eq!(reply.header("content-range").as_deref(), content_range, "{headers:?}");
    }
    assert_eq!(origin.count(), 2, "all from what is kept");
}

#[tokio::test]
async fn clients_conditions_hold_against_kept_and_streamed_answers() {
    let date = "Sat, 01 Aug 2020 00:00:00 GMT";
    let (origin, server) = shield(move |seen| {
        let control = if seen.target.contains("private") { "private" } else { "max-age=60" };
        Script::new(200, "body").with("Cache-Control", control).with("ETag", "\"a\"").with("Last-Modified", date)
    })
    .await;
    for path in ["/api/kept", "/api/private"] {
        for (number, (headers, status)) in [
            (("if-none-match", "\"a\""), 304),
            (("if-none-match", "W/\"a\", \"b\""), 304),
            (("if-none-match", "\"b\""), 200),
            (("if-modified-since", date), 304),
            (("if-modified-since", "Sat, 01 Aug 2015 00:00:00 GMT"), 200),
            (("if-match", "\"b\""), 412),
            (("if-match", "\"a\""), 200),
            (("if-unmodified-since", "Sat, 01 Aug 2015 00:00:00 GMT"), 412),
        ]
        .into_iter()
        .enumerate()
        {
            let target = format!("{path}?{number}");
            for round in 0..2 {
                let reply = server.get_with(&target, &[headers]).await;
                assert_eq!(reply.status, status, "{target} {headers:?}, round {round}: {reply:?}");
                if status == 304 {
                    assert_eq!((reply.etag().as_str(), reply.body.len()), ("\"a\"", 0));
                    for name in ["content-length", "content-type", "transfer-encoding"] {
                        assert_eq!(reply.header(name), None, "{reply:?}");
                    }
                }
            }
            let others = server.ok(&target).await;
            assert_eq!(others.text(), "body", "others get all of it");
            let times = origin.seen().iter().filter(|seen| seen.target == target).count();
            assert_eq!(times, if path == "/api/kept" { 1 } else { 3 }, "{target}");
        }
    }
}

#[tokio::test]
async fn an_answer_to_head_confirms_or_voids_what_is_kept() {
    let (origin, server) =
        shield(|_| Script::new(200, "one").with("Cache-Control", "max-age=0").with("ETag", "\"a\"")).await;
    server.ok(PATH).await;
    origin.answers(|_| {
        Script::new(200, "one").with("Cache-Control", "max-age=3600").with("ETag", "\"a\"").with("X-New", "1")
    });
    assert_eq!(server.head(PATH).await.status, 200);
    origin.forget();
    assert_eq!(server.ok(PATH).await.the("x-new"), "1");
    assert_eq!(origin.count(), 0, "confirmed by the answer to HEAD");

    let (origin, server) = shield(|_| {
        Script::new(200, "one").with("Cache-Control", "max-age=0, stale-while-revalidate=60").with("ETag", "\"a\"")
    })
    .await;
    server.ok(PATH).await;
    origin.answers(|_| Script::new(200, "two!").with("Cache-Control", "max-age=3600").with("ETag", "\"b\""));
    server.get_with(PATH, &[("cache-control", "no-cache")]).await;
    wait_until("the new one is kept", || async { server.ok(PATH).await.text() == "two!" }).await;
}

#[tokio::test]
async fn an_answer_to_head_that_one_client_chose_changes_nothing_for_others() {
    for field in [("cookie", "a=1"), ("authorization", "Bearer x"), ("x-odd", "1"), ("accept-language", "xx")] {
        let (origin, server) = shield(|seen| match &*seen.method {
            "HEAD" => kept("other").with("ETag", "\"b\""),
            _ => kept("one").with("ETag", "\"a\""),
        })
        .await;
        server.ok(PATH).await;
        server.send(Method::HEAD, PATH, &[field, ("cache-control", "no-cache")]).await;
        assert_eq!((server.ok(PATH).await.text(), origin.count()), ("one", 2), "{field:?}");
    }
}

#[tokio::test]
async fn what_head_disagrees_with_still_stands_in_for_a_failing_origin() {
    let (origin, server) = shield(|_| kept("one").with("ETag", "\"a\"")).await;
    server.ok(PATH).await;
    origin.answers(|_| kept("two!").with("ETag", "\"b\""));
    server.send(Method::HEAD, PATH, &[("cache-control", "no-cache")]).await;
    origin.go_down().await;
    let reply = server.ok(PATH).await;
    assert_eq!(reply.text(), "one");
    assert!(reply.the("cache-status").contains("stale-if-error"), "{reply:?}");
    origin.come_back();
    wait_until("the new one is kept", || async { server.ok(PATH).await.text() == "two!" }).await;
}

#[tokio::test]
async fn a_304_to_the_conditions_of_a_client_confirms_nothing_that_is_kept() {
    let (origin, server) = shield(|seen| match seen.header("if-none-match") {
        Some("\"new\"") => Script::new(304, "").with("ETag", "\"new\"").with("Cache-Control", "max-age=60"),
        _ => Script::new(200, "old").with("ETag", "\"old\"").with("Cache-Control", "max-age=0"),
    })
    .await;
    server.ok(PATH).await;
    let mine = [("cache-control", "no-store"), ("if-none-match", "\"new\"")];
    for method in [Method::GET, Method::HEAD] {
        let reply = server.send(method, PATH, &mine).await;
        assert_eq!((reply.status, reply.etag().as_str(), reply.body.len()), (304, "\"new\"", 0), "{reply:?}");
    }
    origin.forget();
    assert_eq!(server.ok(PATH).await.etag(), "\"old\"");
    assert_eq!(
        origin.seen()[0].header("if-none-match"),
        Some("\"old\""),
        "what is kept is still the old one, and stale"
    );
}

#[tokio::test]
async fn what_a_client_changes_is_void_even_if_it_does_not_wait_for_the_answer() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = open({
        let gate = gate.clone();
        move |seen| if seen.method == "GET" { counted(seen) } else { Script::new(204, "").held_by(&gate) }
    })
    .await;
    assert_eq!(server.ok(PATH).await.text(), "answer 1");
    let request = format!("DELETE {PATH} HTTP/1.1\r\nHost: x\r\n\r\n");
    let gone = Wire::send(server.public, &request).await;
    asked(&origin, 2).await;
    drop(gone);
    // It may be seen to have gone before the answer, or after it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    gate.add_permits(1);
    wait_until("the change shows", || async { server.ok(PATH).await.text() == "answer 3" }).await;
}

#[tokio::test]
async fn what_is_refreshed_in_the_background_is_asked_for_in_nobodys_name() {
    let control = "public, max-age=0, stale-while-revalidate=60";
    let (origin, server) =
        shield(move |_| Script::new(200, "x").with("Cache-Control", control).with("ETag", "\"a\"")).await;
    server.ok(PATH).await;
    for field in [("authorization", "Bearer secret"), ("cookie", "a=1")] {
        // A request for another client may be under way.
        let before = origin.count();
        wait_until("it is refreshed twice", || async {
            server.get_with(PATH, &[field]).await;
            origin.count() >= before + 2
        })
        .await;
        for seen in &origin.seen()[before..] {
            assert_eq!((seen.header(field.0), seen.header("if-none-match")), (None, Some("\"a\"")), "{seen:?}");
        }
    }
}
