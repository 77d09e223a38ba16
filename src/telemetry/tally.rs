//! Answers in a few groups, and their times: what the charts of the console are drawn from.
//!
//! The counters for `/metrics` are finer, but cannot be read back. Callers: [`super`].

use std::sync::atomic::{AtomicU64, Ordering};

/// How an answer came about, in as many words as a chart has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// From the snapshot or the cache, fresh.
    Fresh,
    /// From the snapshot or the cache, stale.
    Stale,
    /// The origin was asked.
    Origin,
    /// Refused by the rate limit (429).
    Refused,
    /// An error of ours.
    Error,
    /// A page, a preflight, or `OPTIONS`.
    Other,
}

impl Group {
    /// Every group, in the order of the discriminants.
    pub(crate) const ALL: [Self; 6] = [Self::Fresh, Self::Stale, Self::Origin, Self::Refused, Self::Error, Self::Other];

    /// The word for metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Stale => "stale",
            Self::Origin => "origin",
            Self::Refused => "refused",
            Self::Error => "error",
            Self::Other => "other",
        }
    }

    /// The group of an outcome's word.
    pub(super) fn of(outcome: &str) -> Self {
        match outcome {
            "hit" => Self::Fresh,
            "hit-stale" | "stale-if-error" => Self::Stale,
            "refused" => Self::Refused,
            "problem" => Self::Error,
            "document" | "preflight" | "options" => Self::Other,
            _ => Self::Origin,
        }
    }
}

/// Answers since the start.
#[derive(Debug, Default)]
pub(super) struct Tally {
    groups: [AtomicU64; Group::ALL.len()],
    not_modified: AtomicU64,
}

impl Tally {
    /// Counts answers of one outcome and status.
    pub(super) fn add(&self, outcome: &str, status: u16, count: u64) {
        self.groups[Group::of(outcome) as usize].fetch_add(count, Ordering::Relaxed);
        if status == 304 {
            self.not_modified.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Answers by group, and those with status 304.
    pub(super) fn read(&self) -> ([u64; Group::ALL.len()], u64) {
        let groups = std::array::from_fn(|at| self.groups[at].load(Ordering::Relaxed));
        (groups, self.not_modified.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_group() {
        let tally = Tally::default();
        for (outcome, status) in [
            ("hit", 200),
            ("hit", 304),
            ("hit-stale", 200),
            ("uri-miss", 304),
            ("refused", 429),
            ("problem", 404),
            ("options", 204),
            ("document", 200),
        ] {
            tally.add(outcome, status, 2);
        }
        assert_eq!(tally.read(), ([4, 2, 2, 2, 2, 4], 4));
        for (at, group) in Group::ALL.into_iter().enumerate() {
            assert_eq!(at, group as usize);
        }
    }
}
