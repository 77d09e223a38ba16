//! Fetches pages and taxonomies conditionally, some at once.
//!
//! [`super::pass`] judges the result, [`super::task`] decides when to retry. One failed page does not stop the others.
//! Callers: [`super::task`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;

use crate::api::page::Page;
use crate::api::taxonomy::{self, TaxonomyKind, VolatileKeys};

use super::copies::{Copies, Copy, CopyError};
use super::pass;
use crate::upstream::client::{AskError, Asker, OriginClient};
use crate::upstream::window::Class;

/// After this time the origin's clock, which counts seconds, has advanced.
const MOVED_ON: Duration = Duration::from_millis(1100);

/// Requests on the wire at once.
const AT_ONCE: usize = 6;

/// Checks a page's body.
pub(super) fn check_page(body: &Bytes) -> Result<(), String> {
    let page = Page::parse(body, &VolatileKeys::default()).map_err(|error| error.to_string())?;
    // Checked before it is stored: the page count is read from there.
    if pass::pages(page.total) > pass::MOST_PAGES { Err(format!("a total of {} listings", page.total)) } else { Ok(()) }
}

/// Checks a taxonomy's body.
pub(super) fn check_taxonomy(body: &Bytes) -> Result<(), String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    taxonomy::terms(text).map(|_| ()).map_err(|error| error.to_string())
}

/// The crawler.
#[derive(Clone)]
pub struct Crawler {
    copies: Copies,
    cache_ttl: Duration,
    sent: Arc<AtomicU64>,
}

impl Crawler {
    /// A crawler over these copies; `cache_ttl` is how old a copy of the origin's CDN can be.
    pub fn new(copies: Copies, cache_ttl: Duration) -> Self {
        Self { copies, cache_ttl, sent: Arc::default() }
    }

    /// How old a copy of the origin's CDN can be.
    pub(super) const fn cache_ttl(&self) -> Duration {
        self.cache_ttl
    }

    /// How long to wait before reading inconsistent copies again: the lifetime in the CDN if it was seen to send old
    /// copies, else until the origin's clock has advanced.
    pub(super) fn lag(&self) -> Duration {
        if self.copies.saw_aged() { self.cache_ttl.max(MOVED_ON) } else { MOVED_ON }
    }

    /// How long after an answer the copies that were in the origin's CDN then have expired.
    pub(super) fn apart(&self) -> Duration {
        self.cache_ttl + self.copies.longest_age()
    }

    /// How many requests were sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn copies(&self) -> &Copies {
        &self.copies
    }

    pub(super) fn client(&self) -> &OriginClient {
        self.copies.client()
    }

    /// Fetches several resources, some at once, each one once: retrying is up to the caller.
    pub(super) async fn fetch(&self, paths: Vec<String>, class: Class) -> Fetched {
        self.sent.fetch_add(paths.len() as u64, Ordering::Relaxed);
        let mut looks = futures_util::stream::iter(paths)
            .map(|path| async move {
                let check = if path.starts_with("/api/listings.json") { check_page } else { check_taxonomy };
                let looked = self.copies.look(&path, Asker::mirror(class), check).await;
                (path, looked)
            })
            .buffer_unordered(AT_ONCE);
        let mut fetched = Fetched::default();
        while let Some((path, looked)) = looks.next().await {
            match looked {
                Ok(copy) => {
                    self.client().status().pass_advanced();
                    fetched.copies.push(copy);
                }
                Err(error) => {
                    tracing::debug!(path, %error, "not fetched");
                    fetched.failed.push(path);
                    fetched.note(error);
                }
            }
        }
        fetched
    }

    /// As [`Crawler::fetch`]; fails if one resource fails.
    pub(super) async fn fetch_all(&self, paths: Vec<String>, class: Class) -> Result<Vec<Copy>, CopyError> {
        let Fetched { copies, error, .. } = self.fetch(paths, class).await;
        error.map_or(Ok(copies), Err)
    }
}

/// The result of [`Crawler::fetch`].
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Copies of the fetched resources, in any order.
    pub copies: Vec<Copy>,
    /// The paths that failed.
    pub failed: Vec<String>,
    /// Why the last of them failed; a store error takes precedence.
    pub error: Option<CopyError>,
}

impl Fetched {
    fn note(&mut self, error: CopyError) {
        if !matches!(self.error, Some(CopyError::Store(_))) {
            self.error = Some(error);
        }
    }
}

/// The taxonomies among copies, by [`TaxonomyKind::index`].
pub(super) fn in_order(copies: Vec<Copy>) -> Result<[Copy; 3], CopyError> {
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
