//! Writer of dumps: a snapshot, or a part of it, listing by listing, without memory of those before.
//!
//! A table is in [`super::table`]. A map is one `FeatureCollection` (RFC 7946), a feature on each line, whose properties are
//! its listing as the origin sent it.
//! Callers: [`super`].

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::api::json::{self, Picked};
use crate::api::listing::{self, ListingId, Summary};
use crate::api::route::DumpKind;
use crate::data::details::Details;
use crate::data::snapshot::dataset::Dataset;

use super::DumpError;
use super::table::Columns;

#[derive(Clone)]
pub(crate) enum Rows {
    /// All; there are so many.
    All(u32),
    /// Those at these positions.
    These(Arc<[u32]>),
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(count) => *count as usize,
            Self::These(positions) => positions.len(),
        }
    }

    pub(super) fn position(&self, row: usize) -> u32 {
        match self {
            Self::All(_) => row as u32,
            Self::These(positions) => positions[row],
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map(|row| self.position(row))
    }
}

/// How a snapshot, or a part of it, becomes text, piece by piece.
pub(crate) enum RowForm {
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

impl RowForm {
    pub(super) fn of(
        kind: DumpKind,
        dataset: &Dataset,
        rows: &Rows,
        details: &Details,
        bom: bool,
    ) -> Result<Self, DumpError> {
        Ok(match kind {
            DumpKind::Ndjson => Self::Lines,
            DumpKind::Csv => Self::Table(Columns::of(dataset, rows, bom)?),
            DumpKind::DetailsCsv => Self::Table(Columns::of(dataset, rows, bom)?.with_details(dataset, rows, details)?),
            DumpKind::Geojson => Self::Map,
            DumpKind::Details => Self::Details,
        })
    }

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
            Self::Table(columns) => columns.row(before, summary, detail.as_ref(), out)?,
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

/// The most listings that [`size`] looks at.
const LOOKED_AT: usize = 1_000;

/// About how many bytes the dump of a whole snapshot has, judged by some of its listings. Blocks.
pub(crate) fn size(kind: DumpKind, dataset: &Dataset, details: &Details) -> Result<u64, DumpError> {
    let all = dataset.len();
    let positions: Vec<u32> = (0..all as u32).step_by(all.div_ceil(LOOKED_AT).max(1)).collect();
    let rows = Rows::These(positions.into());
    let form = RowForm::of(kind, dataset, &rows, details, false)?;
    let ids = rows.iter().filter(|_| kind.has_details());
    let ids: Vec<ListingId> = ids.map(|position| dataset.content.summaries[position as usize].id).collect();
    let mut bodies = details.bodies(&ids);
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for (row, position) in rows.iter().enumerate() {
        let detail = bodies.next().transpose()?.flatten();
        piece.clear();
        form.listing(dataset, (position, row), detail, &mut piece)?;
        bytes += piece.len() as u64;
    }
    piece.clear();
    form.begin(dataset, &mut piece);
    form.end(dataset, &mut piece);
    Ok(bytes * all as u64 / rows.len().max(1) as u64 + piece.len() as u64)
}

/// Appends a JSON text as one line: line breaks become spaces. JSON strings contain none.
pub(super) fn put_line(out: &mut Vec<u8>, json: &[u8]) {
    let start = out.len();
    out.extend_from_slice(json);
    for at in memchr::memchr2_iter(b'\n', b'\r', json) {
        out[start + at] = b' ';
    }
}

pub(super) fn text(summary: &Summary) -> Result<&str, DumpError> {
    std::str::from_utf8(&summary.raw).map_err(|why| unreadable(summary, &why))
}

pub(super) fn unreadable(summary: &Summary, why: &dyn std::error::Error) -> DumpError {
    DumpError::Summary { id: summary.id, why: why.to_string() }
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

    #[test]
    fn a_json_text_is_one_line_and_keeps_what_is_in_its_strings() {
        let mut out = b"before ".to_vec();
        put_line(&mut out, b"{\r\n  \"a\": \"x\\ny\",\n\t\"b\": 1.50\n}");
        assert_eq!(out, b"before {    \"a\": \"x\\ny\", \t\"b\": 1.50 }");
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
