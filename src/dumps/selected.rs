//! A part of a snapshot as a dump: rendered while it is sent, and never kept.
//!
//! Callers: [`super`] makes it, [`crate::serve`] sends it.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::write::Form;
use super::{DumpError, Dumps, strong_tag};
use crate::api::listing::ListingId;
use crate::api::route::DumpKind;
use crate::clock::{Clock, Monotonic};
use crate::mirror::details::Details;
use crate::semantics::client_address::household;
use crate::semantics::precondition::EntityTag;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::{Dataset, Unselected};
use crate::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::tasks::{Aborted, blocking};

/// About how much is rendered at once, in bytes, and how many details are read for it.
const PIECE: usize = 64 << 10;
const MOST_DETAILS: usize = 64;

/// A download keeps a replaced snapshot in memory for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The slugs that listings must have, by [`TaxonomyKind::index`](crate::api::taxonomy::TaxonomyKind::index).
pub(crate) type Slugs = [Option<Box<str>>; 3];

/// Why nothing is selected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSelected {
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Unselected(#[from] Unselected),
}

impl From<Aborted> for NotSelected {
    fn from(aborted: Aborted) -> Self {
        Self::Dump(aborted.into())
    }
}

/// The unsent part of a dump of some listings.
pub(crate) struct Selected {
    all: Arc<Selection>,
    /// How many listings were sent; `None`: everything.
    sent: Option<usize>,
    replaced: Option<Monotonic>,
}

struct Selection {
    published: Arc<Snapshot>,
    positions: Arc<[u32]>,
    form: Form,
    details: Option<Details>,
    current: SnapshotPointer,
    clock: Clock,
}

/// The positions that unsent parts of dumps need. Those of a snapshot with the same slugs share them: slow clients, however
/// many, hold the positions of a listing a few times at most, once for each way to select it.
#[derive(Default)]
pub(super) struct Selections(Mutex<HashMap<Part, Weak<[u32]>>>);

type Part = (SnapshotId, Slugs);

impl Selections {
    fn of(&self, dataset: &Dataset, slugs: &Slugs) -> Result<Arc<[u32]>, Unselected> {
        let key = (dataset.id.clone(), slugs.clone());
        let mut needed = self.0.lock();
        if let Some(positions) = needed.get(&key).and_then(Weak::upgrade) {
            return Ok(positions);
        }
        let positions: Arc<[u32]> = dataset.select(slugs, None)?.into();
        needed.retain(|_, positions| positions.strong_count() > 0);
        needed.insert(key, Arc::downgrade(&positions));
        Ok(positions)
    }
}

impl Dumps {
    /// The listings of the current snapshot with these slugs, and a strong tag of what is sent.
    ///
    /// # Errors
    /// When there is no snapshot, a slug is unknown or in doubt, or the listings make no dump.
    pub(crate) async fn select(
        &self,
        kind: DumpKind,
        slugs: Slugs,
        client: IpAddr,
    ) -> Result<(Selected, Arc<Snapshot>, EntityTag), NotSelected> {
        let state = self.0.clone();
        let household = household(client, state.settings.load().rate_limit.ipv6_prefix);
        // It takes long: the columns of a table are known when all its listings were read. Never closed.
        let turn = state.selecting.take(Some(household), 1).await;
        blocking(move || {
            let _until_done = turn;
            let published = state.current.get().ok_or(DumpError::Nothing)?;
            let dataset = &published.dataset;
            let positions = state.selections.of(dataset, &slugs)?;
            let form = Form::of(kind, dataset, &positions)?;
            let details = (kind == DumpKind::Details).then(|| state.details.clone());
            // What changes while it is sent changes the tag of the next answer. Revisions begin anew with each process.
            let revision = details.as_ref().map(|details| (state.process, details.revision()));
            let of = format!("{kind:?} {slugs:?} {} {revision:?} {}", dataset.id, env!("CARGO_PKG_VERSION"));
            let tag = strong_tag(&blake3::hash(of.as_bytes()).to_hex()[..32]).map_err(DumpError::from)?;
            let (current, clock) = (state.current.clone(), state.clock.clone());
            let all = Selection { published: published.clone(), positions, form, details, current, clock };
            Ok((Selected { all: Arc::new(all), sent: Some(0), replaced: None }, published, tag))
        })
        .await
    }
}

impl Selected {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When it cannot be read, or the snapshot was replaced a while ago.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let (from, all) = (self.sent?, self.all.clone());
        // A confirmed snapshot is the same one.
        if all.current.get().is_none_or(|current| current.dataset.id != all.published.dataset.id) {
            let now = all.clock.now_mono();
            if now.since(*self.replaced.get_or_insert(now)) > PATIENCE {
                return Some(Err(io::Error::other("another snapshot was published meanwhile")));
            }
        }
        match blocking(move || all.piece(from)).await {
            Ok((piece, sent)) => {
                self.sent = sent;
                Some(Ok(piece))
            }
            Err(error) => Some(Err(io::Error::other(error))),
        }
    }
}

impl Selection {
    /// What comes after so many listings, and how many are sent then.
    fn piece(&self, from: usize) -> Result<(Bytes, Option<usize>), DumpError> {
        let (dataset, mut out) = (&self.published.dataset, Vec::new());
        if from == 0 {
            self.form.begin(dataset, &mut out);
        }
        let most = if self.details.is_some() { MOST_DETAILS } else { usize::MAX };
        let left = &self.positions[from..];
        let left = &left[..left.len().min(most)];
        let ids: Vec<ListingId> = match &self.details {
            Some(_) => left.iter().map(|position| dataset.content.summaries[*position as usize].id).collect(),
            None => Vec::new(),
        };
        let mut details = self.details.as_ref().map(|details| details.bodies(&ids));
        let mut sent = from;
        for position in left {
            let detail = details.as_mut().and_then(Iterator::next).transpose()?.flatten();
            self.form.listing(dataset, (*position, sent == 0), detail, &mut out)?;
            sent += 1;
            if out.len() >= PIECE {
                break;
            }
        }
        let is_over = sent == self.positions.len();
        if is_over {
            self.form.end(&mut out);
        }
        Ok((out.into(), (!is_over).then_some(sent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::hash::ContentHash;
    use crate::api::listing::Summary;
    use crate::api::page::Envelope;
    use crate::snapshot::content::Content;
    use crate::snapshot::membership::Evidence;

    #[test]
    fn all_who_download_the_same_part_share_its_positions_and_nobodys_are_kept() {
        let sports = r#"[{"slug":"golf","name":"golf","count":1}]"#;
        let summary = |(id, sport): (u64, &str)| {
            let raw = format!(r#"{{"id":{id},"sport":"{sport}"}}"#);
            Summary { id: ListingId(id), hash: ContentHash::of(raw.as_bytes()), raw: raw.into() }
        };
        let summaries = (1..).zip(["tennis", "golf"]).map(summary).collect();
        let taxonomies = [sports.into(), "[]".into(), "[]".into()];
        let content = Content { envelope: Envelope::default(), taxonomies, summaries };
        let dataset = Dataset::build(content, &Evidence::new()).unwrap();
        let selections = Selections::default();
        let of = |sport: Option<&str>| selections.of(&dataset, &[sport.map(Into::into), None, None]).unwrap();
        let golf = of(Some("golf"));
        assert_eq!(*golf, [1]);
        assert!(Arc::ptr_eq(&golf, &of(Some("golf"))));
        drop(golf);
        assert_eq!(*of(None), [0, 1]);
        assert_eq!(selections.0.lock().len(), 1);
    }
}
