//! Which directories are opened, and which are refused and not touched.

use super::*;

#[test]
fn an_older_format_that_cannot_be_migrated_is_refused_and_not_touched() {
    let mut store = Temp::new();
    let sealed = coding::seal_number(tables::META_FORMAT, 0);
    let change = |transaction: &redb::WriteTransaction| {
        transaction.open_table(tables::META)?.insert(tables::META_FORMAT, sealed.as_slice())?;
        Ok(())
    };
    store.handle.write(0, change).unwrap();
    let path = store.path().to_owned();
    drop(store.store.take());
    let before = std::fs::read(&path).unwrap();
    let refused = open(store.dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::OlderFormat { found: 0, supported: FORMAT }), "{refused}");
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_newer_format_is_refused_and_not_touched() {
    for unclean in [false, true] {
        let mut store = Temp::new();
        let sealed = coding::seal_number(tables::META_FORMAT, FORMAT + 1);
        let change = |transaction: &redb::WriteTransaction| {
            transaction.open_table(tables::META)?.insert(tables::META_FORMAT, sealed.as_slice())?;
            Ok(())
        };
        store.handle.write(0, change).unwrap();
        let path = store.path().to_owned();
        let running = std::fs::read(&path).unwrap();
        drop(store.store.take());
        if unclean {
            std::fs::write(&path, running).unwrap();
        }
        let before = std::fs::read(&path).unwrap();
        let refused = open(store.dir.path()).unwrap_err();
        assert!(
            matches!(refused, OpenError::NewerFormat { found, supported: FORMAT } if found == FORMAT + 1),
            "{refused}"
        );
        assert!(std::fs::read(&path).unwrap() == before, "unclean: {unclean}");
    }
}

#[test]
fn the_directory_stays_locked_while_the_store_is_open() {
    let store = Temp::new();
    let refused = DataDir::open(store.dir.path()).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(refused, OpenError::Held { pid: Some(p), .. } if p == pid), "{refused}");
}
