//! Entity tags and preconditions: RFC 9110 section 13, and what an entity tag promises.

use http::Method;
use sample_origin::{ItemOrder, Switches, World};

use crate::client::{Reply, raw};
use crate::harness::{PUBLIC, Server, Setup, origin, origin_with, shared_mirror, wait_until};

const CODINGS: [Option<&str>; 4] = [None, Some("gzip"), Some("br"), Some("zstd")];

/// One of each kind of resource.
fn resources(ids: &[u64]) -> [String; 4] {
    let list = "/api/listings.json".to_owned();
    [list.clone(), format!("{list}?sport=baseball&page=1"), "/api/cities.json".into(), detail(ids[0])]
}

fn detail(id: u64) -> String {
    format!("/api/listings/{id}.json")
}

fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or_else(|| panic!("{tag} is not weak"))
}

#[tokio::test]
async fn a_304_has_the_promised_headers_and_nothing_of_the_body() {
    let origin = origin(120).await;
    let setup = Setup::mirror_of(&origin).set("rate_limit.requests_per_minute", "1000");
    let server = setup.start().await;
    server.settled(&origin).await;
    for target in resources(&origin.world(World::ids)) {
        let full = server.ok(&target).await;
        for coding in CODINGS {
            let tag = full.etag();
            let mut headers = vec![("if-none-match", tag.as_str()), ("origin", "https://page.example")];
            headers.extend(coding.map(|coding| ("accept-encoding", coding)));
            for method in [Method::GET, Method::HEAD] {
                let reply = server.send(method, &target, &headers).await;
                assert_eq!(reply.status, 304, "{target}");
                assert!(reply.body.is_empty());
                for name in ["etag", "cache-control", "vary", "link", "mirror-snapshot", "mirror-confirmed"] {
                    assert_eq!(reply.the(name), full.the(name), "{target} {name}");
                }
                for name in ["access-control-allow-origin", "access-control-expose-headers", "ratelimit-policy"] {
                    assert_eq!(reply.the(name), full.the(name), "{target} {name}");
                }
                for name in ["date", "age", "cache-status", "ratelimit", "x-accel-expires"] {
                    reply.the(name);
                }
                for name in ["content-encoding", "content-length", "content-type", "transfer-encoding"] {
                    assert_eq!(reply.header(name), None, "{target} {name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_connection_stays_usable_after_a_304_and_after_head() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let tag = server.ok("/api/sports.json").await.etag();
    let head = "HTTP/1.1\r\nHost: mirror.test\r\n";
    let requests = format!(
        "GET /api/sports.json {head}If-None-Match: {tag}\r\n\r\nHEAD /api/sports.json {head}\r\n\
         GET /api/sports.json {head}Connection: close\r\n\r\n"
    );
    let first = raw(server.public, requests.as_bytes()).await.unwrap();
    assert_eq!(first.status, 304);
    let rest = String::from_utf8(first.body.to_vec()).unwrap();
    assert_eq!(rest.matches("HTTP/1.1 200").count(), 2, "{rest}");
    assert_eq!(rest.matches("DefinedTermSet").count(), 1, "{rest}");
}

#[tokio::test]
async fn head_gives_the_headers_of_get() {
    // Of its own: what others make hot gets a better coding between two requests.
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let mut targets = resources(&origin.world(World::ids)).to_vec();
    targets.extend(["/api/listings/1.json", "/api/listings.json?page=0"].map(str::to_owned));
    for target in targets {
        for coding in CODINGS {
            let headers: Vec<_> = coding.map(|coding| ("accept-encoding", coding)).into_iter().collect();
            let get = server.get_with(&target, &headers).await;
            let head = server.send(Method::HEAD, &target, &headers).await;
            assert_eq!(comparable(&get), comparable(&head), "{target} {coding:?}");
            assert!(head.body.is_empty());
            assert_eq!(head.the("content-length"), get.body.len().to_string(), "{target}");
        }
    }
}

/// Status and headers without those that tell the time.
fn comparable(reply: &Reply) -> (u16, Vec<(String, String)>) {
    let varying = ["date", "age", "cache-status", "ratelimit", "x-accel-expires", "x-request-id"];
    let timeless = |name: &str| !varying.contains(&name);
    let headers = reply.headers.iter().filter(|(name, _)| timeless(name.as_str()));
    let mut headers: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    headers.sort();
    (reply.status, headers)
}

#[tokio::test]
async fn preconditions_are_heard_for_each_kind_of_resource() {
    let (origin, server) = shared_mirror(20).await;
    for target in resources(&origin.world(World::ids)) {
        let tag = server.ok(&target).await.etag();
        let (tag, strong, list) = (tag.as_str(), opaque(&tag), &*format!("\"x\",{tag},\"y\""));
        for (fields, status) in [
            (&[("if-none-match", strong)][..], 304),
            (&[("if-none-match", list)], 304),
            (&[("if-none-match", "\"x\""), ("if-none-match", tag)], 304),
            (&[("if-none-match", strong.trim_matches('"'))], 200),
            (&[("if-match", "*")], 200),
            (&[("if-match", "*"), ("if-none-match", tag)], 304),
            (&[("if-match", tag)], 412),
            (&[("if-match", strong), ("if-none-match", tag)], 412),
        ] {
            let reply = server.get_with(&target, fields).await;
            assert_eq!(reply.status, status, "{target} {fields:?}");
            if status == 412 {
                reply.assert_problem(412, &[]);
            }
        }
    }
}

#[tokio::test]
async fn ranges_and_dates_are_ignored() {
    let (origin, server) = shared_mirror(20).await;
    for target in resources(&origin.world(World::ids)) {
        let full = server.ok(&target).await;
        assert_eq!(full.header("last-modified"), None, "{target}");
        assert_eq!(full.the("accept-ranges"), "none", "{target}");
        for (name, value) in [
            ("range", "bytes=0-9"),
            ("range", "bytes=-1"),
            ("range", "bytes=999999999-"),
            ("if-modified-since", "Fri, 31 Dec 2100 23:59:59 GMT"),
            ("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            let reply = server.get_with(&target, &[(name, value)]).await;
            assert_eq!((reply.status, &reply.body), (200, &full.body), "{target} {name}: {value}");
            assert_eq!(reply.header("content-range"), None);
        }
    }
}

/// The entity tags of page 1, page 3, a filter, a taxonomy and a detail.
async fn tags(server: &Server, id: u64) -> [String; 5] {
    let mut tags = Vec::new();
    for target in ["/api/listings.json", "/api/listings.json?page=3", "/api/listings.json?sport=golf"] {
        tags.push(server.ok(target).await.etag());
    }
    tags.push(server.ok("/api/sports.json").await.etag());
    tags.push(server.ok(&detail(id)).await.etag());
    tags.try_into().unwrap()
}

#[tokio::test]
async fn an_entity_tag_survives_restarts_and_refreshes_that_find_nothing() {
    let origin = origin(130).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let id = origin.world(World::ids)[5];
    let (before, snapshot) = (tags(&server, id).await, server.snapshot().await);
    server.refreshed(&origin).await;
    assert_eq!(tags(&server, id).await, before, "a refresh");
    server.restart().await;
    server.ready().await;
    assert_eq!(tags(&server, id).await, before, "a restart after kill -9");
    server.restart_with("public_url", "http://elsewhere.test").await;
    server.ready().await;
    let moved = tags(&server, id).await;
    assert_ne!(moved[3], before[3], "public_url shows in a taxonomy");
    assert_eq!((&moved[..3], &moved[4]), (&before[..3], &before[4]), "and nowhere else");
    server.restart_with("public_url", PUBLIC).await;
    server.ready().await;
    server.settled(&origin).await;
    assert_eq!((tags(&server, id).await, server.snapshot().await), (before, snapshot));
}

#[tokio::test]
async fn an_entity_tag_changes_with_what_it_names_and_with_nothing_else() {
    let switches = Switches { order: ItemOrder::ById, ..Switches::default() };
    let origin = origin_with(130, switches).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    // In the order by id the last listing is on page 3 and leaves it on page 3.
    let (first, last) = origin.world(|world| (world.ids()[0], *world.ids().last().unwrap()));
    let not_golf = |id| origin.world(|world| world.slugs_of(id).unwrap().0) != "golf";
    assert!(not_golf(last), "choose another seed");
    let before = tags(&server, first).await;
    origin.edit(|world| assert!(world.touch(last)));
    server.refresh().await;
    wait_until("page 3 has another tag", || async { server.ok("/api/listings.json?page=3").await.etag() != before[1] })
        .await;
    let after = tags(&server, first).await;
    assert_eq!(after[0], before[0], "page 1 does not show the listing");
    assert_eq!(after[2], before[2], "golf does not show the listing");
    assert_eq!(after[3..], before[3..], "neither do the sports and another detail");
    let old = [("if-none-match", before[1].as_str())];
    assert_eq!(server.get_with("/api/listings.json?page=3", &old).await.status, 200);
    assert_eq!(server.get_with("/api/listings.json", &[("if-none-match", &before[0])]).await.status, 304);
}
