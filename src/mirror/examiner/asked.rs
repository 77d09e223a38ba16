//! A request of the examiner, and what the origin's answer to it says.
//!
//! Callers: [`super`], [`super::audit`]; [`super::sample`] draws some.

use std::fmt;

use crate::api::form::FormSeen;
use crate::api::listing::ListingId;
use crate::api::page::Page;
use crate::api::query::ListQuery;
use crate::api::shape::Shape;
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::data::details::Details;
use crate::data::snapshot::meta::Certificate;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::seconds::Seconds;
use crate::data::snapshot::verdicts::table::{Heard, is_bare};
use crate::data::store::DetailState;

use super::answer::Answered;
use super::compare::{Agreement, agreement};
use super::difference::{self, Difference, DifferenceKind};
use super::example::Example;
use super::open::OpenCase;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Query(Example),
    Open(OpenCase),
    Taxonomy(TaxonomyKind),
    /// A listing in full, or one that does not exist.
    Detail(ListingId),
}

/// Path and query.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(example) => f.write_str(&example.query.path_and_query()),
            Self::Open(case) => f.write_str(&case.path),
            Self::Taxonomy(kind) => f.write_str(kind.path()),
            Self::Detail(id) => write!(f, "/api/listings/{id}.json"),
        }
    }
}

#[derive(Default)]
pub(super) struct Said {
    /// Of the shape of the query, or whether the document is ours.
    pub(super) heard: Heard,
    pub(super) form: FormSeen,
    /// Where both answers differ; empty where they do not, and for open cases.
    pub(super) differences: Vec<Difference>,
    /// Why nothing can be compared.
    pub(super) why: Option<String>,
}

impl Said {
    pub(super) fn nothing(why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..Self::default() }
    }

    fn heard(heard: Heard) -> Self {
        Self { heard, ..Self::default() }
    }
}

/// Of an answer that is neither data nor a refusal.
const UNREADABLE: &str = "the origin's answer cannot be read";

/// An old copy tells nothing but that it is old.
const OLD: &str = "the origin's CDN returned a copy older than the mirror's";

impl Asked {
    /// `None`: it is no query.
    pub(super) fn shape(&self) -> Option<Shape> {
        match self {
            Self::Query(example) => Some(Shape::of(&example.query)),
            Self::Open(case) => Some(case.shape()),
            Self::Taxonomy(_) | Self::Detail(_) => None,
        }
    }

    /// Compares the answer with ours. Blocks: a detail is read from the store.
    pub(super) fn judge(
        &self,
        answered: &Answered,
        details: &Details,
        volatile: &VolatileKeys,
        seconds: &Seconds,
    ) -> Said {
        match self {
            Self::Query(example) => of_query(example, answered, volatile, seconds),
            Self::Open(case) => Said::heard(of_case(case, answered)),
            Self::Taxonomy(kind) => {
                let newest = &answered.newest;
                let ours = newest.dataset.content.taxonomy(*kind);
                of_document(Some((ours, newest.meta.confirmed_ms)), answered, volatile)
            }
            Self::Detail(id) if answered.newest.dataset.summary(*id).is_none() => of_document(None, answered, volatile),
            Self::Detail(id) => match details.get(*id) {
                Err(error) => Said::nothing(format!("the data directory: {error}")),
                Ok(None) => Said::nothing("the detail is not mirrored"),
                Ok(Some(record)) if record.meta.state == DetailState::Gone => of_document(None, answered, volatile),
                Ok(Some(record)) => {
                    let text = String::from_utf8_lossy(&record.body);
                    of_document(Some((&text, record.meta.origin_time_ms)), answered, volatile)
                }
            },
        }
    }
}

/// `ours`: our text, and the instant for which it is confirmed; `None`: we answer 404.
fn of_document(ours: Option<(&str, i64)>, answered: &Answered, volatile: &VolatileKeys) -> Said {
    let refused = answered.status.filter(|status| (400..500).contains(status)).map(|status| status.to_string());
    let status = |ours, theirs: &str| vec![Difference::new(DifferenceKind::Status, "", ours, theirs)];
    let differences = match (ours, &answered.text) {
        (_, None) if refused.is_none() => return Said::nothing(UNREADABLE),
        // Which refusal it is the documentation leaves open.
        (None, None) => Vec::new(),
        (None, Some(_)) => status("404", "200"),
        (Some(_), None) => status("200", &refused.unwrap_or_default()),
        (Some((ours, _)), Some(theirs)) => difference::documents(ours, theirs, volatile).into_iter().collect(),
    };
    let confirmed_ms = ours.map_or(answered.newest.meta.confirmed_ms, |(_, confirmed_ms)| confirmed_ms);
    match differences.is_empty() {
        true => Said::heard(Heard::Equal { tells: true }),
        false if answered.at_ms < confirmed_ms => Said::nothing(OLD),
        false => Said { differences, ..Said::heard(Heard::Differs { only_order: false }) },
    }
}

/// What the answer to a query says of its shape, and of the form of lists.
fn of_query(example: &Example, answered: &Answered, volatile: &VolatileKeys, seconds: &Seconds) -> Said {
    let Answered { newest, is_old, .. } = answered;
    let Example { query, tells } = example;
    let old = || Said { heard: Heard::Aged, ..Said::nothing(OLD) };
    let Some((text, page)) = &answered.page else {
        let status = answered.status.filter(|status| *status != 200).map(|status| status.to_string());
        let why = status.is_none().then(|| UNREADABLE.to_owned());
        let differences = vec![Difference::new(DifferenceKind::Status, "", "200", &status.unwrap_or_default())];
        // A list that cannot be read is what the mirror reports.
        let is_told = query.is_filtered() || why.is_none();
        let heard = if is_told { Heard::Differs { only_order: false } } else { Heard::Nothing };
        return if *is_old { old() } else { Said { differences, why, ..Said::heard(heard) } };
    };
    let has_no_size = is_bare(&query.path_and_query());
    // The unfiltered list shows the size of pages; under a filter, another one is no form that is followed.
    let size = if query.is_filtered() {
        newest.meta.form.page_size.into()
    } else {
        page.per_page.unwrap_or(page.items.len() as u64)
    };
    let size = u16::try_from(size).ok().filter(|size| has_no_size && *size > 0);
    let envelope = &newest.dataset.content.envelope;
    let query = ListQuery { per_page: size.unwrap_or(query.per_page), ..query.clone() };
    let query = query.within(envelope.largest_page);
    let learned = seconds.learned(&newest.dataset, &query);
    let agreement = agreement(&newest.dataset, &query, (page.total, &page.items), learned.as_ref());
    let heard = match agreement {
        None => return Said::nothing("it is forwarded"),
        Some(Agreement::Aged) => Heard::Aged,
        Some(Agreement::Whole) => Heard::Equal { tells: *tells },
        Some(_) if *is_old => return old(),
        Some(_) if !query.is_filtered() && !is_other_page(newest, &query, page) => Heard::Nothing,
        Some(other) => Heard::Differs { only_order: other == Agreement::ButOrder },
    };
    let is_ours = matches!(agreement, Some(Agreement::Whole | Agreement::ButOrder));
    let form = is_ours.then(|| {
        let is_ignored = |key: &str| volatile.contains(key) || newest.meta.left_out.iter().any(|out| out == key);
        FormSeen::of(text, page, (&query, has_no_size && !query.is_filtered()), envelope, is_ignored)
    });
    let differences = match heard {
        Heard::Equal { .. } => Vec::new(),
        _ => difference::lists(&newest.dataset, &query, page, learned.as_ref()).unwrap_or_default(),
    };
    let is_older = *is_old || answered.at_ms < newest.meta.confirmed_ms;
    let why = (is_older && !differences.is_empty()).then(|| OLD.to_owned());
    Said { heard, form: form.unwrap_or_default(), differences, why }
}

/// Whether an unfiltered page is another one by its size. What an edit moves, what has equal times, and pages that
/// contradict each other are no other meaning.
fn is_other_page(newest: &Snapshot, query: &ListQuery, page: &Page) -> bool {
    let dataset = &newest.dataset;
    let Ok(found) = dataset.find(query) else { return false };
    if newest.meta.certificate == Certificate::BestEffort || found.total != page.total {
        return false;
    }
    let ours: Vec<ListingId> = found.items.iter().map(|item| item.id).collect();
    let theirs: Vec<ListingId> = page.items.iter().map(|item| item.id).collect();
    let time = |id: &ListingId| dataset.modified_of(*id);
    let shared = theirs.iter().filter(|id| ours.contains(id)).count();
    let is_tied = ours.iter().map(time).eq(theirs.iter().map(time));
    ours.len() != theirs.len() || (!is_tied && (2 * shared < ours.len() || shared == ours.len()))
}

/// What the answer to an open case says of its row.
fn of_case(case: &OpenCase, answered: &Answered) -> Heard {
    let Answered { newest, page, is_old, .. } = answered;
    let refused = answered.refused();
    let Some((_, page)) = page.as_ref().filter(|_| refused.is_none()) else {
        return Heard::Means(refused.into_iter().collect());
    };
    let list = (page.total, &page.items[..], page.per_page);
    match case.allowed(&newest.dataset, newest.meta.form.page_size, list) {
        None => Heard::Aged,
        Some(these) if these.is_empty() && *is_old => Heard::Aged,
        Some(these) => Heard::Means(these),
    }
}
