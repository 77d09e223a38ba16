//! Which headers of a client's GET or HEAD are sent to the origin, and which of them select an answer.
//!
//! Pure; [`crate::semantics::caching::onward`] says which fields may be sent at all. A question about a known endpoint
//! has no fields, so nothing here affects it. Callers: [`super`] and the files beside this one.

use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, IF_MODIFIED_SINCE, IF_NONE_MATCH, PRAGMA, RANGE, VIA};
use http::{HeaderMap, HeaderName, Method};

use crate::cache::stored::{Stored, Variants};
use crate::semantics::caching::{Allowed, Purpose, RequestDirectives, Vary, is_bare, onward};
use crate::semantics::hops::CDN_LOOP;

use super::question::Question;

/// The request fields that may select an answer: the origin gets them if it varies by them.
pub(super) fn selectable(question: &Question, allowed: &Allowed) -> HeaderMap {
    onward(&question.fields, Purpose::Store, allowed, |_| true)
}

/// Whether to ask for a part: no stored answer could be confirmed and cut.
pub(super) fn wants_part(question: &Question, kept: Option<&Stored>) -> bool {
    question.method == Method::GET && question.fields.contains_key(RANGE) && !kept.is_some_and(Stored::has_validator)
}

/// The client fields that the origin gets when the answer is for all. `names`: what the answers vary by.
pub(super) fn told(question: &Question, allowed: &Allowed, names: &[HeaderName]) -> HeaderMap {
    onward(&question.fields, Purpose::Store, allowed, |name| names.contains(name))
}

/// Whether the answer can be for others, too.
pub(super) fn purpose(question: &Question, kept: Option<&Stored>) -> Purpose {
    if wants_part(question, kept) || RequestDirectives::of(&question.fields).no_store {
        Purpose::Pass
    } else {
        Purpose::Store
    }
}

/// Whether the result of a fetch says something about the resource for others: only that of a GET whose fields are
/// ordinary. Another method, or a field of one client, may have caused any other result. `sent`: the fields that were
/// sent.
pub(super) fn tells_of_the_resource(question: &Question, sent: &HeaderMap, kept: Option<&Stored>) -> bool {
    question.method == Method::GET && purpose(question, kept) == Purpose::Store && is_bare(sent, &Vary::NOTHING)
}

/// The fields that are sent. A stored answer is revalidated with its own validators, for all clients that it answers.
/// `names`: what the answers are known to vary by.
pub(super) fn sent(question: &Question, allowed: &Allowed, names: &[HeaderName], kept: Option<&Stored>) -> HeaderMap {
    let purpose = purpose(question, kept);
    let mut fields = onward(&question.fields, purpose, allowed, |name| names.contains(name));
    if let Some(stored) = kept.filter(|_| question.method == Method::GET && purpose == Purpose::Store) {
        for (name, value) in [(IF_NONE_MATCH, &stored.etag), (IF_MODIFIED_SINCE, &stored.last_modified)] {
            if let Some(value) = value {
                fields.insert(name, value.clone());
            }
        }
    }
    fields
}

/// One client's question as asked in the background, for all: without what makes it that client's own, except fields
/// that the answers vary by.
pub(super) fn for_everybody(question: &Question, names: &[HeaderName]) -> Question {
    let mut question = Question { method: Method::GET, for_many: true, ..question.clone() };
    for name in
        [AUTHORIZATION, COOKIE, RANGE, CACHE_CONTROL, PRAGMA, VIA, CDN_LOOP].iter().filter(|name| !names.contains(name))
    {
        question.fields.remove(name);
    }
    question
}

/// The fields that a resource's answers are known to vary by.
pub(super) fn names(variants: Option<&Variants>) -> Vec<HeaderName> {
    let stored = variants.into_iter().flat_map(Variants::iter);
    sorted(stored.flat_map(|stored| stored.selecting.names().cloned()).collect())
}

/// Those names and these, each once.
pub(super) fn and_these(names: Vec<HeaderName>, more: impl IntoIterator<Item = HeaderName>) -> Vec<HeaderName> {
    sorted(names.into_iter().chain(more).collect())
}

fn sorted(mut names: Vec<HeaderName>) -> Vec<HeaderName> {
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    names
}
