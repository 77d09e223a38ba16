//! HTTP caching (RFC 9111) as plain functions of values: what may be stored, how long it is fresh, and which requests
//! it answers.
//!
//! Every decision of a shared HTTP cache - RFC 9111, RFC 9110 §13 and §14, RFC 9213 (targeted fields) and RFC 5861
//! (stale content) - for two kinds of endpoint: the *known* ones of the mirrored API, where the operator's `ttl` stands
//! in for a lifetime that the origin does not state, and *unknown* paths, which follow the RFCs to the letter. Not a
//! store, a clock or a connection; `now` is an argument. Callers: mainly `proxy`.

pub(crate) mod conditional;
pub(crate) mod dates;
pub(crate) mod directives;
pub(crate) mod fields;
pub(crate) mod freshen;
pub(crate) mod invalidation;
mod list;
pub(crate) mod ranges;
pub(crate) mod reuse;
pub(crate) mod selecting;
mod shown;
pub(crate) mod storing;
mod targeted;
pub(crate) mod terms;
#[cfg(test)]
mod testing;

pub(crate) use conditional::evaluate;
pub use directives::{RequestDirectives, ResponseDirectives};
pub(crate) use fields::{Allowed, Purpose, end_to_end, is_never_onward, onward};
pub(crate) use freshen::{freshen, head_agrees};
pub(crate) use invalidation::invalidated;
pub(crate) use ranges::{Ranged, select};
pub(crate) use reuse::may_stand_in;
pub use reuse::{Policy, Reuse, ValidationReason, reuse};
pub(crate) use selecting::{OneLanguage, Selecting, Vary};
pub(crate) use shown::{is_bare, is_plain, reflects};
pub(crate) use storing::{NotStored, blames_the_request, may_store};
pub use terms::{Exchange, Terms};
