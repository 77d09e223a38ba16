//! Work that takes several steps: at most one in hand, and one that made way for it.
//!
//! The steps themselves are in [`super`]. Callers: [`super`] and its parts.

use std::time::Duration;

use super::super::plan::{Begun, Purpose};
use super::candidate::Candidate;
use super::reading::Reading;
use super::schedule::Retry;
use crate::clock::Monotonic;
use crate::upstream::budget::CrawlWork;

/// Work of several steps.
pub(super) enum Doing {
    Reading(Box<Reading>),
    Confirming(Box<Candidate>),
}

/// How a step ended.
pub(super) enum Next {
    /// It is done, or something else has taken its place.
    Done,
    /// The same again after a pause.
    Again(Duration),
    /// Something else after a pause.
    Instead(Doing, Duration),
}

/// Work in hand, and when it continues.
pub(super) struct Work {
    pub(super) doing: Doing,
    due: Retry,
    /// Reserves the crawl's share of the budget while it lasts.
    _share: CrawlWork,
}

impl Work {
    fn certifies(&self) -> bool {
        matches!(&self.doing, Doing::Reading(reading) if reading.purpose() == Purpose::Certify)
    }
}

/// What is done now, and what waits for that.
#[derive(Default)]
pub(super) struct WorkInHand {
    now: Option<Work>,
    /// A certification that makes way for work after a change, and then continues.
    parked: Option<Work>,
    /// Changes in a row that did not hold still for their confirmation.
    unsettled: u32,
}

impl WorkInHand {
    /// Work in hand, and how long until it continues.
    pub(super) fn begun(&self, now: Monotonic) -> Option<(Begun, Duration)> {
        let work = self.now.as_ref()?;
        let begun = match &work.doing {
            Doing::Reading(reading) => Begun::Reading(reading.purpose()),
            Doing::Confirming(_) => Begun::Confirming,
        };
        Some((begun, work.due.wait(now)))
    }

    pub(super) const fn is_begun(&self) -> bool {
        self.now.is_some()
    }

    /// Failures in a row of work in hand; at least one.
    pub(super) fn failures(&self) -> u32 {
        self.now.as_ref().map_or(1, |work| work.due.failures())
    }

    /// Begins work, in place of the work before.
    pub(super) fn begin(&mut self, doing: Doing, now: Monotonic, pause: Duration, share: CrawlWork) {
        let next = Work { doing, due: Retry::after(now, pause), _share: share };
        if next.certifies() {
            (self.now, self.parked) = (Some(next), None);
        } else if let Some(before) = self.now.replace(next).filter(Work::certifies) {
            self.parked = Some(before);
        }
    }

    /// Takes the work in hand to continue it; then [`WorkInHand::went`] or [`WorkInHand::failed`] follows.
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

    /// A step failed: its work stays in hand, to be retried later.
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

    /// Forgets all work: it was about another snapshot.
    pub(super) fn abandon(&mut self) {
        (self.now, self.parked) = (None, None);
    }

    pub(super) const fn unsettled(&self) -> u32 {
        self.unsettled
    }

    pub(super) const fn did_not_settle(&mut self) {
        self.unsettled += 1;
    }

    pub(super) const fn settled(&mut self) {
        self.unsettled = 0;
    }
}
