//! Sample history: the last quarter of an hour and the last 12 hours, for the charts of the console.
//!
//! It takes readings of counters that count anyway, and keeps differences in two arrays of fixed length: about 120 kB,
//! however long the process runs. Time is an argument. Callers: [`crate::server::admin`] records and shows them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Monotonic;

use super::counters::Group;
use super::timing::{BUCKETS, percentile};

/// How many kinds of requests to the origin are counted apart.
pub(crate) const CLASSES: usize = 5;

/// How far back samples go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// 90 samples, one in 10 seconds.
    Minutes,
    /// 720 samples, one a minute.
    Hours,
}

impl Span {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Minutes => "minutes",
            Self::Hours => "hours",
        }
    }

    /// Between two samples.
    pub(crate) const fn step(self) -> Duration {
        match self {
            Self::Minutes => Duration::from_secs(10),
            Self::Hours => Duration::from_secs(60),
        }
    }

    pub(crate) const fn samples(self) -> usize {
        match self {
            Self::Minutes => 90,
            Self::Hours => 720,
        }
    }
}

/// What gauges say at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Gauges {
    /// Requests by kind that count in the origin's budget now; `None`: it has no limit.
    pub budget: Option<[u32; CLASSES]>,
    /// Seconds since the data was confirmed; `None`: no data, or nobody knows.
    pub age_seconds: Option<u32>,
    /// Pages of the pass that runs, 0 to 1; `None`: none runs.
    pub pages: Option<f32>,
    /// Details that are mirrored, 0 to 1; `None` without data.
    pub details: Option<f32>,
    /// Compared samples that equal the origin, 0 to 1; `None`: nothing was compared.
    pub parity: Option<f32>,
    /// Resident memory of the process in bytes; `None`: unknown.
    pub memory: Option<u64>,
}

/// What counters and gauges say at one instant; counters count from the start of the process.
#[derive(Clone, Debug)]
pub(crate) struct HistorySample {
    /// Answers by [`Group`].
    pub answers: [u64; Group::ALL.len()],
    /// Of these the ones with status 304.
    pub not_modified: u64,
    /// Requests to the origin by kind.
    pub sent: [u64; CLASSES],
    pub latency: [u64; BUCKETS],
    pub gauges: Gauges,
}

/// What happened between two readings, and what the gauges said at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub answers: [u32; Group::ALL.len()],
    /// Of these the ones with status 304.
    pub not_modified: u32,
    pub sent: [u32; CLASSES],
    /// Half of the answers were given within so many microseconds; `None`: there were no answers.
    pub p50: Option<u32>,
    /// 99 of a hundred answers were given within so many microseconds.
    pub p99: Option<u32>,
    pub gauges: Gauges,
}

impl HistorySample {
    /// Nothing has happened.
    pub(super) const ZERO: Self = Self {
        answers: [0; Group::ALL.len()],
        not_modified: 0,
        sent: [0; CLASSES],
        latency: [0; BUCKETS],
        gauges: Gauges { budget: None, age_seconds: None, pages: None, details: None, parity: None, memory: None },
    };
}

impl Sample {
    fn between(before: &HistorySample, after: &HistorySample) -> Self {
        let times = difference(&before.latency, &after.latency);
        Self {
            answers: difference(&before.answers, &after.answers).map(small),
            not_modified: small(after.not_modified.saturating_sub(before.not_modified)),
            sent: difference(&before.sent, &after.sent).map(small),
            p50: percentile(&times, 0.5),
            p99: percentile(&times, 0.99),
            gauges: after.gauges,
        }
    }
}

fn difference<const N: usize>(before: &[u64; N], after: &[u64; N]) -> [u64; N] {
    std::array::from_fn(|at| after[at].saturating_sub(before[at]))
}

fn small(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[derive(Debug)]
struct Ring {
    span: Span,
    /// The newest last. `None`: nobody took a reading then.
    samples: VecDeque<Option<Sample>>,
    /// In which step the newest one was taken.
    step: u64,
    before: Box<HistorySample>,
}

impl Ring {
    fn new(span: Span) -> Self {
        Self { span, samples: VecDeque::with_capacity(span.samples()), step: 0, before: Box::new(HistorySample::ZERO) }
    }

    fn step_of(&self, now: Monotonic) -> u64 {
        now.as_nanos() / u64::try_from(self.span.step().as_nanos()).unwrap_or(u64::MAX)
    }

    fn record(&mut self, now: Monotonic, reading: &HistorySample) {
        let step = self.step_of(now);
        let Some(missed) = step.checked_sub(self.step + 1) else { return };
        // A process that was suspended for days adds no more gaps than the ring has room for.
        for _ in 0..missed.min(self.span.samples() as u64) {
            self.push(None);
        }
        self.push(Some(Sample::between(&self.before, reading)));
        (*self.before, self.step) = (reading.clone(), step);
    }

    fn push(&mut self, sample: Option<Sample>) {
        if self.samples.len() == self.span.samples() {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// As many as there can be, the oldest first.
    fn all(&self, now: Monotonic) -> Vec<Option<Sample>> {
        let most = self.span.samples();
        // The step that runs has no sample yet.
        let since = self.step_of(now).saturating_sub(self.step).min(most as u64) as usize;
        let mut all = vec![None; most.saturating_sub(self.samples.len())];
        all.extend(&self.samples);
        all.extend(std::iter::repeat_n(None, since));
        all.split_off(all.len() - most)
    }
}

/// The samples; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct History(Arc<Mutex<[Ring; 2]>>);

impl Default for History {
    fn default() -> Self {
        Self(Arc::new(Mutex::new([Ring::new(Span::Minutes), Ring::new(Span::Hours)])))
    }
}

impl History {
    /// Takes in what the counters say now; at most one reading counts in each step.
    pub(crate) fn record(&self, now: Monotonic, reading: &HistorySample) {
        self.0.lock().iter_mut().for_each(|ring| ring.record(now, reading));
    }

    /// The samples of a span, always as many as it has, the oldest first; `None` where there is none.
    pub(crate) fn samples(&self, span: Span, now: Monotonic) -> Vec<Option<Sample>> {
        let rings = self.0.lock();
        rings.iter().find(|ring| ring.span == span).map(|ring| ring.all(now)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(fresh: u64) -> HistorySample {
        let mut reading =
            HistorySample { gauges: Gauges { age_seconds: Some(3), ..Gauges::default() }, ..HistorySample::ZERO };
        reading.answers[Group::Fresh as usize] = fresh;
        reading.latency[40] = fresh;
        reading
    }

    fn counts(samples: &[Option<Sample>]) -> Vec<Option<u32>> {
        samples.iter().map(|sample| sample.as_ref().map(|sample| sample.answers.iter().sum())).collect()
    }

    #[test]
    fn samples_are_differences_and_what_was_missed_is_a_gap() {
        let history = History::default();
        let at = Monotonic::from_seconds;
        for (second, fresh) in [(10, 7), (12, 9), (20, 9), (51, 19)] {
            history.record(at(second), &reading(fresh));
        }
        let samples = history.samples(Span::Minutes, at(52));
        assert_eq!(samples.len(), 90);
        assert_eq!(counts(&samples[85..]), [Some(7), Some(2), None, None, Some(10)], "one reading a step");
        assert!(samples[..85].iter().all(Option::is_none));
        assert_eq!((samples[89].unwrap().p50, samples[89].unwrap().gauges.age_seconds), (Some(1280), Some(3)));
        let later = history.samples(Span::Minutes, at(71));
        assert_eq!(counts(&later[86..]), [None, Some(10), None, None], "nobody took readings since");
        assert!(history.samples(Span::Hours, at(52)).iter().all(Option::is_none), "the first minute is not over");
        history.record(at(60), &reading(20));
        assert_eq!(counts(&history.samples(Span::Hours, at(60))[719..]), [Some(20)]);
    }

    #[test]
    fn days_take_no_more_room_than_hours() {
        let history = History::default();
        let size = |history: &History| {
            let rings = history.0.lock();
            rings.iter().map(|ring| ring.samples.capacity() * size_of::<Option<Sample>>()).sum::<usize>()
        };
        let before = size(&history);
        assert!(before < 160 << 10, "{before}");
        for step in 1..=3 * 8640 {
            history.record(Monotonic::from_seconds(10 * step), &reading(step));
        }
        let now = Monotonic::from_seconds(30 * 8640);
        for span in [Span::Minutes, Span::Hours] {
            let samples = history.samples(span, now);
            assert_eq!(samples.len(), span.samples());
            let each = (span.step().as_secs() / 10) as u32;
            assert!(counts(&samples).iter().all(|count| *count == Some(each)), "{span:?}");
        }
        history.record(Monotonic::from_seconds(u64::MAX / 2_000_000_000), &reading(1));
        assert_eq!(size(&history), before, "also after a machine slept for years, and counters that went back");
    }
}
