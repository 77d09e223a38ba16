//! The access log: a line for each request, in its own file, in the form that the configuration says.

use std::path::Path;

use http::Method;
use serde_json::Value;

use crate::client::{Reply, http2_client, raw};
use crate::harness::{Script, Setup, Upstream, origin, wait_until};

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn each_request_has_its_line_as_text_or_as_json_and_the_file_is_appended_to() {
    let (origin, dir) = (origin(20).await, tempfile::tempdir().unwrap());
    let path = dir.path().join("access.log");
    let mut server = Setup::mirror_of(&origin)
        .set("log.access", "true")
        .set("log.access_file", path.to_str().unwrap())
        .set("rate_limit.requests_per_minute", "4")
        .start()
        .await;
    server.settled(&origin).await;
    server.get_with("/api/listings.json", &[("user-agent", "a \"b\""), ("referer", "http://c.test/")]).await;
    server.raw_get("/api/listings.json?per_page=1&x='%1B").await;
    server.send(Method::HEAD, "/api/listings.json", &[]).await;
    server.get("/nothing").await;
    server.get("/api/listings.json").await;
    wait_until("five lines", || async { lines(&path).len() == 5 }).await;
    let said = lines(&path);
    let told = |line: &str| {
        let (_, rest) = line.split_once("] ").unwrap();
        rest.to_owned()
    };
    assert!(said.iter().all(|line| line.starts_with("127.0.0.1 - - [")), "{said:#?}");
    let first = told(&said[0]);
    assert!(first.starts_with("\"GET /api/listings.json HTTP/1.1\" 200 "), "{first}");
    assert!(first.contains(r#" "http://c.test/" "a \x22b\x22" "#) && first.contains(" hit "), "{first}");
    let micros: u64 = first.rsplit(' ').nth(2).unwrap().parse().unwrap();
    assert!(micros > 0, "{first}");
    assert!(said[1].contains("per_page=1&x='%1B HTTP/1.1"), "{}", said[1]);
    assert!(told(&said[2]).starts_with("\"HEAD /api/listings.json HTTP/1.1\" 200 0 "), "{}", said[2]);
    assert!(told(&said[3]).starts_with("\"GET /nothing HTTP/1.1\" 404 "), "{}", said[3]);
    assert!(told(&said[4]).contains(" 429 ") && said[4].contains(" refused "), "{}", said[4]);
    server.restart_with("log.format", "json").await;
    let log: Vec<Value> = server.process.said().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    server.get("/api/listings.json").await;
    wait_until("a sixth line", || async { lines(&path).len() == 6 }).await;
    let line: Value = serde_json::from_str(&lines(&path)[5]).unwrap();
    assert!(log.iter().any(|line| line["msg"] == "serving"), "{log:?}");
    for line in log.iter().chain([&line]) {
        assert!(["time", "level", "msg"].iter().all(|name| line[name].is_string()), "{line}");
        assert_eq!(line["level"], "info");
    }
    assert_eq!((&line["method"], &line["target"]), (&Value::from("GET"), &Value::from("/api/listings.json")));
    assert_eq!((line["status"].as_u64(), line["client"].as_str()), (Some(200), Some("127.0.0.1")));
    assert!(line["microseconds"].as_u64().is_some() && line["bytes"].as_u64().unwrap() > 0 && line["outcome"] == "hit");
}

#[tokio::test]
async fn every_request_has_one_line_whatever_becomes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let kept = || Script::new(200, "{}").with("cache-control", "max-age=60").with("etag", "\"a\"");
    let origin = Upstream::start(move |_| kept()).await;
    let server = Setup::shield_of_url(&origin.url())
        .set("log.access", "true")
        .set("log.access_file", path.to_str().unwrap())
        .set("log.format", "json")
        .start()
        .await;
    let (list, other) = ("/api/listings.json", "/api/venues.json");
    let tag = server.ok(list).await.etag();
    let preflight = [("origin", "https://a.test"), ("access-control-request-method", "GET")];
    for (method, target, fields, status) in [
        (Method::GET, list, &[("if-none-match", tag.as_str())][..], 304),
        (Method::HEAD, list, &[], 200),
        (Method::GET, other, &[], 200),
        (Method::POST, list, &[], 405),
        (Method::OPTIONS, list, &preflight, 204),
        (Method::GET, "/api/listings.json?page=0", &[], 400),
        (Method::GET, "/", &[("accept", "text/html")], 200),
    ] {
        assert_eq!(server.send(method.clone(), target, fields).await.status, status, "{method} {target}");
    }
    let url = format!("http://{}{list}", server.public);
    assert_eq!(http2_client().get(url).send().await.unwrap().status(), 200);
    for (request, status) in [
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(50_000)), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "x".repeat(50_000)), 431),
        ("GET / HTTP/1.1\r\nno field\r\n\r\n".to_owned(), 400),
    ] {
        assert_eq!(raw(server.public, request.as_bytes()).await.unwrap().status, status);
    }
    let mut expected = [
        ("GET", list, "HTTP/1.1", 200),
        ("GET", list, "HTTP/1.1", 304),
        ("HEAD", list, "HTTP/1.1", 200),
        ("GET", other, "HTTP/1.1", 200),
        ("POST", list, "HTTP/1.1", 405),
        ("OPTIONS", list, "HTTP/1.1", 204),
        ("GET", "/api/listings.json?page=0", "HTTP/1.1", 400),
        ("GET", "/", "HTTP/1.1", 200),
        ("GET", list, "HTTP/2.0", 200),
        ("", "", "", 414),
        ("", "", "", 431),
        ("", "", "", 400),
    ];
    wait_until("all lines", || async { lines(&path).len() >= expected.len() }).await;
    let said: Vec<Value> = lines(&path).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let told = |line: &Value| {
        (text(line, "method"), text(line, "target"), text(line, "protocol"), line["status"].as_u64().unwrap())
    };
    // A streamed answer is logged at its end, which the next request may overtake.
    let mut all: Vec<_> = said.iter().map(told).collect();
    all.sort();
    expected.sort_unstable();
    assert_eq!(
        all,
        expected.map(|(method, target, protocol, status)| (method.into(), target.into(), protocol.into(), status))
    );
    for line in &said {
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        assert!(line["microseconds"].is_u64() && line["bytes"].is_u64() && line["outcome"].is_string(), "{line}");
        let has_body = line["status"] != 304 && line["status"] != 204 && line["method"] != "HEAD";
        assert_eq!(line["bytes"].as_u64().unwrap() > 0, has_body, "{line}");
    }
}

/// The id in an answer, if it has one.
fn id(reply: &Reply) -> Option<String> {
    reply.header("x-request-id")
}

#[tokio::test]
async fn an_id_leads_from_an_answer_to_its_lines_and_not_to_the_origin() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let answer = || Script::new(200, "{}").with("cache-control", "max-age=60").with("x-request-id", "of-the-origin");
    let origin = Upstream::start(move |seen| if seen.method == "POST" { Script::new(201, "") } else { answer() }).await;
    let setup = Setup::shield_of_url(&origin.url())
        .set("log.access", "true")
        .set("log.access_file", path.to_str().unwrap())
        .set("log.format", "json")
        .set("log.level", "debug")
        .set("passthrough.methods", r#"["GET", "POST"]"#)
        .set("passthrough.request_headers", r#"["*"]"#);
    let server = setup.clone().set("client_ip.trusted_proxies", r#"["127.0.0.1"]"#).start().await;
    let (list, other) = ("/api/listings.json", "/api/venues.json");
    let given = [("x-request-id", "proxy-1.A_b")];
    let mut shown = Vec::new();
    for (method, target, shows) in [
        (Method::GET, list, true),
        (Method::GET, list, false),
        (Method::GET, other, true),
        (Method::GET, other, false),
        (Method::POST, other, true),
        (Method::GET, "/nothing", true),
        (Method::GET, "/docs", false),
    ] {
        let reply = server.send(method.clone(), target, &given).await;
        assert_eq!(id(&reply), shows.then(|| given[0].1.to_owned()), "{method} {target}: {reply:?}");
    }
    for values in [&[("x-request-id", "a b")][..], &[("x-request-id", "a"), ("x-request-id", "b")], &[]] {
        shown.push(id(&server.get_with("/nothing", values).await).unwrap());
    }
    let logged = shown.clone();
    shown.push(id(&raw(server.public, b"GET / HTTP/1.1\r\nno field\r\n\r\n").await.unwrap()).unwrap());
    shown.sort();
    shown.dedup();
    assert_eq!(shown.len(), 4, "made ids differ");
    wait_until("all lines", || async { lines(&path).len() == 11 }).await;
    let ids: Vec<String> = lines(&path)
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["request"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.iter().filter(|id| *id == given[0].1).count(), 7, "{ids:?}");
    assert!(shown.iter().all(|id| ids.contains(id)), "{shown:?} {ids:?}");
    wait_until("the log has them", || async {
        let said = server.process.said();
        logged.iter().all(|id| said.contains(&format!("\"request\":\"{id}\"")))
    })
    .await;
    assert!(origin.seen().iter().all(|seen| seen.header("x-request-id").is_none()), "{:?}", origin.seen());
    let stranger = setup.start().await;
    let made = id(&stranger.get_with("/nothing", &given).await).unwrap();
    assert_ne!(made, given[0].1, "the peer is not trusted");
}

#[tokio::test]
async fn lines_go_to_standard_error_without_a_file_and_the_last_ones_are_written_at_the_end() {
    let server = Setup::offline().alone().set("log.access", "true").start().await;
    for _ in 0..50 {
        server.get("/robots.txt").await;
    }
    server.process.signal("TERM");
    let (code, said) = server.process.end().await;
    let lines = said.lines().filter(|line| line.contains("\"GET /robots.txt HTTP/1.1\" 200 ")).count();
    assert_eq!((code, lines), (0, 50), "{said}");
    let off = Setup::offline().alone().start().await;
    off.get("/robots.txt").await;
    assert!(!off.process.said().contains("robots.txt"));
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_told_at_start_and_a_disk_that_fails_delays_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let logging = |path: &str| Setup::offline().set("log.access", "true").set("log.access_file", path);
    let (code, said) = logging("/nowhere/access.log").spawn(&dir.path().join("data")).end().await;
    assert!(code == 1 && said.contains("log.access_file /nowhere/access.log cannot be opened"), "{code}: {said}");
    let server = logging("/dev/full").start().await;
    server.ok("/robots.txt").await;
    wait_until("dropped lines are counted", || async {
        let scrape = server.admin(Method::GET, "/metrics").await;
        scrape.text().lines().any(|line| line == "grandstand_access_log_dropped_total 1")
    })
    .await;
    wait_until("it is told", || async { server.process.said().contains("the access log cannot be written") }).await;
    wait_until("it is a finding", || async { server.finding("log-lines-lost").await.is_some() }).await;
    server.ok("/robots.txt").await;
}
