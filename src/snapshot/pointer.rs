//! The current (or the newest) snapshot and its confirmation: one pointer, swapped as a whole.
//!
//! Callers: [`crate::snapshots`] swaps, [`crate::answer`] and [`crate::admin`] load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use http::HeaderValue;
use tokio::sync::watch;

use crate::api::form::ListForm;
use crate::api::query::ListQuery;
use crate::api::render::Frame;
use crate::api::{json, links};
use crate::clock::{Now, WallTime};
use crate::semantics::freshness;

use super::dataset::Dataset;
use super::meta::SnapshotMeta;

/// A published snapshot, with the parts that all answers share.
pub struct Snapshot {
    /// The data.
    pub dataset: Arc<Dataset>,
    /// How sure we are, and since when.
    pub meta: SnapshotMeta,
    /// The number of the snapshot in the store.
    pub seq: u64,
    /// Counts swaps: a reply of one epoch may be out of date in the next.
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

    /// Age of the data: seconds since it was confirmed; `None` while its stamp lies in the future. When a clock that
    /// was behind is set right, the age is known again.
    pub fn age_seconds(&self, now: impl Into<Now>) -> Option<u32> {
        let now = now.into();
        (!self.is_unconfirmed(now.wall)).then(|| freshness::age_seconds(now.by_origin, self.claimed()))
    }
}

/// Holds one snapshot, the current or the newest one, which can be replaced; cheap to clone.
#[derive(Clone, Default)]
pub struct SnapshotPointer(Arc<PointerState>);

#[derive(Default)]
struct PointerState {
    published: ArcSwapOption<Snapshot>,
    epoch: AtomicU64,
    swapped: watch::Sender<u64>,
}

impl SnapshotPointer {
    /// The current snapshot; `None` before the first publication.
    pub fn load(&self) -> Guard<Option<Arc<Snapshot>>> {
        self.0.published.load()
    }

    /// The current snapshot, as an owned pointer.
    pub fn get(&self) -> Option<Arc<Snapshot>> {
        self.0.published.load_full()
    }

    /// Replaces the current snapshot, or its certificate; returns the new epoch.
    pub fn swap(&self, dataset: Arc<Dataset>, meta: SnapshotMeta, seq: u64) -> u64 {
        let epoch = self.0.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        self.0.published.store(Some(Arc::new(Snapshot::new(dataset, meta, seq, epoch))));
        self.0.swapped.send_replace(epoch);
        epoch
    }

    /// Counts swaps; 0 before the first one.
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Acquire)
    }

    /// Tells of every swap.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.swapped.subscribe()
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
