//! The newest snapshot: refreshes compare with it, publications replace it.
//!
//! Publishes through [`Snapshots`], and notices when an import has replaced it. Callers: [`super`] and its parts.

use std::sync::Arc;

use crate::snapshot::meta::Certificate;
use crate::snapshot::pointer::Snapshot;
use crate::snapshots::{Snapshots, SnapshotsError};
use crate::store::Store;

use super::{MirrorError, blocking};

/// The newest snapshot, whether clients get it or it waits behind a rollback.
pub(super) struct Newest {
    snapshots: Snapshots,
    /// The epoch of the last change that this task knows: a later one is an import's.
    seen: u64,
}

impl Newest {
    pub(super) fn new(snapshots: Snapshots) -> Self {
        Self { seen: snapshots.newest().epoch(), snapshots }
    }

    /// `None` before the first publication.
    pub(super) fn get(&self) -> Option<Arc<Snapshot>> {
        self.snapshots.newest().get()
    }

    /// How sure it is; `None` before the first publication.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        self.snapshots.newest().load().as_ref().map(|newest| newest.meta.certificate)
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.snapshots.store()
    }

    pub(super) const fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Whether an import has replaced the newest snapshot since the last call.
    pub(super) fn was_replaced(&mut self) -> bool {
        let epoch = self.snapshots.newest().epoch();
        std::mem::replace(&mut self.seen, epoch) != epoch
    }

    /// Publishes or renews, unless an import came in between.
    pub(super) async fn switch(
        &mut self,
        to: impl FnOnce(Snapshots, u64) -> Result<u64, SnapshotsError> + Send + 'static,
    ) -> Result<(), MirrorError> {
        let (snapshots, seen) = (self.snapshots.clone(), self.seen);
        self.seen = blocking(move || Ok(to(snapshots, seen))).await??;
        Ok(())
    }
}
