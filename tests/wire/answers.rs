//! The table of section 3: the answer to each parameter, id and method.

use http::Method;
use sample_origin::World;

use crate::client::{Reply, raw};
use crate::compare::list_is_the_origins;
use crate::harness::{Server, asked, shared_mirror};

const LIST: &str = "/api/listings.json";

/// Asserts that an answer from a snapshot has the head of a list, and heeds conditions and methods like one; the answer.
pub async fn obeys_http_like_lists(server: &Server, target: &str) -> Reply {
    let (list, reply) = (server.ok(LIST).await, server.ok(target).await);
    for name in [
        "content-type",
        "cache-control",
        "vary",
        "mirror-snapshot",
        "mirror-confirmed",
        "accept-ranges",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "x-content-type-options",
    ] {
        assert_eq!(reply.the(name), list.the(name), "{target}: {name}");
    }
    assert_eq!(reply.links()["license"], list.links()["license"], "{target}");
    assert!(reply.age().is_some() && reply.the("cache-status").starts_with("grandstand; hit"), "{reply:?}");
    assert!(reply.etag().starts_with("W/\""), "{reply:?}");
    let head = server.head(target).await;
    assert_eq!((head.status, head.body.len(), head.etag()), (200, 0, reply.etag()), "{target}");
    assert_eq!(head.the("content-length"), reply.body.len().to_string(), "{target}");
    let unchanged = server.get_with(target, &[("if-none-match", &reply.etag())]).await;
    assert_eq!((unchanged.status, unchanged.body.len(), unchanged.header("content-type")), (304, 0, None), "{target}");
    for name in ["etag", "cache-control", "vary", "age", "link", "mirror-snapshot", "cache-status"] {
        assert!(unchanged.header(name).is_some(), "{target}: {name}: {unchanged:?}");
    }
    server.get_with(target, &[("if-match", &reply.etag())]).await.assert_problem(412, &["If-Match"]);
    let preflight = [("origin", "https://page.example"), ("access-control-request-method", "GET")];
    assert_eq!(server.send(Method::OPTIONS, target, &preflight).await.status, 204, "{target}");
    let post = server.send(Method::POST, target, &[("content-length", "0")]).await;
    post.assert_problem(405, &[]);
    assert!(post.the("allow").contains("GET"), "{post:?}");
    reply
}

#[tokio::test]
async fn malformed_parameters_are_400_and_named() {
    let (origin, server) = shared_mirror(120).await;
    for (query, named) in [
        ("page=0", ["page", "0"]),
        ("page=%EF%BC%91", ["page", "\u{ff11}"]),
        ("page=+1", ["page", "1"]),
        ("per_page=18446744073709551616", ["per_page", "18446744073709551616"]),
        ("per_page=10&per_page=20", ["per_page", "20"]),
        ("state=texas&page=1&state=ohio", ["state", "ohio"]),
        ("snapshot=a&snapshot=b", ["snapshot", "b"]),
        ("modified_since=2025-02-30", ["modified_since", "2025-02-30"]),
        ("modified_since=2025-01-31T12:00:00%2B99:99", ["modified_since", "+99:99"]),
        ("p%61ge=0", ["page", "0"]),
    ] {
        let reply = server.get(&format!("{LIST}?{query}")).await;
        eprintln!("{query}");
        reply.assert_problem(400, &named);
    }
    assert_eq!(asked(origin), [""; 0], "what is malformed is not forwarded");
}

#[tokio::test]
async fn pages_are_clamped_echoed_and_empty_beyond_the_last() {
    let (origin, server) = shared_mirror(120).await;
    for (query, page, per_page, items) in [
        ("", 1, 50, 50),
        ("?page=3", 3, 50, 20),
        ("?page=4", 4, 50, 0),
        ("?page=18446744073709551615", u64::MAX, 50, 0),
        ("?page=18446744073709551615&per_page=100", u64::MAX, 100, 0),
        ("?per_page=100", 1, 100, 100),
        ("?per_page=101", 1, 100, 100),
        ("?per_page=18446744073709551615", 1, 100, 100),
        ("?per_page=1&page=120", 120, 1, 1),
    ] {
        let body = server.ok(&format!("{LIST}{query}")).await.json();
        let echoed = (&body["page"], &body["per_page"], body["items"].as_array().unwrap().len());
        assert_eq!(echoed, (&page.into(), &per_page.into(), items), "{query}");
        let pages = 120_u64.div_ceil(per_page);
        assert_eq!((&body["total"], &body["total_pages"]), (&120.into(), &pages.into()), "{query}");
    }
    // Not canonical: another server may read it in another way.
    for query in ["?page=002", "?per_page=0100"] {
        assert_eq!(server.get(&format!("{LIST}{query}")).await.status, 400, "{query}");
    }
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn spellings_of_one_query_are_one_resource() {
    let (origin, server) = shared_mirror(120).await;
    for (one, spellings) in [
        (
            "",
            &[
                "?page=1&per_page=50",
                "?per_page=&page=1&page=1",
                "?sport=&state=&city=&modified_since=&snapshot=",
                "?&&_=17&utm_source=x&sport",
                "?Page=0&PER_PAGE=-1",
            ][..],
        ),
        ("?sport=golf", &["?sport=%67olf", "?%73port=golf", "?sport=golf&sport=golf", "?x=y&sport=golf&sport="][..]),
        ("?state=texas&sport=baseball", &["?sport=baseball&state=texas&page=1"][..]),
        ("?per_page=100", &["?per_page=100000"][..]),
    ] {
        let plain = server.ok(&format!("{LIST}{one}")).await;
        for spelling in spellings {
            let reply = server.ok(&format!("{LIST}{spelling}")).await;
            assert_eq!((reply.etag(), &reply.body), (plain.etag(), &plain.body), "{spelling}");
            assert_eq!(reply.links(), plain.links(), "{spelling}");
        }
    }
    for name in ["sports", "states", "cities"] {
        let plain = server.ok(&format!("/api/{name}.json")).await;
        assert_eq!(server.ok(&format!("/api/{name}.json?x=1")).await.body, plain.body);
    }
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn an_unknown_slug_has_no_listings_and_is_not_asked_for() {
    let (origin, server) = shared_mirror(120).await;
    for (query, name, echoed) in [
        ("sport=chess", "sport", "chess"),
        ("state=Texas", "state", "Texas"),
        ("sport=GOLF", "sport", "GOLF"),
        ("sport=golf%20", "sport", "golf "),
        ("city=atlantis", "city", "atlantis"),
        ("city=S%C3%A3o+Paulo%26%22", "city", "S\u{e3}o Paulo&\""),
        ("sport=p%C3%A9tanque", "sport", "p\u{e9}tanque"),
        ("city=%2E%2E%2F", "city", "../"),
    ] {
        let reply = server.ok(&format!("{LIST}?{query}")).await;
        let body = reply.json();
        assert_eq!((&body["total"], &body["total_pages"]), (&0.into(), &0.into()), "{query}");
        assert_eq!(body["items"], serde_json::json!([]), "{query}");
        assert_eq!(body["filters"], serde_json::json!({ name: echoed }), "{query}");
        reply.etag();
    }
    let both = server.ok(&format!("{LIST}?sport=baseball&state=atlantis")).await.json();
    assert_eq!((&both["total"], &both["filters"]["sport"]), (&0.into(), &"baseball".into()));
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn modified_since_is_understood_in_every_documented_form() {
    let (origin, server) = shared_mirror(300).await;
    let middle = origin.world(|world| {
        let mut all: Vec<_> = world.ids().iter().map(|id| world.venue(*id).unwrap().modified.at).collect();
        all.sort();
        all[all.len() / 2]
    });
    let day = middle.to_string()[..10].to_owned();
    let midnight = server.ok(&format!("{LIST}?modified_since={day}&per_page=100")).await;
    assert!((1..300).contains(&midnight.total()), "the day splits the listings");
    for form in ["T00:00:00", "T00:00:00.000Z", "T02:00:00%2B02:00", "T02:00:00+02:00", "T02%3A00%3A00%2B02%3A00"] {
        let form = format!("{day}{form}");
        let reply = server.ok(&format!("{LIST}?modified_since={form}&per_page=100")).await;
        assert_eq!((reply.total(), reply.ids()), (midnight.total(), midnight.ids()), "{form}");
        list_is_the_origins(&server, origin, &format!("{LIST}?modified_since={form}")).await;
    }
    let exact = server.ok(&format!("{LIST}?modified_since={middle}")).await;
    let before = middle - jiff::SignedDuration::from_secs(1);
    let earlier = server.ok(&format!("{LIST}?modified_since={before}")).await;
    let then = origin.world(|world| {
        let ids = world.ids();
        ids.iter().filter(|id| world.venue(**id).unwrap().modified.at == middle).count() as u64
    });
    assert_eq!(earlier.total(), exact.total() + then, "strictly after");
    assert_eq!(exact.json()["filters"]["modified_since"], middle.to_string());
    for (form, total) in [("0001-01-01", 300), ("1970-01-01T00:00:00Z", 300), ("9999-12-30", 0)] {
        assert_eq!(server.ok(&format!("{LIST}?modified_since={form}")).await.total(), total, "{form}");
    }
}

#[tokio::test]
async fn an_id_that_names_no_listing_is_404_for_a_minute() {
    let (origin, server) = shared_mirror(120).await;
    let id = origin.world(World::ids)[0];
    server.ok(&format!("/api/listings/{id}.json")).await;
    for name in [
        "1".to_owned(),
        "999999999".to_owned(),
        "18446744073709551615".to_owned(),
        "18446744073709551616".to_owned(),
        format!("0{id}"),
        format!("+{id}"),
        format!("-{id}"),
        format!("{id}.0"),
        format!("{id}%20"),
        "0".to_owned(),
        "abc".to_owned(),
        String::new(),
    ] {
        let reply = server.get(&format!("/api/listings/{name}.json")).await;
        reply.assert_problem(404, &[]);
    }
    server.get("/api/listings/1.json").await.assert_problem(404, &["1"]);
    assert_eq!(asked(origin), [""; 0], "what the snapshot does not hold is not asked for");
}

#[tokio::test]
async fn other_methods_are_405_with_allow() {
    let (origin, server) = shared_mirror(20).await;
    let id = origin.world(World::ids)[0];
    for target in [LIST.to_owned(), "/api/sports.json".into(), format!("/api/listings/{id}.json")] {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            let reply = server.send(method.clone(), &target, &[("content-length", "0")]).await;
            reply.assert_problem(405, &[method.as_str()]);
            let allow = reply.the("allow");
            assert!(allow.contains("GET") && allow.contains("HEAD"), "{allow}");
            assert!(!allow.contains(method.as_str()), "{allow}");
        }
    }
    assert_eq!(asked(origin), [""; 0]);
}

#[tokio::test]
async fn options_is_answered_with_the_methods_that_there_are() {
    let (origin, server) = shared_mirror(20).await;
    let id = origin.world(World::ids)[0];
    let targets =
        [LIST.to_owned(), "/api/sports.json".into(), format!("/api/listings/{id}.json"), "/changes.json".into()];
    for target in targets.into_iter().chain(["/api/regions.json".to_owned()]) {
        // Neither alone makes a preflight.
        for lone in [&[][..], &[("origin", "https://page.example")], &[("access-control-request-method", "GET")]] {
            let reply = server.send(Method::OPTIONS, &target, lone).await;
            assert_eq!((reply.status, reply.the("allow")), (204, "GET, HEAD, OPTIONS".to_owned()), "{target}");
            assert!(reply.body.is_empty());
            assert_eq!(reply.the("access-control-allow-origin"), "*");
            for absent in ["content-length", "content-type", "cache-status", "access-control-max-age"] {
                assert_eq!(reply.header(absent), None, "{target}");
            }
        }
    }
    let whole = |head: &str| format!("OPTIONS * HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n{head}");
    let reply = raw(server.public, whole("\r\n").as_bytes()).await.unwrap();
    assert_eq!((reply.status, reply.the("allow")), (204, "GET, HEAD, OPTIONS".to_owned()));
    let with_body = whole("Content-Length: 5\r\n\r\nhello");
    raw(server.public, with_body.as_bytes()).await.unwrap().assert_problem(400, &["body"]);
    server.send(Method::OPTIONS, "/nothing", &[]).await.assert_problem(404, &["/nothing"]);
    server.raw_get("*").await.assert_problem(400, &["*"]);
    assert_eq!(asked(origin), [""; 0]);
}
