//! Dumps: the current snapshot, or what a search finds in it, as one file for spreadsheets, notebooks and maps.
//!
//! A file is rendered while it is sent, with listings from memory and details from the store, and is kept nowhere; the
//! same way for whole and selected ones, and for what has changed since another snapshot. Routes and headers are in
//! [`crate::edge::answer`]. Callers: [`crate::edge::answer`], [`crate::server::admin`], [`crate::edge::pages`] for the
//! sizes.

mod changes;
mod coded;
mod download;
mod table;
pub(crate) mod write;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::Mutex;

use crate::api::listing::ListingId;
use crate::clock::Clock;
use crate::config::Settings;
use crate::data::details::Details;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::snapshots::Snapshots;
use crate::data::store::StoreError;
use crate::edge::search::Searches;
use crate::protocol::coding::Coding;
use crate::protocol::precondition::EntityTag;
use crate::tasks::Aborted;
use crate::tasks::fair::FairSemaphore;

pub(crate) use download::{Download, NotSelected};
use download::{Piece, Selection};
pub(crate) use write::size;

/// The codings of dumps: brotli takes several times as long for little less.
pub(crate) const CODINGS: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

/// So many pieces are rendered at the same time, of different households.
const RENDERED_AT_ONCE: usize = 4;

/// For so many downloads all listings are looked at at the same time, of different households; for as many others, all
/// details.
const OPENED_AT_ONCE: usize = 2;

/// A household may download so many at once.
const MOST_DOWNLOADS: usize = 32;

/// So many downloads are sent in a coding at the same time, each with an encoder in memory; others as they are.
const MOST_CODED: usize = 64;
const MOST_CODED_OF_ONE: usize = 8;

/// How many bytes of pieces are kept for other downloads of the same file, and for how long.
const KEPT: u64 = 8 << 20;
const KEPT_FOR: Duration = Duration::from_secs(60);

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
    #[error("listing {id} cannot be read: {why}")]
    Summary { id: ListingId, why: String },
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    #[error("the dump cannot be written: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Aborted(#[from] Aborted),
    /// It failed for another download of the same.
    #[error(transparent)]
    Shared(Arc<DumpError>),
}

/// The name of a file that shows all of this.
fn name_of(what: &str) -> u128 {
    let hash = blake3::hash(what.as_bytes());
    hash.as_bytes()[..16].iter().fold(0, |name, byte| name << 8 | u128::from(*byte))
}

/// The tag of a file, or of its form in a coding: a weak one where it may have other bytes without another name.
fn tag_of(name: u128, is_strong: bool) -> io::Result<EntityTag> {
    let tag = EntityTag::parse(format!("{}\"{name:032x}\"", if is_strong { "" } else { "W/" }).as_bytes());
    tag.ok_or_else(|| io::Error::other("its entity tag is malformed"))
}

/// Makes dumps; cheap to clone.
#[derive(Clone)]
pub(crate) struct Dumps(Arc<DumpsState>);

struct DumpsState {
    snapshots: Snapshots,
    current: SnapshotPointer,
    details: Details,
    searches: Searches,
    settings: Settings,
    clock: Clock,
    /// Another number in each process.
    process: u64,
    rendering: FairSemaphore,
    opening: FairSemaphore,
    /// For tables of details, whose columns take a second: they hold up no other file.
    opening_details: FairSemaphore,
    downloads: FairSemaphore,
    coding: FairSemaphore,
    /// Files that are being sent, by name.
    opened: Mutex<HashMap<u128, Weak<Selection>>>,
    /// By file, and the row at which they begin.
    pieces: Cache<(u128, usize), Piece>,
}

impl Dumps {
    pub(crate) fn new(
        snapshots: Snapshots,
        details: Details,
        searches: Searches,
        settings: Settings,
        clock: Clock,
    ) -> Self {
        let weight = |_: &(u128, usize), (piece, _): &Piece| piece.len() as u32;
        Self(Arc::new(DumpsState {
            current: snapshots.current().clone(),
            snapshots,
            details,
            searches,
            settings,
            clock,
            process: RandomState::new().hash_one(()),
            rendering: FairSemaphore::new(RENDERED_AT_ONCE, 1),
            opening: FairSemaphore::new(OPENED_AT_ONCE, 1),
            opening_details: FairSemaphore::new(OPENED_AT_ONCE, 1),
            downloads: FairSemaphore::new(usize::MAX, MOST_DOWNLOADS),
            coding: FairSemaphore::new(MOST_CODED, MOST_CODED_OF_ONE),
            opened: Mutex::default(),
            pieces: Cache::builder().max_capacity(KEPT).weigher(weight).time_to_live(KEPT_FOR).build(),
        }))
    }
}
