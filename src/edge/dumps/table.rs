//! Columns and rows of a table: RFC 4180 in UTF-8.
//!
//! A column is a key of some listing, in the order of first appearance; then come the slugs of state and city, which join
//! with the API, then the fields of details, if it has them. A cell is a decoded string, a number or a truth value as the
//! origin spells it, or JSON text for nested values; `null` and missing values are empty, an empty string is `""`.
//! Callers: [`super::write`].

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::api::json;
use crate::api::listing::{ListingId, Summary};
use crate::api::taxonomy::TaxonomyKind;
use crate::data::details::Details;
use crate::data::snapshot::dataset::Dataset;

use super::DumpError;
use super::write::{Rows, put_line, text, unreadable};

/// More columns are refused: the origin has a dozen, and a hostile one could have us write a comma for each column of
/// each listing.
const MOST_COLUMNS: usize = 1000;

/// The most columns of details; what else they have is in the last one.
const MOST_OF_DETAILS: usize = 300;

/// Objects nested deeper than this are one cell.
const DEEPEST: usize = 3;

/// At most so many details are read for the columns, and so many at once.
const MOST_READ: usize = 50_000;
const AT_ONCE: usize = 1_000;

/// What has a longer path has no column, and nothing in it has one, in bytes: a hostile detail could repeat it for each
/// field.
const LONGEST: usize = 200;

/// The column of what has none.
const MORE: &str = "more";

/// The fields of a listing that the API's documentation names: the columns where there is no listing.
const DOCUMENTED: [&str; 11] =
    ["id", "name", "url", "city", "state", "sport", "lat", "lng", "rating", "review_count", "modified"];

#[derive(Default)]
pub(crate) struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// The slugs of states and cities, which listings do not have, and the one of each row.
    slugs: Vec<(&'static str, SlugsOfRows)>,
    /// The fields of details, with dots between the names of nested ones; `None`: without details.
    details: Option<Names>,
    /// Whether it is for Excel.
    bom: bool,
}

#[derive(Default)]
struct Names {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

/// The slugs of a taxonomy, and the place among them of the slug of each row.
type SlugsOfRows = (Vec<Box<str>>, Vec<u32>);

impl Columns {
    pub(super) fn of(dataset: &Dataset, rows: &Rows, bom: bool) -> Result<Self, DumpError> {
        let mut columns = Self { bom, ..Self::default() };
        for position in rows.iter() {
            columns.learn(&dataset.content.summaries[position as usize])?;
        }
        if rows.len() == 0 {
            columns.names = DOCUMENTED.map(str::to_owned).into();
        }
        for (name, kind) in [("state_slug", TaxonomyKind::States), ("city_slug", TaxonomyKind::Cities)] {
            // A field of that name keeps its values under another one.
            if let Some(place) = columns.places.get(name) {
                columns.names[*place] = format!("listing.{name}");
            }
            columns.slugs.push((name, slugs(dataset, kind, rows)));
        }
        Ok(columns)
    }

    /// The same with the fields that the details of these rows have.
    pub(super) fn with_details(mut self, dataset: &Dataset, rows: &Rows, details: &Details) -> Result<Self, DumpError> {
        let step = rows.len().div_ceil(MOST_READ).max(1);
        let ids = rows.iter().step_by(step).map(|position| dataset.content.summaries[position as usize].id);
        let ids: Vec<ListingId> = ids.collect();
        for ids in ids.chunks(AT_ONCE) {
            for body in details.bodies(ids) {
                self.note_detail(body?);
            }
        }
        self.end_details();
        Ok(self)
    }

    fn note_detail(&mut self, body: Option<Bytes>) {
        let known = self.details.get_or_insert_default();
        each_leaf(&body.unwrap_or_default(), &mut |path, _| {
            let has_place = known.names.len() < MOST_OF_DETAILS && path.len() <= LONGEST;
            if has_place && !known.places.contains_key(path) {
                known.places.insert(path.to_owned(), known.names.len());
                known.names.push(path.to_owned());
            }
        });
    }

    /// Gives other names to those that listings have already.
    fn end_details(&mut self) {
        let mut taken: HashSet<String> = self.names.iter().cloned().collect();
        taken.extend(self.slugs.iter().map(|(name, _)| (*name).to_owned()));
        let known = self.details.get_or_insert_default();
        known.names.push(MORE.to_owned());
        // The last one first: its name is documented.
        for name in known.names.iter_mut().rev() {
            while !taken.insert(name.clone()) {
                name.insert_str(0, "detail.");
            }
        }
    }

    fn learn(&mut self, summary: &Summary) -> Result<(), DumpError> {
        for field in json::fields(text(summary)?).map_err(|why| unreadable(summary, &why))? {
            if self.places.contains_key(&*field.key) {
                continue;
            }
            if self.names.len() == MOST_COLUMNS {
                return Err(DumpError::Columns(MOST_COLUMNS));
            }
            self.places.insert(field.key.clone().into_owned(), self.names.len());
            self.names.push(field.key.into_owned());
        }
        Ok(())
    }

    pub(super) fn header(&self, out: &mut Vec<u8>) {
        if self.bom {
            out.extend_from_slice("\u{feff}".as_bytes());
        }
        let names = self.names.iter().map(String::as_str).chain(self.slugs.iter().map(|(name, ..)| *name));
        let of_details = self.details.iter().flat_map(|known| known.names.iter().map(String::as_str));
        line(out, names.chain(of_details), |name, out| self.put_text(out, name));
    }

    /// A listing's row. The last one of a repeated key counts, as for most readers of JSON.
    pub(super) fn row(
        &self,
        row: usize,
        summary: &Summary,
        detail: Option<&Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<(), DumpError> {
        let fields = json::fields(text(summary)?).map_err(|why| unreadable(summary, &why))?;
        let more;
        let mut values = vec![None; self.names.len()];
        for field in &fields {
            if let Some(place) = self.places.get(&*field.key) {
                values[*place] = Some(Cell::Json(field.value));
            }
        }
        let slugs = self.slugs.iter().map(|(_, (slugs, of))| slugs.get(of[row] as usize));
        values.extend(slugs.map(|slug| slug.map(|slug| Cell::Text(slug))));
        if let Some(known) = &self.details {
            let first = values.len();
            let last = first + known.names.len() - 1;
            values.resize(last + 1, None);
            let mut rest = String::new();
            if let Some(body) = detail {
                let has_any = each_leaf(body, &mut |path, value| {
                    // Two values of one path: a key with a dot in it, or a key that is repeated.
                    let other = match known.places.get(path) {
                        Some(place) => values[first + place].replace(Cell::Json(value)),
                        None => Some(Cell::Json(value)),
                    };
                    if let Some(Cell::Json(value)) = other {
                        rest.extend([if rest.is_empty() { "{" } else { "," }, &json::quote(path), ":", value]);
                    }
                });
                if !rest.is_empty() {
                    more = rest + "}";
                    values[last] = Some(Cell::Json(&more));
                } else if !has_any {
                    // It is no object.
                    values[last] = std::str::from_utf8(body).ok().map(|text| Cell::Json(text.trim()));
                }
            }
        }
        line(out, values.into_iter(), |value, out| match value {
            Some(Cell::Json(value)) => self.put_value(out, value),
            Some(Cell::Text(text)) => self.put_text(out, text),
            None => {}
        });
        Ok(())
    }

    fn put_value(&self, out: &mut Vec<u8>, value: &str) {
        match value.as_bytes().first() {
            Some(b'n') | None => {}
            Some(b'"') => self.put_text(out, json::string(value).as_deref().unwrap_or(value)),
            Some(b'{' | b'[') => {
                let mut line = Vec::with_capacity(value.len());
                put_line(&mut line, value.as_bytes());
                put_bytes(out, &line);
            }
            Some(_) => out.extend_from_slice(value.as_bytes()),
        }
    }

    /// A text as a cell. Excel takes some for formulas, also after white space and in full width; OWASP, "CSV Injection".
    fn put_text(&self, out: &mut Vec<u8>, text: &str) {
        let begins = text.starts_with(['\t', '\r']) || text.trim_start().starts_with(FORMULA);
        if self.bom && begins && text.trim().parse::<f64>().is_err() {
            return put_bytes(out, format!("'{text}").as_bytes());
        }
        put_bytes(out, text.as_bytes());
    }
}

#[derive(Clone, Copy)]
enum Cell<'a> {
    Json(&'a str),
    Text(&'a str),
}

/// Shows each value of a detail that is no object, with its path; objects that are deep, empty, or below a long path as they
/// are. `false`: it has none.
fn each_leaf<'a>(body: &'a Bytes, show: &mut dyn FnMut(&str, &'a str)) -> bool {
    fn within<'a>(object: &'a str, path: &mut String, depth: usize, show: &mut dyn FnMut(&str, &'a str)) -> bool {
        let Ok(fields) = json::fields(object) else { return false };
        let length = path.len();
        for field in &fields {
            if depth > 1 {
                path.push('.');
            }
            path.push_str(&field.key);
            let is_inside = depth < DEEPEST && path.len() <= LONGEST && field.value.starts_with('{');
            if !(is_inside && within(field.value, path, depth + 1, show)) {
                show(path, field.value);
            }
            path.truncate(length);
        }
        !fields.is_empty()
    }
    std::str::from_utf8(body).is_ok_and(|text| within(text.trim(), &mut String::new(), 1, show))
}

/// What formulas begin with.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// In the place of a slug: none is known, or more than one.
const NO_SLUG: u32 = u32::MAX;

fn slugs(dataset: &Dataset, kind: TaxonomyKind, rows: &Rows) -> SlugsOfRows {
    let (mut slugs, mut of_listings) = (Vec::new(), vec![None; dataset.len()]);
    for ((slug, positions), place) in dataset.known_terms(kind).zip(0_u32..) {
        slugs.push(slug.into());
        for position in positions {
            let known = &mut of_listings[position as usize];
            *known = Some(if known.is_none() { place } else { NO_SLUG });
        }
    }
    (slugs, rows.iter().map(|position| of_listings[position as usize].unwrap_or(NO_SLUG)).collect())
}

fn line<T>(out: &mut Vec<u8>, cells: impl Iterator<Item = T>, put: impl Fn(T, &mut Vec<u8>)) {
    for (column, cell) in cells.enumerate() {
        if column > 0 {
            out.push(b',');
        }
        put(cell, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// RFC 4180 §2, 5 to 7. Space at an end is quoted, too: some readers trim it. So is the empty string, to tell it from
/// nothing.
fn put_bytes(out: &mut Vec<u8>, text: &[u8]) {
    let edge = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b' ' | b'\t'));
    let is_plain = !text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n'));
    if is_plain && !edge(text.first()) && !edge(text.last()) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
