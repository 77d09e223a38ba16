//! Reading of every page, batch by batch and round by round, until the pages are one state of the origin.
//!
//! Fetched copies are in the store, so that a restart resumes there. A round reads missing and unproven copies; between
//! rounds the origin's CDN has time to drop old ones. [`super::judge`] judges the result. Callers: [`super`] and its
//! parts.

use std::collections::{HashSet, VecDeque};

use crate::api::listing::{ListingId, Summary};
use crate::api::page::{EmptyNumbers, Page};
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::store::StoreError;
use crate::origin::client::AskError;
use crate::origin::status::Progress;
use crate::origin::window::Class;

use super::super::copies::{Copies, Copy, CopyError, Fetched};
use super::super::pass::{self, Assembled, Inconsistent, Pass, Span};
use super::schedule::TaskPurpose;
use super::{MirrorError, blocking};

/// Requests before the task looks for other work.
pub(super) const BATCH: usize = 12;

/// Copies checked per piece when looking for missing ones.
const GLANCE: u64 = 4096;

/// The intervals of what was fetched, and what it makes together.
pub(super) type ReadBack = (Pass, Result<Assembled, Inconsistent>);

#[derive(Default)]
pub(super) struct FullReading {
    pub(super) purpose: TaskPurpose,
    /// Copies fetched since then count, in milliseconds of our clock.
    started_ms: i64,
    /// Data confirmed for an earlier instant is not enough: the newest snapshot is known to be newer.
    pub(super) floor_ms: i64,
    /// What this round reads beside missing copies.
    todo: VecDeque<String>,
    /// Failed in this round; retried after all the rest.
    failed: Vec<String>,
    /// Where the search for missing ones continues, in the pages and then the taxonomies.
    cursor: u64,
    /// Pages beyond this one hold nothing, whatever the total says.
    cut: Option<u64>,
    /// The last page that holds listings although the total is reached before; 0: none.
    reach: u64,
    /// The page after which the origin was asked in vain for more.
    last: Option<u64>,
    /// The listings on all pages, once a page beyond the total was looked at.
    listed: Option<HashSet<ListingId>>,
    /// How many pages the newest snapshot fills.
    known: u64,
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
    /// The pages did not have it, and are read again.
    pub(super) misses_news: bool,
}

impl FullReading {
    pub(super) fn new(
        purpose: TaskPurpose,
        started_ms: i64,
        newest: Option<&Snapshot>,
        (now_ms, began): (i64, Monotonic),
        expects_news: bool,
    ) -> Self {
        Self {
            purpose,
            started_ms,
            floor_ms: newest.map_or(i64::MIN, |newest| newest.meta.confirmed_ms).min(now_ms),
            known: newest.map_or(0, |newest| pass::pages_of(&newest.dataset)),
            before: newest.map(|newest| newest.dataset.id.clone()),
            began,
            expects_news,
            ..Self::default()
        }
    }

    /// How many pages there are to be read.
    pub(super) fn pages(&self, copies: &Copies) -> Result<u64, MirrorError> {
        Ok(page_count(copies)?.min(self.cut.unwrap_or(u64::MAX)).max(self.reach))
    }

    /// How far it is, as far as known.
    pub(super) fn progress(&self) -> Progress {
        Progress { done: self.done, of: self.done + (self.todo.len() + self.failed.len()) as u64 }
    }

    /// Begins a round: these resources, and those missing by then.
    pub(super) fn next_round(&mut self, todo: Vec<String>) {
        (self.todo, self.failed, self.cursor, self.cut, self.listed) = (todo.into(), Vec::new(), 0, None, None);
        self.round += 1;
    }

    /// Begins a pass over all pages.
    pub(super) fn read_all_again(&mut self, now_ms: i64) {
        (self.round, self.done, self.started_ms, self.reach, self.last) = (0, 0, now_ms, 0, None);
        self.next_round(Vec::new());
    }

    /// Fetches the next batch; `None`: this round has everything.
    pub(super) async fn fetch_batch(&mut self, copies: &Copies, now_ms: i64) -> Result<Option<Progress>, MirrorError> {
        // The clock may have been set back: what is fetched from now on must count.
        self.started_ms = self.started_ms.min(now_ms);
        let batch = self.next_batch(copies)?;
        if batch.is_empty() && self.cursor == u64::MAX {
            let has_news = self.look_beyond(copies).await?;
            return Ok(has_news.then(|| self.progress()));
        }
        let fetched = copies.fetch_some(batch, Class::Crawl).await;
        self.take(copies, fetched)?;
        let Progress { done, of } = self.progress();
        let of = if self.round == 0 { of.max(page_count(copies)? + TaxonomyKind::ALL.len() as u64) } else { of };
        Ok(Some(Progress { done, of }))
    }

    /// Looks at the page after the last, once: the total may be too low. Returns whether it has new listings.
    async fn look_beyond(&mut self, copies: &Copies) -> Result<bool, MirrorError> {
        let pages = self.pages(copies)?;
        if self.last == Some(pages) || self.cut.is_some() || pages >= pass::MOST_PAGES {
            return Ok(false);
        }
        let page = match copies.fetch(&pass::page_path(pages + 1), Class::Crawl).await {
            Ok(copy) => copies.page(&copy)?,
            Err(CopyError::Ask(error)) if self.ends_with(pages, &error) => {
                self.last = Some(pages);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.done += 1;
        if self.listed.is_none() && !page.items.is_empty() {
            self.listed = Some(listed(copies, pages).await?);
        }
        // An origin may show the last page again.
        let news = page.items.iter().filter(|item| self.listed.as_mut().is_some_and(|listed| listed.insert(item.id)));
        let has_news = news.count() > 0;
        if has_news {
            self.reach = pages + 1;
        } else {
            self.last = Some(pages);
        }
        Ok(has_news)
    }

    /// Whether an error says that there is no page after the last. An origin that fails hides no page that is known.
    const fn ends_with(&self, pages: u64, error: &AskError) -> bool {
        let is_none = error.is_nonsense() || matches!(error, AskError::Status { status: 500, .. });
        error.ends_a_list() || (is_none && pages >= self.known)
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
        let (mut missing, pages, end) = (Vec::new(), self.pages(copies)?, self.cursor.saturating_add(GLANCE));
        while self.cursor < end && missing.len() < BATCH {
            let path = match TaxonomyKind::ALL.get(self.cursor.saturating_sub(pages) as usize) {
                _ if self.cursor < pages => pass::page_path(self.cursor + 1),
                Some(kind) => kind.path().to_owned(),
                None => {
                    self.cursor = u64::MAX;
                    break;
                }
            };
            if !copies.is_recent(&path, self.started_ms)? {
                missing.push(path);
                if self.cursor == 0 {
                    // It says how many others there are.
                    break;
                }
            }
            self.cursor += 1;
        }
        Ok(missing)
    }

    fn take(
        &mut self,
        copies: &Copies,
        Fetched { copies: fetched, failed, refused, error }: Fetched,
    ) -> Result<(), MirrorError> {
        self.done += fetched.len() as u64;
        // Some origins refuse the pages beyond a fixed number of results.
        let is_all = fetched.is_empty() && refused == failed.len();
        let first = failed.iter().map(|path| pass::page_of(path)).min().flatten().filter(|first| is_all && *first > 1);
        // What failed waits for all the rest.
        self.failed.extend(failed);
        if let Some(first) = first
            && !self.has_any_from(first, copies)?
        {
            self.cut_after(first - 1);
            return Ok(());
        }
        if let Some(error) = error.filter(|error| fetched.is_empty() || matches!(error, CopyError::Store(_))) {
            return Err(error.into());
        }
        // Detects early a list that claims more pages than it has.
        let pages: Vec<(u64, &Copy)> =
            fetched.iter().filter_map(|copy| Some((pass::page_of(&copy.path)?, copy))).collect();
        let is_empty = |(_, copy): &(u64, &Copy)| Ok::<_, CopyError>(copies.page(copy)?.items.is_empty());
        if pages.len() == BATCH && pages.iter().map(is_empty).collect::<Result<Vec<_>, _>>()?.into_iter().all(|one| one)
        {
            self.cut_after(pages.iter().map(|(page, _)| page.saturating_sub(1).max(1)).min().unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Whether this page or a later one was fetched since the reading began.
    fn has_any_from(&self, first: u64, copies: &Copies) -> Result<bool, MirrorError> {
        for page in first..=self.pages(copies)? {
            if copies.is_recent(&pass::page_path(page), self.started_ms)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads no page after this one.
    fn cut_after(&mut self, last: u64) {
        (self.cut, self.cursor, self.reach) = (Some(last), self.cursor.min(last), self.reach.min(last));
        self.todo.retain(|path| pass::page_of(path).is_none());
        self.failed.retain(|path| pass::page_of(path).is_none_or(|page| page <= last));
    }

    /// Reads everything fetched from the store and assembles it page by page, never all bodies at once. `None`: a copy is
    /// missing, and is fetched again.
    pub(super) fn read_back(
        copies: &Copies,
        pages: u64,
        known: impl Fn(&Summary) -> Option<Summary>,
    ) -> Result<Option<ReadBack>, StoreError> {
        let (mut spans, mut lost) = (Vec::new(), Ok(None));
        let mut body = |path: String| {
            match copies.stored(&path) {
                Ok(Some(Copy { body, since_ms, until_ms, .. })) => {
                    spans.push((path, Span { since_ms, until_ms }));
                    return Some(body);
                }
                Ok(None) => lost = Ok(Some(path)),
                Err(error) => lost = Err(error),
            }
            None
        };
        // Without one of them the result is dropped below.
        let taxonomies = TaxonomyKind::ALL.map(|kind| body(kind.path().to_owned()).unwrap_or_default());
        let mut bodies = (1..=pages).map_while(|page| body(pass::page_path(page)));
        let assembled = pass::assemble(&mut bodies, &taxonomies, &copies.volatile(), known);
        // If they do not fit, the intervals of the rest are still needed.
        bodies.for_each(drop);
        if let Some(lost) = lost? {
            tracing::warn!(path = lost, "a stored copy is missing; it is fetched again");
            // Otherwise its date would still count as a fetch, and the page would never be fetched again.
            copies.forget(&lost)?;
            return Ok(None);
        }
        Ok(Some((Pass::new(spans), assembled)))
    }

    /// A fetched copy is lost: search again.
    pub(super) const fn look_again(&mut self) {
        self.cursor = 0;
    }
}

/// The listings on stored pages.
async fn listed(copies: &Copies, pages: u64) -> Result<HashSet<ListingId>, MirrorError> {
    let copies = copies.clone();
    blocking(move || {
        let (mut listed, volatile) = (HashSet::new(), copies.volatile());
        for page in 1..=pages {
            let copy = copies.stored(&pass::page_path(page))?;
            let page = copy.and_then(|copy| Page::parse(&copy.body, &volatile).ok());
            listed.extend(page.into_iter().flat_map(|page| page.items).map(|item| item.id));
        }
        Ok(listed)
    })
    .await
}

/// How many pages there are, by the first one.
fn page_count(copies: &Copies) -> Result<u64, MirrorError> {
    let Some(first) = copies.stored(&pass::page_path(1))? else { return Ok(1) };
    let first = copies.page(&first)?;
    Ok(pass::pages(first.total, pass::largest_page(&first)))
}
