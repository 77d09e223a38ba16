//! The shield: crawls nothing, fetches each resource once, and keeps serving when the origin fails.

use http::Method;
use sample_origin::{Origin, World};

use crate::compare::{same_list, taxonomy_is_the_origins};
use crate::harness::{PUBLIC, Script, Server, Setup, Upstream, origin, quiet, run};

const LIST: &str = "/api/listings.json";

async fn shielded() -> (Origin, Server) {
    let origin = origin(120).await;
    let server = Setup::shield_of(&origin).start().await;
    server.ready().await;
    (origin, server)
}

#[tokio::test]
async fn a_shield_is_ready_at_once_and_asks_for_nothing_by_itself() {
    let (origin, server) = shielded().await;
    quiet(&origin).await;
    assert_eq!(origin.count(), 0);
    assert_eq!(server.status().await["use"], "shield");
}

#[tokio::test]
async fn each_resource_is_fetched_once_and_then_hit() {
    let (origin, server) = shielded().await;
    let detail = format!("/api/listings/{}.json", origin.world(World::ids)[3]);
    for target in [LIST, "/api/listings.json?sport=golf", "/api/sports.json", "/api/states.json", &detail] {
        origin.clear_log();
        let first = server.ok(target).await;
        let outcome = first.the("cache-status");
        assert!(outcome.contains("grandstand; fwd=uri-miss; fwd-status=200; stored"), "{outcome}");
        assert_eq!(first.the("cache-control"), "public, max-age=300", "{target}: the origin's");
        assert_eq!((first.header("mirror-snapshot"), first.header("mirror-confirmed")), (None, None));
        for _ in 0..3 {
            let again = server.ok(target).await;
            assert_eq!((&again.body, again.etag()), (&first.body, first.etag()));
            assert!(again.the("cache-status").contains("grandstand; hit; ttl="), "{again:?}");
            assert!(again.age().unwrap() < 60);
        }
        let tag = first.etag();
        assert_eq!(server.get_with(target, &[("if-none-match", &tag)]).await.status, 304, "{target}");
        for coding in ["gzip", "br", "zstd"] {
            let coded = server.get_with(target, &[("accept-encoding", coding)]).await;
            assert_eq!(coded.decoded(), first.body, "{target} {coding}");
        }
        assert_eq!(origin.count(), 1, "{target}: {:#?}", origin.log());
    }
    let list = server.ok(LIST).await;
    same_list(list.text(), &origin.expected_text(LIST).1, LIST);
    taxonomy_is_the_origins(&server, &origin, "cities", PUBLIC).await;
    assert!(server.ok("/api/cities.json").await.etag().starts_with("W/"), "what is rewritten has a weak tag");
}

#[tokio::test]
async fn what_is_ours_to_refuse_never_reaches_the_origin() {
    let (origin, server) = shielded().await;
    for query in ["page=0", "per_page=x", "modified_since=yesterday", "sport=a&sport=b"] {
        server.get(&format!("{LIST}?{query}")).await.assert_problem(400, &[]);
    }
    let post = server.send(http::Method::POST, LIST, &[("content-length", "0")]).await;
    post.assert_problem(405, &[]);
    server.get(&format!("{LIST}?snapshot=any")).await.assert_problem(410, &[]);
    assert_eq!(server.get("/changes.json?since=any").await.status, 404);
    assert_eq!(origin.count(), 0, "{:#?}", origin.log());
    let unknown = server.ok(&format!("{LIST}?sport=chess")).await;
    assert_eq!((unknown.total(), origin.count()), (0, 1), "what a slug means is the origin's to say");
    let missing = server.get("/api/listings/1.json").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_shield_with_one_client_says_how_its_origin_fails() {
    for (status, content_type, how) in [
        (500, "text/plain", "the origin answers with errors"),
        (403, "text/plain", "the origin refuses requests"),
        (200, "text/html", "the answers of the origin cannot be used"),
    ] {
        let fails = move |_: &_| Script::new(status, "<html>").with("content-type", content_type);
        let origin = Upstream::start(fails).await;
        let server = Setup::shield_of_url(&origin.url()).start().await;
        for id in 1..5 {
            assert!(server.get(&format!("/api/listings/{id}.json")).await.status >= 500);
            let told = server.finding("origin-fails").await.unwrap_or_default();
            assert!(told.starts_with(how) && told.contains(&origin.url()), "{status} {id}: {told}");
            assert!(told.contains("; it was last asked at "), "{told}");
        }
        let reply = server.admin(Method::GET, "/status").await;
        assert!(reply.status == 200 && reply.json()["origin"]["failing_seconds"].is_u64(), "{}", reply.text());
        origin.answers(|_| Script::new(200, "{}"));
        server.ok("/api/listings/9.json").await;
        assert!(server.status().await["origin"]["failing_seconds"].is_null());
    }
}

#[tokio::test]
async fn a_shield_that_may_store_nothing_says_so() {
    for forbids in ["private", "max-age=0, private, must-revalidate", "no-store"] {
        let origin = Upstream::start(move |_| Script::new(200, "{}").with("cache-control", forbids)).await;
        let server = Setup::shield_of_url(&origin.url()).start().await;
        let findings = || async { server.status().await["findings"].clone() };
        assert_eq!(findings().await, serde_json::json!([]));
        for _ in 0..3 {
            server.ok("/api/sports.json").await;
            server.ok("/api/listings/7.json").await;
        }
        assert_eq!(origin.count(), 6, "none may be stored");
        let told = findings().await;
        let told = told.as_array().unwrap();
        assert!(told.len() == 1 && told[0]["text"].as_str().unwrap().contains("Cache-Control"), "{told:?}");
        assert!(told[0]["todo"].as_str().unwrap().contains("run a mirror"), "{told:?}");
        assert_eq!(server.admin(Method::GET, "/status").await.status, 200);
        let url = format!("http://{}", server.admin);
        let (code, said) = run(&["status".to_owned(), "--admin".to_owned(), url]).await;
        assert!(code == 0 && said.contains("  finding    ") && said.contains("Cache-Control"), "{said}");
    }
}

#[tokio::test]
async fn a_list_of_wrong_types_replaces_none_and_is_502_without_one() {
    let wrong = [
        r#"{"items":"no","total":[]}"#,
        r#"{"items":{},"total":1}"#,
        r#"{"items":[],"total":-1}"#,
        r#"{"items":[],"total":"one"}"#,
        r#"{"items":[],"total":null}"#,
        r#"{"items":[],"items":[],"total":1}"#,
        r#"{"errors":[{"message":"timed out"}],"data":null}"#,
    ];
    let upstream = Upstream::start(move |seen| {
        let case = seen.target.split("case-").nth(1).and_then(|case| case.parse::<usize>().ok());
        let body = match case {
            Some(case) => wrong[case],
            None if seen.target.contains("sport=perl") => r#"{"items":[],"total":"0"}"#,
            None if seen.target == "/api/states.json" && seen.nth == 1 => r#"[{"slug":"texas","name":"Texas"}]"#,
            None if seen.target == "/api/states.json" => wrong[wrong.len() - 1],
            None if seen.nth == 1 => r#"{"page":1,"total":1,"items":[{"id":1}]}"#,
            None => wrong[(seen.nth - 2) % wrong.len()],
        };
        Script::new(200, body).with("cache-control", "max-age=0, stale-if-error=600")
    })
    .await;
    let server = Setup::shield_of_url(&upstream.url()).start().await;
    server.ready().await;
    for target in [LIST, "/api/states.json"] {
        let right = server.ok(target).await;
        for _ in wrong {
            let stale = server.ok(target).await;
            assert_eq!(stale.body, right.body);
            assert!(stale.the("cache-status").contains("fwd=stale"), "{stale:?}");
        }
    }
    for case in 0..wrong.len() - 1 {
        server.get(&format!("{LIST}?sport=case-{case}")).await.assert_problem(502, &[]);
    }
    server.ok(&format!("{LIST}?sport=perl")).await;
    for detail in ["/api/listings/7.json", "/api/listings/8.json"] {
        upstream.answers(|_| Script::new(200, r#"{"error":"no","items":"no"}"#));
        server.ok(detail).await;
    }
}

#[tokio::test]
async fn open_cases_that_are_not_400_are_the_origins_and_sent_as_spelled() {
    let sent = [
        ("/api/listings.json?per_page=250", "/api/listings.json?per_page=250"),
        ("/api/listings.json?sport=&x=1", "/api/listings.json?sport="),
        ("/api/listings.json?page=&state=te%78as", "/api/listings.json?state=texas&page="),
        ("/api/listings.json?per_page=70000&city=austin", "/api/listings.json?city=austin&per_page=70000"),
        ("/api/listings/abc.json", "/api/listings/abc.json"),
        ("/api/listings/012.json", "/api/listings/012.json"),
    ];
    let upstream = Upstream::start(move |seen| match seen.target.as_str() {
        "/api/listings/abc.json" => Script::new(404, r#"{"error":"no such thing"}"#),
        target if sent.iter().any(|(_, sent)| *sent == target) => {
            Script::new(200, r#"{"total":900,"per_page":250,"items":[]}"#).with("cache-control", "max-age=600")
        }
        _ => Script::new(404, "").with("cache-control", "no-store"),
    })
    .await;
    let server = crate::open_cases::by_address(Setup::shield_of_url(&upstream.url())).start().await;
    for (asked, expected) in sent {
        let first = crate::open_cases::ask(&server, asked).await;
        let again = crate::open_cases::ask(&server, asked).await;
        assert_eq!((first.status, &first.body), (again.status, &again.body), "{asked}");
        assert_eq!(first.status, if asked.contains("abc") { 404 } else { 200 }, "{asked}: {first:?}");
        assert!(first.header("link").is_none_or(|link| !link.contains("next")), "{asked}: {first:?}");
        assert_eq!(upstream.count_of(expected), 1, "{asked}: {:?}", upstream.seen());
    }
}
