//! The headers around an answer: CORS, links, freshness, and how it was made.

use http::Method;
use sample_origin::World;

use crate::client::http2_client;
use crate::harness::{PUBLIC, Setup, asked, origin, shared_mirror, wait_until};

const EXPOSED: [&str; 13] = [
    "age",
    "date",
    "etag",
    "link",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "cache-status",
    "mirror-snapshot",
    "mirror-confirmed",
    "accept-ranges",
    "content-range",
    "content-disposition",
];

#[tokio::test]
async fn every_answer_carries_cors_headers_and_says_that_its_type_is_right() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let id = origin.world(World::ids)[0];
    let targets = [
        "/api/listings.json".to_owned(),
        "/api/listings.json?page=0".into(),
        "/api/sports.json".into(),
        format!("/api/listings/{id}.json"),
        "/api/listings/1.json".into(),
        "/api/listings.json?snapshot=none".into(),
        "/changes.json".into(),
        "/api/regions.json".into(),
        "/nothing".into(),
        "/api/listings.json%00".into(),
        "/api//".into(),
    ];
    for target in &targets {
        assert_eq!(server.head(target).await.the("x-content-type-options"), "nosniff", "{target}");
        for origin in [None, Some(("origin", "https://page.example"))] {
            let reply = server.get_with(target, origin.as_slice()).await;
            assert_eq!(reply.the("access-control-allow-origin"), "*", "{target}");
            assert_eq!(reply.header("access-control-allow-credentials"), None, "{target}");
            assert_eq!(reply.the("x-content-type-options"), "nosniff", "{target}");
            let exposed = reply.the("access-control-expose-headers").to_lowercase();
            let exposed: Vec<_> = exposed.split(',').map(str::trim).collect();
            for name in EXPOSED {
                assert!(exposed.contains(&name), "{target}: {name} is not in {exposed:?}");
            }
        }
    }
    let post = server.send(Method::POST, "/api/listings.json", &[("content-length", "0")]).await;
    assert_eq!(post.the("access-control-allow-origin"), "*");
    let tag = server.ok("/api/sports.json").await.etag();
    let unchanged = server.get_with("/api/sports.json", &[("if-none-match", &tag)]).await;
    assert_eq!((unchanged.status, unchanged.header("x-content-type-options")), (304, None));
    for target in ["/", "/livez", "/status", "/metrics", "/snapshots", "/bundle", "/nothing"] {
        let reply = server.admin(Method::GET, target).await;
        assert_eq!(reply.the("x-content-type-options"), "nosniff", "{target}");
    }

    // A preflight is answered for a day.
    origin.clear_log();
    for target in ["/api/listings.json?sport=golf", "/api/cities.json", "/api/listings/1.json"] {
        let preflight = [
            ("origin", "https://page.example"),
            ("access-control-request-method", "GET"),
            ("access-control-request-headers", "if-none-match"),
        ];
        let reply = server.send(Method::OPTIONS, target, &preflight).await;
        assert_eq!((reply.status, reply.body.len(), reply.header("cache-status")), (204, 0, None), "{target}");
        for (name, value) in [
            ("access-control-allow-origin", "*"),
            ("access-control-max-age", "86400"),
            // The wildcard covers every field but this (the Fetch standard).
            ("access-control-allow-headers", "*, Authorization"),
            ("access-control-allow-methods", "GET, HEAD"),
        ] {
            assert_eq!(reply.the(name), value, "{target}");
        }
    }
    assert_eq!(asked(&origin), [""; 0]);
}

#[tokio::test]
async fn links_lead_through_the_pages() {
    let (origin, server) = shared_mirror(230).await;
    let pages = |reply: &crate::client::Reply| {
        let links = reply.links();
        ["first", "prev", "next", "last"].map(|rel| {
            let target = links.get(rel)?;
            let url = url::Url::parse(target).unwrap();
            assert!(target.starts_with(&format!("{PUBLIC}/api/listings.json")), "{target}");
            let page = url.query_pairs().find(|(name, _)| name == "page").map_or(1, |(_, page)| page.parse().unwrap());
            Some(page)
        })
    };
    for (query, first, prev, next, last) in [
        ("", Some(1), None, Some(2), Some(5)),
        ("?page=2", Some(1), Some(1), Some(3), Some(5)),
        ("?page=5", Some(1), Some(4), None, Some(5)),
        ("?per_page=100&page=2", Some(1), Some(1), Some(3), Some(3)),
    ] {
        let reply = server.ok(&format!("/api/listings.json{query}")).await;
        assert_eq!(pages(&reply), [first, prev, next, last], "{query}");
        assert_eq!(reply.links()["license"], "https://creativecommons.org/licenses/by/4.0/");
    }
    // Following `next` gives each listing once, with filters and page size kept.
    for query in
        ["?per_page=7&sport=baseball", "?per_page=40&modified_since=2024-06-01T00:00:00%2B02:00", "?state=texas"]
    {
        let first = server.ok(&format!("/api/listings.json{query}")).await;
        let (total, mut ids, mut next) = (first.total(), first.ids(), first.links().get("next").cloned());
        while let Some(target) = next {
            let reply = server.ok(target.strip_prefix(PUBLIC).unwrap()).await;
            assert_eq!(reply.json()["filters"], first.json()["filters"]);
            ids.extend(reply.ids());
            next = reply.links().get("next").cloned();
        }
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!((ids.len() as u64, distinct.len()), (total, ids.len()), "{query}");
    }
    for target in ["/api/sports.json", &format!("/api/listings/{}.json", origin.world(World::ids)[0])] {
        let links = server.ok(target).await.links();
        assert_eq!(links.keys().collect::<Vec<_>>(), ["license"], "{target}");
    }
}

#[tokio::test]
async fn freshness_is_stated_as_promised_and_nginx_is_told_what_is_left() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("ttl", "5m").start().await;
    server.settled(&origin).await;
    let id = origin.world(World::ids)[0];
    for target in ["/api/listings.json?sport=golf", "/api/cities.json", &format!("/api/listings/{id}.json")] {
        for _ in 0..2 {
            let reply = server.ok(target).await;
            let expected = "public, max-age=300, stale-while-revalidate=60, stale-if-error=86400";
            assert_eq!(reply.the("cache-control"), expected, "{target}");
            let age = reply.age().expect("an Age");
            assert!(age < 120, "{target}: Age {age}");
            let ttl = reply.the("cache-status");
            let ttl = ttl.strip_prefix("grandstand; hit; ttl=").unwrap_or_else(|| panic!("{target}: {ttl}"));
            let ttl: u64 = ttl.parse().unwrap();
            assert!((299..=301).contains(&(ttl + age)), "{target}: ttl {ttl}, Age {age}");
            let date = |name: &str| httpdate::parse_http_date(&reply.the(name)).unwrap();
            let since = date("date").duration_since(date("mirror-confirmed")).unwrap().as_secs();
            assert!(since.abs_diff(age) <= 1, "{target}: Age {age}, confirmed {since} s before Date");
            let unchanged = server.get_with(target, &[("if-none-match", &reply.etag())]).await;
            assert_eq!(unchanged.status, 304);
            for reply in [&reply, &server.head(target).await, &unchanged] {
                let left: u64 = reply.the("x-accel-expires").parse().unwrap();
                assert_eq!(left + reply.age().unwrap(), 300, "{target}: {reply:?}");
            }
        }
    }
    let snapshot = server.snapshot().await;
    let pinned = server.ok(&format!("/api/sports.json?snapshot={snapshot}")).await;
    assert_eq!(pinned.header("x-accel-expires"), None, "it does not age");
    for target in ["/api/listings.json?page=0", "/api/listings/1.json", "/nothing"] {
        assert_eq!(server.get(target).await.header("x-accel-expires"), None, "{target}");
    }
    let list = server.ok("/api/listings.json").await;
    let stated: jiff::Timestamp = list.json()["generated_at"].as_str().unwrap().parse().unwrap();
    let confirmed = httpdate::parse_http_date(&list.the("mirror-confirmed")).unwrap();
    let confirmed = jiff::Timestamp::try_from(confirmed).unwrap();
    assert!(stated <= confirmed, "generated_at {stated} is later than {confirmed}");
    assert_eq!(list.the("content-type").split(';').next(), Some("application/json"));
}

#[tokio::test]
async fn nginx_is_told_so_in_a_shield_where_the_freshness_is_ours() {
    let origin = crate::harness::Upstream::start(|seen| {
        let answer = crate::harness::Script::new(200, "[]").with("Age", 100);
        if seen.target.contains("cities") { answer.with("Cache-Control", "private, max-age=300") } else { answer }
    })
    .await;
    let server = Setup::shield_of_url(&origin.url()).set("ttl", "5m").start().await;
    let ours = server.ok("/api/sports.json").await;
    let left: u64 = ours.the("x-accel-expires").parse().unwrap();
    assert!(ours.the("cache-control").contains("max-age=300") && ours.age().unwrap() >= 100, "{ours:?}");
    assert_eq!(left + ours.age().unwrap(), 300, "{ours:?}");
    let theirs = server.ok("/api/cities.json").await;
    assert_eq!(theirs.header("x-accel-expires"), None, "it would overrule them: {theirs:?}");
    assert_eq!(server.ok("/api/regions.json").await.header("x-accel-expires"), None);
}

#[tokio::test]
async fn the_admin_listener_names_the_methods_of_a_path() {
    let server = Setup::offline().start().await;
    for (target, allowed) in [
        ("/", "GET, HEAD"),
        ("/console.css", "GET, HEAD"),
        ("/history.json", "GET, HEAD"),
        ("/favicon.svg", "GET, HEAD"),
        ("/livez", "GET, HEAD"),
        ("/readyz", "GET, HEAD"),
        ("/status", "GET, HEAD"),
        ("/metrics", "GET, HEAD"),
        ("/snapshots", "GET, HEAD"),
        ("/audit", "GET, HEAD, POST"),
        ("/bundle", "GET, POST"),
        ("/cache", "DELETE"),
        ("/refresh", "POST"),
        ("/sync", "POST"),
        ("/snapshots/accept", "POST"),
        ("/snapshots/release", "POST"),
        ("/snapshots/some/rollback", "POST"),
        ("/snapshots/some/pin", "POST"),
        ("/snapshots/some/unpin", "POST"),
        ("/snapshots/verify", "POST"),
    ] {
        for method in [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let reply = server.admin(method.clone(), target).await;
            if allowed.split(", ").any(|name| name == method.as_str()) {
                assert_ne!(reply.status, 405, "{method} {target}: {reply:?}");
            } else {
                let told = (reply.status, reply.header("allow"));
                assert_eq!(told, (405, Some(allowed.to_owned())), "{method} {target}");
            }
        }
    }
    for method in [Method::GET, Method::POST, Method::DELETE, Method::PUT] {
        assert_eq!(server.admin(method.clone(), "/nothing").await.status, 404, "{method}");
    }
}

#[tokio::test]
async fn the_admin_pages_are_on_the_admin_listener() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
    server.settled(&origin).await;
    let status = server.status().await;
    assert_eq!((&status["use"], &status["listings"]), (&"mirror".into(), &60.into()), "{status:#}");
    let details = &status["details"];
    assert_eq!((&details["mirrored"], &details["of"]), (&60.into(), &60.into()), "{status:#}");
    assert_eq!(status["snapshot"]["id"], server.ok("/api/listings.json").await.the("mirror-snapshot"));
    assert_eq!(server.admin(Method::GET, "/status").await.status, 200, "{status:#}");
    assert_eq!(status["held"], serde_json::Value::Null);
    assert!(status["age_seconds"].as_u64().is_some() && status["confirmed_at"].is_string(), "{status:#}");
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("# TYPE grandstand_"), "{}", metrics.text());
    let foreign = |name: &'static str, value: &'static str| {
        let request = crate::client::client_builder().no_proxy().build().unwrap();
        request.post(format!("http://{}/refresh", server.admin)).header(name, value).send()
    };
    let bundle = server.admin(Method::GET, "/bundle").await;
    let name = format!("attachment; filename=\"{}.gsb\"", server.snapshot().await);
    assert_eq!(bundle.the("content-disposition"), name, "it is for saving");
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let status = foreign(name, value).await.unwrap().status().as_u16();
        assert!((400..500).contains(&status), "{name}: {value} was answered {status}");
    }
}

#[tokio::test]
async fn http_2_with_prior_knowledge_gives_the_same_answers() {
    let (_origin, server) = shared_mirror(60).await;
    let plain = server.ok("/api/listings.json").await;
    let (client, url) = (http2_client(), format!("http://{}/api/listings.json", server.public));
    let reply = client.get(&url).send().await.unwrap();
    assert_eq!(reply.version(), http::Version::HTTP_2);
    let reply = crate::client::Reply::of(reply).await;
    assert_eq!((reply.status, reply.etag(), &reply.body), (200, plain.etag(), &plain.body));
    let head = client.head(&url).send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.headers()["content-length"].to_str().unwrap(), plain.body.len().to_string());
    let unchanged = client.get(&url).header("if-none-match", plain.etag()).send().await.unwrap();
    assert_eq!(unchanged.status(), 304);
    assert_eq!(client.get(format!("{url}?page=0")).send().await.unwrap().status(), 400);
    let many = (0..50).map(|page| client.get(format!("{url}?page={}", page % 3 + 1)).send());
    for reply in futures_util::future::join_all(many).await {
        assert_eq!(reply.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn age_grows_until_the_next_refresh() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let first = server.ok("/api/listings.json").await;
    let aged = first.age().unwrap() + 2;
    wait_until("Age grows by two", || async { server.ok("/api/listings.json").await.age().unwrap() >= aged }).await;
    let before = server.ok("/api/listings.json").await;
    assert_eq!(before.the("mirror-confirmed"), first.the("mirror-confirmed"));
    server.refresh().await;
    wait_until("Age is small again", || async { server.ok("/api/listings.json").await.age().unwrap() < aged }).await;
    assert_ne!(server.ok("/api/listings.json").await.the("mirror-confirmed"), first.the("mirror-confirmed"));
    assert_eq!(server.ok("/api/listings.json").await.etag(), first.etag());
}
