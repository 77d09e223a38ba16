//! Tests of the decisions.

use proptest::prelude::*;

use super::*;
use crate::fleet::tests::{bundle, digest, head};

/// A replica that has taken `of` and has the data of bundle `at`.
fn stand(of: Option<&Head>, at: Option<u8>) -> Stand {
    Stand { taken: of.map(taken).unwrap_or_default(), digest: at.map(|at| digest(at).to_string()) }
}

#[test]
fn a_replica_fetches_what_it_lacks_and_nothing_else() {
    let (old, new) = (head(7, 1, 3), head(9, 1, 6));
    let other = head(9, 20, 22);
    for (at, head, want) in [
        // An empty disk.
        (stand(None, None), &new, HeadDecision::Full(&new.full, &new.deltas)),
        (stand(None, None), &head(3, 5, 5), HeadDecision::Full(&bundle(None, 5), &[])),
        // Along the chain.
        (stand(Some(&old), Some(3)), &new, HeadDecision::Deltas(&new.deltas[2..])),
        (stand(Some(&old), Some(1)), &new, HeadDecision::Deltas(&new.deltas)),
        (stand(Some(&old), Some(6)), &new, HeadDecision::Renew),
        // On no chain of it.
        (stand(Some(&old), Some(3)), &other, HeadDecision::Full(&other.full, &other.deltas)),
        (stand(Some(&old), None), &new, HeadDecision::Full(&new.full, &new.deltas)),
        // The same head once more.
        (stand(Some(&new), Some(6)), &new, HeadDecision::Nothing),
        // It was taken, and its data is gone: by an import or a repair.
        (stand(Some(&new), None), &new, HeadDecision::Full(&new.full, &new.deltas)),
        (stand(Some(&new), Some(5)), &new, HeadDecision::Deltas(&new.deltas[4..])),
        // A rollback of the publisher: an earlier snapshot under a higher number.
        (stand(Some(&old), Some(3)), &head(8, 1, 2), HeadDecision::Full(&bundle(None, 1), &[bundle(Some(1), 2)])),
    ] {
        assert_eq!(decide(&at, head), want, "{at:?}");
    }
}

#[test]
fn a_head_that_is_not_higher_is_refused_whatever_it_names() {
    let taken = head(9, 1, 6);
    for digest in [None, Some(1), Some(6), Some(9)] {
        let at = stand(Some(&taken), digest);
        assert_eq!(decide(&at, &head(8, 1, 6)), HeadDecision::Refuse(HeadRefused::Older { found: 8, taken: 9 }));
        assert_eq!(decide(&at, &head(0, 1, 7)), HeadDecision::Refuse(HeadRefused::Older { found: 0, taken: 9 }));
        assert_eq!(decide(&at, &head(9, 1, 7)), HeadDecision::Refuse(HeadRefused::Rival(9)));
        assert_eq!(
            decide(&at, &Head { confirmed_ms: 5, ..taken.clone() }),
            HeadDecision::Refuse(HeadRefused::Rival(9))
        );
    }
}

#[test]
fn a_stamp_a_minute_ahead_counts_as_now_and_one_further_ahead_stays() {
    let now = WallTime::from_millis(1_000_000);
    for (stamp, believed) in [
        (999_999, 999_999),
        (1_000_000, 1_000_000),
        (1_000_001, 1_000_000),
        (1_060_000, 1_000_000),
        (1_060_001, 1_060_001),
        (i64::MAX, i64::MAX),
        (i64::MIN, i64::MIN),
    ] {
        assert_eq!(believed_ms(stamp, now), believed, "{stamp}");
    }
}

proptest! {
    /// Whatever heads come in whatever order: the number only rises, and the data is that of the last one taken.
    #[test]
    fn no_order_of_heads_takes_a_replica_back(
        heads in prop::collection::vec((0_u64..20, 1_u8..20, 0_u8..4), 1..40),
        losses in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut at = Stand::default();
        for ((sequence, first, more), loses) in heads.into_iter().zip(losses) {
            let head = head(sequence, first, first + more);
            let before = at.taken.sequence;
            let end = head.end().digest;
            match decide(&at, &head) {
                HeadDecision::Refuse(_) => prop_assert!(sequence <= before),
                HeadDecision::Nothing => prop_assert_eq!(&at.taken, &taken(&head)),
                found => {
                    prop_assert!(sequence > before || at.taken == taken(&head));
                    // What it fetches leads from where it stands to the end.
                    let (from, last) = match found {
                        HeadDecision::Full(full, deltas) => (None, deltas.last().unwrap_or(full).digest),
                        HeadDecision::Deltas(deltas) => (deltas[0].base, deltas.last().unwrap().digest),
                        _ => (Some(end), end),
                    };
                    prop_assert_eq!(last, end);
                    prop_assert!(from.is_none() || from.map(|from| from.to_string()) == at.digest);
                    at = Stand { taken: taken(&head), digest: Some(end.to_string()) };
                }
            }
            prop_assert!(at.taken.sequence >= before);
            if loses {
                at.digest = None;
            }
        }
    }
}

fn missing() -> FollowError {
    BundleStoreError::Missing("full/x.gsb".to_owned()).into()
}

fn wrong() -> FollowError {
    FollowError::Wrong { key: "delta/x.gsb".to_owned(), why: "its hash is another one".to_owned() }
}

#[test]
fn a_bad_object_is_left_alone_for_longer_each_time_and_no_other_one_is() {
    let (jitter, now) = (Jitter::default(), Monotonic::from_seconds(100));
    for (error, longest) in [(missing(), LONGEST_MISSING), (wrong(), LONGEST)] {
        let (mut bad, mut pauses): (Option<BadObject>, Vec<Duration>) = (None, Vec::new());
        for _ in 0..20 {
            let next = BadObject::after(bad.as_ref(), digest(1), error.of_bad_object().unwrap(), now, &jitter);
            assert!(next.refuses(&digest(1), now).is_some() && next.refuses(&digest(2), now).is_none());
            assert!(next.refuses(&digest(1), next.until).is_none());
            pauses.push(next.until.since(now));
            bad = Some(next);
        }
        assert!(pauses[0] <= FIRST * 2 && pauses.iter().all(|pause| *pause <= longest * 2), "{pauses:?}");
        assert!(pauses[19] > pauses[0] * 4, "{pauses:?}");
        let other = BadObject::after(bad.as_ref(), digest(2), error.of_bad_object().unwrap(), now, &jitter);
        assert_eq!(other.times, 1, "another object begins anew");
    }
}

#[test]
fn an_attempt_is_not_repeated_before_its_object_is_fetched_again() {
    let now = Monotonic::from_seconds(100);
    let mut bad = BadObject::after(None, digest(1), wrong().of_bad_object().unwrap(), now, &Jitter::default());
    let attempt = |from: Option<&str>, to| (from.map(str::to_owned), digest(to));
    assert_eq!(bad.refuses_attempt(&attempt(None, 9), now), None);
    bad.ended = Some(attempt(None, 9));
    assert!(bad.refuses_attempt(&attempt(None, 9), now).is_some());
    assert_eq!(bad.refuses_attempt(&attempt(Some("a"), 9), now), None, "it stands elsewhere");
    assert_eq!(bad.refuses_attempt(&attempt(None, 8), now), None, "the chain leads elsewhere");
    assert_eq!(bad.refuses_attempt(&attempt(None, 9), bad.until), None);
}

#[test]
fn what_is_wrong_names_the_object_and_what_helps() {
    let of = |error: &FollowError| error.of_bad_object().unwrap().1;
    assert!(of(&missing()).starts_with("full/x.gsb is not in the object store; the publisher writes everything again"));
    assert!(
        of(&wrong())
            .starts_with("delta/x.gsb in the object store is not what the head names: its hash is another one; ")
    );
    let error =
        BundleError::NeedsBase { needed: crate::data::snapshot::content::SnapshotId::parse(&"1".repeat(32)).unwrap() };
    let text = misfit("delta/x.gsb", &error);
    assert!(text.starts_with("delta/x.gsb does not fit the data before it (") && text.contains("remove head.json"));
}
