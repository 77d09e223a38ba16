//! Why a call failed.
//!
//! Callers: the modules beside it, [`crate::mirror`], [`crate::fleet`], [`crate::app`], [`crate::admin`].

use crate::snapshot::dataset::DatasetError;
use crate::store::StoreError;

/// Why a command was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotsError {
    /// No such snapshot is kept.
    #[error("no snapshot {id} is kept{}; `grandstand snapshot list` shows the kept ones", current_text(current.as_deref()))]
    Unknown {
        /// The requested id.
        id: String,
        /// The current snapshot.
        current: Option<String>,
    },
    /// Several are kept.
    #[error("{0} matches several kept snapshots; `grandstand snapshot list` shows them")]
    Ambiguous(String),
    /// No rollback is in effect.
    #[error("no rollback is in effect; the newest snapshot is already current")]
    NotRolledBack,
    /// The newest snapshot has changed meanwhile.
    #[error("another snapshot was imported meanwhile")]
    Moved,
    /// The import is older than the data from the origin.
    #[error(
        "the bundle's snapshot {bundle} was confirmed at {bundle_confirmed}, but the mirror already has {newest}, \
         confirmed at {newest_confirmed}; to go back to a kept snapshot, use `grandstand snapshot rollback`"
    )]
    Backwards {
        /// The bundle's snapshot.
        bundle: String,
        bundle_confirmed: String,
        /// The mirror's newest snapshot.
        newest: String,
        newest_confirmed: String,
    },
    /// The import is older than an earlier import.
    #[error(
        "the bundle's snapshot {bundle} was confirmed at {bundle_confirmed}, but newer data, confirmed at {highest}, was \
         imported before; to import it anyway, use `grandstand bundle import --allow-older`"
    )]
    Older {
        /// The bundle's snapshot.
        bundle: String,
        bundle_confirmed: String,
        /// The latest confirmed instant of all imports.
        highest: String,
    },
    /// The import comes from another origin.
    #[error(
        "the bundle's data comes from {theirs}, but this mirror's data from {ours}. If both are the same origin, add {theirs} \
         to origin.aliases. If not, use another data directory"
    )]
    Foreign {
        /// The bundle's origin.
        theirs: String,
        /// The mirror's.
        ours: String,
    },
    /// The store fails.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// A kept snapshot cannot be served.
    #[error("the snapshot cannot be used: {0}")]
    Dataset(#[from] DatasetError),
}

fn current_text(current: Option<&str>) -> String {
    current.map_or_else(String::new, |current| format!(" (current: {current})"))
}
