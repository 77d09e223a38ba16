//! Whether two answers to one request are equal, and if not, where exactly they differ.
//!
//! Pure. Volatile fields are ignored. It does not know whether a difference lasts. Callers: [`super::Auditor`].

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::api::json::{self, Field, JsonError};
use crate::api::taxonomy::VolatileKeys;
use crate::words::named;

/// The most reported differences of one answer.
const MOST: usize = 8;

named! {
    /// The differing part.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub(crate) enum DifferenceKind, as_str {
        Status = "status",
        /// A field at the top level.
        Field = "field",
        /// The order of the fields at the top level.
        FieldOrder = "field-order",
        /// The ids on a page, or their order.
        Ids = "ids",
        /// The text of one listing on a page.
        Listing = "listing",
        /// The text of a whole document.
        Text = "text",
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Difference {
    /// The differing part.
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

/// Compares two pages of a list. Empty: they are equal.
pub(crate) fn lists(ours: &str, theirs: &str, volatile: &VolatileKeys) -> Result<Vec<Difference>, JsonError> {
    let (ours, theirs) = (json::fields(ours)?, json::fields(theirs)?);
    let mut found = fields(
        &ours,
        &theirs,
        |key| volatile.contains(key),
        |name, ours, theirs| match name {
            // Items are compared below; the echo of the filters is ours, however the origin writes it.
            "items" | "filters" => true,
            _ => ours == theirs,
        },
    );
    found.extend(compare_items(&items(&ours)?, &items(&theirs)?));
    found.truncate(MOST);
    Ok(found)
}

/// Compares two details or taxonomies: their texts without volatile values. Empty: they are equal.
pub(crate) fn documents(ours: &str, theirs: &str, volatile: &VolatileKeys) -> Vec<Difference> {
    let [blank_ours, blank_theirs] = [ours, theirs].map(|text| volatile.blank(text).0);
    if blank_ours == blank_theirs {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let (Ok(our_fields), Ok(their_fields)) = (json::fields(ours), json::fields(theirs)) {
        found = fields(&our_fields, &their_fields, |key| volatile.contains(key), |_, ours, theirs| ours == theirs);
        let (our_values, their_values) = (by_key(&our_fields), by_key(&their_fields));
        for difference in found.iter_mut().filter(|difference| difference.what == DifferenceKind::Field) {
            let place = difference.place.as_str();
            if let (Some(ours), Some(theirs)) = (our_values.get(place), their_values.get(place)) {
                // Where inside a long value the difference is.
                (difference.ours, difference.theirs) = around_difference(ours, theirs);
            }
        }
    }
    if found.is_empty() {
        let (ours, theirs) = around_difference(&blank_ours, &blank_theirs);
        found.push(Difference::new(DifferenceKind::Text, "", &ours, &theirs));
    }
    found.truncate(MOST);
    found
}

/// Compares top-level fields by name, and the order of the common ones.
fn fields(
    ours: &[Field<'_>],
    theirs: &[Field<'_>],
    ignored: impl Fn(&str) -> bool,
    equal: impl Fn(&str, &str, &str) -> bool,
) -> Vec<Difference> {
    const ABSENT: &str = "(absent)";
    let (our_values, their_values) = (by_key(ours), by_key(theirs));
    let mut found = Vec::new();
    let keys: BTreeSet<&str> = our_values.keys().chain(their_values.keys()).copied().collect();
    for key in keys.into_iter().filter(|key| !ignored(key)) {
        match (our_values.get(key), their_values.get(key)) {
            (Some(ours), Some(theirs)) if equal(key, ours, theirs) => {}
            (ours, theirs) => {
                let text = |value: Option<&&str>| value.copied().unwrap_or(ABSENT).to_owned();
                found.push(Difference::new(DifferenceKind::Field, key, &text(ours), &text(theirs)));
            }
        }
        if found.len() >= MOST {
            return found;
        }
    }
    let shared = |fields: &[Field<'_>], others: &HashMap<&str, &str>| -> Vec<String> {
        let common = fields.iter().filter(|field| !ignored(&field.key));
        common.filter(|field| others.contains_key(field.key.as_ref())).map(|field| field.key.to_string()).collect()
    };
    let (our_order, their_order) = (shared(ours, &their_values), shared(theirs, &our_values));
    if our_order != their_order {
        found.push(Difference::new(DifferenceKind::FieldOrder, "", &our_order.join(", "), &their_order.join(", ")));
    }
    found
}

/// The values by name; the first of repeated ones.
fn by_key<'a>(fields: &'a [Field<'a>]) -> HashMap<&'a str, &'a str> {
    let mut values = HashMap::with_capacity(fields.len());
    for field in fields {
        values.entry(field.key.as_ref()).or_insert(field.value);
    }
    values
}

/// The listings of a page.
fn items<'a>(fields: &[Field<'a>]) -> Result<Vec<&'a str>, JsonError> {
    fields.iter().find(|field| field.key == "items").map_or_else(|| Ok(Vec::new()), |field| json::elements(field.value))
}

fn compare_items(ours: &[&str], theirs: &[&str]) -> Vec<Difference> {
    let ids = |items: &[&str]| items.iter().map(|item| id(item)).collect::<Vec<_>>();
    let (our_ids, their_ids) = (ids(ours), ids(theirs));
    let mut found = Vec::new();
    if our_ids != their_ids {
        let at = our_ids.iter().zip(&their_ids).take_while(|(our, their)| our == their).count();
        let show = |ids: &[String]| if at < ids.len() { ids[at..].join(" ") } else { "(nothing)".to_owned() };
        let place = format!("from position {} of the page", at + 1);
        found.push(Difference::new(DifferenceKind::Ids, place, &show(&our_ids), &show(&their_ids)));
    }
    let mut places = HashMap::with_capacity(their_ids.len());
    for (at, id) in their_ids.iter().enumerate() {
        places.entry(id).or_insert(at);
    }
    for (our_id, our) in our_ids.iter().zip(ours) {
        if found.len() >= MOST {
            break;
        }
        let Some(&at) = places.get(our_id) else { continue };
        if *our == theirs[at] {
            continue;
        }
        let inside = match (json::fields(our), json::fields(theirs[at])) {
            (Ok(ours), Ok(theirs)) => fields(&ours, &theirs, |_| false, |_, ours, theirs| ours == theirs),
            _ => Vec::new(),
        };
        match inside.first() {
            Some(first) => {
                let place = format!("{our_id}, {}", if first.place.is_empty() { "field order" } else { &first.place });
                found.push(Difference::new(DifferenceKind::Listing, place, &first.ours, &first.theirs));
            }
            // The fields are equal, so white space differs.
            None => found.push(Difference::new(DifferenceKind::Listing, our_id, our, theirs[at])),
        }
    }
    found
}

fn id(item: &str) -> String {
    let fields = json::fields(item).unwrap_or_default();
    fields.iter().find(|field| field.key == "id").map_or_else(|| "(no id)".to_owned(), |field| field.value.to_owned())
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
