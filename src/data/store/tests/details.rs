//! Details: where they lie, and what is read of many.

use super::*;
use crate::data::store::details::split;

#[test]
fn details_are_kept_and_removed() {
    let mut store = Temp::new();
    let gone = DetailRecord {
        meta: DetailMeta { state: DetailState::Gone, etag: None, ..detail("").meta },
        body: Bytes::new(),
    };
    let (short, long) = (detail("short"), detail(&"long ".repeat(1000)));
    let ids = [ListingId(u64::MAX), ListingId(0), ListingId(7)];
    store.put_details(&[(ids[0], short.clone()), (ids[1], long.clone()), (ids[2], gone.clone())]).unwrap();
    store.reopen();
    assert_eq!(store.detail(ids[0]).unwrap(), Some(short.clone()));
    assert_eq!(store.detail(ids[1]).unwrap(), Some(long.clone()));
    assert_eq!(store.detail(ListingId(1)).unwrap(), None);
    assert_eq!(store.detail_metas().unwrap(), [(ids[1], long.meta.clone()), (ids[2], gone.meta), (ids[0], short.meta)]);
    store.remove_details(&[ids[0], ListingId(5)]).unwrap();
    assert_eq!(store.detail(ids[0]).unwrap(), None);
}

/// The listings whose details have changed since a place.
fn since(store: &Store, place: Option<positions::ChangePosition>) -> Vec<u64> {
    store.details_since(place).unwrap().unwrap().into_iter().map(|id| id.0).collect()
}

#[test]
fn what_has_changed_since_a_place_lies_behind_it_and_confirmations_stay() {
    let mut store = Temp::new();
    let put = |store: &Store, id: u64, hash: &str, state: DetailState| {
        let mut record = detail("x");
        record.meta = DetailMeta { state, hash: ContentHash::of(hash.as_bytes()), ..record.meta };
        store.put_details(&[(ListingId(id), record)]).unwrap();
    };
    for id in [3, 1, 2] {
        put(&store, id, "old", DetailState::Present);
    }
    let place = store.epoch_place().unwrap();
    assert_eq!((since(&store, None), since(&store, place)), (vec![3, 1, 2], vec![]));
    put(&store, 1, "old", DetailState::Present);
    assert_eq!(
        (since(&store, None), store.epoch_place().unwrap()),
        (vec![3, 1, 2], place),
        "a confirmation is no change"
    );
    put(&store, 3, "new", DetailState::Present);
    put(&store, 4, "old", DetailState::Present);
    put(&store, 1, "old", DetailState::Gone);
    put(&store, 3, "newer", DetailState::Present);
    store.reopen();
    assert_eq!((since(&store, None), since(&store, place)), (vec![2, 4, 1, 3], vec![4, 1, 3]));
    let place = store.epoch_place().unwrap();
    put(&store, 1, "another", DetailState::Gone);
    assert!(since(&store, place).is_empty(), "there still is none");
}

#[test]
fn no_place_is_used_twice() {
    let mut store = Temp::new();
    let put = |store: &Store, id: u64| store.put_details(&[(ListingId(id), detail("x"))]).unwrap();
    (1..=3).for_each(|id| put(&store, id));
    for _ in 0..2 {
        store.remove_details(&[ListingId(2), ListingId(3)]).unwrap();
        let place = store.epoch_place().unwrap();
        store.reopen();
        assert_eq!(store.epoch_place().unwrap(), place);
        put(&store, 3);
        put(&store, 2);
        assert_eq!(since(&store, place), [3, 2]);
    }
    assert_eq!(placed(&store), [(0, 1), (5, 3), (6, 2)]);
}

#[test]
fn a_mark_is_written_with_what_it_marks_and_stays_until_a_repair() {
    let mut store = Temp::new();
    let snapshot = content(3).id();
    let mark = |store: &Store, at| {
        let mut states = States::default();
        states.mark("m", at, snapshot.clone());
        store.put_states(&states).unwrap();
        store.mark("m").unwrap().unwrap().place.unwrap().place
    };
    let put = |store: &Store, id: u64| store.put_details(&[(ListingId(id), detail("x"))]).unwrap();
    assert_eq!(store.epoch_place().unwrap(), None);
    put(&store, 1);
    let (begin, end) = (MarkAt::Place(None), MarkAt::End);
    assert_eq!((mark(&store, end), store.marks().unwrap().len()), (1, 1));
    put(&store, 2);
    assert_eq!((mark(&store, end), mark(&store, begin), mark(&store, end)), (1, 0, 0));
    // With a snapshot, the details that come along are before it.
    let (mut states, details) = (States::default(), [(ListingId(7), detail("x")), (ListingId(8), detail("y"))]);
    states.mark("along", end, snapshot.clone());
    let stream =
        || -> Result<DetailStream<'_>, StoreError> { Ok(Box::new(details.iter().cloned().map(Ok::<_, StoreError>))) };
    let arriving = Arriving { stream: &stream, stays: &|_, _, _| false };
    let along = WrittenAlong { details: Some(&arriving), states, ..WrittenAlong::default() };
    store.keep(&content(3), &meta(1), &along).unwrap();
    let remembered = store.epoch_place().unwrap().unwrap();
    assert_eq!(
        store.mark("along").unwrap(),
        Some(positions::Mark { place: Some(remembered), snapshot: snapshot.clone() })
    );
    assert!(store.knows_place(remembered).unwrap() && remembered.place == 4);
    store.heal(None).unwrap();
    assert_eq!((store.marks().unwrap(), since(&store, store.epoch_place().unwrap())), (vec![], vec![]));
    put(&store, 3);
    assert!(!store.knows_place(remembered).unwrap() && since(&store, None).len() == 5, "the places are others");
    assert_eq!(store.details_since(Some(remembered)).unwrap(), None);
    let mut states = States::default();
    states.mark("along", MarkAt::Place(Some(remembered)), snapshot.clone());
    store.put_states(&states).unwrap();
    assert_eq!(store.mark("along").unwrap(), None, "nothing is marked by a place before the repair");
    store.reopen();
    put(&store, 4);
    assert!(store.knows_place(store.epoch_place().unwrap().unwrap()).unwrap());
}

#[test]
fn places_that_are_remembered_elsewhere_are_known_until_an_older_file_takes_another_way() {
    let mut store = Temp::new();
    let put = |store: &Store, ids: std::ops::Range<u64>| {
        store.put_details(&ids.map(|id| (ListingId(id), detail("x"))).collect::<Vec<_>>()).unwrap();
    };
    let here = |store: &Store| store.epoch_place().unwrap().unwrap();
    let known = |store: &Store, places: &[positions::ChangePosition]| -> Vec<bool> {
        places.iter().map(|place| store.knows_place(*place).unwrap()).collect()
    };
    put(&store, 0..10);
    let mut remembered = vec![here(&store)];
    store.reopen();
    assert_eq!(here(&store), remembered[0], "nothing was written");
    put(&store, 10..20);
    remembered.push(here(&store));
    let (path, copy) = (store.path().to_owned(), store.dir.path().join("copy"));
    drop(store.store.take());
    std::fs::copy(&path, &copy).unwrap();
    store.store = Some(open(store.dir.path()).unwrap());
    remembered.push(here(&store));
    put(&store, 20..30);
    remembered.push(here(&store));
    assert_eq!(known(&store, &remembered), [true; 4]);
    drop(store.store.take());
    std::fs::copy(&copy, &path).unwrap();
    store.store = Some(open(store.dir.path()).unwrap());
    assert_eq!(known(&store, &remembered), [true, true, true, false]);
    put(&store, 40..60);
    assert_eq!(known(&store, &remembered), [true, true, true, false]);
    let late = positions::ChangePosition { place: 25, ..remembered[0] };
    assert_eq!(known(&store, &[late, positions::ChangePosition { place: 25, ..remembered[1] }]), [false; 2]);
    for n in 0..70 {
        store.reopen();
        put(&store, 100 + n..101 + n);
    }
    assert_eq!(known(&store, &[remembered[0], here(&store)]), [false, true], "only the last epochs are kept");
}

/// The listings in the order in which their details lie in the file.
fn placed(store: &Store) -> Vec<(u64, u64)> {
    let read = store.handle.read(|transaction| {
        let table = transaction.open_table(database::DETAIL_META)?;
        let entry = |entry: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, database::Sealed>), _>| {
            let (place, value) = entry?;
            Ok((place.value(), split(value.value())?.0.0))
        };
        table.iter()?.map(entry).collect()
    });
    read.unwrap()
}

#[test]
fn details_lie_in_the_order_of_their_last_change() {
    let store = Temp::new();
    let put = |ids: &[u64], text: &str| {
        store.put_details(&ids.iter().map(|id| (ListingId(*id), detail(text))).collect::<Vec<_>>()).unwrap();
    };
    put(&[9, 2], "first");
    put(&[5], "first");
    put(&[2, 7], "second");
    assert_eq!(placed(&store), [(0, 9), (2, 5), (3, 2), (4, 7)]);
    store.remove_details(&[ListingId(2), ListingId(7)]).unwrap();
    put(&[2], "third");
    assert_eq!(placed(&store), [(0, 9), (2, 5), (5, 2)]);
    assert_eq!(store.detail(ListingId(2)).unwrap(), Some(detail("third")));
    assert_eq!(store.detail(ListingId(5)).unwrap(), Some(detail("first")));
    assert_eq!(store.detail(ListingId(7)).unwrap(), None);
    let ids: Vec<u64> = store.detail_metas().unwrap().into_iter().map(|(id, _)| id.0).collect();
    assert_eq!(ids, [2, 5, 9], "by id");
}

#[test]
fn many_and_large_details_are_read_in_turn() {
    let store = Temp::new();
    let text = |id: u64| if id.is_multiple_of(1000) { "large ".repeat(1 << 19) } else { id.to_string() };
    let mut ids: Vec<u64> = (0..10_000).collect();
    for some in ids.chunks(1000) {
        let details: Vec<_> = some.iter().map(|id| (ListingId(*id), detail(&text(*id)))).collect();
        store.put_details(&details).unwrap();
    }
    // Backwards, and one that is not there.
    ids.reverse();
    ids.insert(5000, 1 << 40);
    let ids: Vec<ListingId> = ids.into_iter().map(ListingId).collect();
    let mut count = 0;
    for (id, record) in store.details_in_turn(&ids) {
        let expected = (id.0 < 10_000).then(|| Bytes::from(text(id.0)));
        let record = record.unwrap().map(|record| record.body);
        assert!(id == ids[count] && record == expected, "{id}");
        count += 1;
    }
    assert_eq!(count, ids.len());
}

#[test]
fn details_of_listings_that_no_kept_snapshot_has_are_forgotten() {
    let store = Temp::new();
    let ids = |ids: &[u64]| ids.iter().map(|id| ListingId(*id)).collect::<Vec<_>>();
    let listed = |listed: &[u64]| content_of(listed.iter().map(|id| summary(*id, "x")).collect());
    let kept = |store: &Store| store.detail_metas().unwrap().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    store.put_details(&ids(&[1, 2, 3, 9]).into_iter().map(|id| (id, detail("d"))).collect::<Vec<_>>()).unwrap();
    assert!(store.forget_vanished().unwrap().is_empty(), "without a snapshot nothing is known to have vanished");
    store.publish(&listed(&[1, 2, 3]), &meta(1)).unwrap();
    store.publish(&listed(&[1, 3, 4]), &meta(2)).unwrap();
    assert_eq!(store.forget_vanished().unwrap(), ids(&[9]));
    assert_eq!(kept(&store), ids(&[1, 2, 3]), "a kept snapshot still has 2");
    store.collect_garbage(&[]).unwrap();
    assert_eq!(store.forget_vanished().unwrap(), ids(&[2]));
    assert_eq!((kept(&store), store.detail(ListingId(2)).unwrap()), (ids(&[1, 3]), None));
    let many: Vec<_> = (100..1300).map(|id| (ListingId(id), detail("d"))).collect();
    store.put_details(&many).unwrap();
    assert_eq!(store.forget_vanished().unwrap().len(), 1200);
    assert_eq!(kept(&store), ids(&[1, 3]));
}
