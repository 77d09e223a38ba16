//! Differences of two answers to one request, for people.
//!
//! Lists are compared as the examiner compares them: listings, order and total; what else a list says is its form, which
//! is no difference. Of taxonomies and details the values of all but volatile fields count. Pure. Callers: [`super`].

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::api::json::{self, Field};
use crate::api::listing::ListingId;
use crate::api::page::Page;
use crate::api::query::ListQuery;
use crate::api::taxonomy::VolatileKeys;
use crate::api::values;
use crate::data::snapshot::dataset::{Dataset, Doubt};
use crate::data::snapshot::seconds::Cut;
use crate::words::named;

/// The most reported differences of one answer.
const MOST: usize = 8;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub(crate) enum DifferenceKind, as_str {
        Status = "status",
        Field = "field",
        Ids = "ids",
        /// The text of one listing on a page.
        Listing = "listing",
        /// The text of a whole document.
        Text = "text",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Difference {
    pub what: DifferenceKind,
    /// The field, the listing and its field, or the position; may be empty.
    pub place: String,
    /// The mirror's answer, shortened.
    pub ours: String,
    /// The origin's answer, shortened.
    pub theirs: String,
}

impl Difference {
    /// A difference; both texts are shortened.
    pub(crate) fn new(what: DifferenceKind, place: impl Into<String>, ours: &str, theirs: &str) -> Self {
        Self { what, place: place.into(), ours: json::shorten(ours), theirs: json::shorten(theirs) }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.place.is_empty() { "" } else { " " };
        let Self { what, place, ours, theirs } = self;
        write!(f, "{}{space}{place}: the mirror has {ours}, the origin {theirs}", what.as_str())
    }
}

/// Compares a page of the origin's list with the data set's. Empty: they are equal. `learned`: as for
/// [`agreement`](super::compare::agreement).
pub(super) fn lists(
    dataset: &Dataset,
    query: &ListQuery,
    page: &Page,
    learned: Option<&Cut>,
) -> Result<Vec<Difference>, Doubt> {
    let found = learned.map_or_else(|| dataset.find(query), |cut| dataset.find_by(query, cut))?;
    let theirs: Vec<ListingId> = page.items.iter().map(|item| item.id).collect();
    let ours: Vec<ListingId> = found.items.iter().map(|item| item.id).collect();
    let mut differences = Vec::new();
    if !dataset.is_explained(query, page.total, &theirs, learned) {
        if found.total != page.total {
            let [ours, theirs] = [found.total, page.total].map(|total| total.to_string());
            differences.push(Difference::new(DifferenceKind::Field, "total", &ours, &theirs));
        }
        if ours != theirs {
            let at = ours.iter().zip(&theirs).take_while(|(our, their)| our == their).count();
            let show = |ids: &[ListingId]| match &ids[at..] {
                [] => "(nothing)".to_owned(),
                rest => rest.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            };
            let place = format!("from position {} of the page", at + 1);
            differences.push(Difference::new(DifferenceKind::Ids, place, &show(&ours), &show(&theirs)));
        }
    }
    let changed = page.items.iter().filter_map(|item| Some((item, dataset.summary(item.id)?)));
    let changed = changed.filter(|(item, ours)| ours.hash != item.hash).take(MOST - differences.len());
    differences.extend(changed.map(|(item, ours)| {
        let [ours, theirs] = [&ours.raw, &item.raw].map(|raw| String::from_utf8_lossy(raw));
        let (field, ours, theirs) = first_difference(&ours, &theirs);
        let place = field.map_or_else(|| item.id.to_string(), |field| format!("{}, {field}", item.id));
        Difference::new(DifferenceKind::Listing, place, &ours, &theirs)
    }));
    Ok(differences)
}

/// Compares two details or taxonomies. `None`: they are equal.
pub(super) fn documents(ours: &str, theirs: &str, volatile: &VolatileKeys) -> Option<Difference> {
    if values::same_but_for(ours, theirs, |key| volatile.contains(key)) {
        return None;
    }
    let [ours, theirs] = [ours, theirs].map(|text| volatile.blank(text).0);
    let (field, ours, theirs) = first_difference(&ours, &theirs);
    let kind = if field.is_some() { DifferenceKind::Field } else { DifferenceKind::Text };
    Some(Difference::new(kind, field.unwrap_or_default(), &ours, &theirs))
}

/// The first field, by name, whose values differ, and these; without a field: both texts, where they differ.
fn first_difference(ours: &str, theirs: &str) -> (Option<String>, String, String) {
    const ABSENT: &str = "(absent)";
    let (our_fields, their_fields) = (json::fields(ours).unwrap_or_default(), json::fields(theirs).unwrap_or_default());
    let mut fields: BTreeMap<&str, [Option<&str>; 2]> = BTreeMap::new();
    for (side, of_side) in [&our_fields, &their_fields].into_iter().enumerate() {
        for Field { key, value, .. } in of_side {
            fields.entry(key.as_ref()).or_default()[side].get_or_insert(*value);
        }
    }
    let is_object = !our_fields.is_empty() && !their_fields.is_empty();
    let is_same = |[ours, theirs]: &[Option<&str>; 2]| match (ours, theirs) {
        (Some(ours), Some(theirs)) => values::same(ours, theirs),
        _ => false,
    };
    let field = fields.into_iter().find(|(_, sides)| is_object && !is_same(sides));
    let (field, [ours, theirs]) = field.map_or((None, [Some(ours), Some(theirs)]), |(key, values)| (Some(key), values));
    let (ours, theirs) = around_difference(ours.unwrap_or(ABSENT), theirs.unwrap_or(ABSENT));
    (field.map(str::to_owned), ours, theirs)
}

/// Both texts from shortly before their first differing character.
fn around_difference(ours: &str, theirs: &str) -> (String, String) {
    const BEFORE: usize = 24;
    const WHOLE: usize = 60;
    if ours.chars().count().max(theirs.chars().count()) <= WHOLE {
        return (ours.to_owned(), theirs.to_owned());
    }
    let same = ours.chars().zip(theirs.chars()).take_while(|(our, their)| our == their).count();
    let from = same.saturating_sub(BEFORE);
    let show = |text: &str| {
        let rest: String = text.chars().skip(from).collect();
        json::shorten(&if from > 0 { format!("…{rest}") } else { rest })
    };
    (show(ours), show(theirs))
}

#[cfg(test)]
mod tests;
