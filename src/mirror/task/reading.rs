//! Reading every page, batch by batch and round by round, until the pages are one state of the origin.
//!
//! Fetched copies are in the store, so that a restart resumes there. A round reads missing and unproven copies; between
//! rounds the origin's CDN has time to drop old ones. [`super::judge`] judges the result. Callers: [`super`] and its
//! parts.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::api::page::{EmptyNumbers, Page};
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::pointer::Snapshot;
use crate::upstream::client::AskError;
use crate::upstream::status::Progress;
use crate::upstream::window::Class;

use super::super::copies::{Copies, CopyError};
use super::super::crawl::{Crawler, Fetched};
use super::super::pass;
use super::super::plan::Purpose;
use super::MirrorError;

/// Requests before the task looks for other work.
const BATCH: usize = 12;

/// Copies checked per piece when looking for missing ones.
const GLANCE: u64 = 4096;

/// A reading of every page.
pub(super) struct Reading {
    purpose: Purpose,
    /// Copies fetched since then count, in milliseconds of our clock.
    pub(super) started_ms: i64,
    /// Data confirmed for an earlier instant is not enough: the newest snapshot is known to be newer.
    pub(super) floor_ms: i64,
    /// What this round reads beside missing copies.
    todo: VecDeque<String>,
    /// Failed in this round; retried after all the rest.
    failed: Vec<String>,
    /// The page where the search for missing ones continues.
    cursor: u64,
    /// Pages beyond this one hold nothing, whatever the total says.
    cut: Option<u64>,
    pub(super) round: u32,
    done: u64,
    /// The newest snapshot when it began.
    pub(super) before: Option<SnapshotId>,
    /// The numbers of an empty list, once the origin was asked.
    pub(super) empty_numbers: Option<EmptyNumbers>,
    /// When its first request was sent, or that of the last pass over all pages.
    pub(super) began: Monotonic,
    /// How many passes did not fit together.
    pub(super) misfits: u32,
    /// An answer has shown a change that the pages must have.
    pub(super) expects_news: bool,
}

impl Reading {
    pub(super) fn new(
        purpose: Purpose,
        started_ms: i64,
        newest: Option<&Snapshot>,
        (now_ms, began): (i64, Monotonic),
    ) -> Self {
        Self {
            purpose,
            started_ms,
            floor_ms: newest.map_or(i64::MIN, |newest| newest.meta.confirmed_ms).min(now_ms),
            todo: VecDeque::new(),
            failed: Vec::new(),
            cursor: 1,
            cut: None,
            round: 0,
            done: 0,
            before: newest.map(|newest| newest.dataset.id.clone()),
            empty_numbers: None,
            began,
            misfits: 0,
            expects_news: false,
        }
    }

    pub(super) const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// How many pages there are to be read.
    pub(super) fn pages(&self, copies: &Copies) -> Result<u64, MirrorError> {
        Ok(page_count(copies)?.min(self.cut.unwrap_or(u64::MAX)))
    }

    /// How far it is, as far as known.
    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.done, of: self.done + (self.todo.len() + self.failed.len()) as u64 }
    }

    /// Begins a round: these resources, and those missing by then.
    pub(super) fn next_round(&mut self, todo: Vec<String>) {
        (self.todo, self.failed, self.cursor, self.cut) = (todo.into(), Vec::new(), 1, None);
        self.round += 1;
    }

    /// Begins a pass over all pages.
    pub(super) fn read_all_again(&mut self, now_ms: i64) {
        (self.round, self.done, self.started_ms) = (0, 0, now_ms);
        self.next_round(Vec::new());
    }

    /// A fetched copy is lost: search again.
    pub(super) const fn look_again(&mut self) {
        self.cursor = 1;
    }

    /// What is fetched next; empty: this round has everything.
    fn next_batch(&mut self, copies: &Copies) -> Result<Vec<String>, MirrorError> {
        if self.todo.is_empty() {
            let missing = self.missing(copies)?;
            self.failed.retain(|path| !missing.contains(path));
            self.todo = missing.into();
            if self.todo.is_empty() && self.cursor == u64::MAX {
                self.todo = std::mem::take(&mut self.failed).into();
            }
        }
        Ok(self.todo.drain(..self.todo.len().min(BATCH)).collect())
    }

    /// The next paths that were not fetched since the reading began: the first page alone, then the others and the
    /// taxonomies, some at a time. The cursor stands at its end when nothing is missing.
    fn missing(&mut self, copies: &Copies) -> Result<Vec<String>, MirrorError> {
        let mut missing = Vec::new();
        if self.cursor == 1 {
            let first = pass::page_path(1);
            if !copies.is_recent(&first, self.started_ms)? {
                return Ok(vec![first]);
            }
        }
        let pages = self.pages(copies)?;
        let end = self.cursor.saturating_add(GLANCE);
        while self.cursor <= pages && self.cursor < end && missing.len() < BATCH {
            let path = pass::page_path(self.cursor);
            if !copies.is_recent(&path, self.started_ms)? {
                missing.push(path);
            }
            self.cursor += 1;
        }
        if self.cursor > pages && missing.is_empty() {
            for kind in TaxonomyKind::ALL {
                if !copies.is_recent(kind.path(), self.started_ms)? {
                    missing.push(kind.path().to_owned());
                }
            }
            if missing.is_empty() {
                self.cursor = u64::MAX;
            }
        }
        Ok(missing)
    }

    /// Takes in a batch's result.
    fn fetched(&mut self, copies: &Copies, batch: Fetched) -> Result<(), MirrorError> {
        let Fetched { copies: fetched, failed, error } = batch;
        self.done += fetched.len() as u64;
        // What failed waits for all the rest.
        self.failed.extend(failed);
        if let Some(error) = error.filter(|error| fetched.is_empty() || matches!(error, CopyError::Store(_))) {
            return Err(error.into());
        }
        // Detects early a list that claims more pages than it has.
        let pages: Vec<_> = fetched.iter().filter_map(|copy| Some((pass::page_of(&copy.path)?, copy))).collect();
        if pages.len() == BATCH {
            let mut listings = 0;
            for (_, copy) in &pages {
                listings += parse(copies, &copy.path, &copy.body)?.items.len();
            }
            if listings == 0 {
                self.cut = pages.iter().map(|(page, _)| page.saturating_sub(1).max(1)).min();
                self.todo.clear();
                let cut = self.cut.unwrap_or(u64::MAX);
                self.failed.retain(|path| pass::page_of(path).is_none_or(|page| page <= cut));
            }
        }
        Ok(())
    }

    /// Fetches the next batch; `None`: this round has everything.
    pub(super) async fn fetch_batch(
        &mut self,
        crawler: &Crawler,
        now_ms: i64,
    ) -> Result<Option<Progress>, MirrorError> {
        let copies = crawler.copies();
        // The clock may have been set back: what is fetched from now on must count.
        self.started_ms = self.started_ms.min(now_ms);
        let batch = self.next_batch(copies)?;
        if batch.is_empty() && self.cursor == u64::MAX {
            return Ok(None);
        }
        self.fetched(copies, crawler.fetch(batch, Class::Crawl).await)?;
        let Progress { done, of } = self.progress();
        let of = if self.round == 0 { of.max(page_count(copies)? + TaxonomyKind::ALL.len() as u64) } else { of };
        Ok(Some(Progress { done, of }))
    }
}

fn parse(copies: &Copies, path: &str, body: &Bytes) -> Result<Page, MirrorError> {
    let page = Page::parse(body, &copies.volatile());
    Ok(page.map_err(|error| CopyError::from(AskError::nonsense(path, error)))?)
}

/// How many pages there are, by the first one.
fn page_count(copies: &Copies) -> Result<u64, MirrorError> {
    let first = pass::page_path(1);
    let Some((_, body)) = copies.span(&first)? else { return Ok(1) };
    let total = parse(copies, &first, &body)?.total;
    let pages = pass::pages(total);
    if pages > pass::MOST_PAGES {
        // Stored by an older version: without it the page is asked for again.
        copies.forget(&first)?;
        let absurd = AskError::nonsense(&first, format!("a total of {total} listings"));
        return Err(CopyError::from(absurd).into());
    }
    Ok(pages)
}
