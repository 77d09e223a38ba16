//! Writes a dump: streams a snapshot, listing by listing, and remembers nothing.
//!
//! A table has RFC 4180's form in UTF-8, without a byte order mark. A column is a key of some listing, in the order of
//! first appearance. A cell is a decoded string, a number or a truth value as the origin spells it, or JSON text for
//! nested values; `null` and missing values are empty, an empty string is `""`. A cell that begins with `=` is not
//! defused: cells are what the origin sent. A map is one `FeatureCollection` (RFC 7946), a feature on each line, whose
//! properties are its listing as the origin sent it. Callers: [`super`] for a running server, the commands without one.

use std::collections::HashMap;
use std::io::Write;

use bytes::Bytes;

use crate::api::json::{self, Picked};
use crate::api::listing::{ListingId, Summary};
use crate::api::route::DumpKind;
use crate::snapshot::dataset::Dataset;
use crate::store::StoreError;

use super::DumpError;

/// Is told how much is done, and of how much.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// The texts of details in turn; `None`: it is not mirrored, or the origin has none. Blocks.
pub(crate) type Texts<'a> = Box<dyn Iterator<Item = Result<Option<Bytes>, StoreError>> + 'a>;

/// The listings whose details a dump needs, in turn.
pub(crate) fn detailed(kind: DumpKind, dataset: &Dataset) -> Vec<ListingId> {
    match kind {
        DumpKind::Details => dataset.content.summaries.iter().map(|summary| summary.id).collect(),
        DumpKind::Ndjson | DumpKind::Csv | DumpKind::Geojson => Vec::new(),
    }
}

/// Writes one dump of a snapshot, in the origin's order. `details` are those of the [`detailed`] listings. `out` should be
/// buffered.
///
/// # Errors
/// When reading or writing fails; see [`DumpError`].
pub(crate) fn write(
    kind: DumpKind,
    dataset: &Dataset,
    mut details: Texts<'_>,
    out: &mut dyn Write,
    progress: Progress<'_>,
) -> Result<(), DumpError> {
    match kind {
        DumpKind::Ndjson => lines(dataset, out, progress, |summary, line| {
            put_line(line, &summary.raw);
            line.push(b'\n');
            Ok(())
        }),
        DumpKind::Details => lines(dataset, out, progress, |Summary { id, .. }, line| {
            if let Some(body) = details.next().transpose()?.flatten() {
                line.extend_from_slice(format!("{{\"id\":{id},\"detail\":").as_bytes());
                put_line(line, body.trim_ascii());
                line.extend_from_slice(b"}\n");
            }
            Ok(())
        }),
        DumpKind::Csv => table(dataset, out, progress),
        DumpKind::Geojson => features(dataset, out, progress),
    }
}

fn lines(
    dataset: &Dataset,
    out: &mut dyn Write,
    progress: Progress<'_>,
    mut put: impl FnMut(&Summary, &mut Vec<u8>) -> Result<(), DumpError>,
) -> Result<(), DumpError> {
    let of = dataset.content.summaries.len() as u64;
    let mut line = Vec::new();
    for (done, summary) in (1..).zip(&dataset.content.summaries) {
        line.clear();
        put(summary, &mut line)?;
        out.write_all(&line)?;
        progress(done, of);
    }
    Ok(())
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

fn table(dataset: &Dataset, out: &mut dyn Write, progress: Progress<'_>) -> Result<(), DumpError> {
    let summaries = &dataset.content.summaries;
    let of = 2 * summaries.len() as u64;
    let mut columns = Columns::default();
    for (done, summary) in (1..).zip(summaries) {
        columns.learn(summary)?;
        progress(done, of);
    }
    if summaries.is_empty() {
        columns.names = DOCUMENTED.map(str::to_owned).into();
    }
    let mut line = Vec::new();
    columns.header(&mut line);
    out.write_all(&line)?;
    for (done, summary) in (summaries.len() as u64 + 1..).zip(summaries) {
        line.clear();
        columns.row(summary, &mut line)?;
        out.write_all(&line)?;
        progress(done, of);
    }
    Ok(())
}

/// The columns known so far.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Columns {
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
        self.line(out, |column, out| put_text(out, &self.names[column]));
    }

    /// A listing's row. The last one of a repeated key counts, as for most readers of JSON.
    fn row(&self, summary: &Summary, out: &mut Vec<u8>) -> Result<(), DumpError> {
        let fields = json::fields(text(summary)?).map_err(|why| unreadable(summary, &why))?;
        let mut values = vec![None; self.names.len()];
        for field in &fields {
            if let Some(place) = self.places.get(&*field.key) {
                values[*place] = Some(field.value);
            }
        }
        self.line(out, |column, out| values[column].into_iter().for_each(|value| put_value(out, value)));
        Ok(())
    }

    fn line(&self, out: &mut Vec<u8>, cell: impl Fn(usize, &mut Vec<u8>)) {
        for column in 0..self.names.len() {
            if column > 0 {
                out.push(b',');
            }
            cell(column, out);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// A JSON value as a cell.
fn put_value(out: &mut Vec<u8>, value: &str) {
    match value.as_bytes().first() {
        Some(b'n') | None => {}
        Some(b'"') => match json::string(value) {
            Some(text) => put_text(out, &text),
            // Half of a surrogate pair is no character: the JSON text shows it.
            None => put_text(out, value),
        },
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

fn features(dataset: &Dataset, out: &mut dyn Write, progress: Progress<'_>) -> Result<(), DumpError> {
    let content = &dataset.content;
    let mut line = br#"{"type":"FeatureCollection","name":"listings""#.to_vec();
    for key in ["license", "attribution"] {
        if let Some(value) = content.envelope.carried(key) {
            line.extend_from_slice(format!(",\"{key}\":").as_bytes());
            put_line(&mut line, value.as_bytes());
        }
    }
    line.extend_from_slice(b",\"features\":[");
    let of = content.summaries.len() as u64;
    for (done, summary) in (1..).zip(&content.summaries) {
        line.extend_from_slice(if done == 1 { b"\n" } else { b",\n" });
        let raw = text(summary)?;
        let [lat, lng] = json::pick(raw, &["lat", "lng"]).map_err(|why| unreadable(summary, &why))?;
        line.extend_from_slice(format!("{{\"type\":\"Feature\",\"id\":{},\"geometry\":", summary.id).as_bytes());
        match (degrees(lat, 90.0), degrees(lng, 180.0)) {
            // RFC 7946 §3.1.1: longitude first.
            (Some(lat), Some(lng)) => {
                line.extend_from_slice(format!("{{\"type\":\"Point\",\"coordinates\":[{lng},{lat}]}}").as_bytes());
            }
            // RFC 7946 §3.2: a feature without a place.
            _ => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b",\"properties\":");
        put_line(&mut line, raw.as_bytes());
        line.push(b'}');
        out.write_all(&line)?;
        line.clear();
        progress(done, of);
    }
    line.extend_from_slice(b"\n]}\n");
    Ok(out.write_all(&line)?)
}

/// A coordinate as the origin spells it: a number of at most so many degrees.
fn degrees(picked: Picked<'_>, most: f64) -> Option<String> {
    // A repeated key says nothing.
    let Picked::Once(value) = picked else { return None };
    let text = if value.starts_with('"') { json::string(value)?.trim().to_owned() } else { value.to_owned() };
    let number: f64 = serde_json::from_str(&text).ok()?;
    (number.abs() <= most).then_some(text)
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
            assert!(columns.row(&summary(row), &mut out).is_ok());
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
            (r#""half \ud83c""#, r#""""half \ud83c""""#),
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
