//! Judges the pages of one pass: may they be published, and how sure are we?
//!
//! Pure: bodies and the intervals of their validity in, a verdict out. Callers: [`super::task`].

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::api::listing::Summary;
use crate::api::page::{Page, PageError};
use crate::api::render::VolatileValues;
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::snapshot::content::Content;

use super::contradiction::Contradiction;

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
    /// There are none.
    #[error("no page was read")]
    NoPages,
    /// A page cannot be read.
    #[error("page {page}: {source}")]
    Page {
        /// From 1.
        page: usize,
        source: PageError,
    },
    /// Listings are on two pages, or the total is not their number.
    #[error("{0}")]
    Contradictory(Box<Contradictory>),
    /// The origin ignores `per_page=100`.
    #[error("the origin sent a page of {0} listings, but 100 were requested")]
    PageSize(u64),
}

/// Pages that contradict each other.
#[derive(Debug)]
pub(super) struct Contradictory {
    /// What they hold, each listing once, in the order of the pages.
    pub assembled: Assembled,
    pub contradiction: Contradiction,
    /// How many listings they show, those on two pages twice.
    pub listed: u64,
    /// The total that the first page states.
    pub total: u64,
}

impl fmt::Display for Contradictory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (distinct, total) = (self.assembled.content.summaries.len(), self.total);
        write!(f, "the pages have {distinct} different listings, but page 1 states a total of {total}")?;
        let doubled = &self.contradiction.doubled;
        if let Some(one) = doubled.first() {
            let also = if doubled.len() > 1 { format!(" and {} more", doubled.len() - 1) } else { String::new() };
            let are = if doubled.len() > 1 { "are" } else { "is" };
            write!(f, "; listing {one}{also} {are} on two pages")?;
        }
        if self.contradiction.excess.len() > 1 {
            f.write_str("; other pages state other totals")?;
        }
        Ok(())
    }
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
    let (mut total, mut totals) = (0, BTreeSet::new());
    for (index, body) in pages.enumerate() {
        let page = Page::parse(&body, volatile).map_err(|source| Inconsistent::Page { page: index + 1, source })?;
        totals.insert(page.total);
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
            Some(first) => left_out.extend(first.agree_with(&page.envelope)),
        }
        summaries.extend(shared(page.items, &known));
    }
    let envelope = envelope.ok_or(Inconsistent::NoPages)?;
    let taxonomies = blanked(taxonomies, volatile, &mut values);
    let (contradiction, listed) = (Contradiction::of(&summaries, &totals), summaries.len() as u64);
    if contradiction.is_some() {
        let mut seen = HashSet::with_capacity(summaries.len());
        summaries.retain(|summary| seen.insert(summary.id));
    }
    let assembled =
        Assembled { content: Content { envelope, taxonomies, summaries }, left_out, volatile_values: values };
    match contradiction {
        None => Ok(assembled),
        Some(contradiction) => {
            let found = Contradictory { assembled, contradiction, listed, total };
            Err(Inconsistent::Contradictory(Box::new(found)))
        }
    }
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
