//! The steps of a full reading (every page and taxonomy is read): begin, continue batch by batch, and at the end judge
//! whether the pages are one state of the origin: then publish, else confirm by another round, or read again.
//!
//! Callers: [`super`] and its parts.

use std::time::Duration;

use crate::api::listing::Summary;
use crate::api::page::EmptyNumbers;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::WallTime;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::meta::Certificate;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::store::{Store, StoreError};
use crate::origin::client::Asker;
use crate::origin::status::OriginState;
use crate::origin::window::Class;

use super::super::pass::{self, Inconsistent, Pass};
use super::super::refresh::ProbeShape;
use super::amend::newly_doubtful;
use super::publish::{Candidate, List, Proof};
use super::reading::FullReading;
use super::schedule::{Doing, Next, TaskPurpose, longest_pause};
use super::{Mirror, MirrorError, TRIES, blocking};

/// Store key of the start of an unfinished reading.
const STARTED: &str = "pass";

impl Mirror {
    /// Reads every page for a better certificate. An unfinished reading resumes after a restart; a requested one begins
    /// from scratch.
    pub(super) fn certify(&self) -> Next {
        let (now_ms, newest) = (self.clock.now_wall().as_millis(), self.newest());
        let started = started(self.store(), newest.as_deref(), now_ms, self.schedule.is_pass_asked);
        let started_ms = started.unwrap_or_else(|error| {
            tracing::warn!(%error, "the start of a reading could not be stored; after a restart every page is read");
            now_ms
        });
        self.reading(TaskPurpose::Certify, started_ms, false)
    }

    /// Reads every page, except those fetched since `started_ms`. `expects_news`: an answer has shown a change.
    pub(super) fn reading(&self, purpose: TaskPurpose, started_ms: i64, expects_news: bool) -> Next {
        let now = (self.clock.now_wall().as_millis(), self.clock.now_mono());
        let reading = FullReading::new(purpose, started_ms, self.newest().as_deref(), now, expects_news);
        Next::Instead(Doing::Reading(Box::new(reading)), Duration::ZERO)
    }

    /// Fetches one batch; when none is left, judges.
    pub(super) async fn read_on(&mut self, reading: &mut FullReading) -> Result<Next, MirrorError> {
        let now_ms = self.clock.now_wall().as_millis();
        let Some(progress) = reading.fetch_batch(&self.copies, now_ms).await? else {
            return self.judge(reading).await;
        };
        self.status().update(|picture| picture.pass = Some(progress));
        Ok(Next::Again(Duration::ZERO))
    }

    /// Everything is fetched: is it one state of the origin, and how sure are we of it?
    pub(super) async fn judge(&mut self, reading: &mut FullReading) -> Result<Next, MirrorError> {
        let pages = reading.pages(&self.copies)?;
        let (copies, newest) = (self.copies.clone(), self.newest());
        let read = blocking(move || {
            let known = |item: &Summary| {
                let known = newest.as_ref()?.dataset.summary(item.id)?;
                (known.hash == item.hash).then(|| known.clone())
            };
            FullReading::read_back(&copies, pages, known)
        });
        let Some((pass, assembled)) = read.await? else {
            reading.look_again();
            return Ok(Next::Again(Duration::ZERO));
        };
        let mut assembled = match assembled {
            Ok(assembled) => assembled,
            Err(error) => return self.does_not_fit(reading, &pass, error).await,
        };
        assembled.content.envelope.empty_numbers = self.empty_numbers(reading, pass.until_ms()).await;
        self.contradictions.ended(self.snapshots.store())?;
        let id = assembled.content.id();
        let is_news = self.newest().is_none_or(|newest| newest.dataset.id != id);
        if reading.expects_news && !is_news {
            // An answer showed a change that no page has: these are old copies. They are read again, once.
            let (pause, now) = (self.copies.apart(), self.clock.now_mono());
            tracing::debug!(seconds = pause.as_secs(), "no page has the change yet; all are read again after a pause");
            reading.read_all_again(self.clock.now_wall().as_millis());
            (reading.expects_news, reading.misses_news, reading.began) = (false, true, now.plus(pause));
            return Ok(Next::Again(pause));
        }
        if let Some(newest) = self.newest().filter(|_| reading.misses_news && !is_news) {
            // There is none: whether the answer still shows it decides.
            let list = List { dataset: newest.dataset.clone(), beside: assembled.beside };
            let candidate = Candidate { list, is_amended: false, until_ms: pass.until_ms(), tries: 0, proof: None };
            return Ok(Next::Instead(Doing::Confirming(Box::new(candidate)), Duration::ZERO));
        }
        // The same content takes nothing back, however old its confirmation is.
        let is_old = pass.until_ms() < reading.floor_ms && is_news;
        if pass.is_full() && !is_old {
            self.publish_assembled(assembled, Proof::of(Certificate::Full, pass.until_ms())).await?;
            return self.settled(reading.before.as_ref());
        }
        let mut unproven = pass.unproven();
        if unproven.is_empty() {
            unproven = pass::paths(pages).collect();
        }
        if reading.purpose == TaskPurpose::Follow {
            let list = self.terms.index(assembled, self.newest()).await?;
            if let Some(reason) = self.is_suspect(&list.dataset).filter(|_| reading.round < TRIES) {
                // Pages of different instants can add up by chance; only proof helps then.
                tracing::debug!(reason, "every page is read again");
                let pause = self.pause_for(unproven.len() as u64).max(self.copies.lag());
                reading.next_round(unproven);
                return Ok(Next::Again(pause));
            }
            let candidate = Candidate { list, is_amended: false, until_ms: pass.until_ms(), tries: 0, proof: None };
            return Ok(Next::Instead(Doing::Confirming(Box::new(candidate)), self.until_proof()?));
        }
        let is_newest_settled = self.certificate().is_some_and(Certificate::is_settled);
        if reading.round >= TRIES {
            if !is_newest_settled || is_news {
                let proof = Proof::open("no closing round proved that all pages are of one instant", pass.until_ms());
                self.publish_assembled(assembled, proof).await?;
            }
            return self.settled(reading.before.as_ref());
        }
        // Merely consistent data does not replace data known to be newer.
        if !is_newest_settled && !is_old {
            self.publish_assembled(assembled, Proof::of(Certificate::Provisional, pass.until_ms())).await?;
        }
        reading.next_round(unproven);
        self.status().update(|picture| picture.pass = Some(reading.progress()));
        Ok(Next::Again(self.copies.lag()))
    }

    /// The origin's numbers of an empty list. A reading for a better certificate asks once, for what changed since the
    /// instant of its pages: most often nothing did. Without an answer they stay as they are.
    pub(super) async fn empty_numbers(&self, reading: &mut FullReading, until_ms: i64) -> EmptyNumbers {
        if let Some(asked) = &reading.empty_numbers {
            return asked.clone();
        }
        let known = self.newest().map(|newest| newest.dataset.content.envelope.empty_numbers.clone());
        let is_due = known.is_none() || reading.purpose == TaskPurpose::Certify;
        let since = WallTime::from_millis(until_ms).rfc3339().filter(|_| is_due);
        let Some(since) = since else { return known.unwrap_or_default() };
        let path = format!("/api/listings.json?modified_since={since}");
        let asked = match self.copies.client.ask(&path, None, Asker::mirror(Class::Crawl)).await {
            Ok(answer) => EmptyNumbers::of(&answer.body),
            Err(error) => {
                tracing::debug!(path, %error, "the numbers of an empty list stay as they are known");
                None
            }
        };
        let numbers = asked.or(known).unwrap_or_default();
        reading.empty_numbers = Some(numbers.clone());
        numbers
    }

    /// Why a consistent list may still mix several instants.
    fn is_suspect(&self, dataset: &Dataset) -> Option<String> {
        if self.questions.shape == ProbeShape::Pages {
            return Some("the origin does not answer the probe".to_owned());
        }
        if self.copies.saw_aged() {
            return Some("the origin's CDN returns old copies".to_owned());
        }
        let newest = self.newest()?;
        newly_doubtful(&newest.dataset, dataset).map(|slug| format!("the count of {slug} disagrees"))
    }

    /// The pages do not fit together: the list moved while it was read, the copies in the origin's CDN differ, or the
    /// origin's answers contradict each other. Reads again, less and less often.
    async fn does_not_fit(
        &mut self,
        reading: &mut FullReading,
        pass: &Pass,
        error: Inconsistent,
    ) -> Result<Next, MirrorError> {
        let is_first = self.newest().is_none();
        let mut unproven = pass.unproven();
        if unproven.is_empty() && !self.lives_with_contradiction() {
            unproven = pass::paths(reading.pages(&self.copies)?).collect();
        }
        // Where copies in the origin's CDN differ, only time helps.
        let is_moving = !is_first && !unproven.is_empty() && !self.copies.saw_aged();
        let may_be_old = is_moving && reading.round < TRIES;
        if may_be_old && self.pause_for(unproven.len() as u64).is_zero() {
            tracing::debug!(%error, round = reading.round, "the pages do not fit; the oldest are read again");
            reading.next_round(unproven);
            return Ok(Next::Again(self.copies.lag()));
        }
        let text = error.to_string();
        if let Inconsistent::Contradictory(found) = error
            && let Some(next) = self.contradictory(reading, pass.until_ms(), *found).await?
        {
            return Ok(next);
        }
        self.status().update(|picture| picture.state = OriginState::Nonsense);
        self.status().unusable(&text, self.clock.now_wall());
        let now_ms = self.clock.now_wall().as_millis();
        if reading.purpose == TaskPurpose::Certify {
            self.store().put_instant(STARTED, now_ms)?;
        }
        reading.misfits += 1;
        reading.read_all_again(now_ms);
        let pause = self.pause_after_misfit(reading, is_first);
        reading.began = self.clock.now_mono().plus(pause);
        let seconds = pause.as_secs();
        tracing::debug!(error = text, seconds, "the pages do not fit together");
        Ok(Next::Again(pause))
    }

    /// How long until every page is read again. The first three passes of a first copy need not wait.
    fn pause_after_misfit(&mut self, reading: &FullReading, is_first: bool) -> Duration {
        let doublings = reading.misfits.saturating_sub(if is_first { 2 } else { 0 }).min(8);
        let pause = self.copies.lag().saturating_mul(2_u32.pow(doublings)) / 2;
        let pause = pause.min(longest_pause(self.settings.load().ttl)).max(self.copies.lag());
        if is_first {
            return pause;
        }
        let (now, apart) = (self.clock.now_mono(), self.copies.apart());
        let counts_in = self.contradictions.seen.next(apart).map_or(Duration::ZERO, |next| next.since(now));
        let pages = reading.pages(&self.copies).unwrap_or(1);
        pause.max(counts_in).max(self.pause_for(pages + TaxonomyKind::ALL.len() as u64))
    }

    /// The published data is as settled as it can be. `before`: the newest snapshot when the reading began.
    pub(super) fn settled(&self, before: Option<&SnapshotId>) -> Result<Next, MirrorError> {
        let is_same = self.newest().is_some_and(|newest| before == Some(&newest.dataset.id));
        self.status().update(|picture| picture.passes += 1);
        // After the publication: a crash between leaves a start that is resumed, or too old to count.
        self.store().remove_state(STARTED)?;
        Ok(Next::Done(if is_same { OriginState::Unchanged } else { OriginState::Changed }))
    }
}

/// When the unfinished reading began; begins one if there is none, or if `anew` asks for it.
fn started(store: &Store, newest: Option<&Snapshot>, now_ms: i64, anew: bool) -> Result<i64, StoreError> {
    // Copies from before the last publication are older than it, and a start in the future is from before the clock was
    // set back.
    let oldest = newest.filter(|newest| newest.meta.certificate != Certificate::Provisional);
    let oldest = oldest.map_or(i64::MIN, |newest| newest.meta.published_ms);
    if let Some(started) = store.instant(STARTED)?.filter(|started| !anew && (oldest..=now_ms).contains(started)) {
        return Ok(started);
    }
    store.put_instant(STARTED, now_ms)?;
    Ok(now_ms)
}
