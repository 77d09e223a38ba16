//! What the origin could not answer lately: it is asked for that again, but not by everybody at once.
//!
//! Per resource; the origin as a whole is left alone by [`crate::origin::client`]. Time is an argument. Callers:
//! [`super::read_through`], [`super::pass_through`].

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cache::Key;
use crate::clock::Monotonic;
use crate::origin::client::AskError;

/// How long a resource that keeps failing is left alone at most: its return shows within seconds.
const LONGEST: Duration = Duration::from_secs(4);
/// After how many failures in a row it is left alone at all.
const FEW: u32 = 2;
/// How many resources are remembered.
const MOST: usize = 4096;

#[derive(Debug)]
struct Failing {
    times: u32,
    until: Monotonic,
    error: AskError,
}

/// The failures of late.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<Key, Failing>>);

impl Failures {
    /// Why a resource is being left alone, if it is.
    pub fn resting(&self, key: &Key, now: Monotonic) -> Option<AskError> {
        let failing = self.0.lock();
        let failing = failing.get(key).filter(|failing| failing.until > now)?;
        Some(failing.error.clone())
    }

    /// The origin gave no answer. A spent budget is nobody's failure.
    pub fn failed(&self, key: &Key, error: &AskError, now: Monotonic) {
        if matches!(error, AskError::Spent(_)) {
            return;
        }
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.retain(|_, failing| failing.until.plus(LONGEST) > now);
            if all.len() >= MOST {
                all.clear();
            }
        }
        let times = all.get(key).map_or(1, |failing| failing.times.saturating_add(1));
        let rest = times.checked_sub(FEW).map_or(Duration::ZERO, |more| Duration::from_secs(1 << more.min(2)));
        all.insert(key.clone(), Failing { times, until: now.plus(rest.min(LONGEST)), error: error.clone() });
    }

    /// The origin gave an answer.
    pub fn answered(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_keeps_failing_is_left_alone_for_seconds_at_most() {
        let failures = Failures::default();
        let (key, other) = (Key::origin("/a"), Key::origin("/b"));
        let error = AskError::nonsense("/a", "HTML");
        let mut now = Monotonic::from_seconds(100);
        failures.failed(&key, &error, now);
        assert!(failures.resting(&key, now).is_none(), "once is not often");
        for seconds in [1, 2, 4, 4, 4] {
            failures.failed(&key, &error, now);
            let rest = Duration::from_secs(seconds);
            assert!(failures.resting(&key, now).is_some() && failures.resting(&other, now).is_none());
            assert!(failures.resting(&key, now.plus(rest.saturating_sub(Duration::from_millis(1)))).is_some());
            now = now.plus(rest);
            assert!(failures.resting(&key, now).is_none(), "{seconds} s");
        }
        failures.failed(&key, &error, now);
        failures.answered(&key);
        assert!(failures.resting(&key, now).is_none());
        failures.failed(&other, &AskError::Spent(crate::origin::budget::Spent::soon()), now);
        failures.failed(&other, &AskError::Spent(crate::origin::budget::Spent::soon()), now);
        assert!(failures.resting(&other, now).is_none(), "a spent budget is no failure");
    }

    #[test]
    fn the_memory_is_bounded() {
        let failures = Failures::default();
        for number in 0..10_000 {
            let key = Key::origin(format!("/{number}"));
            failures.failed(&key, &AskError::nonsense("/", "x"), Monotonic::from_seconds(1));
        }
        assert!(failures.0.lock().len() <= MOST);
    }
}
