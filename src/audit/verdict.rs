//! The verdict on two answers: equal or different.
//!
//! Pure. [`super`] checks whether a difference outlasts a refresh. Callers: [`super::Auditor`].

use crate::api::taxonomy::VolatileKeys;

use super::compare::{self, Difference, DifferenceKind};
use super::job::Outcome;
use super::sample::Request;

/// The mirror's answer.
pub(super) enum Ours {
    /// 200 with this text, and the instant for which it is confirmed.
    Body { text: String, at_ms: i64 },
    /// 404, and the instant for which it is confirmed.
    Missing(i64),
    /// The origin's answer.
    ReadThrough,
}

/// The origin's answer.
#[derive(Default)]
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

/// Compares two answers to a request. The message of `Err` says why they cannot be compared.
pub(super) fn judge(
    request: &Request,
    ours: &Ours,
    theirs: &Theirs,
    ignored: &VolatileKeys,
) -> Result<Verdict, String> {
    let status = |ours: &str| vec![Difference::new(DifferenceKind::Status, "", ours, &theirs.status.to_string())];
    let (differences, confirmed_ms) = match (ours, theirs.status) {
        (Ours::ReadThrough, _) => return Ok(Verdict::Settled(Outcome::ReadThrough)),
        (Ours::Missing(at_ms), 200) => (status("404"), *at_ms),
        // Which refusal it is the documentation leaves open.
        (Ours::Missing(_), _) => (Vec::new(), i64::MIN),
        (Ours::Body { text, at_ms }, 200) => (bodies(request, text, &theirs.text, ignored)?, *at_ms),
        (Ours::Body { at_ms, .. }, _) => (status("200"), *at_ms),
    };
    if differences.is_empty() {
        return Ok(Verdict::Settled(Outcome::Equal));
    }
    if theirs.at_ms < confirmed_ms {
        return Err("the origin's CDN returned a copy older than the mirror's".to_owned());
    }
    Ok(Verdict::Differs(differences))
}

fn bodies(request: &Request, ours: &str, theirs: &str, ignored: &VolatileKeys) -> Result<Vec<Difference>, String> {
    match request {
        Request::List(_) => {
            compare::lists(ours, theirs, ignored).map_err(|error| format!("the origin's answer is not a list: {error}"))
        }
        Request::Taxonomy(_) | Request::Detail(_) => Ok(compare::documents(ours, theirs, ignored)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::listing::ListingId;
    use crate::api::query::ListQuery;

    fn verdict(request: &Request, ours: &Ours, status: u16, text: &str, at_ms: i64) -> Result<Verdict, String> {
        judge(request, ours, &Theirs { status, text: text.to_owned(), at_ms }, &VolatileKeys::default())
    }

    #[test]
    fn answers_are_equal_or_differ_unless_the_origins_is_older() {
        let (list, detail) = (Request::List(ListQuery::default()), Request::Detail(ListingId(7)));
        let body = |text: &str| Ours::Body { text: text.to_owned(), at_ms: 5000 };
        let (page, other) = (r#"{"total":1,"items":[{"id":1}]}"#, r#"{"total":1,"items":[{"id":2}]}"#);
        let equal = Ok(Verdict::Settled(Outcome::Equal));
        assert_eq!(verdict(&list, &body(page), 200, page, 0), equal);
        assert!(matches!(verdict(&list, &body(page), 200, other, 6000), Ok(Verdict::Differs(_))));
        assert!(verdict(&list, &body(page), 200, other, 4000).unwrap_err().contains("older"));
        assert!(verdict(&list, &body(page), 200, "<html>", 6000).unwrap_err().contains("not a list"));
        assert!(matches!(verdict(&list, &body(page), 404, "", 6000), Ok(Verdict::Differs(_))));
        assert!(matches!(verdict(&detail, &body("1"), 200, "2", 6000), Ok(Verdict::Differs(_))));
        for status in [400, 404, 410] {
            assert_eq!(verdict(&detail, &Ours::Missing(5000), status, "", 0), equal);
        }
        assert!(matches!(verdict(&detail, &Ours::Missing(5000), 200, "{}", 6000), Ok(Verdict::Differs(_))));
        let through = verdict(&list, &Ours::ReadThrough, 200, page, 0);
        assert_eq!(through, Ok(Verdict::Settled(Outcome::ReadThrough)));
    }
}
