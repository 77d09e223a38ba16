//! Tests of the plan.

use proptest::prelude::*;

use super::*;
use crate::fleet::tests::{digest, file, head};

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_790_000_000_000;

fn snapshot(n: u8) -> SnapshotId {
    SnapshotId::parse(&format!("{n:032x}")).unwrap()
}

fn journal(n: u8) -> FileHash {
    file(9, n)
}

/// A chain with so many deltas, written an hour ago.
fn chain(deltas: u8) -> Chain {
    let mut head = Head { written_ms: NOW - 1000, confirmed_ms: NOW - 5000, ..head(7, 0, deltas) };
    (head.snapshot, head.full.bytes, head.journal) = (snapshot(1), 1000, NamedJournal::new(journal(99)));
    head.deltas.iter_mut().for_each(|delta| delta.bytes = 10);
    let (content, evidence) = (digest(50), Some(digest(60)));
    let (full_ms, last_ms) = (NOW - 3_600_000, NOW - 3_600_000);
    Chain { head, content, evidence, position: None, full_ms, last_ms, signatures: Vec::new() }
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

/// What differs from a store that has everything, and whose bundles are an hour old.
#[derive(Clone, Copy, Debug)]
struct Case {
    deltas: u8,
    stored: Stored,
    is_broken: bool,
    unsent: Unsent,
    /// What is offered: its snapshot, content, journal, certificate, and how much later than the head's it was confirmed.
    snapshot: u8,
    content: u8,
    evidence: u8,
    journal: u8,
    certificate: Certificate,
    later: i64,
    /// Milliseconds since the last bundle, and since the full one.
    last: i64,
    full: i64,
}

const SAME: Case = Case {
    deltas: 3,
    stored: Stored::Own,
    is_broken: false,
    unsent: Unsent::Nothing,
    snapshot: 1,
    content: 50,
    evidence: 60,
    journal: 99,
    certificate: Certificate::Full,
    later: 0,
    last: 3_600_000,
    full: 3_600_000,
};

const NO_HEAD: &str = "the object store has no head";
const BROKEN: &str = "the object store has lost a bundle";
const AGE: &str = "the last full bundle is older than 7 days";
const DELTAS: &str = "the head names as many deltas as it may";

#[test]
fn what_is_written_next() {
    use NextWrite::{Delta, Full, Head as HeadAlone, Nothing};
    use Stored::{Missing, Other};
    use Unsent::{Awaited, Others};
    let another = Case { snapshot: 2, content: 51, last: 0, ..SAME };
    let (others, awaited) = (Case { unsent: Others, ..SAME }, Case { unsent: Awaited, ..SAME });
    let verdicts = Case { content: 51, ..SAME };
    let evidence = Case { evidence: 61, ..verdicts };
    for (case, expected) in [
        (SAME, Nothing),
        (Case { deltas: 64, ..SAME }, Nothing),
        // Everything again.
        (Case { stored: Missing, ..SAME }, Full(NO_HEAD)),
        (Case { stored: Missing, ..another }, Full(NO_HEAD)),
        (Case { is_broken: true, ..SAME }, Full(BROKEN)),
        // Another snapshot is a delta at once, also when another publisher has written, and with details.
        (another, Delta),
        (Case { deltas: 63, ..another }, Delta),
        (Case { deltas: 64, ..another }, Full(DELTAS)),
        (Case { stored: Other, unsent: Others, ..another }, Delta),
        // Details and verdicts alone wait for a minute, awaited details and evidence for seconds.
        (Case { last: PAUSE_MS, ..others }, Delta),
        (Case { last: PAUSE_MS - 1, ..others }, Nothing),
        (Case { last: PAUSE_MS, ..verdicts }, Delta),
        (Case { last: PAUSE_MS - 1, ..verdicts }, Nothing),
        (Case { last: EVIDENCE_PAUSE_MS, ..evidence }, Delta),
        (Case { last: EVIDENCE_PAUSE_MS - 1, ..evidence }, Nothing),
        (Case { last: 3000, ..awaited }, Delta),
        (Case { last: 2999, ..awaited }, Nothing),
        (Case { last: 3000, content: 51, ..awaited }, Delta),
        (Case { deltas: 64, ..others }, Full(DELTAS)),
        // The confirmation does not wait for them.
        (Case { last: PAUSE_MS - 1, later: 5000, ..others }, HeadAlone),
        (Case { last: 2999, later: 5000, ..awaited }, HeadAlone),
        (Case { last: PAUSE_MS - 1, later: 5000, ..verdicts }, HeadAlone),
        // A clock that was set back by more than the pause does not make them wait for long.
        (Case { last: -PAUSE_MS, ..others }, Delta),
        (Case { last: -PAUSE_MS, ..verdicts }, Delta),
        (Case { last: -3000, ..awaited }, Delta),
        // A week, by a clock that may jump.
        (Case { full: 7 * DAY - 1, ..SAME }, Nothing),
        (Case { full: 7 * DAY, ..SAME }, Full(AGE)),
        (Case { full: 1 - 7 * DAY, ..SAME }, Nothing),
        (Case { full: -8 * DAY, ..SAME }, Full(AGE)),
        // A head alone; an earlier confirmation is that of a rollback.
        (Case { later: 5000, ..SAME }, HeadAlone),
        (Case { later: -DAY, ..SAME }, HeadAlone),
        (Case { certificate: Certificate::Incremental, ..SAME }, HeadAlone),
        (Case { journal: 98, ..SAME }, HeadAlone),
        (Case { stored: Other, ..SAME }, HeadAlone),
    ] {
        let Case { stored, is_broken, unsent, certificate, .. } = case;
        let chain = Chain { full_ms: NOW - case.full, last_ms: NOW - case.last, ..chain(case.deltas) };
        let offer = Offer { snapshot: snapshot(case.snapshot), content: digest(case.content), certificate, ..offer() };
        let offer = Offer { evidence: digest(case.evidence), ..offer };
        let offer = Offer { journal: journal(case.journal), confirmed_ms: offer.confirmed_ms + case.later, ..offer };
        let facts = Facts { stored, is_broken, unsent, ..facts(&offer, &chain) };
        assert_eq!(next(&facts), expected, "{case:?}");
        assert_eq!(next(&Facts { chain: None, ..facts }), Full(FIRST));
    }
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
