//! The console: its files, whom its requests obey, and the facts that it draws: `findings` and `/history.json`.
//!
//! What it shows of them is tested in a browser. Here the requests are those that a browser and the console's script send.

use std::io::Read as _;

use http::Method;
use sample_origin::FaultRule;
use serde_json::Value;

use crate::client::{Reply, header_map, plain_client};
use crate::compare::list_is_the_origins;
use crate::harness::{Server, Setup, edit, origin, run, wait_until};
use crate::origin_faults::Fault;

const LIST: &str = "/api/listings.json";
const TOKEN: &str = "0123456789abcdef0123";
const FILES: [&str; 9] = [
    "/",
    "/console.css",
    "/console.js",
    "/actions.js",
    "/charts.js",
    "/dom.js",
    "/words.js",
    "/uplot.js",
    "/favicon.svg",
];

/// Sends the request of a button.
async fn press(server: &Server, method: Method, path: &str, fields: &[(&str, &str)]) -> Reply {
    let own = format!("http://{}", server.admin);
    let request = plain_client().request(method, format!("{own}{path}"));
    let mut headers = header_map(fields);
    headers.entry("origin").or_insert(own.parse().unwrap());
    headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
    Reply::of(request.headers(headers).send().await.unwrap()).await
}

async fn findings(server: &Server) -> Vec<Value> {
    server.status().await["findings"].as_array().unwrap().clone()
}

/// `grandstand status` of an unhealthy mirror.
async fn status_fails_and_says_why_first(server: &Server) {
    let reason = server.status().await["reasons"][0].as_str().unwrap().to_owned();
    assert!(reason.contains(" s (limit 3 s): the origin cannot be reached"), "{reason}");
    let status = async |words: &[&str]| run(&server.setup.arguments(words, &server.data_dir())).await;
    let (code, said) = status(&["status"]).await;
    let first = "grandstand unhealthy (mirror)\n  problem    data not confirmed for ";
    assert!(code == 1 && said.starts_with(first), "{code} {said}");
    let (code, said) = status(&["status", "--json"]).await;
    assert!(code == 1 && serde_json::from_str::<Value>(&said).is_ok(), "{code} {said}");
    assert_eq!(status(&["status", "--ready"]).await, (0, "ready\n".to_owned()), "it answers clients all the same");
    // Without data it cannot be healthy.
    let empty = Setup::offline().start().await;
    let at = async |words: &[&str]| {
        let admin = empty.admin.to_string();
        run(&[words, &["--admin", &admin]].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()).await
    };
    let (code, said) = at(&["status", "--ready"]).await;
    assert!(code == 1 && said.starts_with("no snapshot has been imported yet, "), "{code} {said}");
    let (code, said) = at(&["status"]).await;
    let first = "grandstand unhealthy (offline)\n  problem    no snapshot has been imported yet, ";
    assert!(code == 1 && said.starts_with(first), "{code} {said}");
}

#[tokio::test]
async fn a_server_whose_origin_stopped_says_why_and_what_to_do_and_goes_on_serving() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("ttl", "1s").start().await;
    server.ready().await;
    wait_until("nothing is wrong", || async { findings(&server).await.is_empty() }).await;
    let (page, snapshot) = (server.ok(LIST).await, server.snapshot().await);

    origin.shutdown().await;
    wait_until("it says why at once", || async { server.finding("origin-fails").await.is_some() }).await;
    wait_until("it is unhealthy", || async { findings(&server).await[0]["unhealthy"] == true }).await;
    let all = findings(&server).await;
    assert_eq!(all.len(), 1, "one thing is wrong: {all:?}");
    let first = &all[0];
    let (text, todo) = (first["text"].as_str().unwrap(), first["todo"].as_str().unwrap());
    assert!(text.starts_with("data not confirmed for") && text.contains(&origin.url()), "{text}");
    assert!(text.contains("the origin cannot be reached") && first["name"] == "origin-fails", "{first}");
    assert!(todo.contains("Check that the origin works") && first["since"].is_string(), "{first}");
    let metrics = server.admin(Method::GET, "/metrics").await.text().to_owned();
    assert!(metrics.contains("grandstand_finding{name=\"origin-fails\"} 1\n"), "{metrics}");
    assert_eq!(server.process.said().matches("origin-fails").count(), 2, "once as a finding, once as unhealthy");
    status_fails_and_says_why_first(&server).await;
    let (stale, status) = (server.ok(LIST).await, server.status().await);
    assert_eq!((stale.etag(), stale.ids()), (page.etag(), page.ids()));
    assert!(stale.age().unwrap() >= 3 && stale.the("cache-status").starts_with("grandstand; hit; ttl=-"), "{stale:?}");
    assert!(status["origin"]["state"] == "could-not-be-asked" && !status["last_error"].is_null(), "{status:#}");
    assert_eq!(server.admin(Method::GET, "/readyz").await.status, 200, "it can serve, so it is ready");
    origin.edit(|world| assert!(world.touch(world.ids()[50])));
    origin.restart().await.unwrap();
    wait_until("it is healthy", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;
    wait_until("the change shows", || async { server.snapshot().await != snapshot }).await;
    list_is_the_origins(&server, &origin, LIST).await;
}

#[tokio::test]
async fn a_rollback_is_told_of_with_the_request_that_ends_it() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let first = server.snapshot().await;
    let second = edit(&origin, &server, |world| {
        let id = world.ids()[3];
        world.remove(id);
    })
    .await;
    let done = press(&server, Method::POST, &format!("/snapshots/{first}/rollback"), &[]).await;
    assert_eq!((done.status, server.snapshot().await), (200, first.clone()), "{done:?}");
    let told = server.finding("rolled-back").await.unwrap();
    assert!(told.contains("a rollback is in effect"), "{told}");
    let done = press(&server, Method::POST, "/snapshots/release", &[]).await;
    assert_eq!((done.status, server.snapshot().await), (200, second), "{done:?}");
    for (action, word) in [("pin", "pinned"), ("unpin", "unpinned")] {
        let done = press(&server, Method::POST, &format!("/snapshots/{first}/{action}"), &[]).await;
        assert_eq!((done.status, done.json()[word].as_str()), (200, Some(&first[..])), "{action}: {done:?}");
    }
    for (method, path, status) in [
        (Method::POST, "/snapshots/verify", 200),
        (Method::POST, "/refresh", 202),
        (Method::POST, "/sync", 202),
        (Method::POST, "/audit?samples=20", 202),
        (Method::DELETE, "/cache", 200),
    ] {
        assert_eq!(press(&server, method, path, &[]).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn the_requests_of_its_buttons_want_the_token_and_other_sites_send_none() {
    let server = Setup::offline().set("admin.token", TOKEN).start().await;
    let refused = press(&server, Method::DELETE, "/cache", &[]).await;
    assert!(refused.status == 403 && refused.text().contains("admin.token"), "{refused:?}");
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(press(&server, Method::DELETE, "/cache", &[("authorization", &bearer)]).await.status, 200);
    for foreign in ["https://evil.test", "null", "http://localhost:1"] {
        let fields = [("authorization", &bearer[..]), ("origin", foreign)];
        assert_eq!(press(&server, Method::DELETE, "/cache", &fields).await.status, 403, "{foreign}");
    }
    for target in FILES.into_iter().chain(["/history.json", "/status"]) {
        let own = server.admin(Method::GET, target).await;
        assert!(!own.text().contains(TOKEN), "{target}");
        let url = format!("http://{}{target}", server.admin);
        let foreign = plain_client().get(url).header("host", "evil.test").send().await.unwrap();
        assert_eq!(foreign.status(), 403, "{target}");
    }
    let purge = plain_client().delete(format!("http://{}/cache", server.admin)).bearer_auth(TOKEN);
    assert_eq!(purge.header("host", "evil.test").send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn its_files_load_nothing_from_elsewhere_and_are_sent_once() {
    let server = Setup::offline().start().await;
    for target in FILES {
        let reply = server.admin(Method::GET, target).await;
        assert_eq!(reply.status, 200, "{target}");
        let policy = reply.the("content-security-policy");
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.split("; ").any(|own| own == rule), "{target}: {policy}");
        }
        assert_eq!(
            (reply.the("x-content-type-options"), reply.the("cache-control")),
            ("nosniff".into(), "no-cache".into())
        );
        let url = format!("http://{}{target}", server.admin);
        let ask = |name: &'static str, value: String| {
            let request = plain_client().get(&url).header(name, value);
            async { Reply::of(request.send().await.unwrap()).await }
        };
        let known = ask("if-none-match", reply.etag()).await;
        assert_eq!((known.status, known.body.len(), known.etag()), (304, 0, reply.etag()), "{target}");
        let packed = ask("accept-encoding", "gzip".to_owned()).await;
        assert_eq!(packed.the("vary"), "Accept-Encoding", "{target}");
        if packed.header("content-encoding").is_some() {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut plain).unwrap();
            assert!(plain == reply.body && packed.etag() != reply.etag(), "{target}");
        }
        assert!(packed.body.len() < 32 << 10, "{target}: {} bytes", packed.body.len());
    }
    let html = server.admin(Method::GET, "/").await;
    for forbidden in [" style=", "<style", " onclick=", "javascript:", "<script>"] {
        assert!(!html.text().contains(forbidden), "{forbidden}");
    }
    let head = server.admin(Method::HEAD, "/").await;
    assert_eq!((head.status, head.body.len(), head.etag()), (200, 0, html.etag()));
    assert_eq!(server.admin(Method::POST, "/").await.status, 405);
}

#[tokio::test]
async fn what_comes_from_outside_is_cut_in_the_advice() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("ttl", "1s").start().await;
    server.ready().await;
    let to = format!("http://elsewhere.test/<script>alert('x')</script>/{}", "x".repeat(3000));
    origin.set(|switches| switches.faults = vec![FaultRule::always("", Fault::Redirect(to.clone()))]);
    let told = || async { Value::from(findings(&server).await).to_string() };
    wait_until("the advice tells it", || async { told().await.contains("elsewhere.test") }).await;
    let reply = server.admin(Method::GET, "/status").await;
    assert_eq!(reply.the("content-type"), "application/json");
    assert!(!reply.text().contains(&"x".repeat(500)), "it is cut");
}

#[tokio::test]
async fn what_clients_asked_is_in_the_history_within_seconds() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("origin.requests_per_minute", "600").start().await;
    server.settled(&origin).await;
    let etag = server.ok("/api/sports.json").await.etag();
    for _ in 0..30 {
        server.get_with("/api/sports.json", &[("if-none-match", &etag)]).await;
    }
    let history = || async { server.admin(Method::GET, "/history.json").await.json() };
    let sum = |column: &Value| column.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    wait_until("a sample has them", || async { sum(&history().await["not_modified"]) >= 30 }).await;
    let samples = history().await;
    assert!(sum(&samples["answers"]["fresh"]) >= 31, "{samples}");
    assert!(sum(&samples["origin_requests"]["details"]) >= 60, "{samples}");
    assert!(sum(&samples["p99_microseconds"]) > 0, "{samples}");
    assert!(samples["until"].as_str().is_some_and(|until| until.starts_with("20")), "{samples}");
    let budget = samples["origin_budget"].as_object().unwrap();
    let all = |at: usize| budget.values().filter_map(|column| column[at].as_u64()).sum::<u64>();
    assert!((0..90).any(|at| all(at) > 0) && (0..90).all(|at| all(at) <= 600), "{samples}");
    let hours = server.admin(Method::GET, "/history.json?span=hours").await.json();
    for (samples, step, length) in [(samples, 10, 90), (hours, 60, 720)] {
        assert_eq!(
            (samples["step_seconds"].as_u64(), samples["memory_bytes"].as_array().unwrap().len()),
            (Some(step), length)
        );
    }
    assert_eq!(server.admin(Method::GET, "/history.json?span=days").await.status, 400);
}
