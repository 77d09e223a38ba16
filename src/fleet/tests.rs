//! For tests of the fleet: heads with numbers in the place of hashes; and a machine without its server, with snapshots and
//! details on a disk, and a clock that tests move.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::head::{FORMAT, FileHash, Head, NamedBundle, NamedJournal};
use super::publisher::tests::SignKey;
use crate::api::hash::{ContentHash, Digest};
use crate::api::listing::{DetailState, ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::clock::{Clock, FakeClock, WallTime};
use crate::config::{Config, Settings};
use crate::data::cache::Cache;
use crate::data::details::Details;
use crate::data::snapshot::content::{Content, SnapshotId};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::{Certificate, SnapshotMeta};
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::snapshots::{Policy, Snapshots};
use crate::data::store::{DataDir, DetailMeta, DetailRecord, States, Store};

pub(super) fn digest(n: u8) -> Digest {
    Digest([n; 32])
}

pub(super) fn file(bytes: u64, n: u8) -> FileHash {
    FileHash { bytes, blake3: digest(n) }
}

/// A bundle of 100 bytes that leads to snapshot `n`.
pub(super) fn bundle(base: Option<u8>, n: u8) -> NamedBundle {
    let snapshot = SnapshotId::parse(&format!("{n:032x}")).unwrap();
    NamedBundle::new(base.map(digest), digest(n), snapshot, file(100, n))
}

/// A head with the full bundle `first`, deltas up to `last`, and a journal of 9 bytes.
pub(super) fn head(sequence: u64, first: u8, last: u8) -> Head {
    let deltas: Vec<NamedBundle> = (first + 1..=last).map(|own| bundle(Some(own - 1), own)).collect();
    let full = bundle(None, first);
    let snapshot = deltas.last().unwrap_or(&full).snapshot.clone();
    let (written_ms, confirmed_ms, certificate) = (5, 4, Certificate::Full);
    let journal = NamedJournal::new(file(9, last + 1));
    Head { format: FORMAT, sequence, written_ms, confirmed_ms, certificate, snapshot, full, deltas, journal }
}

/// The address of the origin of all machines.
pub(super) const ORIGIN: &str = "https://origin.example/";

/// The clock of all machines of a test, and the hand that moves it.
pub(super) fn clock() -> FakeClock {
    Clock::fake(WallTime::from_millis(1_790_000_000_000))
}

/// What clients of a machine get: the snapshot, and the details by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub snapshot: String,
    pub details: BTreeMap<u64, String>,
}

pub(super) struct Machine {
    pub snapshots: Snapshots,
    pub details: Details,
    pub config: Config,
    pub hand: FakeClock,
    dir: tempfile::TempDir,
}

impl Machine {
    /// A machine without data that signs with this key, if it publishes.
    pub(crate) fn new(hand: &FakeClock, key: Option<&SignKey>) -> Self {
        let sign = key.map(|key| format!("sign_key = {:?}", key.path())).unwrap_or_default();
        let dir = tempfile::tempdir().unwrap();
        let text = format!("data_dir = {:?}\n[publish]\nurl = \"s3://bucket\"\nkeep = \"1h\"\n{sign}", dir.path());
        Self::on(dir, Config::from_text(&text).unwrap().config, hand.clone())
    }

    fn on(dir: tempfile::TempDir, config: Config, hand: FakeClock) -> Self {
        let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
        let policy =
            Policy { settings: Settings::new(config.clone()), has_origin: true, origins: vec![ORIGIN.to_owned()] };
        let snapshots = Snapshots::new(store.clone(), SnapshotPointer::default(), policy, hand.clock());
        snapshots.restore().unwrap();
        let details = Details::open(store, Cache::new(1 << 20), snapshots.newest().clone()).unwrap();
        Self { snapshots, details, config, hand, dir }
    }

    /// The same machine after a restart.
    pub(crate) fn restarted(self) -> Self {
        let Self { snapshots, details, config, hand, dir } = self;
        details.flush();
        drop((snapshots, details));
        Self::on(dir, config, hand)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Serves these listings, confirmed now.
    pub(crate) fn serve(&self, ids: impl IntoIterator<Item = u64>) {
        self.serve_from(ids, ORIGIN);
    }

    /// The same from another origin.
    pub(crate) fn serve_from(&self, ids: impl IntoIterator<Item = u64>, origin: &str) {
        self.serve_long(ids, 0, origin);
    }

    /// The same, where the text of the listings from 1001 on is longer by so many bytes.
    pub(crate) fn serve_long(&self, ids: impl IntoIterator<Item = u64>, longer: usize, origin: &str) {
        let summary = |id: u64| {
            // A name that no coding makes shorter, so that a delta is small beside a full bundle.
            let name = blake3::hash(&id.to_le_bytes());
            let more = " ".repeat(if id > 1000 { longer } else { 0 });
            let raw = Bytes::from(format!(r#"{{"id":{id},"name":"{name}",{more}"modified":"2026-01-01T00:00:00Z"}}"#));
            Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
        };
        let content = Content {
            envelope: Envelope {
                fields: vec![EnvelopeField::Items],
                empty_filters: "[]".into(),
                ..Envelope::default()
            },
            taxonomies: [Arc::from("[]"), Arc::from("[]"), Arc::from("[]")],
            summaries: ids.into_iter().map(summary).collect(),
        };
        let dataset = Arc::new(Dataset::build(content, &Evidence::new()).unwrap());
        let meta = SnapshotMeta { origin: Some(origin.to_owned()), ..self.meta() };
        self.snapshots.publish(self.snapshots.newest().epoch(), &dataset, meta, States::default()).unwrap();
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta::full(self.hand.clock().now_wall().as_millis())
    }

    /// The detail of a listing arrives.
    pub(crate) fn detail(&self, id: u64, text: &str) {
        let body = Bytes::from(text.to_owned());
        let meta = DetailMeta {
            state: DetailState::Present,
            etag: None,
            last_modified: None,
            origin_time_ms: 1,
            fetched_ms: 1,
            summary_hash: ContentHash::default(),
            hash: ContentHash::of(&body),
        };
        self.details.put(ListingId(id), DetailRecord { meta, body }, None);
        self.details.flush();
    }

    /// `None`: it has no data.
    pub(crate) fn served(&self) -> Option<Served> {
        let current = self.snapshots.current().get()?;
        let ids = current.dataset.content.summaries.iter().map(|summary| summary.id);
        let text = |id: ListingId| {
            let found = self.details.get(id).unwrap()?;
            Some((id.0, String::from_utf8(found.body.to_vec()).unwrap()))
        };
        Some(Served { snapshot: current.dataset.id.to_string(), details: ids.filter_map(text).collect() })
    }

    /// The snapshots of the journal of changes.
    pub(crate) fn journal(&self) -> Vec<String> {
        self.snapshots.journal().entries().map(|entry| entry.to.to_string()).collect()
    }

    /// Time passes on all machines.
    pub(crate) fn wait(&self, seconds: u64) {
        self.hand.advance(Duration::from_secs(seconds));
    }
}
