//! How long the rest takes at the measured pace, no faster than the budget allows.
//!
//! Pure, `now` is an argument. Callers: [`super::status`] measures, [`crate::admin`] and [`crate::cli`] show.

use std::time::{Duration, Instant};

/// How long the pace is measured before it counts.
const WINDOW: Duration = Duration::from_secs(10);

/// Requests per second, over the last ten seconds or so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// When the window began, and the requests since.
    window: Option<(Instant, u64)>,
    /// The pace one window ago.
    before: Option<f64>,
}

impl Pace {
    /// One more request.
    pub fn count(&mut self, now: Instant) {
        let (began, count) = self.window.get_or_insert((now, 0));
        *count += 1;
        let elapsed = now.saturating_duration_since(*began);
        if elapsed >= WINDOW {
            self.before = Some(*count as f64 / elapsed.as_secs_f64());
            self.window = Some((now, 0));
        }
    }

    /// Requests per second; `None` while too few are known.
    pub fn per_second(&self, now: Instant) -> Option<f64> {
        let (began, count) = self.window?;
        let elapsed = now.saturating_duration_since(began);
        // A window without requests shows a stop sooner than the window before.
        let current = (elapsed >= Duration::from_secs(1) && count > 0).then(|| count as f64 / elapsed.as_secs_f64());
        match self.before {
            Some(before) if elapsed < WINDOW => Some(before),
            _ => current,
        }
    }
}

/// Seconds for so many requests; `None` while the pace is unknown. `per_minute`: the budget's limit.
pub(crate) fn seconds(left: u64, per_minute: Option<usize>, per_second: Option<f64>) -> Option<u64> {
    if left == 0 {
        return Some(0);
    }
    let by_budget = per_minute.map(|limit| left.saturating_mul(60) / limit.max(1) as u64);
    let by_pace = per_second.filter(|pace| *pace > 0.0).map(|pace| (left as f64 / pace).ceil() as u64);
    by_budget.max(by_pace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_slower_of_budget_and_pace_says() {
        for (left, per_minute, per_second, eta) in [
            (0, None, None, Some(0)),
            (600, Some(60), None, Some(600)),
            (600, Some(60), Some(100.0), Some(600)),
            (600, Some(60), Some(0.5), Some(1200)),
            (600, None, Some(100.0), Some(6)),
            (600, None, None, None),
            (u64::MAX, Some(60), Some(1.0), Some(u64::MAX)),
        ] {
            assert_eq!(seconds(left, per_minute, per_second), eta, "{left} {per_minute:?} {per_second:?}");
        }
    }

    #[test]
    fn a_pace_is_what_was_counted_lately() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert_eq!(pace.per_second(start), None);
        (0..=100).for_each(|n| pace.count(at(n * 20)));
        assert!((pace.per_second(at(2_000)).unwrap() - 50.5).abs() < 0.1);
        (101..=500).for_each(|n| pace.count(at(n * 20)));
        assert!((pace.per_second(at(10_500)).unwrap() - 50.1).abs() < 0.1, "the window before");
        pace.count(at(12_000));
        assert!(pace.per_second(at(30_000)).unwrap() < 0.1, "it has come to a stop");
    }
}
