//! Judges the pages of one pass: may they be published, and how sure are we?
//!
//! Pure: bodies and the intervals of their validity in, a verdict out. Callers: [`super::task`].

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::api::listing::{ListingId, Summary};
use crate::api::page::{Page, PageError};
use crate::api::render::VolatileValues;
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::snapshot::content::Content;

/// Listings on a page of the crawl.
pub(crate) const PAGE_SIZE: u64 = 100;

/// No list has more pages: a larger total is nonsense.
pub(super) const MOST_PAGES: u64 = u32::MAX as u64 / PAGE_SIZE;

/// The path of one page of the crawl.
pub(super) fn page_path(page: u64) -> String {
    if page == 1 {
        "/api/listings.json?per_page=100".to_owned()
    } else {
        format!("/api/listings.json?page={page}&per_page=100")
    }
}

/// The number of a page of the crawl, from its path; `None` for any other path.
pub(super) fn page_of(path: &str) -> Option<u64> {
    if path == page_path(1) {
        return Some(1);
    }
    path.strip_prefix("/api/listings.json?page=")?.strip_suffix("&per_page=100")?.parse().ok()
}

/// How many pages hold `total` listings; the first page always exists.
pub(super) fn pages(total: u64) -> u64 {
    total.div_ceil(PAGE_SIZE).max(1)
}

/// When a copy is valid, in the origin's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The latest instant at which the content may have come to be, in milliseconds.
    pub since_ms: i64,
    /// The latest instant for which the content is confirmed.
    pub until_ms: i64,
}

/// What a pass has fetched, by path: all pages in order, then the taxonomies. The bodies stay in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass(Vec<(String, Span)>);

/// The paths of a pass over so many pages.
pub(super) fn paths(pages: u64) -> impl Iterator<Item = String> {
    (1..=pages).map(page_path).chain(TaxonomyKind::ALL.into_iter().map(|kind| kind.path().to_owned()))
}

/// Why the pages do not fit together.
#[derive(Debug, thiserror::Error)]
pub(super) enum Inconsistent {
    /// A page cannot be read.
    #[error("page {page}: {source}")]
    Page {
        /// From 1.
        page: usize,
        source: PageError,
    },
    /// A listing stands on two pages.
    #[error("listing {id} is on two pages; the list changed while it was read")]
    Twice { id: ListingId },
    /// The pages do not hold their total.
    #[error("the pages have {distinct} listings, but report {total}; the list changed while it was read")]
    Count {
        /// Distinct ids.
        distinct: u64,
        /// The first page's total.
        total: u64,
    },
    /// The pages do not agree on the total.
    #[error("page {page} reports {found} listings, but page 1 reports {total}")]
    Totals {
        /// From 1.
        page: usize,
        /// Its total.
        found: u64,
        /// The first page's total.
        total: u64,
    },
    /// The origin ignores `per_page=100`.
    #[error("the origin sent a page of {0} listings, but 100 were requested")]
    PageSize(u64),
}

/// The result of a consistent pass.
#[derive(Debug)]
pub(super) struct Assembled {
    pub content: Content,
    /// Envelope fields that differ between the pages.
    pub left_out: Vec<String>,
    /// The last values of volatile fields, by `path field`; for the envelope by `list field`.
    pub volatile_values: VolatileValues,
}

impl Pass {
    /// A pass over these copies.
    pub(super) fn new(copies: Vec<(String, Span)>) -> Self {
        Self(copies)
    }

    /// The latest instant at which any part came to be.
    pub(super) fn since_ms(&self) -> i64 {
        self.0.iter().map(|(_, span)| span.since_ms).max().unwrap_or(0)
    }

    /// The latest instant for which all is confirmed.
    pub(super) fn until_ms(&self) -> i64 {
        self.0.iter().map(|(_, span)| span.until_ms).min().unwrap_or(0)
    }

    /// Whether there is one instant at which the origin had exactly this: every part came to be before and was
    /// confirmed after.
    pub(super) fn is_full(&self) -> bool {
        self.since_ms() <= self.until_ms()
    }

    /// The paths that still need confirmation.
    pub(super) fn unproven(&self) -> Vec<String> {
        let since = self.since_ms();
        self.0.iter().filter(|(_, span)| span.until_ms < since).map(|(path, _)| path.clone()).collect()
    }
}

/// Puts pages and taxonomies (by [`TaxonomyKind::index`]) together. Where `known` returns an equal summary, its text is
/// used instead of a second copy.
///
/// # Errors
/// When they do not fit together; see [`Inconsistent`].
pub(super) fn assemble(
    pages: impl Iterator<Item = Bytes>,
    taxonomies: &[Bytes; 3],
    volatile: &VolatileKeys,
    known: impl Fn(&Summary) -> Option<Summary>,
) -> Result<Assembled, Inconsistent> {
    let mut envelope = None;
    let mut left_out = Vec::new();
    let mut values = VolatileValues::new();
    let mut summaries = Vec::new();
    let mut total = 0;
    for (index, body) in pages.enumerate() {
        let page = Page::parse(&body, volatile).map_err(|source| Inconsistent::Page { page: index + 1, source })?;
        match &mut envelope {
            None => {
                if let Some(size) = page.per_page.filter(|size| *size != PAGE_SIZE) {
                    return Err(Inconsistent::PageSize(size));
                }
                total = page.total;
                for (key, value) in page.volatile {
                    values.insert(format!("list {key}"), value);
                }
                envelope = Some(page.envelope);
            }
            Some(first) => {
                if page.total != total {
                    return Err(Inconsistent::Totals { page: index + 1, found: page.total, total });
                }
                left_out.extend(first.agree_with(&page.envelope));
            }
        }
        summaries.extend(shared(page.items, &known));
    }
    let mut seen = HashSet::with_capacity(summaries.len());
    if let Some(twice) = summaries.iter().find(|summary| !seen.insert(summary.id)) {
        return Err(Inconsistent::Twice { id: twice.id });
    }
    if summaries.len() as u64 != total {
        return Err(Inconsistent::Count { distinct: summaries.len() as u64, total });
    }
    let envelope = envelope.ok_or(Inconsistent::Count { distinct: 0, total })?;
    let taxonomies = blanked(taxonomies, volatile, &mut values);
    Ok(Assembled { content: Content { envelope, taxonomies, summaries }, left_out, volatile_values: values })
}

/// The items of a page, with known texts reused. New items are copied out, so that they do not keep the whole page in
/// memory.
fn shared(items: Vec<Summary>, known: impl Fn(&Summary) -> Option<Summary>) -> Vec<Summary> {
    let before: Vec<Option<Summary>> = items.iter().map(known).collect();
    if before.iter().all(Option::is_none) {
        return items;
    }
    items.into_iter().zip(before).map(|(item, known)| known.unwrap_or_else(|| item.detached())).collect()
}

/// The taxonomies' texts without volatile fields, which go to `values`.
pub(super) fn blanked(taxonomies: &[Bytes; 3], volatile: &VolatileKeys, values: &mut VolatileValues) -> [Arc<str>; 3] {
    TaxonomyKind::ALL.map(|kind| {
        let text = String::from_utf8_lossy(&taxonomies[kind.index()]);
        let (blanked, taken) = volatile.blank(&text);
        values.extend(taken.into_iter().map(|(key, value)| (format!("{} {key}", kind.path()), value)));
        Arc::from(blanked)
    })
}

#[cfg(test)]
mod tests;
