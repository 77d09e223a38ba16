//! What was learned of the origin's answers to odd requests.
//!
//! Callers: [`crate::mirror`] learns it, [`crate::snapshots`] reads it back and imports it.

use super::Store;
use super::error::StoreError;
use crate::api::edges::lesson::Learned;

/// The name of the blob.
const STATE: &str = "edges/learned";

impl Store {
    /// What was learned; `None` if nothing was, or it cannot be used.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn learned(&self) -> Result<Option<Learned>, StoreError> {
        let learned = self.state_json::<Learned>(STATE)?;
        Ok(learned.filter(|learned| match learned.check() {
            Ok(()) => true,
            Err(why) => {
                tracing::warn!(why, "what was learned of odd requests cannot be used; it is learned again");
                false
            }
        }))
    }

    /// Keeps what was learned.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) fn put_learned(&self, learned: &Learned) -> Result<(), StoreError> {
        let mut states = super::States::default();
        states.put_learned(learned)?;
        self.put_states(&states)
    }
}

impl super::States {
    /// Keeps what was learned as well.
    ///
    /// # Errors
    /// When it is too large.
    pub(crate) fn put_learned(&mut self, learned: &Learned) -> Result<(), StoreError> {
        self.put_json(STATE, learned)
    }
}
