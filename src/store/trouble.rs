//! The known problems of the store's file, for `/status` and for repairs.
//!
//! It only remembers. Damage stays until the file is repaired; a full disk counts as healthy once a write as large as
//! the failed one works. Callers: [`super::handle`] notes, [`crate::app`] and [`crate::admin`] ask, through
//! [`super::Store`].

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::StoreError;

/// A failed write that was never tried again is forgotten after this long.
const FORGOTTEN: Duration = Duration::from_secs(120);

/// The problems.
#[derive(Debug, Default)]
pub(super) struct Trouble(Mutex<KnownTrouble>);

#[derive(Debug, Default)]
struct KnownTrouble {
    damage: Option<String>,
    disk: Option<Disk>,
}

#[derive(Debug)]
struct Disk {
    text: String,
    needed: u64,
    read_only: bool,
    at: Instant,
}

impl Trouble {
    /// Something failed.
    pub(super) fn failed(&self, error: &StoreError) {
        let (needed, read_only) = match error {
            StoreError::Damaged(detail) => {
                self.0.lock().damage.get_or_insert_with(|| detail.clone());
                return;
            }
            StoreError::NoSpace { needed, .. } => (*needed, false),
            StoreError::ReadOnly { .. } => (0, true),
            StoreError::Io { .. } => (0, false),
            _ => return,
        };
        let mut inner = self.0.lock();
        // There must be room for the largest write.
        let least = inner.disk.as_ref().map_or(0, |disk| disk.needed);
        if needed >= least {
            inner.disk = Some(Disk { text: error.to_string(), needed, read_only, at: Instant::now() });
        }
    }

    /// So many bytes could be written.
    pub(super) fn wrote(&self, bytes: u64) {
        let mut inner = self.0.lock();
        // Both are estimates: the same write, tried again, packs another time of day and may be some bytes shorter.
        let is_as_much = |needed: u64| bytes >= needed - needed / 8;
        if inner.disk.as_ref().is_some_and(|disk| is_as_much(disk.needed) || disk.at.elapsed() > FORGOTTEN) {
            inner.disk = None;
        }
    }

    /// The file was replaced by an intact one.
    pub(super) fn repaired(&self) {
        self.0.lock().damage = None;
    }

    /// The damage.
    pub(super) fn damage(&self) -> Option<String> {
        self.0.lock().damage.clone()
    }

    /// Why nothing can be written.
    pub(super) fn disk(&self) -> Option<String> {
        self.0.lock().disk.as_ref().map(|disk| disk.text.clone())
    }

    /// Whether the file is read-only.
    pub(super) fn is_read_only(&self) -> bool {
        self.0.lock().disk.as_ref().is_some_and(|disk| disk.read_only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_write_does_not_hide_that_a_large_one_failed() {
        let trouble = Trouble::default();
        let full = |needed| StoreError::NoSpace { path: "x".into(), needed };
        trouble.failed(&full(5000));
        trouble.failed(&full(10));
        trouble.wrote(100);
        assert!(trouble.disk().unwrap().contains("5000") && !trouble.is_read_only());
        trouble.wrote(4000);
        assert!(trouble.disk().is_some());
        trouble.wrote(4999);
        assert_eq!(trouble.disk(), None, "the same write was some bytes shorter when it was tried again");
        trouble.failed(&StoreError::ReadOnly { path: "x".into() });
        assert!(trouble.is_read_only());
        trouble.wrote(0);
        assert!(!trouble.is_read_only());
        trouble.failed(&StoreError::Damaged("first".to_owned()));
        trouble.failed(&StoreError::Damaged("second".to_owned()));
        trouble.wrote(9);
        assert_eq!(trouble.damage().unwrap(), "first");
        trouble.repaired();
        assert_eq!(trouble.damage(), None);
    }
}
