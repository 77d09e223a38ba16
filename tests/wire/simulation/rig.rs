//! A mirror wired as in the binary, with an origin in the same process and the same virtual time.
//!
//! It can be aborted and started again on the same store; `kills` is about kill -9. Callers: `script`.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use grandstand::clock::Clock;
use grandstand::config::{Config, Settings};
use grandstand::data::cache::Cache;
use grandstand::data::details::Details;
use grandstand::data::snapshot::pointer::SnapshotPointer;
use grandstand::data::snapshots::{Policy, Snapshots};
use grandstand::data::store::{DataDir, Store};
use grandstand::mirror::MirrorContext;
use grandstand::mirror::commands::Commands;
use grandstand::mirror::copies::Copies;
use grandstand::mirror::details::worker::DetailWorker;
use grandstand::mirror::examiner::Examiner;
use grandstand::mirror::examiner::report::Audits;
use grandstand::mirror::sweep::Sweeper;
use grandstand::mirror::task::Mirror;
use grandstand::origin::budget::Budget;
use grandstand::origin::client::{ClientConfig, OriginClient};
use grandstand::origin::status::OriginStatus;
use grandstand::origin::wire::{Arrival, Transport, TransportError};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use parking_lot::RwLock;
use sample_origin::Origin;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::scene::Scene;

/// The time that a request may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The wire between mirror and origin.
struct Wire(Arc<Origin>);

#[async_trait]
impl Transport for Wire {
    async fn fetch(&self, method: &http::Method, url: Url, mut headers: HeaderMap) -> Result<Arrival, TransportError> {
        let broken = |error: std::io::Error| TransportError::Connection(error.to_string());
        let deadline = Instant::now() + TIMEOUT;
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let target = url[url::Position::BeforePath..url::Position::AfterQuery].to_owned();
        let asked = self.0.ask(method, &target, &headers);
        let answer = timeout_at(deadline, asked).await.map_err(|_| TransportError::Timeout)?.map_err(broken)?;
        let (mut head, body) = answer.into_parts();
        let pieces = Box::pin(body.into_data_stream());
        let pieces = stream::unfold(Some(pieces), move |pieces| async move {
            let mut pieces = pieces?;
            match timeout_at(deadline, pieces.next()).await {
                Err(_) => Some((Err(TransportError::Timeout), None)),
                Ok(None) => None,
                Ok(Some(piece)) => Some((piece.map_err(broken), Some(pieces))),
            }
        });
        let body = if head.headers.remove(CONTENT_ENCODING).is_some() {
            head.headers.remove(CONTENT_LENGTH);
            stream::once(unpacked(pieces)).boxed()
        } else {
            pieces.boxed()
        };
        Ok(Arrival { status: head.status.as_u16(), headers: head.headers, body })
    }
}

async fn unpacked(
    pieces: impl futures_util::Stream<Item = Result<Bytes, TransportError>>,
) -> Result<Bytes, TransportError> {
    let packed: Vec<Bytes> = pieces.try_collect().await?;
    let mut text = Vec::new();
    let packed = packed.concat();
    let read = flate2::read::GzDecoder::new(&*packed).read_to_end(&mut text);
    read.map_err(|error| TransportError::Decode(error.to_string()))?;
    Ok(text.into())
}

/// What outlives a mirror.
pub struct Ground {
    /// The origin.
    pub origin: Arc<Origin>,
    /// The mirror's clock, which may jump.
    pub clock: Clock,
    store: Arc<Store>,
    dir: DataDir,
}

impl Ground {
    /// An empty data directory at `path`.
    pub fn new(origin: Arc<Origin>, clock: Clock, path: &Path) -> Self {
        let dir = DataDir::open(path).unwrap();
        let store = Arc::new(Store::open(&dir).unwrap());
        Self { origin, clock, store, dir }
    }
}

/// A mirror that runs.
pub struct Rig {
    /// What it serves.
    pub newest: SnapshotPointer,
    /// How it is told.
    pub commands: Commands,
    /// Its details.
    pub details: Details,
    tasks: Vec<JoinHandle<()>>,
}

impl Rig {
    /// Builds and starts a mirror, as the composition root does.
    pub fn start(scene: &Scene, ground: &Ground, life: u64) -> Self {
        let (clock, store) = (&ground.clock, &ground.store);
        let (newest, status, commands) = (SnapshotPointer::default(), OriginStatus::default(), Commands::default());
        let cache = Cache::new(1 << 20);
        let config = ClientConfig {
            base: ground.origin.url().parse().unwrap(),
            timeout: TIMEOUT,
            max_body: 4 << 20,
            longest_pause: scene.ttl.min(Duration::from_secs(10)),
        };
        let budget = Budget::open(scene.budget, Some(&ground.dir.path().join("budget")), clock.clone());
        let wire = Arc::new(Wire(ground.origin.clone()));
        let client = OriginClient::over(wire, config, budget, status.clone(), clock.clone());
        let client = client.with_seed(scene.seed ^ life).with_cache_ttl(scene.cache_ttl);
        let evidence = store.evidence().unwrap();
        let mut config = Config { ttl: scene.ttl, ..Config::default() };
        (config.mirror.keep, config.mirror.keep_daily) = (3, 0);
        config.mirror.examine_per_hour = scene.examples;
        (config.mirror.sweep_every, config.mirror.verify_details_every) = (scene.sweep_every, scene.verify_every);
        // Everything may vanish here: holding back has tests of its own.
        config.mirror.max_shrink = 1.0;
        let settings = Settings::new(config);
        let policy = Policy { settings: settings.clone(), has_origin: true, origins: Vec::new() };
        let snapshots = Snapshots::new(store.clone(), newest.clone(), policy, clock.clone());
        snapshots.restore().unwrap();
        let known = newest.get().as_ref().map(|newest| newest.meta.volatile.clone()).unwrap_or_default();
        let volatile = Arc::new(RwLock::new(known));
        let details = Details::open(store.clone(), cache, newest.clone()).unwrap();
        // Everything may vanish here: holding back has tests of its own.
        let shared = MirrorContext {
            copies: Copies::new(client, store.clone(), volatile, snapshots.newest().clone()),
            store: store.clone(),
            newest: snapshots.newest().clone(),
            details: details.clone(),
            verdicts: snapshots.verdicts().clone(),
            commands: commands.clone(),
            settings,
            clock: clock.clone(),
        };
        let sweeper = Sweeper(shared.clone());
        let worker = DetailWorker { shared: shared.clone(), all: true };
        let examiner = Examiner::new(shared.clone(), Audits::default());
        let mirror = Mirror::new(shared, snapshots, evidence);
        let tasks = vec![
            tokio::spawn(mirror.run()),
            tokio::spawn(sweeper.run()),
            tokio::spawn(worker.run()),
            tokio::spawn(examiner.run()),
        ];
        Self { newest, commands, details, tasks }
    }

    /// Aborts its tasks anywhere. On return, the work of its blocking thread is done.
    pub async fn abort(self) {
        for task in self.tasks {
            task.abort();
            let _ = task.await;
        }
        // There is one blocking thread: all work given to it before is done.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        assert!(self.details.flush());
    }

    /// Whether all its tasks still run: none should ever end.
    pub fn is_alive(&self) -> bool {
        self.tasks.iter().all(|task| !task.is_finished())
    }
}
