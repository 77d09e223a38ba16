//! Evidence of terms that names and counts do not prove: the origin is asked which listings they have, each term once per
//! state of knowledge, and the indexes of lists rest on what it answers.
//!
//! Evidence is collected here and judged in [`crate::data::snapshot::membership`]. Questions never delay a refresh. Callers:
//! [`super`] and its parts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::{Evidence, ListedTerm};
use crate::data::snapshot::pointer::Snapshot;
use crate::data::store::Store;
use crate::origin::client::Asker;
use crate::origin::window::Class;

use super::super::copies::{Copies, CopyError};
use super::super::pass::{self, Assembled, Beside};
use super::publish::List;
use super::schedule::{MirrorStep, least_pause};
use super::{Mirror, MirrorError, blocking};

/// What the origin has listed for terms.
pub(super) struct TermEvidence {
    known: Evidence,
    /// A snapshot, and the terms of it that were asked.
    asked: Option<(SnapshotId, HashSet<(TaxonomyKind, String)>)>,
    /// When lists that leave listings unexplained are asked for again, and how long after the time before.
    again: HashMap<(TaxonomyKind, String), (Monotonic, Duration)>,
}

/// A list that leaves listings unexplained is asked for again after `ttl`, twice that and so on, up to this.
const LONGEST: Duration = Duration::from_secs(86_400);

impl TermEvidence {
    pub(super) fn new(known: Evidence) -> Self {
        Self { known, asked: None, again: HashMap::new() }
    }

    /// The terms whose lists are asked for again now; `asked` forgets them.
    fn due(
        &mut self,
        dataset: &Dataset,
        asked: &mut HashSet<(TaxonomyKind, String)>,
        (now, ttl): (Monotonic, Duration),
    ) -> Vec<(TaxonomyKind, String, [u8; 16])> {
        let mut before = std::mem::take(&mut self.again);
        let mut due = Vec::new();
        for (kind, slug, fingerprint) in dataset.unexplained() {
            let term = (*kind, slug.clone());
            let (mut at, mut pause) = before.remove(&term).unwrap_or((now.plus(ttl), ttl));
            if at <= now {
                asked.remove(&term);
                due.push((*kind, slug.clone(), *fingerprint));
                pause = (pause * 2).min(LONGEST);
                at = now.plus(pause);
            }
            self.again.insert(term, (at, pause));
        }
        due
    }

    /// Takes what an import has put into the store.
    pub(super) fn read_back(&mut self, store: &Store) {
        match store.evidence() {
            Ok(known) => self.known = known,
            Err(error) => {
                tracing::warn!(%error, "the stored lists of ambiguous terms cannot be read; a mirror fetches them again");
            }
        }
    }

    /// Indexes a list. What is in the newest snapshot is not read again.
    pub(super) async fn index(&self, list: Assembled, newest: Option<Arc<Snapshot>>) -> Result<List, MirrorError> {
        let Assembled { content, beside } = list;
        let known = self.known.clone();
        let index = move || match newest {
            Some(newest) => newest.dataset.followed_by(content, &known),
            None => Dataset::build(content, &known),
        };
        Ok(List { dataset: Arc::new(blocking(move || Ok(index())).await??), beside })
    }

    /// The indexes of a data set by all evidence so far.
    pub(super) async fn index_again(
        &self,
        of: &Dataset,
        newest: Option<Arc<Snapshot>>,
    ) -> Result<Arc<Dataset>, MirrorError> {
        let list = Assembled { content: of.content.clone(), beside: Beside::default() };
        Ok(self.index(list, newest).await?.dataset)
    }
}

/// What the origin says of a term.
enum TermAnswer {
    Listed(ListedTerm),
    /// Its pages do not fit together, or name unknown listings: the data has moved on, and the term stays in doubt
    /// until it is asked again.
    Moved,
    /// A copy of the origin's CDN from before the data set was published: it may lack newer listings.
    Older,
}

/// Asks the origin which listings a term stands for, in a data set that was published at `published_ms` of the
/// origin's time.
async fn ask(
    copies: &Copies,
    dataset: &Dataset,
    published_ms: i64,
    kind: TaxonomyKind,
    slug: &str,
    fingerprint: [u8; 16],
) -> Result<TermAnswer, CopyError> {
    let query = ListQuery::largest_pages().with_term(kind, slug);
    let mut ids = Vec::new();
    let (mut total, mut last, mut page) = (0, 1, 1);
    loop {
        let copy = copies.look(&query.with_page(page).path_and_query(), Asker::mirror(Class::Crawl)).await?;
        let parsed = copies.page(&copy)?;
        if page == 1 {
            (total, last) = (parsed.total, pass::pages(parsed.total, pass::largest_page(&parsed)));
        }
        // An origin that ignores the filter lists everything, which is no evidence.
        let is_everything = total == dataset.len() as u64 && dataset.terms(kind).len() > 1;
        if parsed.total != total || total > dataset.len() as u64 || is_everything {
            return Ok(TermAnswer::Moved);
        }
        if copy.is_before(published_ms) {
            return Ok(TermAnswer::Older);
        }
        ids.extend(parsed.items.iter().map(|item| item.id));
        if page >= last {
            break;
        }
        page += 1;
    }
    let listed = ids.len() as u64;
    ids.sort_unstable();
    ids.dedup();
    let is_whole = listed == total && ids.len() as u64 == total;
    let is_known = ids.iter().all(|id| dataset.summary(*id).is_some());
    let answer = ListedTerm { ids, fingerprint, snapshot: dataset.id.to_string() };
    Ok(if is_whole && is_known { TermAnswer::Listed(answer) } else { TermAnswer::Moved })
}

impl Mirror {
    /// Asks about terms in doubt. Returns when to go on; `None`: no term is left.
    pub(super) async fn learn(&mut self) -> Option<Monotonic> {
        let later = self.clock.now_mono().plus(least_pause(self.settings.load().ttl));
        self.ask_about_terms().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "some terms stay in doubt");
            Some(later)
        })
    }

    /// Asks the origin about terms in doubt, each once per state of knowledge, and serves what that proves. Returns when
    /// to go on; `None`: no term is left.
    async fn ask_about_terms(&mut self) -> Result<Option<Monotonic>, MirrorError> {
        let Some(newest) = self.newest() else { return Ok(None) };
        let known = self.terms.asked.take().filter(|(id, _)| *id == newest.dataset.id);
        let mut asked = known.map(|(_, asked)| asked).unwrap_or_default();
        let at = (self.clock.now_mono(), self.settings.load().ttl);
        let due = self.terms.due(&newest.dataset, &mut asked, at);
        let _work = self.copies.client.budget().crawl_work();
        let (mut has_learned, mut result) = (false, Ok(None));
        for (kind, slug, fingerprint) in newest.dataset.doubtful().iter().cloned().chain(due) {
            if asked.contains(&(kind, slug.clone())) {
                continue;
            }
            let now = self.clock.now_mono();
            if !matches!(self.schedule.next(now, &self.facts()), MirrorStep::Learn) {
                // Something more urgent is due; the rest follows.
                result = Ok(Some(now.plus(Duration::from_millis(100))));
                break;
            }
            let known_ms = newest.meta.published_ms.min(self.clock.now_wall().as_millis());
            let known_ms = self.copies.client.by_origin_ms(known_ms);
            match ask(&self.copies, &newest.dataset, known_ms, kind, &slug, fingerprint).await {
                Ok(TermAnswer::Older) => {
                    // The CDN's copy is older than the list that it should explain; it is gone by then.
                    result = Ok(Some(now.plus(self.copies.lag())));
                    continue;
                }
                Ok(TermAnswer::Moved) => {}
                Ok(TermAnswer::Listed(listed)) => {
                    let before = self.terms.known.insert((kind, slug.clone()), listed.clone());
                    has_learned |= before.as_ref() != Some(&listed);
                }
                Err(CopyError::Ask(error)) if error.is_nonsense() => {
                    tracing::warn!(slug, %error, "a term stays in doubt");
                }
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            }
            asked.insert((kind, slug));
        }
        self.terms.asked = Some((newest.dataset.id.clone(), asked));
        if has_learned {
            let dataset = self.terms.index_again(&newest.dataset, Some(newest.clone())).await?;
            let evidence = self.terms.known.clone();
            self.switch(move |snapshots, seen| snapshots.reindexed(seen, &dataset, &evidence)).await?;
        }
        // What was learned shows what is to be asked for again.
        let now = has_learned.then(|| self.clock.now_mono());
        let next = now.or_else(|| self.terms.again.values().map(|(at, _)| *at).min());
        result.map(|wait: Option<Monotonic>| wait.into_iter().chain(next).min())
    }
}
