//! Dumps: the current snapshot as one file for spreadsheets, notebooks and maps.
//!
//! The first request for a dump writes it, once for all clients that wait, into a file without a name in the data
//! directory. The file ends with the process, or when it is replaced; a few replaced ones stay while they are read.
//! Details change without a new snapshot: their dump is written again when they have changed and it is older than
//! `ttl`. A part of the snapshot, and what has changed since another one, is rendered while it is sent. Routes and headers
//! are in [`crate::answer`]. Callers: [`crate::answer`], [`crate::admin`], [`crate::pages`] for the sizes, the commands.

mod built;
mod changes;
mod selected;
pub(crate) mod write;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::api::listing::ListingId;
use crate::api::route::DumpKind;
use crate::clock::{Clock, Monotonic};
use crate::config::Settings;
use crate::limit::shares::Shares;
use crate::mirror::details::Details;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::EntityTag;
use crate::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::snapshots::Snapshots;
use crate::store::{StoreError, nameless};
use crate::tasks::{Aborted, blocking};

pub(crate) use built::{Built, DumpPart};
use selected::Selections;
pub(crate) use selected::{NotSelected, Selected, Slugs};
pub(crate) use write::size;

/// The codings of dumps: brotli takes several times as long for little less.
pub(crate) const CODINGS: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

/// So many replaced dumps are kept for clients that still read them. A client may take hours for one, and a new
/// snapshot may come every few minutes.
const MOST_REPLACED: usize = 12;

/// A household may download changes so many times at once.
const MOST_CHANGES: usize = 8;

/// No new try for so long after a failure.
const PAUSE: Duration = Duration::from_secs(10);

/// Why there is no dump.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// There is no snapshot yet.
    #[error("there is no snapshot yet to be exported")]
    Nothing,
    /// More different keys than a table has columns.
    #[error(
        "the listings have more than {0} different fields, too many for a table; the formats ndjson and geojson have all"
    )]
    Columns(usize),
    /// A listing cannot be read.
    #[error("listing {id} cannot be read: {why}")]
    Summary { id: ListingId, why: String },
    /// A detail cannot be read.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// The file cannot be written or read.
    #[error("the dump cannot be written: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

/// The strong tag with these digits.
fn strong_tag(digits: &str) -> io::Result<EntityTag> {
    let tag = EntityTag::parse(format!("\"{digits}\"").as_bytes());
    tag.ok_or_else(|| io::Error::other("its entity tag is malformed"))
}

/// A dump that can be sent, and its snapshot.
pub(crate) type Ready = (Arc<Built>, Arc<Snapshot>);

/// How new the dump of the details must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// For clients: details that changed within `ttl` may be missing.
    WithinTtl,
    /// With all details that are here now.
    Now,
}

/// Makes dumps and keeps those of the current snapshot; cheap to clone.
#[derive(Clone)]
pub(crate) struct Dumps(Arc<DumpsState>);

type Key = (DumpKind, Coding);

struct DumpsState {
    snapshots: Snapshots,
    current: SnapshotPointer,
    details: Details,
    data_dir: PathBuf,
    settings: Settings,
    clock: Clock,
    built: Mutex<HashMap<Key, Arc<Built>>>,
    /// Replaced dumps, the oldest first: slow clients may still read them.
    replaced: Mutex<VecDeque<Weak<Built>>>,
    /// The last error of each dump, and when.
    failed: Mutex<HashMap<Key, (Monotonic, Arc<DumpError>)>>,
    /// One is written at a time.
    turn: tokio::sync::Mutex<()>,
    /// Whether a task drops dumps of earlier snapshots.
    tidies: AtomicBool,
    /// Another number in each process.
    process: u64,
    /// How many parts of a snapshot are looked through at the same time: two, for different households.
    selecting: Shares,
    selections: Selections,
    /// Downloads of changes that are being sent.
    changes: Shares,
}

impl Dumps {
    /// Nothing is written yet. `settings`: `ttl` is how old the dump of the details may be while they change.
    pub(crate) fn new(
        snapshots: Snapshots,
        details: Details,
        data_dir: PathBuf,
        settings: Settings,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(DumpsState {
            current: snapshots.current().clone(),
            snapshots,
            details,
            data_dir,
            settings,
            clock,
            built: Mutex::default(),
            replaced: Mutex::default(),
            failed: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            tidies: AtomicBool::new(false),
            process: RandomState::new().hash_one(()),
            selecting: Shares::new(2, 1),
            selections: Selections::default(),
            changes: Shares::new(usize::MAX, MOST_CHANGES),
        }))
    }

    /// A dump of the current snapshot, written if there is none. It is written to its end even if nobody waits any
    /// more.
    pub(crate) async fn get(
        &self,
        kind: DumpKind,
        coding: Coding,
        freshness: Freshness,
    ) -> Result<Ready, Arc<DumpError>> {
        let began = self.0.clock.now_mono();
        if let Some(ready) = self.0.kept(kind, coding, freshness)? {
            return Ok(ready);
        }
        self.tidy_after_publications();
        let inner = self.0.clone();
        let making = tokio::spawn(async move { inner.make(kind, coding, freshness, began).await });
        making.await.unwrap_or_else(|error| Err(Arc::new(Aborted::from(error).into())))
    }

    fn tidy_after_publications(&self) {
        if self.0.tidies.swap(true, Ordering::AcqRel) {
            return;
        }
        let (mut swaps, inner) = (self.0.current.watch(), Arc::downgrade(&self.0));
        tokio::spawn(async move {
            while swaps.changed().await.is_ok() {
                let Some(inner) = inner.upgrade() else { return };
                inner.tidy();
            }
        });
    }
}

impl DumpsState {
    /// A kept dump that is good enough.
    fn kept(&self, kind: DumpKind, coding: Coding, freshness: Freshness) -> Result<Option<Ready>, Arc<DumpError>> {
        let published = self.current.get().ok_or(DumpError::Nothing)?;
        let built = self.built.lock().get(&(kind, coding)).cloned();
        let will_do = |built: &Arc<Built>| {
            built.snapshot == published.dataset.id
                && (kind != DumpKind::Details
                    || built.revision == self.details.revision()
                    || freshness == Freshness::WithinTtl
                        && self.clock.now_mono().since(built.at) < self.settings.load().ttl)
        };
        Ok(built.filter(will_do).map(|built| (built, published)))
    }

    /// Writes a dump, unless another task did meanwhile, or failed.
    async fn make(
        self: Arc<Self>,
        kind: DumpKind,
        coding: Coding,
        freshness: Freshness,
        began: Monotonic,
    ) -> Result<Ready, Arc<DumpError>> {
        let _turn = self.turn.lock().await;
        if let Some(ready) = self.kept(kind, coding, freshness)? {
            return Ok(ready);
        }
        if let Some((at, error)) = self.failed.lock().get(&(kind, coding))
            && (*at >= began || self.clock.now_mono().since(*at) < PAUSE)
        {
            return Err(error.clone());
        }
        let this = self.clone();
        blocking(move || this.write(kind, coding, freshness)).await.map_err(|error| {
            tracing::warn!(dump = kind.as_str(), coding = coding.as_str(), %error, "a dump was not written");
            let error = Arc::new(error);
            self.failed.lock().insert((kind, coding), (self.clock.now_mono(), error.clone()));
            error
        })
    }

    fn write(&self, kind: DumpKind, coding: Coding, freshness: Freshness) -> Result<Ready, DumpError> {
        let plain = match self.kept(kind, Coding::Identity, freshness) {
            Ok(Some(ready)) => ready,
            _ => self.write_plain(kind)?,
        };
        if coding == Coding::Identity {
            return Ok(plain);
        }
        let (plain, published) = plain;
        let file = nameless::create(&self.data_dir, nameless::DUMP)?;
        // As old as its source.
        let source = (plain.snapshot.clone(), plain.revision, plain.at);
        let built = Built::write(file, source, |out| plain.encode(coding, out))?;
        Ok((self.keep(kind, coding, built), published))
    }

    fn write_plain(&self, kind: DumpKind) -> Result<Ready, DumpError> {
        let published = self.current.get().ok_or(DumpError::Nothing)?;
        let revision = self.details.revision();
        let ids = write::detailed(kind, &published.dataset);
        let file = nameless::create(&self.data_dir, nameless::DUMP)?;
        let fill = |out: &mut dyn io::Write| {
            write::write(kind, &published.dataset, Box::new(self.details.bodies(&ids)), out, &mut |_, _| {})
        };
        let built = Built::write(file, (published.dataset.id.clone(), revision, self.clock.now_mono()), fill)?;
        tracing::info!(dump = kind.as_str(), bytes = built.length, snapshot = %built.snapshot, "a dump was written");
        Ok((self.keep(kind, Coding::Identity, built), published))
    }

    fn keep(&self, kind: DumpKind, coding: Coding, built: Built) -> Arc<Built> {
        let built = Arc::new(built);
        let before = self.built.lock().insert((kind, coding), built.clone());
        self.replace(before);
        // Another snapshot may have come while it was written.
        self.tidy();
        built
    }

    /// Drops the dumps of earlier snapshots.
    fn tidy(&self) {
        let Some(published) = self.current.get() else { return };
        let stale = |_: &Key, built: &mut Arc<Built>| built.snapshot != published.dataset.id;
        let stale: Vec<Arc<Built>> = self.built.lock().extract_if(stale).map(|(_, built)| built).collect();
        self.replace(stale);
    }

    /// Drops dumps. Clients read them to their end, unless so many are read that the disk fills up.
    fn replace(&self, before: impl IntoIterator<Item = Arc<Built>>) {
        let mut replaced = self.replaced.lock();
        replaced.extend(before.into_iter().map(|built| Arc::downgrade(&built)));
        replaced.retain(|built| built.strong_count() > 0);
        while replaced.len() > MOST_REPLACED {
            let oldest = replaced.pop_front().and_then(|oldest| oldest.upgrade());
            if let Some(oldest) = oldest {
                oldest.revoke();
            }
        }
    }
}
