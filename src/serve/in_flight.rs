//! How many requests are being answered: what a shutdown waits for.
//!
//! Callers: [`super::public`] counts, [`crate::app`] looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests that are being answered; cheap to clone.
#[derive(Clone, Default)]
pub struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// One more, until the value is dropped.
    pub fn enter(&self) -> Busy<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Busy(&self.0)
    }
}

/// One request being answered.
pub struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
