//! Resolution of `modified`: which listings count as modified after an instant, where times are shown without fractions. A
//! time that is shown as 12:00:05 may be any within that second.
//!
//! What the origin said of such an instant, as a date or as a time, holds for all filters until one of its listings changes.
//! Pure. Callers:
//! [`crate::edge::answer`] evaluates queries by it, `mirror::examiner` compares and learns.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::modified;
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::shape::Form;

use super::dataset::{Dataset, Doubt, Found};

const SECOND: i64 = 1_000_000_000;

/// So many instants are remembered: with one more, all the others are forgotten.
const MOST: usize = 1024;

/// So many listings of an instant may be known one by one: a page shows no more.
const MOST_SHOWN: usize = ListQuery::MAX_PER_PAGE as usize;

/// Which listings a `modified_since` selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Those modified after this, in nanoseconds since 1970.
    after: i64,
    /// But not these positions, which are in order.
    without: Vec<u32>,
}

impl Cut {
    pub(crate) const fn exactly(at: i64) -> Self {
        Self { after: at, without: Vec::new() }
    }

    /// The same query with the instant after which it selects.
    pub(crate) fn put(&self, query: &ListQuery) -> ListQuery {
        let since = query.modified_since.as_ref();
        let since = since.map(|since| ModifiedSince { at: self.after, text: since.text.clone() });
        ListQuery { modified_since: since, ..query.clone() }
    }
}

/// How a `modified_since` is evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As the origin does.
    Sure(Cut),
    /// With all listings that the origin may count: a client sees one twice rather than never.
    Unsure(Cut),
}

/// What the origin counted of the listings of an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Counted {
    None,
    All,
    /// All but these.
    But(Vec<ListingId>),
}

/// An instant as it is written. An origin may count the listings of midnight for a date and not for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WrittenInstant {
    /// Nanoseconds since 1970.
    pub(crate) at: i64,
    pub(crate) form: Form,
}

impl WrittenInstant {
    pub(crate) fn of(since: &ModifiedSince) -> Self {
        Self { at: since.at, form: Form::of(&since.text) }
    }

    /// `None`: no time says this.
    fn text(self) -> Option<String> {
        let text = Timestamp::from_nanosecond(self.at.into()).ok()?.to_string();
        let text = match self.form {
            Form::Zoned => text,
            Form::Local => text.trim_end_matches('Z').to_owned(),
            Form::Date => text.split('T').next()?.to_owned(),
        };
        // Instants beyond the range are all at its ends.
        let is_within = (i64::MIN + 2..i64::MAX).contains(&self.at);
        (is_within && modified::parse_rfc3339(&text).ok() == Some(self.at)).then_some(text)
    }
}

/// What is known of instants.
#[derive(Default)]
pub(crate) struct Seconds(Mutex<BTreeMap<WrittenInstant, KnownSecond>>);

/// What is known of an instant.
struct KnownSecond {
    /// Of the listings that hide it.
    print: ContentHash,
    counted: Counted,
}

/// The listings that hide whether they were modified after an instant.
struct Hidden<'a> {
    dataset: &'a Dataset,
    at: i64,
    positions: Vec<u32>,
}

impl Hidden<'_> {
    /// Their ids and texts.
    fn print(&self) -> ContentHash {
        let listings = self.positions.iter().map(|position| &self.dataset.content.summaries[*position as usize]);
        let parts: Vec<[u8; 24]> = listings
            .map(|listing| {
                let mut part = [0; 24];
                part[..8].copy_from_slice(&listing.id.0.to_le_bytes());
                part[8..].copy_from_slice(&listing.hash.to_bytes());
                part
            })
            .collect();
        ContentHash::of_parts(parts.iter().map(<[u8; 24]>::as_slice))
    }

    fn ids(&self) -> impl Iterator<Item = ListingId> + '_ {
        self.positions.iter().map(|position| self.dataset.content.summaries[*position as usize].id)
    }

    fn cut(&self, counted: &Counted) -> Cut {
        let begin = begin(self.at);
        let these: &[ListingId] = match counted {
            Counted::None => return Cut::exactly(self.at),
            Counted::All => &[],
            Counted::But(these) => these,
        };
        // Times between them show that they are earlier.
        let mut without = self.dataset.modified_within(begin.saturating_add(1), self.at.saturating_sub(1));
        without.extend(these.iter().filter_map(|id| self.dataset.position(*id)));
        without.sort_unstable();
        Cut { after: begin.saturating_sub(1), without }
    }
}

/// The beginning of the second of an instant.
fn begin(at: i64) -> i64 {
    at.div_euclid(SECOND).saturating_mul(SECOND)
}

impl Dataset {
    /// `None`: no listing hides whether it was modified after `at`.
    fn hidden(&self, at: i64) -> Option<Hidden<'_>> {
        let mut positions = self.modified_within(begin(at), at);
        positions.retain(|position| self.modified_at(*position).is_some_and(|own| own == at || own == begin(at)));
        (!positions.is_empty()).then_some(Hidden { dataset: self, at, positions })
    }

    /// Whether listings hide whether they were modified after an instant.
    pub(crate) fn hides(&self, at: i64) -> bool {
        self.hidden(at).is_some()
    }

    /// Every listing that the origin may count as modified after an instant.
    pub(crate) fn most_after(&self, at: i64) -> Cut {
        self.hidden(at).map_or_else(|| Cut::exactly(at), |hidden| hidden.cut(&Counted::All))
    }

    /// The page of a query with every listing that its `modified_since` may select.
    pub(crate) fn find_most(&self, query: &ListQuery) -> Result<Found<'_>, Doubt> {
        let since = query.modified_since.as_ref();
        since.map_or_else(|| self.find(query), |since| self.find_by(query, &self.most_after(since.at)))
    }

    /// The page of a query whose `modified_since` selects these.
    pub(crate) fn find_by(&self, query: &ListQuery, cut: &Cut) -> Result<Found<'_>, Doubt> {
        let query = cut.put(query);
        let found = self.find(&query)?;
        if cut.without.is_empty() {
            return Ok(found);
        }
        let mut positions = self.positions(&query.slugs)?;
        let is_after = |position: &u32| self.modified_at(*position).is_some_and(|at| at > cut.after);
        positions.retain(|position| is_after(position) && cut.without.binary_search(position).is_err());
        Ok(self.page_of(&positions, &query))
    }

    /// Which listings of its instant an answer to a query counts that has this total and these ids; `None`: no origin would
    /// answer so. `is_it`: whether a page of ours is that of the answer.
    fn counted(
        &self,
        query: &ListQuery,
        (total, ids): (u64, &[ListingId]),
        is_it: impl Fn(&[&Summary]) -> bool,
    ) -> Option<Counted> {
        let hidden = self.hidden(query.modified_since.as_ref()?.at)?;
        let out: Vec<ListingId> = hidden.ids().filter(|id| !ids.contains(id)).take(MOST_SHOWN + 1).collect();
        let explains = |counted: &Counted| {
            let found = self.find_by(query, &hidden.cut(counted));
            found.is_ok_and(|found| found.total == total && is_it(&found.items))
        };
        let some = (out.len() <= MOST_SHOWN).then_some(Counted::But(out));
        [Some(Counted::None), Some(Counted::All), some].into_iter().flatten().find(explains)
    }

    /// The instant that the origin is asked about for this one: itself where a listing shows it, else the second that
    /// it is in. So there are no more of them, in each form, than listings.
    pub(crate) fn asked_about(&self, WrittenInstant { at, form }: WrittenInstant) -> WrittenInstant {
        WrittenInstant { at: if self.modified_within(at, at).is_empty() { begin(at) } else { at }, form }
    }

    /// Whether an answer with this total and these ids is ours, whatever the listings of its instant hide. `learned`: which
    /// of them the origin counts.
    pub(crate) fn is_explained(&self, query: &ListQuery, total: u64, ids: &[ListingId], learned: Option<&Cut>) -> bool {
        let is_ours = |page: &[&Summary]| page.iter().map(|item| &item.id).eq(ids);
        match learned {
            Some(cut) => self.find_by(query, cut).is_ok_and(|found| found.total == total && is_ours(&found.items)),
            None => self.counted(query, (total, ids), is_ours).is_some(),
        }
    }

    /// The query that shows what the origin counts of the listings of an instant: on one page, if there is one with all of
    /// them. `None`: nothing is hidden, or no time says this instant. It looks at every listing.
    pub(crate) fn query_about(&self, instant: WrittenInstant) -> Option<ListQuery> {
        let at = instant.at;
        let hidden = self.hidden(at)?.positions;
        let since = Some(ModifiedSince { at, text: instant.text()?.into() });
        let query = ListQuery { modified_since: since, ..ListQuery::largest_pages() };
        let query = query.within(self.content.envelope.largest_page);
        let sure = |positions: std::ops::Range<u32>| {
            let is_sure = |position: &u32| self.modified_at(*position).is_some_and(|own| own > at);
            positions.filter(is_sure).count() as u64
        };
        let (first, last) = (*hidden.first()?, *hidden.last()?);
        let begins = sure(0..first);
        let ends = begins + sure(first..last) + hidden.len() as u64;
        // What changed on earlier pages would move the beginning of this one, which is before them.
        let is_whole = |size: &u64| {
            let start = begins / size * size;
            start + size >= ends && (start == 0 || start < begins)
        };
        let size = (1..=u64::from(query.per_page)).rev().find(is_whole);
        let per_page = size.and_then(|size| u16::try_from(size).ok());
        Some(
            ListQuery { per_page: per_page.unwrap_or(query.per_page), ..query }
                .with_page(size.map_or(1, |size| begins / size + 1)),
        )
    }
}

/// The instant of a query with terms, if listings hide whether they were modified after it.
fn hidden_beside_terms(dataset: &Dataset, query: &ListQuery) -> Option<WrittenInstant> {
    let since = query.modified_since.as_ref().filter(|since| query.has_terms() && dataset.hides(since.at));
    since.map(WrittenInstant::of)
}

impl Seconds {
    /// How a `modified_since` is evaluated in a data set. It may take long.
    pub(crate) fn reading(&self, dataset: &Dataset, instant: WrittenInstant) -> Reading {
        let at = instant.at;
        let Some(hidden) = dataset.hidden(at) else { return Reading::Sure(Cut::exactly(at)) };
        let about = dataset.asked_about(instant);
        let known = self.0.lock().get(&about).map(|known| (known.print, known.counted.clone()));
        let known = known.filter(|(print, _)| dataset.hidden(about.at).is_some_and(|hidden| hidden.print() == *print));
        match known {
            Some((_, counted)) if about == instant => Reading::Sure(hidden.cut(&counted)),
            // No listing of the second counts as after its beginning, so none does as after this.
            Some((_, Counted::None)) => Reading::Sure(Cut::exactly(at)),
            _ => Reading::Unsure(hidden.cut(&Counted::All)),
        }
    }

    /// What the origin said, in the list without terms, of the instant of a query with terms: the same must hold for it.
    /// `None`: it has not said it, or nothing is hidden.
    pub(crate) fn learned(&self, dataset: &Dataset, query: &ListQuery) -> Option<Cut> {
        match self.reading(dataset, hidden_beside_terms(dataset, query)?) {
            Reading::Sure(cut) => Some(cut),
            Reading::Unsure(_) => None,
        }
    }

    /// What the origin is to be asked about before a query with terms can be compared. `None`: nothing.
    pub(crate) fn unlearned(&self, dataset: &Dataset, query: &ListQuery) -> Option<WrittenInstant> {
        let instant = hidden_beside_terms(dataset, query)?;
        let is_unlearned = matches!(self.reading(dataset, instant), Reading::Unsure(_));
        is_unlearned.then(|| dataset.asked_about(instant))
    }

    /// Learns from an answer of the origin to a query without other filters, whose order among equals may be another one;
    /// `false`: it tells nothing.
    pub(crate) fn learn(&self, dataset: &Dataset, query: &ListQuery, total: u64, ids: &[ListingId]) -> bool {
        let Some(instant) = query.modified_since.as_ref().map(WrittenInstant::of) else { return false };
        let shown: BTreeSet<ListingId> = ids.iter().copied().collect();
        let are_the_same = |page: &[&Summary]| {
            page.len() == ids.len() && page.iter().map(|item| item.id).collect::<BTreeSet<_>>() == shown
        };
        let counted = dataset.counted(query, (total, ids), are_the_same);
        let (Some(hidden), Some(counted)) = (dataset.hidden(instant.at), counted) else { return false };
        let print = hidden.print();
        let mut known = self.0.lock();
        if known.len() >= MOST && !known.contains_key(&instant) {
            known.clear();
        }
        known.insert(instant, KnownSecond { print, counted });
        true
    }
}

#[cfg(test)]
mod tests;
