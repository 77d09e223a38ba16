//! Counts requests in flight: a shutdown waits for them.
//!
//! Callers: `super::http2`, `super::connection` and [`crate::admin`] count, [`crate::app`] looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests in flight; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    requests: Arc<AtomicUsize>,
}

impl InFlight {
    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// One more, until the value is dropped.
    pub(crate) fn enter(&self) -> Busy<'_> {
        Busy::new(&self.requests)
    }

    /// The same, for something that lasts: answers that a client has not taken yet.
    pub(crate) fn enter_for_long(&self) -> Lasting {
        self.requests.fetch_add(1, Ordering::AcqRel);
        Lasting(self.requests.clone())
    }
}

/// One request being answered.
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

/// What [`InFlight::enter_for_long`] counts.
pub(crate) struct Lasting(Arc<AtomicUsize>);

impl Drop for Lasting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
