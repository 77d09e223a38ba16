//! The newest snapshot: refreshes compare with it, publications replace it.
//!
//! Publishes through [`Versions`], and notices when an import has replaced it. Callers: [`super`] and its parts.

use std::sync::Arc;

use crate::snapshot::live::Published;
use crate::snapshot::version::Certificate;
use crate::store::Store;
use crate::versions::{Versions, VersionsError};

use super::{MirrorError, blocking};

/// The newest snapshot, whether clients get it or it waits behind a rollback.
pub(super) struct Newest {
    versions: Versions,
    /// The epoch of the last change that this task knows: a later one is an import's.
    seen: u64,
}

impl Newest {
    pub(super) fn new(versions: Versions) -> Self {
        Self { seen: versions.head().epoch(), versions }
    }

    /// `None` before the first publication.
    pub(super) fn get(&self) -> Option<Arc<Published>> {
        self.versions.head().current()
    }

    /// How sure it is; `None` before the first publication.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        self.versions.head().load().as_ref().map(|newest| newest.meta.certificate)
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.versions.store()
    }

    pub(super) const fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether an import has replaced the newest snapshot since the last call.
    pub(super) fn was_replaced(&mut self) -> bool {
        let epoch = self.versions.head().epoch();
        std::mem::replace(&mut self.seen, epoch) != epoch
    }

    /// Publishes or renews, unless an import came in between.
    pub(super) async fn switch(
        &mut self,
        to: impl FnOnce(Versions, u64) -> Result<u64, VersionsError> + Send + 'static,
    ) -> Result<(), MirrorError> {
        let (versions, seen) = (self.versions.clone(), self.seen);
        self.seen = blocking(move || Ok(to(versions, seen))).await??;
        Ok(())
    }
}
