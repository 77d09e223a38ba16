//! The state behind the listeners: store, snapshot, the way to the origin, mirror. Also used by the commands.
//!
//! Callers: [`super`], [`crate::cli`].

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use url::Url;

use crate::api::links::Rewrite;
use crate::audit::Auditor;
use crate::audit::job::Audits;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::config::{Config, Details as DetailsMode, Edges as EdgesMode, Settings, Use};
use crate::fleet::replica::Follower;
use crate::fleet::replica::status::ReplicaStatus;
use crate::mirror::MirrorContext;
use crate::mirror::commands::Commands;
use crate::mirror::copies::Copies;
use crate::mirror::details::Details;
use crate::mirror::details::early::EarlyCopies;
use crate::mirror::details::worker::DetailWorker;
use crate::mirror::edges::EdgeLearner;
use crate::mirror::sweep::Sweeper;
use crate::mirror::task::Mirror;
use crate::proxy::{Proxy, ProxyConfig};
use crate::search::Searches;
use crate::snapshot::membership::Evidence;
use crate::snapshot::pointer::SnapshotPointer;
use crate::snapshots::{ORIGIN, Policy, Snapshots, SnapshotsError, follow};
use crate::store::{DataDir, OpenError, Store, StoreError};
use crate::telemetry::recent::Recent;
use crate::upstream::budget::Budget;
use crate::upstream::client::{ClientConfig, ClientError, OriginClient};
use crate::upstream::forward::Forwarder;
use crate::upstream::status::OriginStatus;
use crate::upstream::wire::Wire;

use super::error::AppError;
use super::reload::{bound, longest_pause};
use super::{fleet, keeper};

/// The state behind the listeners.
pub struct Core {
    /// The lock on the data directory.
    pub data_dir: DataDir,
    /// The store; `None` in shield use.
    pub store: Option<Arc<Store>>,
    /// The kept snapshots in it; `None` in shield use.
    pub snapshots: Option<Snapshots>,
    /// The current snapshot.
    pub current: SnapshotPointer,
    /// Hot answers.
    pub cache: Cache,
    /// The rewriting of `api_url`.
    pub rewrite: Rewrite,
    /// The clock.
    pub clock: Clock,
    /// Details; `None` in shield use.
    pub details: Option<Details>,
    /// Searches; `None` in shield use.
    pub(crate) searches: Option<Searches>,
    /// The way to the origin; `None` offline.
    pub origin: Option<Origin>,
    /// Commands to the mirror.
    pub commands: Commands,
    /// The mirror, if any.
    pub mirror: Option<Mirror>,
    /// Its sweeper.
    pub sweeper: Option<Sweeper>,
    /// Its worker for details.
    pub worker: Option<DetailWorker>,
    /// Learns how the origin answers odd requests.
    pub learner: Option<EdgeLearner>,
    /// Its auditor.
    pub auditor: Option<Auditor>,
    /// Takes requests for audits.
    pub audits: Audits,
    /// Follows an object store, or takes the first data of a mirror from it; `None` without `replica.url`.
    pub(crate) follower: Option<Follower>,
    /// The state of the replica.
    pub(crate) replica: ReplicaStatus,
    /// The last warnings and errors.
    pub(crate) recent: Recent,
    /// Why the bundle of `serve --bundle` was not imported; `None`: there is nothing to say.
    pub(crate) unused_bundle: Option<String>,
    /// Whether this is a demo: its data is invented.
    pub(crate) is_demo: bool,
    /// The configuration in effect.
    pub(crate) settings: Settings,
}

impl Core {
    /// Opens the data directory, loads the current snapshot, and prepares all services.
    ///
    /// # Errors
    /// When something is missing, held or broken; see [`AppError`].
    pub fn open(config: &Config) -> Result<Self, AppError> {
        let (clock, settings) = (Clock::system(), Settings::new(config.clone()));
        let data_dir = DataDir::open(&config.data_dir).map_err(AppError::Open)?;
        let current = SnapshotPointer::default();
        let cache = Cache::new(config.cache.max_bytes);
        let status = OriginStatus::default();
        let base = config.origin.url.as_ref().map(|url| address("origin.url", url.as_str())).transpose()?;
        let aliases = aliases(config)?;
        let rewrite = Rewrite::new(base.as_ref(), &aliases, config.public_url.as_str());
        let origin = match base {
            Some(base) => {
                let client = origin_client(config, base, &data_dir, status.clone(), &clock)?;
                let public = address("public_url", config.public_url.as_str())?;
                let names = aliases.into_iter().chain([public]);
                Some(Origin::new(config, &settings, client, names, &cache, &rewrite, &clock))
            }
            None => None,
        };
        let mut core = Self {
            data_dir,
            store: None,
            snapshots: None,
            current,
            cache,
            rewrite,
            clock,
            details: None,
            searches: None,
            origin,
            commands: Commands::default(),
            mirror: None,
            sweeper: None,
            worker: None,
            learner: None,
            auditor: None,
            audits: Audits::default(),
            follower: None,
            replica: ReplicaStatus::default(),
            recent: Recent::default(),
            unused_bundle: None,
            is_demo: false,
            settings,
        };
        if config.usage() == Use::Shield {
            status.update(|picture| picture.shield = true);
        } else {
            core.open_store(config, &status)?;
        }
        Ok(core)
    }

    fn open_store(&mut self, config: &Config, status: &OriginStatus) -> Result<(), AppError> {
        // What is lost can be fetched again.
        let refetches = self.origin.is_some() || config.usage() == Use::Replica;
        let (store, aside) = open_or_rebuild(&self.data_dir, refetches)?;
        let store = Arc::new(store);
        self.store = Some(store.clone());
        if let Some(told) = aside {
            status.error(&told, self.clock.now_wall());
        }
        self.remember_origin(config, &store)?;
        let evidence = store.evidence().unwrap_or_else(|error| {
            tracing::warn!(%error, "the stored lists of ambiguous terms cannot be read; a mirror fetches them again");
            Evidence::new()
        });
        let snapshots = snapshots(&self.settings, &store, &self.current, &self.clock);
        if let Err(error) = snapshots.restore() {
            let error = AppError::from(error);
            if !refetches {
                return Err(hopeless(error, store.path()));
            }
            tracing::error!(%error, "the stored snapshot cannot be served");
            if store.damage().is_some() {
                keeper::heal(&snapshots, Some(status), &self.clock);
            }
            if let Err(error) = snapshots.restore() {
                tracing::error!(%error, "no stored snapshot can be served; everything is fetched again");
            }
        }
        let used = config.mirror.edges == EdgesMode::Origin;
        snapshots.edges().set_use(used, self.origin.is_some());
        let newest = snapshots.newest().clone();
        let known = newest.load().as_ref().map(|newest| newest.meta.volatile.clone()).unwrap_or_default();
        let volatile = Arc::new(RwLock::new(known));
        self.snapshots = Some(snapshots.clone());
        let details = Details::open(store.clone(), self.cache.clone(), newest.clone())?;
        if let Some(origin) = &self.origin {
            let shared = MirrorContext {
                copies: Copies::new(origin.client.clone(), store.clone(), volatile),
                store,
                newest,
                details: details.clone(),
                edges: snapshots.edges().clone(),
                commands: self.commands.clone(),
                settings: self.settings.clone(),
                clock: self.clock.clone(),
            };
            origin.proxy.keep_early(EarlyCopies(shared.clone()));
            origin.client.budget().expect_refreshes();
            self.sweeper = Some(Sweeper(shared.clone()));
            self.learner = used.then(|| EdgeLearner(shared.clone()));
            self.auditor = Some(Auditor::new(shared.clone(), self.rewrite.clone(), self.audits.clone()));
            self.worker = Some(DetailWorker { shared: shared.clone(), all: config.mirror.details == DetailsMode::All });
            self.mirror = Some(Mirror::new(shared, snapshots, evidence));
        }
        self.details = Some(details);
        self.searches = Some(Searches::new(self.current.clone(), self.settings.clone()));
        self.follower = fleet::follower(config, self)?;
        Ok(())
    }

    /// Stores the origin's address with its data, for offline replicas.
    fn remember_origin(&mut self, config: &Config, store: &Store) -> Result<(), AppError> {
        if let Some(origin) = &self.origin {
            let base = origin.client.base().as_str();
            let kept = store.state(ORIGIN).ok().flatten();
            if kept.as_deref() != Some(base.as_bytes())
                && let Err(error) = store.put_state(ORIGIN, base.as_bytes())
            {
                tracing::warn!(%error, "the origin's address could not be stored");
            }
            return Ok(());
        }
        let kept = store.state(ORIGIN).unwrap_or_else(|error| {
            tracing::warn!(%error, "the origin's address cannot be read; links to it stay as they are");
            None
        });
        let kept = kept.and_then(|bytes| Url::parse(&String::from_utf8(bytes).ok()?).ok());
        let aliases = aliases(config)?;
        self.rewrite = Rewrite::new(kept.as_ref(), &aliases, config.public_url.as_str());
        Ok(())
    }
}

/// Looks whether there may be data. Of a directory that cannot be read, whoever opens it says why.
///
/// # Errors
/// When there is none.
pub(crate) fn expect_data(config: &Config) -> Result<(), AppError> {
    let path = &config.data_dir;
    if DataDir::has_store(path) || DataDir::expect_readable(path).is_err() {
        return Ok(());
    }
    // A relative path says nothing to somebody in another working directory.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    Err(if path.exists() { AppError::NoData(path) } else { AppError::NoDirectory(path) })
}

/// The snapshots of a data directory without a server, for commands. The first value keeps it locked. If the current
/// snapshot cannot be read, the others still can.
///
/// # Errors
/// When it is held, broken, or there is none.
pub(crate) fn open_snapshots(config: &Config) -> Result<(DataDir, Snapshots), AppError> {
    expect_data(config)?;
    let data_dir = DataDir::open(&config.data_dir).map_err(AppError::Open)?;
    restored(config, data_dir, false)
}

/// The same; creates the directory if necessary, and repairs a store that cannot be opened.
///
/// # Errors
/// When it is held or broken.
pub(crate) fn open_snapshots_anew(config: &Config) -> Result<(DataDir, Snapshots), AppError> {
    let data_dir = DataDir::open(&config.data_dir).map_err(AppError::Open)?;
    restored(config, data_dir, true)
}

fn restored(config: &Config, data_dir: DataDir, rebuilds: bool) -> Result<(DataDir, Snapshots), AppError> {
    let (store, _told) = open_or_rebuild(&data_dir, rebuilds)?;
    let settings = Settings::new(config.clone());
    let snapshots = snapshots(&settings, &Arc::new(store), &SnapshotPointer::default(), &Clock::system());
    match snapshots.restore() {
        Err(SnapshotsError::Store(error @ StoreError::Damaged(_))) => {
            tracing::error!("the current snapshot cannot be read: {error}");
        }
        restored => restored?,
    }
    Ok((data_dir, snapshots))
}

fn snapshots(settings: &Settings, store: &Arc<Store>, current: &SnapshotPointer, clock: &Clock) -> Snapshots {
    let config = settings.load();
    let origins = config.origin.url.iter().map(ToString::to_string);
    let origins = origins.chain(config.origin.aliases.iter().map(ToString::to_string)).collect();
    let policy = Policy { settings: settings.clone(), has_origin: config.usage() == Use::Mirror, origins };
    Snapshots::new(store.clone(), current.clone(), policy, clock.clone())
}

/// The same failure, with advice for the operator.
fn hopeless(error: AppError, path: &Path) -> AppError {
    match error {
        AppError::Store(StoreError::Damaged(detail)) | AppError::Open(OpenError::Damaged { detail, .. }) => {
            AppError::Damaged { path: path.display().to_string(), detail }
        }
        other => other,
    }
}

fn aliases(config: &Config) -> Result<Vec<Url>, AppError> {
    config.origin.aliases.iter().map(|alias| address("origin.aliases", alias.as_str())).collect()
}

fn address(key: &'static str, text: &str) -> Result<Url, AppError> {
    text.parse().map_err(|source| AppError::Address { key, source })
}

/// Opens the store. One that cannot be opened is repaired if `rebuilds`; then there is also a line for `/status`.
fn open_or_rebuild(data_dir: &DataDir, rebuilds: bool) -> Result<(Store, Option<String>), AppError> {
    match Store::open(data_dir) {
        Ok(store) => Ok((store, None)),
        Err(OpenError::Damaged { path, detail }) if rebuilds => {
            let failed = |source| AppError::Unhealed { path: path.display().to_string(), source };
            let healed = crate::store::salvage(data_dir).map_err(failed)?;
            let told = healed.text(&path, &detail);
            tracing::error!("{told}");
            let store = Store::open(data_dir).map_err(AppError::Open)?;
            // A replica fetches everything again.
            follow::forget(&store)?;
            Ok((store, Some(told)))
        }
        Err(error @ OpenError::Damaged { .. }) => {
            let path = data_dir.path().join("grandstand.redb");
            Err(hopeless(AppError::Open(error), &path))
        }
        Err(error) => Err(AppError::Open(error)),
    }
}

/// The way to the origin.
pub struct Origin {
    /// The polite client.
    pub client: OriginClient,
    /// Reads for clients.
    pub proxy: Proxy,
}

/// The client of one origin, with the budget whose ledger is in `data_dir`.
///
/// # Errors
/// When the CA file or the TLS library is unusable.
fn origin_client(
    config: &Config,
    base: Url,
    data_dir: &DataDir,
    status: OriginStatus,
    clock: &Clock,
) -> Result<(OriginClient, Wire), ClientError> {
    let path = data_dir.path().join("budget");
    let limit = config.origin.requests_per_minute.map(NonZeroU32::get).map(|limit| limit as usize);
    let budget = Budget::open(limit, Some(&path), clock.clone());
    let client = ClientConfig {
        base,
        timeout: config.origin.timeout,
        max_body: config.origin.max_body.min(crate::store::MAX_BODY as u64),
        longest_pause: longest_pause(config),
    };
    let wire = Wire::new(
        client.timeout,
        &config.origin.user_agent,
        config.origin.ca_file.as_deref(),
        config.origin.proxy.clone(),
    )?;
    let client = OriginClient::over(Arc::new(wire.clone()), client, budget, status, clock.clone());
    let client = client.with_cache_ttl(config.origin.cache_ttl);
    bound(&client, config);
    Ok((client, wire))
}

impl Origin {
    /// A proxy over `client`. `names`: other addresses under which clients and the origin name resources.
    pub fn new(
        config: &Config,
        settings: &Settings,
        (client, wire): (OriginClient, Wire),
        names: impl Iterator<Item = Url>,
        cache: &Cache,
        rewrite: &Rewrite,
        clock: &Clock,
    ) -> Self {
        let bases = std::iter::once(client.base().clone()).chain(names).collect();
        let bounds = ProxyConfig {
            wait: config.origin.wait,
            settings: settings.clone(),
            max_body: config.origin.max_body,
            allowed: config.passthrough.request_headers.clone(),
            bases,
            rewrite: rewrite.clone(),
            public_url: config.public_url.as_str().to_owned(),
        };
        let upstream = Forwarder::new(client.clone(), wire, clock.clone());
        let proxy = Proxy::new(upstream, cache.clone(), bounds, clock.clone());
        Self { client, proxy }
    }
}
