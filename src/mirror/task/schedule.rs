//! What the mirror does next, and when: refreshes, readings of every page, work of several steps, and questions.
//!
//! Pure: the time is an argument. Refreshes come first: long work is done in pieces. Callers: [`super`] and its parts.

use std::collections::HashMap;
use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::clock::backoff::doubled;
use crate::snapshot::meta::Certificate;
use crate::upstream::budget::CrawlWork;

use super::contradicting::Search;
use super::publish::Candidate;
use super::reading::Reading;

/// Why every page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To publish at all, or with a better certificate.
    Certify,
    /// The origin has changed, and a refresh does not show enough.
    Follow,
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleFacts {
    /// `None`: nothing is published.
    pub(super) certificate: Option<Certificate>,
    /// When a refresh is due; zero: now.
    pub(super) refresh_in: Duration,
    /// What the active work is for, and when it continues.
    pub(super) begun: Option<(Purpose, Duration)>,
    /// A command asked to read every page.
    pub(super) asked: bool,
    /// Time since the last attempt to get the certificate `full`; `None`: none yet.
    pub(super) tried: Option<Duration>,
    /// Pause after an attempt that failed.
    pub(super) patience: Duration,
    /// Pause before new work, after a failure.
    pub(super) begin_in: Duration,
    /// When to ask the origin about terms in doubt; `None`: nothing to ask.
    pub(super) learn_in: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MirrorStep {
    /// Five conditional requests.
    Refresh,
    /// Begin to read every page.
    Begin,
    /// Continue the active work.
    Continue,
    /// Ask the origin about terms in doubt.
    Learn,
    /// Nothing for so long.
    Wait(Duration),
}

/// A wait for old copies of the origin's CDN that people are told of.
pub(super) const LONG_WAIT: Duration = Duration::from_secs(5);

/// A wait that is long enough for something else.
const LONG: Duration = Duration::from_secs(30);

/// Whether the mirror tries for no better certificate.
pub(super) const fn is_settled(certificate: Certificate) -> bool {
    matches!(certificate, Certificate::Full | Certificate::Incremental)
}

pub(super) fn next(facts: &ScheduleFacts) -> MirrorStep {
    let Some(certificate) = facts.certificate else {
        return match facts.begun {
            None if !facts.begin_in.is_zero() => MirrorStep::Wait(facts.begin_in),
            None => MirrorStep::Begin,
            Some((_, wait)) if wait.is_zero() => MirrorStep::Continue,
            Some((_, wait)) => MirrorStep::Wait(wait),
        };
    };
    // Work that follows a change looks at everything a refresh would. While it waits, refreshes go on.
    let follows = matches!(facts.begun, Some((Purpose::Follow, wait)) if wait < LONG_WAIT);
    let asked = facts.asked && facts.begin_in.is_zero();
    if !follows && !asked && facts.refresh_in.is_zero() {
        return MirrorStep::Refresh;
    }
    if asked {
        return MirrorStep::Begin;
    }
    if let Some((_, wait)) = facts.begun
        && wait.is_zero()
    {
        return MirrorStep::Continue;
    }
    let settle_in = match certificate {
        _ if facts.begun.is_some() => None,
        Certificate::Full | Certificate::Incremental => None,
        // An earlier attempt in this process was held back, or got no better certificate.
        Certificate::Provisional | Certificate::BestEffort => {
            let patience = facts.tried.map_or(Duration::ZERO, |ago| facts.patience.saturating_sub(ago));
            Some(patience.max(facts.begin_in))
        }
    };
    if settle_in.is_some_and(|wait| wait.is_zero()) {
        return MirrorStep::Begin;
    }
    // Asking about terms never delays active work, unless that waits for long anyway.
    let idle = !follows && facts.begun.is_none_or(|(_, wait)| wait >= LONG);
    let learn_in = facts.learn_in.filter(|_| idle);
    if learn_in.is_some_and(|wait| wait.is_zero()) {
        return MirrorStep::Learn;
    }
    let asked_in = facts.asked.then_some(facts.begin_in);
    let waits = [facts.begun.map(|(_, wait)| wait), settle_in, learn_in, asked_in];
    let waits = waits.into_iter().flatten().chain((!follows).then_some(facts.refresh_in));
    MirrorStep::Wait(waits.min().unwrap_or(facts.refresh_in))
}

/// When to try again, and how often in a row it failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    /// `None`: at once.
    at: Option<Monotonic>,
}

impl Retry {
    /// Continues after a pause, without a failure.
    pub(super) fn after(now: Monotonic, pause: Duration) -> Self {
        Self { failures: 0, at: Some(now.plus(pause)) }
    }

    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn wait(&self, now: Monotonic) -> Duration {
        self.at.map_or(Duration::ZERO, |at| at.since(now))
    }

    /// The origin wants the next try at once: a first failure waits for nothing.
    pub(super) fn hurry(&mut self) {
        if self.failures == 1 {
            self.at = None;
        }
    }

    /// Records a failure and waits, at most `longest`; `jittered` shortens a pause at random. Returns the failures in a
    /// row.
    pub(super) fn failed(
        &mut self,
        now: Monotonic,
        longest: Duration,
        jittered: impl FnOnce(Duration) -> Duration,
    ) -> u32 {
        self.failures = self.failures.saturating_add(1);
        let pause = doubled(Duration::from_millis(500), self.failures.min(8), longest);
        self.at = Some(now.plus(jittered(pause)));
        self.failures
    }
}

/// What was sent to the origin since its answers began to disagree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outlay(Option<(Monotonic, u64)>);

impl Outlay {
    /// How long `more` requests have to wait, so that not more than `most` are sent within `apart` of the first
    /// disagreement. `sent` counts all requests so far.
    pub(super) fn wait(&mut self, now: Monotonic, sent: u64, more: u64, most: u64, apart: Duration) -> Duration {
        match self.0 {
            Some((began, before)) if now.since(began) <= apart => {
                let fits = sent.saturating_sub(before) + more <= most;
                if fits { Duration::ZERO } else { began.plus(apart + Duration::from_millis(1)).since(now) }
            }
            _ => {
                self.0 = Some((now, sent));
                Duration::ZERO
            }
        }
    }

    /// So many requests were sent that do not count.
    pub(super) const fn spare(&mut self, requests: u64) {
        if let Some((_, sent)) = &mut self.0 {
            *sent += requests;
        }
    }

    /// The answers agree.
    pub(super) const fn ended(&mut self) {
        self.0 = None;
    }
}

/// Parts of the content that change back and forth, as while an origin is deployed machine by machine: all changes are
/// followed more and more seldom.
#[derive(Debug, Default)]
pub(super) struct Flips {
    /// What changed parts were before.
    before: HashMap<ContentPart, ContentHash>,
    failures: u32,
    until: Option<Monotonic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ContentPart {
    Listing(ListingId),
    Taxonomy(TaxonomyKind),
}

/// A part, as it was and as it is.
pub(super) type ChangedPart = (ContentPart, ContentHash, ContentHash);

impl Flips {
    /// The most parts that are remembered.
    pub(super) const MOST: usize = 10_000;

    const LONGEST: Duration = Duration::from_secs(600);

    /// Takes in what a new snapshot changes; `pause` is doubled after each flip.
    fn see(&mut self, changed: Vec<ChangedPart>, now: Monotonic, pause: Duration) {
        if self.before.len() > Self::MOST {
            self.before.clear();
        }
        let mut has_flipped = false;
        for (part, before, after) in changed {
            has_flipped |= self.before.insert(part, before) == Some(after);
        }
        self.failures = if has_flipped { self.failures + 1 } else { 0 };
        self.until = has_flipped.then(|| now.plus(doubled(pause, self.failures.min(12), Self::LONGEST)));
    }

    /// How long no change is followed.
    pub(super) fn wait(&self, now: Monotonic) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// How long that is, if it is worth a word.
    pub(super) fn to_tell(&self, now: Monotonic) -> Option<Duration> {
        Some(self.wait(now)).filter(|wait| self.failures > 1 && !wait.is_zero())
    }
}

/// When the next refresh and the next reading of every page are due.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The time by which a refresh must have happened.
    ttl: Duration,
    /// Pause after an attempt that did not settle.
    pub(super) patience: Duration,
    /// When the origin was last looked at as a refresh does; `None`: not since the start.
    looked: Option<Monotonic>,
    /// After refreshes that failed.
    refresh: Retry,
    /// After readings that could not be begun.
    pub(super) reading: Retry,
    pub(super) is_refresh_asked: bool,
    pub(super) is_pass_asked: bool,
    /// When a reading last tried to settle the data.
    pub(super) tried: Option<Monotonic>,
    pub(super) outlay: Outlay,
    pub(super) flips: Flips,
}

impl Schedule {
    /// `cache_ttl` is how old a copy of the origin's CDN can be.
    pub(super) fn new(ttl: Duration, cache_ttl: Duration) -> Self {
        Self {
            ttl,
            patience: ttl.max(cache_ttl),
            looked: None,
            refresh: Retry::default(),
            reading: Retry::default(),
            is_refresh_asked: false,
            is_pass_asked: false,
            tried: None,
            outlay: Outlay::default(),
            flips: Flips::default(),
        }
    }

    /// Another `ttl` applies from now on, to what is due already, too.
    pub(super) fn set_ttl(&mut self, ttl: Duration, cache_ttl: Duration) {
        (self.ttl, self.patience) = (ttl, ttl.max(cache_ttl));
    }

    /// When the next refresh is due: it starts early enough to end before `Age` reaches 0.8 x ttl, and not sooner than
    /// 0.4 x ttl after the last one, however old the copies of the origin's CDN are. `age` is the newest snapshot's by
    /// the wall clock; a jump of that clock moves the refresh only a little.
    pub(super) fn refresh_in(&self, now: Monotonic, age: Duration) -> Duration {
        if self.is_refresh_asked {
            return Duration::ZERO;
        }
        if self.refresh.failures > 0 {
            return self.refresh.wait(now);
        }
        let Some(looked) = self.looked else { return Duration::ZERO };
        let (latest, since) = (self.ttl.mul_f64(0.7), now.since(looked));
        let by_age = latest.saturating_sub(age);
        by_age.max(self.pause().saturating_sub(since)).min(latest.saturating_sub(since))
    }

    /// The least time between scheduled refreshes.
    pub(super) fn pause(&self) -> Duration {
        self.ttl.mul_f64(0.4)
    }

    /// The longest pause after failures.
    pub(super) fn longest_pause(&self) -> Duration {
        self.ttl.min(Duration::from_secs(60))
    }

    /// Takes in what a new snapshot changes.
    pub(super) fn see_flips(&mut self, changed: Vec<ChangedPart>, now: Monotonic) {
        self.flips.see(changed, now, self.pause());
    }

    /// Counts as a refresh: the next one is scheduled from here.
    pub(super) fn looked(&mut self, now: Monotonic) {
        (self.looked, self.refresh) = (Some(now), Retry::default());
    }

    /// Another snapshot is the newest: a refresh is due at once.
    pub(super) fn begin_anew(&mut self) {
        (self.looked, self.refresh, self.is_refresh_asked) = (None, Retry::default(), true);
    }

    /// Returns the failures in a row; `None`: this schedule is not about such a step.
    pub(super) fn failed(
        &mut self,
        step: MirrorStep,
        now: Monotonic,
        jittered: impl FnOnce(Duration) -> Duration,
    ) -> Option<u32> {
        let longest = self.longest_pause();
        let retry = match step {
            MirrorStep::Refresh => &mut self.refresh,
            MirrorStep::Begin => &mut self.reading,
            MirrorStep::Continue | MirrorStep::Learn | MirrorStep::Wait(_) => return None,
        };
        Some(retry.failed(now, longest, jittered))
    }

    /// The origin wants what failed again at once.
    pub(super) fn hurry(&mut self) {
        self.refresh.hurry();
        self.reading.hurry();
    }
}

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

    /// Whether the active work follows a change.
    pub(super) fn follows(&self) -> bool {
        self.now.as_ref().is_some_and(|work| work.purpose() == Purpose::Follow)
    }

    /// The list that waits for its confirmation.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        match &self.now.as_ref()?.doing {
            Doing::Confirming(candidate) => Some((**candidate).clone()),
            Doing::Reading(_) | Doing::Searching(_) => None,
        }
    }

    /// The active work is done.
    pub(super) fn end(&mut self) {
        self.now = self.parked.take();
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
            Next::Done if self.now.is_none() => self.end(),
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const SOON: Duration = Duration::from_secs(1);
    const LATER: Duration = Duration::from_secs(60);

    const QUIET: ScheduleFacts = ScheduleFacts {
        certificate: Some(Certificate::Full),
        refresh_in: LATER,
        begun: None,
        asked: false,
        tried: None,
        patience: LATER,
        begin_in: NOW,
        learn_in: None,
    };

    #[test]
    fn a_mirror_without_a_snapshot_reads_until_it_has_one() {
        let none = ScheduleFacts { certificate: None, refresh_in: NOW, ..QUIET };
        assert_eq!(next(&none), MirrorStep::Begin);
        assert_eq!(next(&ScheduleFacts { begin_in: SOON, ..none }), MirrorStep::Wait(SOON));
        let reading = |wait| ScheduleFacts { begun: Some((Purpose::Certify, wait)), ..none };
        assert_eq!(next(&reading(NOW)), MirrorStep::Continue);
        assert_eq!(next(&reading(SOON)), MirrorStep::Wait(SOON));
    }

    #[test]
    fn a_refresh_that_is_due_goes_before_all_but_what_follows_a_change() {
        let due = ScheduleFacts {
            refresh_in: NOW,
            learn_in: Some(NOW),
            certificate: Some(Certificate::Provisional),
            ..QUIET
        };
        assert_eq!(next(&due), MirrorStep::Refresh);
        let certifying = ScheduleFacts { begun: Some((Purpose::Certify, NOW)), ..due };
        assert_eq!(next(&certifying), MirrorStep::Refresh);
        let following = |wait| ScheduleFacts { begun: Some((Purpose::Follow, wait)), ..due };
        assert_eq!(next(&following(NOW)), MirrorStep::Continue);
        assert_eq!(next(&following(SOON)), MirrorStep::Wait(SOON));
        assert_eq!(next(&following(LATER)), MirrorStep::Refresh, "it waits for old copies");
    }

    #[test]
    fn what_is_not_settled_is_settled_at_once_and_after_that_patiently() {
        let provisional = ScheduleFacts { certificate: Some(Certificate::Provisional), ..QUIET };
        assert_eq!(next(&provisional), MirrorStep::Begin);
        assert_eq!(
            next(&ScheduleFacts { tried: Some(SOON), ..provisional }),
            MirrorStep::Wait(LATER.saturating_sub(SOON))
        );
        assert_eq!(
            next(&ScheduleFacts { begin_in: SOON, ..provisional }),
            MirrorStep::Wait(SOON),
            "it has just failed"
        );
        assert_eq!(next(&ScheduleFacts { begin_in: SOON, asked: true, ..QUIET }), MirrorStep::Wait(SOON));
        let effort = ScheduleFacts { certificate: Some(Certificate::BestEffort), ..QUIET };
        assert_eq!(next(&effort), MirrorStep::Begin);
        assert_eq!(next(&ScheduleFacts { tried: Some(SOON), ..effort }), MirrorStep::Wait(LATER.saturating_sub(SOON)));
        assert_eq!(next(&ScheduleFacts { tried: Some(LATER), ..effort }), MirrorStep::Begin);
        let waiting = ScheduleFacts { begun: Some((Purpose::Certify, SOON)), ..provisional };
        assert_eq!(next(&waiting), MirrorStep::Wait(SOON), "it goes on when it may");
    }

    #[test]
    fn questions_wait_for_quiet_times_and_a_pass_that_is_asked_for_does_not() {
        assert_eq!(next(&QUIET), MirrorStep::Wait(LATER));
        assert_eq!(next(&ScheduleFacts { learn_in: Some(NOW), ..QUIET }), MirrorStep::Learn);
        assert_eq!(next(&ScheduleFacts { learn_in: Some(SOON), ..QUIET }), MirrorStep::Wait(SOON));
        let busy = ScheduleFacts { learn_in: Some(NOW), begun: Some((Purpose::Certify, SOON)), ..QUIET };
        assert_eq!(next(&busy), MirrorStep::Wait(SOON));
        let waiting = ScheduleFacts { begun: Some((Purpose::Certify, LATER)), ..busy };
        assert_eq!(next(&waiting), MirrorStep::Learn);
        let asked = ScheduleFacts { asked: true, refresh_in: NOW, begun: Some((Purpose::Follow, SOON)), ..QUIET };
        assert_eq!(next(&asked), MirrorStep::Begin);
    }

    const TTL: Duration = Duration::from_secs(100);

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_seconds(seconds)
    }

    #[test]
    fn a_refresh_is_due_by_the_age_of_the_data_within_bounds_since_the_last_one() {
        let mut schedule = Schedule::new(TTL, Duration::ZERO);
        let due =
            |schedule: &Schedule, now: u64, age: u64| schedule.refresh_in(at(now), Duration::from_secs(age)).as_secs();
        assert_eq!(due(&schedule, 0, 0), 0, "the origin was not looked at yet");
        schedule.looked(at(1000));
        for (now, age, expected) in [
            (1000, 0, 70),
            (1000, 10, 60),
            // An old copy of the CDN: still not sooner.
            (1000, 500, 40),
            (1030, 500, 10),
            (1050, 500, 0),
            // The wall clock was set back.
            (1060, 0, 10),
            (1080, 0, 0),
        ] {
            assert_eq!(due(&schedule, now, age), expected, "{now} {age}");
        }
        schedule.is_refresh_asked = true;
        assert_eq!(due(&schedule, 1000, 0), 0);
        schedule.is_refresh_asked = false;
        assert_eq!(due(&schedule, 1000, 0), 70);
    }

    #[test]
    fn what_changes_back_and_forth_is_followed_more_and_more_seldom() {
        let mut schedule = Schedule::new(TTL, Duration::ZERO);
        let [one, other, third] = [b"1", b"2", b"3"].map(|text| ContentHash::of(text));
        let part = ContentPart::Listing(ListingId(7));
        for (before, after, seconds) in
            [(one, other, 0), (other, one, 80), (one, other, 160), (other, third, 0), (third, other, 80)]
        {
            schedule.see_flips(vec![(part, before, after)], at(1000));
            assert_eq!(schedule.flips.wait(at(1000)).as_secs(), seconds);
        }
        for _ in 0..9 {
            schedule.see_flips(vec![(part, third, other), (part, other, third)], at(1000));
        }
        assert_eq!((schedule.flips.wait(at(1000)), schedule.flips.wait(at(1600))), (Flips::LONGEST, Duration::ZERO));
    }

    #[test]
    fn failures_put_off_what_failed_longer_and_longer_until_it_goes_well() {
        let mut schedule = Schedule::new(TTL, Duration::ZERO);
        let begin = MirrorStep::Begin;
        for (failures, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60)] {
            for step in [MirrorStep::Refresh, begin] {
                assert_eq!(schedule.failed(step, at(0), |pause| pause), Some(failures));
            }
            let expected = Duration::from_secs(seconds);
            assert_eq!(
                (schedule.refresh_in(at(0), Duration::ZERO), schedule.reading.wait(at(0))),
                (expected, expected)
            );
        }
        assert_eq!(schedule.failed(MirrorStep::Learn, at(0), |pause| pause), None);
        schedule.hurry();
        assert_eq!(schedule.reading.wait(at(0)), Duration::from_secs(60), "it has failed too often");
        schedule.looked(at(0));
        assert_eq!(schedule.refresh_in(at(0), Duration::ZERO), TTL.mul_f64(0.7));
        schedule.reading = Retry::default();
        assert_eq!(schedule.reading.wait(at(0)), Duration::ZERO);
        schedule.failed(begin, at(0), |pause| pause);
        schedule.hurry();
        assert_eq!(schedule.reading.wait(at(0)), Duration::ZERO, "the origin wants it at once");
    }
}
