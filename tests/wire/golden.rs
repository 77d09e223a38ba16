//! Answers byte for byte, tags included: what must not change by accident between versions.
//!
//! The sample origin makes the same venues from the same seed. `GRANDSTAND_GOLDEN=write cargo test golden` writes the
//! files again, for an intended change.

use std::path::PathBuf;

use crate::harness::shared_mirror;

/// What differs from run to run: the instant of the snapshot, and the origin's port.
fn steady(text: &str, origin: &str) -> String {
    let mut steady = text.replace(origin, "http://origin");
    if let Some(start) = steady.find("\"generated_at\":\"").map(|at| at + 16) {
        let end = start + steady[start..].find('"').unwrap();
        steady.replace_range(start..end, "(instant)");
    }
    steady
}

fn compare(name: &str, text: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect();
    if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(text, golden, "{name} is not as it was");
}

#[tokio::test]
async fn answers_are_as_they_were() {
    let (origin, server) = shared_mirror(120).await;
    let first = server.ok("/api/listings.json?per_page=1").await.ids()[0];
    for (name, target) in [
        ("list.txt", "/api/listings.json?per_page=2&page=3".to_owned()),
        ("filtered.txt", "/api/listings.json?sport=baseball&modified_since=2025-01-01&per_page=1".to_owned()),
        ("detail.txt", format!("/api/listings/{first}.json")),
        ("sports.txt", "/api/sports.json".to_owned()),
        ("bad-page.txt", "/api/listings.json?page=0".to_owned()),
        ("unknown.txt", "/api/listings/none.json".to_owned()),
    ] {
        let reply = server.get(&target).await;
        let tag = reply.header("etag").unwrap_or_else(|| "none".to_owned());
        let text = steady(reply.text(), &origin.url());
        compare(
            name,
            &format!("{}\netag: {tag}\ncache-control: {}\n\n{text}\n", reply.status, reply.the("cache-control")),
        );
    }
}
