//! Names on the pages for operators, compared with a running server: metrics, fields of `/status`, paths.
//!
//! Callers: [`super`].

use http::Method;

use super::{read, repository};
use crate::harness::{Setup, origin, wait_until};

/// Whatever on a page stands between backticks.
fn quoted(page: &str) -> Vec<&str> {
    page.split('`').skip(1).step_by(2).collect()
}

#[tokio::test]
async fn the_pages_for_operators_name_every_field_every_path_and_only_metrics_that_exist() {
    let page = read(&repository("docs/operate.md"));
    let origin = origin(60).await;
    let store = tempfile::tempdir().unwrap();
    let publish = format!("file://{}", store.path().display());
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "100000").set("publish.url", &publish);
    let server = setup.start().await;
    server.settled(&origin).await;
    wait_until("it publishes", || async { server.status().await["publish"]["sequence"].is_u64() }).await;

    let all = read(&repository("docs/metrics.md"));
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let names = quoted(&page).into_iter().map(|word| &word[..word.find(|c| !is_name(c)).unwrap_or(word.len())]);
    for name in names.filter(|name| name.starts_with("grandstand_")) {
        assert!(quoted(&all).contains(&name), "{name} is not on the page of metrics");
    }

    let status = server.status().await;
    let fields = status.as_object().unwrap().keys().filter(|field| *field != "listen");
    let reference = all.split("\n## Status\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let words = quoted(reference);
    for field in fields {
        let is_told = words.iter().any(|word| word == field || word.starts_with(&format!("{field}.")));
        assert!(is_told, "docs/metrics.md does not name the field {field} of /status");
    }

    // What there is, in the words of the listener itself.
    let words = quoted(&page);
    let refusal = server.admin(Method::GET, "/nothing").await;
    for path in refusal.text().split([' ', ',', '"', '.']).filter(|word| word.len() > 1 && word.starts_with('/')) {
        let end = path.rsplit('/').next().unwrap();
        assert!(words.iter().any(|word| word.contains(path) || word.ends_with(end)), "the page does not name {path}");
    }
}
