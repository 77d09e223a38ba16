//! Counters for `/metrics`, `/status` and the console: answers, their sources, and connections.
//!
//! It knows only labels. On the hot path each thread has its own counters. Callers: [`crate::edge::answer`] and
//! [`crate::edge::serve`] record, [`crate::server::admin`] prints.

pub(crate) mod access;
pub(crate) mod counters;
pub(crate) mod findings;
pub(crate) mod history;
pub(crate) mod json_lines;
pub(crate) mod lines;
pub(crate) mod request_id;
pub(crate) mod throttle;
pub(crate) mod timing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::words::named;

use counters::{ByLabels, ConnectionCounters};
use history::HistorySample;
use timing::{BUCKETS, Histogram, Timings};

pub(crate) use counters::Group;

named! {
    /// The label of a request, for logs and metrics: its endpoint, or why it reached none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RouteLabel, as_str {
        /// `/api/listings.json`
        List = "list",
        /// `/api/listings/{id}.json`
        Detail = "detail",
        /// `/api/sports.json`
        Sports = "sports",
        /// `/api/states.json`
        States = "states",
        /// `/api/cities.json`
        Cities = "cities",
        /// `/changes.json`
        Changes = "changes",
        /// `/search.json`
        Search = "search",
        /// `/dumps/…`
        Dumps = "dumps",
        /// `/changes.ndjson`
        ChangeRecords = "change_records",
        /// A page for people.
        Page = "page",
        /// A document for programs.
        Document = "document",
        /// What pages are made of.
        Asset = "asset",
        /// `/livez` and `/readyz`.
        Probe = "probe",
        /// Any other path, and requests that cannot be read.
        Other = "other",
        /// `OPTIONS` that is no preflight.
        Options = "options",
        /// A CORS preflight.
        Preflight = "preflight",
        /// Refused by the rate limit before its path was looked at.
        Limit = "limit",
    }
}

impl RouteLabel {
    /// The endpoints that the snapshot answers, in the order of their numbers: each thread has its own counters for
    /// their hits.
    const HOT: [Self; 6] = [Self::List, Self::Detail, Self::Sports, Self::States, Self::Cities, Self::Changes];
}

/// Where an answer came from, for the hit ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the snapshot or the cache.
    Hit,
    /// The origin was asked, or should have been.
    Origin,
    /// An error of ours or a preflight: neither hit nor miss.
    Own,
}

/// The labels of a counter of answers that needed the origin: the words of `Cache-Status` (RFC 9211).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ForwardLabels {
    /// Why the origin was asked.
    pub fwd: &'static str,
    pub fwd_status: u16,
    /// Whether the answer was kept, `true` or `false`.
    pub stored: &'static str,
    /// Whether another request fetched it, `true` or `false`.
    pub collapsed: &'static str,
}

/// The most frequent outcomes and statuses, on every route.
const FREQUENT: [(&str, u16); 2] = [("hit", 200), ("hit", 304)];
/// Each thread has its own counters, so that no two write to one cache line; more threads than this share.
const SHARDS: usize = 32;

/// The counters of one thread since they were last added up.
#[repr(align(128))]
struct Shard {
    bytes: AtomicU64,
    answers: [[AtomicU64; FREQUENT.len()]; RouteLabel::HOT.len()],
    /// Times of answers since the start: these are never moved elsewhere.
    latency: [AtomicU64; BUCKETS],
    timings: Timings,
}

impl Default for Shard {
    fn default() -> Self {
        let latency = std::array::from_fn(|_| AtomicU64::default());
        Self { bytes: AtomicU64::default(), answers: Default::default(), latency, timings: Timings::default() }
    }
}

/// The counters, and whether the server stops; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Telemetry {
    answers: Arc<AnswerCounters>,
    pub connections: ConnectionCounters,
    /// Connections that were closed because of the PROXY protocol, by reason.
    pub headers_refused: ByLabels<&'static str>,
    stops: Arc<AtomicBool>,
}

#[derive(Default)]
struct AnswerCounters {
    /// By route, outcome and status.
    answers: ByLabels<(&'static str, &'static str, u16)>,
    forwards: ByLabels<ForwardLabels>,
    bytes: AtomicU64,
    hits: AtomicU64,
    asked: AtomicU64,
    shards: [Shard; SHARDS],
}

impl Telemetry {
    /// The server stops: from now on it is not ready.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Counts an answer. `outcome` says how it came about.
    pub(crate) fn answered(&self, route: RouteLabel, outcome: &'static str, source: Source, status: u16, bytes: usize) {
        let inner = &*self.answers;
        let shard = &inner.shards[shard()];
        // Relaxed, as all counters here: no other memory depends on them.
        shard.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let place = FREQUENT.iter().position(|frequent| *frequent == (outcome, status));
        if let (Some(place), Some(counts)) = (place, shard.answers.get(route as usize)) {
            counts[place].fetch_add(1, Ordering::Relaxed);
            return;
        }
        match source {
            Source::Hit => {
                inner.hits.fetch_add(1, Ordering::Relaxed);
                inner.asked.fetch_add(1, Ordering::Relaxed);
            }
            Source::Origin => drop(inner.asked.fetch_add(1, Ordering::Relaxed)),
            Source::Own => {}
        }
        inner.answers.add((route.as_str(), outcome, status), 1);
    }

    /// An answer was made within this time of its request's head being read.
    pub(crate) fn took(&self, route: RouteLabel, outcome: &str, time: Duration) {
        let shard = &self.answers.shards[shard()];
        shard.latency[timing::bucket(time)].fetch_add(1, Ordering::Relaxed);
        shard.timings.count(route, Group::of(outcome), time);
    }

    /// How long answers took, by route and outcome.
    pub(crate) fn timings(&self) -> Vec<Histogram> {
        timing::read(&self.answers.shards.iter().map(|shard| &shard.timings))
    }

    /// Adds up the counters of the threads, before they are read.
    fn settle(&self) {
        let inner = &*self.answers;
        for shard in &inner.shards {
            // Between `swap` and `fetch_add` a count is in neither place: a total may lag, but never goes back.
            inner.bytes.fetch_add(shard.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            for (route, counts) in RouteLabel::HOT.into_iter().zip(&shard.answers) {
                let route = route.as_str();
                for ((outcome, status), count) in FREQUENT.into_iter().zip(counts) {
                    let count = count.swap(0, Ordering::Relaxed);
                    inner.answers.add((route, outcome, status), count);
                    inner.hits.fetch_add(count, Ordering::Relaxed);
                    inner.asked.fetch_add(count, Ordering::Relaxed);
                }
            }
        }
    }

    /// Counts an answer that needed the origin; a collapsed one sent no request of its own.
    pub(crate) fn forwarded(&self, labels: ForwardLabels) {
        let inner = &*self.answers;
        if labels.collapsed == "true" {
            inner.hits.fetch_add(1, Ordering::Relaxed);
        }
        inner.forwards.add(labels, 1);
    }

    /// Answers by route, outcome and status.
    pub(crate) fn answers(&self) -> Vec<(Vec<String>, u64)> {
        self.settle();
        let texts =
            |(route, outcome, status): (&str, &str, u16)| [route, outcome, &status.to_string()].map(str::to_owned);
        self.answers.answers.counts().into_iter().map(|(labels, count)| (texts(labels).into(), count)).collect()
    }

    /// Answers that needed the origin, by the fields of [`ForwardLabels`].
    pub(crate) fn forwards(&self) -> Vec<(Vec<String>, u64)> {
        let texts = |ForwardLabels { fwd, fwd_status, stored, collapsed }| {
            [fwd, &fwd_status.to_string(), stored, collapsed].map(str::to_owned)
        };
        self.answers.forwards.counts().into_iter().map(|(labels, count)| (texts(labels).into(), count)).collect()
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        self.settle();
        self.answers.bytes.load(Ordering::Relaxed)
    }

    /// Answers since the start, by [`Group`], and those with status 304.
    pub(crate) fn answer_groups(&self) -> ([u64; Group::ALL.len()], u64) {
        self.settle();
        let (mut groups, mut not_modified) = ([0; Group::ALL.len()], 0);
        for ((_route, outcome, status), count) in self.answers.answers.counts() {
            groups[Group::of(outcome) as usize] += count;
            not_modified += if status == 304 { count } else { 0 };
        }
        (groups, not_modified)
    }

    /// What was counted since the start, for [`history`]; the rest of the reading is left as it is by default.
    pub(crate) fn reading(&self) -> HistorySample {
        let (answers, not_modified) = self.answer_groups();
        let of_all =
            |at: usize| self.answers.shards.iter().map(|shard| shard.latency[at].load(Ordering::Relaxed)).sum();
        HistorySample { answers, not_modified, latency: std::array::from_fn(of_all), ..HistorySample::ZERO }
    }

    /// Share of answers that needed no request to the origin; `None` before the first.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        self.settle();
        let [hits, asked] = [&self.answers.hits, &self.answers.asked].map(|count| count.load(Ordering::Relaxed));
        (asked > 0).then(|| hits as f64 / asked as f64)
    }
}

fn shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    MINE.with(|mine| *mine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_apart_adds_up() {
        let telemetry = Telemetry::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        telemetry.answered(RouteLabel::List, "hit", Source::Hit, 200, 7);
                        telemetry.answered(RouteLabel::List, "uri-miss", Source::Origin, 200, 1);
                        telemetry.answered(RouteLabel::Other, "hit", Source::Hit, 304, 0);
                    }
                });
            }
        });
        assert_eq!(telemetry.hit_ratio(), Some(2.0 / 3.0));
        let reading = telemetry.reading();
        assert_eq!((reading.answers, reading.not_modified), ([800, 0, 400, 0, 0, 0], 400));
        telemetry.took(RouteLabel::List, "hit", Duration::from_micros(3));
        assert_eq!(telemetry.timings().len(), 1);
        assert_eq!(telemetry.reading().latency.iter().sum::<u64>(), 1);
        let answers: Vec<(String, u64)> =
            telemetry.answers().into_iter().map(|(labels, count)| (labels.join(" "), count)).collect();
        for (labels, count) in [("list hit 200", 400), ("list uri-miss 200", 400), ("other hit 304", 400)] {
            assert!(answers.contains(&(labels.to_owned(), count)), "{labels} is not in {answers:?}");
        }
        assert_eq!(telemetry.body_bytes(), 3200);
    }
}
