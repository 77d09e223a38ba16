//! What a reading has fetched, back from the store.
//!
//! It asks nothing and decides nothing. Callers: [`super::judge`].

use bytes::Bytes;

use crate::api::listing::Summary;
use crate::api::taxonomy::TaxonomyKind;
use crate::store::StoreError;

use super::super::copies::Copies;
use super::super::pass::{self, Assembled, Inconsistent, Pass};

/// Its intervals, and the result.
pub(super) type ReadBack = (Pass, Result<Assembled, Inconsistent>);

/// Reads everything fetched from the store and assembles it page by page, never all bodies at once. The inner error is
/// the path of a missing copy.
pub(super) fn read_back(
    copies: &Copies,
    pages: u64,
    known: impl Fn(&Summary) -> Option<Summary>,
) -> Result<Result<ReadBack, String>, StoreError> {
    let mut taxonomies = Vec::new();
    let (mut spans, mut last_spans) = (Vec::new(), Vec::new());
    let mut wrong = None;
    let mut fetched = |path: String, spans: &mut Vec<(String, pass::Span)>| match copies.span(&path) {
        Ok(Some((span, body))) => {
            spans.push((path, span));
            Some(body)
        }
        Ok(None) => {
            wrong = Some(Ok(path));
            None
        }
        Err(error) => {
            wrong = Some(Err(error));
            None
        }
    };
    for kind in TaxonomyKind::ALL {
        taxonomies.extend(fetched(kind.path().to_owned(), &mut last_spans));
    }
    let assembled = <[Bytes; 3]>::try_from(taxonomies).ok().map(|taxonomies| {
        let mut bodies = (1..=pages).map_while(|page| fetched(pass::page_path(page), &mut spans));
        let assembled = pass::assemble(&mut bodies, &taxonomies, &copies.volatile(), known);
        // If they do not fit, the intervals of the rest are still needed.
        bodies.for_each(drop);
        assembled
    });
    spans.extend(last_spans);
    match (wrong, assembled) {
        (Some(Err(error)), _) => Err(error),
        (Some(Ok(lost)), _) => {
            copies.forget(&lost)?;
            Ok(Err(lost))
        }
        (None, Some(assembled)) => Ok(Ok((Pass::new(spans), assembled))),
        (None, None) => Ok(Err(pass::page_path(1))),
    }
}
