//! Consistency of pages, and when a pass is full.

use proptest::prelude::*;

use crate::api::hash::ContentHash;
use crate::api::page::Envelope;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;

use super::*;

fn page(number: u64, total: u64, ids: &[u64]) -> Bytes {
    let items: Vec<String> = ids.iter().map(|id| format!(r#"{{"id":{id}}}"#)).collect();
    let body = format!(
        r#"{{"license":"x","next":{number},"generated_at":"2026-01-0{number}","per_page":100,"total":{total},"items":[{}]}}"#,
        items.join(",")
    );
    body.into()
}

fn assembled(pages: Vec<Bytes>) -> Result<Assembled, Inconsistent> {
    let taxonomies = [(); 3].map(|()| Bytes::from_static(br#"{"generated_at":"t","items":[]}"#));
    assemble(pages.into_iter(), &taxonomies, &VolatileKeys::default(), |_| None)
}

#[test]
fn consistent_pages_become_content() {
    let assembled = assembled(vec![page(1, 3, &[5, 9]), page(2, 3, &[1])]).unwrap();
    let ids: Vec<u64> = assembled.content.summaries.iter().map(|summary| summary.id.0).collect();
    assert_eq!(ids, [5, 9, 1]);
    assert_eq!(assembled.beside.left_out, ["next"]);
    assert_eq!(assembled.content.taxonomies[0].as_ref(), r#"{"generated_at":null,"items":[]}"#);
    assert_eq!(assembled.beside.volatile_values["list generated_at"], "\"2026-01-01\"");
    assert_eq!(assembled.beside.volatile_values["/api/sports.json generated_at"], "\"t\"");
}

#[test]
fn pages_that_do_not_fit_are_refused() {
    for (pages, message) in [
        (vec![page(1, 3, &[1, 2]), page(2, 3, &[2])], "listing 2 is on two pages"),
        (vec![page(1, 3, &[1, 2]), page(2, 3, &[2, 1])], "listing 1 and 1 more are on two pages"),
        (vec![page(1, 3, &[1, 2])], "have 2 different listings, but page 1 states a total of 3"),
        (vec![page(1, 3, &[1, 2]), page(2, 4, &[3])], "other pages state other totals"),
        (vec![Bytes::from_static(b"<html>")], "page 1"),
    ] {
        let error = assembled(pages).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_pass_is_full_when_one_instant_fits_every_copy() {
    let pass = |spans: &[(i64, i64)]| {
        let span = |(since_ms, until_ms): (i64, i64)| Span { since_ms, until_ms };
        Pass::new(paths(1).zip(spans.iter().copied().map(span)).collect())
    };
    assert!(pass(&[(10, 10); 4]).is_full());
    let open = pass(&[(20, 30), (10, 10), (10, 10), (10, 19)]);
    assert!(!open.is_full());
    assert_eq!(open.unproven(), ["/api/sports.json", "/api/states.json", "/api/cities.json"]);
    let closed = pass(&[(20, 30), (10, 25), (10, 25), (10, 26)]);
    assert!(closed.is_full() && closed.unproven().is_empty());
    assert_eq!(closed.until_ms(), 25);
}

#[test]
fn what_is_known_is_not_held_twice() {
    let first = assembled(vec![page(1, 3, &[5, 9]), page(2, 3, &[1])]).unwrap().content;
    let known = |item: &Summary| first.summaries.iter().find(|known| *known == item && item.id.0 != 9).cloned();
    let taxonomies = [(); 3].map(|()| Bytes::from_static(b"{}"));
    let pages = [page(1, 3, &[5, 9]), page(2, 3, &[1])];
    let bodies: Vec<_> = pages.iter().map(|page| page.as_ptr_range()).collect();
    let again = assemble(pages.iter().cloned(), &taxonomies, &VolatileKeys::default(), known).unwrap().content;
    assert_eq!(again.summaries, first.summaries);
    for (item, before) in again.summaries.iter().zip(&first.summaries) {
        assert_eq!(item.raw.as_ptr() == before.raw.as_ptr(), item.id.0 != 9);
        assert!(bodies.iter().all(|body| !body.contains(&item.raw.as_ptr())), "{} keeps its page in memory", item.id);
    }
}

fn rows(ids: &[u64]) -> Vec<Summary> {
    let row = |id: &u64| {
        let raw = Bytes::from(format!(r#"{{"id":{id}}}"#));
        Summary { id: ListingId(*id), hash: ContentHash::of(&raw), raw }
    };
    ids.iter().map(row).collect()
}

fn ids(of: &[u64]) -> BTreeSet<ListingId> {
    of.iter().copied().map(ListingId).collect()
}

fn dataset(of: &[u64]) -> Dataset {
    let envelope = Envelope::default();
    let content = Content { envelope, taxonomies: [(); 3].map(|()| "[]".into()), summaries: rows(of) };
    Dataset::build(content, &Evidence::new()).unwrap()
}

#[test]
fn what_fits_is_no_contradiction() {
    let of = |listed: &[u64], totals: &[u64]| Contradiction::of(&rows(listed), &totals.iter().copied().collect());
    assert_eq!(of(&[1, 2, 3], &[3]), None);
    assert_eq!(of(&[], &[0]), None);
    assert_eq!(of(&[1, 2, 3], &[1]), None, "the total is too low");
    for (listed, totals, doubled, excess) in [
        (&[1, 2, 2][..], &[3][..], &[2][..], &[1][..]),
        (&[1, 2, 2], &[2], &[2], &[0]),
        (&[1, 2], &[5], &[], &[3]),
        (&[1, 2], &[2, 3], &[], &[0, 1]),
    ] {
        let expected = Contradiction { doubled: ids(doubled), excess: excess.iter().copied().collect() };
        assert_eq!(of(listed, totals), Some(expected), "{listed:?} {totals:?}");
    }
}

#[test]
fn a_contradiction_is_believed_after_three_passes_far_enough_apart() {
    let at = Monotonic::from_seconds;
    let apart = Duration::from_secs(10);
    let one = Contradiction { doubled: ids(&[2]), excess: [1].into() };
    let other = Contradiction { doubled: ids(&[3]), excess: [1].into() };
    let mut seen = Recurrence::default();
    for (began, contradiction, believed) in [
        (0, &one, false),
        (1, &one, false),
        (11, &one, false),
        // Not far enough apart.
        (20, &one, false),
        (22, &one, true),
    ] {
        assert_eq!(seen.see(contradiction, at(began), apart), believed, "{began}");
    }
    seen.ended();
    for (began, contradiction, believed) in
        [(100, &one, false), (111, &one, false), (122, &other, false), (133, &one, false), (141, &one, true)]
    {
        assert_eq!(seen.see(contradiction, at(began), apart), believed, "{began}");
    }
    let mut first = Recurrence::default();
    let tries = [&one, &one, &one].map(|contradiction| first.see(contradiction, at(5), Duration::ZERO));
    assert_eq!(tries, [false, false, true]);
    first.ended();
    let tries = [&one, &other, &one, &other, &one, &other];
    let tries = tries.map(|contradiction| first.see(contradiction, at(6), Duration::ZERO));
    assert_eq!(tries, [false, false, false, false, false, true]);
}

#[test]
fn rows_of_unknown_place_stand_where_they_stood() {
    let arranged = |pages: &[u64], doubled: &[u64], others: &[u64], last: Option<&[u64]>| {
        let last = last.map(dataset);
        let all = arranged(rows(pages), &ids(doubled), rows(others), last.as_ref());
        all.iter().map(|summary| summary.id.0).collect::<Vec<u64>>()
    };
    let last = &[9, 8, 7, 6, 5, 4][..];
    // 7 is on two pages, 6 on none.
    assert_eq!(arranged(&[9, 8, 7, 5, 4], &[7], &[6], Some(last)), last);
    assert_eq!(arranged(&[9, 7, 8, 5, 4], &[7], &[6], Some(last)), last);
    assert_eq!(arranged(&[8, 7, 6, 5, 4], &[], &[9], Some(last)), last);
    assert_eq!(arranged(&[9, 8, 7, 6, 5], &[], &[4], Some(last)), last);
    // No field orders these, but the id where it does.
    assert_eq!(arranged(&[9, 3, 7, 5, 4], &[7], &[2, 1, 6], Some(last)), [9, 7, 6, 3, 1, 2, 5, 4]);
    assert_eq!(arranged(&[5, 9, 2, 7], &[9], &[3, 1], None), [5, 1, 3, 9, 2, 7]);
    assert_eq!(arranged(&[9, 8, 7, 5], &[8], &[3, 6], None), [9, 8, 7, 6, 5, 3]);
}

#[test]
fn rows_of_unknown_place_stand_among_their_equals() {
    let dated = |rows: &[(u64, u64)]| -> Vec<Summary> {
        let row = |(id, day): &(u64, u64)| {
            let raw = Bytes::from(format!(r#"{{"id":{id},"modified":"2026-01-0{day}"}}"#));
            Summary { id: ListingId(*id), hash: ContentHash::of(&raw), raw }
        };
        rows.iter().map(row).collect()
    };
    // No second field breaks the ties.
    let pages = dated(&[(1, 5), (2, 4), (3, 4), (9, 4), (6, 4), (5, 1)]);
    // 7 and 8 were modified since the last snapshot.
    let last = dataset(&[1, 2, 3, 5, 8, 7]);
    let all = arranged(pages, &ids(&[3]), dated(&[(7, 4), (8, 2)]), Some(&last));
    assert_eq!(all.iter().map(|summary| summary.id.0).collect::<Vec<u64>>(), [1, 2, 3, 9, 6, 7, 8, 5]);
}

proptest! {
    /// Where the rule that was learned is the origin's, placing changes equals sorting everything again.
    #[test]
    fn placing_equals_sorting(
        listings in proptest::collection::btree_map(1_u64..500, (0_u64..40, "[a-c]{0,3}"), 2..60),
        changed in proptest::collection::btree_map(1_u64..500, (0_u64..40, "[a-c]{0,3}"), 1..8),
        by in 0_u8..3,
    ) {
        let make = |(id, (day, name)): (&u64, &(u64, String))| {
            let raw = Bytes::from(format!(r#"{{"id":{id},"name":"{name}","modified":"2026-01-{:02}T00:00:00Z"}}"#, day % 28 + 1));
            Summary { id: ListingId(*id), hash: ContentHash::of(&raw), raw }
        };
        let sort = |all: &mut Vec<Summary>| all.sort_by_key(|summary| {
            let text = std::str::from_utf8(&summary.raw).unwrap();
            let value = |at: usize| crate::api::json::fields(text).unwrap()[at].value.to_owned();
            let name = if by == 2 { value(1) } else { String::new() };
            (name, std::cmp::Reverse(if by == 1 { value(2) } else { String::new() }), summary.id)
        });
        let mut sequence: Vec<Summary> = listings.iter().map(make).collect();
        sort(&mut sequence);
        let last = Content { envelope: Envelope::default(), taxonomies: [(); 3].map(|()| "[]".into()), summaries: sequence.clone() };
        let last = Dataset::build(last, &Evidence::new()).unwrap();
        sequence.retain(|summary| !changed.contains_key(&summary.id.0));
        let changed: Vec<Summary> = changed.iter().map(make).collect();
        let mut expected = [sequence.clone(), changed.clone()].concat();
        sort(&mut expected);
        let truth = ["id asc", "modified desc, id asc", "name asc, id asc"][usize::from(by)];
        // Small sequences obey other rules by accident, too.
        if Rule::learn(&sequence).is_some_and(|rule| rule.to_string() == truth) {
            prop_assert_eq!(arranged(sequence, &BTreeSet::new(), changed, Some(&last)), expected);
        }
    }
}
