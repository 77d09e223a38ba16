//! Asks the origin what filters mean, and notes what its answers disprove.
//!
//! [`super::super::assumptions`] chooses the questions and judges the answers. An edit, or an old copy of the origin's
//! CDN, differs as well: an answer counts only if the list holds still, and again when that copy is gone. Until then,
//! queries that use what is suspected are forwarded. What an audit found to
//! differ is asked with the other questions. Callers: [`super`], [`super::terms`].

use std::time::Duration;

use crate::api::page::Page;
use crate::api::query::ListQuery;
use crate::clock::Monotonic;
use crate::snapshot::meta::{Assumption, Certificate, SnapshotMeta};
use crate::snapshot::pointer::Snapshot;
use crate::upstream::client::{AskError, Asker};
use crate::upstream::stamps::Place;
use crate::upstream::window::Class;

use super::super::assumptions::{FilterAnswer, Findings, Inquiry};
use super::super::commands::Commands;
use super::super::copies::DATE_GRAIN_MS;
use super::super::refresh::RefreshVerdict;
use super::{DAY_MS, Mirror, MirrorError, blocking};

/// An answer counts after so many doubts in a row, even if the origin never held still.
const MOST_DOUBTS: u32 = 10;

/// The origin is asked again after so long, in milliseconds: its server may have changed.
const AGAIN_MS: i64 = 7 * DAY_MS;

/// A pause before questions that something more urgent interrupted.
const SOON: Duration = Duration::from_millis(100);

/// How often is looked whether a pass has ended.
const A_SECOND: Duration = Duration::from_secs(1);

/// Statuses that say nothing of the question.
const NO_ANSWER: [u16; 8] = [401, 403, 407, 408, 421, 425, 429, 451];

/// The questions under way.
#[derive(Default)]
pub(super) struct Asking {
    inquiry: Option<Inquiry>,
    /// When the differing questions are repeated.
    again: Option<Monotonic>,
    /// Whether an answer came without `Age`, so that it may be an old copy of a CDN.
    may_be_old: bool,
    /// How often in a row an answer could not be believed.
    doubted: u32,
}

/// A list that the origin answered to an audit in another way. A change that no refresh shows looks the same until every
/// page is read.
pub(super) struct DoubtedList {
    query: ListQuery,
    /// Complete passes over the list when it was seen.
    passes: u64,
    /// How long it waits for the next one.
    until: Monotonic,
}

impl Mirror {
    /// Takes in what an audit has found.
    pub(super) fn doubt(&mut self, queries: Vec<ListQuery>) {
        let (now, passes) = (self.clock.now_mono(), self.status.picture().passes);
        let until = now.plus(self.copies.cache_ttl() * 3);
        self.learning.doubts.extend(queries.into_iter().map(|query| DoubtedList { query, passes, until }));
        self.learning.doubts.truncate(Commands::MOST_DOUBTED);
        self.learning.due = Some(now);
    }

    /// Goes on with the questions about filters; returns when to go on. `None`: when something is published.
    pub(super) async fn ask_meaning(&mut self) -> Result<Option<Duration>, MirrorError> {
        let Some(newest) = self.newest() else { return Ok(None) };
        // A better list follows soon, or the origin has another list by now.
        if newest.meta.certificate == Certificate::Provisional || self.shrink.held.is_some() {
            return Ok(None);
        }
        let now = self.clock.now_mono();
        if let Some(again) = self.learning.asking.again.filter(|again| *again > now) {
            return Ok(Some(again.since(now)));
        }
        let begun = self.learning.asking.inquiry.take().filter(|begun| begun.is_about(&newest.dataset));
        let mut inquiry = if let Some(inquiry) = begun {
            inquiry
        } else {
            let passes = self.status.picture().passes;
            let ripe = self.learning.doubts.iter().filter(|doubt| doubt.passes != passes || doubt.until <= now);
            let doubted: Vec<ListQuery> = ripe.map(|doubt| doubt.query.clone()).collect();
            if let Some(wait) = due_in(&newest.meta, self.clock.now_wall().as_millis()).filter(|_| doubted.is_empty()) {
                self.learning.asking = Asking::default();
                return Ok(Some(if self.learning.doubts.is_empty() { wait } else { wait.min(A_SECOND) }));
            }
            // What is doubted was answered a moment ago: it proves nothing until every copy of the CDN is gone.
            self.learning.asking.may_be_old = !doubted.is_empty();
            let dataset = newest.dataset.clone();
            blocking(move || Ok(Inquiry::of(&dataset, doubted))).await?
        };
        self.learning.asking.again = None;
        if let Some(wait) = self.put_questions(&newest, &mut inquiry).await? {
            self.learning.asking.inquiry = Some(inquiry);
            return Ok(Some(wait));
        }
        self.conclude(&newest, inquiry).await
    }

    /// Puts the open questions; returns a pause if something else came in between.
    async fn put_questions(
        &mut self,
        newest: &Snapshot,
        inquiry: &mut Inquiry,
    ) -> Result<Option<Duration>, MirrorError> {
        let _work = self.copies.client.budget().crawl_work();
        while let Some(query) = inquiry.next() {
            if self.is_wanted_elsewhere() {
                return Ok(Some(SOON));
            }
            // A question may wait long for its slot, and must not delay a refresh.
            let patience = self.schedule.refresh_in(self.clock.now_mono(), self.age());
            let (answer, at_ms, has_age) = match tokio::time::timeout(patience, self.put_question(query)).await {
                Err(_) => return Ok(Some(SOON)),
                Ok(Ok(answer)) => answer,
                // The questions before are not put again, only this one.
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the meaning of filters could not be checked");
                    return Ok(Some(self.schedule.pause()));
                }
            };
            let known_ms = newest.meta.published_ms.min(self.clock.now_wall().as_millis());
            self.learning.asking.may_be_old |= !has_age;
            inquiry.saw(&newest.dataset, answer, at_ms + 2 * DATE_GRAIN_MS < known_ms);
        }
        Ok(None)
    }

    /// All questions are answered: believes the answers, or repeats what differs.
    async fn conclude(&mut self, newest: &Snapshot, mut inquiry: Inquiry) -> Result<Option<Duration>, MirrorError> {
        let differs = inquiry.differing().next().is_some();
        if differs || inquiry.is_unsettled {
            // An edit meanwhile looks the same.
            let is_doubtful = inquiry.is_unsettled || !self.holds_still(newest).await?;
            let asking = &mut self.learning.asking;
            if is_doubtful {
                asking.doubted += 1;
            }
            if is_doubtful && asking.doubted < MOST_DOUBTS {
                let pause = self.copies.lag() * (1 << asking.doubted.min(8));
                let pause = pause.min(self.schedule.pause().max(self.copies.lag()));
                asking.again = Some(self.clock.now_mono().plus(pause));
                self.schedule.is_refresh_asked = true;
                return Ok(Some(pause));
            }
            if !is_doubtful && !inquiry.is_repeated() {
                // Queries that use these assumptions are forwarded until the answers are sure.
                let suspected = inquiry.findings().disproved;
                self.renew(newest, SnapshotMeta { suspected, ..newest.meta.clone() }).await?;
                inquiry.repeat();
                // A copy without `Age` may be as old as a CDN keeps it.
                let aged = if self.learning.asking.may_be_old { self.copies.cache_ttl() } else { Duration::ZERO };
                let pause = self.copies.lag().max(aged);
                let asking = &mut self.learning.asking;
                (asking.inquiry, asking.again) = (Some(inquiry), Some(self.clock.now_mono().plus(pause)));
                return Ok(Some(pause));
            }
        }
        for path in inquiry.differing() {
            tracing::warn!(path, "the origin filters differently than assumed");
        }
        self.learn_meaning(newest, inquiry.findings()).await?;
        self.learning.asking = Asking::default();
        // An audit finds again what was not asked.
        self.learning.doubts.clear();
        Ok(Some(Duration::from_millis(AGAIN_MS.unsigned_abs())))
    }

    /// Takes in what the answers say; it replaces what was known, but for what they do not show.
    async fn learn_meaning(&mut self, newest: &Snapshot, findings: Findings) -> Result<(), MirrorError> {
        let Findings { disproved, proved } = findings;
        let mut meta = newest.meta.clone();
        let known = meta.disproved.get_or_insert_default();
        for assumption in &proved {
            if known.contains(assumption) {
                tracing::info!(assumption = assumption.as_str(), "the origin filters as assumed again");
            }
        }
        known.retain(|one| !proved.contains(one));
        (meta.proved, meta.suspected) = (proved, Vec::new());
        meta.asked_ms = self.clock.now_wall().as_millis();
        disprove(&mut meta, &disproved);
        self.renew(newest, meta).await
    }

    /// Whether the origin still has the newest list.
    async fn holds_still(&mut self, newest: &Snapshot) -> Result<bool, MirrorError> {
        let answers = self.questions.ask(&newest.dataset, newest.meta.confirmed_ms).await?;
        let first_page = self.contradictions.first_page(&newest.dataset.id);
        let verdict = answers.judge(&newest.dataset, i64::MIN, &self.copies.volatile(), first_page);
        // The probe's own meaning is no witness.
        Ok(matches!(verdict, RefreshVerdict::Unchanged | RefreshVerdict::SelectsOthers))
    }

    /// The answer to a question, its instant in milliseconds of the origin's time, and whether it has an `Age`.
    async fn put_question(&self, query: &ListQuery) -> Result<(FilterAnswer, i64, bool), AskError> {
        let (client, path) = (&self.copies.client, query.path_and_query());
        let answer = match client.ask(&path, None, Asker::mirror(Class::Crawl)).await {
            Ok(answer) => answer,
            Err(AskError::Status { status, .. }) if (400..500).contains(&status) && !NO_ANSWER.contains(&status) => {
                let at_ms = self.clock.now_wall().as_millis();
                return Ok((FilterAnswer::Other(format!("status {status}")), at_ms, false));
            }
            Err(error) => return Err(error),
        };
        let text = std::str::from_utf8(&answer.body).ok();
        let at_ms = client.stamps().date(Place::of(&path), &answer, text, None).until_ms;
        let heard = match Page::parse(&answer.body, &self.copies.volatile()) {
            Ok(page) => FilterAnswer::Page { total: page.total, ids: page.items.iter().map(|item| item.id).collect() },
            Err(error) => FilterAnswer::Other(error.to_string()),
        };
        Ok((heard, at_ms, answer.stamps.age.is_some()))
    }
}

/// When the origin is asked again; `None`: now.
fn due_in(meta: &SnapshotMeta, now_ms: i64) -> Option<Duration> {
    meta.disproved.as_ref()?;
    // A stamp from the future is from before the clock was set back.
    let since = Some(now_ms.saturating_sub(meta.asked_ms)).filter(|since| (0..AGAIN_MS).contains(since))?;
    Some(Duration::from_millis((AGAIN_MS - since).unsigned_abs()))
}

/// Notes what is disproved, and warns of what was not before.
fn disprove(meta: &mut SnapshotMeta, disproved: &[Assumption]) {
    let known = meta.disproved.as_deref().unwrap_or_default();
    for assumption in disproved.iter().filter(|one| !known.contains(one)) {
        tracing::warn!(
            assumption = assumption.as_str(),
            "the origin's filters do not mean what was assumed; queries that depend on it are forwarded"
        );
    }
    meta.disprove(disproved);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_asked_once_and_a_week_later() {
        let meta = |disproved: Option<Vec<Assumption>>, asked_ms| SnapshotMeta {
            disproved,
            asked_ms,
            ..SnapshotMeta::full(1)
        };
        let now = 100 * DAY_MS;
        for (meta, expected) in [
            (meta(None, 0), None),
            // By an import, or an older version of this program.
            (meta(Some(Vec::new()), 0), None),
            (meta(Some(Vec::new()), now), Some(7)),
            (meta(Some(vec![Assumption::Strict]), now - 6 * DAY_MS), Some(1)),
            (meta(Some(Vec::new()), now - 7 * DAY_MS), None),
            (meta(Some(Vec::new()), now + 1), None),
        ] {
            assert_eq!(due_in(&meta, now), expected.map(|days| Duration::from_secs(days * 86_400)), "{meta:?}");
        }
    }
}
