//! Inconsistent pages: they contradict each other although they do not change. What they lack is looked for where the cuts
//! lie elsewhere, and the best list that there is gets published.
//!
//! [`super::super::pass`] says what contradicts, and when that is believed. Callers: [`super`] and its parts.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::content::{Content, SnapshotId};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::Certificate;
use crate::data::store::{States, Store};
use crate::origin::client::Asker;
use crate::origin::window::Class;

use super::super::copies::CopyError;
use super::super::pass::{self, Assembled, Contradiction, Contradictory, Recurrence, arranged};
use super::super::refresh::Probe;
use super::publish::Proof;
use super::reading::{BATCH, FullReading};
use super::schedule::{Doing, Next, TaskPurpose};
use super::{Mirror, MirrorError, TRIES, blocking};

/// Store key of the contradiction that the newest snapshot lives with.
const STORED: &str = "contradiction";

/// What is known of contradictory pages.
pub(super) struct Contradictions {
    pub(super) seen: Recurrence,
    accepted: Option<Accepted>,
}

/// A contradiction that a snapshot lives with.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Accepted {
    snapshot: SnapshotId,
    contradiction: Contradiction,
    /// The hash of the first page: while it stays, it agrees with the snapshot.
    first_page: [u8; 16],
}

impl Contradictions {
    /// Reads back what the newest snapshot lives with.
    pub(super) fn new(store: &Store) -> Self {
        Self { seen: Recurrence::default(), accepted: store.state_json(STORED).ok().flatten() }
    }

    /// What a snapshot lives with.
    fn of(&self, snapshot: &SnapshotId) -> Option<&Accepted> {
        self.accepted.as_ref().filter(|accepted| accepted.snapshot == *snapshot)
    }

    /// The hash of the first page that agrees with a snapshot; `None`: its listings decide.
    pub(super) fn first_page(&self, snapshot: &SnapshotId) -> Option<ContentHash> {
        self.of(snapshot).map(|accepted| ContentHash::from_bytes(accepted.first_page))
    }

    fn accept(&mut self, store: &Store, accepted: Accepted) -> Result<(), MirrorError> {
        if self.accepted.as_ref() != Some(&accepted) {
            let mut states = States::default();
            states.put_json(STORED, &accepted)?;
            store.put_states(&states)?;
            self.accepted = Some(accepted);
        }
        Ok(())
    }

    /// The pages fit again.
    pub(super) fn ended(&mut self, store: &Store) -> Result<(), MirrorError> {
        self.seen.ended();
        if self.accepted.take().is_some() {
            store.remove_state(STORED)?;
        }
        Ok(())
    }
}

enum SearchQuestion {
    /// A page of a list whose cuts lie elsewhere.
    List(ListQuery),
    /// Whether a listing of the last snapshot still exists.
    Detail(Summary),
}

/// The search for what the pages lack.
pub(super) struct Search {
    pub(super) purpose: TaskPurpose,
    found: Contradictory,
    /// The latest instant for which the pages are confirmed.
    until_ms: i64,
    /// The newest snapshot when the reading began.
    before: Option<SnapshotId>,
    on_pages: HashSet<ListingId>,
    todo: VecDeque<SearchQuestion>,
    left: u64,
    /// How often the next question failed.
    failures: u32,
    /// Listings on no page, found in other lists.
    elsewhere: BTreeMap<ListingId, Summary>,
    /// Listings of the last snapshot in no list.
    unseen: Vec<Summary>,
    /// The size of pages to ask for when nothing is left to do; `None`: listings of the last snapshot were asked for last.
    next_size: Option<u16>,
}

impl Search {
    /// How many listings are on no page because others are on two.
    fn displaced(&self) -> u64 {
        let found = self.on_pages.len() + self.elsewhere.len();
        self.found.listed.saturating_sub(found as u64)
    }

    /// How many listings are not found yet.
    fn lacking(&self) -> u64 {
        let here = self.found.assembled.content.summaries.len() + self.elsewhere.len();
        self.found.total.saturating_sub(here as u64)
    }

    /// The most listings of a page.
    fn largest_page(&self) -> u16 {
        self.found.assembled.content.envelope.largest_page.unwrap_or(ListQuery::MAX_PER_PAGE)
    }

    fn holds(&self, id: ListingId) -> bool {
        self.on_pages.contains(&id) || self.elsewhere.contains_key(&id)
    }

    /// Gives a question up: a listing that was there stays.
    fn gives_up(&mut self, question: SearchQuestion) {
        if let SearchQuestion::Detail(summary) = question {
            self.unseen.push(summary);
        }
    }
}

impl Mirror {
    /// Whether the newest snapshot lives with a contradiction.
    pub(super) fn lives_with_contradiction(&self) -> bool {
        self.newest().is_some_and(|newest| self.contradictions.of(&newest.dataset.id).is_some())
    }

    /// Takes in pages that contradict each other; `None`: they may fit when they are read again.
    pub(super) async fn contradictory(
        &mut self,
        reading: &mut FullReading,
        until_ms: i64,
        mut found: Contradictory,
    ) -> Result<Option<Next>, MirrorError> {
        let newest = self.newest();
        let accepted = newest.as_ref().and_then(|newest| self.contradictions.of(&newest.dataset.id));
        let known = accepted.is_some_and(|accepted| accepted.contradiction == found.contradiction);
        let apart = if newest.is_some() { self.copies.apart() } else { Duration::ZERO };
        if !known && !self.contradictions.seen.see(&found.contradiction, reading.began, apart) {
            return Ok(None);
        }
        found.assembled.content.envelope.empty_numbers = self.empty_numbers(reading, until_ms).await;
        if known {
            tracing::debug!(why = %found, "the origin's pages still contradict each other");
        } else {
            tracing::warn!(why = %found, "the origin's pages contradict each other; publishing the best list available");
        }
        // Each contradiction is looked into once; and again at each sweep while something is unknown.
        let is_whole = newest.as_ref().is_some_and(|newest| !newest.dataset.is_incomplete());
        let is_looked_into = known && (is_whole || reading.purpose == TaskPurpose::Follow);
        let mut search = Search {
            purpose: reading.purpose,
            // No more than two readings of every page cost.
            left: 2 * pass::pages(found.total, found.assembled.content.envelope.largest_page) + 20,
            on_pages: found.assembled.content.summaries.iter().map(|summary| summary.id).collect(),
            found,
            until_ms,
            before: reading.before.clone(),
            todo: VecDeque::new(),
            failures: 0,
            elsewhere: BTreeMap::new(),
            unseen: Vec::new(),
            next_size: None,
        };
        if is_looked_into {
            search.todo.extend(self.lost(&search).into_iter().map(SearchQuestion::Detail));
        } else {
            search.next_size = Some(search.largest_page() - 1);
            self.ask_with_filters(&mut search).await?;
        }
        Ok(Some(Next::Instead(Doing::Searching(Box::new(search)), Duration::ZERO)))
    }

    /// What was modified since the last snapshot, then the lists of terms that should hold more listings than are known:
    /// long ones of one page first, which have no cuts.
    async fn ask_with_filters(&self, search: &mut Search) -> Result<(), MirrorError> {
        if let Some(newest) = self.newest()
            && let Some(probe) = Probe::dated(&newest.dataset, newest.meta.confirmed_ms, self.questions.shape)
        {
            search.todo.push_back(SearchQuestion::List(probe.query));
        }
        let content = search.found.assembled.content.clone();
        let doubtful = blocking(move || {
            let Ok(dataset) = Dataset::build(content, &Evidence::new()) else { return Ok(Vec::new()) };
            let count = |(kind, slug, _): &(TaxonomyKind, String, [u8; 16])| {
                let term = dataset.terms(*kind).iter().find(|term| term.slug == *slug);
                let count = term.and_then(|term| term.numbers.iter().map(|(_, number)| *number).max()).unwrap_or(0);
                (count, ListQuery::largest_pages().with_term(*kind, slug))
            };
            Ok(dataset.doubtful().iter().map(count).collect())
        });
        let mut terms: Vec<(u64, ListQuery)> = doubtful.await?;
        terms.sort_by_key(|(count, _)| (*count > search.largest_page().into(), std::cmp::Reverse(*count)));
        let most = usize::try_from(search.left / 2).unwrap_or(usize::MAX);
        search.todo.extend(terms.into_iter().take(most).map(|(_, query)| SearchQuestion::List(query)));
        Ok(())
    }

    /// The listings of the newest snapshot that no list has shown so far.
    fn lost(&self, search: &Search) -> Vec<Summary> {
        let Some(newest) = self.newest() else { return Vec::new() };
        let lost = newest.dataset.content.summaries.iter().filter(|summary| !search.holds(summary.id));
        lost.cloned().collect()
    }

    /// Asks some questions; when none is left, publishes.
    pub(super) async fn search(&mut self, search: &mut Search) -> Result<Next, MirrorError> {
        for _ in 0..BATCH {
            let Some(question) = search.todo.pop_front() else { break };
            if matches!(question, SearchQuestion::List(_)) && search.lacking() == 0 {
                continue;
            }
            if search.left == 0 {
                search.gives_up(question);
                continue;
            }
            search.left -= 1;
            match self.ask_for(search, &question).await {
                Ok(()) => search.failures = 0,
                // One question that the origin does not answer must not block the rest.
                Err(CopyError::Ask(error)) if error.is_nonsense() || search.failures + 1 >= TRIES => {
                    tracing::debug!(%error, "the search for listings that the pages lack goes on without an answer");
                    search.failures = 0;
                    search.gives_up(question);
                }
                Err(error) => {
                    search.failures += 1;
                    search.todo.push_front(question);
                    return Err(error.into());
                }
            }
        }
        if !search.todo.is_empty() {
            return Ok(Next::Again(Duration::ZERO));
        }
        let Some(size) = search.next_size.take() else { return self.live_with(search).await };
        let (lost, size) = (self.lost(search), size.max(1));
        let pages = search.found.total.div_ceil(size.into());
        let for_details = (lost.len() as u64).min(search.left / 2);
        // What no page shows is on no page of another size, either.
        if search.displaced() > 0 && pages + for_details <= search.left {
            search.next_size = Some(size - 1);
            let query = |page| ListQuery { page, per_page: size, ..ListQuery::default() };
            search.todo.extend((1..=pages).map(|page| SearchQuestion::List(query(page))));
        } else {
            // Only a 404 says that a listing is gone.
            search.todo.extend(lost.into_iter().map(SearchQuestion::Detail));
        }
        Ok(Next::Again(Duration::ZERO))
    }

    async fn ask_for(&self, search: &mut Search, question: &SearchQuestion) -> Result<(), CopyError> {
        match question {
            SearchQuestion::List(query) => {
                let page = self.copies.page(&self.copies.fetch(&query.path_and_query(), Class::Crawl).await?)?;
                for item in &page.items {
                    if !search.holds(item.id) {
                        search.elsewhere.insert(item.id, item.detached());
                    }
                }
                let pages = pass::pages(page.total, Some(search.largest_page()));
                if query.is_filtered() && query.page < pages && search.lacking() > 0 {
                    search.todo.push_front(SearchQuestion::List(query.with_page(query.page + 1)));
                }
            }
            SearchQuestion::Detail(summary) => {
                let path = format!("/api/listings/{}.json", summary.id);
                let answer = self.copies.client.ask(&path, None, Asker::mirror(Class::Crawl)).await?;
                if !matches!(answer.status, 404 | 410) {
                    search.unseen.push(summary.clone());
                }
            }
        }
        Ok(())
    }

    /// Publishes what was found, unless only places of unknown order differ from the newest snapshot.
    async fn live_with(&mut self, search: &mut Search) -> Result<Next, MirrorError> {
        let newest = self.newest();
        let Search { found, elsewhere, unseen, .. } = &*search;
        let Contradictory { assembled, contradiction, listed, total } = found;
        let distinct = assembled.content.summaries.len() as u64;
        let here = distinct + (elsewhere.len() + unseen.len()) as u64;
        // Some page may have the right total, while others come from a cache.
        let right = contradiction.excess.contains(&(here.cast_signed() - distinct.cast_signed()));
        // Each doubled listing hides another one, unless the known ones are as many as any page states. What no list shows may
        // have changed since.
        let are_all = contradiction.excess.last() == Some(&(here.cast_signed() - distinct.cast_signed()));
        let hidden = if are_all { 0 } else { listed.saturating_sub(distinct + elsewhere.len() as u64) };
        let unreadable = self.status().unreadable().saturating_sub(elsewhere.len()) as u64;
        let unknown = hidden.max(unreadable) + unseen.len() as u64;
        let mut content = assembled.content.clone();
        if unknown > 0 || !right {
            content.envelope.state_total(if right { here } else { *total }, unknown);
        }
        let others: Vec<Summary> = elsewhere.values().chain(unseen).cloned().collect();
        let (doubled, last) = (contradiction.doubled.clone(), newest.clone());
        let arranging = blocking(move || {
            let last = last.as_ref().map(|last| &*last.dataset);
            content.summaries = arranged(std::mem::take(&mut content.summaries), &doubled, others, last);
            let is_same = last.is_some_and(|last| is_same_but_for_order(&last.content, &content));
            Ok((content, is_same))
        });
        let (content, is_same) = arranging.await?;
        let contradiction = contradiction.clone();
        if let Some(newest) = newest.filter(|_| is_same) {
            self.confirm(&newest, search.until_ms).await?;
        } else {
            let open_points = open_points(search, &content);
            let assembled = Assembled { content, beside: assembled.beside.clone() };
            let proof = Proof { certificate: Certificate::BestEffort, until_ms: search.until_ms, open_points };
            self.publish_assembled(assembled, proof).await?;
        }
        if let Some(newest) = self.newest() {
            let first_page = self.copies.hash_of(&pass::page_path(1))?.unwrap_or_default().to_bytes();
            let accepted = Accepted { snapshot: newest.dataset.id.clone(), contradiction, first_page };
            // In a transaction of its own: after a crash before it, later passes find the contradiction again.
            self.contradictions.accept(self.snapshots.store(), accepted)?;
        }
        self.contradictions.seen.ended();
        let before = search.before.clone();
        self.settled(before.as_ref())
    }
}

/// Whether two contents differ in the order of listings at most.
fn is_same_but_for_order(one: &Content, other: &Content) -> bool {
    let sorted = |content: &Content| {
        let mut listed: Vec<_> = content.summaries.iter().map(|summary| (summary.id, summary.hash)).collect();
        listed.sort_unstable();
        listed
    };
    one.envelope == other.envelope && one.taxonomies == other.taxonomies && sorted(one) == sorted(other)
}

/// What stays open, for people.
fn open_points(search: &Search, content: &Content) -> Vec<String> {
    let contradiction = &search.found.contradiction;
    let mut points = vec![format!("the origin's pages contradict each other: {}", search.found)];
    let (doubled, elsewhere) = (contradiction.doubled.len(), search.elsewhere.len());
    if doubled > 0 || elsewhere > 0 {
        points.push(format!(
            "the place of {doubled} listings that are on two pages, and of {elsewhere} that are on none, is not known"
        ));
    }
    if let Some((total, unknown)) = content.envelope.stated_total() {
        points.push(format!(
            "the origin states a total of {total}; {} listings are known, {} of them from the snapshot before; at least \
             {unknown} are not known as they are now",
            content.summaries.len(),
            search.unseen.len()
        ));
    }
    points
}
