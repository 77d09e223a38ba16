//! Records of `/changes.json`: what a copy elsewhere lacks, and the position from which to go on.
//!
//! A listing that came or changed is sent with its detail, and so is one of which only the detail did. A line tells how
//! it is now, so that a line too many does no harm. Callers: [`crate::edge::answer`].

use std::net::IpAddr;
use std::sync::Arc;

use super::download::{Download, NotSelected, Selection};
use super::write::{RowForm, Rows};
use super::{DumpError, Dumps, name_of, tag_of};
use crate::data::snapshot::pointer::Snapshot;
use crate::protocol::precondition::EntityTag;
use crate::tasks::blocking;

/// Records, their snapshot, and a strong tag of what is sent.
type Tagged = (Download, Arc<Snapshot>, EntityTag);

impl Dumps {
    /// What has changed between `since`, a snapshot id or a token, and the current snapshot.
    pub(crate) async fn changes(&self, since: Box<str>, client: IpAddr) -> Result<Tagged, NotSelected> {
        let state = self.0.clone();
        let household = state.settings.household(client);
        let held = state.downloads.try_take(Some(household), 1).ok_or(NotSelected::Many)?;
        // Never closed.
        let turn = state.rendering.take(Some(household), 1).await;
        blocking(move || {
            let _until_done = turn;
            let published = state.current.get().ok_or(DumpError::Nothing)?;
            let (dataset, snapshots) = (&published.dataset, &state.snapshots);
            let unknown = || NotSelected::Unknown { since: since.clone(), current: dataset.id.clone() };
            let place = snapshots.place_of(&since).map_err(DumpError::from)?.ok_or_else(unknown)?;
            // Before the details are listed: the next time, those that arrive in between are sent again.
            let next = snapshots.next_token(&published).map_err(DumpError::from)?;
            let changes = snapshots.journal().since(place.snapshot.as_str(), dataset.id.as_str());
            let changes = changes.ok_or_else(unknown)?;
            let revised = snapshots.store().details_since(place.place).map_err(DumpError::from)?.ok_or_else(unknown)?;
            let mut positions: Vec<u32> = changes.added.iter().filter_map(|id| dataset.position(*id)).collect();
            positions.sort_unstable();
            let changed = changes.changed.iter().chain(&revised).filter_map(|id| dataset.position(*id));
            let mut changed: Vec<u32> = changed.filter(|at| positions.binary_search(at).is_err()).collect();
            changed.sort_unstable();
            changed.dedup();
            // What changes while it is sent changes the tag of the next answer.
            let edition = state.edition()?;
            let tag = tag_of(name_of(&format!("changes {since} {next} {} {edition}", dataset.id)), true);
            let tag = tag.map_err(DumpError::from)?;
            let form = RowForm::Changes { added: positions.len(), next };
            positions.append(&mut changed);
            let all = Selection {
                published: published.clone(),
                rows: Rows::These(positions.into()),
                removed: changes.removed,
                form,
                has_details: true,
                name: None,
            };
            Ok((Download::of(all.into(), state, household, [Some(held), None]), published, tag))
        })
        .await
    }
}
