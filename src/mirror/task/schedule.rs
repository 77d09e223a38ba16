//! When the next refresh and the next reading of every page are due.
//!
//! Pure: the time is an argument. Active work ([`super::work`]) and questions ([`super::learn`]) have their own
//! schedule. Callers: [`super`] and its parts.

use std::time::Duration;

use super::super::plan::{Begun, Facts, Step};
use crate::clock::Monotonic;
use crate::clock::backoff::doubled;
use crate::snapshot::meta::Certificate;

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

    /// The answers agree.
    pub(super) const fn ended(&mut self) {
        self.0 = None;
    }
}

/// When the next refresh and the next reading of every page are due.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The time by which a refresh must have happened.
    ttl: Duration,
    /// Pause after an attempt that did not settle.
    patience: Duration,
    /// When the origin was last looked at as a refresh does; `None`: not since the start.
    looked: Option<Monotonic>,
    /// After refreshes that failed.
    refresh: Retry,
    /// After readings that could not be begun.
    reading: Retry,
    is_refresh_asked: bool,
    is_pass_asked: bool,
    /// When a reading last tried to settle the data.
    tried: Option<Monotonic>,
    pub(super) outlay: Outlay,
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

    /// What the next step depends on; see [`Schedule::refresh_in`] for `age`.
    pub(super) fn facts(
        &self,
        now: Monotonic,
        age: Duration,
        certificate: Option<Certificate>,
        begun: Option<(Begun, Duration)>,
        learn_in: Option<Duration>,
    ) -> Facts {
        Facts {
            certificate,
            refresh_in: self.refresh_in(now, age),
            begun,
            asked: self.is_pass_asked,
            tried: self.tried.map(|tried| now.since(tried)),
            patience: self.patience,
            begin_in: self.reading.wait(now),
            learn_in,
        }
    }

    pub(super) const fn is_pass_asked(&self) -> bool {
        self.is_pass_asked
    }

    pub(super) const fn ask_refresh(&mut self) {
        self.is_refresh_asked = true;
    }

    pub(super) const fn ask_pass(&mut self) {
        self.is_pass_asked = true;
    }

    /// A requested refresh begins.
    pub(super) const fn refreshing(&mut self) {
        self.is_refresh_asked = false;
    }

    /// A reading begins that is to settle the data; it fulfils a request for a pass.
    pub(super) const fn settling(&mut self, now: Monotonic) {
        (self.is_pass_asked, self.tried) = (false, Some(now));
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
        step: Step,
        now: Monotonic,
        jittered: impl FnOnce(Duration) -> Duration,
    ) -> Option<u32> {
        let longest = self.longest_pause();
        let retry = match step {
            Step::Refresh => &mut self.refresh,
            Step::Begin(_) => &mut self.reading,
            Step::Continue | Step::Learn | Step::Wait(_) => return None,
        };
        Some(retry.failed(now, longest, jittered))
    }

    /// The origin wants what failed again at once.
    pub(super) fn hurry(&mut self) {
        self.refresh.hurry();
        self.reading.hurry();
    }

    /// A reading was begun.
    pub(super) fn begun(&mut self) {
        self.reading = Retry::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::Purpose;
    use super::*;

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
        schedule.ask_refresh();
        assert_eq!(due(&schedule, 1000, 0), 0);
        schedule.refreshing();
        assert_eq!(due(&schedule, 1000, 0), 70);
    }

    #[test]
    fn failures_put_off_what_failed_longer_and_longer_until_it_goes_well() {
        let mut schedule = Schedule::new(TTL, Duration::ZERO);
        let begin = Step::Begin(Purpose::Certify);
        for (failures, seconds) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60)] {
            for step in [Step::Refresh, begin] {
                assert_eq!(schedule.failed(step, at(0), |pause| pause), Some(failures));
            }
            let expected = Duration::from_secs(seconds);
            assert_eq!(
                (schedule.refresh_in(at(0), Duration::ZERO), schedule.reading.wait(at(0))),
                (expected, expected)
            );
        }
        assert_eq!(schedule.failed(Step::Learn, at(0), |pause| pause), None);
        schedule.hurry();
        assert_eq!(schedule.reading.wait(at(0)), Duration::from_secs(60), "it has failed too often");
        schedule.looked(at(0));
        assert_eq!(schedule.refresh_in(at(0), Duration::ZERO), TTL.mul_f64(0.7));
        schedule.begun();
        assert_eq!(schedule.reading.wait(at(0)), Duration::ZERO);
        schedule.failed(begin, at(0), |pause| pause);
        schedule.hurry();
        assert_eq!(schedule.reading.wait(at(0)), Duration::ZERO, "the origin wants it at once");
    }
}
