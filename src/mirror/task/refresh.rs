//! A refresh: at most five conditional requests, and what follows from their answers. A changed list is published when
//! probe, first page and taxonomies hold still.
//!
//! [`super::super::refresh`] says what is asked, and judges the answers. Callers: [`super`] and its parts.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::api::listing::ListingId;
use crate::api::page::Page;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::meta::Certificate;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::verdicts::Verdicts;
use crate::origin::client::AskError;
use crate::origin::status::OriginState;
use crate::origin::window::Class;

use super::super::copies::{Copies, Copy, CopyError};
use super::super::pass::{self, Beside};
use super::super::refresh::{Answers, PROBE, Probe, ProbeShape, RefreshVerdict};
use super::amend::NotAmended;
use super::publish::{Candidate, Prepared, Proof};
use super::schedule::{Doing, Next, TaskPurpose, Work};
use super::{DAY_MS, Mirror, MirrorError, TRIES};

/// Statuses for a question that a server does not understand.
const REFUSED: [u16; 3] = [400, 414, 422];

/// Puts the five questions of a refresh in a way that the origin understands.
pub(super) struct Questions {
    copies: Copies,
    pub(super) verdicts: Verdicts,
    pub(super) shape: ProbeShape,
    /// When the shape was last changed, in milliseconds of our clock: it is tried again a day later.
    changed_ms: i64,
    /// How often in a row the probe alone was not answered.
    unprobed: u32,
    /// Listings that the probe names and no list shows, such as deleted ones.
    unlisted: HashSet<ListingId>,
    /// Whether some of them were found by a pass that found nothing.
    is_excused: bool,
    /// Counts refreshes: which page is looked at in the place of a probe.
    pub(super) turn: u64,
}

impl Questions {
    pub(super) fn new(copies: Copies, verdicts: Verdicts) -> Self {
        let (shape, unlisted) = (ProbeShape::default(), HashSet::new());
        Self { copies, verdicts, shape, changed_ms: 0, unprobed: 0, unlisted, is_excused: false, turn: 0 }
    }

    /// Keeps in mind that no list shows these, which the probe names: the origin may mean something else by it than we do.
    fn leave_out(&mut self, unlisted: Vec<ListingId>, answers: &Answers) {
        /// More of them are forgotten.
        const MOST: usize = 10_000;
        if let Some((probe, ..)) = answers.probe.as_ref().filter(|_| !unlisted.is_empty()) {
            self.verdicts.suspect(&probe.path, self.copies.client.now_ms());
        }
        if self.unlisted.len() > MOST {
            self.unlisted.clear();
        }
        self.unlisted.extend(unlisted);
    }

    /// A pass has found nothing of the change that the probe shows: perhaps it names listings that no list shows; else
    /// the origin understands it differently.
    fn disprove(&mut self, answers: &Answers, dataset: &Dataset) {
        let unknown = answers.unknown(dataset);
        self.changed_ms = self.copies.client.now_ms();
        if unknown.is_empty() || std::mem::replace(&mut self.is_excused, true) {
            self.probe_otherwise();
        }
        self.leave_out(unknown, answers);
    }

    /// Falls back to a probe that the origin may understand.
    fn probe_otherwise(&mut self) {
        (self.shape, self.changed_ms) = (self.shape.next(), self.copies.client.now_ms());
        tracing::warn!(
            shape = self.shape.as_str(),
            "the origin answers the probe differently than expected; probing in another way"
        );
    }

    /// The five questions about a data set.
    pub(super) async fn ask(&mut self, dataset: &Dataset, confirmed_ms: i64) -> Result<Answers, MirrorError> {
        self.turn += 1;
        if self.copies.client.now_ms().saturating_sub(self.changed_ms) > DAY_MS {
            (self.shape, self.is_excused) = (ProbeShape::default(), false);
        }
        // One request first: nothing more is sent to an origin that does not answer it.
        let copies = self.copies.clone();
        let first = copies.fetch(&pass::page_path(1), Class::Refresh).await?;
        let [sports, states, cities] = TaxonomyKind::ALL.map(|kind| copies.fetch(kind.path(), Class::Refresh));
        let (sports, states, cities, probed) = tokio::join!(sports, states, cities, self.probe(dataset, confirmed_ms));
        let taxonomies = [sports?, states?, cities?];
        let probe = match probed {
            Ok(probe) => {
                self.unprobed = 0;
                probe
            }
            // A probe that alone stays unanswered, again and again, is given up.
            Err(CopyError::Ask(error)) if self.unprobed + 1 >= TRIES => {
                tracing::warn!(%error, "only the probe fails");
                self.probe_otherwise();
                self.unprobed = 0;
                None
            }
            Err(error) => {
                self.unprobed += 1;
                return Err(error.into());
            }
        };
        let page = copies.page(&first)?;
        let mut answers = Answers { probe, first: (first, page), taxonomies };
        answers.leave_out(|id| self.unlisted.contains(&id) && dataset.summary(id).is_none());
        Ok(answers)
    }

    /// The five questions about a data set that follows another one: the probe may name what was removed from it.
    async fn ask_again(
        &mut self,
        dataset: &Dataset,
        before: Option<&Dataset>,
        now_ms: i64,
    ) -> Result<Answers, MirrorError> {
        let mut answers = self.ask(dataset, now_ms).await?;
        let mut removed = answers.unknown(dataset);
        removed.retain(|id| before.is_some_and(|before| before.summary(*id).is_some()));
        self.leave_out(removed.clone(), &answers);
        answers.leave_out(|id| removed.contains(&id));
        Ok(answers)
    }

    /// The probe for a data set with its answer; `None`: there is only one page. A refused probe changes its shape.
    async fn probe(&mut self, dataset: &Dataset, confirmed_ms: i64) -> Result<Option<(Probe, Copy, Page)>, CopyError> {
        let turn = self.turn;
        let of = |shape| Probe::dated(dataset, confirmed_ms, shape).or_else(|| Probe::page(dataset, turn));
        while let Some(probe) = of(self.shape) {
            match self.copies.fetch(&probe.path, Class::Refresh).await {
                Ok(copy) => {
                    let page = self.copies.page(&copy)?;
                    return Ok(Some((probe, copy, page)));
                }
                Err(CopyError::Ask(AskError::Status { status, .. })) if REFUSED.contains(&status) => {
                    self.probe_otherwise();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Mirror {
    /// Asks whether anything has changed, and begins what follows if so. `work` is the active work.
    pub(super) async fn refresh(&mut self, work: Option<&mut Work>) -> Result<Next, MirrorError> {
        let Some(newest) = self.newest() else { return Ok(Next::Stay(OriginState::Crawling)) };
        let started_ms = self.clock.now_wall().as_millis();
        if let Some(held) = self.shrink.held.clone()
            && Box::pin(self.refresh_held(held)).await?
        {
            return Ok(Next::Stay(OriginState::Changed));
        }
        loop {
            let sent = self.copies.sent();
            let answers = self.questions.ask(&newest.dataset, newest.meta.confirmed_ms).await?;
            // What follows counts from here.
            self.outlay.spare(self.copies.sent() - sent);
            self.outlay.answered(answers.hashes(&self.copies.volatile()));
            self.pause_for(0);
            let confirmed_ms = newest.meta.confirmed_ms.min(self.clock.now_wall().as_millis());
            let first_page = self.contradictions.first_page(&newest.dataset.id);
            let what = match answers.judge(&newest.dataset, confirmed_ms, &self.copies.volatile(), first_page) {
                RefreshVerdict::Unchanged => {
                    self.confirm(&newest, answers.until_ms()).await?;
                    return Ok(Next::Stay(OriginState::Unchanged));
                }
                // The CDN sent copies older than the known data; they confirm nothing.
                RefreshVerdict::Older => return Ok(Next::Stay(OriginState::Unchanged)),
                RefreshVerdict::SelectsOthers
                    if !answers.lacks(&newest.dataset) || self.questions.shape == ProbeShape::Timestamp =>
                {
                    // The answer has no news: the origin understands the question differently.
                    self.questions.probe_otherwise();
                    continue;
                }
                RefreshVerdict::SelectsOthers => "the probe's selection",
                RefreshVerdict::Changed(what) => what,
            };
            if let Some(next) = self.known(work, &answers).await? {
                return Ok(next);
            }
            tracing::info!(what, "the origin has changed");
            let (left_out, values) = (newest.meta.left_out.clone(), newest.meta.volatile_values.clone());
            let beside = Beside { left_out, volatile_values: values };
            return self.follow(&newest.dataset, &beside, &answers, started_ms).await;
        }
    }

    /// What follows answers that differ from the newest snapshot but begin nothing new: what they show is followed
    /// already, and perhaps they confirm it; or it changes back and forth.
    async fn known(&mut self, work: Option<&mut Work>, answers: &Answers) -> Result<Option<Next>, MirrorError> {
        const STAY: Option<Next> = Some(Next::Stay(OriginState::Changed));
        let volatile = self.copies.volatile();
        let follows = work.as_ref().is_some_and(|work| work.purpose() == TaskPurpose::Follow);
        if let Some(Work { doing: Doing::Confirming(candidate), .. }) = work
            && answers.judge(&candidate.list.dataset, i64::MIN, &volatile, None) == RefreshVerdict::Unchanged
        {
            if !answers.held_still() {
                return Ok(STAY);
            }
            let proof = Proof::of(self.earned(candidate), answers.until_ms());
            return self.publish_candidate(candidate, proof).await.map(Some);
        }
        // Copies that differ again and again must not cost more and more.
        let pages = self.newest().map_or(1, |newest| pass::pages_of(&newest.dataset));
        let is_known = follows && (self.followed == answers.hashes(&volatile) || !self.pause_for(pages + 5).is_zero());
        Ok(if is_known || !self.schedule.flips.wait(self.clock.now_mono()).is_zero() { STAY } else { None })
    }

    /// Judges the held list again; `true` if the origin still has it.
    async fn refresh_held(&mut self, mut held: Prepared) -> Result<bool, MirrorError> {
        let dataset = &held.list.dataset;
        let answers = self.questions.ask(dataset, held.meta.confirmed_ms).await?;
        if answers.judge(dataset, held.meta.confirmed_ms, &self.copies.volatile(), None) != RefreshVerdict::Unchanged {
            // It stays told until what the origin has now is judged: nothing got better yet.
            self.shrink.held = None;
            return Ok(false);
        }
        held.meta.confirmed_ms = held.meta.confirmed_ms.max(answers.until_ms());
        if held.meta.certificate == Certificate::Full {
            held.meta.certificate = Certificate::Incremental;
        }
        if self.shrink.accepted.is_some() {
            self.publish_held(held).await?;
        } else {
            self.shrink.held = Some(held);
        }
        Ok(true)
    }

    /// The same data, confirmed for a later instant.
    pub(super) async fn confirm(&mut self, newest: &Snapshot, until_ms: i64) -> Result<(), MirrorError> {
        // The origin no longer has the held list.
        self.shrink.forget();
        let mut meta = newest.meta.clone();
        // A stamp from the future is from before the clock was set back: it confirms nothing.
        let unconfirmed = newest.is_unconfirmed(self.clock.now_wall());
        meta.confirmed_ms = if unconfirmed { until_ms } else { meta.confirmed_ms.max(until_ms) };
        meta.claimed_ms = None;
        if meta.certificate == Certificate::Full && until_ms > newest.meta.confirmed_ms {
            meta.certificate = Certificate::Incremental;
        }
        self.renew(newest, meta).await
    }

    /// Follows a change: amends the list if the answers suffice, else every page is read.
    async fn follow(
        &mut self,
        base: &Arc<Dataset>,
        beside: &Beside,
        answers: &Answers,
        started_ms: i64,
    ) -> Result<Next, MirrorError> {
        self.followed = answers.hashes(&self.copies.volatile());
        if !self.lives_with_contradiction() {
            match self.amend(base, beside, answers).await {
                Ok(candidate) => {
                    return Ok(Next::Instead(Doing::Confirming(Box::new(candidate)), self.until_proof()?));
                }
                Err(NotAmended::Failed(error)) => return Err(error),
                Err(reason) => tracing::debug!(%reason, "every page is read"),
            }
        }
        Ok(self.reading(TaskPurpose::Follow, started_ms, answers.probe.is_some()))
    }

    /// Asks once more; publishes if nothing moved. `unsettled`: how often in a row something did.
    pub(super) async fn confirm_candidate(
        &mut self,
        candidate: &mut Candidate,
        unsettled: &mut u32,
    ) -> Result<Next, MirrorError> {
        if let Some(proof) = candidate.proof.take() {
            return self.publish_candidate(candidate, proof).await;
        }
        let pause = self.pause_for(5);
        if !pause.is_zero() {
            return Ok(Next::Again(pause));
        }
        let started_ms = self.clock.now_wall().as_millis();
        let dataset = candidate.list.dataset.clone();
        let newest = self.newest().map(|newest| newest.dataset.clone());
        let answers = self.questions.ask_again(&dataset, newest.as_deref(), started_ms).await?;
        candidate.tries += 1;
        let (may_try, is_last_try) = (candidate.tries < TRIES, *unsettled + 1 >= TRIES);
        let volatile = self.copies.volatile();
        let proof = match answers.judge(&dataset, i64::MIN, &volatile, None) {
            RefreshVerdict::Unchanged if answers.held_still() => Proof::of(self.earned(candidate), answers.until_ms()),
            // The CDN's copies are from different instants; younger ones come.
            RefreshVerdict::Unchanged if may_try => return Ok(Next::Again(self.copies.lag())),
            RefreshVerdict::Unchanged => {
                Proof::open("the origin's answers never agreed on one instant", answers.until_ms())
            }
            RefreshVerdict::SelectsOthers | RefreshVerdict::Changed(PROBE)
                if self.questions.shape != ProbeShape::Pages
                    && newest.as_ref().is_some_and(|newest| newest.id == dataset.id) =>
            {
                candidate.tries = 0;
                self.questions.disprove(&answers, &dataset);
                return Ok(Next::Again(Duration::ZERO));
            }
            // Perhaps a copy of another instant; if not, the origin understands the question differently.
            RefreshVerdict::SelectsOthers if may_try => return Ok(Next::Again(self.copies.lag())),
            RefreshVerdict::SelectsOthers => {
                candidate.tries = 0;
                self.questions.probe_otherwise();
                return Ok(Next::Again(Duration::ZERO));
            }
            // The origin is back at what it had, or some of its machines are. The change may come again.
            RefreshVerdict::Changed(_)
                if newest.is_some_and(|newest| {
                    answers.judge(&newest, i64::MIN, &volatile, None) == RefreshVerdict::Unchanged
                }) =>
            {
                let given_up = Next::Done(OriginState::Unchanged);
                return Ok(if may_try { Next::Again(self.copies.apart()) } else { given_up });
            }
            RefreshVerdict::Changed(_) | RefreshVerdict::Older if is_last_try => {
                Proof::open("the list changed during every pass of a refresh", candidate.until_ms)
            }
            RefreshVerdict::Changed(_) | RefreshVerdict::Older => {
                let pause = self.pause_for(pass::pages_of(&dataset) + 5);
                if !pause.is_zero() {
                    // Asked again by then.
                    return Ok(Next::Again(pause));
                }
                tracing::info!("the origin has changed again");
                let next = self.follow(&dataset, &candidate.list.beside, &answers, started_ms).await?;
                *unsettled += 1;
                return Ok(next);
            }
        };
        self.publish_candidate(candidate, proof).await
    }

    /// Publishes it; if the disk does not take it, it is tried again without asking.
    async fn publish_candidate(&mut self, candidate: &mut Candidate, proof: Proof) -> Result<Next, MirrorError> {
        let published = self.publish(candidate.list.clone(), proof.clone()).await;
        candidate.proof = published.as_ref().is_err_and(MirrorError::is_of_store).then_some(proof);
        published?;
        Ok(Next::Done(OriginState::Changed))
    }

    /// The certificate of a list that held still: it builds on the newest snapshot, and proves no more than that does.
    fn earned(&self, candidate: &Candidate) -> Certificate {
        match self.certificate() {
            Some(Certificate::BestEffort) if candidate.is_amended => Certificate::BestEffort,
            Some(Certificate::Full | Certificate::Incremental) => Certificate::Incremental,
            Some(Certificate::BestEffort | Certificate::Provisional) | None => Certificate::Provisional,
        }
    }

    /// How long until an answer can prove that the first page and the taxonomies hold still: the origin dates its
    /// answers in whole seconds.
    pub(super) fn until_proof(&self) -> Result<Duration, MirrorError> {
        let now_ms = self.clock.now_wall().as_millis();
        let mut since_ms = now_ms;
        for path in pass::paths(1) {
            if let Some(copy) = self.copies.stored(&path)? {
                since_ms = since_ms.max(copy.since_ms);
            }
        }
        let pause = Duration::from_millis(u64::try_from(since_ms - now_ms).unwrap_or(0) + 50);
        Ok(pause.min(self.copies.lag()))
    }
}
