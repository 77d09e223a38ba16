//! Samples: requests of every kind whose answers are compared with what clients get, some all the time, more when an
//! audit is asked for.
//!
//! A difference counts only if it outlasts a refresh: the origin's answer is the same before and after the mirror was
//! confirmed for a later instant, and the mirror's differs. Differing data is then fetched again. A query with filters that
//! differs is asked once more as an example, which decides about its shape. Callers: [`super`].

use std::sync::Arc;

use crate::api::listing::ListingId;
use crate::api::shape::Shape;
use crate::api::values;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::meta::Certificate;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::verdicts::table::Heard;
use crate::mirror::details::is_unproven;
use crate::origin::window::Class;
use crate::tasks::{Aborted, blocking};

use super::asked::Asked;
use super::difference::{Difference, DifferenceKind};
use super::example::Example;
use super::report::{Outcome, Phase};
use super::{BUSY, Compared, Examiner, MOST_FAILURES, asker, sample};

/// How often a difference is compared again while the origin keeps changing.
const ROUNDS: usize = 3;

/// What a look at a sample showed.
enum SampleLook {
    Settled(Outcome),
    /// They differ; perhaps the origin has changed since the last refresh.
    Suspect(Box<Compared>),
}

/// A sample, drawn where that delays nobody.
async fn drawn(
    newest: Option<Arc<Snapshot>>,
    draw: impl FnOnce(&Dataset, usize) -> Asked + Send + 'static,
    turn: usize,
) -> Result<Asked, &'static str> {
    let newest = newest.ok_or("there is no snapshot yet; run `grandstand sync` first")?;
    blocking(move || Ok::<_, Aborted>(draw(&newest.dataset, turn))).await.map_err(|_aborted| BUSY)
}

impl Examiner {
    /// Compares one sample, as it is done all the time.
    pub(super) async fn sample(&mut self) {
        self.turn += 1;
        let Ok(sample) = drawn(self.shared.newest.get(), sample::ordinary, self.turn).await else { return };
        let (sample, outcome) = match self.look(&sample, None).await {
            Err(why) => (sample, Outcome::NotAnswered(why)),
            Ok(SampleLook::Settled(outcome)) => (sample, outcome),
            Ok(SampleLook::Suspect(before)) => {
                let Some(confirmed) = self.confirm(vec![(sample, before)], || {}).await.pop() else { return };
                confirmed
            }
        };
        if self.settle(&sample, &outcome).await {
            self.pass_now_and_then();
        }
    }

    /// Makes the audit that was asked for.
    pub(super) async fn audit(&mut self) {
        self.audits.update(|job| job.phase = Phase::Sampling);
        let (samples, first) = (self.audits.job().samples, rand::random_range(0..1 << 20));
        let (mut suspects, mut failures, mut whole) = (Vec::new(), 0, false);
        for (done, turn) in (0..samples).zip(first..) {
            let now = self.shared.clock.now_wall().as_millis().saturating_mul(1_000_000);
            let any = move |dataset: &Dataset, turn| sample::any(dataset, turn, now);
            let sample = match drawn(self.shared.newest.get(), any, turn).await {
                Ok(sample) => sample,
                Err(why) => {
                    self.give_up(samples - done, why);
                    break;
                }
            };
            let looked = self.look(&sample, None).await;
            failures = if looked.is_err() { failures + 1 } else { 0 };
            match looked {
                Err(why) => whole |= self.settle_one(&sample, Outcome::NotAnswered(why)).await,
                Ok(SampleLook::Settled(outcome)) => whole |= self.settle_one(&sample, outcome).await,
                Ok(SampleLook::Suspect(before)) => suspects.push((sample, before)),
            }
            self.audits.update(|job| job.done += 1);
            if failures >= MOST_FAILURES {
                self.give_up(samples - done - 1, "the origin is unreachable");
                break;
            }
            // It takes hours, perhaps; what is due is not put off.
            self.step_or_warn().await;
        }
        if !suspects.is_empty() {
            let of = suspects.len() as u64;
            self.audits.update(|job| (job.phase, job.done, job.of) = (Phase::Confirming, 0, of));
            let audits = self.audits.clone();
            for (sample, outcome) in self.confirm(suspects, || audits.update(|job| job.done += 1)).await {
                whole |= self.settle_one(&sample, outcome).await;
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
    async fn settle_one(&self, sample: &Asked, outcome: Outcome) -> bool {
        let whole = self.settle(sample, &outcome).await;
        self.audits.update(|job| job.report.count(&format!("GET {sample}"), outcome));
        whole
    }

    /// Counts a sample and repairs differences; `true` if that needs a whole pass.
    async fn settle(&self, sample: &Asked, outcome: &Outcome) -> bool {
        let request = format!("GET {sample}");
        tracing::debug!(request, outcome = outcome.as_str(), "compared with the origin");
        self.audits.count(&request, outcome, self.shared.clock.now_wall());
        let Outcome::Different(differences) = outcome else { return false };
        for difference in differences {
            tracing::warn!(request, "the mirror differs from its origin: {difference}");
        }
        let Some(newest) = self.shared.newest.get() else { return false };
        self.suspect(&newest, sample, differences).await;
        // What confirmed it may be what is wrong.
        let stamps = self.shared.copies.client.stamps();
        let doubted = stamps.doubt();
        let Asked::Detail(id) = sample else { return true };
        if newest.dataset.summary(*id).is_none() {
            return true;
        }
        if let Err(error) = self.fetch_detail(&newest, *id).await {
            tracing::warn!(error, %id, "a detail that differs could not be fetched");
        }
        stamps.doubt_no_more(doubted);
        false
    }

    /// Has a query with filters asked again as an example, if its rows are ours, clients get it from the snapshot, and the
    /// origin's list is the one that was compared.
    async fn suspect(&self, newest: &Snapshot, sample: &Asked, differences: &[Difference]) {
        let Asked::Query(Example { query, .. }) = sample else { return };
        let is_meaning =
            |one: &Difference| matches!(one.what, DifferenceKind::Field | DifferenceKind::Ids | DifferenceKind::Status);
        let is_ours = newest.meta.certificate != Certificate::Provisional && !self.holds_back();
        let is_told = query.is_filtered() && differences.iter().all(is_meaning);
        if !is_told || !is_ours || self.shared.verdicts.doubts(query).is_some() {
            return;
        }
        let (heard, at) = (Heard::Differs { only_order: false }, self.moment(true, false));
        self.shared.verdicts.change(|table| table.heard(Shape::of(query), &query.path_and_query(), heard, at));
        // A command ends before it is asked.
        let _stored = self.keep().await;
    }

    /// Compares a sample. `before`: how the origin's answer differed before a refresh; only with it a difference counts.
    /// The error says why nothing can be compared.
    async fn look(&self, sample: &Asked, before: Option<&Compared>) -> Result<SampleLook, String> {
        let newest = self.shared.newest.get().ok_or("there is no snapshot")?;
        if !self.answers(&newest, sample)? {
            return Ok(SampleLook::Settled(Outcome::ReadThrough));
        }
        if let (Asked::Detail(id), Some(_)) = (sample, before) {
            self.bring_up_to_date(&newest, *id).await?;
        }
        let one = self.compared(sample.clone(), asker(Class::Background), before).await;
        if matches!(one.said.heard, Heard::Equal { .. }) {
            return Ok(SampleLook::Settled(Outcome::Equal));
        }
        if let Some(why) = one.said.why {
            return Err(why);
        }
        if sample.shape() == Some(Shape::LIST) && newest.meta.certificate == Certificate::BestEffort {
            let why = "pages of the origin contradict each other";
            return Ok(SampleLook::Settled(Outcome::NotAnswered(why.to_owned())));
        }
        let Some(before) = before else { return Ok(SampleLook::Suspect(Box::new(one))) };
        if matches!(*sample, Asked::Detail(id) if self.shared.details.is_unsettled(&newest.dataset, id)) {
            let why = "the origin's CDN returned an old copy of a detail; the detail is fetched again later";
            return Ok(SampleLook::Settled(Outcome::NotAnswered(why.to_owned())));
        }
        let volatile = self.shared.copies.volatile();
        let is_same = values::same_but_for(&before.text, &one.text, |key| volatile.contains(key));
        if before.status != one.status || !is_same {
            return Ok(SampleLook::Suspect(Box::new(one)));
        }
        Ok(SampleLook::Settled(Outcome::Different(one.said.differences)))
    }

    /// Compares suspects again after a refresh, until the answers are equal or proved different.
    async fn confirm(&self, mut suspects: Vec<(Asked, Box<Compared>)>, settled: impl Fn()) -> Vec<(Asked, Outcome)> {
        let mut outcomes = Vec::with_capacity(suspects.len());
        let mut reason = "the origin kept changing during the comparison";
        for _ in 0..ROUNDS {
            let Some(at_ms) = suspects.iter().map(|(_, before)| before.at_ms).max() else { break };
            if let Err(why) = self.confirmed_since(at_ms).await {
                reason = why;
                break;
            }
            for (sample, before) in std::mem::take(&mut suspects) {
                let outcome = match self.look(&sample, Some(&before)).await {
                    Ok(SampleLook::Suspect(again)) => {
                        suspects.push((sample, again));
                        continue;
                    }
                    Ok(SampleLook::Settled(outcome)) => outcome,
                    // The difference was seen, even if it cannot be compared any more.
                    Err(why) => Outcome::Undecided(why),
                };
                outcomes.push((sample, outcome));
                settled();
            }
        }
        outcomes.extend(suspects.into_iter().map(|(sample, _)| (sample, Outcome::Undecided(reason.to_owned()))));
        outcomes
    }

    /// Whether clients get the snapshot's answer.
    fn answers(&self, newest: &Snapshot, sample: &Asked) -> Result<bool, String> {
        Ok(match sample {
            Asked::Query(Example { query, .. }) => {
                self.shared.verdicts.doubts(query).is_none() && newest.dataset.find(query).is_ok()
            }
            Asked::Detail(id) => {
                let is_listed = newest.dataset.summary(*id).is_some();
                !is_listed || self.shared.details.get(*id).map_err(|error| error.to_string())?.is_some()
            }
            Asked::Open(_) | Asked::Taxonomy(_) => true,
        })
    }

    /// Fetches a detail that is known to be older than its summary.
    async fn bring_up_to_date(&self, newest: &Snapshot, id: ListingId) -> Result<(), String> {
        let hash = newest.dataset.summary(id).map(|summary| summary.hash);
        let record = self.shared.details.get(id).map_err(|error| error.to_string())?;
        let known = record.map(|record| record.meta.summary_hash);
        if known.zip(hash).is_some_and(|(known, hash)| known == hash || is_unproven(known, hash)) {
            return Ok(());
        }
        self.fetch_detail(newest, id).await
    }

    async fn fetch_detail(&self, newest: &Snapshot, id: ListingId) -> Result<(), String> {
        let Some(summary) = newest.dataset.summary(id) else { return Ok(()) };
        let (copies, details) = (&self.shared.copies, &self.shared.details);
        let fetched = details.fetch(&copies.client, &copies.volatile(), summary, asker(Class::Background)).await;
        fetched.map(drop).map_err(|error| error.to_string())
    }
}
