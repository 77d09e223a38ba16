//! The publisher over an object store that lies: whatever it does, nothing is lost, and as soon as it is honest again it has
//! everything.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::config::Settings;
use crate::data::cache::Cache;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::snapshots::Policy;
use crate::data::store::{DataDir, States};
use crate::fleet::head::FileHash;
use crate::fleet::keys::ObjectKey;

/// What an object store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Writes of heads are confirmed and lost.
    LosesHeads,
    /// Writes of bundles are confirmed and lost.
    LosesBundles,
    /// The last byte of a bundle is another one.
    AltersBundles,
    /// The last byte of a bundle is missing.
    CutsBundles,
    AltersJournals,
    /// The last byte of a head is missing.
    CutsHeads,
    /// What is written is answered with an error.
    WritesAndFails,
    WritesFail,
    IgnoresConditions,
    HasNoConditions,
    /// Reading gives the first head that there ever was.
    ShowsOldHeads,
    /// Reading the head gives 404.
    HidesHeads,
    ReadsFail,
    ListsNothing,
    ListsFail,
    RemovesNothing,
}

use Lie as L;

/// An object store that lies.
#[derive(Debug, Default)]
struct Liar {
    store: InMemory,
    lie: Mutex<Option<Lie>>,
}

impl Liar {
    fn tells(&self, lie: Lie) -> bool {
        *self.lie.lock() == Some(lie)
    }

    fn fails<T>() -> Result<T> {
        Err(Error::Generic { store: "Liar", source: "it fails".into() })
    }
}

impl std::fmt::Display for Liar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("liar")
    }
}

/// Where the first head is kept.
fn old() -> Path {
    Path::from("old")
}

fn altered(payload: &PutPayload, is_cut: bool) -> PutPayload {
    let mut bytes: Vec<u8> = payload.iter().flat_map(|piece| piece.iter().copied()).collect();
    let last = bytes.pop().unwrap_or_default();
    if !is_cut {
        bytes.push(last ^ 1);
    }
    bytes.into()
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        let key = ObjectKey::parse(location.as_ref()).unwrap();
        let lie = *self.lie.lock();
        let payload = match (lie, &key) {
            (Some(L::WritesFail), _) => return Self::fails(),
            (Some(L::HasNoConditions), _) if opts.mode != PutMode::Overwrite => {
                return Err(Error::NotImplemented {
                    operation: "a condition".to_owned(),
                    implementer: "liar".to_owned(),
                });
            }
            (Some(L::LosesHeads), ObjectKey::Head)
            | (Some(L::LosesBundles), ObjectKey::Full(..) | ObjectKey::Delta(..)) => {
                return self.store.put(&Path::from("lost"), payload).await;
            }
            (Some(L::AltersBundles), ObjectKey::Full(..) | ObjectKey::Delta(..))
            | (Some(L::AltersJournals), ObjectKey::Journal(_)) => altered(&payload, false),
            (Some(L::CutsBundles), ObjectKey::Full(..) | ObjectKey::Delta(..))
            | (Some(L::CutsHeads), ObjectKey::Head) => altered(&payload, true),
            _ => payload,
        };
        if lie == Some(L::IgnoresConditions) {
            opts.mode = PutMode::Overwrite;
        }
        if key == ObjectKey::Head && self.store.head(&old()).await.is_err() {
            self.store.put(&old(), payload.clone()).await?;
        }
        let written = self.store.put_opts(location, payload, opts).await;
        if lie == Some(L::WritesAndFails) { Self::fails() } else { written }
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        panic!("bundles of tests are small")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = location.as_ref() == ObjectKey::Head.to_string();
        match *self.lie.lock() {
            Some(L::ReadsFail) => return Self::fails(),
            Some(L::HidesHeads) if is_head => {
                return Err(Error::NotFound { path: location.to_string(), source: "hidden".into() });
            }
            _ => {}
        }
        let from = if is_head && self.tells(L::ShowsOldHeads) { &old() } else { location };
        self.store.get_opts(from, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.tells(L::RemovesNothing) {
            return stream::once(async { Self::fails() }).boxed();
        }
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match *self.lie.lock() {
            Some(L::ListsNothing) => stream::empty().boxed(),
            Some(L::ListsFail) => stream::once(async { Self::fails() }).boxed(),
            _ => self.store.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

/// A publisher over such a store.
struct Desk {
    liar: Arc<Liar>,
    publisher: Publisher,
    /// The highest number of a head that was ever written.
    highest: u64,
    _dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let (dir, liar) = (tempfile::tempdir().unwrap(), Arc::new(Liar::default()));
        let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
        let text = format!(
            "data_dir = {:?}\n[publish]\nurl = \"s3://bucket\"\nkeep = \"1h\"",
            dir.path().display().to_string()
        );
        let config = Config::from_text(&text).unwrap().config;
        let policy = Policy { settings: Settings::new(config.clone()), has_origin: true, origins: Vec::new() };
        let clock = Clock::system();
        let snapshots = Snapshots::new(store.clone(), SnapshotPointer::default(), policy, clock.clone());
        let details = Details::open(store, Cache::new(1 << 20), snapshots.newest().clone()).unwrap();
        let place = BundleStore::over(liar.clone());
        let publisher = Publisher::over(
            place,
            "s3://bucket",
            &config,
            TrustedKeys::default(),
            snapshots,
            details,
            clock,
            PublishStatus::default(),
        );
        Self { liar, publisher, highest: 0, _dir: dir }
    }

    /// Serves another snapshot.
    fn serve(&self, ids: &[u64]) {
        let summary = |id: &u64| {
            let raw = Bytes::from(format!(r#"{{"id":{id},"name":"v{id}","modified":"2026-01-01T00:00:00Z"}}"#));
            Summary { id: ListingId(*id), hash: ContentHash::of(&raw), raw }
        };
        let content = Content {
            envelope: Envelope {
                fields: vec![EnvelopeField::Items],
                empty_filters: "[]".into(),
                ..Envelope::default()
            },
            taxonomies: [Arc::from("[]"), Arc::from("[]"), Arc::from("[]")],
            summaries: ids.iter().map(summary).collect(),
        };
        let (dataset, now_ms) =
            (Dataset::build(content, &Evidence::new()).unwrap(), Clock::system().now_wall().as_millis());
        let snapshots = &self.publisher.snapshots;
        let meta = SnapshotMeta::full(now_ms);
        snapshots.publish(snapshots.newest().epoch(), &Arc::new(dataset), meta, States::default()).unwrap();
    }

    /// Some rounds, each with a check of all objects; returns everything that was said.
    async fn rounds(&mut self) -> BTreeSet<String> {
        let mut said = BTreeSet::new();
        for _ in 0..4 {
            self.publisher.checks.at = None;
            if let Err(error) = self.publisher.round().await {
                said.insert(error.to_string());
            }
            while self.publisher.checks.read_back.is_reading() {
                tokio::task::yield_now().await;
            }
            said.extend(self.publisher.status.lock().findings().into_iter().map(|finding| finding.text));
            if let Some(head) = self.head().await {
                assert!(head.sequence >= self.highest, "heads go back: {} after {}", head.sequence, self.highest);
                self.highest = head.sequence;
            }
        }
        said
    }

    async fn read(&self, key: &ObjectKey) -> Option<Bytes> {
        self.liar.store.get(&Path::from(key.to_string())).await.ok()?.bytes().await.ok()
    }

    /// The head that really lies there.
    async fn head(&self) -> Option<crate::fleet::head::Head> {
        crate::fleet::head::Head::read_unverified(&self.read(&ObjectKey::Head).await?).ok()
    }

    /// Whether the store has all that should lie there.
    async fn is_whole(&self) -> bool {
        let Some(chain) = &self.publisher.chain else { return false };
        let served = self.publisher.snapshots.current().get().unwrap();
        if self.head().await.as_ref() != Some(&chain.head) || chain.head.snapshot != served.dataset.id {
            return false;
        }
        for (key, file) in chain.objects() {
            if self.read(&key).await.map(|bytes| FileHash::of(&bytes)) != Some(file) {
                return false;
            }
        }
        true
    }
}

#[tokio::test]
async fn whatever_an_object_store_does_is_noticed_and_mended_once_it_is_honest() {
    const ALTERED: &str = "missing or altered";
    const UNKEPT: &str = "keeps old answers";
    for (lie, told) in [
        (L::LosesHeads, UNKEPT),
        (L::LosesBundles, ALTERED),
        (L::AltersBundles, ALTERED),
        (L::CutsBundles, ALTERED),
        (L::AltersJournals, ALTERED),
        (L::CutsHeads, UNKEPT),
        (L::WritesAndFails, "it fails"),
        (L::WritesFail, "it fails"),
        (L::IgnoresConditions, ""),
        (L::HasNoConditions, ""),
        (L::ShowsOldHeads, UNKEPT),
        (L::HidesHeads, UNKEPT),
        (L::ReadsFail, "it fails"),
        (L::ListsNothing, ""),
        (L::ListsFail, "it fails"),
        (L::RemovesNothing, ""),
    ] {
        for is_first in [true, false] {
            let mut desk = Desk::new();
            desk.serve(&[1, 2]);
            if !is_first {
                desk.rounds().await;
                assert!(desk.is_whole().await, "{lie:?}");
                desk.serve(&[1, 2, 3]);
            }
            *desk.liar.lie.lock() = Some(lie);
            let mut said = desk.rounds().await;
            desk.serve(&[2, 5]);
            said.extend(desk.rounds().await);
            assert!(told.is_empty() || said.iter().any(|text| text.contains(told)), "{lie:?}: {said:?}");
            *desk.liar.lie.lock() = None;
            desk.rounds().await;
            assert!(desk.is_whole().await, "{lie:?} {is_first}");
            desk.serve(&[1, 4]);
            let said = desk.rounds().await;
            assert!(desk.is_whole().await, "{lie:?} {is_first}, later");
            // It is looked at at the start: what confirms any write ignores its condition.
            let is_unconditional = is_first && matches!(lie, L::LosesHeads | L::IgnoresConditions | L::HasNoConditions);
            let expected: &[&str] =
                if is_unconditional { &["s3://bucket ignores the conditions of writes"] } else { &[] };
            assert_eq!(said.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{lie:?} {is_first}");
        }
    }
}
