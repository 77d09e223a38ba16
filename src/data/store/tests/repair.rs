//! Repair: what is damaged is lost, and nothing else; what is served is written again.

use super::*;
use crate::data::store::files::aside_of;
use crate::data::store::repair::salvage;

/// Flips a bit in every place of the store's file that holds the start of `needle`, or a later piece of it where a page
/// ends within that. The store is closed.
fn flip(store: &mut Temp, needle: &[u8]) {
    let path = store.path().to_owned();
    drop(store.store.take());
    let mut file = std::fs::read(&path).unwrap();
    let places = |piece: &[u8]| {
        let all = file.windows(piece.len()).enumerate();
        all.filter(|(_, bytes)| *bytes == piece).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let places = needle.chunks(48).map(places).find(|places| !places.is_empty()).unwrap_or_default();
    assert!(!places.is_empty());
    for at in places {
        file[at] ^= 1;
    }
    std::fs::write(&path, file).unwrap();
}

/// Does so and opens it again.
fn damage(store: &mut Temp, needle: &[u8]) {
    flip(store, needle);
    store.store = Some(open(store.dir.path()).unwrap());
}

/// The compressed bytes of a block that `record` has and `not_in` has not.
fn block_of(store: &Store, record: &SnapshotRecord, not_in: &[&SnapshotRecord]) -> Vec<u8> {
    let others: HashSet<_> = not_in.iter().flat_map(|record| record.block_keys()).collect();
    let own = |key: &BlockKey| !others.contains(key);
    let packed = |key: BlockKey| {
        let read =
            store.handle.read(|t| Ok(t.open_table(database::BLOCKS)?.get(key.as_bytes())?.map(|v| v.value().to_vec())));
        read.unwrap().unwrap()
    };
    record.block_keys().filter(own).map(packed).max_by_key(Vec::len).unwrap()
}

fn fill(store: &Store) -> (Content, SnapshotRecord) {
    let content = content(1200);
    let record = store.publish(&content, &meta(1)).unwrap();
    let details: Vec<_> =
        (0..300).map(|n| (ListingId(n), detail(&format!("needle {n:04} {}", "x".repeat(400))))).collect();
    store.put_details(&details).unwrap();
    store
        .put_copies(&[("/a".into(), copy(1), Some(b"body of a")), ("/b".into(), copy(2), Some(b"body of b"))])
        .unwrap();
    store.put_state("s", b"state").unwrap();
    (content, record)
}

#[test]
fn a_damaged_detail_costs_its_page_and_nothing_else() {
    let mut store = Temp::new();
    let (content, record) = fill(&store);
    damage(&mut store, b"needle 0017");
    assert!(matches!(store.detail(ListingId(17)), Err(StoreError::Damaged(_))));
    assert!(store.findings()[0].text.contains(&store.path().display().to_string()));
    assert!(store.put_details(&[(ListingId(17), detail("new"))]).is_err(), "a damaged page takes nothing");

    let healed = store.heal(None).unwrap();
    assert_eq!((store.damage(), store.findings()), (None, vec![]));
    assert_eq!(healed.snapshots, 1);
    assert!((280..300).contains(&healed.details), "{healed:?}");
    assert!(healed.aside.unwrap().exists() && !store.path().with_extension("new").exists());
    assert_eq!(store.detail(ListingId(17)).unwrap(), None);
    assert_eq!(store.detail_metas().unwrap().len(), healed.details);
    assert_eq!(
        store.detail(ListingId(200)).unwrap().unwrap().meta,
        detail(&format!("needle 0200 {}", "x".repeat(400))).meta
    );
    assert_eq!(store.current().unwrap().unwrap().0, record);
    assert!(store.load(&record).unwrap() == content);
    assert_eq!(store.copy("/b").unwrap().unwrap().1, "body of b");
    assert_eq!(store.state("s").unwrap().unwrap(), b"state");
    store.put_details(&[(ListingId(17), detail("new"))]).unwrap();
    store.reopen();
    assert_eq!(store.detail(ListingId(17)).unwrap().unwrap().body, "new");
}

#[test]
fn a_damaged_current_snapshot_gives_way_to_an_older_one_that_is_whole() {
    let mut store = Temp::new();
    // Small blocks share pages of the file; large ones have pages of their own.
    let first = content(3);
    let older = store.publish(&first, &meta(1)).unwrap();
    let second = content(5000);
    let newer = store.publish(&second, &meta(2)).unwrap();
    let packed = block_of(&store, &newer, &[&older]);
    damage(&mut store, &packed);
    assert!(matches!(store.load(&newer), Err(StoreError::Damaged(_))));
    assert_eq!(store.heal(None).unwrap().snapshots, 1);
    let (current, _) = store.current().unwrap().unwrap();
    assert_eq!(current, older);
    assert!(store.load(&older).unwrap() == first);
    assert!(store.publish(&second, &meta(3)).unwrap().seq > newer.seq, "a number is never used twice");
}

#[test]
fn what_is_served_is_written_anew_where_its_snapshot_is_lost() {
    let mut store = Temp::new();
    let (content, record) = fill(&store);
    let packed = block_of(&store, &record, &[]);
    damage(&mut store, &packed);
    assert!(store.load(&record).is_err());
    assert_eq!(store.heal(Some((record.seq, &content, &meta(5)))).unwrap().snapshots, 1);
    store.reopen();
    let (current, current_meta) = store.current().unwrap().unwrap();
    assert_eq!((current.seq, current_meta.published_ms), (record.seq, 5));
    assert!(store.load(&current).unwrap() == content);
    store.update_meta(record.seq, &meta(6), &States::default()).unwrap();
    let next = store.publish(&super::content(10), &meta(7)).unwrap();
    assert!(next.seq > record.seq);
}

#[test]
fn a_damaged_copy_or_state_counts_as_never_kept() {
    let mut store = Temp::new();
    store.put_copies(&[("/a".into(), copy(1), Some(b"body of a that nobody else has"))]).unwrap();
    store.put_state("s", b"a state that nobody else has").unwrap();
    damage(&mut store, b"body of a that nobody else has");
    damage(&mut store, b"a state that nobody else has");
    assert_eq!((store.copy("/a").unwrap(), store.state("s").unwrap()), (None, None));
    assert!(store.damage().is_some());
}

#[test]
fn a_file_that_is_no_store_is_replaced_by_what_is_served() {
    let store = Temp::new();
    let (content, record) = fill(&store);
    for garbage in [vec![], vec![0x5a; 70_000]] {
        std::fs::write(store.path(), garbage).unwrap();
        store.heal(Some((record.seq, &content, &meta(1)))).unwrap();
        let (current, _) = store.current().unwrap().unwrap();
        assert!(store.load(&current).unwrap() == content);
    }
    let names =
        std::fs::read_dir(store.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<HashSet<_>>();
    assert_eq!(names.len(), 3, "only one damaged file is kept: {names:?}");
}

#[test]
fn the_first_damaged_file_of_a_run_is_the_one_that_is_kept() {
    let store = Temp::new();
    let (content, record) = fill(&store);
    let aside = aside_of(store.path());
    std::fs::write(&aside, "of an earlier process").unwrap();
    for garbage in [[1; 5000], [2; 5000]] {
        std::fs::write(store.path(), garbage).unwrap();
        let healed = store.heal(Some((record.seq, &content, &meta(1)))).unwrap();
        assert_eq!(healed.aside.is_some(), garbage[0] == 1);
    }
    assert_eq!(std::fs::read(aside).unwrap()[4999], 1);
}

#[test]
fn a_heal_that_fails_leaves_the_damaged_file_and_the_one_set_aside_as_they_are() {
    let mut store = Temp::new();
    fill(&store);
    damage(&mut store, b"needle 0017");
    assert!(store.detail(ListingId(17)).is_err());
    // The second name cannot be taken away from a directory that is not empty.
    std::fs::create_dir_all(aside_of(store.path()).join("x")).unwrap();
    assert!(store.heal(None).is_err());
    assert!(store.path().is_file() && store.damage().is_some());
    assert!(store.detail(ListingId(200)).unwrap().is_some());
    let names = std::fs::read_dir(store.dir.path()).unwrap().count();
    assert_eq!(names, 3, "nothing half made is left");
}

#[test]
fn readers_go_on_while_a_file_is_repaired_or_compacted_and_writers_wait() {
    for repairs in [true, false] {
        let store = Temp::new();
        fill(&store);
        let (started, copying) = std::sync::mpsc::channel();
        let (go_on, told) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let store = &store;
            let replacing = scope.spawn(move || {
                let make = |fresh: &Path| {
                    let before = std::fs::read(store.path()).unwrap();
                    started.send(()).unwrap();
                    told.recv().unwrap();
                    assert!(std::fs::read(store.path()).unwrap() == before, "the file changed under the copy");
                    std::fs::write(fresh, before).unwrap();
                    Ok(())
                };
                let place = |()| {
                    files::put_in_place(store.path()).unwrap();
                    Ok(())
                };
                store.handle.replace(repairs, make, place).unwrap();
                let full = |_: &Path| Err::<(), _>(StoreError::NoSpace { path: "x".into(), needed: 1 });
                assert!(store.handle.replace(repairs, full, Ok).is_err());
            });
            copying.recv().unwrap();
            let writing = scope.spawn(|| store.put_state("t", b"new").unwrap());
            for id in 0..50 {
                assert!(store.detail(ListingId(id)).unwrap().is_some());
            }
            assert!(!writing.is_finished());
            go_on.send(()).unwrap();
            replacing.join().unwrap();
            writing.join().unwrap();
        });
        assert_eq!(store.state("t").unwrap().unwrap(), b"new");
    }
}

#[test]
fn a_store_that_cannot_be_opened_gives_what_can_be_read_of_it() {
    let mut store = Temp::new();
    let (content, record) = fill(&store);
    let change = |transaction: &redb::WriteTransaction| {
        transaction.open_table(database::META)?.insert(database::META_FORMAT, b"no number".as_slice())?;
        Ok(())
    };
    store.handle.write(0, change).unwrap();
    drop(store.store.take());
    let dir = DataDir::open(store.dir.path()).unwrap();
    assert!(matches!(Store::open(&dir), Err(StoreError::Damaged(_))));
    let healed = salvage(&dir).unwrap();
    assert_eq!((healed.snapshots, healed.details), (1, 300));
    assert!(healed.aside.unwrap().is_file());
    let store = Store::open(&dir).unwrap();
    assert!(store.load(&record).unwrap() == content);
}
