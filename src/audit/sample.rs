//! Draws an audit's requests at random: 20 have every kind, each equally often.
//!
//! Pure: equal seeds give equal requests. Callers: [`super::Auditor`].

use std::fmt;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::api::edges::Case;
use crate::api::json;
use crate::api::listing::ListingId;
use crate::api::modified;
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;

/// One in so many odd requests is sent with HEAD.
const HEAD_OF: u32 = 4;

/// The kind of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Any page at any page size.
    Page,
    /// The list without any parameter.
    FirstPage,
    /// The last page at some page size.
    LastPage,
    /// A page beyond the last.
    BeyondLast,
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
    /// A slug that no term has.
    UnknownSlug,
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
    /// What the documentation leaves open, and the data does not show.
    Odd,
    /// Two filters that exclude each other. Not drawn as such: two filters together can be it.
    Elsewhere,
}

impl Kind {
    /// One round: each kind once.
    const ROUND: [Self; 20] = [
        Self::Page,
        Self::FirstPage,
        Self::LastPage,
        Self::BeyondLast,
        Self::PerPageOne,
        Self::PerPageMost,
        Self::Taxonomy(TaxonomyKind::Sports),
        Self::Taxonomy(TaxonomyKind::States),
        Self::Taxonomy(TaxonomyKind::Cities),
        Self::Term(TaxonomyKind::Sports),
        Self::Term(TaxonomyKind::States),
        Self::Term(TaxonomyKind::Cities),
        Self::TwoTerms,
        Self::UnknownSlug,
        Self::SinceInstant,
        Self::SinceNearby,
        Self::SinceDay,
        Self::Detail,
        Self::Odd,
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
    /// An odd request: path and query.
    Odd(String),
}

impl Request {
    /// Path and canonical query.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::List(query) => query.path_and_query(),
            Self::Taxonomy(kind) => kind.path().to_owned(),
            Self::Detail(id) => format!("/api/listings/{id}.json"),
            Self::Odd(path) => path.clone(),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {}", self.path())
    }
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub kind: Kind,
    pub request: Request,
    /// Whether HEAD is sent: of some odd requests.
    pub is_head: bool,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.is_head { "HEAD" } else { "GET" };
        write!(f, "{method} {}", self.request.path())
    }
}

/// Draws samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Whether odd requests are drawn; else details in their place.
    pub odd: bool,
    dice: StdRng,
    /// The rest of the round.
    round: Vec<Kind>,
}

impl Sampler {
    /// A sampler with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { odd: true, dice: StdRng::seed_from_u64(seed), round: Vec::new() }
    }

    /// The next sample. Kinds for which the data set has nothing are passed over.
    pub(crate) fn next(&mut self, dataset: &Dataset) -> Sample {
        for _ in 0..2 * Kind::ROUND.len() {
            let kind = match self.next_kind() {
                Kind::Odd if !self.odd => Kind::Detail,
                kind => kind,
            };
            if let Some(request) = self.draw(kind, dataset) {
                let is_head = kind == Kind::Odd && self.dice.random_ratio(1, HEAD_OF);
                return Sample { kind, request, is_head };
            }
        }
        Sample { kind: Kind::FirstPage, request: Request::List(ListQuery::default()), is_head: false }
    }

    fn next_kind(&mut self) -> Kind {
        if let Some(kind) = self.round.pop() {
            return kind;
        }
        self.round = Kind::ROUND.to_vec();
        self.round.shuffle(&mut self.dice);
        self.round.pop().unwrap_or(Kind::FirstPage)
    }

    fn draw(&mut self, kind: Kind, dataset: &Dataset) -> Option<Request> {
        let plain = ListQuery::default();
        let any_size = ListQuery { per_page: self.dice.random_range(1..=ListQuery::MAX_PER_PAGE), ..plain.clone() };
        let total = dataset.len() as u64;
        let last = any_size.total_pages(total);
        let query = match kind {
            Kind::Taxonomy(taxonomy) => return Some(Request::Taxonomy(taxonomy)),
            Kind::Detail => return Some(Request::Detail(self.listing(dataset)?)),
            Kind::UnknownListing => return Some(Request::Detail(self.unknown(dataset))),
            Kind::Odd => return self.odd(dataset).map(Request::Odd),
            Kind::Elsewhere => return None,
            Kind::FirstPage => plain,
            Kind::Page => self.any_page(&any_size, total),
            Kind::LastPage => any_size.with_page(last.max(1)),
            Kind::BeyondLast => any_size.with_page(last + self.dice.random_range(1..=3)),
            Kind::PerPageOne => self.any_page(&ListQuery { per_page: 1, ..plain }, total),
            Kind::PerPageMost => self.any_page(&ListQuery::largest_pages(), total),
            Kind::Term(taxonomy) => {
                let query = self.term(any_size, taxonomy, dataset)?;
                self.any_found_page(&query, dataset)
            }
            Kind::TwoTerms => {
                let left_out = self.any_taxonomy();
                let mut query = any_size;
                for taxonomy in TaxonomyKind::ALL.into_iter().filter(|kind| *kind != left_out) {
                    query = self.term(query, taxonomy, dataset)?;
                }
                self.any_found_page(&query, dataset)
            }
            Kind::UnknownSlug => {
                let taxonomy = self.any_taxonomy();
                let slug = format!("no-such-{}-{}", taxonomy.parameter(), self.dice.random_range(1000..10_000));
                plain.with_term(taxonomy, &slug)
            }
            Kind::SinceInstant | Kind::SinceNearby | Kind::SinceDay => {
                let since = self.since(kind, dataset)?;
                self.any_found_page(&ListQuery { modified_since: Some(since), ..any_size }, dataset)
            }
        };
        Some(Request::List(query))
    }

    fn odd(&mut self, dataset: &Dataset) -> Option<String> {
        (0..20).find_map(|_| match Case::ALL.get(self.dice.random_range(0..=Case::ALL.len())) {
            Some(case) => draw_odd(*case, &mut self.dice),
            None => self.several(dataset),
        })
    }

    /// Two terms with a comma between them.
    fn several(&mut self, dataset: &Dataset) -> Option<String> {
        let taxonomy = self.any_taxonomy();
        let [one, other] = [(); 2].map(|()| self.term(ListQuery::default(), taxonomy, dataset));
        let both = format!("{},{}", one?.slug(taxonomy)?, other?.slug(taxonomy)?);
        Some(ListQuery::default().with_term(taxonomy, &both).path_and_query())
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

    fn since(&mut self, kind: Kind, dataset: &Dataset) -> Option<ModifiedSince> {
        const SECOND: i64 = 1_000_000_000;
        let id = self.listing(dataset)?;
        let at = dataset.modified_of(id)?;
        let nearby = if self.dice.random() { SECOND } else { -SECOND };
        let text = match kind {
            // As written, or in UTC: the same instant.
            Kind::SinceInstant if self.dice.random() => as_written(dataset, id)?,
            Kind::SinceNearby => {
                let text = utc(at.saturating_add(nearby))?;
                // Half of them without offset, which means UTC.
                if self.dice.random() { text.trim_end_matches('Z').to_owned() } else { text }
            }
            Kind::SinceDay => {
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

/// The path and query of a request of a case; `None`: other samples draw it, from the
/// data.
fn draw_odd(case: Case, dice: &mut StdRng) -> Option<String> {
    let word: String = (0..6).map(|_| char::from(dice.random_range(b'a'..=b'z'))).collect();
    let number = dice.random_range(2..100_000_u32);
    let query = match case {
        Case::PageBeyond | Case::UnknownSport | Case::UnknownState | Case::UnknownCity | Case::UnknownId => {
            return None;
        }
        Case::PageZero => "page=0".to_owned(),
        Case::PageNegative => format!("page=-{number}"),
        Case::PageWord => format!("page={word}"),
        Case::PerPageZero => "per_page=0".to_owned(),
        Case::PerPageNegative => format!("per_page=-{number}"),
        Case::PerPageOver => format!("per_page={}", dice.random_range(101..=200)),
        Case::PerPageWord => format!("per_page={word}"),
        Case::SinceMalformed => format!("modified_since={word}"),
        Case::SinceFuture => format!("modified_since={}-01-01", dice.random_range(2900..3000)),
        Case::IdWord => return Some(format!("/api/listings/{word}.json")),
        Case::RepeatedNumber => format!("page=1&page={}", dice.random_range(2..5)),
        Case::RepeatedFilter => format!("sport={word}&sport={word}x"),
        Case::EmptyNumber => "page=".to_owned(),
        Case::EmptyFilter => "sport=".to_owned(),
        Case::EmptySince => "modified_since=".to_owned(),
    };
    Some(format!("/api/listings.json?{query}"))
}

#[cfg(test)]
mod tests;
