//! Writes a dump: streams a snapshot, listing by listing, and remembers nothing.
//!
//! Callers: [`super`] for a running server, the commands without one.

use std::io::Write;

use bytes::Bytes;

use crate::api::listing::{ListingId, Summary};
use crate::api::route::DumpKind;
use crate::snapshot::dataset::Dataset;
use crate::store::StoreError;

use super::{DumpError, csv, geojson};

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
        DumpKind::Csv => csv::write(dataset, out, progress),
        DumpKind::Geojson => geojson::write(dataset, out, progress),
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
pub(super) fn put_line(out: &mut Vec<u8>, json: &[u8]) {
    let start = out.len();
    out.extend_from_slice(json);
    for at in memchr::memchr2_iter(b'\n', b'\r', json) {
        out[start + at] = b' ';
    }
}

/// The text of a listing.
pub(super) fn text(summary: &Summary) -> Result<&str, DumpError> {
    std::str::from_utf8(&summary.raw).map_err(|error| DumpError::Summary { id: summary.id, why: error.to_string() })
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
}
