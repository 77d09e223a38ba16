//! How much is asked for what is being fetched in the background: the more, the sooner it is its turn.
//!
//! Callers: [`super::read_through`], [`super::pass_through`]; the turns are given by [`crate::origin::budget`].

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::cache::Key;
use crate::origin::budget::Demand;

/// The demand for each resource that is being fetched in the background.
#[derive(Debug, Default)]
pub struct Demands(Mutex<HashMap<Key, Demand>>);

impl Demands {
    /// Somebody asked for it; nothing is remembered of what is not being fetched.
    pub fn asked(&self, key: &Key) {
        if let Some(demand) = self.0.lock().get(key) {
            demand.more();
        }
    }

    /// It is being fetched from now on.
    pub fn begin(&self, key: &Key) -> Demand {
        self.0.lock().entry(key.clone()).or_default().clone()
    }

    /// It is not being fetched any more.
    pub fn end(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}
