//! A reload: live keys change without a lost connection, others are named, and mistakes change nothing.

mod keys;

use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Reply, plain_client, raw};
use crate::harness::{Server, Setup, edit, origin, wait_until};

/// A server with a configuration file, and the file.
struct Configured {
    server: Server,
    dir: TempDir,
}

impl Configured {
    /// Starts `setup` with `text` as its file; what the file sets is not in the arguments.
    async fn start(setup: Setup, text: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("grandstand.toml");
        std::fs::write(&path, text).unwrap();
        let server = setup
            .without("ttl")
            .without("rate_limit.requests_per_minute")
            .serving(&["--config", path.to_str().unwrap()])
            .start()
            .await;
        Self { server, dir }
    }

    fn write(&self, text: &str) {
        std::fs::write(self.dir.path().join("grandstand.toml"), text).unwrap();
    }

    /// Reloads with this file; the report of a reload that went well.
    async fn reload(&self, text: &str) -> Value {
        self.write(text);
        let reply = self.server.admin(Method::POST, "/reload").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let report = reply.json();
        assert_eq!((&report["ok"], &report["errors"]), (&true.into(), &serde_json::json!([])), "{report}");
        assert_eq!(self.server.status().await["reload"], report);
        report
    }

    /// The same by a signal.
    async fn hang_up(&self, text: &str) -> Value {
        let before = self.server.status().await["reload"].clone();
        self.write(text);
        self.server.process.signal("HUP");
        wait_until("it has reloaded", || async { self.server.status().await["reload"] != before }).await;
        self.server.status().await["reload"].clone()
    }

    /// What should be mended; empty: nothing.
    async fn finding(&self) -> String {
        let of = async |name| self.server.finding(name).await.unwrap_or_default();
        of("reload-failed").await + &of("restart-needed").await
    }
}

const OPEN: &str = "rate_limit.requests_per_minute = 0\n";

async fn ask(server: &Server, headers: &[(&str, &str)]) -> Reply {
    server.get_with("/nothing", headers).await
}

#[tokio::test]
async fn a_reload_changes_live_keys_names_the_others_and_says_so_in_status() {
    let started = Configured::start(Setup::offline(), OPEN).await;
    assert!(started.server.status().await["reload"].is_null());
    let report =
        started.reload(&format!("{OPEN}ttl = \"7s\"\norigin.timeout = \"3s\"\nadmin.hosts = [\"a.test\"]\n")).await;
    assert_eq!(report["applied"], serde_json::json!(["admin.hosts", "ttl"]));
    assert_eq!(report["needs_restart"], serde_json::json!(["origin.timeout"]));
    assert!(report["at"].as_str().unwrap().ends_with('Z'), "{report}");
    let report = started.hang_up(&format!("{OPEN}ttl = \"9s\"\norigin.timeout = \"3s\"\n")).await;
    assert_eq!(report["applied"], serde_json::json!(["admin.hosts", "ttl"]));
    assert_eq!(report["needs_restart"], serde_json::json!(["origin.timeout"]), "it is named until it is done");
    assert!(started.finding().await.ends_with("take effect at the next start: origin.timeout"));
    let report = started.reload(&format!("{OPEN}ttl = \"9s\"\n")).await;
    assert_eq!((&report["applied"], &report["needs_restart"]), (&serde_json::json!([]), &serde_json::json!([])));
    let said = started.server.process.said();
    assert!(said.contains("reloaded") && said.contains("needs_restart=\"origin.timeout\""), "{said}");
}

#[tokio::test]
async fn a_configuration_with_mistakes_changes_nothing_and_every_mistake_is_listed() {
    let started = Configured::start(Setup::offline(), OPEN).await;
    let wrong = "rate_limit.requests_per_minute = \"many\"\nttl = \"7 parsecs\"\nnonsense = 1\nlog.level = \"debug\"\n";
    started.write(wrong);
    let reply = started.server.admin(Method::POST, "/reload").await;
    assert_eq!((reply.status, reply.the("content-type").as_str()), (422, "application/problem+json"));
    let problem = reply.json();
    assert_eq!((&problem["status"], &problem["ok"]), (&422.into(), &false.into()), "{problem}");
    let errors: Vec<&str> = problem["errors"].as_array().unwrap().iter().map(|error| error.as_str().unwrap()).collect();
    for (error, key) in errors.iter().zip(["rate_limit.requests_per_minute", "ttl", "nonsense"]) {
        assert!(error.contains(key) && error.contains("grandstand.toml:"), "{error}");
    }
    assert_eq!(errors.len(), 3, "{errors:?}");
    let status = started.server.status().await["reload"].clone();
    assert_eq!((&status["errors"], &status["applied"]), (&problem["errors"], &serde_json::json!([])));
    assert!(!ask(&started.server, &[]).await.headers.contains_key("ratelimit"), "the limit is still off");
    let status = started.hang_up("listen = [").await;
    assert_eq!(status["ok"], false);
    let finding = started.finding().await;
    assert!(finding.contains(" failed: ") && finding.contains("toml:1"), "{finding}");
    let waits = started.reload(&format!("{OPEN}origin.timeout = \"3s\"\n")).await;
    assert_eq!(waits["needs_restart"], serde_json::json!(["origin.timeout"]));
    started.hang_up("listen = [").await;
    let finding = started.finding().await;
    assert!(
        finding.contains(" failed: ") && finding.ends_with("next start: origin.timeout"),
        "neither hides the other: {finding}"
    );
    assert!(started.reload(OPEN).await["applied"].as_array().unwrap().is_empty());
    let finding = started.finding().await;
    assert!(finding.starts_with("no longer: ") && finding.matches("no longer: ").count() == 2, "{finding}");
}

#[tokio::test]
async fn a_token_in_a_file_is_read_again_with_each_reload() {
    let token_file = TempDir::new().unwrap();
    let path = token_file.path().join("token");
    std::fs::write(&path, "the-first-token-of-all\n").unwrap();
    let text = format!("[admin]\ntoken_file = {path:?}\n");
    let started = Configured::start(Setup::offline(), &text).await;
    let purge = async |token: &str| {
        let url = format!("http://{}/cache", started.server.admin);
        plain_client().delete(url).bearer_auth(token).send().await.unwrap().status().as_u16()
    };
    assert_eq!((purge("the-first-token-of-all").await, purge("the-second-one-of-all").await), (200, 403));
    std::fs::write(&path, "the-second-one-of-all").unwrap();
    let report = started.hang_up(&text).await;
    assert_eq!(report["applied"], serde_json::json!(["admin.token_file"]), "{report}");
    assert_eq!((purge("the-first-token-of-all").await, purge("the-second-one-of-all").await), (403, 200));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(started.hang_up(&text).await["ok"], false);
    assert_eq!(purge("the-second-one-of-all").await, 200, "a mistake changes nothing");
}

/// A reload that changes nothing; its errors.
async fn refused(started: &Configured) -> String {
    let asked = tokio::time::timeout(Duration::from_secs(20), started.server.admin(Method::POST, "/reload"));
    let reply = asked.await.expect("the reload waits");
    assert_eq!(reply.status, 422, "{reply:?}");
    reply.json()["errors"].to_string()
}

fn make_fifo(path: &Path) {
    std::fs::remove_file(path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_at_once_and_blocks_no_later_reload() {
    let started = Configured::start(Setup::offline(), OPEN).await;
    let (file, token) = (started.dir.path().join("grandstand.toml"), started.dir.path().join("token"));
    let text = format!("{OPEN}[admin]\ntoken_file = {token:?}\n");
    std::fs::write(&token, "").unwrap();
    make_fifo(&token);
    started.write(&text);
    let errors = refused(&started).await;
    assert!(errors.contains("admin.token_file") && errors.contains("this is a FIFO"), "{errors}");
    make_fifo(&file);
    let errors = refused(&started).await;
    assert!(errors.contains("cannot be read again: this is a FIFO") && errors.contains("restart"), "{errors}");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    assert!(refused(&started).await.contains("cannot be read again: this is a device"));
    std::fs::remove_file(&file).unwrap();
    started.reload(&format!("{OPEN}ttl = \"9s\"\n")).await;
}

#[tokio::test]
async fn a_pipe_is_read_at_the_start_and_no_reload_loses_its_values() {
    let script = r#"exec "$0" "$@" --config <(sleep 0.2; echo 'cache.stale_if_error = "8s"')"#;
    let server = Setup::offline().under(&["bash", "-c", script]).start().await;
    let reply = server.admin(Method::POST, "/reload").await;
    assert!(reply.status == 422 && reply.text().contains("cannot be read again: this is a FIFO"), "{reply:?}");
    assert!(server.process.said().contains("configuration path=/dev/fd/"), "{}", server.process.said());
}

#[tokio::test]
async fn windows_of_the_limit_survive_a_reload() {
    let limit = |most: u32| format!("rate_limit.requests_per_minute = {most}\n");
    let started = Configured::start(Setup::offline(), &limit(5)).await;
    for left in [4, 3, 2] {
        assert!(ask(&started.server, &[]).await.the("ratelimit").contains(&format!("r={left};")));
    }
    started.reload(&limit(4)).await;
    let reply = ask(&started.server, &[]).await;
    assert_eq!((reply.status, reply.the("ratelimit-policy").as_str()), (404, "\"default\";q=4;w=60"));
    assert_eq!(ask(&started.server, &[]).await.status, 429, "three before the reload, one after it");
    // A large limit is counted in another way.
    started.reload(&limit(100_000)).await;
    assert!(ask(&started.server, &[]).await.the("ratelimit").contains("r=99995;"));
    started.reload(&limit(5)).await;
    assert_eq!(ask(&started.server, &[]).await.status, 429);
    let own = "[[rate_limit.override]]\nnetwork = \"127.0.0.1\"\nrequests_per_minute = 6\n";
    started.reload(&format!("{}{own}", limit(5))).await;
    assert!(ask(&started.server, &[]).await.the("ratelimit").contains("r=0;"));
    assert_eq!(ask(&started.server, &[]).await.status, 429);
    started.reload(OPEN).await;
    assert!(!ask(&started.server, &[]).await.headers.contains_key("ratelimit"));
}

#[tokio::test]
async fn what_answers_repeat_changes_with_the_next_answer_of_the_same_connection() {
    let origin = origin(20).await;
    let started =
        Configured::start(Setup::mirror_of(&origin), "ttl = \"10m\"\nrate_limit.requests_per_minute = 100\n").await;
    let server = &started.server;
    server.settled(&origin).await;
    let page = async || server.get_with("/", &[("accept", "text/html")]).await;
    let before = page().await;
    assert!(before.text().contains("100 requests"), "{}", before.text());
    let mut stream = TcpStream::connect(server.public).await.unwrap();
    let mut cache_control = async || {
        stream.write_all(b"HEAD /api/sports.json HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        head.lines().find_map(|line| line.strip_prefix("cache-control: ")).unwrap().to_owned()
    };
    assert_eq!(cache_control().await, "public, max-age=600, stale-while-revalidate=60, stale-if-error=86400");
    let text = "ttl = \"20m\"\nrate_limit.requests_per_minute = 200\n\
        cache = { stale_while_revalidate = \"7s\", stale_if_error = \"8s\" }\n";
    started.reload(text).await;
    assert_eq!(cache_control().await, "public, max-age=1200, stale-while-revalidate=7, stale-if-error=8");
    let after = page().await;
    assert!(after.text().contains("200 requests") && after.etag() != before.etag(), "{}", after.text());
    started.reload(&format!("{text}pages.enabled = false\n")).await;
    assert_eq!(page().await.status, 404);
    assert_eq!(server.get("/dumps/listings.csv").await.status, 404);
    started.reload(text).await;
    assert_eq!((page().await.status, page().await.etag()), (200, after.etag()));
}

#[tokio::test]
async fn bounds_households_and_client_addresses_change() {
    let started = Configured::start(Setup::offline(), "rate_limit.requests_per_minute = 2\n").await;
    let server = &started.server;
    let from = [("x-forwarded-for", "192.0.2.1"), ("x-real-ip", "192.0.2.2")];
    for status in [404, 404, 429] {
        assert_eq!(ask(server, &from[..1]).await.status, status);
    }
    let findings = async || server.status().await["findings"].to_string();
    assert!(findings().await.contains("client_ip.trusted_proxies"), "a proxy was forgotten");
    let text = "rate_limit.requests_per_minute = 2\nlimits.connections_per_client = 2\n\
        client_ip.trusted_proxies = [\"127.0.0.1\"]\n";
    started.reload(text).await;
    for status in [404, 404, 429] {
        assert_eq!(ask(server, &[("x-forwarded-for", "192.0.2.7")]).await.status, status, "by header");
    }
    started.reload(&format!("{text}client_ip.header = \"x-real-ip\"\n")).await;
    assert!(ask(server, &from).await.the("ratelimit").contains("r=1;"), "by the other header");
    let left = async |client: &str| {
        let reply = ask(server, &[("x-forwarded-for", client)]).await;
        reply.the("ratelimit").split(';').nth(1).unwrap().to_owned()
    };
    started.reload(text).await;
    for client in ["2001:db8:1:1::1", "2001:db8:1:2::1"] {
        assert_eq!(left(client).await, "r=1", "{client} is a household of its own");
    }
    started.reload(&format!("{text}rate_limit.ipv6_prefix = 48\n")).await;
    for (client, expected) in [("2001:db8:1:1::1", "r=1"), ("2001:db8:1:2::1", "r=0"), ("2001:db8:2::1", "r=1")] {
        assert_eq!(left(client).await, expected, "{client}");
    }
    started.reload("limits.connections_per_client = 1\n").await;
    let _one = TcpStream::connect(server.public).await.unwrap();
    let refused = async || raw(server.public, b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    wait_until("the second connection is refused", || async {
        refused().await.is_none_or(|reply| reply.status == 503)
    })
    .await;
}

#[tokio::test]
async fn operators_names_and_token_and_the_log_change() {
    let started = Configured::start(Setup::offline(), OPEN).await;
    let server = &started.server;
    let named = async |host: &str, token: &str| {
        let request = format!(
            "POST /reload HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        raw(server.admin, request.as_bytes()).await.unwrap().status
    };
    assert_eq!((named("mirror.test", "").await, named("localhost", "").await), (403, 200));
    let token = "0123456789abcdef-one";
    started
        .reload(&format!("{OPEN}admin = {{ hosts = [\"mirror.test\"], token = {token:?} }}\nlog.level = \"debug\"\n"))
        .await;
    assert_eq!((named("mirror.test", token).await, named("mirror.test", "").await), (200, 403));
    assert_eq!(ask(server, &[]).await.status, 404);
    wait_until("each request is logged", || async { server.process.said().contains("path=/nothing") }).await;
    started.write(&format!("{OPEN}log.format = \"json\"\n"));
    assert_eq!(named("localhost", token).await, 200);
    assert_eq!(named("localhost", "").await, 200, "no token any more");
    wait_until("lines are JSON", || async { server.process.said().contains("\"msg\":\"reloaded") }).await;
    assert!(!server.process.said().contains(token), "the token is not logged");
}

#[tokio::test]
async fn the_mirror_refreshes_keeps_and_samples_in_the_new_rhythm() {
    let origin = origin(30).await;
    let slow = "ttl = \"1h\"\nmirror = { sweep_every = \"10h\", keep = 5 }\n";
    let setup = Setup::mirror_of(&origin).without("mirror.examine_per_hour");
    let started =
        Configured::start(setup, &format!("{OPEN}{}", slow.replace("keep =", "examine_per_hour = 0, keep ="))).await;
    let server = &started.server;
    server.settled(&origin).await;
    for _ in 0..3 {
        edit(&origin, server, |world| assert!(world.touch(world.ids()[0]))).await;
    }
    assert_eq!(server.status().await["versions"], 4);
    let count = async |kind: &str| server.status().await["origin"]["requests"][kind].as_u64().unwrap_or(0);
    let (refreshes, background) = (count("refresh").await, count("background").await);
    let fast = "ttl = \"1s\"\nmirror = { sweep_every = \"1s\", examine_per_hour = 3600, keep = 2 }\n";
    started.reload(&format!("{OPEN}{fast}")).await;
    assert_eq!(server.status().await["versions"], 2, "the others go at once");
    wait_until("it refreshes, sweeps and samples", || async {
        count("refresh").await > refreshes + 5
            && count("background").await > background + 5
            && !server.status().await["parity"].is_null()
    })
    .await;
}

#[tokio::test]
async fn the_drain_time_of_a_stop_is_that_of_the_last_reload() {
    let origin = origin(20).await;
    let mut started = Configured::start(Setup::mirror_of(&origin), &format!("{OPEN}drain = \"10m\"\n")).await;
    started.server.settled(&origin).await;
    started.reload(&format!("{OPEN}drain = \"100ms\"\n")).await;
    origin.clear_log();
    origin.set(|switches| switches.latency = Duration::from_secs(300));
    let request = format!("http://{}/api/regions.json", started.server.public);
    let hangs = tokio::spawn(async move { crate::client::plain_client().get(request).send().await.is_err() });
    wait_until("the request is at the origin", || async { origin.count() > 0 }).await;
    started.server.process.signal("TERM");
    assert_eq!(started.server.process.exit().await, 0);
    assert!(hangs.await.unwrap(), "the request is aborted");
}

#[tokio::test]
async fn signals_to_reload_never_end_the_process() {
    let origin = origin(200).await;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("grandstand.toml");
    std::fs::write(&path, OPEN).unwrap();
    let setup = Setup::mirror_of(&origin)
        .without("rate_limit.requests_per_minute")
        .serving(&["--config", path.to_str().unwrap()]);
    let process = setup.spawn(&dir.path().join("data"));
    // From its first log line on, which comes before the data directory is opened.
    wait_until("it runs", || async { Path::new(&dir.path().join("data")).exists() }).await;
    for _ in 0..50 {
        process.signal("HUP");
    }
    wait_until("it reloads", || async { process.said().contains("reloaded: the configuration has not changed") }).await;
    process.signal("TERM");
    assert_eq!(process.end().await.0, 0);
}
