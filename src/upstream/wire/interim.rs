//! The interim answers to one request (RFC 9110 §15.2): whether they may be passed on.
//!
//! It passes nothing on itself. Callers: [`super`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, StatusCode};
use tokio::sync::Notify;

use crate::semantics::framing::{BadAnswer, check_interim};

/// What came so far.
#[derive(Debug, Default)]
pub(super) struct Interims {
    count: AtomicUsize,
    bad: OnceLock<BadAnswer>,
    turned_bad: Notify,
}

impl Interims {
    /// Receives one more; returns whether to pass it on.
    pub(super) fn hear(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        match check_interim(status, headers, before) {
            Ok(()) => self.bad.get().is_none(),
            Err(bad) => {
                // The first reason stays.
                let _ = self.bad.set(bad);
                self.turned_bad.notify_one();
                false
            }
        }
    }

    /// Whether any came.
    pub(super) fn came(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Waits for the first bad one.
    pub(super) async fn bad(&self) -> BadAnswer {
        loop {
            if let Some(bad) = self.bad.get() {
                return *bad;
            }
            self.turned_bad.notified().await;
        }
    }
}
