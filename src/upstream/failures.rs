//! Resources that failed lately: they are requested again after a pause, not at once by every client.
//!
//! Per resource; [`super::client`] pauses the origin as a whole. Time is an argument. Callers:
//! [`crate::mirror::details`], [`crate::proxy`].

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher};
use std::time::Duration;

use parking_lot::Mutex;

use crate::cache::Key;
use crate::clock::Monotonic;

use super::error::AskError;

/// The longest pause of a resource that keeps failing: its return shows within seconds.
const LONGEST: Duration = Duration::from_secs(4);
/// The longest pause that the origin may ask for: it may be well again much sooner.
const LONGEST_ASKED: Duration = Duration::from_secs(300);
/// How many failures in a row begin a pause.
const FEW: u32 = 2;
/// How many resources are remembered.
const MOST: usize = 4096;

#[derive(Debug)]
struct Failing {
    times: u32,
    until: Monotonic,
    error: AskError,
}

/// Recent failures.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<Name, Failing>>);

/// 128 bits of the hash of a key, which may be long.
type Name = [u8; 16];

/// Collects a key's hash. No shorter hash would do: a collision could pause another's resource.
struct Naming(blake3::Hasher);

impl Hasher for Naming {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Never asked for.
    fn finish(&self) -> u64 {
        0
    }
}

fn name(key: &Key) -> Name {
    let mut naming = Naming(blake3::Hasher::new());
    key.hash(&mut naming);
    let mut name = Name::default();
    naming.0.finalize_xof().fill(&mut name);
    name
}

impl Failures {
    /// Why a resource is paused, if it is.
    pub(crate) fn resting(&self, key: &Key, now: Monotonic) -> Option<AskError> {
        let failing = self.0.lock();
        let failing = failing.get(&name(key)).filter(|failing| failing.until > now)?;
        let mut error = failing.error.clone();
        if let AskError::Status { retry_after: Some(wait), .. } = &mut error {
            *wait = failing.until.since(now);
        }
        Some(error)
    }

    /// The origin gave no answer. A spent budget does not count as a failure.
    pub(crate) fn failed(&self, key: &Key, error: &AskError, now: Monotonic) {
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
        let name = name(key);
        let times = all.get(&name).map_or(1, |failing| failing.times.saturating_add(1));
        let own = times.checked_sub(FEW).map_or(Duration::ZERO, |more| Duration::from_secs(1 << more.min(2)));
        let asked = match error {
            AskError::Status { status: 429 | 500.., retry_after: Some(asked), .. } => (*asked).min(LONGEST_ASKED),
            _ => Duration::ZERO,
        };
        let until = now.plus(own.min(LONGEST).max(asked));
        all.insert(name, Failing { times, until, error: error.clone().shortened() });
    }

    /// The origin gave an answer.
    pub(crate) fn answered(&self, key: &Key) {
        self.0.lock().remove(&name(key));
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
        failures.failed(&other, &AskError::Spent(super::super::budget::Spent::soon()), now);
        failures.failed(&other, &AskError::Spent(super::super::budget::Spent::soon()), now);
        assert!(failures.resting(&other, now).is_none(), "a spent budget is no failure");
    }

    /// As long as the origin asks for, but not so long that its recovery is noticed late.
    #[test]
    fn a_resource_rests_as_long_as_the_origin_asks_for_it_within_five_minutes() {
        let (failures, now) = (Failures::default(), Monotonic::from_seconds(100));
        let error = |status, seconds| AskError::Status {
            status,
            path: "/".into(),
            retry_after: Some(Duration::from_secs(seconds)),
        };
        for (number, (status, asked, rests)) in [(503, 30, 30), (500, 3600, 300), (429, 30, 30)].into_iter().enumerate()
        {
            let key = Key::origin(format!("/{number}"));
            failures.failed(&key, &error(status, asked), now);
            let later = |seconds| now.plus(Duration::from_secs(seconds));
            assert!(failures.resting(&key, later(rests)).is_none(), "{status} {asked}");
            if let Some(just_before) = u64::checked_sub(rests, 1) {
                let told = failures.resting(&key, later(just_before)).unwrap();
                assert_eq!(told.retry_after(), Duration::from_secs(1), "what is left of it");
            }
        }
    }

    #[test]
    fn what_is_remembered_of_a_failure_is_short_however_long_the_address() {
        let (failures, now) = (Failures::default(), Monotonic::from_seconds(100));
        let path = format!("/{}", "\u{e9}".repeat(30_000));
        for _ in 0..2 {
            failures.failed(&Key::origin(&path), &AskError::nonsense(&path, "HTML"), now);
        }
        let told = failures.resting(&Key::origin(&path), now).unwrap();
        assert!(told.path().unwrap().len() <= 204, "{told}");
        assert!(failures.resting(&Key::origin(format!("{path}x")), now).is_none());
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
