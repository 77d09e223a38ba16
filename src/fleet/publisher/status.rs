//! The state of the publisher, for `/status`, metrics and the log.
//!
//! Callers: [`super`] writes it, [`crate::admin`] shows it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Monotonic, WallTime};

/// The state of the publisher; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublishStatus(Arc<Mutex<View>>);

/// The same at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The number of the last head in the object store; `None`: none was written yet.
    pub sequence: Option<u64>,
    /// When the object store last had everything.
    pub last_success: Option<WallTime>,
    /// Since when the object store lacks something, or cannot be asked; `None`: it has everything.
    pub behind_since: Option<Monotonic>,
    /// Why the last attempt failed, as a sentence; `None`: it did not.
    why: Option<String>,
    /// What was found missing or altered, as a sentence, until everything was read back; `None`: nothing.
    broken: Option<String>,
    /// Objects written, by kind: full bundles, deltas, heads.
    pub written: [u64; 3],
    /// Bytes of bundles.
    pub bytes: u64,
    /// Failed attempts by the word for their reason.
    pub failures: Vec<(&'static str, u64)>,
}

/// The kinds of [`View::written`].
pub(crate) const KINDS: [&str; 3] = ["full", "delta", "head"];

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Full = 0,
    Delta = 1,
    Head = 2,
}

impl View {
    /// For how many seconds the object store has not been known to have everything.
    pub(crate) fn behind_seconds(&self, now: Monotonic) -> u64 {
        self.behind_since.map_or(Duration::ZERO, |since| now.since(since)).as_secs()
    }

    /// Why the object store lacks something, or may lack something, as a sentence; `None`: it is being written, or
    /// nothing is missing.
    pub(crate) fn why(&self) -> Option<&str> {
        self.why.as_deref().or(self.broken.as_deref())
    }
}

impl PublishStatus {
    /// The state now.
    pub(crate) fn view(&self) -> View {
        self.0.lock().clone()
    }

    /// The number of the last head.
    pub(super) fn began_with(&self, sequence: Option<u64>) {
        self.0.lock().sequence = sequence;
    }

    /// Something is to be written, or the object store cannot be asked.
    pub(super) fn lacks(&self, now: Monotonic) {
        self.0.lock().behind_since.get_or_insert(now);
    }

    /// An object was written.
    pub(super) fn wrote(&self, kind: Kind, bytes: u64) {
        let mut view = self.0.lock();
        view.written[kind as usize] += 1;
        view.bytes = view.bytes.saturating_add(bytes);
    }

    /// A head is in the object store.
    pub(super) fn is_at(&self, sequence: u64) {
        self.0.lock().sequence = Some(sequence);
    }

    /// An object was found missing or altered. `/status` says so until every object was read back.
    pub(super) fn is_broken(&self, broken: String) {
        self.0.lock().broken = Some(broken);
    }

    /// Every object was found as it was written.
    pub(super) fn is_whole(&self) {
        self.0.lock().broken = None;
    }

    /// The object store has everything; returns whether it lacked something with a reason.
    pub(super) fn succeeded(&self, now: WallTime) -> bool {
        let mut view = self.0.lock();
        view.last_success = Some(now);
        view.behind_since = None;
        view.why.take().is_some()
    }

    /// An attempt failed. Returns whether the reason is another one than before.
    pub(super) fn failed(&self, word: &'static str, why: String) -> bool {
        let mut view = self.0.lock();
        match view.failures.iter_mut().find(|(own, _)| *own == word) {
            Some((_, count)) => *count += 1,
            None => view.failures.push((word, 1)),
        }
        view.why.replace(why.clone()) != Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_behind_from_the_first_lack_to_the_success() {
        let status = PublishStatus::default();
        let at = Monotonic::from_seconds;
        assert_eq!(status.view().behind_seconds(at(9)), 0);
        status.lacks(at(10));
        status.lacks(at(15));
        assert!(status.failed("full", "the store is full".to_owned()));
        assert!(!status.failed("full", "the store is full".to_owned()));
        assert_eq!((status.view().behind_seconds(at(20)), status.view().failures), (10, vec![("full", 2)]));
        assert!(status.succeeded(WallTime::from_seconds(5)));
        assert!(!status.succeeded(WallTime::from_seconds(6)));
        let view = status.view();
        assert_eq!((view.behind_seconds(at(30)), view.why()), (0, None));
        assert_eq!(view.last_success, Some(WallTime::from_seconds(6)));
    }

    #[test]
    fn a_broken_store_is_told_until_everything_was_read_back() {
        let status = PublishStatus::default();
        status.is_broken("an object is missing".to_owned());
        assert_eq!(status.view().why(), Some("an object is missing"));
        status.failed("full", "the store is full".to_owned());
        assert_eq!(status.view().why(), Some("the store is full"), "the more urgent one");
        // It was written again, which proves nothing yet.
        assert!(status.succeeded(WallTime::from_seconds(5)));
        assert_eq!(status.view().why(), Some("an object is missing"));
        status.is_whole();
        assert_eq!(status.view().why(), None);
    }
}
