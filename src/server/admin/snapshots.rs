//! `GET /snapshots`, and the commands on them: `POST /snapshots/{id}/rollback`, `/pin`, `/unpin`,
//! `POST /snapshots/verify` and `/snapshots/release`.
//!
//! [`Snapshots`] executes them, in a thread that may block. Callers: [`super::Admin`].

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::clock::WallTime;
use crate::data::bundle::BundleError;
use crate::data::snapshots::{KeptSnapshot, RolledBack, Snapshots, SnapshotsError, View};
use crate::data::store::StoreError;
use crate::fleet::publisher;
use crate::protocol::freshness::is_from_the_future;

use super::{Reply, error, json_reply};

/// A snapshot is named by its id, or by the first characters of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    List,
    /// Serve a kept snapshot until the release.
    Rollback(String),
    /// Serve the newest again; a publisher whose number is too far ahead begins again.
    Release,
    Pin(String),
    Unpin(String),
    /// Read every block of every kept snapshot with its details, and compare them with their hashes.
    Verify,
}

impl Action {
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix("/snapshots/")?.split('/');
        let (first, second, rest) = (segments.next()?, segments.next(), segments.next());
        match (first, second, rest) {
            ("release", None, None) => Some(Self::Release),
            ("verify", None, None) => Some(Self::Verify),
            (id, Some("rollback"), None) => Some(Self::Rollback(id.to_owned())),
            (id, Some("pin"), None) => Some(Self::Pin(id.to_owned())),
            (id, Some("unpin"), None) => Some(Self::Unpin(id.to_owned())),
            _ => None,
        }
    }

    pub(crate) fn path(&self) -> String {
        match self {
            Self::List => "/snapshots".to_owned(),
            Self::Release => "/snapshots/release".to_owned(),
            Self::Rollback(id) => format!("/snapshots/{id}/rollback"),
            Self::Pin(id) => format!("/snapshots/{id}/pin"),
            Self::Unpin(id) => format!("/snapshots/{id}/unpin"),
            Self::Verify => "/snapshots/verify".to_owned(),
        }
    }

    /// Executes it and returns the result. Blocks.
    pub(crate) fn perform(&self, snapshots: &Snapshots, now: WallTime) -> Result<Value, SnapshotsError> {
        Ok(match self {
            Self::List => list(snapshots, now),
            Self::Rollback(id) => {
                let RolledBack { served, newest } = snapshots.rollback(snapshots.resolve(id)?.as_str())?;
                json!({ "served": served, "newest": newest, "rolled_back": true })
            }
            Self::Release => {
                let begins_again = publisher::release(snapshots.store(), now)?;
                let served = match snapshots.release() {
                    Err(SnapshotsError::NotRolledBack) if begins_again => {
                        snapshots.current().get().map(|current| current.dataset.id.clone())
                    }
                    released => Some(released?),
                };
                let mut told = json!({ "served": served, "newest": served, "rolled_back": false });
                if begins_again {
                    told["publisher_begins_again"] = true.into();
                }
                told
            }
            Self::Pin(id) => {
                let id = snapshots.resolve(id)?;
                snapshots.pin(id.as_str())?;
                json!({ "pinned": id })
            }
            Self::Unpin(id) => {
                let id = snapshots.resolve(id)?;
                snapshots.unpin(id.as_str())?;
                json!({ "unpinned": id })
            }
            Self::Verify => {
                let found = snapshots.verify_all()?;
                let one = |(kept, damage): &(Arc<KeptSnapshot>, Option<String>)| {
                    json!({
                        "id": kept.id,
                        "listings": kept.listings,
                        "intact": damage.is_none(),
                        "damage": damage,
                    })
                };
                let damage = snapshots.store().damage();
                json!({
                    "intact": damage.is_none() && found.iter().all(|(_, damage)| damage.is_none()),
                    "snapshots": found.iter().map(one).collect::<Vec<_>>(),
                    // The list may be incomplete.
                    "damage": damage,
                })
            }
        })
    }
}

/// Every kept snapshot, the newest first.
fn list(snapshots: &Snapshots, now: WallTime) -> Value {
    let view = View::clone(&snapshots.view());
    json!({
        "served": view.kept.iter().find(|kept| view.is_current(kept)).map(|kept| &kept.id),
        "newest": view.kept.first().map(|kept| &kept.id),
        "rolled_back": view.current.is_some() && view.rolled_back.is_some(),
        "damage": snapshots.store().damage(),
        "snapshots": view.kept.iter().map(|kept| one(snapshots, &view, kept, now)).collect::<Vec<_>>(),
    })
}

fn one(snapshots: &Snapshots, view: &View, kept: &KeptSnapshot, now: WallTime) -> Value {
    let at = |ms| WallTime::from_millis(ms).rfc3339();
    json!({
        "id": kept.id,
        "listings": kept.listings,
        "bytes": snapshots.bytes_of(kept).ok(),
        "certificate": kept.meta.certificate.as_str(),
        "confirmed_at": at(kept.meta.confirmed_ms),
        "unconfirmed": is_from_the_future(WallTime::from_millis(kept.meta.confirmed_ms), now),
        "published_at": at(kept.meta.published_ms),
        "served": view.is_current(kept),
        "newest": view.kept.first().is_some_and(|newest| newest.seq == kept.seq),
        "pinned": view.pins.contains(kept.id.as_str()),
        "exported": view.exports.iter().any(|id| id == kept.id.as_str()),
    })
}

/// The answer without snapshots.
pub(super) fn none() -> Reply {
    error(StatusCode::CONFLICT, "a shield keeps no snapshots; set mirror.enabled = true")
}

/// Executes it in a thread that may block.
pub(super) async fn perform(snapshots: Option<&Snapshots>, action: Action, now: WallTime) -> Reply {
    let Some(snapshots) = snapshots.cloned() else { return none() };
    let performed = tokio::task::spawn_blocking(move || action.perform(&snapshots, now)).await;
    match performed {
        Ok(Ok(value)) => json_reply(StatusCode::OK, &value),
        Ok(Err(failed)) => error(status_of(&failed), &failed.to_string()),
        Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, &failed.to_string()),
    }
}

pub(super) const fn status_of(error: &SnapshotsError) -> StatusCode {
    match error {
        SnapshotsError::Unknown(_) => StatusCode::NOT_FOUND,
        SnapshotsError::NotRolledBack
        | SnapshotsError::Moved
        | SnapshotsError::Refused(_)
        | SnapshotsError::Bundle { why: BundleError::NeedsBase { .. } | BundleError::WrongBase { .. }, .. } => {
            StatusCode::CONFLICT
        }
        SnapshotsError::Bundle { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        SnapshotsError::Unsigned(_) => StatusCode::FORBIDDEN,
        SnapshotsError::Store(StoreError::NoSpace { .. }) => StatusCode::INSUFFICIENT_STORAGE,
        SnapshotsError::Unfollowed
        | SnapshotsError::Write(_)
        | SnapshotsError::Store(_)
        | SnapshotsError::Dataset(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_a_path_and_back() {
        let id = || "0123".to_owned();
        for action in [Action::Rollback(id()), Action::Release, Action::Pin(id()), Action::Unpin(id()), Action::Verify]
        {
            assert_eq!(Action::of_path(&action.path()), Some(action));
        }
        for path in [
            "/snapshots",
            "/snapshots/",
            "/snapshots/0123",
            "/snapshots/0/pin/x",
            "/snapshots/0/verify",
            "/snapshots/accept",
            "/x",
        ] {
            assert_eq!(Action::of_path(path), None, "{path}");
        }
    }
}
