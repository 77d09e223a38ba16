//! The snapshot that a client names with `snapshot=`: the current one, a kept one, or why none can answer.
//!
//! [`crate::snapshots::loaded`] decides which snapshots are in memory, and loads others. Callers: [`super`].

use std::sync::Arc;

use super::{Finder, Found};
use crate::clock::ceil_seconds;
use crate::semantics::problem::Problem;
use crate::snapshot::pointer::Snapshot;
use crate::snapshots::loaded::Missing;

/// The snapshot that answers a request.
pub(super) struct NamedSnapshot {
    pub published: Arc<Snapshot>,
    /// Whether the client named it.
    pub pinned: bool,
    /// The current snapshot, if that is another one.
    pub beside: Option<Arc<Snapshot>>,
}

impl Finder {
    /// The snapshot that a client names: the current one, at once, or a kept one. Otherwise the answer that says why
    /// not.
    pub(super) async fn named(&self, served: Arc<Snapshot>, pin: Option<&str>) -> Result<NamedSnapshot, Found> {
        let current = served.dataset.id.as_str();
        let Some(pin) = pin.filter(|pin| *pin != current) else {
            return Ok(NamedSnapshot { published: served, pinned: pin.is_some(), beside: None });
        };
        match self.kept.get(pin).await {
            Ok(published) => Ok(NamedSnapshot { published, pinned: true, beside: Some(served) }),
            Err(Missing::Gone) => Err(Problem::snapshot_gone("snapshot", pin, Some(current)).into()),
            Err(Missing::Busy(wait)) => {
                let why = "it is not in memory, and is being loaded or waits until another one makes room";
                Err(not_at_hand(pin, why, ceil_seconds(wait)))
            }
            Err(Missing::Failed) => Err(not_at_hand(pin, "its stored data cannot be read", 30)),
        }
    }
}

/// The 503 for a kept snapshot that cannot answer now.
pub(super) fn not_at_hand(id: &str, why: &str, retry_after: u64) -> Found {
    Found::Problem { problem: Problem::snapshot_unavailable(id, why), retry_after: Some(retry_after) }
}
