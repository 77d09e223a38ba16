//! The snapshot that is served now, and since when it is confirmed: one pointer, swapped whole.
//!
//! Callers: [`crate::mirror`] swaps, everything that answers loads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use http::HeaderValue;
use tokio::sync::watch;

use crate::api::render::Frame;
use crate::api::{json, links};
use crate::clock::WallTime;
use crate::semantics::freshness;

use super::dataset::Dataset;
use super::version::VersionMeta;

/// A published snapshot with everything that answers repeat.
pub struct Published {
    /// The data.
    pub dataset: Arc<Dataset>,
    /// How sure we are, and since when.
    pub meta: VersionMeta,
    /// The number of the version in the store.
    pub version: u64,
    /// Counts swaps: what was rendered under one epoch may be out of date under the next.
    pub epoch: u64,
    /// `Mirror-Snapshot`.
    pub snapshot_header: HeaderValue,
    /// `Mirror-Confirmed`; `None` for an instant that no HTTP-date can say.
    pub confirmed_header: Option<HeaderValue>,
    /// `generated_at` of lists: JSON text, quotes included; `null` for an instant beyond the calendar.
    pub generated_at: String,
    /// What is around the items of every list.
    pub frame: Frame,
    /// The license as a `Link` target, when it is an http(s) URI.
    pub license: Option<String>,
}

impl Published {
    /// The instant for which the data is confirmed.
    pub fn confirmed(&self) -> WallTime {
        WallTime::from_millis(self.meta.confirmed_ms)
    }

    /// What the stamp of the data says; other than [`Published::confirmed`] where it lay in the future when it was read.
    pub fn claimed(&self) -> WallTime {
        WallTime::from_millis(self.meta.claimed_ms.unwrap_or(self.meta.confirmed_ms))
    }

    /// Whether the stamp lies in the future, so that it confirms nothing: how old the data is cannot be known.
    pub fn is_unconfirmed(&self, now: WallTime) -> bool {
        freshness::is_from_the_future(self.claimed(), now)
    }

    /// Seconds since the instant for which the data is confirmed; `None` while its stamp lies in the future. A clock that was
    /// behind (a machine that keeps no time while it is off) makes it count again as soon as it is right.
    pub fn age_seconds(&self, now: WallTime) -> Option<u32> {
        (!self.is_unconfirmed(now)).then(|| freshness::age_seconds(now, self.claimed()))
    }
}

/// The place where the served snapshot hangs; cheap to clone.
#[derive(Clone, Default)]
pub struct Live(Arc<Inner>);

#[derive(Default)]
struct Inner {
    published: ArcSwapOption<Published>,
    epoch: AtomicU64,
    swapped: watch::Sender<u64>,
}

impl Live {
    /// What is served now; `None` before the first publication.
    pub fn load(&self) -> Guard<Option<Arc<Published>>> {
        self.0.published.load()
    }

    /// What is served now, for holding on to.
    pub fn current(&self) -> Option<Arc<Published>> {
        self.0.published.load_full()
    }

    /// Serves another snapshot, or the same one with another certificate, from now on; returns the epoch that begins.
    pub fn swap(&self, dataset: Arc<Dataset>, meta: VersionMeta, version: u64) -> u64 {
        let epoch = self.0.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        self.0.published.store(Some(Arc::new(Published::new(dataset, meta, version, epoch))));
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

impl Published {
    /// Prepares what answers from a version repeat; `epoch` is 0 for one that is kept and not served.
    pub fn new(dataset: Arc<Dataset>, meta: VersionMeta, version: u64, epoch: u64) -> Self {
        let confirmed = WallTime::from_millis(meta.confirmed_ms);
        let claimed = meta.claimed_ms.map_or(confirmed, WallTime::from_millis);
        // Hexadecimal digits and HTTP-dates are always valid header values.
        let header = |text: &str| HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
        let license = dataset.content.envelope.carried("license").and_then(json::string);
        let license = license.and_then(|license| links::license_target(&license));
        let generated_at = whole_seconds(confirmed).map_or_else(|| "null".to_owned(), |at| json::quote(&at));
        Self {
            frame: Frame::new(&dataset.content.envelope, &generated_at, &meta.volatile_of("list")),
            epoch,
            snapshot_header: header(dataset.id.as_str()),
            // Shown only while the stamp is believed.
            confirmed_header: claimed.http_date().as_deref().map(header),
            generated_at,
            license,
            version,
            dataset,
            meta,
        }
    }
}

/// RFC 3339 without fractions, rounded down: never later than the instant.
fn whole_seconds(at: WallTime) -> Option<String> {
    WallTime::from_seconds(at.as_millis().div_euclid(1000)).rfc3339()
}
