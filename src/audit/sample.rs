//! Draws an audit's requests at random: 17 have every kind, each equally often.
//!
//! Pure: equal seeds give equal requests. Callers: [`super::Auditor`].

use std::fmt;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::api::form::ListForm;
use crate::api::json;
use crate::api::listing::ListingId;
use crate::api::modified;
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;

/// The kind of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SampleKind {
    /// Any page at any page size.
    Page,
    /// The list without any parameter.
    FirstPage,
    /// The last page at some page size.
    LastPage,
    /// One listing to a page.
    PerPageOne,
    /// As many listings as a page can have.
    PerPageMost,
    /// A whole taxonomy.
    Taxonomy(TaxonomyKind),
    /// The listings of one term.
    Term(TaxonomyKind),
    /// Two filters together.
    TwoTerms,
    /// `modified_since` with the instant of a listing.
    SinceInstant,
    /// The same, a second earlier or later.
    SinceNearby,
    /// `modified_since` with the day of a listing, or a day beside it.
    SinceDay,
    /// One listing in full.
    Detail,
    /// A listing that does not exist.
    UnknownListing,
}

impl SampleKind {
    /// One round: each kind once.
    const ROUND: [Self; 17] = [
        Self::Page,
        Self::FirstPage,
        Self::LastPage,
        Self::PerPageOne,
        Self::PerPageMost,
        Self::Taxonomy(TaxonomyKind::Sports),
        Self::Taxonomy(TaxonomyKind::States),
        Self::Taxonomy(TaxonomyKind::Cities),
        Self::Term(TaxonomyKind::Sports),
        Self::Term(TaxonomyKind::States),
        Self::Term(TaxonomyKind::Cities),
        Self::TwoTerms,
        Self::SinceInstant,
        Self::SinceNearby,
        Self::SinceDay,
        Self::Detail,
        Self::UnknownListing,
    ];
}

/// A request for both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    List(ListQuery),
    Taxonomy(TaxonomyKind),
    /// A listing in full.
    Detail(ListingId),
}

impl Request {
    /// Path and query for an origin whose lists have this form.
    pub(crate) fn path(&self, form: &ListForm) -> String {
        match self {
            Self::List(query) => form.path_of(query),
            Self::Taxonomy(kind) => kind.path().to_owned(),
            Self::Detail(id) => format!("/api/listings/{id}.json"),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {}", self.path(&ListForm::default()))
    }
}

/// Draws samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    dice: StdRng,
    /// The rest of the round.
    round: Vec<SampleKind>,
}

impl Sampler {
    /// A sampler with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: StdRng::seed_from_u64(seed), round: Vec::new() }
    }

    /// The next request. Kinds for which the data set has nothing are passed over.
    pub(crate) fn next(&mut self, dataset: &Dataset) -> Request {
        for _ in 0..2 * SampleKind::ROUND.len() {
            let kind = self.next_kind();
            if let Some(request) = self.draw(kind, dataset) {
                return request;
            }
        }
        Request::List(ListQuery::largest_pages())
    }

    fn next_kind(&mut self) -> SampleKind {
        if let Some(kind) = self.round.pop() {
            return kind;
        }
        self.round = SampleKind::ROUND.to_vec();
        self.round.shuffle(&mut self.dice);
        self.round.pop().unwrap_or(SampleKind::FirstPage)
    }

    fn draw(&mut self, kind: SampleKind, dataset: &Dataset) -> Option<Request> {
        let plain = ListQuery::default();
        let any_size = ListQuery { per_page: self.dice.random_range(1..=ListQuery::MAX_PER_PAGE), ..plain.clone() };
        let total = dataset.len() as u64;
        let last = any_size.total_pages(total);
        let query = match kind {
            SampleKind::Taxonomy(taxonomy) => return Some(Request::Taxonomy(taxonomy)),
            SampleKind::Detail => return Some(Request::Detail(self.listing(dataset)?)),
            SampleKind::UnknownListing => return Some(Request::Detail(self.unknown(dataset))),
            SampleKind::FirstPage => plain,
            SampleKind::Page => self.any_page(&any_size, total),
            SampleKind::LastPage => any_size.with_page(last.max(1)),
            SampleKind::PerPageOne => self.any_page(&ListQuery { per_page: 1, ..plain }, total),
            SampleKind::PerPageMost => self.any_page(&ListQuery::largest_pages(), total),
            SampleKind::Term(taxonomy) => {
                let query = self.term(any_size, taxonomy, dataset)?;
                self.any_found_page(&query, dataset)
            }
            SampleKind::TwoTerms => {
                let left_out = self.any_taxonomy();
                let mut query = any_size;
                for taxonomy in TaxonomyKind::ALL.into_iter().filter(|kind| *kind != left_out) {
                    query = self.term(query, taxonomy, dataset)?;
                }
                self.any_found_page(&query, dataset)
            }
            SampleKind::SinceInstant | SampleKind::SinceNearby | SampleKind::SinceDay => {
                let since = self.since(kind, dataset)?;
                self.any_found_page(&ListQuery { modified_since: Some(since), ..any_size }, dataset)
            }
        };
        let found = dataset.find(&query).map_or(1, |found| found.total);
        // What selects nothing the origin may answer in its own way.
        Some(Request::List(query)).filter(|_| found > 0)
    }

    fn any_taxonomy(&mut self) -> TaxonomyKind {
        TaxonomyKind::ALL[self.dice.random_range(0..TaxonomyKind::ALL.len())]
    }

    fn any_page(&mut self, query: &ListQuery, total: u64) -> ListQuery {
        let page = self.dice.random_range(1..=query.total_pages(total).max(1));
        query.with_page(page)
    }

    /// Any page of a filter's result; the first if it is in doubt.
    fn any_found_page(&mut self, query: &ListQuery, dataset: &Dataset) -> ListQuery {
        let total = dataset.find(query).map_or(0, |found| found.total);
        self.any_page(query, total)
    }

    fn term(&mut self, query: ListQuery, taxonomy: TaxonomyKind, dataset: &Dataset) -> Option<ListQuery> {
        let terms = dataset.terms(taxonomy);
        let term = (!terms.is_empty()).then(|| &terms[self.dice.random_range(0..terms.len())])?;
        Some(query.with_term(taxonomy, &term.slug))
    }

    fn listing(&mut self, dataset: &Dataset) -> Option<ListingId> {
        let summaries = &dataset.content.summaries;
        (!summaries.is_empty()).then(|| summaries[self.dice.random_range(0..summaries.len())].id)
    }

    /// An id between or beyond the existing ones.
    fn unknown(&mut self, dataset: &Dataset) -> ListingId {
        let near = self.listing(dataset).map_or(0, |id| id.0);
        let mut id = near.saturating_add(self.dice.random_range(1..1000));
        while dataset.summary(ListingId(id)).is_some() {
            id = id.checked_add(1).unwrap_or(0);
        }
        ListingId(id)
    }

    fn since(&mut self, kind: SampleKind, dataset: &Dataset) -> Option<ModifiedSince> {
        const SECOND: i64 = 1_000_000_000;
        let id = self.listing(dataset)?;
        let at = dataset.modified_of(id)?;
        let nearby = if self.dice.random() { SECOND } else { -SECOND };
        let text = match kind {
            // As written, or in UTC: the same instant.
            SampleKind::SinceInstant if self.dice.random() => as_written(dataset, id)?,
            SampleKind::SinceNearby => {
                let text = utc(at.saturating_add(nearby))?;
                // Half of them without offset, which means UTC.
                if self.dice.random() { text.trim_end_matches('Z').to_owned() } else { text }
            }
            SampleKind::SinceDay => {
                let day = at.saturating_add(86_400 * SECOND * self.dice.random_range(-1..=1));
                Timestamp::from_nanosecond(day.into()).ok()?.strftime("%Y-%m-%d").to_string()
            }
            _ => utc(at)?,
        };
        Some(ModifiedSince { at: modified::parse(&text).ok()?, text: text.into() })
    }
}

fn utc(nanos: i64) -> Option<String> {
    Some(Timestamp::from_nanosecond(nanos.into()).ok()?.to_string())
}

fn as_written(dataset: &Dataset, id: ListingId) -> Option<String> {
    let raw = std::str::from_utf8(&dataset.summary(id)?.raw).ok()?;
    let fields = json::fields(raw).ok()?;
    let field = fields.iter().find(|field| field.key == "modified")?;
    json::string(field.value).map(Into::into)
}

#[cfg(test)]
mod tests;
