//! The shapes of `/status`: scripts rely on the names of its parts and of their fields.

use http::Method;
use serde_json::Value;

use crate::harness::{Server, Setup, origin, until, wait_until};

/// Every part. It is there in each use, and null where there is nothing to tell.
const PARTS: [&str; 22] = [
    "use",
    "state",
    "reasons",
    "findings",
    "snapshot",
    "listings",
    "details",
    "confirmed_at",
    "age_seconds",
    "origin",
    "terms",
    "volatile",
    "held",
    "open_cases",
    "parity",
    "hit_ratio",
    "last_error",
    "reload",
    "rate_limit",
    "publish",
    "replica",
    "listen",
];

/// The names of the fields of an object, sorted.
fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        value.as_object().unwrap_or_else(|| panic!("{value}")).keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_server_is_healthy_with_its_data_only() {
    let origin = origin(200).await;
    let server = Setup::mirror_of(&origin).start().await;
    let first = until("it is healthy", || async {
        let status = server.status().await;
        (status["state"] == "healthy").then_some(status)
    })
    .await;
    assert_eq!((&first["listings"], &first["details"]["of"]), (&200.into(), &200.into()), "{first:#}");
}

/// What `/status` of a server says, with everything that holds in each use checked.
async fn status(server: &Server) -> Value {
    let reply = server.admin(Method::GET, "/status").await;
    let status = reply.json();
    let reasons = status["reasons"].as_array().unwrap();
    assert!(reasons.iter().all(|reason| reason.as_str().is_some_and(|reason| reason.contains(' '))), "{status:#}");
    let (code, state) = if reasons.is_empty() { (200, "healthy") } else { (503, "unhealthy") };
    assert_eq!((reply.status, status["state"].as_str()), (code, Some(state)), "{status:#}");
    let findings = status["findings"].as_array().unwrap();
    for finding in findings {
        assert_eq!(fields(finding), ["name", "since", "text", "todo", "unhealthy"]);
    }
    let unhealthy: Vec<&Value> =
        findings.iter().filter(|finding| finding["unhealthy"] == true).map(|finding| &finding["text"]).collect();
    assert_eq!(unhealthy, reasons.iter().collect::<Vec<_>>());
    for part in PARTS {
        assert!(status.get(part).is_some(), "{part} is missing: {status:#}");
    }
    for name in ["state", "budget", "eta_seconds"] {
        assert!(status["origin"].get(name).is_some(), "origin.{name} is missing: {status:#}");
    }
    let limit =
        ["alone_since", "clients", "decisions", "forgotten", "lost", "replayed", "requests_per_minute", "store"];
    assert_eq!(fields(&status["rate_limit"]), [&limit[..], &["url", "why"]].concat());
    status
}

fn are_null(status: &Value, parts: &[&str]) {
    for part in parts {
        assert!(status[part].is_null(), "{part}: {status:#}");
    }
}

#[tokio::test]
async fn each_part_has_its_fields_and_is_null_where_there_is_nothing_to_tell() {
    let (origin, store) = (origin(40).await, tempfile::tempdir().unwrap());
    let url = format!("file://{}", store.path().display());
    let mirror = Setup::mirror_of(&origin).set("publish.url", &url).start().await;
    mirror.settled(&origin).await;
    wait_until("it has published", || async { mirror.status().await["publish"]["behind_seconds"] == 0 }).await;
    let told = status(&mirror).await;
    are_null(&told, &["replica", "reload", "held", "last_error", "parity"]);
    assert_eq!((&told["rate_limit"]["store"], &told["rate_limit"]["why"]), (&"local".into(), &Value::Null));
    assert_eq!(told["snapshot"]["id"].as_str().map(str::len), Some(32));
    assert_eq!(told["snapshot"]["certificate"], "full");
    assert_eq!((&told["details"]["mirrored"], &told["details"]["of"]), (&40.into(), &40.into()));
    let published = &told["publish"];
    assert_eq!(
        fields(published),
        ["behind_seconds", "details_missing", "last_success", "proxy", "sequence", "signed_by", "url", "why"]
    );
    assert!(published["sequence"].is_u64() && published["why"].is_null(), "{published}");
    assert!(published["last_success"].as_str().is_some_and(|at| at.ends_with('Z')), "{published}");

    let reloaded = mirror.admin(Method::POST, "/reload").await.json();
    assert_eq!(fields(&reloaded), ["applied", "at", "errors", "needs_restart", "ok"]);
    assert_eq!(status(&mirror).await["reload"], reloaded);

    let replica = Setup::offline().set("replica.url", &url).set("replica.poll", "200ms").start().await;
    wait_until("it has the head", || async { replica.status().await["replica"]["behind_seconds"] == 0 }).await;
    let told = status(&replica).await;
    are_null(&told, &["publish", "reload", "held", "parity"]);
    assert_eq!(told["use"], "replica");
    let followed = &told["replica"];
    assert_eq!(
        fields(followed),
        ["behind_seconds", "details_missing", "last_poll", "proxy", "sequence", "signed_by", "url", "why"]
    );
    assert!(followed["sequence"].is_u64() && followed["why"].is_null(), "{followed}");
    assert!(followed["last_poll"].as_str().is_some_and(|at| at.ends_with('Z')), "{followed}");

    let offline = status(&Setup::offline().start().await).await;
    are_null(&offline, &["publish", "replica", "reload", "snapshot", "listings", "details", "age_seconds", "held"]);
    assert_eq!((&offline["use"], &offline["origin"]["state"]), (&"offline".into(), &"offline".into()));

    let shield = status(&Setup::shield_of(&origin).start().await).await;
    are_null(&shield, &["publish", "replica", "reload", "snapshot", "terms", "volatile", "open_cases", "held"]);
    assert_eq!(shield["use"], "shield");
}

#[tokio::test]
async fn no_text_from_outside_is_longer_than_500_bytes() {
    fn longest(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(longest).max().unwrap_or(0),
            Value::Object(fields) => fields.values().map(longest).max().unwrap_or(0),
            _ => 0,
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("grandstand.toml");
    std::fs::write(&file, "drain = \"1s\"\n").unwrap();
    let server = Setup::offline().serving(&["--config", file.to_str().unwrap()]).start().await;
    let path = format!("/nowhere/{}", "é".repeat(2000));
    std::fs::write(&file, format!("log = {{ access = true, access_file = {path:?} }}\n")).unwrap();
    assert_eq!(server.admin(Method::POST, "/reload").await.status, 422);
    let told = status(&server).await;
    let error = told["reload"]["errors"][0].as_str().unwrap();
    assert!(error.contains("log.access_file /nowhere/") && error.ends_with('…'), "{error}");
    assert!((490..=500).contains(&longest(&told)), "{told:#}");
}
