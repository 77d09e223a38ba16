//! Details: where they lie, and what is read of many.

use super::*;
use crate::store::details::split;

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

#[test]
fn a_detail_is_unsent_from_its_change_until_it_was_sent_as_it_is() {
    let mut store = Temp::new();
    let with = |hash: u128| {
        let mut record = detail("x");
        record.meta.hash = ContentHash::from_bytes(hash.to_le_bytes());
        record
    };
    let put = |store: &Store, id: u64, record: &DetailRecord| {
        store.put_details(&[(ListingId(id), record.clone())]).unwrap();
    };
    let unsent = |store: &Store| Some(store.unsent_details().unwrap()?.into_iter().map(|id| id.0).collect::<Vec<_>>());
    let send = |store: &Store, sent: &[(u64, u128)]| {
        let sent: Vec<_> = sent
            .iter()
            .map(|(id, hash)| ExportedDetail { id: ListingId(*id), hash: ContentHash::from_bytes(hash.to_le_bytes()) })
            .collect();
        store.put_states_and_sent(&States::default(), &sent).unwrap();
    };
    put(&store, 3, &with(1));
    assert_eq!(unsent(&store), None, "nobody follows them");
    store.follow_details().unwrap();
    assert_eq!(unsent(&store), Some(vec![]));
    put(&store, 3, &with(2));
    put(&store, 1, &with(1));
    let mut confirmed = with(1);
    confirmed.meta.origin_time_ms += 9;
    put(&store, 2, &with(1));
    send(&store, &[(2, 1)]);
    put(&store, 2, &confirmed);
    store.follow_details().unwrap();
    assert_eq!(unsent(&store), Some(vec![1, 3]), "a confirmation is no change");
    put(&store, 3, &with(4));
    send(&store, &[(1, 1), (2, 1), (3, 2)]);
    store.reopen();
    assert_eq!(unsent(&store), Some(vec![3]), "it has changed again");
    let mut gone = with(4);
    gone.meta.state = DetailState::Gone;
    put(&store, 1, &gone);
    assert_eq!(unsent(&store), Some(vec![1, 3]));
    send(&store, &[(1, 0), (3, 4)]);
    assert_eq!(unsent(&store), Some(vec![]));
    put(&store, 1, &with(7));
    store.remove_details(&[ListingId(1)]).unwrap();
    assert_eq!(unsent(&store), Some(vec![]));
    store.heal(None).unwrap();
    assert_eq!(unsent(&store), None, "details may be lost");
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
fn details_lie_in_the_order_of_their_first_arrival() {
    let store = Temp::new();
    let put = |ids: &[u64], text: &str| {
        store.put_details(&ids.iter().map(|id| (ListingId(*id), detail(text))).collect::<Vec<_>>()).unwrap();
    };
    put(&[9, 2], "first");
    put(&[5], "first");
    put(&[2, 7], "second");
    assert_eq!(placed(&store), [(0, 9), (1, 2), (2, 5), (3, 7)]);
    store.remove_details(&[ListingId(2), ListingId(7)]).unwrap();
    put(&[2], "third");
    assert_eq!(placed(&store), [(0, 9), (2, 5), (3, 2)]);
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
    for ((id, body), (asked, record)) in store.bodies_in_turn(&ids).zip(store.details_in_turn(&ids)) {
        let expected = (id.0 < 10_000).then(|| Bytes::from(text(id.0)));
        let record = record.unwrap().map(|record| record.body);
        assert!(id == ids[count] && asked == id && body.unwrap() == expected && record == expected, "{id}");
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
