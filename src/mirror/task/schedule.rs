//! Schedule of the mirror: refreshes, readings of every page, work of several steps, and questions.
//!
//! A step returns its outcome, and [`super`] hands it to the schedule: nothing else writes it. Refreshes come first: long
//! work is done in pieces. Pure: the time is an argument. Callers: [`super`] and its parts.

use std::collections::HashMap;
use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::clock::backoff::doubled;
use crate::config::rhythm;
use crate::data::snapshot::meta::Certificate;
use crate::origin::budget::CrawlWork;
use crate::origin::status::OriginState;

use super::inconsistent_pages::Search;
use super::publish::Candidate;
use super::reading::FullReading;

/// Why every page is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TaskPurpose {
    /// To publish at all, or with a better certificate.
    #[default]
    Certify,
    /// The origin has changed, and a refresh does not show enough.
    Follow,
}

/// The facts that the decision rests on beside the schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleFacts {
    /// `None`: nothing is published.
    pub(super) certificate: Option<Certificate>,
    /// How old the newest snapshot is by the wall clock.
    pub(super) age: Duration,
    /// The time by which a refresh must have happened.
    pub(super) ttl: Duration,
    /// Pause between attempts to get the certificate `full`.
    pub(super) patience: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MirrorStep {
    /// Five conditional requests.
    Refresh,
    Begin,
    Continue,
    /// Ask the origin about terms in doubt.
    Learn,
    /// Nothing for so long.
    Wait(Duration),
}

pub(super) enum Next {
    /// The origin was looked at as a refresh does. The active work stays.
    Stay(OriginState),
    /// As before, and the active work is done.
    Done(OriginState),
    /// The active work continues after a pause.
    Again(Duration),
    /// Different work begins after a pause.
    Instead(Doing, Duration),
}

/// A wait for old copies of the origin's CDN that `/status` shows.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// A wait that is long enough for something else.
const LONG: Duration = Duration::from_secs(30);

/// The least time between scheduled refreshes.
pub(super) fn least_pause(ttl: Duration) -> Duration {
    ttl.mul_f64(0.4)
}

/// The longest pause after failures.
pub(super) fn longest_pause(ttl: Duration) -> Duration {
    ttl.min(Duration::from_secs(60))
}

/// When to try again, and how often in a row it failed.
#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    failures: u32,
    /// `None`: at once.
    at: Option<Monotonic>,
}

impl Retry {
    fn wait(&self, now: Monotonic) -> Duration {
        self.at.map_or(Duration::ZERO, |at| at.since(now))
    }

    fn failed(&mut self, failure: Failure<'_>) -> u32 {
        self.failures = self.failures.saturating_add(1);
        let pause = doubled(Duration::from_millis(500), self.failures.min(8), failure.longest);
        let is_at_once = failure.wants_no_pause && self.failures == 1;
        self.at = (!is_at_once).then(|| failure.now.plus((failure.jittered)(pause)));
        self.failures
    }
}

#[derive(Clone, Copy)]
pub(super) struct Failure<'a> {
    pub(super) now: Monotonic,
    /// The longest pause.
    pub(super) longest: Duration,
    /// The origin wants the next try at once: a first failure waits for nothing.
    pub(super) wants_no_pause: bool,
    /// Shortens a pause at random.
    pub(super) jittered: &'a dyn Fn(Duration) -> Duration,
}

/// What was sent to the origin since its answers began to disagree.
#[derive(Debug, Default)]
pub(super) struct DisagreementCost {
    since: Option<(Monotonic, u64)>,
    /// What the last refresh was answered, and how many in a row.
    same: (Vec<ContentHash>, u8),
}

impl DisagreementCost {
    /// How long `more` requests have to wait, so that not more than `most` are sent within `apart` of the first
    /// disagreement. `sent` counts all requests so far.
    pub(super) fn wait(&mut self, now: Monotonic, sent: u64, more: u64, most: u64, apart: Duration) -> Duration {
        match self.since {
            Some((began, before)) if now.since(began) <= apart => {
                let fits = sent.saturating_sub(before) + more <= most;
                if fits { Duration::ZERO } else { began.plus(apart + Duration::from_millis(1)).since(now) }
            }
            _ => {
                self.since = Some((now, sent));
                Duration::ZERO
            }
        }
    }

    /// So many requests were sent that do not count.
    pub(super) const fn spare(&mut self, requests: u64) {
        if let Some((_, sent)) = &mut self.since {
            *sent += requests;
        }
    }

    /// A refresh was answered so. What is answered three times in a row is no disagreement.
    pub(super) fn answered(&mut self, hashes: Vec<ContentHash>) {
        let times = if self.same.0 == hashes { self.same.1.saturating_add(1) } else { 1 };
        self.same = (hashes, times);
        if times == 3 {
            self.ended();
        }
    }

    /// The answers agree.
    pub(super) const fn ended(&mut self) {
        self.since = None;
    }
}

/// Parts of the content that change back and forth, as while an origin is deployed machine by machine: all changes are
/// followed more and more seldom.
#[derive(Debug, Default)]
pub(super) struct Flips {
    /// What changed parts were before.
    before: HashMap<ContentPart, ContentHash>,
    /// How many changes in a row were taken back. One alone is not worth a word.
    pub(super) failures: u32,
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

    /// Takes in what a new snapshot changes; `pause` is doubled after each flip: most of what changed is what it was
    /// before. Listings decide, because the counts of an index return by themselves when one goes and another one comes.
    pub(super) fn see(&mut self, changed: Vec<ChangedPart>, now: Monotonic, pause: Duration) {
        if self.before.len() > Self::MOST {
            self.before.clear();
        }
        let ([mut all, mut flipped], has_listings) =
            ([0; 2], matches!(changed.first(), Some((ContentPart::Listing(_), ..))));
        for (part, before, after) in changed {
            let is_back = self.before.insert(part, before) == Some(after);
            if matches!(part, ContentPart::Listing(_)) == has_listings {
                (all, flipped) = (all + 1, flipped + usize::from(is_back));
            }
        }
        let has_flipped = 2 * flipped > all;
        self.failures = if has_flipped { self.failures + 1 } else { 0 };
        self.until = has_flipped.then(|| now.plus(doubled(pause, self.failures.min(12), Self::LONGEST)));
    }

    /// How long no change is followed.
    pub(super) fn wait(&self, now: Monotonic) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// Whether changes flip: until a refresh after the wait, and a minute to read what it found, have shown whether the
    /// origin still does.
    pub(super) fn lasts(&self, now: Monotonic, ttl: Duration) -> bool {
        self.until.is_some_and(|until| !until.plus(ttl).plus(Duration::from_secs(60)).since(now).is_zero())
    }
}

pub(super) enum Doing {
    Reading(Box<FullReading>),
    Confirming(Box<Candidate>),
    Searching(Box<Search>),
}

/// Work of several steps, and when it continues.
pub(super) struct Work {
    pub(super) doing: Doing,
    due: Retry,
    /// How often in a row a changed list was not confirmed, because the origin had changed again.
    pub(super) unsettled: u32,
    /// Until dropped, reserves the crawl's share of the budget.
    _share: CrawlWork,
}

impl Work {
    pub(super) fn purpose(&self) -> TaskPurpose {
        match &self.doing {
            Doing::Reading(reading) => reading.purpose,
            Doing::Searching(search) => search.purpose,
            Doing::Confirming(_) => TaskPurpose::Follow,
        }
    }
}

/// What is due, and the work in hand.
#[derive(Default)]
pub(super) struct Schedule {
    /// When the origin was last looked at as a refresh does; `None`: not since the start.
    looked: Option<Monotonic>,
    /// After refreshes that failed.
    refresh: Retry,
    pub(super) is_refresh_asked: bool,
    pub(super) is_pass_asked: bool,
    /// When a reading last tried to settle the data; `None`: not since the start.
    pub(super) tried: Option<Monotonic>,
    /// When to ask the origin about terms in doubt; `None`: nothing to ask.
    pub(super) learn_at: Option<Monotonic>,
    work: Option<Work>,
    /// A certification that is paused while the mirror follows a change.
    parked: Option<Work>,
    pub(super) flips: Flips,
}

impl Schedule {
    pub(super) fn new(now: Monotonic) -> Self {
        Self { learn_at: Some(now), ..Self::default() }
    }

    pub(super) fn next(&self, now: Monotonic, facts: &ScheduleFacts) -> MirrorStep {
        let is_first = facts.certificate.is_none();
        let begun = self.active(now);
        // Work that follows a change looks at everything a refresh would. While it waits, refreshes go on.
        let follows = matches!(begun, Some((TaskPurpose::Follow, wait)) if wait < LONG_WAIT);
        let asked_in = (self.is_pass_asked && !is_first).then_some(Duration::ZERO);
        let refresh_in = (!is_first && !follows).then(|| self.refresh_in(now, facts));
        let continue_in = begun.map(|(_, wait)| wait);
        let is_open = begun.is_none() && !facts.certificate.is_some_and(Certificate::is_settled);
        // An earlier attempt in this process was held back, or got no better certificate.
        let patience = |tried| facts.patience.saturating_sub(now.since(tried)).max(self.flips.wait(now));
        let settle_in = is_open.then(|| self.tried.filter(|_| !is_first).map_or(Duration::ZERO, patience));
        // Asking about terms never delays active work, unless that waits for long anyway.
        let is_idle = !follows && begun.is_none_or(|(_, wait)| wait >= LONG);
        let learn_in = self.learn_at.filter(|_| is_idle).map(|at| at.since(now));
        let by_rank = [
            (asked_in, MirrorStep::Begin),
            (refresh_in, MirrorStep::Refresh),
            (continue_in, MirrorStep::Continue),
            (settle_in, MirrorStep::Begin),
            (learn_in, MirrorStep::Learn),
        ];
        let due = by_rank.iter().find(|(wait, _)| wait.is_some_and(|wait| wait.is_zero()));
        let wait = || by_rank.iter().filter_map(|(wait, _)| *wait).min().unwrap_or(Duration::MAX);
        due.map_or_else(|| MirrorStep::Wait(wait()), |(_, step)| *step)
    }

    /// When the next refresh is due: it starts early enough to end before `Age` reaches 0.8 x ttl, and not sooner than
    /// 0.4 x ttl after the last one, however old the copies of the origin's CDN are. A jump of the wall clock moves the
    /// refresh only a little.
    pub(super) fn refresh_in(&self, now: Monotonic, facts: &ScheduleFacts) -> Duration {
        if self.is_refresh_asked {
            return Duration::ZERO;
        }
        if self.refresh.failures > 0 {
            return self.refresh.wait(now);
        }
        let Some(looked) = self.looked else { return Duration::ZERO };
        let (latest, since) = (rhythm::due(facts.ttl), now.since(looked));
        let by_age = latest.saturating_sub(facts.age);
        by_age.max(least_pause(facts.ttl).saturating_sub(since)).min(latest.saturating_sub(since))
    }

    /// What the active work is for, and how long until it continues.
    fn active(&self, now: Monotonic) -> Option<(TaskPurpose, Duration)> {
        self.work.as_ref().map(|work| (work.purpose(), work.due.wait(now)))
    }

    pub(super) const fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// How long work waits for old copies of the origin's CDN, if `/status` shows that.
    pub(super) fn copies_wait(&self, now: Monotonic) -> Option<Duration> {
        let work = self.work.as_ref().filter(|work| work.due.failures == 0);
        work.map(|work| work.due.wait(now)).filter(|wait| *wait >= LONG_WAIT)
    }

    /// Another snapshot is the newest: all work was about the one before, and a refresh is due at once.
    pub(super) fn begin_anew(&mut self, now: Monotonic) {
        (self.work, self.parked) = (None, None);
        (self.looked, self.refresh, self.is_refresh_asked) = (None, Retry::default(), true);
        self.learn_at = Some(now);
    }

    /// Takes the active work for a step; [`Schedule::went`] or [`Schedule::failed`] follows.
    pub(super) const fn take(&mut self) -> Option<Work> {
        self.work.take()
    }

    /// Another snapshot was published, which looked at all that a refresh does. `changed`: since the one before.
    pub(super) fn published(&mut self, changed: Option<Vec<ChangedPart>>, now: Monotonic, ttl: Duration) {
        self.looked(now);
        self.learn_at = Some(now);
        if let Some(changed) = changed {
            self.flips.see(changed, now, least_pause(ttl));
        }
    }

    fn looked(&mut self, now: Monotonic) {
        (self.looked, self.refresh) = (Some(now), Retry::default());
    }

    /// A step has ended. `work` was taken for it; `share` is for work that begins.
    pub(super) fn went(
        &mut self,
        step: MirrorStep,
        work: Option<Work>,
        next: Next,
        now: Monotonic,
        share: impl FnOnce() -> CrawlWork,
    ) {
        let after = |pause| Retry { failures: 0, at: Some(now.plus(pause)) };
        if step == MirrorStep::Begin {
            (self.is_pass_asked, self.tried) = (false, Some(now));
        }
        match next {
            Next::Stay(_) => {
                self.looked(now);
                self.work = work;
            }
            Next::Done(_) => {
                self.looked(now);
                self.work = self.parked.take();
            }
            Next::Again(pause) => self.work = work.map(|work| Work { due: after(pause), ..work }),
            Next::Instead(doing, pause) => {
                let unsettled = work.as_ref().map_or(0, |work| work.unsettled);
                let next = Work { doing, due: after(pause), unsettled, _share: share() };
                if next.purpose() == TaskPurpose::Certify {
                    self.parked = None;
                } else if let Some(before) = work.filter(|work| work.purpose() == TaskPurpose::Certify) {
                    self.parked = Some(before);
                }
                self.work = Some(next);
            }
        }
    }

    /// A step failed: it is tried again later. Returns the failures in a row.
    pub(super) fn failed(&mut self, step: MirrorStep, work: Option<Work>, failure: Failure<'_>) -> u32 {
        self.work = work;
        match (&mut self.work, step) {
            (Some(work), MirrorStep::Continue) => work.due.failed(failure),
            _ => self.refresh.failed(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::Clock;
    use crate::origin::budget::Budget;

    use super::*;

    const SOON: Duration = Duration::from_secs(1);
    const LATER: Duration = Duration::from_secs(60);
    const NOW: Monotonic = Monotonic::from_seconds(1000);
    const TTL: Duration = Duration::from_secs(100);

    const FULL: ScheduleFacts =
        ScheduleFacts { certificate: Some(Certificate::Full), age: Duration::ZERO, ttl: TTL, patience: LATER };
    const NONE: ScheduleFacts = ScheduleFacts { certificate: None, ..FULL };
    const PROVISIONAL: ScheduleFacts = ScheduleFacts { certificate: Some(Certificate::Provisional), ..FULL };

    /// A schedule that has nothing to do for 70 seconds.
    fn quiet() -> Schedule {
        Schedule { looked: Some(NOW), ..Schedule::default() }
    }

    impl Schedule {
        /// With work that continues after a pause.
        fn begun(mut self, purpose: TaskPurpose, pause: Duration) -> Self {
            let reading = Doing::Reading(Box::new(FullReading::new(purpose, 0, None, (0, NOW), false)));
            let share = || Budget::open(None, None, Clock::system()).crawl_work();
            self.went(MirrorStep::Refresh, None, Next::Instead(reading, pause), NOW, share);
            self
        }

        fn done(&mut self) {
            let work = self.take();
            let share = || Budget::open(None, None, Clock::system()).crawl_work();
            self.went(MirrorStep::Continue, work, Next::Done(OriginState::Changed), NOW, share);
        }

        fn step(&self, facts: ScheduleFacts) -> MirrorStep {
            self.next(NOW, &facts)
        }
    }

    #[test]
    fn a_mirror_without_a_snapshot_reads_until_it_has_one() {
        assert_eq!(Schedule::default().step(NONE), MirrorStep::Begin);
        let asked = || Schedule { is_pass_asked: true, ..Schedule::default() };
        for (pause, step) in [(Duration::ZERO, MirrorStep::Continue), (SOON, MirrorStep::Wait(SOON))] {
            assert_eq!(Schedule::default().begun(TaskPurpose::Certify, pause).step(NONE), step);
            assert_eq!(asked().begun(TaskPurpose::Certify, pause).step(NONE), step);
        }
    }

    #[test]
    fn a_refresh_that_is_due_goes_before_all_but_what_follows_a_change() {
        let due = || Schedule { learn_at: Some(NOW), ..Schedule::default() };
        assert_eq!(due().step(PROVISIONAL), MirrorStep::Refresh);
        assert_eq!(due().begun(TaskPurpose::Certify, Duration::ZERO).step(PROVISIONAL), MirrorStep::Refresh);
        for (pause, step) in [
            (Duration::ZERO, MirrorStep::Continue),
            (SOON, MirrorStep::Wait(SOON)),
            // It waits for old copies.
            (LATER, MirrorStep::Refresh),
        ] {
            assert_eq!(due().begun(TaskPurpose::Follow, pause).step(PROVISIONAL), step);
        }
    }

    #[test]
    fn what_is_not_settled_is_settled_at_once_and_after_that_patiently() {
        for certificate in [Certificate::Provisional, Certificate::BestEffort] {
            let facts = ScheduleFacts { certificate: Some(certificate), ..FULL };
            let tried = |seconds| Schedule { tried: Some(Monotonic::from_seconds(seconds)), ..quiet() };
            assert_eq!(quiet().step(facts), MirrorStep::Begin);
            assert_eq!(tried(999).step(facts), MirrorStep::Wait(LATER.saturating_sub(SOON)));
            assert_eq!(tried(940).step(facts), MirrorStep::Begin);
        }
        assert_eq!(
            quiet().begun(TaskPurpose::Certify, SOON).step(PROVISIONAL),
            MirrorStep::Wait(SOON),
            "it goes on then"
        );
    }

    #[test]
    fn questions_wait_for_quiet_times_and_a_pass_that_is_asked_for_does_not() {
        let learning = |wait| Schedule { learn_at: Some(NOW.plus(wait)), ..quiet() };
        assert_eq!(quiet().step(FULL), MirrorStep::Wait(TTL.mul_f64(0.7)));
        assert_eq!(learning(Duration::ZERO).step(FULL), MirrorStep::Learn);
        assert_eq!(learning(SOON).step(FULL), MirrorStep::Wait(SOON));
        assert_eq!(learning(Duration::ZERO).begun(TaskPurpose::Certify, SOON).step(FULL), MirrorStep::Wait(SOON));
        assert_eq!(learning(Duration::ZERO).begun(TaskPurpose::Certify, LATER).step(FULL), MirrorStep::Learn);
        let asked = Schedule { is_pass_asked: true, ..Schedule::default() };
        assert_eq!(asked.begun(TaskPurpose::Follow, SOON).step(FULL), MirrorStep::Begin);
    }

    #[test]
    fn a_certification_pauses_while_the_mirror_follows_a_change() {
        let mut schedule = quiet().begun(TaskPurpose::Certify, SOON);
        let before = schedule.take();
        let share = || Budget::open(None, None, Clock::system()).crawl_work();
        let follow = Doing::Reading(Box::new(FullReading::new(TaskPurpose::Follow, 0, None, (0, NOW), false)));
        schedule.went(MirrorStep::Refresh, before, Next::Instead(follow, Duration::ZERO), NOW, share);
        assert_eq!(schedule.active(NOW), Some((TaskPurpose::Follow, Duration::ZERO)));
        schedule.done();
        assert_eq!(schedule.active(NOW), Some((TaskPurpose::Certify, SOON)));
        schedule.done();
        assert!(!schedule.is_working());
    }

    #[test]
    fn a_refresh_is_due_by_the_age_of_the_data_within_bounds_since_the_last_one() {
        let due = |schedule: &Schedule, now: u64, age: u64| {
            let facts = ScheduleFacts { age: Duration::from_secs(age), ..FULL };
            schedule.refresh_in(Monotonic::from_seconds(now), &facts).as_secs()
        };
        assert_eq!(due(&Schedule::default(), 0, 0), 0, "the origin was not looked at yet");
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
            assert_eq!(due(&quiet(), now, age), expected, "{now} {age}");
        }
        assert_eq!(due(&Schedule { is_refresh_asked: true, ..quiet() }, 1000, 0), 0);
    }

    #[test]
    fn answers_that_stay_the_same_are_no_disagreement() {
        let (one, other) = (vec![ContentHash::of(b"1")], vec![ContentHash::of(b"2")]);
        let (mut cost, apart, start) = (DisagreementCost::default(), Duration::from_secs(300), Monotonic::default());
        let wait = |cost: &mut DisagreementCost| cost.wait(start, 30, 9, 20, apart).is_zero();
        assert!(cost.wait(start, 10, 0, 20, apart).is_zero());
        for (answer, is_free) in [
            (&one, false),
            (&other, false),
            (&one, false),
            (&one, false),
            (&other, false),
            (&other, false),
            (&other, true),
        ] {
            cost.answered(answer.clone());
            assert_eq!(wait(&mut cost), is_free, "{answer:?}");
        }
    }

    #[test]
    fn what_changes_back_and_forth_is_followed_more_and_more_seldom() {
        let mut schedule = quiet();
        let [one, other, third] = [b"1", b"2", b"3"].map(|text| ContentHash::of(text));
        let part = ContentPart::Listing(ListingId(7));
        for (before, after, seconds) in
            [(one, other, 0), (other, one, 80), (one, other, 160), (other, third, 0), (third, other, 80)]
        {
            schedule.published(Some(vec![(part, before, after)]), NOW, TTL);
            assert_eq!(schedule.flips.wait(NOW).as_secs(), seconds);
        }
        // One listing goes and another one comes: the index is what it was, and the list is not.
        let mut schedule = quiet();
        let (index, absent) = (ContentPart::Taxonomy(TaxonomyKind::Sports), ContentHash::of(b""));
        let listing = |id| ContentPart::Listing(ListingId(id));
        schedule.published(Some(vec![(listing(1), one, absent), (index, one, other)]), NOW, TTL);
        schedule.published(Some(vec![(listing(2), absent, one), (index, other, one)]), NOW, TTL);
        assert!(schedule.flips.wait(NOW).is_zero());
        schedule.published(Some(vec![(listing(2), one, absent), (index, one, other)]), NOW, TTL);
        assert!(!schedule.flips.wait(NOW).is_zero());
        let mut schedule = quiet();
        for _ in 0..9 {
            schedule.published(Some(vec![(part, third, other), (part, other, third)]), NOW, TTL);
        }
        let later = NOW.plus(Flips::LONGEST);
        assert_eq!((schedule.flips.wait(NOW), schedule.flips.wait(later)), (Flips::LONGEST, Duration::ZERO));
        // They last until a refresh has had the time to see whether they still do.
        assert!(schedule.flips.lasts(later, TTL));
        assert!(!schedule.flips.lasts(later.plus(TTL).plus(Duration::from_secs(60)), TTL));
    }

    #[test]
    fn failures_put_off_what_failed_longer_and_longer_until_it_goes_well() {
        let mut schedule = quiet().begun(TaskPurpose::Certify, Duration::ZERO);
        let failure = Failure { now: NOW, longest: LATER, wants_no_pause: false, jittered: &|pause| pause };
        let fails = |schedule: &mut Schedule, step, failure| {
            let work = schedule.take();
            schedule.failed(step, work, failure)
        };
        for (failures, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60)] {
            for step in [MirrorStep::Refresh, MirrorStep::Continue] {
                assert_eq!(fails(&mut schedule, step, failure), failures);
            }
            let expected = Duration::from_secs(seconds);
            assert_eq!(schedule.refresh_in(NOW, &FULL), expected);
            assert_eq!(schedule.active(NOW), Some((TaskPurpose::Certify, expected)));
        }
        let at_once = Failure { wants_no_pause: true, ..failure };
        fails(&mut schedule, MirrorStep::Refresh, at_once);
        assert_eq!(schedule.refresh_in(NOW, &FULL), LATER, "it has failed too often");
        schedule.done();
        assert_eq!(schedule.refresh_in(NOW, &FULL), TTL.mul_f64(0.7));
        fails(&mut schedule, MirrorStep::Refresh, at_once);
        assert_eq!(schedule.refresh_in(NOW, &FULL), Duration::ZERO, "the origin wants it at once");
    }
}
