//! What clients are told of what a server without an origin does not have.
//!
//! Callers: [`super`]; [`crate::app`] chooses.

/// The words, and when asking again makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    /// Why a detail is missing.
    pub detail: &'static str,
    /// Why a query that only the origin can answer is not answered.
    pub query: &'static str,
    /// Why there is no data at all.
    pub data: &'static str,
    /// Seconds until asking again makes sense, where there is data.
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
