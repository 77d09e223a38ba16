//! Takes a reading of the counters every ten seconds, for the charts of the operator's page.
//!
//! It only reads existing counters, so it costs no request anything. Callers: [`crate::app`] runs it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::telemetry::history::{Reading, Span};
use crate::upstream::status::OriginStatus;
use crate::upstream::window::Class;

use super::status::Status;

/// Takes readings for as long as the process runs.
pub(crate) struct Sampler(pub Arc<Status>);

impl Sampler {
    /// Runs until the process stops.
    pub(crate) async fn run(self) {
        let Self(status) = self;
        // A little after the end of each step, so that a timer that is early by a moment does not leave a step out.
        let (step, now) = (Span::Minutes.step(), status.clock.now_mono().as_nanos());
        let gone = now % u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        let first = step.saturating_sub(Duration::from_nanos(gone)) + Duration::from_millis(100);
        let mut ticks = interval_at(Instant::now() + first, step);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            status.history.record(status.clock.now_mono(), &read(&status));
        }
    }
}

/// What the counters say now.
fn read(status: &Status) -> Reading {
    let published = status.current.get();
    let picture = status.origin.as_ref().map(OriginStatus::picture).unwrap_or_default();
    let sent = Class::ALL.map(|class| picture.sent.get(class.as_str()).copied().unwrap_or_default());
    let pass = picture.pass.filter(|pass| pass.of > 0);
    let details = published.as_ref().zip(status.details.as_ref());
    let parity = status.audits.as_ref().and_then(|audits| audits.score().percent());
    Reading {
        sent,
        age_seconds: published.as_ref().and_then(|published| published.age_seconds(status.clock.now())),
        pages: pass.map(|pass| share(pass.done, pass.of)),
        details: details.map(|(published, details)| {
            share(details.mirrored(&published.dataset) as u64, published.dataset.len() as u64)
        }),
        parity: parity.map(|percent| (percent / 100.0) as f32),
        ..status.telemetry.reading()
    }
}

/// 0 to 1; of nothing everything is there.
fn share(part: u64, of: u64) -> f32 {
    if of == 0 { 1.0 } else { (part as f64 / of as f64).min(1.0) as f32 }
}
