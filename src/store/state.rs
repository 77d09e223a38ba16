//! Small blobs by name: membership evidence, the schedule, a pin, the budget's ledger.
//!
//! What is in them is their owners' business. Callers: [`crate::origin`], [`crate::admin`], through [`Store`].

use super::error::{StoreError, unless_damaged};
use super::{MAX_BODY, Store, coding, publish, tables};

const TABLE: &str = "state";

impl Store {
    /// Keeps a blob, at most [`MAX_BODY`] bytes, in place of the one of that name.
    ///
    /// # Errors
    /// When it is too large or the write fails.
    pub fn put_state(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        publish::check_size(|| format!("state {key}"), bytes.len(), MAX_BODY)?;
        let sealed = coding::seal(TABLE, key.as_bytes(), bytes.to_vec());
        self.handle.write(sealed.len() as u64, |transaction| {
            transaction.open_table(tables::STATE)?.insert(key, sealed.as_slice())?;
            Ok(())
        })
    }

    /// The blob of that name; `None` when there is none, or it is damaged.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn state(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.handle.read(|transaction| {
            let Some(sealed) = transaction.open_table(tables::STATE)?.get(key)? else { return Ok(None) };
            Ok(Some(coding::unseal(TABLE, key.as_bytes(), sealed.value())?.to_vec()))
        });
        unless_damaged(read, || format!("state {key}"))
    }

    /// Forgets the blob of that name, if there is one.
    ///
    /// # Errors
    /// When the write fails.
    pub fn remove_state(&self, key: &str) -> Result<(), StoreError> {
        self.handle.write(0, |transaction| {
            transaction.open_table(tables::STATE)?.remove(key)?;
            Ok(())
        })
    }
}
