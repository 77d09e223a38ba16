//! Tests of the plan.

use proptest::prelude::*;

use super::*;

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_790_000_000_000;

fn snapshot(n: u8) -> SnapshotId {
    SnapshotId::parse(&format!("{n:032x}")).unwrap()
}

fn digest(n: u8) -> Digest {
    Digest([n; 32])
}

fn bundle(base: Option<u8>, n: u8, bytes: u64) -> NamedBundle {
    NamedBundle::new(base.map(digest), digest(n), snapshot(1), FileHash { bytes, blake3: digest(n) })
}

fn journal(n: u8) -> FileHash {
    FileHash { bytes: 9, blake3: digest(n) }
}

/// A chain with so many deltas, written an hour ago.
fn chain(deltas: u8) -> Chain {
    let deltas: Vec<NamedBundle> = (0..deltas).map(|n| bundle(Some(n), n + 1, 10)).collect();
    let head = Head {
        format: FORMAT,
        sequence: 7,
        written_ms: NOW - 1000,
        confirmed_ms: NOW - 5000,
        certificate: Certificate::Full,
        snapshot: snapshot(1),
        full: bundle(None, 0, 1000),
        deltas,
        journal: NamedJournal::new(journal(99)),
    };
    let (content, evidence) = (digest(50), Some(digest(60)));
    let (full_ms, last_ms) = (NOW - 3_600_000, NOW - 3_600_000);
    Chain { head, content, evidence, place: None, full_ms, last_ms, signatures: Vec::new() }
}

fn offer() -> Offer {
    Offer {
        snapshot: snapshot(1),
        content: digest(50),
        evidence: digest(60),
        certificate: Certificate::Full,
        confirmed_ms: NOW - 5000,
        journal: journal(99),
    }
}

fn facts<'a>(offer: &'a Offer, chain: &'a Chain) -> Facts<'a> {
    Facts { now_ms: NOW, offer, chain: Some(chain), stored: Stored::Own, is_broken: false, unsent: Unsent::Nothing }
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    assert_eq!(next(&facts(&offer(), &chain(0))), NextWrite::Nothing);
}

#[test]
fn without_a_chain_or_a_head_or_an_object_everything_is_written_again() {
    let (offer, chain) = (offer(), chain(3));
    let all = facts(&offer, &chain);
    assert_eq!(next(&Facts { chain: None, stored: Stored::Other, ..all }), NextWrite::Full(Why::First));
    assert_eq!(next(&Facts { stored: Stored::Missing, ..all }), NextWrite::Full(Why::NoHead));
    assert_eq!(next(&Facts { is_broken: true, ..all }), NextWrite::Full(Why::Broken));
}

#[test]
fn another_snapshot_is_a_delta_at_once() {
    let (mut chain, other) = (chain(3), Offer { snapshot: snapshot(2), content: digest(51), ..offer() });
    chain.last_ms = NOW;
    assert_eq!(next(&facts(&other, &chain)), NextWrite::Delta);
    // Also when another publisher has written meanwhile, and with details.
    let all = Facts { stored: Stored::Other, unsent: Unsent::Others, ..facts(&other, &chain) };
    assert_eq!(next(&all), NextWrite::Delta);
}

#[test]
fn a_chain_has_at_most_64_deltas() {
    let other = Offer { snapshot: snapshot(2), ..offer() };
    assert_eq!(next(&facts(&other, &chain(63))), NextWrite::Delta);
    assert_eq!(next(&facts(&other, &chain(64))), NextWrite::Full(Why::Deltas));
    let (offer, chain) = (offer(), chain(64));
    let all = Facts { unsent: Unsent::Others, ..facts(&offer, &chain) };
    assert_eq!(next(&all), NextWrite::Full(Why::Deltas));
    assert_eq!(next(&facts(&offer, &chain)), NextWrite::Nothing);
}

#[test]
fn deltas_are_together_at_most_half_of_the_full_bundle() {
    for (deltas, bytes, fits) in
        [(0, 500, true), (0, 501, false), (3, 470, true), (3, 471, false), (0, u64::MAX, false)]
    {
        assert_eq!(takes_delta(&chain(deltas).head, bytes), fits, "{deltas} {bytes}");
    }
}

#[test]
fn details_alone_and_evidence_alone_wait_for_a_minute_and_awaited_details_for_seconds() {
    use Unsent::{Awaited, Nothing, Others};
    let (mut chain, same, evidence) = (chain(1), offer(), Offer { content: digest(51), ..offer() });
    let with = |offer: &Offer, chain: &Chain, unsent| next(&Facts { unsent, ..facts(offer, chain) });
    let confirmed = Offer { confirmed_ms: NOW, ..offer() };
    for (offer, unsent, pause) in
        [(&same, Others, PAUSE_MS), (&evidence, Nothing, PAUSE_MS), (&same, Awaited, 3000), (&evidence, Awaited, 3000)]
    {
        chain.last_ms = NOW - pause;
        assert_eq!(with(offer, &chain, unsent), NextWrite::Delta);
        chain.last_ms = NOW - pause + 1;
        assert_eq!(with(offer, &chain, unsent), NextWrite::Nothing);
        // The confirmation does not wait for them.
        assert_eq!(with(&confirmed, &chain, unsent), NextWrite::Head);
        // A clock that was set back by more than the pause does not make them wait for long.
        chain.last_ms = NOW + pause;
        assert_eq!(with(offer, &chain, unsent), NextWrite::Delta);
    }
}

#[test]
fn a_full_bundle_follows_after_its_period_and_after_a_jump_of_the_clock() {
    let offer = offer();
    for (age, step) in [
        (7 * DAY - 1, NextWrite::Nothing),
        (7 * DAY, NextWrite::Full(Why::Age)),
        (-7 * DAY + 1, NextWrite::Nothing),
        (-8 * DAY, NextWrite::Full(Why::Age)),
    ] {
        let chain = Chain { full_ms: NOW - age, ..chain(0) };
        assert_eq!(next(&facts(&offer, &chain)), step, "{age}");
    }
}

#[test]
fn a_head_follows_every_confirmation_and_certificate_and_journal_and_any_other_head() {
    let chain = chain(2);
    for offer in [
        Offer { confirmed_ms: NOW, ..offer() },
        // A rollback.
        Offer { confirmed_ms: NOW - DAY, ..offer() },
        Offer { certificate: Certificate::Incremental, ..offer() },
        Offer { journal: journal(98), ..offer() },
    ] {
        assert_eq!(next(&facts(&offer, &chain)), NextWrite::Head, "{offer:?}");
    }
    assert_eq!(next(&Facts { stored: Stored::Other, ..facts(&offer(), &chain) }), NextWrite::Head);
}

#[test]
fn a_sequence_is_above_the_store_the_ledger_and_the_clock() {
    for (stored, own, now, want) in [
        (None, None, NOW, NOW as u64 + 1),
        (Some(5), Some(6), 7, 8),
        (Some(9), Some(6), 7, 10),
        (Some(5), Some(12), 7, 13),
        (None, None, -5, 1),
    ] {
        assert_eq!(next_sequence(stored, own, now), want);
    }
}

proptest! {
    #[test]
    fn a_sequence_only_rises(stored in 0..1_u64 << 53, own in 0..1_u64 << 53, now in any::<i64>()) {
        let next = next_sequence(Some(stored), Some(own), now);
        prop_assert!(next > stored && next > own);
    }

    #[test]
    fn after_its_step_nothing_is_left_to_do(
        other in any::<bool>(), evidence in any::<bool>(), confirmed in any::<bool>(), more in 0..3_usize,
        stored in 0..3_u8, age in -10 * DAY..10 * DAY, pause in -2 * PAUSE_MS..2 * PAUSE_MS, deltas in 0..=64_u8,
    ) {
        let offer = Offer {
            snapshot: snapshot(if other { 2 } else { 1 }),
            content: digest(if evidence || other { 51 } else { 50 }),
            confirmed_ms: if confirmed { NOW } else { NOW - 5000 },
            ..offer()
        };
        let mut chain = Chain { full_ms: NOW - age, last_ms: NOW - pause, ..chain(deltas) };
        let stored = [Stored::Missing, Stored::Own, Stored::Other][usize::from(stored)];
        let unsent = [Unsent::Nothing, Unsent::Others, Unsent::Awaited][more];
        let all = Facts { stored, unsent, ..facts(&offer, &chain) };
        let step = next(&all);
        if step == NextWrite::Nothing {
            prop_assert!(!other && !confirmed && stored == Stored::Own);
            return Ok(());
        }
        chain.head.confirmed_ms = offer.confirmed_ms;
        if step != NextWrite::Head {
            chain.head.snapshot = offer.snapshot.clone();
            (chain.content, chain.last_ms) = (offer.content, NOW);
        }
        if let NextWrite::Full(_) = step {
            chain.full_ms = NOW;
            chain.head.deltas.clear();
        }
        let unsent = if step == NextWrite::Head { unsent } else { Unsent::Nothing };
        let after = next(&Facts { stored: Stored::Own, unsent, ..facts(&offer, &chain) });
        prop_assert_eq!(after, NextWrite::Nothing, "{:?}", step);
    }
}
