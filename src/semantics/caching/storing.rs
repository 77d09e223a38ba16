//! Whether an answer may be stored by a shared cache (RFC 9111 §3).
//!
//! What it is: the decision and its reason. What it is not: how long it is fresh (`terms`) or whom it answers
//! (`reuse`, `selecting`). Who calls it: the cache, once per answer of the origin.

use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE, ETAG, EXPIRES, HeaderMap, LAST_MODIFIED, SET_COOKIE};
use http::{Method, StatusCode};

use super::directives::{RequestDirectives, ResponseDirectives};
use super::selecting::Vary;
use super::terms::may_guess;

/// Why an answer is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NotStored {
    /// Only answers to GET are stored.
    Method,
    /// The status is interim, or one that `must-understand` speaks of and we don't know.
    Status,
    /// `no-store`, of the answer or of the request.
    NoStore,
    /// `private`.
    Private,
    /// The request was authorized and the answer does not say that others may have it (RFC 9111 §3.5).
    Authorization,
    /// The request carried cookies, as above.
    Cookie,
    /// The answer sets a cookie and does not say how long it is fresh.
    SetCookie,
    /// Nothing says how long it is fresh, and there is no validator: it could never be used.
    NoFreshness,
    /// A part, or a confirmation: not an answer that stands alone.
    Partial,
    /// `Vary: *`.
    VaryStar,
}

impl NotStored {
    /// The label for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Status => "status",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::Cookie => "cookie",
            Self::SetCookie => "set-cookie",
            Self::NoFreshness => "no-freshness",
            Self::Partial => "partial",
            Self::VaryStar => "vary-star",
        }
    }
}

/// Whether the answer may be stored for others. `request` is what was sent to the origin; `default_lifetime` is the
/// operator's, for a known endpoint.
///
/// An answer to POST that [`super::stores_for_get`] may be asked about as one to GET. Our own rules, stricter than RFC
/// 9111: a request with `Cookie` counts as authorized unless `Vary` names the field (much of the web sends no
/// `private`), and an answer with `Set-Cookie` needs a lifetime of its own.
///
/// # Errors
/// The first reason that forbids it.
pub fn may_store(
    method: &Method,
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
    directives: &ResponseDirectives,
    default_lifetime: Option<Duration>,
) -> Result<(), NotStored> {
    let explicit = directives.lifetime().is_some() || (!directives.targeted && response.contains_key(EXPIRES));
    let for_others = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    let vary = Vary::of(response);
    let reasons = [
        (NotStored::Method, *method != Method::GET),
        (NotStored::Partial, matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED)),
        (NotStored::Status, status.is_informational() || (directives.must_understand && !is_understood(status))),
        // RFC 9111 §5.2.2.3: with must-understand, a status that is understood makes no-store void.
        (NotStored::NoStore, directives.no_store && !directives.must_understand),
        (NotStored::NoStore, RequestDirectives::of(request).no_store),
        (NotStored::Private, directives.private),
        (NotStored::Authorization, request.contains_key(AUTHORIZATION) && !for_others),
        (NotStored::Cookie, request.contains_key(COOKIE) && !for_others && !vary.names(&COOKIE)),
        (NotStored::VaryStar, vary == Vary::Star),
    ];
    if let Some((reason, _)) = reasons.into_iter().find(|(_, forbids)| *forbids) {
        return Err(reason);
    }
    if response.contains_key(SET_COOKIE) && !explicit && default_lifetime.is_none() {
        return Err(NotStored::SetCookie);
    }
    let validator = response.contains_key(ETAG) || response.contains_key(LAST_MODIFIED);
    let guessed = may_guess(status, directives) && (default_lifetime.is_some() || validator);
    let reusable = validator || !directives.no_cache;
    if (explicit || guessed || directives.no_cache) && reusable { Ok(()) } else { Err(NotStored::NoFreshness) }
}

/// The statuses whose caching requirements this cache knows (RFC 9110 §15, RFC 7725, RFC 6585). 206 and 304 are not
/// among them: they are never stored.
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451 | 500..=505
    )
}
