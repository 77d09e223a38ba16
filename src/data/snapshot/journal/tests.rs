//! The journal against a model, and the cases that have a name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::codec::BadJournal;
use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::Summary;
use crate::api::page::Envelope;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;

/// Listings with what they say, in the origin's order.
fn dataset(listings: &[(u64, u8)]) -> Dataset {
    let summary = |(id, value): &(u64, u8)| {
        let raw = format!(r#"{{"id":{id},"v":{value}}}"#);
        Summary { id: ListingId(*id), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
    };
    let envelope = Envelope::default();
    let taxonomies = std::array::from_fn(|_| Arc::from("[]"));
    let content = Content { envelope, taxonomies, summaries: listings.iter().map(summary).collect() };
    Dataset::build(content, &Evidence::new()).unwrap()
}

/// A snapshot's id that is easy to tell.
fn named(number: u32) -> SnapshotId {
    serde_json::from_str(&format!("\"{number:032x}\"")).unwrap()
}

fn ids(ids: &[u64]) -> Vec<ListingId> {
    ids.iter().copied().map(ListingId).collect()
}

fn entry(from: u32, to: u32, added: &[u64], changed: &[u64], removed: &[u64]) -> Entry {
    let [added, changed, removed] = [added, changed, removed].map(ids);
    Entry { from: named(from), to: named(to), at_ms: i64::from(to) * 1000, added, changed, removed }
}

fn encode(entry: &Entry) -> Vec<u8> {
    codec::encode([entry].into_iter())
}

fn since(journal: &Journal, id: u32, current: u32) -> Option<Changes> {
    journal.since(named(id).as_str(), named(current).as_str())
}

fn changes(added: &[u64], changed: &[u64], removed: &[u64]) -> Changes {
    let [added, changed, removed] = [added, changed, removed].map(ids);
    Changes { added, changed, removed }
}

#[test]
fn an_entry_tells_what_came_changed_and_went_and_not_what_moved() {
    let from = dataset(&[(9, 0), (4, 0), (7, 0), (1, 0)]);
    let to = dataset(&[(8, 0), (1, 0), (4, 1), (2, 0), (9, 0)]);
    let entry = Entry::between(&from.content, &to.content, 5);
    assert_eq!((entry.from, entry.to, entry.at_ms), (from.id.clone(), to.id.clone(), 5));
    assert_eq!((entry.added, entry.changed, entry.removed), (ids(&[2, 8]), ids(&[4]), ids(&[7])));
    let moved = Entry::between(&from.content, &dataset(&[(1, 0), (9, 0), (7, 0), (4, 0)]).content, 6);
    assert_ne!(moved.from, moved.to);
    assert_eq!(moved.weight(), OVERHEAD);
}

#[test]
fn what_comes_and_goes_is_nothing_and_what_goes_and_comes_has_changed() {
    let journal = Journal::new([
        entry(0, 1, &[1, 2], &[5, 6], &[8, 9]),
        entry(1, 2, &[9, 3], &[2, 6, 7], &[1, 5]),
        entry(2, 3, &[5], &[], &[]),
    ]);
    assert_eq!(since(&journal, 0, 2), Some(changes(&[2, 3], &[6, 7, 9], &[5, 8])));
    assert_eq!(since(&journal, 0, 3), Some(changes(&[2, 3], &[5, 6, 7, 9], &[8])));
    assert_eq!(since(&journal, 1, 3), Some(changes(&[3, 9], &[2, 5, 6, 7], &[1])));
    assert_eq!(since(&journal, 3, 3), Some(Changes::default()));
    assert_eq!(since(&journal, 4, 3), None);
    assert_eq!(since(&Journal::default(), 7, 7), Some(Changes::default()), "what is served needs no journal");
    assert_eq!(since(&Journal::default(), 6, 7), None);
}

#[test]
fn of_an_id_that_was_served_twice_the_latest_time_counts() {
    let journal = Journal::new([
        entry(0, 1, &[1], &[], &[]),
        entry(1, 0, &[], &[], &[1]),
        entry(0, 2, &[2], &[], &[]),
        entry(2, 1, &[1], &[], &[2]),
    ]);
    assert_eq!(since(&journal, 0, 1), Some(changes(&[1], &[], &[])));
    assert_eq!(since(&journal, 2, 1), Some(changes(&[1], &[], &[2])));
    assert_eq!(since(&journal, 1, 1), Some(Changes::default()));
}

#[test]
fn an_entry_ahead_of_what_is_served_does_not_count_yet() {
    let journal = Journal::new([entry(0, 1, &[1], &[], &[]), entry(1, 2, &[2], &[], &[])]);
    assert_eq!(since(&journal, 0, 1), Some(changes(&[1], &[], &[])));
    assert_eq!(since(&journal, 2, 1), None);
}

#[test]
fn an_entry_that_was_lost_is_not_passed_over() {
    let journal = Journal::new([entry(0, 1, &[1], &[], &[]), entry(2, 3, &[3], &[], &[])]);
    assert_eq!(since(&journal, 2, 3), Some(changes(&[3], &[], &[])));
    assert_eq!(since(&journal, 1, 3), None);
    assert_eq!(since(&journal, 0, 3), None);
}

#[test]
fn what_is_too_old_is_forgotten() {
    let mut journal = Journal::new((0..5).map(|at| entry(at, at + 1, &[], &[], &[])));
    assert_eq!(journal.forget_before(3000), 2, "switches at 1 s and 2 s");
    assert_eq!((since(&journal, 1, 5), since(&journal, 2, 5)), (None, Some(Changes::default())));
    assert_eq!((journal.forget_before(i64::MAX), journal.weight), (3, 0));
    assert!(journal.is_empty());
}

#[test]
fn what_happened_between_two_times_of_one_snapshot_changed_nothing() {
    // 9, 10, 11, 12, back to 10, 13, back to 10.
    let journal = Journal::new([
        entry(9, 10, &[], &[1], &[]),
        entry(10, 11, &[5], &[2], &[]),
        entry(11, 12, &[], &[3], &[4]),
        entry(12, 10, &[4], &[2, 3], &[5]),
        entry(10, 13, &[], &[6], &[]),
        entry(13, 10, &[], &[6], &[]),
    ]);
    assert_eq!(since(&journal, 9, 10), Some(changes(&[], &[1], &[])));
    assert_eq!(since(&journal, 12, 10), Some(changes(&[4], &[2, 3], &[5])));
    assert_eq!(since(&journal, 13, 10), Some(changes(&[], &[6], &[])));
    assert_eq!(since(&journal, 10, 10), Some(Changes::default()));
}

#[test]
fn a_journal_holds_no_more_than_it_may() {
    let third: Vec<u64> = (0..MAX_WEIGHT as u64 / 3).collect();
    let mut journal = Journal::default();
    let forgotten: Vec<usize> = (0..4).map(|at| journal.push(entry(at, at + 1, &[], &third, &[]))).collect();
    assert_eq!((forgotten, journal.len()), (vec![0, 0, 1, 1], 2));
    assert_eq!(since(&journal, 1, 4), None);
    assert!(since(&journal, 2, 4).is_some());
    let all: Vec<u64> = (0..MAX_WEIGHT as u64).collect();
    assert_eq!(journal.push(entry(4, 5, &[], &all, &[])), 3);
    assert_eq!((journal.len(), journal.weight), (0, 0));
}

#[test]
fn a_large_entry_takes_about_a_byte_per_id_or_less() {
    let even: Vec<u64> = (0..500_000).map(|id| id * 2).collect();
    let entry = entry(0, 1, &[], &even, &[]);
    let bytes = encode(&entry);
    assert!(bytes.len() < even.len(), "{}", bytes.len());
    assert_eq!(codec::decode(&bytes), Ok(vec![entry]));
}

/// A file with this in its frame.
fn file(plain: &[u8]) -> Vec<u8> {
    let length = (plain.len() as u32).to_le_bytes();
    [b"\x89GSJ\r\n\x1a\n\x02\0", &length[..], &*zstd::bulk::compress(plain, 1).unwrap()].concat()
}

const BOTH: &[u8; 66] = b"\x2000000000000000000000000000000001\x2000000000000000000000000000000002";

#[test]
fn a_journal_of_this_format_stays_readable() {
    let plain = [&BOTH[..], b"\xd0\x07\0\0\0\0\0\0\x02\x01\x00\x05\x00\xac\x02"].concat();
    let expected = entry(1, 2, &[5, 6], &[300], &[]);
    assert_eq!(codec::decode(&file(&plain)), Ok(vec![expected.clone()]));
    assert_eq!(codec::decode(&file(&plain.repeat(2))), Ok(vec![expected; 2]));
    assert_eq!(codec::decode(&file(b"")), Ok(Vec::new()));
}

#[test]
fn what_is_no_journal_is_refused() {
    let with = |rest: &[u8]| file(&[&BOTH[..], &[0; 8], rest].concat());
    let changed = |at: usize, byte: u8| {
        let mut file = with(b"\0\0\0");
        file[at] = byte;
        file
    };
    let bomb = file(&vec![0; 33 << 20]);
    let many: Vec<u64> = (0..MAX_WEIGHT as u64).collect();
    for (bytes, error) in [
        (vec![], BadJournal::Malformed),
        (changed(0, 0x88), BadJournal::Malformed),
        (changed(8, 1), BadJournal::Format(1)),
        (changed(13, 0xff), BadJournal::Malformed),
        (changed(10, 0xff), BadJournal::Malformed),
        (bomb, BadJournal::Malformed),
        (with(b"\x00\x00"), BadJournal::Malformed),
        (with(b"\x00\x00\x00\x00"), BadJournal::Malformed),
        (with(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00"), BadJournal::Malformed),
        (with(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x00"), BadJournal::Malformed),
        (with(b"\x02\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), BadJournal::Malformed),
        (with(b"\x01\x01\x00\x05\x05"), BadJournal::Malformed),
        (file(&[b"\x20", &[b'G'; 32][..]].concat()), BadJournal::Malformed),
        (file(b"\x01a"), BadJournal::Malformed),
        (encode(&entry(1, 2, &[], &many, &[])), BadJournal::TooLarge),
    ] {
        assert_eq!(codec::decode(&bytes), Err(error), "{:?}", &bytes[..bytes.len().min(90)]);
    }
}

#[test]
fn a_journal_travels_up_to_the_current_snapshot() {
    let entries = [entry(1, 2, &[], &[5], &[]), entry(2, 3, &[], &[6, 7], &[]), entry(3, 1, &[], &[], &[9])];
    let journal = Journal::new(entries.clone());
    for (current, count) in [(1, 3), (3, 2), (2, 1), (4, 0)] {
        let file = codec::encode(journal.until(named(current).as_str()));
        assert_eq!(codec::decode(&file).unwrap(), entries[..count], "{current}");
        for length in 0..file.len() {
            assert!(codec::decode(&file[..length]).is_err(), "{current} {length}");
        }
    }
}

/// A snapshot of some of ten listings, each of which says one of three things, in either order.
fn snapshots() -> impl Strategy<Value = Vec<Vec<(u64, u8)>>> {
    let listings = (proptest::collection::btree_map(0_u64..10, 0_u8..3, 0..10), any::<bool>());
    let one = listings.prop_map(|(listings, turned)| {
        let mut listings: Vec<_> = listings.into_iter().collect();
        if turned {
            listings.reverse();
        }
        listings
    });
    proptest::collection::vec(one, 1..8)
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let near = proptest::collection::btree_set(0_u64..300, 0..200);
    let far = proptest::collection::btree_set(any::<u64>(), 0..20);
    (near, far, any::<i64>(), any::<u32>(), any::<u8>()).prop_map(|(near, far, at_ms, from, turn)| {
        let mut lists = [const { Vec::new() }; 3];
        for id in near.union(&far) {
            lists[(id.wrapping_mul(u64::from(turn)) % 3) as usize].push(ListingId(*id));
        }
        let [added, changed, removed] = lists;
        Entry { from: named(from), to: named(from ^ 1), at_ms, added, changed, removed }
    })
}

proptest! {
    #[test]
    fn entries_in_a_row_come_to_what_differs_but_for_what_changed_back(history in snapshots()) {
        let history: Vec<(BTreeMap<u64, u8>, Dataset)> =
            history.iter().map(|listings| (listings.iter().copied().collect(), dataset(listings))).collect();
        let mut journal = Journal::default();
        for (at, pair) in (0..).zip(history.windows(2)) {
            if pair[0].1.id != pair[1].1.id {
                prop_assert_eq!(journal.push(Entry::between(&pair[0].1.content, &pair[1].1.content, at)), 0);
            }
        }
        let (now, current) = history.last().unwrap();
        for (start, (then, from)) in history.iter().enumerate() {
            let changes = journal.since(from.id.as_str(), current.id.as_str()).unwrap();
            let direct = Entry::between(&from.content, &current.content, 0);
            prop_assert_eq!(&changes.added, &direct.added);
            prop_assert_eq!(&changes.removed, &direct.removed);
            let changed: BTreeSet<ListingId> = changes.changed.iter().copied().collect();
            prop_assert!(changes.changed.is_sorted() && changed.len() == changes.changed.len());
            prop_assert!(direct.changed.iter().all(|id| changed.contains(id)));
            for ListingId(id) in changed {
                let touched = history[start..].iter().any(|(listings, _)| listings.get(&id) != then.get(&id));
                prop_assert!(touched && then.contains_key(&id) && now.contains_key(&id), "{}", id);
            }
        }
    }

    #[test]
    fn entries_are_read_back_as_they_were(entries in proptest::collection::vec(any_entry(), 0..4)) {
        prop_assert_eq!(codec::decode(&codec::encode(entries.iter())), Ok(entries));
    }

    #[test]
    fn no_bytes_panic(bytes in any::<Vec<u8>>(), entry in any_entry(), at: usize, byte: u8) {
        let _ = codec::decode(&bytes);
        let _ = codec::decode(&file(&bytes));
        let mut damaged = encode(&entry);
        let at = at % damaged.len();
        damaged[at] = byte;
        let _ = codec::decode(&damaged);
        prop_assert!(codec::decode(&damaged[..at]).is_err());
    }
}
