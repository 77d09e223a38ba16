//! Objects that are old, foreign, or left over.

use std::fs;

use super::change;
use crate::fleet::store::{Store, age, leads_to, publishing};
use crate::harness::wait_until;

const DAY: u64 = 86_400;

#[tokio::test]
async fn old_objects_are_removed_those_in_use_are_written_again_and_foreign_ones_stay() {
    let store = Store::new();
    // It looks at its objects when it starts. What is an hour old is old.
    let (origin, mut server) = publishing(400, &store.url(), |setup| setup.set("publish.keep", "1h")).await;
    store.has(&server).await;
    change(&origin, &server).await;
    let head = store.has(&server).await;
    let path = |name: &str| store.root().join(name);
    let zero = "0".repeat(16);
    let foreign = ["notes.txt", "full/mine.gsb", "journal/not-ours"];
    let orphans = [
        format!("full/{}-{zero}.gsb", head.snapshot()),
        format!("delta/{zero}-{zero}.gsb"),
        format!("delta/{zero}-{zero}.gsb.minisig"),
    ];
    let unfinished = [format!("{}#1", head.full())];
    let young = format!("journal/{zero}");
    for name in foreign.into_iter().chain(orphans.iter().chain(&unfinished).map(String::as_str)) {
        fs::write(path(name), "x").unwrap();
        age(&path(name), DAY);
    }
    fs::write(path(&young), "x").unwrap();
    for key in head.keys() {
        age(&path(&key), DAY);
    }
    server.restart().await;
    wait_until("the old ones are gone", || async {
        orphans.iter().chain(&unfinished).all(|name| !path(name).exists())
    })
    .await;
    let is_new = |key: &String| {
        let modified = fs::metadata(path(key)).unwrap().modified().unwrap();
        modified.elapsed().unwrap_or_default().as_secs() < DAY / 2
    };
    wait_until("those in use are new", || async { head.keys().iter().all(is_new) }).await;
    assert!(path(&young).exists(), "it is not old enough");
    assert!(foreign.iter().all(|name| path(name).exists()));
    let after = store.head().unwrap();
    assert_eq!(after.full(), head.full(), "they are the same");
    leads_to(&store, &after, &server).await;
}
