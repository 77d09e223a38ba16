//! The rules of HTTP as plain functions of values.
//!
//! Validators, preconditions, negotiation, freshness, client addresses, targets and problem documents. No socket, no
//! clock, no configuration, and nothing about the mirrored API.
//!
//! # Deviations
//!
//! * A detail counts as confirmed as long as its summary is confirmed. So its `Age` and `Mirror-Confirmed` are those of
//!   the snapshot.
//! * A detail of a known listing that is fetched for a client is stored first and then answered as from the snapshot,
//!   with our entity tag, so the tag does not change when the next request finds it stored.
//! * On other paths, the RFCs expect a cache to forward a client's cache directives and other end-to-end fields with a
//!   GET (RFC 9111 §5.2, RFC 9110 §7.6). grandstand forwards only `Via`, `CDN-Loop` and the headers in
//!   `passthrough.request_headers`. With `["*"]`, a header is forwarded even if no stored `Vary` lists it, and the
//!   answer may still be cached; only the answer's `Vary` says whether the header matters. The rules of
//!   [`crate::proxy`] against cache poisoning still apply.
//! * If the budget is spent, a request with a stale answer gets it at once instead of waiting first.
//! * Before the first snapshot, a client may fetch a list or taxonomy that the crawl is fetching, too.
//! * After each new confirmation, a page of the list is rendered and compressed again, even if its entity tag stays,
//!   because the page contains the instant of confirmation (`generated_at`). Details and taxonomies stay as they are.
//! * `Date` is the time of sending, also for stored answers. `Age` is counted accordingly.
//! * On known endpoints `s-maxage` does not forbid `stale_if_error` ([`crate::semantics::caching::may_stand_in`]).
//! * A request with `Cookie` is treated like a request with `Authorization` (RFC 9111 §3.5), unless `Vary` names
//!   `Cookie`. An answer with `Set-Cookie` is cached only if it says `public`. This is stricter than RFC 9111, which
//!   only warns (§7.3) that answers with cookies may be shared.
//! * On known endpoints, only entries of grandstand processes are forwarded from a client's `Via` and `CDN-Loop`
//!   (RFC 9110 §7.6.3). One request to the origin serves all waiting clients, and one client's header must not make the
//!   origin refuse it. Answers carry no `Via`, so that no client learns this process's name; RFC 9110 §7.6.3 lets a
//!   gateway omit `Via`.
//! * Interim answers of the origin are limited to 16 over HTTP/1. Over HTTP/2, hyper does not report them, so they are
//!   not counted; if they do not stop, the request ends after `origin.timeout`, and the client gets 503.
//! * A query about a term in doubt is 503 in a snapshot that is not the newest: the origin can only answer for its
//!   present data.
//! * Parts (206) are not stored. Interim answers are not sent over HTTP/2: pingora cannot.
//! * If the origin answers 404 for a stored detail, the detail stays stored until a second 404 confirms that it is
//!   gone.
//!
//! Callers: `answer`, `upstream`, `proxy` and `limit`.

pub mod cache_status;
pub mod caching;
pub mod client_address;
pub mod coding;
pub(crate) mod excerpt;
pub(crate) mod framing;
pub mod freshness;
pub(crate) mod grammar;
pub mod hops;
pub mod precondition;
pub(crate) mod problem;
pub mod proxy_protocol;
pub(crate) mod ranges;
pub mod target;
#[cfg(test)]
mod tests;
