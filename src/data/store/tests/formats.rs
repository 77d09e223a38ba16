//! Formats: which directories are opened, and which are refused and not touched.

use super::*;

/// Gives a store another format number and opens it: the refusal, after which every byte is as it was.
fn refused(format: u64, unclean: bool) -> StoreError {
    let mut store = Temp::new();
    store.publish(&content(100), &meta(1)).unwrap();
    store.handle.write(0, |transaction| record::set_number(transaction, database::META_FORMAT, format)).unwrap();
    let path = store.path().to_owned();
    let running = std::fs::read(&path).unwrap();
    drop(store.store.take());
    if unclean {
        std::fs::write(&path, running).unwrap();
    }
    let before = std::fs::read(&path).unwrap();
    let refused = open(store.dir.path()).unwrap_err();
    assert!(std::fs::read(&path).unwrap() == before, "unclean: {unclean}");
    refused
}

#[test]
fn an_older_format_is_refused_with_the_way_to_carry_it_over_and_not_touched() {
    for (format, unclean) in [(0, false), (1, false), (1, true)] {
        let refused = refused(format, unclean);
        let says = format!("the store has format {format}, and this program opens only format {FORMAT}. ");
        assert!(matches!(&refused, StoreError::Refused(why) if why.starts_with(&says)), "{refused}");
        let told = refused.to_string();
        assert!(told.contains("`grandstand bundle export FILE`") && told.contains("`grandstand bundle import FILE`"));
    }
}

#[test]
fn a_newer_format_is_refused_and_not_touched() {
    for unclean in [false, true] {
        let refused = refused(FORMAT + 1, unclean);
        assert!(
            matches!(&refused, StoreError::Refused(why) if why.starts_with(&format!("the store has format {}, but", FORMAT + 1))),
            "{refused}"
        );
    }
}

#[test]
fn the_directory_stays_locked_while_the_store_is_open() {
    let store = Temp::new();
    let refused = DataDir::open(store.dir.path()).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(refused, StoreError::Held { pid: Some(p), .. } if p == pid), "{refused}");
}
