//! Why nothing is written to the object store.
//!
//! Callers: [`super`].

use crate::bundle::signature::SignatureError;
use crate::clock::WallTime;
use crate::fleet::place::PlaceError;
use crate::snapshots::export::ExportError;
use crate::store::StoreError;
use crate::tasks::Aborted;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    /// The object store fails.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The bundle cannot be written.
    #[error("the bundle cannot be written: {0}")]
    Export(#[from] ExportError),
    /// The key cannot be opened.
    #[error("{0}")]
    Signature(#[from] SignatureError),
    /// The key needs a password.
    #[error("the key needs a password: set publish.sign_password_file")]
    NoPassword,
    /// The data directory fails.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// A temporary file cannot be written or read.
    #[error("a temporary file in the data directory: {0}")]
    File(#[from] std::io::Error),
    /// The head was written by a newer version of this program.
    #[error("{0}; it is not replaced")]
    Newer(String),
    /// Replicas would refuse heads with a higher number.
    #[error(
        "the number of the last head that this server wrote ({sequence}) is more than a day ahead of this machine's clock ({clock}, \
         {} ms since 1970); set the clock if it is wrong, else run `grandstand snapshot release` to begin again at the clock",
        clock.as_millis()
    )]
    Ahead {
        sequence: u64,
        /// This machine's.
        clock: WallTime,
    },
    /// Other publishers write all the time.
    #[error("other publishers write to this prefix at the same time; use one publisher for each prefix")]
    Busy,
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

impl PublishError {
    /// The word for metrics.
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Place(error) => error.as_str(),
            Self::Export(_) => "export",
            Self::Signature(_) | Self::NoPassword => "key",
            Self::Store(_) | Self::File(_) => "disk",
            Self::Newer(_) | Self::Ahead { .. } => "head",
            Self::Busy => "busy",
            Self::Aborted(_) => "internal",
        }
    }

    /// Whether the key cannot be opened.
    pub(super) const fn is_of_key(&self) -> bool {
        matches!(self, Self::Signature(_) | Self::NoPassword)
    }

    /// Whether another publisher has written the head meanwhile.
    pub(super) const fn is_conflict(&self) -> bool {
        matches!(self, Self::Place(PlaceError::Changed(_)))
    }
}
