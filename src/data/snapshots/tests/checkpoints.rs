//! Copies elsewhere: what one lacks, by what it names; and that a chain brings what has changed since its last bundle.

use std::fs::File;
use std::io::Seek as _;

use imports::detail;

use super::*;
use crate::data::bundle::signature::{Opened, Voucher};
use crate::data::bundle::{Bundle, Counts};
use crate::data::cache::Cache;
use crate::data::details::Details;
use crate::data::snapshot::journal::Journal;
use crate::data::snapshot::meta::Certificate;
use crate::data::snapshots::export::{Exported, Unsent};
use crate::data::snapshots::follow::{Followed, ImportOutcome, Taken};
use crate::data::snapshots::import::Trust;
use crate::data::store::{ChangePosition, MarkAt};

fn put(rig: &Rig, id: u64, text: &str) {
    rig.snapshots.store().put_details(&[detail(id, &format!(r#"{{"is":"{text}"}}"#))]).unwrap();
}

fn token(rig: &Rig) -> String {
    rig.snapshots.next_token(&rig.snapshots.current().get().unwrap()).unwrap()
}

/// The listings of whose details a copy lacks the last change; `None`: it has to begin anew.
fn lacks(rig: &Rig, since: &str) -> Option<Vec<u64>> {
    let since = rig.snapshots.place_of(since).unwrap()?;
    rig.snapshots.journal().since(since.snapshot.as_str(), &rig.served())?;
    Some(rig.snapshots.store().details_since(since.place).unwrap()?.into_iter().map(|id| id.0).collect())
}

#[test]
fn a_copy_lacks_the_details_that_changed_since_its_snapshot_was_current_or_since_its_token() {
    let rig = Rig::new(9);
    assert_eq!(rig.snapshots.place_of(&"0".repeat(32)).unwrap(), None);
    let one = rig.publish(&[1, 2], 1);
    assert_eq!(token(&rig), one, "until there are details");
    put(&rig, 1, "early");
    let early = token(&rig);
    put(&rig, 2, "early");
    let two = rig.publish(&[1, 2, 3], 2);
    put(&rig, 3, "early");
    for (since, expected) in [(&one, vec![1, 2, 3]), (&early, vec![2, 3]), (&two, vec![3]), (&token(&rig), vec![])] {
        assert_eq!(lacks(&rig, since), Some(expected), "{since}");
    }
    // What was current before is so again.
    rig.snapshots.rollback(&one).unwrap();
    put(&rig, 1, "late");
    rig.snapshots.release().unwrap();
    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!((lacks(&rig, &one), lacks(&rig, &two)), (Some(vec![2, 3, 1]), Some(vec![3, 1])));
    let three = import(&rig.snapshots, &[1, 2, 3, 9], 3, &[(9, "{}")]).unwrap().snapshot;
    assert_eq!(lacks(&rig, three.as_str()), Some(vec![9]), "somebody may have the snapshot from elsewhere");
    for unknown in
        ["", "-", "1-2", &early[1..], &early.replacen(&early[33..37], "g", 1), &format!("{early}0000"), &"f".repeat(64)]
    {
        assert_eq!(rig.snapshots.place_of(unknown).unwrap(), None, "{unknown}");
    }
}

#[test]
fn marks_go_with_the_journal_and_kept_snapshots() {
    let rig = Rig::new(1);
    let ids: Vec<String> = (1..=4).map(|n| rig.publish(&[n], n.cast_signed())).collect();
    let chained = rig.snapshots.view().kept[2].id.clone();
    let bundles = ["a", "b"].map(|bundle| Digest::from(blake3::hash(bundle.as_bytes())));
    let mut states = States::default();
    for bundle in &bundles {
        states.mark(bundle, MarkAt::Place(None), chained.clone());
    }
    rig.snapshots.store().put_states(&states).unwrap();
    let names = || -> Vec<String> {
        let mut states = States::default();
        rig.snapshots.forget_marks(&rig.snapshots.view(), &Journal::default(), &mut states).unwrap();
        rig.snapshots.store().put_states(&states).unwrap();
        rig.snapshots.store().marks().unwrap().into_iter().map(|(name, ..)| name).collect()
    };
    rig.snapshots.tidy().unwrap();
    assert_eq!(rig.snapshots.store().marks().unwrap().len(), 6);
    rig.snapshots.keep_for_chain(Some((chained, bundles[0])));
    let mut expected = vec![ids[1].clone(), ids[3].clone(), bundles[0].to_string(), bundles[1].to_string()];
    expected.sort();
    assert_eq!(names(), expected, "what is current, and where the chain ends");
    rig.snapshots.keep_for_chain(None);
    assert_eq!(names(), [ids[3].as_str()]);
}

/// Writes a link as a publisher does, after `base`. `meanwhile` happens after its details were listed.
fn publish(rig: &Rig, base: Option<&Digest>, meanwhile: &dyn Fn()) -> Opened {
    let (mut file, served) = (tempfile::tempfile().unwrap(), rig.snapshots.current().get().unwrap());
    let base = base.map(|base| (after(rig, base), *base));
    let base = base.as_ref().map(|((snapshot, place), base)| (snapshot, *base, *place));
    let coverage = |_: &Dataset| {
        meanwhile();
        Counts::default()
    };
    let Exported { written, place, .. } =
        rig.snapshots.export_link(&mut file, &served, base, false, &coverage).unwrap();
    let mut states = States::default();
    states.mark(written.digest, MarkAt::Place(place), served.dataset.id.clone());
    rig.snapshots.store().put_states(&states).unwrap();
    rig.snapshots.keep_for_chain(Some((served.dataset.id.clone(), written.digest)));
    opened(&file)
}

/// The snapshot and the place of a bundle that was published.
fn after(rig: &Rig, bundle: &Digest) -> (SnapshotId, Option<ChangePosition>) {
    let mark = rig.snapshots.store().mark(bundle).unwrap().unwrap();
    (mark.snapshot, mark.place)
}

fn opened(file: &File) -> Opened {
    let mut file = file.try_clone().unwrap();
    file.rewind().unwrap();
    Opened { bundle: Bundle::open(&file, &mut |_, _| {}).unwrap(), file, voucher: Voucher::Nobody }
}

fn details(Opened { bundle, .. }: &Opened) -> Vec<u64> {
    bundle.detail_ids().iter().map(|id| id.0).collect()
}

/// Takes bundles as a replica does, with the publisher's journal.
fn take(rig: &Rig, publisher: &Rig, steps: &[&Opened]) {
    let steps: Vec<Opened> = steps.iter().map(|step| opened(&step.file)).collect();
    let followed = Followed {
        took: ImportOutcome::Head(Taken::default()),
        from: rig.snapshots.stand().unwrap().digest,
        certificate: Certificate::Full,
        confirmed_ms: 1,
        journal: Some(publisher.snapshots.journal().entries().cloned().collect()),
    };
    let newest = rig.snapshots.newest().clone();
    let details = Details::open(rig.snapshots.store().clone(), Cache::new(1 << 20), newest).unwrap();
    rig.snapshots.import(&steps, &Trust::Publisher(followed), &details).unwrap();
}

#[test]
fn a_token_names_the_same_place_on_every_node_that_followed_the_chain() {
    let replica = || Rig::new(9).reopen(9, !HAS_ORIGIN);
    let (publisher, early, late) = (Rig::new(9), replica(), replica());
    put(&publisher, 7, "of nobody");
    publisher.publish(&[1, 2], 1);
    put(&publisher, 1, "old");
    put(&publisher, 2, "old");
    let full = publish(&publisher, None, &|| {});
    take(&early, &publisher, &[&full]);
    let first = [token(&publisher), token(&early)];
    put(&publisher, 2, "new");
    let two = publisher.publish(&[1, 2, 3], 2);
    put(&publisher, 3, "old");
    let delta = publish(&publisher, Some(&full.bundle.digest()), &|| {});
    put(&publisher, 3, "new");
    publisher.publish(&[1, 2, 3, 4], 3);
    assert_eq!(lacks(&early, &token(&publisher)), None, "no bundle has that snapshot yet");
    let last = publish(&publisher, Some(&delta.bundle.digest()), &|| {});
    take(&early, &publisher, &[&delta]);
    let second = token(&early);
    take(&early, &publisher, &[&last]);
    take(&late, &publisher, &[&full, &delta, &last]);
    for token in &first {
        assert_eq!(lacks(&publisher, token), Some(vec![2, 3]), "{token}");
        assert_eq!(lacks(&early, token), Some(vec![2, 3]), "{token}");
        assert_eq!(lacks(&late, token), Some(vec![1, 2, 3]), "at once it came with the others: {token}");
    }
    assert_eq!((lacks(&publisher, &second), lacks(&early, &second)), (Some(vec![3]), Some(vec![3])));
    for third in [token(&publisher), token(&early), token(&late)] {
        for rig in [&publisher, &early, &late] {
            assert_eq!(lacks(rig, &third), Some(vec![]), "{third}");
        }
    }
    // It was never current there.
    assert_eq!(lacks(&late, &two), Some(vec![1, 2, 3]));
    assert_eq!(lacks(&replica(), &first[0]), None);
}

#[test]
fn details_that_change_while_a_bundle_is_written_come_with_the_next_one() {
    let rig = Rig::new(9);
    rig.publish(&[1, 2, 3], 1);
    (1..=3).for_each(|id| put(&rig, id, "old"));
    let full = publish(&rig, None, &|| {});
    let served = rig.snapshots.current().get().unwrap();
    let unsent =
        |bundle: &Opened| rig.snapshots.unsent_details(&served, after(&rig, &bundle.bundle.digest()).1).unwrap();
    put(&rig, 8, "of nobody");
    put(&rig, 2, "old");
    assert_eq!(unsent(&full), Unsent::Nothing);
    put(&rig, 1, "new");
    assert_eq!(unsent(&full), Unsent::Others);
    let delta = publish(&rig, Some(&full.bundle.digest()), &|| {
        put(&rig, 1, "newer");
        put(&rig, 3, "new");
    });
    assert_eq!(unsent(&delta), Unsent::Others);
    let next = publish(&rig, Some(&delta.bundle.digest()), &|| {});
    assert_eq!(unsent(&next), Unsent::Nothing);
    assert_eq!([&full, &delta, &next].map(details), [vec![1, 2, 3], vec![1], vec![1, 3]]);
    let last = next.bundle.digest();
    let (end, place) = after(&rig, &last);
    rig.snapshots.heal().unwrap();
    assert_eq!(rig.snapshots.unsent_details(&served, place).unwrap(), Unsent::Others, "it is not known");
    let unknown = rig.snapshots.export_link(
        &mut tempfile::tempfile().unwrap(),
        &served,
        Some((&end, last, place)),
        false,
        &|_| Counts::default(),
    );
    assert!(unknown.is_err_and(|error| export::lacks_base(&error)));
}

#[test]
fn replicas_wait_for_details_of_listings_that_a_publication_after_the_first_added_or_changed() {
    let rig = Rig::new(9);
    rig.publish(&[1, 2], 1);
    let unsent = |end| rig.snapshots.unsent_details(&rig.snapshots.current().get().unwrap(), end).unwrap();
    put(&rig, 1, "first");
    assert_eq!(unsent(None), Unsent::Others);
    rig.publish(&[1, 2, 3], 2);
    let end = rig.snapshots.store().epoch_place().unwrap();
    assert_eq!(unsent(end), Unsent::Nothing);
    put(&rig, 2, "alone");
    assert_eq!(unsent(end), Unsent::Others);
    put(&rig, 3, "awaited");
    assert_eq!(unsent(end), Unsent::Awaited);
}

#[test]
fn after_a_repair_no_copy_misses_a_detail_whatever_becomes_current_again() {
    let rig = Rig::new(9);
    let one = rig.publish(&[1, 2], 1);
    (1..=2).for_each(|id| put(&rig, id, "old"));
    let full = publish(&rig, None, &|| {});
    let token = token(&rig);
    assert!(token.ends_with(&full.bundle.digest().to_string()), "{token}");
    put(&rig, 1, "new");
    rig.snapshots.heal().unwrap();
    put(&rig, 9, "of nobody");
    assert_eq!(lacks(&rig, &token), None, "its places are others");
    let two = rig.publish(&[1, 2, 3], 2);
    rig.snapshots.rollback(&one).unwrap();
    for since in [&one, &two] {
        assert!(lacks(&rig, since).unwrap().contains(&1) == (since == &one), "{since}");
    }
    rig.snapshots.release().unwrap();
    assert!(lacks(&rig, &one).unwrap().contains(&1));
}

/// Exports as for an operator: the export, and whose details it has.
fn exported(rig: &Rig, since: Option<&str>) -> (Exported, Vec<u64>) {
    let mut file = tempfile::tempfile().unwrap();
    let exported = rig.snapshots.export(&mut file, since, false).unwrap();
    (exported, details(&opened(&file)))
}

#[test]
fn a_delta_brings_what_any_receiver_of_its_base_lacks_also_after_a_repair() {
    let rig = Rig::new(9);
    let one = rig.publish(&[1, 2, 3], 1);
    (1..=3).for_each(|id| put(&rig, id, "old"));
    let unrecorded = exported(&rig, None).0;
    put(&rig, 1, "new");
    rig.snapshots.heal().unwrap();
    put(&rig, 2, "new");
    // Its place is one of the file before.
    rig.snapshots.remember(unrecorded).unwrap();
    rig.publish(&[1, 2, 3, 4], 2);
    assert!(!exported(&rig, Some(&one)).0.is_exact);
    rig.snapshots.rollback(&one).unwrap();
    rig.snapshots.remember(exported(&rig, None).0).unwrap();
    rig.snapshots.release().unwrap();
    let (delta, brought) = exported(&rig, Some(&one));
    assert!(delta.is_exact && [1, 2].iter().all(|id| brought.contains(id)), "{brought:?}");
}

#[test]
fn an_export_that_is_no_longer_among_the_last_ones_keeps_its_place() {
    let rig = Rig::new(9);
    let one = rig.publish(&[1, 2], 1);
    (1..=2).for_each(|id| put(&rig, id, "old"));
    rig.snapshots.remember(exported(&rig, None).0).unwrap();
    put(&rig, 2, "new");
    for listing in 3..=6 {
        rig.publish(&[1, 2, listing], listing.cast_signed());
        rig.snapshots.remember(exported(&rig, None).0).unwrap();
    }
    rig.snapshots.tidy().unwrap();
    rig.snapshots.rollback(&one).unwrap();
    rig.snapshots.remember(exported(&rig, None).0).unwrap();
    rig.snapshots.release().unwrap();
    assert_eq!(exported(&rig, Some(&one)).1, [2]);
}
