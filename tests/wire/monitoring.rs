//! What monitoring reads: every metric as the table declares it, the alarms, and the dashboard.

mod alarms;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use grandstand::server::admin::metrics::table::{ALL, Kind, Metric};
use http::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::plain_client;
use crate::harness::openssl::certificate;
use crate::harness::redis::Redis;
use crate::harness::{PATIENCE, Running, Server, Setup, origin};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn promtool(arguments: &[&str], dir: &Path) -> String {
    let output = Command::new("promtool").args(arguments).current_dir(dir).output();
    let output = output.expect("promtool comes with the package prometheus, which ./setup.sh installs");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

/// The metric whose sample has this name, and whether it may have the label `le`.
fn of_sample(name: &str) -> Option<(&'static Metric, bool)> {
    ALL.iter().find_map(|metric| {
        let suffix = name.strip_prefix(metric.name)?;
        let fits = match metric.kind {
            Kind::Counter => suffix == "_total",
            Kind::Gauge => suffix.is_empty(),
            Kind::Histogram => ["_bucket", "_sum", "_count"].contains(&suffix),
        };
        fits.then_some((metric, suffix == "_bucket"))
    })
}

/// The names of the labels of a series, `{a="b",c="d"}`.
fn labels(series: &str) -> Vec<&str> {
    let inner = series.split_once('{').map_or("", |(_, rest)| rest.trim_end_matches('}'));
    inner.split("\",").filter_map(|pair| pair.split_once('=')).map(|(name, _)| name).collect()
}

/// Checks a scrape line by line; the names of the families in it.
fn check(scrape: &str) -> BTreeSet<&'static str> {
    let mut told: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in scrape.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ').unwrap_or((comment, ""));
            let (name, text) = rest.split_once(' ').unwrap();
            assert!(["HELP", "TYPE"].contains(&word), "{line}");
            // A counter is named as its samples are.
            told.entry(name.strip_suffix("_total").unwrap_or(name)).or_default().push(text);
            continue;
        }
        let series = line.rsplit_once(' ').unwrap().0;
        let name = series.split('{').next().unwrap();
        let (metric, is_bucket) = of_sample(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let wanted: Vec<&str> = metric.labels.iter().copied().chain(is_bucket.then_some("le")).collect();
        assert_eq!(labels(series), wanted, "{line}");
        found.insert(metric.name);
    }
    for (name, texts) in told {
        let metric = ALL.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name} is not declared"));
        assert_eq!(texts, [format!("{}.", metric.help).as_str(), metric.kind.as_str()], "{name}");
    }
    found
}

#[tokio::test]
async fn every_metric_is_as_the_table_declares_it() {
    let (origin, redis, dir) = (origin(60).await, Redis::start().await, tempfile::tempdir().unwrap());
    certificate(dir.path(), "DNS:localhost,IP:127.0.0.1", &["-days", "60"]);
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let store = format!("file://{}", dir.path().join("store").display());
    let mirror = Setup::mirror_of(&origin)
        .set("origin.requests_per_minute", "100000")
        .set("publish.url", &store)
        .set("rate_limit.requests_per_minute", "1000")
        .set("rate_limit.store", &redis.url())
        // A busy machine is no Redis that is down.
        .set("rate_limit.store_timeout", "10s")
        .set("limits.connections_per_client", "3")
        .set("log.access", "true")
        .set("log.access_file", &file("access.log"))
        .set("tls.listen", r#"["127.0.0.1:0"]"#)
        .set("tls.cert", &file("cert.pem"))
        .set("tls.key", &file("key.pem"))
        .start()
        .await;
    mirror.settled(&origin).await;
    let shield = Setup::shield_of(&origin)
        .set("client_ip.proxy_protocol", "true")
        .set("client_ip.trusted_proxies", r#"["127.0.0.1"]"#)
        .set("rate_limit.requests_per_minute", "2")
        .start()
        .await;
    // It begins with no header.
    let mut headless = tokio::net::TcpStream::connect(shield.public).await.unwrap();
    headless.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    // No directory can be where a file is.
    let nowhere = format!("file://{}/store", file("cert.pem"));
    let replica = Setup::offline().set("replica.url", &store).set("replica.poll", "200ms").set("publish.url", &nowhere);
    let replica = replica.start().await;
    let empty = Setup::offline().start().await;
    assert_eq!(empty.get("/api/listings.json").await.status, 503);
    let (mut found, mut scrapes) = (BTreeSet::new(), Vec::new());
    mirror.admin(Method::POST, "/audit").await;
    for target in ["/api/listings.json", "/api/listings.json?page=0", "/nothing", "/robots.txt"] {
        mirror.get(target).await;
        let mut behind = tokio::net::TcpStream::connect(shield.public).await.unwrap();
        let request =
            format!("PROXY UNKNOWN\r\nGET {target} HTTP/1.1\r\nHost: shield.test\r\nConnection: close\r\n\r\n");
        behind.write_all(request.as_bytes()).await.unwrap();
        behind.read_to_end(&mut Vec::new()).await.unwrap();
    }
    // One more than a client may have. Whoever asks after that may be refused.
    let _open = futures_util::future::join_all((0..4).map(|_| tokio::net::TcpStream::connect(mirror.public))).await;
    let start = Instant::now();
    // A busy machine may take Redis to be down for a while.
    let is_shared = |scrapes: &[String]| scrapes.iter().any(|scrape| scrape.contains("\ngrandstand_limit_shared 1\n"));
    while found.len() < ALL.len() || !is_shared(&scrapes) {
        let missing: Vec<_> = ALL.iter().map(|metric| metric.name).filter(|name| !found.contains(name)).collect();
        assert!(start.elapsed() < 2 * PATIENCE, "{missing:?} are declared and never told, or Redis never answers");
        scrapes.clear();
        for server in [&mirror, &shield, &replica, &empty] {
            let url = format!("http://{}/metrics", server.admin);
            let request = plain_client().get(url);
            scrapes.push(request.send().await.unwrap().text().await.unwrap());
        }
        found.extend(scrapes.iter().flat_map(|scrape| check(scrape)));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    rules::each_alarm_is_raised_by_its_series_alone(&scrapes);
    every_query_has_data(&[&mirror, &shield, &replica]).await;
}

/// Every metric that a text names is in the table, with the labels that the text compares.
fn check_query(text: &str) -> Vec<&'static Metric> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (start, _) in text.match_indices("grandstand_").chain(text.match_indices("process_")) {
        if text[..start].ends_with(is_name) {
            continue;
        }
        let rest = &text[start..];
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        let (metric, is_bucket) = of_sample(name).unwrap_or_else(|| panic!("{name} is no metric: {text}"));
        found.push(metric);
        let Some(inner) = rest[name.len()..].strip_prefix('{') else { continue };
        for pair in inner[..inner.find('}').unwrap()].split(',') {
            let label = pair[..pair.find(['=', '!']).unwrap()].trim();
            let known = metric.labels.contains(&label) || ["instance", "job"].contains(&label);
            assert!(known || (is_bucket && label == "le"), "{name} has no label {label}");
        }
    }
    found
}

/// What the dashboard asks for.
fn queries(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row");
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

/// Scrapes the servers with a real Prometheus until every query of the dashboard has data.
async fn every_query_has_data(servers: &[&Server]) {
    let text = std::fs::read_to_string(repository("config/grafana/grandstand.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let (dir, port) = (
        tempfile::tempdir().unwrap(),
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(),
    );
    let targets: Vec<String> = servers.iter().map(|server| format!("'{}'", server.admin)).collect();
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: grandstand\n  static_configs: [{{targets: [{}]}}]\n",
        targets.join(", ")
    );
    std::fs::write(dir.path().join("prometheus.yml"), config).unwrap();
    let prometheus = Command::new("prometheus")
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"])
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .current_dir(dir.path())
        .spawn()
        .expect("the package prometheus, which ./setup.sh installs");
    let _prometheus = Running(prometheus);
    let (client, url) = (plain_client(), format!("http://127.0.0.1:{port}/api/v1/query"));
    let mut left: BTreeSet<String> = queries(&dashboard)
        .into_iter()
        .map(|query| {
            let filled = query.replace("$__rate_interval", "1m").replace("$instance", ".*");
            filled.replace("$job", "grandstand")
        })
        .collect();
    let start = Instant::now();
    while !left.is_empty() {
        assert!(start.elapsed() < 2 * PATIENCE, "no data for {left:#?}");
        for query in left.clone() {
            let asked = url::Url::parse_with_params(&url, [("query", &query)]).unwrap();
            // It may not listen yet.
            let Ok(answer) = client.get(asked).send().await else { continue };
            let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
            if answer["data"]["result"].as_array().is_some_and(|series| !series.is_empty()) {
                left.remove(&query);
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[test]
fn the_dashboard_asks_prometheus_for_nothing_that_is_not_there_and_shows_every_metric() {
    let text = std::fs::read_to_string(repository("config/grafana/grandstand.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let (mut rules, mut found) = (String::from("groups:\n- name: dashboard\n  rules:\n"), BTreeSet::new());
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{}", panel["title"]);
    }
    for (number, query) in queries(&dashboard).into_iter().enumerate() {
        found.extend(check_query(query).into_iter().map(|metric| metric.name));
        // Grafana puts these in.
        let query = query.replace("$__rate_interval", "1m");
        writeln!(rules, "  - record: query_{number}\n    expr: {}", Value::from(query)).unwrap();
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        check_query(variable["query"].as_str().unwrap());
    }
    // Prometheus itself reads each of them.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rules.yml"), rules).unwrap();
    promtool(&["check", "rules", "rules.yml"], dir.path());
    let shown: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
    let details = ["process_start_time_seconds", "process_virtual_memory_bytes", "process_threads"];
    let missing: Vec<_> = shown.difference(&found).filter(|name| !details.contains(name)).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
    let places: BTreeSet<String> = panels.iter().map(|panel| format!("{}", panel["gridPos"])).collect();
    assert_eq!(places.len(), panels.len(), "panels on one place");
}
