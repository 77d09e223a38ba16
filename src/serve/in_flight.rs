//! How many requests are being answered, and how many connections may have answers left to write: what a shutdown waits
//! for.
//!
//! Callers: [`super::public`] and [`super::gate`] count, [`crate::app`] looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests that are being answered; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl InFlight {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// How many HTTP/2 connections there are: each writes its answers by itself, after those who gave them are done.
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
