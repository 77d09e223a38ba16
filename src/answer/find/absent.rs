//! Reasons in a 503 of a server without an origin, for data that it does not have.
//!
//! Callers: [`super`]; [`crate::app`] chooses.

/// The reasons, and when the client may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    /// For a missing detail.
    pub detail: &'static str,
    /// For a query that only the origin can answer.
    pub query: &'static str,
    /// Without any snapshot.
    pub data: &'static str,
    /// `Retry-After` in seconds, if there is a snapshot.
    pub retry_after: u64,
}

impl Absent {
    /// An offline server gets more by hand only.
    pub(crate) const OFFLINE: Self = Self {
        detail: "this server is offline and cannot fetch it",
        query: "Only the origin can answer this query, and this server is offline",
        data: "No snapshot has been imported yet",
        retry_after: 86_400,
    };

    /// A replica gets more as soon as its publisher has it.
    pub(crate) const REPLICA: Self = Self {
        detail: "this server is a replica, and its publisher did not have it yet",
        query: "Only the origin can answer this query, and this server is a replica, which does not ask it",
        data: "This server is a replica and has no data from its publisher yet",
        retry_after: 60,
    };
}
