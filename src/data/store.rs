//! The durable store: snapshots, details and state, in one redb file of the data directory.
//!
//! | part | file |
//! |---|---|
//! | the directory and its lock; opening files in it | [`data_dir`], [`files`] |
//! | published snapshots, as trees of content-addressed blocks | [`record`], `block`, `publish`, `load`, `garbage` |
//! | copies of the origin's answers, with their validators | [`copies`] |
//! | details by listing id; what has changed since when | [`details`], [`positions`] |
//! | small blobs by name, the evidence on terms among them; those in files of their own | `state`, `beside` |
//! | the file: its tables, its pages, a handle that survives failures, the repair | `database`, `backend`, `handle`, `repair` |
//!
//! A snapshot is a tree of content-addressed blocks: summaries by ranges of listing ids, the origin's order in
//! content-defined chunks, taxonomies and envelope. Snapshots share blocks, so a publication writes what has changed
//! and switches a pointer. Details, copies and evidence lie beside the snapshots. `benches/runs/2026-11-20-store.md`
//! says why redb and not immutable packs.
//!
//! It stores and returns values; [`crate::mirror`] decides what is published, kept and fetched. Every call blocks.
//! Every write is durable (one transaction, synced) when it returns, except [`Store::put_copy_soon`] and
//! [`Store::put_states_soon`].
//!
//! **Damage.** Every page of the file is verified as it is read (`backend`), every value carries a checksum bound to
//! its table and key, and every block is verified by its hash: a damaged file gives an error or nothing, never other
//! data. A panic of redb is caught in `handle` and reported as [`StoreError::Damaged`].
//!
//! A damaged copy or state counts as absent; `repair` copies everything readable into a new file. The rest is fetched
//! again: from the origin, or from the object store that a replica follows. Offline, a damaged file is an error at
//! start, and an import repairs it.
//!
//! **Failures.** After an I/O error redb's handle is dead; it is dropped and the next call opens the file again,
//! read-only if the disk is not writable. `/status` shows the problem. Callers: [`crate::server`] opens it;
//! [`crate::data::snapshots`], [`crate::mirror`], [`crate::fleet`] and [`crate::server::admin`] use it. Async callers wrap
//! the calls in `spawn_blocking`, except short ones of the mirror: each of its tasks has a thread of its own.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::telemetry::findings::{Finding, Kind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

pub(crate) mod copies;
pub(crate) mod data_dir;
pub(crate) mod details;
pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod positions;
pub(crate) mod record;

mod backend;
mod beside;
mod block;
mod coding;
mod database;
mod garbage;
mod handle;
mod load;
mod publish;
mod repair;
mod state;
#[cfg(test)]
pub(crate) mod tests;

pub use block::BlockKey;
pub(crate) use copies::CopyMeta;
pub use data_dir::DataDir;
pub(crate) use data_dir::Holder;
#[cfg(test)]
use database::FORMAT;
pub use details::{DetailMeta, DetailRecord, DetailState};
pub(crate) use details::{DetailStream, ExportedDetail};
pub use error::StoreError;
pub(crate) use error::{catches_panics, is_full, process};
pub(crate) use files::nameless;
pub(crate) use load::Verification;
pub(crate) use positions::{ChangePosition, Mark, MarkAt};
pub(crate) use publish::{Arriving, WrittenAlong};
pub(crate) use record::SnapshotRecord;
pub use repair::{Healed, salvage};
pub(crate) use state::{States, VERDICTS};

use handle::Handle;

const GONE: &str = "Write a bundle first (`grandstand bundle export FILE`): what this server has ends with it. Then put the file \
                    back under its name, or restart the server, which begins with an empty store.";

/// The largest body of a copy or a detail, and the largest summary or taxonomy, in bytes.
pub(crate) const MAX_BODY: usize = 32 << 20;

/// The open store. Shared between threads; all methods block.
#[derive(Debug)]
pub struct Store {
    handle: Handle,
    /// Held while snapshots are published or collected, so that no block is dropped that a publication needs. Taken after
    /// the writer of [`crate::data::snapshots`] and before the locks of the handle. Inside: the used part of the file at the
    /// last look.
    publishing: Mutex<Option<garbage::Measured>>,
    /// The number of the epoch that begins when a place is next given: see [`positions`].
    epoch: AtomicU64,
    /// Keeps the data directory locked for as long as the store is open.
    lock: Arc<data_dir::Lock>,
}

impl Store {
    /// Opens the store of a data directory, creating it on first use. A file of an unknown format is not touched. A
    /// file that can be read but not written is opened read-only, and writes fail until the disk is writable.
    pub fn open(dir: &DataDir) -> Result<Self, StoreError> {
        Self::open_with(dir, Box::new(database::open))
    }

    fn open_with(dir: &DataDir, opener: handle::Opener) -> Result<Self, StoreError> {
        let path = dir.store_file();
        database::prepare(&path)?;
        let handle = Handle::open(path, opener)?;
        database::check_format(handle.read(database::format_of)?)?;
        Ok(Self::new(handle, dir.lock()))
    }

    fn new(handle: Handle, lock: Arc<data_dir::Lock>) -> Self {
        Self { handle, publishing: Mutex::default(), epoch: AtomicU64::new(rand::random()), lock }
    }

    /// The file that holds the store.
    pub fn path(&self) -> &Path {
        self.handle.path()
    }

    /// The damage that was noticed; `None` once it is healed.
    pub fn damage(&self) -> Option<String> {
        self.handle.trouble().damage()
    }

    /// Everything that is wrong with the file, and a repair of the last day.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let path = self.path();
        // What is open stays readable and writable without its name: nothing else tells.
        let is_gone = fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let is_replaced = path.parent().is_some_and(|directory| directory.exists() && !self.lock.is_in(directory));
        let gone = (is_gone || is_replaced).then(|| {
            let text = format!(
                "{} was removed, moved or replaced while the server runs: its data ends with this process",
                path.display()
            );
            Finding::new(Kind::DiskFails, text).todo(GONE)
        });
        gone.into_iter().chain(self.handle.trouble().findings(path)).collect()
    }

    /// How much room is left where the file lies, in bytes; `None`: the system does not say.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        handle::free_bytes(self.path())
    }

    /// How the disk fails; `None`: it does not.
    pub(crate) fn disk_error(&self) -> Option<StoreError> {
        self.handle.trouble().disk()
    }

    /// Whether the file can be read and written.
    pub(crate) fn works(&self) -> bool {
        self.findings().iter().all(|finding| !finding.unhealthy)
    }

    /// What a repair did: `/status` shows it for a day.
    pub(crate) fn tell_repaired(&self, text: String) {
        self.handle.trouble().tell_repaired(text);
    }

    /// The store stays damaged: what hinders the repair is a finding of its own.
    pub(crate) fn tell_unrepaired(&self, error: StoreError) {
        self.handle.trouble().tell_unrepaired(error);
    }

    /// Tries to write again where a write of any size shows that all is right.
    pub fn try_writing(&self) -> Result<(), StoreError> {
        if self.handle.is_read_only() || self.handle.trouble().ends_with_any_write() {
            self.handle.write(0, |_| Ok(()))
        } else {
            Ok(())
        }
    }

    /// Makes all writes durable: see [`Store::put_copy_soon`].
    pub fn sync(&self) -> Result<(), StoreError> {
        self.handle.sync()
    }

    /// The file's length in bytes, for `/status`.
    pub fn file_len(&self) -> Result<u64, StoreError> {
        let path = self.path();
        std::fs::metadata(path).map(|meta| meta.len()).map_err(|error| StoreError::of_io(&error, path, 0))
    }
}
