//! The console: its files, whom its requests obey, and the facts that it draws: `advice`, `recent` and `/history.json`.
//!
//! What it shows of them is tested in a browser. Here the requests are those that a browser and the console's script send.

use std::io::Read as _;

use http::Method;
use sample_origin::FaultRule;
use serde_json::Value;

use crate::client::{Reply, header_map, plain_client};
use crate::harness::{Server, Setup, edit, origin, wait_until};
use crate::origin_faults::Fault;

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

/// The advice of `/status`.
async fn advice(server: &Server) -> Vec<Value> {
    server.status().await["advice"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_server_whose_origin_stopped_says_why_and_what_to_do() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("ttl", "1s").start().await;
    server.ready().await;
    wait_until("there is nothing to tell", || async { advice(&server).await.is_empty() }).await;

    origin.shutdown().await;
    wait_until("it says why", || async {
        let advice = advice(&server).await;
        advice.first().is_some_and(|first| first["unhealthy"] == true && first["what"].to_string().contains("fails."))
    })
    .await;
    let first = advice(&server).await.remove(0);
    let (what, todo) = (first["what"].as_str().unwrap(), first["todo"].as_str().unwrap());
    assert!(what.contains("Data not confirmed for") && what.contains(&origin.url()), "{what}");
    assert!(todo.contains("Check that the origin works") && first["action"].is_null(), "{first}");
    wait_until("what went wrong is listed", || async {
        let status = server.status().await;
        status["recent"].as_array().unwrap().iter().any(|note| {
            let has = |key: &str, text: &str| note[key].as_str().is_some_and(|own| own.contains(text));
            has("text", "A step of the mirror failed") && has("todo", "The server keeps trying") && has("at", "20")
        })
    })
    .await;

    origin.restart().await.unwrap();
    wait_until("all is well again", || async { advice(&server).await.is_empty() }).await;
}

#[tokio::test]
async fn an_empty_offline_server_says_how_it_gets_data_and_a_shield_needs_none() {
    let offline = Setup::offline().start().await;
    let first = advice(&offline).await.remove(0);
    let what = first["what"].as_str().unwrap();
    assert!(what.starts_with("No snapshot has been imported yet, and origin.url is not set"), "{what}");
    assert!(first["unhealthy"] == true && first["todo"].as_str().unwrap().contains("bundle import"), "{first}");
    let origin = origin(20).await;
    let shield = Setup::shield_of(&origin).start().await;
    shield.get("/api/sports.json").await;
    assert_eq!(advice(&shield).await, Vec::<Value>::new());
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
    let told = advice(&server).await.remove(0);
    assert!(told["unhealthy"] == false && told["what"].as_str().unwrap().contains("A rollback is in effect"), "{told}");
    assert_eq!(told["action"], "release");
    let done = press(&server, Method::POST, "/snapshots/release", &[]).await;
    assert_eq!((done.status, server.snapshot().await), (200, second), "{done:?}");
    for (action, word) in [("pin", "pinned"), ("verify", "verified"), ("unpin", "unpinned")] {
        let done = press(&server, Method::POST, &format!("/snapshots/{first}/{action}"), &[]).await;
        assert_eq!((done.status, done.json()[word].as_str()), (200, Some(&first[..])), "{action}: {done:?}");
    }
    for (method, path, status) in [
        (Method::POST, "/refresh", 202),
        (Method::POST, "/sync", 202),
        (Method::POST, "/audit?samples=20", 202),
        (Method::DELETE, "/cache", 200),
    ] {
        assert_eq!(press(&server, method, path, &[]).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn what_is_held_back_is_told_of_with_the_request_that_accepts_it() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    let left = origin.world(sample_origin::World::len);
    server.refresh().await;
    wait_until("something is held back", || async { !server.status().await["held"].is_null() }).await;
    let told = advice(&server).await.remove(0);
    assert!(told["unhealthy"] == true && told["what"].as_str().unwrap().contains("A snapshot is held back"), "{told}");
    assert_eq!(told["action"], "accept");
    assert_eq!(press(&server, Method::POST, "/snapshots/accept", &[]).await.status, 202);
    wait_until("it is published", || async { server.status().await["listings"] == left as u64 }).await;
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
    let told = || async { Value::from(advice(&server).await).to_string() };
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
