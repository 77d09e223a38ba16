//! The audit: compares the mirror's answers with the origin's, request by request.
//!
//! It uses the background's tenth of the budget and stores no answers. [`sample`] draws examples and ordinary requests,
//! `look` gets both answers, [`compare`] finds differences, [`job`] sums them up. A difference counts only if it outlasts a
//! refresh: the origin's answer is the same before and after the mirror was confirmed for a later instant, and the
//! mirror's differs. Differing data is then fetched again; a difference in what a filter selects is the examiner's.
//! Callers: [`crate::app`] runs it, [`job::Audits`] is how others ask for one.

pub(crate) mod compare;
pub(crate) mod job;
mod look;
pub(crate) mod sample;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;

use crate::api::listing::ListingId;
use crate::clock::Monotonic;
use crate::snapshot::pointer::Snapshot;
use crate::tasks::{Aborted, blocking};

use crate::mirror::MirrorContext;
use crate::mirror::examiner::{MOST_FAILURES, PASS_PAUSE};

use job::{Audits, Outcome, Phase};
use look::Look;
use sample::{Request, Sampler};

/// Compares the mirror with its origin.
pub(crate) struct Auditor {
    shared: MirrorContext,
    /// Requested audits and their state.
    audits: Audits,
    /// When a background sample last asked for a whole pass.
    passed: Mutex<Option<Monotonic>>,
}

/// The next request, drawn where that delays nobody.
async fn drawn(sampler: &mut Sampler, published: &Arc<Snapshot>) -> Result<Request, Aborted> {
    let (mut dice, published) = (std::mem::replace(sampler, Sampler::new(0)), published.clone());
    let draw = move || {
        let request = dice.next(&published.dataset);
        Ok::<_, Aborted>((dice, request))
    };
    let (dice, request) = blocking(draw).await?;
    *sampler = dice;
    Ok(request)
}

impl Auditor {
    /// An auditor that answers to `audits`.
    pub(crate) fn new(shared: MirrorContext, audits: Audits) -> Self {
        Self { shared, audits, passed: Mutex::default() }
    }

    /// Samples in the background and whenever an audit is asked for, for ever.
    pub(crate) async fn run(self) {
        let mut sampler = Sampler::new(rand::rng().random());
        let _ended = self.audits.ended_when_dropped();
        let mut changes = self.shared.settings.changes();
        loop {
            tokio::select! {
                () = self.audits.wait() => self.audit().await,
                () = self.gap() => self.sample(&mut sampler).await,
                // Another rhythm, perhaps.
                Ok(()) = changes.changed() => {}
            }
        }
    }

    /// The time to the next background sample: even over the hour, with jitter. Every other example is the examiner's.
    async fn gap(&self) {
        let per_hour = self.shared.settings.load().mirror.examine_per_hour;
        match per_hour {
            0 => std::future::pending().await,
            per_hour => {
                let gap = 2 * Duration::from_secs(3600) / per_hour;
                let jitter = rand::rng().random_range(0.5..1.5);
                tokio::time::sleep(gap.mul_f64(jitter)).await;
            }
        }
    }

    /// One background sample.
    async fn sample(&self, sampler: &mut Sampler) {
        let Some(published) = self.shared.newest.get() else { return };
        let Ok(sample) = drawn(sampler, &published).await else { return };
        drop(published);
        let (sample, outcome) = match self.look(&sample, None).await {
            Look::Settled(outcome) => (sample, outcome),
            Look::Suspect(theirs) => {
                let Some(confirmed) = self.confirm(vec![(sample, theirs)], || {}).await.pop() else { return };
                confirmed
            }
        };
        self.note(&sample, &outcome);
        if self.heal(&sample, &outcome).await {
            let now = self.shared.clock.now_mono();
            let mut passed = self.passed.lock();
            if passed.is_none_or(|last| now.since(last) >= PASS_PAUSE) {
                *passed = Some(now);
                self.shared.commands.pass();
            }
        }
    }

    /// The requested audit.
    async fn audit(&self) {
        self.audits.update(|job| job.phase = Phase::Sampling);
        let samples = self.audits.job().samples;
        let mut sampler = Sampler::new(rand::rng().random());
        let (mut suspects, mut failures, mut whole) = (Vec::new(), 0, false);
        for done in 0..samples {
            let Some(published) = self.shared.newest.get() else {
                self.give_up(samples - done, "there is no snapshot yet; run `grandstand sync` first");
                break;
            };
            let Ok(sample) = drawn(&mut sampler, &published).await else {
                self.give_up(samples - done, "this server is too busy");
                break;
            };
            drop(published);
            match self.look(&sample, None).await {
                Look::Settled(outcome) => {
                    failures = if matches!(outcome, Outcome::NotAnswered(_)) { failures + 1 } else { 0 };
                    whole |= self.settle(&sample, outcome).await;
                }
                Look::Suspect(theirs) => {
                    failures = 0;
                    suspects.push((sample, theirs));
                }
            }
            self.audits.update(|job| job.done += 1);
            if failures >= MOST_FAILURES {
                self.give_up(samples - done - 1, "the origin is unreachable");
                break;
            }
        }
        if !suspects.is_empty() {
            let of = suspects.len() as u64;
            self.audits.update(|job| (job.phase, job.done, job.of) = (Phase::Confirming, 0, of));
            for (sample, outcome) in self.confirm(suspects, || self.audits.update(|job| job.done += 1)).await {
                whole |= self.settle(&sample, outcome).await;
            }
        }
        let passes = self.shared.copies.client.status().picture().passes;
        if whole {
            self.shared.commands.pass();
        }
        self.audits.update(|job| {
            job.awaits_pass = whole.then_some(passes);
            job.phase = Phase::Done;
            tracing::info!(id = job.id, "audit: {}", job.report.summary());
        });
    }

    fn give_up(&self, samples: u64, reason: &str) {
        self.audits.update(|job| {
            job.report.given_up = true;
            for _ in 0..samples {
                job.report.count("", Outcome::NotAnswered(reason.to_owned()));
            }
        });
    }

    /// Counts a sample of an audit and repairs differences; `true` if that needs a whole pass.
    async fn settle(&self, sample: &Request, outcome: Outcome) -> bool {
        self.note(sample, &outcome);
        let whole = self.heal(sample, &outcome).await;
        self.audits.update(|job| job.report.count(&sample.to_string(), outcome));
        whole
    }

    fn note(&self, sample: &Request, outcome: &Outcome) {
        let request = sample.to_string();
        match outcome {
            Outcome::Different(differences) => {
                for difference in differences {
                    tracing::warn!(request, "the mirror differs from its origin: {difference}");
                }
            }
            outcome => tracing::debug!(request, outcome = outcome.as_str(), "audited"),
        }
        self.audits.update_score(|score| score.count(&request, outcome, self.shared.clock.now_wall()));
    }

    /// Fetches a differing detail; `true` if something else differs, which needs a whole pass.
    async fn heal(&self, sample: &Request, outcome: &Outcome) -> bool {
        let Outcome::Different(_) = outcome else { return false };
        let Some(published) = self.shared.newest.get() else { return false };
        let Request::Detail(id) = *sample else { return true };
        if published.dataset.summary(id).is_none() {
            return true;
        }
        if let Err(error) = self.fetch_detail(&published, id).await {
            tracing::warn!(error, %id, "a detail that differs could not be fetched");
        }
        false
    }

    async fn fetch_detail(&self, published: &Snapshot, id: ListingId) -> Result<(), String> {
        let Some(summary) = published.dataset.summary(id) else { return Ok(()) };
        let volatile = self.shared.copies.volatile();
        let fetched = self.shared.details.fetch(&self.shared.copies.client, &volatile, summary, Self::asker()).await;
        fetched.map(drop).map_err(|error| error.to_string())
    }
}
