//! Counters for `/metrics`: what was answered, and how.
//!
//! Layer 0: it knows words, not the things they stand for. Every counter of the hot path is found once, at the start.
//! Callers: [`crate::serve`] records, [`crate::admin`] prints.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The labels of one counter of answers.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabels {
    route: &'static str,
    outcome: &'static str,
    status: u16,
}

/// The labels of one counter of what came of asking the origin: the words of `Cache-Status` (RFC 9211).
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ForwardLabels {
    /// Why it was asked.
    pub fwd: &'static str,
    /// The status of its answer.
    pub fwd_status: u16,
    /// Whether the answer was kept, `true` or `false`.
    pub stored: &'static str,
    /// Whether another request's question brought it, `true` or `false`.
    pub collapsed: &'static str,
}

/// One counter found in advance.
type Known = (&'static str, &'static str, u16, Counter);

/// The counters; cheap to clone.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    answers: Family<AnswerLabels, Counter>,
    forwards: Family<ForwardLabels, Counter>,
    bytes: Counter,
    hits: Counter,
    asked: Counter,
    known: Vec<Known>,
}

impl Telemetry {
    /// Counters registered in `registry`. `routes` are the words of the hot path.
    pub fn new(registry: &mut Registry, routes: &[&'static str]) -> Self {
        let answers = Family::<AnswerLabels, Counter>::default();
        let (bytes, hits, asked) = (Counter::default(), Counter::default(), Counter::default());
        registry.register(
            "grandstand_answers",
            "Answers on the public listener, by route, outcome and status",
            answers.clone(),
        );
        let forwards = Family::<ForwardLabels, Counter>::default();
        registry.register(
            "grandstand_forwards",
            "Answers for which the origin was asked, in the words of Cache-Status",
            forwards.clone(),
        );
        registry.register("grandstand_body_bytes", "Body bytes sent on the public listener", bytes.clone());
        let known = routes.iter().flat_map(|route| {
            let answers = &answers;
            [("hit", 200), ("hit", 304)].into_iter().map(move |(outcome, status)| {
                let counter = answers.get_or_create_owned(&AnswerLabels { route, outcome, status });
                (*route, outcome, status, counter)
            })
        });
        let known = known.collect();
        Self(Arc::new(Inner { answers, forwards, bytes, hits, asked, known }))
    }

    /// One answer went out.
    pub fn answered(&self, route: &'static str, outcome: &'static str, status: u16, bytes: usize) {
        let inner = &*self.0;
        inner.bytes.inc_by(bytes as u64);
        if outcome.starts_with("hit") {
            inner.hits.inc();
            inner.asked.inc();
        } else if !matches!(outcome, "refused" | "problem" | "preflight") {
            inner.asked.inc();
        }
        let same = |known: &&Known| known.2 == status && std::ptr::eq(known.0, route) && known.1 == outcome;
        match inner.known.iter().find(same) {
            Some((_, _, _, counter)) => drop(counter.inc()),
            None => drop(inner.answers.get_or_create(&AnswerLabels { route, outcome, status }).inc()),
        }
    }

    /// The origin was asked for an answer that went out; one that was another request's question needed none of its own.
    pub fn forwarded(&self, labels: &ForwardLabels) {
        let inner = &*self.0;
        if labels.collapsed == "true" {
            inner.hits.inc();
        }
        inner.forwards.get_or_create(labels).inc();
    }

    /// Share of answers that needed no request to the origin; `None` before the first.
    pub fn hit_ratio(&self) -> Option<f64> {
        let asked = self.0.asked.get();
        (asked > 0).then(|| self.0.hits.get() as f64 / asked as f64)
    }
}
