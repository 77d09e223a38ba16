//! Why a replica does not have the newest data, and what that means for the next try.
//!
//! Callers: [`super`] and its parts.

use super::fetch::FetchError;
use super::status::Outcome;
use crate::bundle::BundleError;
use crate::fleet::follow::Refusal;
use crate::fleet::head::HeadError;
use crate::fleet::place::PlaceError;
use crate::snapshots::SnapshotsError;
use crate::snapshots::bundle::ImportError;
use crate::store::StoreError;

/// Why a round ended without the newest data.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError {
    /// The object store has no head.
    #[error(
        "there is no head.json in the object store; either no publisher has written there yet, or the address is wrong"
    )]
    NoHead,
    /// The head cannot be read from the object store.
    #[error(transparent)]
    Place(PlaceError),
    /// It is not a head, or not signed by a trusted key.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// It is not newer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An object could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// An object is of no use; it is fetched again later.
    #[error("{0}")]
    Bad(String),
    /// A mirror does not begin with the data of another origin.
    #[error("the data in the object store comes from {0}, which is neither origin.url nor one of origin.aliases")]
    Foreign(String),
    /// It cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The data directory fails.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// The head could not be recorded.
    #[error(transparent)]
    Snapshots(#[from] SnapshotsError),
}

impl FollowError {
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Head(_) | Self::Refused(_) => Outcome::Refused,
            _ => Outcome::Failed,
        }
    }

    /// Whether the object store, or our own disk, is left alone for longer each time. A head that is refused, and an
    /// object that is fetched again later, cost nothing, and a better head may follow.
    pub(super) const fn backs_off(&self) -> bool {
        !matches!(
            self,
            Self::NoHead | Self::Head(_) | Self::Refused(_) | Self::Bad(_) | Self::Place(PlaceError::TooLarge { .. })
        )
    }

    /// Which of several bundles does not fit the data before it, from 0, and why; `None`: that is not the failure.
    pub(super) const fn misfit(&self) -> Option<(usize, &BundleError)> {
        match self {
            Self::Import(ImportError::Misfit { at, why }) => Some((*at, why)),
            _ => None,
        }
    }
}
