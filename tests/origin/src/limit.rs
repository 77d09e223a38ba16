//! The origin's rate limit: exact, over arrivals, on the monotonic clock.
//!
//! As simple as possible: it remembers every admission of the last minute. Tests compare the mirror's limiter with it.
//! Callers: the server, once per request while a limit is set.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Length of the trailing window.
const WINDOW: Duration = Duration::from_secs(60);

/// Admissions of the last minute, by client address.
#[derive(Debug, Default)]
pub(super) struct Limit {
    admitted: HashMap<IpAddr, VecDeque<Instant>>,
}

impl Limit {
    /// Counts an arrival. If the address has used up its `most`, nothing is counted, and the error is the time until
    /// the next one would be admitted.
    pub(super) fn admit(&mut self, client: IpAddr, most: u32, now: Instant) -> Result<(), Duration> {
        let window = self.admitted.entry(client).or_default();
        while window.front().is_some_and(|first| now.duration_since(*first) >= WINDOW) {
            window.pop_front();
        }
        if window.len() < most as usize {
            window.push_back(now);
            return Ok(());
        }
        // After the limit was lowered, more than the oldest must leave.
        let leaves = window.get((window.len() - most as usize).min(window.len().saturating_sub(1)));
        Err(leaves.map_or(WINDOW, |at| WINDOW.saturating_sub(now.duration_since(*at))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_61st_is_refused_until_the_first_is_a_minute_old() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        let client = IpAddr::from([127, 0, 0, 1]);
        let mut admit = |millis| limit.admit(client, 60, start + Duration::from_millis(millis));
        for nth in 0..60 {
            assert_eq!(admit(nth * 100), Ok(()));
        }
        assert_eq!(admit(6_000), Err(Duration::from_secs(54)));
        assert_eq!(admit(59_999), Err(Duration::from_millis(1)));
        assert_eq!(admit(60_000), Ok(()));
        assert_eq!(admit(60_050), Err(Duration::from_millis(50)));
        assert_eq!(limit.admit(IpAddr::from([127, 0, 0, 2]), 60, start), Ok(()));
        assert_eq!(limit.admit(client, 0, start), Err(WINDOW));
    }
}
