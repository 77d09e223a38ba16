//! `GET /history.json`, the samples behind the console's charts, and the readings that they are made of.
//!
//! A reading every ten seconds of counters that count anyway, so it costs no request anything. Callers: [`crate::server`]
//! runs the sampler; [`super::Admin`].

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use crate::clock::WallTime;
use crate::origin::budget::{Budget, BudgetView};
use crate::origin::window::Class;
use crate::telemetry::Group;
use crate::telemetry::history::{Gauges, HistorySample, Sample, Span};

use super::process::Process;
use super::status::Status;
use super::{Reply, error, reply};

/// The samples of a span as columns, the oldest first; `null` where there is no sample, or no value in it.
pub(super) fn answer(status: &Status, query: Option<&str>) -> Reply {
    let span = match query.unwrap_or("span=minutes") {
        "span=minutes" => Span::Minutes,
        "span=hours" => Span::Hours,
        _ => return error(StatusCode::BAD_REQUEST, "GET /history.json takes one query, span=minutes or span=hours"),
    };
    let (now, wall) = (status.clock.now_mono(), status.clock.now_wall());
    let mut value = columns(&status.history.samples(span, now), span);
    // The end of the last sample.
    let since = now.as_nanos() % u64::try_from(span.step().as_nanos()).unwrap_or(u64::MAX) / 1_000_000;
    let until = WallTime::from_millis(wall.as_millis().saturating_sub_unsigned(since));
    value["until"] = until.rfc3339().into();
    reply(StatusCode::OK, "application/json", value.to_string())
}

fn columns(samples: &[Option<Sample>], span: Span) -> Value {
    fn column<T: Serialize>(samples: &[Option<Sample>], value: impl Fn(&Sample) -> T) -> Value {
        json!(samples.iter().map(|sample| sample.as_ref().map(&value)).collect::<Vec<_>>())
    }
    let answers = Group::ALL.map(|group| (group.as_str(), column(samples, |sample| sample.answers[group as usize])));
    let sent = Class::ALL.map(|class| (class.as_str(), column(samples, |sample| sample.sent[class as usize])));
    let budget = Class::ALL.map(|class| {
        (class.as_str(), column(samples, |sample| sample.gauges.budget.map(|budget| budget[class as usize])))
    });
    let by_name = |columns: &[(&str, Value)]| -> Map<String, Value> {
        columns.iter().map(|(name, column)| ((*name).to_owned(), column.clone())).collect()
    };
    json!({
        "span": span.as_str(),
        "step_seconds": span.step().as_secs(),
        "answers": by_name(&answers),
        "not_modified": column(samples, |sample| sample.not_modified),
        "p50_microseconds": column(samples, |sample| sample.p50),
        "p99_microseconds": column(samples, |sample| sample.p99),
        "origin_requests": by_name(&sent),
        "origin_budget": by_name(&budget),
        "age_seconds": column(samples, |sample| sample.gauges.age_seconds),
        "pages": column(samples, |sample| sample.gauges.pages),
        "details": column(samples, |sample| sample.gauges.details),
        "parity": column(samples, |sample| sample.gauges.parity),
        "memory_bytes": column(samples, |sample| sample.gauges.memory),
    })
}

/// Takes readings for as long as the process runs.
pub(crate) struct Sampler(pub Arc<Status>);

impl Sampler {
    pub(crate) async fn run(self) {
        tokio::join!(self.look(), self.sample());
    }

    /// Sees what is wrong also while nobody asks.
    async fn look(&self) {
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.0.look();
        }
    }

    async fn sample(&self) {
        let Self(status) = self;
        // A little after the end of each step, so that a timer that is early by a moment does not leave a step out.
        let (step, now) = (Span::Minutes.step(), status.clock.now_mono().as_nanos());
        let gone = now % u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        let first = step.saturating_sub(Duration::from_nanos(gone)) + Duration::from_millis(100);
        let mut ticks = interval_at(Instant::now() + first, step);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            status.history.record(status.clock.now_mono(), &read(status));
        }
    }
}

fn read(status: &Status) -> HistorySample {
    let published = status.current.get();
    let picture = status.picture();
    let sent = Class::ALL.map(|class| picture.sent.get(class.as_str()).copied().unwrap_or_default());
    let pass = picture.pass.filter(|pass| pass.of > 0);
    let details = published.as_ref().zip(status.details.as_ref());
    let budget = status.budget().map(Budget::view).and_then(|BudgetView { used, .. }| used);
    let parity = status.audits.as_ref().and_then(|audits| audits.score().percent());
    let gauges = Gauges {
        budget: budget.map(|used| used.map(|used| u32::try_from(used).unwrap_or(u32::MAX))),
        age_seconds: published.as_ref().and_then(|published| published.age_seconds(status.clock.now())),
        pages: pass.map(|pass| share(pass.done, pass.of)),
        details: details.map(|(published, details)| {
            share(details.mirrored(&published.dataset) as u64, published.dataset.len() as u64)
        }),
        parity: parity.map(|percent| (percent / 100.0) as f32),
        memory: Process::now().resident_bytes,
    };
    HistorySample { sent, gauges, ..status.telemetry.reading() }
}

/// 0 to 1; of nothing everything is there.
fn share(part: u64, of: u64) -> f32 {
    if of == 0 { 1.0 } else { (part as f64 / of as f64).min(1.0) as f32 }
}
