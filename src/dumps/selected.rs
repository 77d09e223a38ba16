//! A part of a snapshot as a dump: rendered while it is sent, and never kept.
//!
//! Callers: [`super`] makes it, [`crate::serve`] sends it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::write::Form;
use super::{DumpError, Dumps, strong_tag};
use crate::api::listing::ListingId;
use crate::api::route::DumpKind;
use crate::clock::{Clock, Monotonic};
use crate::mirror::details::Details;
use crate::semantics::precondition::EntityTag;
use crate::snapshot::dataset::Unselected;
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
    positions: Vec<u32>,
    form: Form,
    details: Option<Details>,
    current: SnapshotPointer,
    clock: Clock,
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
    ) -> Result<(Selected, Arc<Snapshot>, EntityTag), NotSelected> {
        // Two at a time: the columns of a table are known when all its listings were read.
        let _turn = self.0.selecting.acquire().await;
        let state = self.0.clone();
        blocking(move || {
            let published = state.current.get().ok_or(DumpError::Nothing)?;
            let dataset = &published.dataset;
            let positions = dataset.select(&slugs, None)?;
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
