//! The result of a fetch for its waiting clients, and which requests wait for the same fetch.
//!
//! Values only. Callers: [`super::together`] waits, [`super::fetch`] and [`super::streamed`] land.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, StatusCode};

use crate::cache::Key;
use crate::cache::stored::Stored;
use crate::semantics::caching::{Selecting, Vary};
use crate::tasks::single_flight::Leader;
use crate::upstream::client::AskError;

use super::question::Head;
use super::spool::Tap;

/// One fetch at a time for a resource and the values of the fields it varies by.
pub(super) type Flight = (Key, Selecting);

/// The result of a fetch for the clients that joined it.
#[derive(Clone, Debug)]
pub(super) enum Landing {
    /// A cached answer.
    Kept(Arc<Stored>, u16),
    /// An answer to be cached, while it arrives.
    Arriving { head: Arc<Head>, selecting: Selecting, tap: Tap },
    /// An answer for one client alone, because of its request or of the answer itself: other clients may share another one.
    Personal,
    /// An answer that must not be cached, for example `private`: each client asks for itself.
    Private,
    /// No answer.
    Failed(AskError),
    /// No answer, perhaps because of these request fields: clients with other fields ask again.
    FailedFor(AskError, Arc<HeaderMap>),
}

/// The clients that wait for a fetch; `None` when it is for one client alone.
pub(super) type Waiting = Option<Leader<Flight, Landing>>;

/// The flight of requests with these values in the fields that answers vary by.
pub(super) fn flight(key: &Key, names: &[HeaderName], selectable: &HeaderMap) -> Flight {
    (key.clone(), Selecting::of(&Vary::Fields(names.to_vec()), selectable))
}

/// A failure for waiting clients: that of a request with fields of its own may be due to them.
pub(super) fn failed_for(said: impl FnOnce() -> HeaderMap, error: AskError, bare: bool) -> Landing {
    if bare || matches!(error, AskError::Spent(_)) {
        return Landing::Failed(error);
    }
    Landing::FailedFor(error, Arc::new(said()))
}

/// Whether the origin failed, so that a stale answer may stand in.
pub(super) fn is_failure(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
