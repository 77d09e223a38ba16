//! Work of several steps: at most one piece is active, and at most one is parked.
//!
//! The steps themselves are in [`super`]. Callers: [`super`] and its parts.

use std::time::Duration;

use super::super::plan::Purpose;
use super::contradicting::Search;
use super::publish::Candidate;
use super::reading::Reading;
use super::schedule::Retry;
use crate::clock::Monotonic;
use crate::upstream::budget::CrawlWork;

/// Work of several steps.
pub(super) enum Doing {
    Reading(Box<Reading>),
    Confirming(Box<Candidate>),
    Searching(Box<Search>),
}

/// How a step ended.
pub(super) enum Next {
    /// The work is done, or was replaced.
    Done,
    /// The work continues after a pause.
    Again(Duration),
    /// Different work replaces it, and begins after a pause.
    Instead(Doing, Duration),
}

/// Active or parked work, and when it continues.
pub(super) struct Work {
    pub(super) doing: Doing,
    due: Retry,
    /// Until dropped, reserves the crawl's share of the budget.
    _share: CrawlWork,
}

impl Work {
    fn purpose(&self) -> Purpose {
        match &self.doing {
            Doing::Reading(reading) => reading.purpose,
            Doing::Searching(search) => search.purpose,
            Doing::Confirming(_) => Purpose::Follow,
        }
    }
}

/// The active work, and the parked work.
#[derive(Default)]
pub(super) struct WorkInHand {
    now: Option<Work>,
    /// A certification that is paused while the mirror follows a change.
    parked: Option<Work>,
    /// Consecutive failures to confirm a changed list.
    pub(super) unsettled: u32,
}

impl WorkInHand {
    /// What the active work is for, and how long until it continues.
    pub(super) fn begun(&self, now: Monotonic) -> Option<(Purpose, Duration)> {
        self.now.as_ref().map(|work| (work.purpose(), work.due.wait(now)))
    }

    pub(super) const fn is_begun(&self) -> bool {
        self.now.is_some()
    }

    /// Consecutive failures of the active work; without work, 1.
    pub(super) fn failures(&self) -> u32 {
        self.now.as_ref().map_or(1, |work| work.due.failures())
    }

    /// Begins work, in place of the work before.
    pub(super) fn begin(&mut self, doing: Doing, now: Monotonic, pause: Duration, share: CrawlWork) {
        let next = Work { doing, due: Retry::after(now, pause), _share: share };
        if next.purpose() == Purpose::Certify {
            (self.now, self.parked) = (Some(next), None);
        } else if let Some(before) = self.now.replace(next).filter(|work| work.purpose() == Purpose::Certify) {
            self.parked = Some(before);
        }
    }

    /// Takes the active work to continue it; then [`WorkInHand::went`] or [`WorkInHand::failed`] follows.
    pub(super) const fn take(&mut self) -> Option<Work> {
        self.now.take()
    }

    /// A step of the taken work has ended.
    pub(super) fn went(&mut self, work: Work, next: Next, now: Monotonic) {
        match next {
            // Parked work continues, unless other work was begun.
            Next::Done if self.now.is_none() => self.now = self.parked.take(),
            Next::Done => {}
            Next::Again(pause) => self.now = Some(Work { due: Retry::after(now, pause), ..work }),
            Next::Instead(doing, pause) => self.now = Some(Work { doing, due: Retry::after(now, pause), ..work }),
        }
    }

    /// A step failed: its work stays active, to be retried later.
    pub(super) fn failed(
        &mut self,
        mut work: Work,
        now: Monotonic,
        longest: Duration,
        jittered: impl FnOnce(Duration) -> Duration,
    ) {
        work.due.failed(now, longest, jittered);
        self.now = Some(work);
    }

    /// The origin wants the failed step again at once.
    pub(super) fn hurry(&mut self) {
        if let Some(work) = &mut self.now {
            work.due.hurry();
        }
    }

    /// Forgets all work: it was about another snapshot.
    pub(super) fn abandon(&mut self) {
        (self.now, self.parked) = (None, None);
    }
}
