//! Which snapshots are kept: the newest ones, the last of each day, and needed ones.
//!
//! Pure. Callers: [`super::Snapshots::tidy`].

use std::collections::HashSet;

use crate::config::MirrorConfig;

/// Milliseconds in a day, which begins at 00:00 UTC.
const DAY_MS: i64 = 86_400_000;

/// How many snapshots stay although nothing needs them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    /// The newest ones, at least one.
    pub keep: usize,
    /// So many days of which the last snapshot stays.
    pub keep_daily: usize,
}

/// The inputs of the decision about a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Its sequence number.
    pub seq: u64,
    /// When it was published; milliseconds since the epoch.
    pub published_ms: i64,
    /// Whether it must stay, for example pinned or current.
    pub needed: bool,
}

impl Retention {
    /// As it is configured.
    pub(super) fn of(mirror: &MirrorConfig) -> Self {
        Self { keep: mirror.keep as usize, keep_daily: mirror.keep_daily as usize }
    }

    /// The sequence numbers of the snapshots that stay.
    pub(super) fn staying(self, candidates: &[Candidate]) -> Vec<u64> {
        let mut newest_first = candidates.to_vec();
        newest_first.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.seq));
        let mut days = HashSet::new();
        let mut staying: Vec<u64> = Vec::new();
        for (place, candidate) in newest_first.iter().enumerate() {
            let is_last_of_day = days.len() < self.keep_daily && days.insert(candidate.published_ms.div_euclid(DAY_MS));
            if place < self.keep.max(1) || is_last_of_day || candidate.needed {
                staying.push(candidate.seq);
            }
        }
        staying.sort_unstable();
        staying
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u64, day: i64, needed: bool) -> Candidate {
        Candidate { seq, published_ms: day * DAY_MS + seq.cast_signed(), needed }
    }

    #[test]
    fn the_newest_the_last_of_each_day_and_what_is_needed_stay() {
        let all: Vec<Candidate> =
            [0, 0, 1, 1, 1, 2, 4, 4, 4, 4].into_iter().zip(1..).map(|(day, seq)| at(seq, day, seq == 1)).collect();
        let staying = |keep, keep_daily| Retention { keep, keep_daily }.staying(&all);
        assert_eq!(staying(2, 0), [1, 9, 10]);
        assert_eq!(staying(0, 0), [1, 10], "one always stays");
        assert_eq!(staying(1, 3), [1, 5, 6, 10], "the last of days 4, 2 and 1");
        assert_eq!(staying(3, 9), [1, 2, 5, 6, 8, 9, 10]);
        assert_eq!(staying(99, 0).len(), 10);
        assert!(Retention { keep: 1, keep_daily: 1 }.staying(&[]).is_empty());
    }

    #[test]
    fn a_clock_that_was_set_back_drops_no_newer_snapshot() {
        let all = [at(1, 9, false), at(2, 9, false), at(3, 5, false), at(4, 5, false)];
        assert_eq!(Retention { keep: 1, keep_daily: 2 }.staying(&all), [2, 4]);
    }
}
