//! When the copy is complete, as it is told: an estimate that does not jump.
//!
//! The pace of requests varies, and it rests while a snapshot is published. So an earlier end is told at once, a later one
//! only if it stays, and then with the reason. Pure but for its memory. Callers: [`super::status`].

use std::time::Duration;

use crate::clock::Monotonic;

/// For how long a later end must be estimated before it is told.
const DOUBT: Duration = Duration::from_secs(15);
/// For how long the reason for a later end is told.
const REASON: Duration = Duration::from_secs(60);

const SLOWER: &str = "the budget is spent, or requests take longer than before";
const MORE: &str = "there is more to fetch than was known";

/// An estimate at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Until the end.
    pub seconds: u64,
    /// Requests until then.
    pub left: u64,
}

/// The end that was told last; `None`: none.
#[derive(Debug, Default)]
pub(crate) struct Promise(Option<Told>);

#[derive(Debug)]
struct Told {
    end: Monotonic,
    /// The requests that were left when this end was first told.
    left: u64,
    /// Since when the estimates are later.
    later_since: Option<Monotonic>,
    /// Why the end was moved to later, and when.
    moved: Option<(&'static str, Monotonic)>,
}

impl Promise {
    /// What is told of an estimate: the seconds until the end, and why that is later than was told before.
    pub(super) fn told(&mut self, estimate: Option<Estimate>, now: Monotonic) -> Option<(u64, Option<&'static str>)> {
        let Some(Estimate { seconds, left }) = estimate.filter(|estimate| estimate.seconds > 0) else {
            self.0 = None;
            return estimate.map(|_| (0, None));
        };
        let end = now.plus(Duration::from_secs(seconds));
        let told = self.0.get_or_insert(Told { end, left, later_since: None, moved: None });
        if end <= told.end {
            (told.end, told.left, told.later_since) = (end, left, None);
        } else if now.since(*told.later_since.get_or_insert(now)) >= DOUBT {
            let why = if left > told.left { MORE } else { SLOWER };
            (told.end, told.left, told.later_since, told.moved) = (end, left, None, Some((why, now)));
        }
        let why = told.moved.filter(|(_, at)| now.since(*at) < REASON).map(|(why, _)| why);
        // Overdue is not complete.
        Some((told.end.since(now).as_secs().max(1), why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of estimates, one every `step` seconds.
    fn told(step: u64, estimates: &[(u64, u64)]) -> Vec<(u64, Option<&'static str>)> {
        let mut promise = Promise::default();
        let at = |n: usize| Monotonic::from_seconds(step * n as u64);
        let each = |(n, &(seconds, left))| promise.told(Some(Estimate { seconds, left }), at(n)).unwrap();
        estimates.iter().enumerate().map(each).collect()
    }

    #[test]
    fn an_end_that_is_estimated_later_for_a_moment_is_not_told() {
        let jumps = [(40, 80), (30, 70), (27, 60), (21, 50), (29, 40), (93, 30), (7, 10), (0, 0)];
        let seconds: Vec<u64> = told(3, &jumps).into_iter().map(|(seconds, _)| seconds).collect();
        assert_eq!(seconds, [40, 30, 27, 21, 18, 15, 7, 0]);
    }

    #[test]
    fn an_end_that_stays_later_is_told_with_the_reason() {
        let slower: Vec<(u64, u64)> = (0..8).map(|n| (100, 100 - n)).collect();
        let told_then = told(5, &slower);
        assert_eq!(told_then[..4], [(100, None), (95, None), (90, None), (85, None)]);
        assert_eq!(told_then[4..6], [(100, Some(SLOWER)), (95, Some(SLOWER))]);
        assert_eq!(told(20, &[(100, 90), (100, 200), (100, 199)])[2], (100, Some(MORE)));
        assert_eq!(told(20, &[(9, 9), (30, 8)])[1], (1, None), "overdue");
        let mut promise = Promise::default();
        for (estimate, at, expected) in [
            (Some(9), 0, Some((9, None))),
            (None, 1, None),
            (Some(90), 2, Some((90, None))),
            (Some(0), 3, Some((0, None))),
        ] {
            let estimate = estimate.map(|seconds| Estimate { seconds, left: 1 });
            assert_eq!(promise.told(estimate, Monotonic::from_seconds(at)), expected);
        }
    }
}
