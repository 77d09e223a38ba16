//! Which directories are opened, and which are refused and not touched.

use super::*;
use crate::store::heal::salvage;
use crate::store::placed;

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

/// Turns a store into one of format 1, where details lie by listing id.
pub(super) fn to_format_1(store: &Store) {
    let change = |transaction: &redb::WriteTransaction| {
        {
            let (metas, bodies) =
                (transaction.open_table(tables::DETAIL_META)?, transaction.open_table(tables::DETAILS)?);
            let (mut old_metas, mut old_bodies) =
                (transaction.open_table(tables::DETAIL_META_1)?, transaction.open_table(tables::DETAILS_1)?);
            for entry in metas.iter()? {
                let (place, value) = entry?;
                let (id, meta) = placed::split(value.value())?;
                old_metas.insert(id.0, meta)?;
                old_bodies.insert(id.0, bodies.get(place.value())?.unwrap().value())?;
            }
        }
        transaction.delete_table(tables::DETAIL_PLACES)?;
        transaction.delete_table(tables::DETAIL_META)?;
        transaction.delete_table(tables::DETAILS)?;
        let sealed = coding::seal_number(tables::META_FORMAT, 1);
        transaction.open_table(tables::META)?.insert(tables::META_FORMAT, sealed.as_slice())?;
        Ok(())
    };
    store.handle.write(0, change).unwrap();
}

#[test]
fn a_store_of_format_1_is_migrated_with_all_its_details() {
    let mut store = Temp::new();
    let record = store.publish(&content(1200), &meta(1)).unwrap();
    let details: Vec<_> =
        (0..30_000_u64).map(|n| (ListingId(n * 7919 % 100_003), detail(&format!("detail {n}")))).collect();
    store.put_details(&details).unwrap();
    let before = store.file_len().unwrap();
    to_format_1(&store);
    store.reopen();
    assert_eq!(store.handle.read(opening::format_of).unwrap(), FORMAT);
    for (id, detail) in &details {
        assert_eq!(store.detail(*id).unwrap().as_ref(), Some(detail));
    }
    assert_eq!(store.detail_metas().unwrap().len(), details.len());
    assert!(store.load(&record).unwrap() == content(1200));
    // Nothing of format 1 is left, and what is written next is kept.
    let old = store.handle.read(|transaction| Ok(transaction.open_table(tables::DETAILS_1).is_ok())).unwrap();
    assert!(!old);
    let after = store.file_len().unwrap();
    assert!(after < before * 3 / 2, "the room of both formats: {before} {after}");
    store.put_details(&[(ListingId(1 << 40), detail("new"))]).unwrap();
    store.reopen();
    assert_eq!(store.detail(ListingId(1 << 40)).unwrap(), Some(detail("new")));
}

#[test]
fn a_damaged_store_of_format_1_gives_what_can_be_read_of_it() {
    let mut store = Temp::new();
    let details: Vec<_> =
        (0..300).map(|n| (ListingId(n), detail(&format!("needle {n:04} {}", "x".repeat(400))))).collect();
    store.put_details(&details).unwrap();
    to_format_1(&store);
    // Which format it is cannot be read any more either.
    let change = |transaction: &redb::WriteTransaction| {
        transaction.open_table(tables::META)?.insert(tables::META_FORMAT, b"no number".as_slice())?;
        Ok(())
    };
    store.handle.write(0, change).unwrap();
    heal::flip(&mut store, b"needle 0017");
    let dir = DataDir::open(store.dir.path()).unwrap();
    assert!(matches!(Store::open(&dir), Err(OpenError::Damaged { .. })));
    let healed = salvage(&dir).unwrap();
    assert!((280..300).contains(&healed.details), "{healed:?}");
    let store = Store::open(&dir).unwrap();
    assert_eq!(store.detail(ListingId(17)).unwrap(), None);
    assert_eq!(store.detail(ListingId(200)).unwrap().as_ref(), Some(&details[200].1));
}
