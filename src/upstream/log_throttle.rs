//! Log lines about the origin's failures, at most once a minute: that it is paused, answers again, or fails.
//!
//! Pure but for its memory: time is an argument; callers log. Callers: [`super::client`].

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Monotonic;

/// How far apart lines of one kind are.
const EVERY: Duration = Duration::from_secs(60);

/// One kind of line.
#[derive(Debug, Default)]
struct Lines {
    last: Option<Monotonic>,
    untold: u64,
}

impl Lines {
    /// How many since the last line, with this one; `None` when no line is due.
    fn one_more(&mut self, now: Monotonic) -> Option<u64> {
        self.untold += 1;
        if self.last.is_some_and(|last| now.since(last) < EVERY) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// Recent lines.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    left_alone: bool,
    outage: Lines,
    others: Lines,
}

impl LogThrottle {
    /// The origin is paused after a failure: the number of failures since the last line, if a line is due.
    pub(crate) fn left_alone(&self, now: Monotonic) -> Option<u64> {
        let mut memory = self.0.lock();
        if !std::mem::replace(&mut memory.left_alone, true) {
            memory.outage.last = None;
        }
        memory.outage.one_more(now)
    }

    /// A client's read failed, the origin as a whole may work: as above.
    pub(crate) fn failed(&self, now: Monotonic) -> Option<u64> {
        let mut memory = self.0.lock();
        if memory.left_alone {
            memory.outage.untold += 1;
            return None;
        }
        memory.others.one_more(now)
    }

    /// The origin answered; `true` when it was paused until now.
    pub(crate) fn answered(&self) -> bool {
        let mut memory = self.0.lock();
        memory.outage.untold = 0;
        std::mem::take(&mut memory.left_alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_at_its_beginning_once_a_minute_and_at_its_end() {
        let (told, at) = (LogThrottle::default(), Monotonic::from_seconds);
        assert!(!told.answered());
        assert_eq!(told.left_alone(at(100)), Some(1));
        let lines: Vec<_> = (101..280).filter_map(|second| told.left_alone(at(second))).collect();
        assert_eq!(lines, [60, 60]);
        assert_eq!(told.failed(at(281)), None, "it is a part of it");
        assert!(told.answered());
        assert!(!told.answered(), "once");
        assert_eq!(told.left_alone(at(282)), Some(1), "another one");
    }

    #[test]
    fn other_failures_are_told_once_a_minute_with_their_number() {
        let (told, at) = (LogThrottle::default(), Monotonic::from_seconds);
        let lines: Vec<_> = (100..221).filter_map(|second| told.failed(at(second))).collect();
        assert_eq!(lines, [1, 60, 60]);
        assert!(!told.answered());
        assert_eq!(told.failed(at(221)), None, "an answer between makes it no other kind of failure");
    }
}
