//! What a fetch brings to those who wait for it, and what makes two requests wait for the same one.
//!
//! Values only. Callers: [`super::together`] waits, [`super::fetch`] and [`super::streamed`] land.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, StatusCode};

use crate::cache::Key;
use crate::cache::stored::Stored;
use crate::semantics::caching::{Selecting, Vary};
use crate::upstream::client::AskError;
use crate::upstream::flight::Ticket;

use super::question::Head;
use super::spool::Tap;

/// One fetch at a time for a resource and the values of what it is known to vary by.
pub(super) type Flight = (Key, Selecting);

/// What a fetch brings to those who did not start it.
#[derive(Clone, Debug)]
pub(super) enum Landing {
    /// An answer that is kept.
    Kept(Arc<Stored>, u16),
    /// An answer that will be kept, while it arrives.
    Arriving { head: Arc<Head>, selecting: Selecting, tap: Tap },
    /// An answer for one client alone, as the request wanted it or the answer says something of it: others may share.
    Personal,
    /// An answer that must not be kept, of a resource that answers each client alone for example: ask for yourself.
    Private,
    /// No answer.
    Failed(AskError),
    /// No answer to a request with these fields, which may be why: others who say something else ask again.
    FailedFor(AskError, Arc<HeaderMap>),
}

/// Those who wait for what a fetch brings; `None` when it is for one client alone.
pub(super) type Waiting = Option<Ticket<Flight, Landing>>;

/// The flight of requests with these values in the fields that answers are known to vary by.
pub(super) fn flight(key: &Key, names: &[HeaderName], selectable: &HeaderMap) -> Flight {
    (key.clone(), Selecting::of(&Vary::Fields(names.to_vec()), selectable))
}

/// What those who waited hear of a failure: that of a request with fields of its own may be due to these.
pub(super) fn failed_for(said: impl FnOnce() -> HeaderMap, error: AskError, bare: bool) -> Landing {
    if bare || matches!(error, AskError::Spent(_)) {
        return Landing::Failed(error);
    }
    Landing::FailedFor(error, Arc::new(said()))
}

/// Whether the origin failed, so that something stale may stand in for its answer.
pub(super) fn is_failure(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
