//! Writes a dump: a snapshot, or a part of it, listing by listing; remembers nothing.
//!
//! A table has RFC 4180's form in UTF-8, without a byte order mark. A column is a key of some listing, in the order of
//! first appearance; then come the slugs of state and city, which join with the API. A cell is a decoded string, a
//! number or a truth value as the origin spells it, or JSON text for nested values; `null` and missing values are empty,
//! an empty string is `""`. A cell that begins with `=` is not defused: cells are what the origin sent. A map is one
//! `FeatureCollection` (RFC 7946), a feature on each line, whose properties are its listing as the origin sent it.
//! Callers: [`super`] for a running server, the commands without one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;

use bytes::Bytes;

use crate::api::json::{self, Picked};
use crate::api::listing::{self, ListingId, Summary};
use crate::api::route::DumpKind;
use crate::api::taxonomy::TaxonomyKind;
use crate::mirror::details::Details;
use crate::snapshot::dataset::Dataset;
use crate::store::StoreError;

use super::DumpError;

/// Is told how much is done, and of how much.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// The texts of details in turn; `None`: it is not mirrored, or the origin has none. Blocks.
pub(crate) type Texts<'a> = Box<dyn Iterator<Item = Result<Option<Bytes>, StoreError>> + 'a>;

/// How a snapshot, or a part of it, becomes text, piece by piece.
pub(crate) enum Form {
    Lines,
    Details,
    Table(Columns),
    Map,
    /// What has changed: so many listings are new, the others have changed; and the token for the next time.
    Changes {
        added: usize,
        next: String,
    },
}

impl Form {
    /// That of the listings at these positions.
    pub(super) fn of(kind: DumpKind, dataset: &Dataset, positions: &[u32]) -> Result<Self, DumpError> {
        Ok(match kind {
            DumpKind::Ndjson => Self::Lines,
            DumpKind::Csv => Self::Table(Columns::of(dataset, positions)?),
            DumpKind::Geojson => Self::Map,
            DumpKind::Details => Self::Details,
        })
    }

    /// Appends what comes before the listings.
    pub(super) fn begin(&self, dataset: &Dataset, out: &mut Vec<u8>) {
        match self {
            Self::Lines | Self::Details | Self::Changes { .. } => {}
            Self::Table(columns) => columns.header(out),
            Self::Map => {
                out.extend_from_slice(br#"{"type":"FeatureCollection","name":"listings""#);
                for key in ["license", "attribution"] {
                    if let Some(value) = dataset.content.envelope.carried(key) {
                        out.extend_from_slice(format!(",\"{key}\":").as_bytes());
                        put_line(out, value.as_bytes());
                    }
                }
                out.extend_from_slice(b",\"features\":[");
            }
        }
    }

    /// Appends the listing at a position, before which so many were appended; or its detail if there is one.
    pub(super) fn listing(
        &self,
        dataset: &Dataset,
        (position, before): (u32, usize),
        detail: Option<Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<(), DumpError> {
        let summary = &dataset.content.summaries[position as usize];
        match self {
            Self::Lines => {
                put_line(out, &summary.raw);
                out.push(b'\n');
            }
            Self::Changes { added, .. } => {
                let op = if before < *added { "added" } else { "changed" };
                out.extend_from_slice(format!("{{\"op\":\"{op}\",\"id\":{},\"listing\":", summary.id).as_bytes());
                put_line(out, &summary.raw);
                if let Some(body) = detail {
                    out.extend_from_slice(b",\"detail\":");
                    put_line(out, body.trim_ascii());
                }
                out.extend_from_slice(b"}\n");
            }
            Self::Details => {
                if let Some(body) = detail {
                    out.extend_from_slice(format!("{{\"id\":{},\"detail\":", summary.id).as_bytes());
                    put_line(out, body.trim_ascii());
                    out.extend_from_slice(b"}\n");
                }
            }
            Self::Table(columns) => columns.row(position, summary, out)?,
            Self::Map => {
                out.extend_from_slice(if before == 0 { b"\n" } else { b",\n" });
                put_feature(summary, out)?;
            }
        }
        Ok(())
    }

    /// Appends a listing that is not in the snapshot any more.
    pub(super) fn removed(&self, id: ListingId, out: &mut Vec<u8>) {
        if let Self::Changes { .. } = self {
            out.extend_from_slice(format!("{{\"op\":\"removed\",\"id\":{id}}}\n").as_bytes());
        }
    }

    /// Appends what comes after the listings.
    pub(super) fn end(&self, dataset: &Dataset, out: &mut Vec<u8>) {
        match self {
            Self::Lines | Self::Details | Self::Table(_) => {}
            Self::Map => out.extend_from_slice(b"\n]}\n"),
            Self::Changes { next, .. } => {
                let (id, next) = (json::quote(dataset.id.as_str()), json::quote(next));
                out.extend_from_slice(format!("{{\"snapshot\":{id},\"next\":{next}}}\n").as_bytes());
            }
        }
    }
}

/// The listings whose details a dump of a whole snapshot needs, in turn.
pub(crate) fn detailed(kind: DumpKind, dataset: &Dataset) -> Vec<ListingId> {
    let summaries = dataset.content.summaries.iter().filter(|_| kind == DumpKind::Details);
    summaries.map(|summary| summary.id).collect()
}

/// Writes a whole snapshot in the origin's order. `details` are those of the [`detailed`] listings. `out` should be
/// buffered.
pub(crate) fn write(
    kind: DumpKind,
    dataset: &Dataset,
    mut details: Texts<'_>,
    out: &mut dyn Write,
    progress: Progress<'_>,
) -> Result<(), DumpError> {
    let positions: Vec<u32> = (0..dataset.len() as u32).collect();
    let form = Form::of(kind, dataset, &positions)?;
    let of = positions.len() as u64;
    let mut piece = Vec::new();
    form.begin(dataset, &mut piece);
    for (before, position) in positions.into_iter().enumerate() {
        let detail = details.next().transpose()?.flatten();
        form.listing(dataset, (position, before), detail, &mut piece)?;
        out.write_all(&piece)?;
        piece.clear();
        progress(before as u64 + 1, of);
    }
    form.end(dataset, &mut piece);
    Ok(out.write_all(&piece)?)
}

/// The most listings that [`size`] looks at.
const LOOKED_AT: usize = 1_000;

/// About how many bytes the dump of a whole snapshot has, judged by some of its listings. Blocks.
pub(crate) fn size(kind: DumpKind, dataset: &Dataset, details: &Details) -> Result<u64, DumpError> {
    let all = dataset.len();
    let positions: Vec<u32> = (0..all as u32).step_by(all.div_ceil(LOOKED_AT).max(1)).collect();
    let form = Form::of(kind, dataset, &positions)?;
    let ids = detailed(kind, dataset);
    let ids: Vec<ListingId> = positions.iter().filter_map(|position| ids.get(*position as usize).copied()).collect();
    let mut bodies = details.bodies(&ids);
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for position in &positions {
        let detail = bodies.next().transpose()?.flatten();
        piece.clear();
        form.listing(dataset, (*position, 1), detail, &mut piece)?;
        bytes += piece.len() as u64;
    }
    piece.clear();
    form.begin(dataset, &mut piece);
    form.end(dataset, &mut piece);
    Ok(bytes * all as u64 / positions.len().max(1) as u64 + piece.len() as u64)
}

/// Appends a JSON text as one line: line breaks become spaces. JSON strings contain none.
fn put_line(out: &mut Vec<u8>, json: &[u8]) {
    let start = out.len();
    out.extend_from_slice(json);
    for at in memchr::memchr2_iter(b'\n', b'\r', json) {
        out[start + at] = b' ';
    }
}

/// The text of a listing.
fn text(summary: &Summary) -> Result<&str, DumpError> {
    std::str::from_utf8(&summary.raw).map_err(|why| unreadable(summary, &why))
}

fn unreadable(summary: &Summary, why: &dyn std::error::Error) -> DumpError {
    DumpError::Summary { id: summary.id, why: why.to_string() }
}

/// More columns are refused: the origin has a dozen, and a hostile one could have us write a comma for each column of
/// each listing.
const MOST_COLUMNS: usize = 1000;

/// The fields of a listing that the API's documentation names: the columns where there is no listing.
const DOCUMENTED: [&str; 11] =
    ["id", "name", "url", "city", "state", "sport", "lat", "lng", "rating", "review_count", "modified"];

/// The columns of a table.
#[derive(Default)]
pub(crate) struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// The slugs of states and cities, which listings do not have, and the one of each listing by its position.
    slugs: Vec<(&'static str, SlugsOfListings)>,
}

/// The slugs of a taxonomy, and the place among them of the slug of each listing.
type SlugsOfListings = (Vec<Box<str>>, Vec<u32>);

impl Columns {
    fn of(dataset: &Dataset, positions: &[u32]) -> Result<Self, DumpError> {
        let mut columns = Self::default();
        for position in positions {
            columns.learn(&dataset.content.summaries[*position as usize])?;
        }
        if positions.is_empty() {
            columns.names = DOCUMENTED.map(str::to_owned).into();
        }
        for (name, kind) in [("state_slug", TaxonomyKind::States), ("city_slug", TaxonomyKind::Cities)] {
            if !columns.places.contains_key(name) {
                columns.slugs.push((name, slugs(dataset, kind)));
            }
        }
        Ok(columns)
    }

    /// Adds the new keys of a listing.
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

    fn header(&self, out: &mut Vec<u8>) {
        let names = self.names.iter().map(String::as_str).chain(self.slugs.iter().map(|(name, ..)| *name));
        line(out, names, |name, out| put_text(out, name));
    }

    /// A listing's row. The last one of a repeated key counts, as for most readers of JSON.
    fn row(&self, position: u32, summary: &Summary, out: &mut Vec<u8>) -> Result<(), DumpError> {
        let fields = json::fields(text(summary)?).map_err(|why| unreadable(summary, &why))?;
        let mut values = vec![None; self.names.len()];
        for field in &fields {
            if let Some(place) = self.places.get(&*field.key) {
                values[*place] = Some(Cell::Json(field.value));
            }
        }
        let slugs = self.slugs.iter().map(|(_, (slugs, of))| slugs.get(of[position as usize] as usize));
        values.extend(slugs.map(|slug| slug.map(|slug| Cell::Text(slug))));
        line(out, values.into_iter(), |value, out| match value {
            Some(Cell::Json(value)) => put_value(out, value),
            Some(Cell::Text(text)) => put_text(out, text),
            None => {}
        });
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Cell<'a> {
    Json(&'a str),
    Text(&'a str),
}

/// In the place of a slug: none is known, or more than one.
const NO_SLUG: u32 = u32::MAX;

fn slugs(dataset: &Dataset, kind: TaxonomyKind) -> SlugsOfListings {
    let (mut slugs, mut of_listings) = (Vec::new(), vec![None; dataset.len()]);
    for ((slug, positions), place) in dataset.known_terms(kind).zip(0_u32..) {
        slugs.push(slug.into());
        for position in positions {
            let known = &mut of_listings[position as usize];
            *known = Some(if known.is_none() { place } else { NO_SLUG });
        }
    }
    (slugs, of_listings.into_iter().map(|place| place.unwrap_or(NO_SLUG)).collect())
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

/// A JSON value as a cell.
fn put_value(out: &mut Vec<u8>, value: &str) {
    match value.as_bytes().first() {
        Some(b'n') | None => {}
        Some(b'"') => put_text(out, json::string(value).as_deref().unwrap_or(value)),
        Some(b'{' | b'[') => {
            let mut line = Vec::with_capacity(value.len());
            put_line(&mut line, value.as_bytes());
            put_bytes(out, &line);
        }
        Some(_) => out.extend_from_slice(value.as_bytes()),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// RFC 4180 §2, 5 to 7. Space at an end is quoted, too: some readers trim it. So is the empty string, to tell it from nothing.
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

fn put_feature(summary: &Summary, out: &mut Vec<u8>) -> Result<(), DumpError> {
    let raw = text(summary)?;
    let [lat, lng] = json::pick(raw, &["lat", "lng"]).map_err(|why| unreadable(summary, &why))?;
    out.extend_from_slice(format!("{{\"type\":\"Feature\",\"id\":{},\"geometry\":", summary.id).as_bytes());
    match (degrees(lat, 90.0), degrees(lng, 180.0)) {
        // RFC 7946 §3.1.1: longitude first.
        (Some(lat), Some(lng)) => {
            out.extend_from_slice(format!("{{\"type\":\"Point\",\"coordinates\":[{lng},{lat}]}}").as_bytes());
        }
        // RFC 7946 §3.2: a feature without a place.
        _ => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"properties\":");
    put_line(out, raw.as_bytes());
    out.push(b'}');
    Ok(())
}

/// A coordinate as the origin spells it: a number of at most so many degrees.
fn degrees(picked: Picked<'_>, most: f64) -> Option<Cow<'_, str>> {
    // A repeated key says nothing.
    let Picked::Once(value) = picked else { return None };
    listing::degrees(value, most).map(|(spelled, _)| spelled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::hash::ContentHash;
    use proptest::prelude::*;
    use serde_json::Value;
    #[test]
    fn a_json_text_is_one_line_and_keeps_what_is_in_its_strings() {
        let mut out = b"before ".to_vec();
        put_line(&mut out, b"{\r\n  \"a\": \"x\\ny\",\n\t\"b\": 1.50\n}");
        assert_eq!(out, b"before {    \"a\": \"x\\ny\", \t\"b\": 1.50 }");
    }

    fn summary(raw: &str) -> Summary {
        Summary { id: ListingId(1), hash: ContentHash::default(), raw: Bytes::copy_from_slice(raw.as_bytes()) }
    }

    /// The table of some listings.
    fn table(rows: &[&str]) -> String {
        let mut columns = Columns::default();
        for row in rows {
            assert!(columns.learn(&summary(row)).is_ok());
        }
        let mut out = Vec::new();
        columns.header(&mut out);
        for row in rows {
            assert!(columns.row(0, &summary(row), &mut out).is_ok());
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_stand_in_the_order_of_their_first_appearance() {
        let rows = [r#"{"id":1,"b":2}"#, r#"{"a":null,"id":2}"#, r#"{"id":3,"c":{"x": [1,"y"]},"b":""}"#];
        assert_eq!(table(&rows), "id,b,a,c\r\n1,2,,\r\n2,,,\r\n3,\"\",,\"{\"\"x\"\": [1,\"\"y\"\"]}\"\r\n");
    }

    #[test]
    fn a_cell_is_what_the_origin_sent() {
        for (value, cell) in [
            ("4.50", "4.50"),
            ("-97.12300000000000000000001", "-97.12300000000000000000001"),
            ("1e3", "1e3"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("true", "true"),
            ("null", ""),
            (r#""""#, r#""""#),
            (r#""null""#, "null"),
            (r#""=1+1""#, "=1+1"),
            (r#""@SUM(A1)""#, "@SUM(A1)"),
            (r#""a,b""#, r#""a,b""#),
            (r#""say \"hi\"""#, r#""say ""hi""""#),
            (r#""two\r\nlines""#, "\"two\r\nlines\""),
            (r#"" edge""#, "\" edge\""),
            (r#""tab\t""#, "\"tab\t\""),
            (r#""S\u00e3o \ud83c\udfdf""#, "São \u{1f3df}"),
            (r#""nul\u0000""#, "nul\0"),
            (r#""half \ud83c""#, "half \u{fffd}"),
            ("[\n1,\r\n\"a\\nb\"]", "\"[ 1,  \"\"a\\nb\"\"]\""),
        ] {
            let mut out = Vec::new();
            put_value(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), cell, "{value}");
        }
    }

    #[test]
    fn of_a_repeated_key_the_last_value_counts() {
        assert_eq!(table(&[r#"{"id":1,"a":"x","a":"y"}"#]), "id,a\r\n1,y\r\n");
    }

    #[test]
    fn so_many_columns_that_no_table_is_meant_are_refused() {
        let mut columns = Columns::default();
        let keys = |n: usize| (0..n).map(|n| format!("\"k{n}\":0")).collect::<Vec<_>>().join(",");
        assert!(columns.learn(&summary(&format!("{{{}}}", keys(MOST_COLUMNS)))).is_ok());
        assert!(columns.learn(&summary(r#"{"k0":1}"#)).is_ok());
        assert!(matches!(columns.learn(&summary(r#"{"one more":1}"#)), Err(DumpError::Columns(MOST_COLUMNS))));
    }

    /// Any JSON value, and its cell.
    fn value() -> impl Strategy<Value = (String, String)> {
        let quoted = |text: String| (Value::from(text.as_str()).to_string(), text);
        prop_oneof![
            any::<String>().prop_map(quoted),
            "[\"',\r\n \t=+@-]{0,6}".prop_map(quoted),
            any::<i64>().prop_map(|number| (number.to_string(), number.to_string())),
            "-?[1-9][0-9]{0,40}[.][0-9]{1,40}".prop_map(|number| (number.clone(), number)),
            any::<bool>().prop_map(|truth| (truth.to_string(), truth.to_string())),
            Just(("null".to_owned(), String::new())),
            prop::collection::vec(any::<String>(), 0..3).prop_map(|texts| {
                let text = Value::from(texts).to_string();
                (text.clone(), text)
            }),
        ]
    }

    proptest! {
        #[test]
        fn another_reader_gets_every_cell_back(
            keys in prop::collection::hash_set(any::<String>(), 1..6),
            rows in prop::collection::vec(prop::collection::vec(value(), 6), 1..6),
        ) {
            let keys: Vec<String> = keys.into_iter().collect();
            let listing = |row: &Vec<(String, String)>| {
                let fields = keys.iter().zip(row).map(|(key, (value, _))| format!("{}:{value}", json::quote(key)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
            };
            let listings: Vec<String> = rows.iter().map(listing).collect();
            let text = table(&listings.iter().map(String::as_str).collect::<Vec<_>>());
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            prop_assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), keys.clone());
            // A row of one column without a value is an empty line, which that reader skips.
            if keys.len() > 1 {
                let read: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
                prop_assert_eq!(read.len(), rows.len());
                for (record, row) in read.iter().zip(&rows) {
                    let expected: Vec<&str> = row.iter().take(keys.len()).map(|(_, cell)| cell.as_str()).collect();
                    prop_assert_eq!(record.iter().collect::<Vec<_>>(), expected);
                }
            }
        }
    }

    #[test]
    fn a_coordinate_is_a_number_on_this_globe_in_the_origins_digits() {
        for (value, most, text) in [
            ("31.50", 90.0, Some("31.50")),
            ("-97.12300000000000000000001", 180.0, Some("-97.12300000000000000000001")),
            ("3.1e1", 90.0, Some("3.1e1")),
            ("0", 90.0, Some("0")),
            (r#""31.5""#, 90.0, Some("31.5")),
            (r#"" 31.5\n""#, 90.0, Some("31.5")),
            ("90", 90.0, Some("90")),
            ("90.1", 90.0, None),
            ("1e999", 180.0, None),
            ("null", 90.0, None),
            ("true", 90.0, None),
            (r#""""#, 90.0, None),
            (r#""N31.5""#, 90.0, None),
            (r#""+31.5""#, 90.0, None),
            (r#""NaN""#, 90.0, None),
            ("[31.5]", 90.0, None),
        ] {
            assert_eq!(degrees(Picked::Once(value), most).as_deref(), text, "{value}");
        }
        assert_eq!(degrees(Picked::Absent, 90.0), None);
        assert_eq!(degrees(Picked::Repeated("1", "2"), 90.0), None);
    }
}
