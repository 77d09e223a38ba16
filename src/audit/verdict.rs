//! The verdict on two answers: equal, different, or different by design.
//!
//! Pure. [`super`] checks whether a difference outlasts a refresh. Callers: [`super::Auditor`].

use crate::api::taxonomy::VolatileKeys;

use super::compare::{self, Difference, What};
use super::sample::Kind;
use super::score::Outcome;

/// The mirror's answer.
pub(super) enum Ours {
    /// 200 with this text, and the instant for which it is confirmed.
    Body(String, i64),
    /// 404, and the instant for which it is confirmed.
    Missing(i64),
    /// The origin's answer.
    ReadThrough,
}

/// The origin's answer.
pub(super) struct Theirs {
    /// The status; only 200 has a text.
    pub(super) status: u16,
    /// The body.
    pub(super) text: String,
    /// Its instant.
    pub(super) at_ms: i64,
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Final: a refresh would not change it.
    Settled(Outcome),
    /// At least one difference.
    Differs(Vec<Difference>),
}

/// Compares two answers. The message of `Err` says why they cannot be compared.
pub(super) fn judge(kind: Kind, ours: &Ours, theirs: &Theirs, ignored: &VolatileKeys) -> Result<Verdict, String> {
    let fixed = matches!(kind, Kind::BeyondLast | Kind::UnknownSlug);
    let (differences, confirmed_ms) = match (ours, theirs.status) {
        (Ours::ReadThrough, _) => return Ok(Verdict::Settled(Outcome::ReadThrough)),
        (Ours::Missing(_), 404 | 410) => (Vec::new(), i64::MIN),
        (Ours::Missing(at), 200) => (vec![Difference::new(What::Status, "", "404", "200")], *at),
        // An unknown id is 404 here, whatever the origin answers.
        (Ours::Missing(_), _) => return Ok(Verdict::Settled(Outcome::ByContract)),
        (Ours::Body(text, at), 200) => (compare_bodies(kind, text, &theirs.text, ignored)?, *at),
        (Ours::Body(..), _) if fixed => return Ok(Verdict::Settled(Outcome::ByContract)),
        (Ours::Body(_, at), status) => (vec![Difference::new(What::Status, "", "200", &status.to_string())], *at),
    };
    if differences.is_empty() {
        return Ok(Verdict::Settled(Outcome::Equal));
    }
    if fixed && differences.iter().all(|difference| is_fixed(kind, difference)) {
        return Ok(Verdict::Settled(Outcome::ByContract));
    }
    if theirs.at_ms < confirmed_ms {
        return Err("the origin's CDN returned a copy older than the mirror's".to_owned());
    }
    Ok(Verdict::Differs(differences))
}

fn compare_bodies(kind: Kind, ours: &str, theirs: &str, ignored: &VolatileKeys) -> Result<Vec<Difference>, String> {
    let document = matches!(kind, Kind::Taxonomy(_) | Kind::Detail | Kind::UnknownListing);
    if document {
        return Ok(compare::documents(ours, theirs, ignored));
    }
    compare::lists(ours, theirs, ignored).map_err(|error| format!("the origin's answer is not a list: {error}"))
}

/// Whether this difference is by design: no listings beyond the last page, and none for an unknown slug.
fn is_fixed(kind: Kind, difference: &Difference) -> bool {
    match kind {
        Kind::UnknownSlug => true,
        _ => difference.what == What::Ids || matches!(difference.place.as_str(), "page" | "items"),
    }
}

#[cfg(test)]
mod tests;
