//! Counts requests in flight, and HTTP/2 connections that may have unsent answers: a shutdown waits for them.
//!
//! Callers: [`super::public`] and [`super::gate`] count, [`crate::app`] looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests in flight; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl InFlight {
    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// The number of HTTP/2 connections: each writes its answers after the requests are done.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// One more, until the value is dropped.
    pub(crate) fn enter(&self) -> Busy<'_> {
        Busy::new(&self.requests)
    }

    /// One more HTTP/2 connection, until the value is dropped.
    pub(crate) fn connect(&self) -> Busy<'_> {
        Busy::new(&self.connections)
    }
}

/// One request being answered, or one connection.
pub(crate) struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
