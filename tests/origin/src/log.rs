//! Requests that the origin has seen: log and counters.
//!
//! Kept in memory and bounded, for tests. Callers: the server, at arrival and at the answer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::HeaderMap;

/// Entries kept; older ones are forgotten but still counted.
const KEPT: usize = 50_000;

/// One request as the origin saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When it was counted.
    pub at: Instant,
    /// Where it came from.
    pub client: SocketAddr,
    /// The method.
    pub method: String,
    /// Path and query as received, with the origin's prefix.
    pub path_and_query: String,
    /// Whether it had `If-None-Match`.
    pub conditional: bool,
    /// Status of the answer; 0 while there is none, and for ever if the connection was dropped.
    pub status: u16,
    /// `Accept-Encoding`; `None` if absent or no text.
    pub accept_encoding: Option<String>,
    /// `User-Agent`; `None` if absent or no text.
    pub user_agent: Option<String>,
    /// All headers.
    pub headers: HeaderMap,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Seen>,
    count: u64,
    /// Grows with each clearing, so that late answers do not find someone else's entry.
    era: u64,
    pub(super) refused: u64,
}

/// Where an entry is, while it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    era: u64,
    number: u64,
}

impl Log {
    /// Notes an arrival.
    pub(super) fn arrived(&mut self, seen: Seen) -> Entry {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(seen);
        self.count += 1;
        Entry { era: self.era, number: self.count }
    }

    /// Notes the status of an answer.
    pub(super) fn answered(&mut self, entry: Entry, status: u16) {
        let from_end = self.count.checked_sub(entry.number).filter(|_| entry.era == self.era);
        let index = from_end.and_then(|back| self.entries.len().checked_sub(1 + back as usize));
        if let Some(seen) = index.and_then(|index| self.entries.get_mut(index)) {
            seen.status = status;
        }
    }

    pub(super) fn entries(&self) -> Vec<Seen> {
        self.entries.iter().cloned().collect()
    }

    /// Arrivals since the start or the last clearing.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The most arrivals, of those kept, in any 60 seconds.
    pub(super) fn busiest_minute(&self) -> usize {
        let mut first = 0;
        let mut most = 0;
        for (last, seen) in self.entries.iter().enumerate() {
            while seen.at.duration_since(self.entries[first].at) >= Duration::from_secs(60) {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most
    }

    /// Forgets entries and counters.
    pub(super) fn clear(&mut self) {
        *self = Self { era: self.era + 1, ..Self::default() };
    }
}
