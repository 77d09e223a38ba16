//! A client's conditions against a stored answer that carries the origin's validators (RFC 9111 §4.3.2, RFC 9110
//! §13.2).
//!
//! What it is: the evaluation by tags and, as unknown paths have modification dates, by dates. What it is not: the
//! conditions that the cache itself sends. Who calls it: the pipeline, for a stored answer that would be sent with 200.

use http::Method;
use http::header::{ETAG, HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED};

use super::dates;
use crate::semantics::etag::EntityTag;
use crate::semantics::precondition::{self, Precondition};
use crate::semantics::trim;

/// Evaluates the conditions in the order of RFC 9110 §13.2.2: `If-Match`, else `If-Unmodified-Since`; `If-None-Match`,
/// else `If-Modified-Since`. A date that is malformed is as if absent.
pub fn evaluate(method: &Method, request: &HeaderMap, stored: &HeaderMap) -> Precondition {
    let current = stored.get(ETAG).and_then(|tag| EntityTag::parse(trim(tag.as_bytes())).ok());
    let by_tag = precondition::evaluate(method, request, current.as_ref());
    if by_tag == Precondition::Failed {
        return by_tag;
    }
    let date = dates::date_of(stored, dates::PRESENT);
    let now = date.unwrap_or(dates::PRESENT);
    let modified = dates::single(stored, LAST_MODIFIED, now);
    if !request.contains_key(IF_MATCH)
        && let (Some(bound), Some(modified)) = (dates::single(request, IF_UNMODIFIED_SINCE, now), modified)
        && modified > bound
    {
        return Precondition::Failed;
    }
    if by_tag == Precondition::NotModified || !matches!(*method, Method::GET | Method::HEAD) {
        return by_tag;
    }
    if request.contains_key(IF_NONE_MATCH) {
        // A client that sends back exactly what it was given means that answer, even if it is no tag of the grammar.
        let echo = stored.contains_key(ETAG) && request.get(IF_NONE_MATCH) == stored.get(ETAG);
        return if echo { Precondition::NotModified } else { Precondition::Proceed };
    }
    // RFC 9111 §4.3.2: without a modification date the answer's own date bounds it.
    match (dates::single(request, IF_MODIFIED_SINCE, now), modified.or(date)) {
        (Some(since), Some(modified)) if modified <= since => Precondition::NotModified,
        _ => Precondition::Proceed,
    }
}
