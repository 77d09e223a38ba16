//! Throttle for log lines that a client could repeat without end.
//!
//! Callers: [`crate::edge::serve`], [`crate::edge::shared_limit`].

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Monotonic;

/// Log lines of one kind, at most one a minute.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<(Option<Monotonic>, u64)>);

impl LogThrottle {
    /// Counts one event. Returns how many came since the last line, this one included; `None`: no line is due.
    pub(crate) fn count(&self, now: Monotonic) -> Option<u64> {
        const EVERY: Duration = Duration::from_secs(60);
        let (last, suppressed) = &mut *self.0.lock();
        *suppressed += 1;
        if last.is_some_and(|last| now.since(last) < EVERY) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_once_a_minute_with_their_number() {
        let (told, at) = (LogThrottle::default(), Monotonic::from_seconds);
        let lines: Vec<_> = (100..221).filter_map(|second| told.count(at(second))).collect();
        assert_eq!(lines, [1, 60, 60]);
    }
}
