//! Estimated time of completion: when the first copy is complete, without jumps.
//!
//! The pace of requests varies, and it rests while a snapshot is published. So an earlier end is shown at once. While
//! estimates move to later, none is shown. Pure but for its memory. Callers: [`super::status`].

use std::time::Duration;

use crate::clock::Monotonic;

/// How long estimates may be later than the end that was shown before none is shown; and for how long they must not move
/// to later before one is shown again.
const DOUBT: Duration = Duration::from_secs(15);

/// The end that was shown last; `None`: none.
#[derive(Debug, Default)]
pub(crate) struct Promise(Option<Told>);

#[derive(Debug)]
struct Told {
    end: Monotonic,
    /// Since when estimates are later.
    later_since: Option<Monotonic>,
    /// Until when none is shown.
    hidden_until: Option<Monotonic>,
}

impl Promise {
    /// The shown estimate: seconds until the end; `None`: unknown.
    pub(super) fn told(&mut self, estimate: Option<u64>, now: Monotonic) -> Option<u64> {
        let Some(seconds) = estimate.filter(|seconds| *seconds > 0) else {
            self.0 = None;
            return estimate;
        };
        let end = now.plus(Duration::from_secs(seconds));
        let told = self.0.get_or_insert(Told { end, later_since: None, hidden_until: None });
        if end <= told.end {
            (told.end, told.later_since) = (end, None);
        } else if told.hidden_until.is_some() || now.since(*told.later_since.get_or_insert(now)) >= DOUBT {
            *told = Told { end, later_since: None, hidden_until: Some(now.plus(DOUBT)) };
        }
        if told.hidden_until.is_some_and(|until| until > now) {
            return None;
        }
        told.hidden_until = None;
        // Overdue is not complete.
        Some(told.end.since(now).as_secs().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown for estimates, one every `step` seconds.
    fn told(step: u64, estimates: &[u64]) -> Vec<Option<u64>> {
        let mut promise = Promise::default();
        let at = |n: usize| Monotonic::from_seconds(step * n as u64);
        estimates.iter().enumerate().map(|(n, &seconds)| promise.told(Some(seconds), at(n))).collect()
    }

    #[test]
    fn an_end_that_is_estimated_later_for_a_moment_is_not_told() {
        let seconds = told(3, &[40, 30, 27, 21, 29, 93, 7, 0]);
        assert_eq!(seconds, [40, 30, 27, 21, 18, 15, 7, 0].map(Some));
    }

    #[test]
    fn while_the_end_moves_to_later_none_is_told() {
        let rising = told(5, &[100; 8]);
        assert_eq!(rising[..4], [Some(100), Some(95), Some(90), Some(85)]);
        assert_eq!(rising[4..], [None; 4]);
        let steady = told(5, &[100, 100, 100, 100, 100, 95, 90, 85, 80]);
        assert_eq!(steady[4..], [None, None, None, Some(85), Some(80)]);
        assert_eq!(told(20, &[9, 30])[1], Some(1), "overdue");
        assert_eq!(Promise::default().told(None, Monotonic::from_seconds(1)), None);
    }
}
