//! A path has one reading or is refused; a refused one is not forwarded.

use sample_origin::World;

use crate::client::{Reply, raw};
use crate::harness::{Server, Setup, asked, origin, shared_mirror};

#[tokio::test]
async fn ambiguous_paths_are_400_and_reach_nobody() {
    let (origin, server) = shared_mirror(60).await;
    for target in [
        "//api/listings.json",
        "/api//listings.json",
        "/api/./listings.json",
        "/../etc/passwd",
        "/api/..",
        "/api/.%2e/regions.json",
        "/api%2Flistings.json",
        "/api/listings%2F1.json",
        "/api/regions.json%5c",
        "/api/regions\\.json",
        "/api/listings.json%00",
        "/api/%zz",
        "/api/regions.json%2",
        "/api/..;a=b/listings.json",
        "/api/..%3B/x",
        "/api/;x/y",
    ] {
        let reply = server.raw_get(target).await;
        eprintln!("{target}");
        reply.assert_problem(400, &[]);
    }
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn a_target_ends_at_the_first_space() {
    let (origin, server) = shared_mirror(60).await;
    for target in [
        "/api/x y",
        "/api/x?a b",
        "/api/x ",
        " /api/x",
        "/api/x HTTP/1.1",
        "/api/listings.json?sport=a b",
        "/api/x?a\tb",
        "/api/x\u{b}y",
        "/api/x?a\u{7f}",
        "/api/x?a\rb",
    ] {
        let reply = server.raw_get(target).await;
        eprintln!("{target:?}");
        reply.assert_problem(400, &[]);
    }
    for target in ["/api/listings.json?x=[1]|{2}^`'", "/api/listings.json?x=a'b\\c"] {
        assert_eq!(
            server.raw_get(target).await.status,
            200,
            "what usual clients send unescaped is no mistake: {target}"
        );
    }
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn unreserved_escapes_are_decoded_once() {
    let (origin, server) = shared_mirror(60).await;
    let id = origin.world(World::ids)[0];
    let plain = server.ok("/api/listings.json").await;
    for target in ["/api/%6cistings.json", "/%61%70i/listings%2Ejson", "/api/%6Cistings.json?page=1"] {
        let reply = server.raw_get(target).await;
        assert_eq!((reply.status, &reply.body), (200, &plain.body), "{target}");
    }
    let detail = server.raw_get(&format!("/api/listings/{id}%2Ejson")).await;
    assert_eq!(detail.status, 200);
    // %25 is a percent sign, not the start of another escape.
    assert_eq!(server.raw_get("/%256cistings.json").await.status, 404);
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn case_and_trailing_slashes_make_other_paths() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).set("passthrough.paths", "[]").start().await;
    server.settled(&origin).await;
    origin.clear_log();
    for target in [
        "/api/Listings.json",
        "/API/listings.json",
        "/api/listings.json/",
        "/api/listings.JSON",
        "/api/",
        "/api/regions.json",
        "/index.html",
        "/listings.json",
        "/apix/listings.json",
        "/sitemap.xml",
        "/status",
        "/metrics",
    ] {
        server.raw_get(target).await.assert_problem(404, &[]);
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn the_path_of_public_url_is_accepted_and_stripped() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("public_url", "https://example.org/mirror/v1").start().await;
    server.settled(&origin).await;
    origin.clear_log();
    let id = origin.world(World::ids)[0];
    for path in ["/api/listings.json?page=1&per_page=20", "/api/cities.json", &format!("/api/listings/{id}.json")] {
        let (bare, based) = (server.ok(path).await, server.ok(&format!("/mirror/v1{path}")).await);
        assert_eq!((bare.etag(), bare.body), (based.etag(), based.body), "{path}");
    }
    let reply = server.ok("/mirror/v1/api/listings.json?per_page=20").await;
    let next = &reply.links()["next"];
    assert!(next.starts_with("https://example.org/mirror/v1/api/listings.json?"), "{next}");
    let cities = server.ok("/api/cities.json").await.json();
    let address = cities["items"][0]["api_url"].as_str().unwrap();
    assert!(address.starts_with("https://example.org/mirror/v1/api/listings.json?city="), "{address}");
    assert_eq!(server.get("/mirror/v1x/api/listings.json").await.status, 404);
    assert_eq!(server.get("/mirror/api/listings.json").await.status, 404);
    assert_eq!(origin.count(), 0);
}

async fn send(server: &Server, request: &str) -> Reply {
    let reply = raw(server.public, request.as_bytes()).await;
    reply.unwrap_or_else(|| panic!("no answer to {request}"))
}

#[tokio::test]
async fn a_body_is_refused_and_an_empty_one_is_fine() {
    let (origin, server) = shared_mirror(60).await;
    let head = "HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n";
    for target in ["/api/listings.json", "/api/sports.json", "/api/regions.json"] {
        if target != "/api/regions.json" {
            let empty = send(&server, &format!("GET {target} {head}Content-Length: 0\r\n\r\n")).await;
            assert_eq!(empty.status, 200, "{empty:?}");
        }
        let full = send(&server, &format!("GET {target} {head}Content-Length: 5\r\n\r\nhello")).await;
        full.assert_problem(400, &[]);
        let chunked = format!("GET {target} {head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        send(&server, &chunked).await.assert_problem(400, &[]);
        let empty_chunked = format!("GET {target} {head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        assert_eq!(send(&server, &empty_chunked).await.status, 400);
    }
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn a_body_is_never_taken_for_the_next_request() {
    let (origin, server) = shared_mirror(60).await;
    let smuggled = "GET /api/sports.json HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n\r\n";
    let length = smuggled.len();
    let head = "GET /api/listings.json?per_page=1 HTTP/1.1\r\nHost: mirror.test\r\n";
    for framing in [
        format!("Content-Length: {length}\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{smuggled}\r\n0\r\n\r\n"),
        format!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{smuggled}\r\n0\r\n\r\n"),
    ] {
        let reply = send(&server, &format!("{head}{framing}")).await;
        assert_eq!(reply.status, 400, "{framing}");
        assert!(!String::from_utf8_lossy(&reply.body).contains("DefinedTermSet"), "{framing}");
    }
    let differing =
        format!("{head}Content-Length: 0\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{smuggled}");
    if let Some(reply) = raw(server.public, differing.as_bytes()).await {
        assert_eq!(reply.status, 400, "{reply:?}");
    }
    assert_eq!(asked(origin), [""; 0]);
}
