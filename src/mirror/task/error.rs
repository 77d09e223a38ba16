//! Why a step of the mirror failed, and what that says of the origin.
//!
//! Callers: [`super`] and its parts.

use crate::snapshot::dataset::DatasetError;
use crate::snapshots::SnapshotsError;
use crate::store::StoreError;

use super::super::copies::CopyError;
use crate::upstream::status::OriginState;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum MirrorError {
    /// A copy could not be fetched or stored.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The content cannot be indexed.
    #[error("the origin's data cannot be used: {0}")]
    Dataset(#[from] DatasetError),
    /// The data directory failed.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// An import came in between.
    #[error("another snapshot was imported meanwhile")]
    Moved,
}

impl From<SnapshotsError> for MirrorError {
    fn from(error: SnapshotsError) -> Self {
        match error {
            SnapshotsError::Store(error) => Self::Store(error),
            SnapshotsError::Dataset(error) => Self::Dataset(error),
            // A publication returns no other error.
            SnapshotsError::Moved
            | SnapshotsError::Unknown { .. }
            | SnapshotsError::Ambiguous(_)
            | SnapshotsError::NotRolledBack
            | SnapshotsError::Backwards { .. }
            | SnapshotsError::Older { .. }
            | SnapshotsError::Foreign { .. } => Self::Moved,
        }
    }
}

impl MirrorError {
    pub(super) const fn state(&self) -> OriginState {
        match self {
            Self::Copy(CopyError::Ask(error)) if error.is_nonsense() => OriginState::Nonsense,
            Self::Dataset(_) => OriginState::Nonsense,
            Self::Copy(_) | Self::Store(_) | Self::Moved => OriginState::CouldNotBeAsked,
        }
    }

    /// Whether the origin wants the next request at once.
    pub(super) fn wants_no_pause(&self) -> bool {
        matches!(self, Self::Copy(CopyError::Ask(error)) if error.wants_no_pause())
    }

    /// Whether the store is damaged: no fault of the origin.
    pub(super) const fn is_damage(&self) -> bool {
        matches!(self, Self::Store(StoreError::Damaged(_)) | Self::Copy(CopyError::Store(StoreError::Damaged(_))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_in_the_store_is_told_from_a_disk_that_takes_no_writes() {
        let damage = || StoreError::Damaged("wrong checksum of page 46".to_owned());
        let full = || StoreError::ReadOnly { path: "grandstand.redb".into() };
        assert!(MirrorError::Store(damage()).is_damage());
        assert!(MirrorError::Copy(CopyError::Store(damage())).is_damage());
        assert!(!MirrorError::Store(full()).is_damage());
        assert!(!MirrorError::Copy(CopyError::Store(full())).is_damage());
        assert!(!MirrorError::Moved.is_damage());
    }
}
