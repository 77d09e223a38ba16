//! Fetches pages and taxonomies conditionally, some at once.
//!
//! What they add up to is decided by [`super::pass`]. One page that fails does not stop the others; it is tried again
//! at the end. Callers: [`super::mirror`].

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;

use crate::api::page::Page;
use crate::api::taxonomy::{self, TaxonomyKind, VolatileKeys};

use super::client::{AskError, Asker};
use super::copies::{Copies, Copy, CopyError};
use super::window::Class;

/// How long the origin's clock, which counts in seconds, needs to move on.
const MOVED_ON: Duration = Duration::from_millis(1100);

/// Requests on the wire at once.
const AT_ONCE: usize = 6;

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
                    let pause = self.copies.client().jittered(Duration::from_millis(500));
                    tokio::time::sleep(pause * 2_u32.pow(attempt)).await;
                }
            }
            left = failed;
        }
        Ok(done)
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
