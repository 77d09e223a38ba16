//! Startup errors: why the program cannot start, or cannot open its data.
//!
//! Callers: [`super`] and [`crate::cli`], which prints it.

use std::path::PathBuf;

use crate::data::bundle::signature::SignatureError;
use crate::data::snapshot::dataset::DatasetError;
use crate::data::snapshots::SnapshotsError;
use crate::data::store::StoreError;
use crate::edge::serve::listener::BindError;
use crate::origin::client::ClientError;
use crate::words::remedy;

/// Why nothing can be started.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The certificate of the HTTPS listener cannot be served.
    #[error("HTTPS cannot be served: {0}")]
    Certificate(String),
    #[error(transparent)]
    Open(StoreError),
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    #[error("the stored snapshot cannot be used: {0}")]
    Dataset(#[from] DatasetError),
    #[error(
        "data_dir: {} does not exist; set the data directory of the server (--config FILE, or --set data_dir=DIR), or give \
         the address of its admin listener with --admin. For a new directory, run `grandstand serve`, `sync` or `bundle \
         import` first",
        .0.display()
    )]
    NoDirectory(PathBuf),
    /// Nothing is in the data directory yet.
    #[error("there is no data in {} yet; run `grandstand serve`, `sync` or `bundle import` first", .0.display())]
    NoData(PathBuf),
    #[error("bundle.trusted_keys: {0}")]
    Key(#[from] SignatureError),
    #[error(transparent)]
    Snapshots(SnapshotsError),
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The object store of `replica.url` or `publish.url` cannot be used.
    #[error("{key}: {why}")]
    ObjectStore { key: &'static str, why: String },
    #[error("log.access_file {path} cannot be opened: {source}{}", remedy(path.as_ref(), source))]
    AccessLog { path: String, source: std::io::Error },
    /// The store is damaged, and there is no origin to rebuild it from.
    #[error(
        "the store {path} is damaged: {detail}. Do one of these: import a bundle with `grandstand bundle import FILE`; find an \
         intact snapshot with `grandstand snapshot verify` and make it current with `grandstand snapshot rollback ID`; \
         restore the file from a backup; or start once with origin.url set, to fetch everything again"
    )]
    Damaged { path: String, detail: String },
    #[error("{key}: {source}")]
    Address { key: &'static str, source: url::ParseError },
    #[error("a thread could not be started: {0}")]
    Thread(std::io::Error),
    #[error(
        "the system gives this process {available} more threads, but at least {needed} are needed; raise the limit, for \
         example with `ulimit -u 4096`, TasksMax=4096 in the systemd unit, or --pids-limit 4096 of docker and podman"
    )]
    FewThreads { available: usize, needed: usize },
    #[error("the listener `{0}` failed; the log says why. Start the server again")]
    Listener(String),
    #[error(
        "{signals} cannot be watched: {source}; remove the cause (for example, raise the limit of open files), then start again"
    )]
    Signals { signals: &'static str, source: std::io::Error },
    #[error(
        "the limit of open files is {limit}, but at least {needed} are needed; raise it, for example with `ulimit -n 1024`, \
         LimitNOFILE=1024 in the systemd unit, or --ulimit nofile=1024 of docker and podman"
    )]
    FewFiles { limit: u64, needed: u64 },
    #[error("{path} is damaged and could not be repaired: {source}")]
    Unhealed { path: String, source: StoreError },
}

impl From<SnapshotsError> for AppError {
    fn from(error: SnapshotsError) -> Self {
        match error {
            SnapshotsError::Store(error) => Self::Store(error),
            SnapshotsError::Dataset(error) => Self::Dataset(error),
            other => Self::Snapshots(other),
        }
    }
}
