//! Damage: it gives an error or less data, never other data and never a panic.

use super::*;

use std::collections::BTreeMap;

/// What a store holds, as far as it can be read; an error counts as nothing.
#[derive(Debug, Default, PartialEq)]
struct Holds {
    content: Option<Content>,
    details: BTreeMap<ListingId, DetailRecord>,
    copies: BTreeMap<String, (CopyMeta, Option<Bytes>)>,
    state: Option<Vec<u8>>,
}

fn fill(store: &Store) {
    store.publish(&content(1200), &meta(1)).unwrap();
    let details: Vec<_> = (0..60).map(|n| (ListingId(n), detail(&format!("{n} ").repeat(n as usize * 20)))).collect();
    store.put_details(&details).unwrap();
    let bodies: Vec<_> = (0..20).map(|n| format!("body {n} ").repeat(500)).collect();
    let copies: Vec<_> =
        bodies.iter().zip(0..).map(|(body, n)| (format!("/{n}"), copy(n), Some(body.as_bytes()))).collect();
    store.put_copies(&copies).unwrap();
    store.put_state("s", b"state").unwrap();
}

fn read(store: &Store) -> Holds {
    // What is asked for by key and what is listed must both be right.
    let _ = (store.snapshots(), store.detail_metas(), store.copy_metas());
    let ids: Vec<ListingId> = (0..60).rev().map(ListingId).collect();
    let one_by_one: Vec<_> = ids.iter().map(|id| store.detail(*id).ok().flatten()).collect();
    let in_turn: Vec<_> = store.details_in_turn(&ids).map(|(_, read)| read.ok().flatten()).collect();
    assert_eq!(in_turn, one_by_one);
    Holds {
        content: store.current().ok().flatten().and_then(|(record, _)| store.load(&record).ok()),
        details: (0..60)
            .map(ListingId)
            .filter_map(|id| store.detail(id).ok().flatten().map(|detail| (id, detail)))
            .collect(),
        copies: (0..20)
            .map(|n| format!("/{n}"))
            .filter_map(|key| {
                let meta = store.copy_meta(&key).ok().flatten()?;
                let body = store.copy_body(&key).ok().flatten();
                Some((key, (meta, body)))
            })
            .collect(),
        state: store.state("s").ok().flatten(),
    }
}

fn check(damaged: &[u8], whole: &Holds, what: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("grandstand.redb"), damaged).unwrap();
    let Ok(store) = open(dir.path()) else { return false };
    // "Nothing was ever published" is a statement too, and it would be wrong.
    assert!(!matches!(store.current(), Ok(None)), "{what}: the current snapshot is forgotten");
    let holds = read(&store);
    assert!(holds.content.is_none() || holds.content == whole.content, "{what}: other content");
    assert!(holds.details.iter().all(|(id, detail)| whole.details[id] == *detail), "{what}: other detail");
    assert!(holds.state.is_none() || holds.state == whole.state, "{what}: other state");
    for (key, (meta, body)) in &holds.copies {
        let (whole_meta, whole_body) = &whole.copies[key];
        assert!(meta == whole_meta && (body.is_none() || body == whole_body), "{what}: other copy");
    }
    // Writing must not panic either.
    let _ = store.put_details(&[(ListingId(30), detail("new"))]);
    let _ = store.publish(&content(1300), &meta(2));
    let _ = store.collect_garbage(&[]);
    holds == *whole
}

/// A filled store's file, closed and as a crash would leave it, and what it holds.
fn files() -> ([Vec<u8>; 2], Holds) {
    let mut store = Temp::new();
    fill(&store);
    let path = store.path().to_owned();
    let unclean = std::fs::read(&path).unwrap();
    let holds = read(&store);
    assert_eq!((holds.details.len(), holds.copies.len()), (60, 20));
    drop(store.store.take());
    ([std::fs::read(path).unwrap(), unclean], holds)
}

#[test]
fn a_truncated_file_gives_no_wrong_data() {
    let (files, whole) = files();
    for file in files {
        let lens = [0, 1, 100, 319, 320, 4095, 4096, 4097, 8192].into_iter();
        for len in lens.chain((0..40).map(|n| file.len() * n / 40)).chain([file.len() - 1, file.len() - 4096]) {
            check(&file[..len], &whole, &format!("{len} of {} bytes", file.len()));
        }
        assert!(check(&file, &whole, "the whole file"));
    }
}

#[test]
fn a_flipped_bit_gives_no_wrong_data() {
    let (files, whole) = files();
    for mut file in files {
        // The header, and the start of each page in use, where a bit does the most harm; then samples of the rest.
        const SLOT: usize = 8 + 4096;
        let header = (0..320).step_by(2);
        let pages = (0..file.len() / SLOT).flat_map(|page| [0, 8, 10, 20].map(|at| page * SLOT + 4096 + at));
        let used = |at: &usize| file[*at..file.len().min(at + SLOT)].iter().any(|byte| *byte != 0);
        let mut offsets: Vec<usize> = header.chain(pages.filter(used)).collect();
        offsets.extend((0..file.len()).step_by((file.len() / 120) | 1).filter(used));
        for (n, at) in offsets.into_iter().enumerate() {
            let bit = 1 << (n * 5 % 8);
            file[at] ^= bit;
            check(&file, &whole, &format!("bit {bit:#x} of byte {at}"));
            file[at] ^= bit;
        }
    }
}
