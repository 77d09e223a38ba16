//! How the mirror and the versions keep in step: it switches through them, and begins anew when somebody else did.
//!
//! Callers: [`super`] and its parts.

use crate::versions::{Versions, VersionsError};

use super::{Looked, Mirror, MirrorError, blocking};

impl Mirror {
    /// Somebody has imported a version: whatever was under way was about another one.
    pub(super) fn begin_anew(&mut self) {
        self.seen = self.live.epoch();
        (self.work, self.parked, self.held, self.accept) = (None, None, None, None);
        self.status.set_held(None);
        self.placed_by = Vec::new();
        match self.store.evidence() {
            Ok(evidence) => self.evidence = evidence,
            Err(error) => tracing::warn!(%error, "stored evidence about terms cannot be read; it is collected again"),
        }
        self.learned += 1;
        if let Some(head) = self.live.load().as_ref() {
            *self.volatile.write() = head.meta.volatile.clone();
        }
        self.learn_at = Some(self.clock.now_mono());
        self.looked = Looked::default();
        self.refresh = true;
    }

    /// Has the versions switch, unless somebody else did in between.
    pub(super) async fn switch(
        &mut self,
        to: impl FnOnce(Versions, u64) -> Result<u64, VersionsError> + Send + 'static,
    ) -> Result<(), MirrorError> {
        let (versions, seen) = (self.versions.clone(), self.seen);
        self.seen = blocking(move || Ok(to(versions, seen))).await??;
        Ok(())
    }
}
