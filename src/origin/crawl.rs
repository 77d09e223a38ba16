//! A pass over everything: fetches every page and taxonomy conditionally, some at once, and closes the pass.
//!
//! What it adds up to is decided by [`super::pass`]. One page that fails does not stop the others; it is tried again
//! at the end. Callers: [`super::mirror`].

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use rand::RngExt;

use crate::api::page::Page;
use crate::api::taxonomy::{self, TaxonomyKind, VolatileKeys};

use super::client::{AskError, Asker};
use super::copies::{Change, Copies, Copy, CopyError};
use super::pass::{self, Pass};
use super::status::Progress;
use super::window::Class;

/// Requests on the wire at once.
const AT_ONCE: usize = 6;

/// Pages asked for before it is looked at whether they hold anything.
const BATCH: u64 = 64;

/// More pages than this are not believed: four thousand million listings.
const MOST_PAGES: u64 = u32::MAX as u64 / pass::PAGE_SIZE;

/// Says that a body is a page.
///
/// # Errors
/// When it is not, with the reason.
pub fn check_page(body: &Bytes) -> Result<(), String> {
    Page::parse(body, &VolatileKeys::default()).map(|_| ()).map_err(|error| error.to_string())
}

/// Says that a body is a taxonomy.
///
/// # Errors
/// When it is not, with the reason.
pub fn check_taxonomy(body: &Bytes) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    taxonomy::terms(text).map(|_| ()).map_err(|error| error.to_string())
}

/// The crawler.
#[derive(Clone)]
pub struct Crawler {
    copies: Copies,
    cache_ttl: Duration,
}

impl Crawler {
    /// A crawler over these copies; `cache_ttl` is how old a copy of the origin's CDN can be.
    pub fn new(copies: Copies, cache_ttl: Duration) -> Self {
        Self { copies, cache_ttl }
    }

    /// How old a copy of the origin's CDN can be.
    pub const fn cache_ttl(&self) -> Duration {
        self.cache_ttl
    }

    /// How long to wait before copies that do not fit together are looked at again: as long as the origin's CDN may
    /// keep them, where it was seen to keep any; else no longer than its clock needs to move on.
    pub fn lag(&self) -> Duration {
        const MOVED_ON: Duration = Duration::from_millis(1100);
        if self.copies.saw_aged() { self.cache_ttl.max(MOVED_ON) } else { MOVED_ON }
    }

    /// The copies.
    pub fn copies(&self) -> &Copies {
        &self.copies
    }

    /// One resource: the copy itself if it was fetched at `resumed_ms` or later, else a look at the origin.
    async fn fetch(&self, path: &str, class: Class, resumed_ms: Option<i64>) -> Result<Copy, CopyError> {
        if let Some(since) = resumed_ms
            && let Some(copy) = self.copies.recent(path, since, self.copies.client().now_ms())?
        {
            return Ok(copy);
        }
        let check = if path.starts_with("/api/listings.json") { check_page } else { check_taxonomy };
        self.copies.look(path, Asker::mirror(class), check).await
    }

    /// Looks at several resources, some at once, and again at those that failed, with growing pauses.
    ///
    /// # Errors
    /// With the last failure, when something still fails after the last try.
    pub async fn fetch_all(
        &self,
        paths: Vec<String>,
        class: Class,
        resumed_ms: Option<i64>,
    ) -> Result<Vec<Copy>, CopyError> {
        // A refresh is tried again as a whole: a dead origin is found out with one request.
        let tries: u32 = if class == Class::Refresh { 1 } else { 5 };
        let mut done = Vec::with_capacity(paths.len());
        let mut left = paths;
        for attempt in 0..tries {
            let results: Vec<(String, Result<Copy, CopyError>)> = futures_util::stream::iter(left)
                .map(|path| async move {
                    let result = self.fetch(&path, class, resumed_ms).await;
                    if result.is_ok() {
                        self.copies.client().status().pass_advanced();
                    }
                    (path, result)
                })
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            let mut failed = Vec::new();
            let mut last = None;
            for (path, result) in results {
                match result {
                    Ok(copy) => done.push(copy),
                    Err(error @ CopyError::Store(_)) => return Err(error),
                    Err(error) => {
                        tracing::debug!(path, %error, attempt, "not fetched");
                        failed.push(path);
                        last = Some(error);
                    }
                }
            }
            match last {
                None => return Ok(done),
                Some(error) if attempt + 1 == tries => return Err(error),
                Some(_) => {
                    let jitter = rand::rng().random_range(0.5..1.0);
                    tokio::time::sleep(Duration::from_millis(500).mul_f64(jitter) * 2_u32.pow(attempt)).await;
                }
            }
            left = failed;
        }
        Ok(done)
    }

    /// A whole pass: every page, then the taxonomies.
    ///
    /// # Errors
    /// When something cannot be fetched; what was fetched is kept for the next try.
    pub async fn pass(&self, class: Class, resumed_ms: Option<i64>) -> Result<Pass, CopyError> {
        let status = self.copies.client().status();
        status.set_pass(Some(Progress { done: 0, of: 0 }));
        let mut pages = self.fetch_all(vec![pass::page_path(1)], class, resumed_ms).await?;
        let mut known = self.total(&pages[0])?;
        // A list that grows while it is read gets the pages that it grew by; one that claims more than it has is found
        // out before much is asked for.
        while (pages.len() as u64) < pass::pages(known) {
            let wanted = pass::pages(known);
            let fetched = pages.len() as u64;
            status.set_pass(Some(Progress { done: fetched, of: wanted + 3 }));
            let batch = (fetched + 1..=wanted.min(fetched + BATCH)).map(pass::page_path).collect();
            let batch = self.fetch_all(batch, class, resumed_ms).await?;
            let mut listings = 0;
            for copy in &batch {
                known = known.max(self.total(copy)?);
                listings += self.parse(copy)?.items.len();
            }
            pages.extend(batch);
            if listings == 0 {
                break;
            }
        }
        pages.sort_by_key(|copy| pass::page_of(&copy.path));
        let paths = TaxonomyKind::ALL.iter().map(|kind| kind.path().to_owned()).collect();
        let taxonomies = in_order(self.fetch_all(paths, class, resumed_ms).await?)?;
        Ok(Pass { pages, taxonomies })
    }

    fn parse(&self, copy: &Copy) -> Result<Page, CopyError> {
        Ok(Page::parse(&copy.body, &self.copies.volatile()).map_err(|error| AskError::nonsense(&copy.path, error))?)
    }

    /// How many listings a page says that there are.
    fn total(&self, copy: &Copy) -> Result<u64, CopyError> {
        let total = self.parse(copy)?.total;
        if pass::pages(total) > MOST_PAGES {
            return Err(AskError::nonsense(&copy.path, format!("a total of {total} listings")).into());
        }
        Ok(total)
    }

    /// Confirms everything of a pass once more, so that one instant fits all of it; `true` when that came out.
    ///
    /// Waits until a confirmation can prove something: the origin dates its answers in whole seconds, and its CDN may
    /// hand out copies that are older than the pass.
    ///
    /// # Errors
    /// When something cannot be fetched.
    pub async fn close(&self, pass: &mut Pass, class: Class) -> Result<bool, CopyError> {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            let unproven = pass.unproven();
            if unproven.is_empty() {
                return Ok(true);
            }
            tokio::time::sleep(self.lag()).await;
            let status = self.copies.client().status();
            status.set_pass(Some(Progress { done: 0, of: unproven.len() as u64 }));
            let mut changed = false;
            for copy in self.fetch_all(unproven, class, None).await? {
                changed |= copy.change == Change::Changed;
                pass.replace(copy);
            }
            if changed {
                return Ok(false);
            }
        }
        Ok(pass.is_full())
    }
}

/// The taxonomies among copies, by [`TaxonomyKind::index`].
///
/// # Errors
/// When one is missing, which cannot be when all were fetched.
pub fn in_order(copies: Vec<Copy>) -> Result<[Copy; 3], CopyError> {
    let mut places: [Option<Copy>; 3] = [None, None, None];
    for copy in copies {
        if let Some(kind) = TaxonomyKind::ALL.into_iter().find(|kind| kind.path() == copy.path) {
            places[kind.index()] = Some(copy);
        }
    }
    let [Some(sports), Some(states), Some(cities)] = places else {
        return Err(AskError::nonsense("/api", "a taxonomy is missing").into());
    };
    Ok([sports, states, cities])
}
