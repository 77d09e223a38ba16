//! What a replica does about a head: nothing, renew, fetch deltas, fetch everything, or refuse it.
//!
//! Pure. Callers: [`super::replica`].

use super::head::{Head, NamedBundle};
use super::keys::Digest;
use crate::clock::WallTime;
use crate::snapshots::follow::{Stand, Taken};

/// The publisher's clock may be this far ahead: such stamps count as now.
const AHEAD_MS: i64 = 60_000;

/// What is to be done about a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision<'a> {
    /// It was taken before, and its data is still here.
    Nothing,
    /// It only confirms the data that is here.
    Renew,
    /// These deltas are missing, in this order.
    Deltas(&'a [NamedBundle]),
    /// Everything: the full bundle, then these deltas.
    Full(&'a NamedBundle, &'a [NamedBundle]),
    /// It is older than one that was taken, or another one of the same number.
    Refuse(Refusal),
}

/// Why a head is not taken. The data stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// An old copy of the object store was restored, or an attacker sends an old head.
    #[error(
        "the object store has head {found}, which is older than head {taken} that was taken here; an old copy of the object \
         store was restored, or somebody sends an old one; if the publisher began its numbers again, send \
         `POST /refresh?forget=sequence` to this replica"
    )]
    Older {
        /// The number of the head in the object store.
        found: u64,
        /// The highest number that was taken.
        taken: u64,
    },
    /// Another head with the same number: there are two publishers, or it is forged.
    #[error(
        "head {0} in the object store differs from the head {0} that this replica took before; do two publishers write there?"
    )]
    Rival(u64),
}

/// What marks a head as taken.
pub(crate) fn taken(head: &Head) -> Taken {
    Taken { sequence: head.sequence, text: blake3::hash(head.text().as_bytes()).to_hex().to_string() }
}

/// What a replica at `stand` does about a head.
///
/// A head that was taken is taken again only where its data is missing, after an import by hand or a repair.
pub(crate) fn decide<'a>(stand: &Stand, head: &'a Head) -> Decision<'a> {
    let (found, taken_before) = (head.sequence, stand.taken.sequence);
    if found < taken_before {
        return Decision::Refuse(Refusal::Older { found, taken: taken_before });
    }
    let again = found == taken_before;
    if again && taken(head) != stand.taken {
        return Decision::Refuse(Refusal::Rival(found));
    }
    let missing = stand.digest.as_deref().and_then(Digest::parse).and_then(|digest| head.after(&digest));
    match missing {
        Some([]) if again => Decision::Nothing,
        Some([]) => Decision::Renew,
        Some(deltas) => Decision::Deltas(deltas),
        None => everything(head),
    }
}

/// All bundles of a head.
fn everything(head: &Head) -> Decision<'_> {
    Decision::Full(&head.full, &head.deltas)
}

/// The instant of confirmation as it is believed here: a little ahead of our clock counts as now. Further ahead it
/// stays, and confirms nothing.
pub(crate) fn believed_ms(confirmed_ms: i64, now: WallTime) -> i64 {
    let now_ms = now.as_millis();
    if confirmed_ms > now_ms && confirmed_ms.saturating_sub(now_ms) <= AHEAD_MS { now_ms } else { confirmed_ms }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::head::NamedJournal;
    use super::*;
    use crate::snapshot::content::SnapshotId;
    use crate::snapshot::meta::Certificate;

    fn digest(n: u8) -> Digest {
        Digest::new([n; 32])
    }

    fn bundle(base: Option<u8>, own: u8) -> NamedBundle {
        let snapshot = SnapshotId::parse(&format!("{own:032x}")).unwrap();
        NamedBundle { base: base.map(digest), digest: digest(own), snapshot, bytes: 10, blake3: digest(own) }
    }

    /// A head whose full bundle is `first`, with deltas up to `last`.
    fn head(sequence: u64, first: u8, last: u8) -> Head {
        let deltas: Vec<NamedBundle> = (first + 1..=last).map(|own| bundle(Some(own - 1), own)).collect();
        let full = bundle(None, first);
        let snapshot = deltas.last().unwrap_or(&full).snapshot.clone();
        let journal = NamedJournal { bytes: 1, blake3: digest(0) };
        let (written_ms, confirmed_ms, certificate) = (5, 4, Certificate::Full);
        Head { sequence, written_ms, confirmed_ms, certificate, snapshot, full, deltas, journal }
    }

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
            (stand(None, None), &new, Decision::Full(&new.full, &new.deltas)),
            (stand(None, None), &head(3, 5, 5), Decision::Full(&bundle(None, 5), &[])),
            // Along the chain.
            (stand(Some(&old), Some(3)), &new, Decision::Deltas(&new.deltas[2..])),
            (stand(Some(&old), Some(1)), &new, Decision::Deltas(&new.deltas)),
            (stand(Some(&old), Some(6)), &new, Decision::Renew),
            // On no chain of it.
            (stand(Some(&old), Some(3)), &other, Decision::Full(&other.full, &other.deltas)),
            (stand(Some(&old), None), &new, Decision::Full(&new.full, &new.deltas)),
            // The same head once more.
            (stand(Some(&new), Some(6)), &new, Decision::Nothing),
            // It was taken, and its data is gone: by an import or a repair.
            (stand(Some(&new), None), &new, Decision::Full(&new.full, &new.deltas)),
            (stand(Some(&new), Some(5)), &new, Decision::Deltas(&new.deltas[4..])),
            // A rollback of the publisher: an earlier snapshot under a higher number.
            (stand(Some(&old), Some(3)), &head(8, 1, 2), Decision::Full(&bundle(None, 1), &[bundle(Some(1), 2)])),
        ] {
            assert_eq!(decide(&at, head), want, "{at:?}");
        }
    }

    #[test]
    fn a_head_that_is_not_higher_is_refused_whatever_it_names() {
        let taken = head(9, 1, 6);
        for digest in [None, Some(1), Some(6), Some(9)] {
            let at = stand(Some(&taken), digest);
            assert_eq!(decide(&at, &head(8, 1, 6)), Decision::Refuse(Refusal::Older { found: 8, taken: 9 }));
            assert_eq!(decide(&at, &head(0, 1, 7)), Decision::Refuse(Refusal::Older { found: 0, taken: 9 }));
            assert_eq!(decide(&at, &head(9, 1, 7)), Decision::Refuse(Refusal::Rival(9)));
            assert_eq!(decide(&at, &Head { confirmed_ms: 5, ..taken.clone() }), Decision::Refuse(Refusal::Rival(9)));
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
                    Decision::Refuse(_) => prop_assert!(sequence <= before),
                    Decision::Nothing => prop_assert_eq!(&at.taken, &taken(&head)),
                    found => {
                        prop_assert!(sequence > before || at.taken == taken(&head));
                        // What it fetches leads from where it stands to the end.
                        let (from, last) = match found {
                            Decision::Full(full, deltas) => (None, deltas.last().unwrap_or(full).digest),
                            Decision::Deltas(deltas) => (deltas[0].base, deltas.last().unwrap().digest),
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
}
