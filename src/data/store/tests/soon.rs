//! Deferred writes: seen at once, and durable once they are synced.

use std::sync::mpsc;
use std::time::Duration;

use super::*;

#[test]
fn a_copy_that_is_kept_soon_is_seen_at_once_and_survives_a_crash_once_it_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    store.put_copy_soon("/a", &copy(1), Some(b"body")).unwrap();
    assert_eq!(store.copy_body("/a").unwrap().unwrap(), "body");
    // What a crash now leaves is the file as it is.
    let after_crash = || {
        let crashed = tempfile::tempdir().unwrap();
        std::fs::copy(store.path(), crashed.path().join(store.path().file_name().unwrap())).unwrap();
        open(crashed.path()).unwrap().copy_body("/a").unwrap()
    };
    assert_eq!(after_crash(), None);
    store.sync().unwrap();
    assert_eq!(after_crash().unwrap(), "body");
    store.put_copy_soon("/a", &copy(2), Some(b"other")).unwrap();
    store.put_state("anything", b"durable").unwrap();
    assert_eq!(after_crash().unwrap(), "other", "any other write makes it durable");
}

#[test]
fn a_sync_ends_only_when_what_was_written_soon_is_durable_though_another_write_is_about_to_make_it_so() {
    let store = Temp::new();
    store.put_copy_soon("/a", &copy(1), Some(b"body")).unwrap();
    let (ended, end) = mpsc::channel();
    std::thread::scope(|scope| {
        let written = store.handle.write(0, |_| {
            let (store, ended) = (&*store, ended.clone());
            scope.spawn(move || ended.send(store.sync()).unwrap());
            // Nothing is durable before this returns.
            assert!(end.recv_timeout(Duration::from_millis(200)).is_err());
            Ok(())
        });
        written.unwrap();
        end.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
    });
}
