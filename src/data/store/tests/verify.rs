//! Findings of a check.

use super::*;

#[test]
fn a_damaged_detail_is_told_of_every_snapshot_with_its_listing() {
    let store = Temp::new();
    let publish =
        |ids: [u64; 2], at| store.publish(&content_of(ids.map(|id| summary(id, "x")).to_vec()), &meta(at)).unwrap().seq;
    let (older, newer) = (publish([1, 2], 1), publish([3, 2], 2));
    store.put_details(&[1, 2, 3].map(|id| (ListingId(id), detail("d")))).unwrap();
    let told = || {
        let mut verification = Verification::of(&store);
        [newer, older].map(|seq| verification.check(seq).map_err(|error| error.to_string()).err().unwrap_or_default())
    };
    let damage = |id: u64| {
        let write = |transaction: &WriteTransaction| {
            let place = transaction.open_table(database::DETAIL_PLACES)?.get(id)?.unwrap().value();
            transaction.open_table(database::DETAILS)?.insert(place, b"other".as_slice())?;
            Ok(())
        };
        store.handle.write(0, write).unwrap();
    };
    assert_eq!(told(), ["", ""]);
    damage(1);
    let [of_newer, of_older] = told();
    assert!(of_newer.is_empty() && of_older.contains("1 damaged detail, the first of listing 1"), "{of_older}");
    damage(2);
    let [of_newer, of_older] = told();
    assert!(of_newer.contains("1 damaged detail, the first of listing 2"), "{of_newer}");
    assert!(of_older.contains("2 damaged details, the first of listing 1"), "{of_older}");
    let ids = [3, 2, 7, 1].map(ListingId);
    let read: Vec<_> = store.details_in_turn(&ids).map(|(id, read)| (id.0, read.ok())).collect();
    assert_eq!(read, [(3, Some(Some(detail("d")))), (2, None), (7, Some(None)), (1, None)]);
}

#[test]
fn a_snapshot_is_damaged_if_a_block_of_its_own_is() {
    let store = Temp::new();
    let mut other = content(3000);
    other.summaries[1500] = summary(other.summaries[1500].id.0, "changed");
    let [older, newer] = [(content(3000), 1), (other, 2)].map(|(of, at)| store.publish(&of, &meta(at)).unwrap());
    let shared: HashSet<_> = newer.block_keys().collect();
    let own = older.block_keys().find(|key| !shared.contains(key)).unwrap();
    let write = |transaction: &WriteTransaction| {
        transaction.open_table(database::BLOCKS)?.insert(own.as_bytes(), b"other".as_slice())?;
        Ok(())
    };
    store.handle.write(0, write).unwrap();
    for order in [[&newer, &older], [&older, &newer]] {
        let mut verification = Verification::of(&store);
        for record in order {
            let checked = verification.check(record.seq);
            assert_eq!(checked.is_ok(), record.seq == newer.seq, "{checked:?}");
            assert!(matches!(checked, Ok(()) | Err(StoreError::Damaged(_))), "{checked:?}");
        }
    }
}
