//! Names on the page for operators, compared with a running server: metrics, fields of `/status`, paths.
//!
//! Callers: [`super`].

use std::collections::BTreeSet;

use http::Method;

use super::{read, repository};
use crate::harness::{Setup, origin, wait_until};

/// Metrics that a mirror without HTTPS and without traffic does not have.
const LATER: [&str; 7] = [
    "grandstand_certificate_seconds",
    "grandstand_forwards_total",
    "grandstand_parity_ratio",
    "grandstand_replica_behind_seconds",
    "grandstand_replica_polls_total",
    "grandstand_replica_received_bytes_total",
    "grandstand_replica_sequence",
];

/// Whatever on the page stands between backticks.
fn quoted(page: &str) -> Vec<&str> {
    page.split('`').skip(1).step_by(2).collect()
}

#[tokio::test]
async fn the_page_for_operators_names_every_metric_every_field_and_every_path() {
    let page = read(&repository("docs/operate.md"));
    let origin = origin(60).await;
    let store = tempfile::tempdir().unwrap();
    let publish = format!("file://{}", store.path().display());
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "100000").set("publish.url", &publish);
    let server = setup.start().await;
    server.settled(&origin).await;
    wait_until("it publishes", || async { server.status().await["publish"]["sequence"].is_u64() }).await;

    let metrics = server.admin(Method::GET, "/metrics").await;
    let types = metrics.text().lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let are: BTreeSet<&str> = types.filter(|name| name.starts_with("grandstand_")).chain(LATER).collect();
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let names = quoted(&page).into_iter().map(|word| &word[..word.find(|c| !is_name(c)).unwrap_or(word.len())]);
    let told: BTreeSet<&str> = names.filter(|name| name.starts_with("grandstand_")).collect();
    assert_eq!(told, are, "metrics on the page (left) and of the server (right)");

    let status = server.status().await;
    let fields = status.as_object().unwrap().keys().filter(|field| *field != "listen");
    let words = quoted(&page);
    for field in fields {
        let is_told = words.iter().any(|word| word == field || word.starts_with(&format!("{field}.")));
        assert!(is_told, "the page does not name the field {field} of /status");
    }

    // What there is, in the words of the listener itself.
    let refusal = server.admin(Method::GET, "/nothing").await;
    for path in refusal.text().split([' ', ',', '"', '.']).filter(|word| word.len() > 1 && word.starts_with('/')) {
        let end = path.rsplit('/').next().unwrap();
        assert!(words.iter().any(|word| word.contains(path) || word.ends_with(end)), "the page does not name {path}");
    }
}
