//! Published view: the snapshots as readers see them, replaced as a whole, and pointers to two of its snapshots.
//!
//! A pointer costs a reader one load and a few instructions. It says which of the two snapshots its holder works with, so
//! that nobody takes one for the other. Callers: [`crate::data::snapshots`] replaces the view, [`crate::edge::answer`],
//! [`crate::mirror`] and [`crate::server::admin`] load.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use http::HeaderValue;
use tokio::sync::watch;

use crate::api::form::ListForm;
use crate::api::query::ListQuery;
use crate::api::render::Frame;
use crate::api::{json, links};
use crate::clock::{Now, WallTime};
use crate::protocol::freshness;

use super::content::SnapshotId;
use super::dataset::Dataset;
use super::journal::Journal;
use super::meta::SnapshotMeta;

/// A published snapshot, with the parts that all answers share.
pub struct Snapshot {
    pub dataset: Arc<Dataset>,
    /// How sure we are, and since when.
    pub meta: SnapshotMeta,
    /// The number of the snapshot in the store.
    pub seq: u64,
    /// Counts snapshots that were shown: a reply of one epoch may be out of date in the next.
    pub epoch: u64,
    /// `Mirror-Snapshot`.
    pub snapshot_header: HeaderValue,
    /// `Mirror-Confirmed`; `None` if the instant has no HTTP-date.
    pub confirmed_header: Option<HeaderValue>,
    /// `generated_at` of lists: JSON text, quotes included; `null` for an instant beyond the calendar.
    pub generated_at: String,
    /// The envelope around the items of unfiltered lists.
    pub frame: Frame,
    /// That of filtered ones, if it is another one.
    filtered: Option<Frame>,
    /// The license as a `Link` target, when it is an http(s) URI.
    pub license: Option<String>,
}

impl Snapshot {
    /// The envelope around the items of the answer to a query.
    pub fn frame_of(&self, query: &ListQuery) -> &Frame {
        self.filtered.as_ref().filter(|_| query.is_filtered()).unwrap_or(&self.frame)
    }

    /// The instant for which the data is confirmed.
    pub fn confirmed(&self) -> WallTime {
        WallTime::from_millis(self.meta.confirmed_ms)
    }

    /// The stamp of the data. Differs from [`Snapshot::confirmed`] if it was in the future when it was read.
    pub fn claimed(&self) -> WallTime {
        WallTime::from_millis(self.meta.claimed_ms.unwrap_or(self.meta.confirmed_ms))
    }

    /// Whether the stamp is in the future: then it confirms nothing, and the age is unknown.
    pub fn is_unconfirmed(&self, now: WallTime) -> bool {
        freshness::is_from_the_future(self.claimed(), now)
    }

    /// Age of the data: seconds since the instant that it claims; `None` while that lies in the future. When a clock that
    /// was behind is set right, the age is known again: what was confirmed meanwhile stood for the stamp only.
    pub fn age_seconds(&self, now: impl Into<Now>) -> Option<u32> {
        let now = now.into();
        (!self.is_unconfirmed(now.wall)).then(|| freshness::age_seconds(now.by_origin, self.claimed()))
    }
}

/// One kept snapshot: stored for a rollback.
#[derive(Clone, Debug)]
pub struct KeptSnapshot {
    pub id: SnapshotId,
    /// Its sequence number: two snapshots of a store may have the same id, but not the same number.
    pub seq: u64,
    pub listings: u64,
    pub meta: SnapshotMeta,
    /// Its size in the store, in bytes, once somebody asked for it.
    pub bytes: OnceLock<u64>,
}

/// All that readers see of the snapshots of a store. A view never changes: another one takes its place, so that clients and
/// administrators always see one state.
#[derive(Clone, Default)]
pub struct View {
    /// What clients get; `None` before the first publication.
    pub current: Option<Arc<Snapshot>>,
    /// What refreshes work on.
    pub newest: Option<Arc<Snapshot>>,
    /// The newest first.
    pub kept: Vec<Arc<KeptSnapshot>>,
    /// The changes that led to the current snapshot.
    pub journal: Arc<Journal>,
    pub pins: BTreeSet<String>,
    /// Ids of the last exports, the newest last; each once.
    pub exports: Vec<String>,
    /// The sequence number of the snapshot that a rollback made current.
    pub rolled_back: Option<u64>,
    /// Counts the snapshots that were shown.
    pub epoch: u64,
}

impl View {
    /// A snapshot to be shown in this view.
    pub fn snapshot(&mut self, dataset: Arc<Dataset>, meta: SnapshotMeta, seq: u64) -> Arc<Snapshot> {
        self.epoch += 1;
        Arc::new(Snapshot::new(dataset, meta, seq, self.epoch))
    }

    pub fn is_current(&self, kept: &KeptSnapshot) -> bool {
        self.current.as_ref().is_some_and(|current| current.seq == kept.seq)
    }

    /// The newest kept snapshot with this id.
    pub fn find(&self, id: &str) -> Option<&Arc<KeptSnapshot>> {
        self.kept.iter().find(|kept| kept.id.as_str() == id)
    }

    /// The current or the newest snapshot that passes a test.
    pub fn shown(&self, is_it: impl Fn(&Snapshot) -> bool) -> Option<&Arc<Snapshot>> {
        [&self.current, &self.newest].into_iter().flatten().find(|shown| is_it(shown))
    }

    /// Whether newer data waits for the end of a rollback: then the origin's answers do not fit the current snapshot.
    pub fn is_behind(&self) -> bool {
        let id = |of: &Option<Arc<Snapshot>>| of.as_ref().map(|shown| shown.dataset.id.clone());
        self.rolled_back.is_some() && id(&self.newest) != id(&self.current)
    }
}

/// Points to one snapshot of the present view, the current or the newest one; cheap to clone.
#[derive(Clone, Default)]
pub struct SnapshotPointer {
    state: Arc<ViewState>,
    is_newest: bool,
}

#[derive(Default)]
struct ViewState {
    view: ArcSwap<View>,
    swapped: watch::Sender<u64>,
}

impl SnapshotPointer {
    /// A pointer to the newest snapshot of the same views.
    #[must_use]
    pub fn to_newest(&self) -> Self {
        Self { state: self.state.clone(), is_newest: true }
    }

    pub fn view(&self) -> Guard<Arc<View>> {
        self.state.view.load()
    }

    /// Puts another view in the place of the present one. Only one at a time does this.
    pub fn show(&self, view: View) {
        let epoch = view.epoch;
        // Stored before the report, so that a woken reader finds this view.
        self.state.view.store(Arc::new(view));
        self.state.swapped.send_if_modified(|known| std::mem::replace(known, epoch) != epoch);
    }

    /// The snapshot; `None` before the first publication.
    pub fn get(&self) -> Option<Arc<Snapshot>> {
        let view = self.state.view.load();
        if self.is_newest { view.newest.clone() } else { view.current.clone() }
    }

    /// Shows this snapshot alone, current and newest, as a server with nothing else would; returns its epoch.
    pub fn swap(&self, dataset: Arc<Dataset>, meta: SnapshotMeta, seq: u64) -> u64 {
        let mut view = View::clone(&self.view());
        let shown = view.snapshot(dataset, meta, seq);
        (view.current, view.newest) = (Some(shown.clone()), Some(shown.clone()));
        self.show(view);
        shown.epoch
    }

    /// The epoch of the snapshot; 0 before the first one.
    pub fn epoch(&self) -> u64 {
        self.get().map_or(0, |shown| shown.epoch)
    }

    /// Reports each snapshot that is shown, current or newest.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.state.swapped.subscribe()
    }
}

impl Snapshot {
    /// Prepares the shared parts of answers; `epoch` is 0 for a kept snapshot that is not current.
    pub fn new(dataset: Arc<Dataset>, meta: SnapshotMeta, seq: u64, epoch: u64) -> Self {
        let confirmed = WallTime::from_millis(meta.confirmed_ms);
        let claimed = meta.claimed_ms.map_or(confirmed, WallTime::from_millis);
        // Hexadecimal digits and HTTP-dates are always valid header values.
        let header = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
        let license = dataset.content.envelope.carried("license").and_then(json::string);
        let license = license.and_then(|license| links::license_target(&license));
        let generated_at = whole_seconds(confirmed).map_or_else(|| "null".to_owned(), |at| json::quote(&at));
        let frame = |form| Frame::new(&dataset.content.envelope, &generated_at, &meta.volatile_of("list"), form);
        let filtered = (!meta.form.without.is_empty()).then(|| frame(meta.form.clone()));
        Self {
            frame: frame(ListForm { without: BTreeSet::new(), ..meta.form.clone() }),
            filtered,
            epoch,
            snapshot_header: header(dataset.id.as_str()),
            // Shown only while the stamp is believed.
            confirmed_header: claimed.http_date().as_deref().map(header),
            generated_at,
            license,
            seq,
            dataset,
            meta,
        }
    }
}

/// RFC 3339 without fractions, rounded down: never later than the instant.
fn whole_seconds(at: WallTime) -> Option<String> {
    WallTime::from_seconds(at.as_millis().div_euclid(1000)).rfc3339()
}
