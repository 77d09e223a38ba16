//! The listings as a table: RFC 4180 in UTF-8, without a byte order mark.
//!
//! A column is a key of some listing, in the order of first appearance. A cell is a decoded string, a number or a truth
//! value as the origin spells it, or JSON text for nested values; `null` and missing values are empty, an empty string
//! is `""`. A cell that begins with `=` is not defused: cells are what the origin sent. Callers: [`super::write`].

use std::collections::HashMap;
use std::io::Write;

use crate::api::json;
use crate::snapshot::dataset::Dataset;

use super::DumpError;
use super::write::{Progress, put_line, text};

/// More columns are refused: the origin has a dozen, and a hostile one could have us write a comma for each column of
/// each listing.
const MOST_COLUMNS: usize = 1000;

pub(super) fn write(dataset: &Dataset, out: &mut dyn Write, progress: Progress<'_>) -> Result<(), DumpError> {
    let summaries = &dataset.content.summaries;
    let of = 2 * summaries.len() as u64;
    let mut columns = Columns::default();
    for (done, summary) in (1..).zip(summaries) {
        columns.learn(text(summary)?).map_err(|why| why.of(summary.id))?;
        progress(done, of);
    }
    if columns.names.is_empty() {
        return Ok(());
    }
    let mut line = Vec::new();
    columns.header(&mut line);
    out.write_all(&line)?;
    for (done, summary) in (summaries.len() as u64 + 1..).zip(summaries) {
        line.clear();
        columns.row(text(summary)?, &mut line).map_err(|why| why.of(summary.id))?;
        out.write_all(&line)?;
        progress(done, of);
    }
    Ok(())
}

/// Why a listing has no row.
enum Unfit {
    Json(json::JsonError),
    Columns,
}

impl Unfit {
    fn of(self, id: crate::api::listing::ListingId) -> DumpError {
        match self {
            Self::Json(source) => DumpError::Summary { id, why: source.to_string() },
            Self::Columns => DumpError::Columns(MOST_COLUMNS),
        }
    }
}

/// The columns known so far.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// Adds the new keys of a listing.
    fn learn(&mut self, raw: &str) -> Result<(), Unfit> {
        for field in json::fields(raw).map_err(Unfit::Json)? {
            if self.places.contains_key(&*field.key) {
                continue;
            }
            if self.names.len() == MOST_COLUMNS {
                return Err(Unfit::Columns);
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
    fn row(&self, raw: &str, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let fields = json::fields(raw).map_err(Unfit::Json)?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The table of some listings.
    fn table(rows: &[&str]) -> String {
        let mut columns = Columns::default();
        for row in rows {
            assert!(columns.learn(row).is_ok());
        }
        let mut out = Vec::new();
        columns.header(&mut out);
        for row in rows {
            assert!(columns.row(row, &mut out).is_ok());
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
        assert!(columns.learn(&format!("{{{}}}", keys(MOST_COLUMNS))).is_ok());
        assert!(columns.learn(r#"{"k0":1}"#).is_ok());
        assert!(matches!(columns.learn(r#"{"one more":1}"#), Err(Unfit::Columns)));
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
}
