//! Why what is served could not be switched.

use crate::snapshot::dataset::DatasetError;
use crate::store::StoreError;

/// Why what was asked for was not done. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum VersionsError {
    /// No such version is kept.
    #[error("no snapshot {id} is kept{}; `grandstand snapshot list` shows those that are", current_text(current.as_deref()))]
    Unknown {
        /// The id that was asked for.
        id: String,
        /// The one that is served.
        current: Option<String>,
    },
    /// Several are kept.
    #[error("{0} begins the ids of several kept snapshots; `grandstand snapshot list` shows them")]
    Ambiguous(String),
    /// There is nothing to release.
    #[error("nothing is rolled back: the newest snapshot is served already")]
    NotRolledBack,
    /// Somebody else has put another version at the head meanwhile.
    #[error("another snapshot was imported meanwhile")]
    Moved,
    /// What is imported is confirmed for an earlier instant than what an origin has given since.
    #[error(
        "the bundle's snapshot {bundle} was confirmed at {bundle_confirmed}, and the mirror has {newest}, confirmed at \
         {newest_confirmed}: a mirror's data never goes backwards; `grandstand snapshot rollback` serves an older version"
    )]
    Backwards {
        /// The bundle's snapshot.
        bundle: String,
        /// For when.
        bundle_confirmed: String,
        /// The mirror's newest.
        newest: String,
        /// For when.
        newest_confirmed: String,
    },
    /// What is imported is confirmed for an earlier instant than something that was imported before.
    #[error(
        "the bundle's snapshot {bundle} was confirmed at {bundle_confirmed}, and data confirmed at {highest} was imported \
         before: older data is refused unless you want it (`grandstand bundle import --allow-older`)"
    )]
    Older {
        /// The bundle's snapshot.
        bundle: String,
        /// For when.
        bundle_confirmed: String,
        /// The latest instant of all that was imported.
        highest: String,
    },
    /// What is imported is another origin's.
    #[error(
        "the bundle's data came from {theirs}, and the mirror's from {ours}: if both are the same origin, add the first to \
         origin.aliases; else give it a data directory of its own"
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
    /// What is kept cannot be served.
    #[error("the snapshot cannot be used: {0}")]
    Dataset(#[from] DatasetError),
}

fn current_text(current: Option<&str>) -> String {
    current.map_or_else(String::new, |current| format!(" (served is {current})"))
}
