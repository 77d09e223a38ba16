//! Objects that are lost, old, foreign, or left over.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::change;
use crate::clocks::Hand;
use crate::fleet::store::{Store, age, leads_to, lost, publishing, told};
use crate::harness::{Setup, until, wait_until};

const DAY: u64 = 86_400;

/// Publishing in which what is an hour old is old. It looks at its objects when it starts.
fn tidying(setup: Setup) -> Setup {
    setup.set("publish.keep", "1h")
}

/// As under the shipped unit, whose umask keeps everything private: a web server of another user hands them out.
#[tokio::test]
async fn what_is_published_into_a_directory_is_readable_by_others_whatever_the_umask() {
    let store = Store::new();
    let private = |setup: Setup| setup.under(&["bash", "-c", r#"umask 077; exec "$0" "$@""#]);
    let (origin, server) = publishing(60, &store.url(), private).await;
    store.has(&server).await;
    change(&origin, &server).await;
    let head = store.has(&server).await;
    let (root, above) = (store.root(), store.root().parent().unwrap().to_owned());
    let files = head.keys().into_iter().chain(["head.json".to_owned()]).map(|key| (root.join(key), 0o644));
    let directories = [above, root.clone(), root.join("full"), root.join("delta"), root.join("journal")];
    for (path, expected) in files.chain(directories.map(|path| (path, 0o755))) {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, expected, "{}", path.display());
    }
}

#[tokio::test]
async fn without_a_head_everything_is_written_again() {
    let store = Store::new();
    let (origin, server) = publishing(120, &store.url(), |setup| setup).await;
    let before = store.has(&server).await;
    lost(&store.root()).await;
    server.refreshed(&origin).await;
    let after = store.until("another head", |_| true).await;
    assert!(after.sequence() > before.sequence() && after.deltas().is_empty());
    assert_eq!(after.keys(), store.keys());
    leads_to(&store, &after, &server).await;
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_replaced() {
    let store = Store::new();
    let (origin, server) = publishing(60, &store.url(), |setup| setup).await;
    let before = store.has(&server).await;
    fs::write(store.root().join("head.json"), "{\"head\":\"{}\",\"signature\":null}").unwrap();
    server.refresh().await;
    wait_until("a head", || async { fs::read(store.root().join("head.json")).is_ok_and(|file| file.len() > 100) })
        .await;
    let after = store.until("a later head", |head| head.sequence() > before.sequence()).await;
    assert_eq!(after.full(), before.full());
    server.settled(&origin).await;
}

#[tokio::test]
async fn a_head_of_a_newer_version_is_not_replaced() {
    let store = Store::new();
    let (_origin, server) = publishing(60, &store.url(), |setup| setup).await;
    store.has(&server).await;
    let newer = serde_json::json!({ "head": "{\"format\":2}", "signature": null }).to_string();
    let (file, beside) = (store.root().join("head.json"), store.root().join("newer"));
    let is_there = || fs::read_to_string(&file).is_ok_and(|text| text == newer);
    let is_told = async || told(&server).await["why"].as_str().is_some_and(|why| why.contains("format 2"));
    // A head that is being written meanwhile may replace it. The next one may not.
    for _ in 0..3 {
        // In one step: half a head would be replaced.
        fs::write(&beside, &newer).unwrap();
        fs::rename(&beside, &file).unwrap();
        server.refresh().await;
        wait_until("it is told or replaced", || async { is_told().await || !is_there() }).await;
        if is_told().await {
            break;
        }
    }
    assert!(is_told().await && is_there());
}

#[tokio::test]
async fn a_lost_or_damaged_bundle_is_noticed_and_everything_is_written_again() {
    let store = Store::new();
    let (_origin, mut server) = publishing(120, &store.url(), tidying).await;
    for damages in [true, false] {
        let before = store.has(&server).await;
        let path = store.root().join(before.full());
        if damages {
            fs::write(&path, "cut").unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        server.restart().await;
        let file = || fs::read(store.root().join("head.json")).unwrap();
        wait_until("another full bundle", || async {
            crate::fleet::store::Head::parse(&file()).full() != before.full()
                || fs::read(&path).is_ok_and(|bytes| bytes != b"cut")
        })
        .await;
        let after = store.until("a later head", |head| head.sequence() > before.sequence()).await;
        leads_to(&store, &after, &server).await;
    }
}

#[tokio::test]
async fn old_objects_that_no_head_names_are_removed_and_nothing_else() {
    let store = Store::new();
    let (origin, mut server) = publishing(120, &store.url(), tidying).await;
    let first = store.has(&server).await;
    // Everything is written again under other names.
    change(&origin, &server).await;
    store.has(&server).await;
    let second = until("another head", || async {
        let head = store.head();
        if head.as_ref().is_some_and(|head| head.full() == first.full()) {
            // A bundle with details that is on its way brings it back.
            let _ = fs::remove_file(store.root().join("head.json"));
            server.refreshed(&origin).await;
        }
        head.filter(|head| head.full() != first.full())
    })
    .await;
    let foreign = ["notes.txt", "full/mine.gsb", "journal/not-ours"];
    for name in foreign {
        fs::write(store.root().join(name), "x").unwrap();
        age(&store.root().join(name), DAY);
    }
    let unfinished = store.root().join(format!("{}#1", first.full()));
    fs::write(&unfinished, "half").unwrap();
    age(&unfinished, DAY);
    let orphans: Vec<String> =
        store.keys().into_iter().filter(|key| first.keys().contains(key) && !second.keys().contains(key)).collect();
    assert!(!orphans.is_empty());
    for key in &orphans[1..] {
        age(&store.root().join(key), DAY);
    }
    server.restart().await;
    wait_until("the old ones are gone", || async {
        orphans[1..].iter().all(|key| !store.root().join(key).exists()) && !unfinished.exists()
    })
    .await;
    assert!(store.root().join(&orphans[0]).exists(), "it is not old enough");
    assert!(foreign.iter().all(|name| store.root().join(name).exists()));
    leads_to(&store, &store.has(&server).await, &server).await;
}

#[tokio::test]
async fn objects_in_use_that_become_old_are_written_again() {
    let store = Store::new();
    let (origin, mut server) = publishing(400, &store.url(), tidying).await;
    store.has(&server).await;
    change(&origin, &server).await;
    let head = store.has(&server).await;
    for key in head.keys() {
        age(&store.root().join(key), DAY);
    }
    server.restart().await;
    let is_new = |key: &String| {
        let modified = fs::metadata(store.root().join(key)).unwrap().modified().unwrap();
        modified.elapsed().unwrap_or_default().as_secs() < DAY / 2
    };
    wait_until("all are new", || async { head.keys().iter().all(is_new) }).await;
    let after = store.head().unwrap();
    assert_eq!(after.full(), head.full(), "they are the same");
    leads_to(&store, &after, &server).await;
}

#[tokio::test]
async fn a_full_bundle_follows_after_a_week() {
    let (store, hand) = (Store::new(), Hand::new());
    let (_origin, server) = publishing(60, &store.url(), |setup| hand.on(setup)).await;
    let first = store.has(&server).await;
    hand.set(8 * 86_400);
    let next =
        store.until("another full bundle", |head| head.sequence() > first.sequence() && head.deltas().is_empty()).await;
    assert_eq!(next.snapshot(), first.snapshot());
    wait_until("it is counted", || async {
        let metrics = server.admin(http::Method::GET, "/metrics").await;
        let line = metrics
            .text()
            .lines()
            .find(|line| line.contains("publish_objects_total{kind=\"full\"}"))
            .unwrap()
            .to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap() >= 2
    })
    .await;
}
