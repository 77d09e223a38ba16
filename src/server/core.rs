//! State behind the listeners of each of the four uses. Commands open it, too.
//!
//! Callers: [`super`], [`crate::cli`].

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use url::Url;

use crate::api::links::Rewrite;
use crate::clock::Clock;
use crate::config::{Config, Details as DetailsMode, Settings, Use};
use crate::data::cache::Cache;
use crate::data::details::Details;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::snapshots::{ORIGIN, Policy, Snapshots, SnapshotsError, follow};
use crate::data::store::{DataDir, Store, StoreError};
use crate::edge::proxy::{Proxy, ProxyConfig};
use crate::edge::search::Searches;
use crate::fleet::replica::Follower;
use crate::mirror::MirrorContext;
use crate::mirror::commands::Commands;
use crate::mirror::copies::Copies;
use crate::mirror::details::worker::DetailWorker;
use crate::mirror::examiner::Examiner;
use crate::mirror::examiner::instants::Instants;
use crate::mirror::examiner::report::Audits;
use crate::mirror::sweep::Sweeper;
use crate::mirror::task;
use crate::origin::budget::Budget;
use crate::origin::client::{ClientConfig, ClientError, OriginClient};
use crate::origin::connector::Pipe;
use crate::origin::forward::Forwarder;
use crate::origin::status::OriginStatus;
use crate::origin::wire::Wire;

use super::error::AppError;
use super::reload::{bound, longest_pause};
use super::sockets::{raise_descriptors, share_descriptors};
use super::{fleet, maintenance};

/// The state behind the listeners: what every use has, and its role.
pub struct Core {
    pub data_dir: DataDir,
    /// Where bundles are made and received.
    pub(crate) scratch: PathBuf,
    pub current: SnapshotPointer,
    pub cache: Cache,
    /// The rewriting of `api_url`.
    pub rewrite: Rewrite,
    pub clock: Clock,
    /// Whether this is a demo: its data is invented.
    pub(crate) is_demo: bool,
    pub(crate) settings: Settings,
    pub(crate) role: Role,
}

pub(crate) enum Role {
    /// Reads through, and keeps no data.
    Shield(Box<Origin>),
    Mirror(Box<Mirror>),
    Replica(Box<Replica>),
    /// Serves what was imported.
    Offline(Data),
}

pub(crate) struct Mirror {
    pub data: Data,
    pub origin: Origin,
    pub commands: Commands,
    /// Keeps the list.
    pub lists: task::Mirror,
    pub sweeper: Sweeper,
    pub worker: DetailWorker,
    pub examiner: Examiner,
    pub instants: Instants,
    pub audits: Audits,
    /// Takes the first data from an object store; `None` without `replica.url`.
    pub seed: Option<Follower>,
}

pub(crate) struct Replica {
    pub data: Data,
    pub follower: Follower,
}

/// What is stored; cheap to clone.
#[derive(Clone)]
pub(crate) struct Data {
    pub snapshots: Snapshots,
    pub details: Details,
    pub searches: Searches,
}

impl Core {
    /// What is stored, offline, whatever the use. If the current snapshot cannot be read, the others still can. `anew`: the
    /// directory is made if it is missing, and a store that cannot be opened is repaired.
    pub(super) fn open_data(config: &Config, anew: bool) -> Result<Self, AppError> {
        if !anew {
            expect_data(config)?;
        }
        let (settings, clock) = (Settings::new(config.clone()), Clock::system());
        let data_dir = DataDir::open(&config.data_dir).map_err(AppError::Open)?;
        let (current, cache) = (SnapshotPointer::default(), Cache::new(config.cache.max_bytes));
        let store = Arc::new(open_or_rebuild(&data_dir, anew)?);
        let snapshots = snapshots(&settings, &store, &current, &clock);
        match snapshots.restore() {
            Err(SnapshotsError::Store(error @ StoreError::Damaged(_))) => {
                tracing::error!("the current snapshot cannot be read: {error}");
            }
            restored => restored?,
        }
        let details = Details::open(store.clone(), cache.clone(), snapshots.newest().clone())?;
        let searches = Searches::new(current.clone(), settings.clone());
        let role = Role::Offline(Data { snapshots, details, searches });
        let rewrite = Rewrite::new(None, &aliases(config)?, config.public_url.as_str());
        let scratch = data_dir.path().to_owned();
        Ok(Self { data_dir, scratch, current, cache, rewrite, clock, is_demo: false, settings, role })
    }

    /// Opens the data directory, loads the current snapshot, and prepares all services. Fails if something is missing, held
    /// or broken.
    pub fn open(config: &Config) -> Result<Self, AppError> {
        Self::open_with(config, Clock::system(), None)
    }

    /// The same with another clock; with a pipe, connections to the origin are pipes.
    pub(super) fn open_with(config: &Config, clock: Clock, pipe: Option<Pipe>) -> Result<Self, AppError> {
        let settings = Settings::new(config.clone());
        // Its lock first: from here on nobody else changes what is in the directory.
        let data_dir = DataDir::open(&config.data_dir).map_err(AppError::Open)?;
        let (current, cache, status) =
            (SnapshotPointer::default(), Cache::new(config.cache.max_bytes), OriginStatus::default());
        let base = config.origin.url.as_ref().map(|url| address("origin.url", url.as_str())).transpose()?;
        let aliases = aliases(config)?;
        let mut rewrite = Rewrite::new(base.as_ref(), &aliases, config.public_url.as_str());
        let origin = match base {
            Some(base) => {
                let client = origin_client(config, base, &data_dir, status.clone(), &clock, pipe)?;
                let public = address("public_url", config.public_url.as_str())?;
                let names = aliases.iter().cloned().chain([public]);
                Some(Origin::new(config, &settings, client, names, &cache, &rewrite, &clock))
            }
            None => None,
        };
        let usage = config.usage();
        let open = || Data::open(config, &data_dir, &settings, &current, &cache, &clock);
        let role = match (usage, origin) {
            (Use::Shield, Some(origin)) => {
                status.update(|picture| picture.shield = true);
                Role::Shield(Box::new(origin))
            }
            (_, Some(origin)) => {
                let mirror = Mirror::of(open()?, origin, config, &data_dir, &settings, &clock)?;
                Role::Mirror(Box::new(mirror))
            }
            (_, None) => {
                let data = open()?;
                // Its data may have links to the origin that it was copied from.
                rewrite = Rewrite::new(data.origin().as_ref(), &aliases, config.public_url.as_str());
                match fleet::follower(config, &data, &data_dir, &clock)? {
                    Some(follower) => Role::Replica(Box::new(Replica { data, follower })),
                    None => Role::Offline(data),
                }
            }
        };
        let scratch = data_dir.path().to_owned();
        Ok(Self { data_dir, scratch, current, cache, rewrite, clock, is_demo: false, settings, role })
    }

    /// The way to the origin; `None` without one.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match &self.role {
            Role::Shield(origin) => Some(origin),
            Role::Mirror(mirror) => Some(&mirror.origin),
            Role::Replica(_) | Role::Offline(_) => None,
        }
    }

    /// Stored data; `None` in shield use.
    pub(crate) const fn data(&self) -> Option<&Data> {
        match &self.role {
            Role::Shield(_) => None,
            Role::Mirror(mirror) => Some(&mirror.data),
            Role::Replica(replica) => Some(&replica.data),
            Role::Offline(data) => Some(data),
        }
    }

    /// What asks the origin about instants; `None`: nobody copies it.
    pub(crate) const fn instants(&self) -> Option<&Instants> {
        match &self.role {
            Role::Mirror(mirror) => Some(&mirror.instants),
            Role::Shield(_) | Role::Replica(_) | Role::Offline(_) => None,
        }
    }

    /// What takes commands to refresh; `None`: nothing can be refreshed.
    pub(crate) const fn commands(&self) -> Option<&Commands> {
        match &self.role {
            Role::Mirror(mirror) => Some(&mirror.commands),
            Role::Replica(replica) => Some(&replica.follower.commands),
            Role::Shield(_) | Role::Offline(_) => None,
        }
    }
}

impl Data {
    fn open(
        config: &Config,
        data_dir: &DataDir,
        settings: &Settings,
        current: &SnapshotPointer,
        cache: &Cache,
        clock: &Clock,
    ) -> Result<Self, AppError> {
        let usage = config.usage();
        // What is lost can be fetched again.
        let refetches = usage.is_confirmed();
        let store = Arc::new(open_or_rebuild(data_dir, refetches)?);
        let snapshots = snapshots(settings, &store, current, clock);
        if let Err(error) = snapshots.restore() {
            let error = AppError::from(error);
            if !refetches {
                return Err(hopeless(error, store.path()));
            }
            tracing::error!(%error, "the stored snapshot cannot be served");
            if store.damage().is_some() {
                maintenance::heal(&snapshots);
            }
            if let Err(error) = snapshots.restore() {
                tracing::error!(%error, "no stored snapshot can be served; everything is fetched again");
            }
        }
        snapshots.verdicts().ignore(usage == Use::Mirror && config.mirror.examine_per_hour == 0);
        let details = Details::open(store.clone(), cache.clone(), snapshots.newest().clone())?;
        let searches = Searches::new(current.clone(), settings.clone());
        Ok(Self { snapshots, details, searches })
    }

    /// The address of the origin that the data was copied from.
    fn origin(&self) -> Option<Url> {
        let kept = self.snapshots.store().state(ORIGIN).unwrap_or_else(|error| {
            tracing::warn!(%error, "the origin's address cannot be read; links to it stay as they are");
            None
        });
        kept.and_then(|bytes| Url::parse(&String::from_utf8(bytes).ok()?).ok())
    }

    /// Stores the origin's address with its data, for offline replicas.
    fn remember_origin(&self, base: &Url) {
        let store = self.snapshots.store();
        let kept = store.state(ORIGIN).ok().flatten();
        if kept.as_deref() != Some(base.as_str().as_bytes())
            && let Err(error) = store.put_state(ORIGIN, base.as_str().as_bytes())
        {
            tracing::warn!(%error, "the origin's address could not be stored");
        }
    }
}

impl Mirror {
    fn of(
        data: Data,
        origin: Origin,
        config: &Config,
        data_dir: &DataDir,
        settings: &Settings,
        clock: &Clock,
    ) -> Result<Self, AppError> {
        data.remember_origin(origin.client.base());
        let Data { snapshots, details, .. } = &data;
        let store = snapshots.store();
        let evidence = store.evidence().unwrap_or_else(|error| {
            tracing::warn!(%error, "the stored lists of ambiguous terms cannot be read; a mirror fetches them again");
            Evidence::new()
        });
        let newest = snapshots.newest().clone();
        let known = newest.get().as_ref().map(|newest| newest.meta.volatile.clone()).unwrap_or_default();
        let (commands, audits) = (Commands::default(), Audits::default());
        let shared = MirrorContext {
            copies: Copies::new(origin.client.clone(), store.clone(), Arc::new(RwLock::new(known)), newest.clone()),
            store: store.clone(),
            newest,
            details: details.clone(),
            verdicts: snapshots.verdicts().clone(),
            commands: commands.clone(),
            settings: settings.clone(),
            clock: clock.clone(),
        };
        Ok(Self {
            seed: fleet::follower(config, &data, data_dir, clock)?,
            sweeper: Sweeper(shared.clone()),
            examiner: Examiner::new(shared.clone(), audits.clone()),
            instants: Instants::new(shared.clone()),
            worker: DetailWorker { shared: shared.clone(), all: config.mirror.details == DetailsMode::All },
            lists: task::Mirror::new(shared, snapshots.clone(), evidence),
            data,
            origin,
            commands,
            audits,
        })
    }
}

/// Fails if there can be no data. For a directory that cannot be read, opening it gives the reason.
pub(crate) fn expect_data(config: &Config) -> Result<(), AppError> {
    let path = &config.data_dir;
    if DataDir::has_store(path) || DataDir::expect_readable(path).is_err() {
        return Ok(());
    }
    // A relative path says nothing to somebody in another working directory.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
    Err(if path.exists() { AppError::NoData(path) } else { AppError::NoDirectory(path) })
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
        AppError::Store(StoreError::Damaged(detail)) | AppError::Open(StoreError::Damaged(detail)) => {
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

/// Opens the store. One that cannot be opened is repaired if `rebuilds`.
fn open_or_rebuild(data_dir: &DataDir, rebuilds: bool) -> Result<Store, AppError> {
    match Store::open(data_dir) {
        Ok(store) => Ok(store),
        Err(StoreError::Damaged(detail)) if rebuilds => {
            let path = data_dir.path().join("grandstand.redb").display().to_string();
            let healed = crate::data::store::salvage(data_dir).map_err(|source| AppError::Unhealed { path, source })?;
            let store = Store::open(data_dir).map_err(AppError::Open)?;
            store.tell_repaired(healed.text(store.path(), &detail));
            // A replica fetches everything again.
            follow::forget(&store)?;
            Ok(store)
        }
        Err(error) => Err(hopeless(AppError::Open(error), &data_dir.path().join("grandstand.redb"))),
    }
}

pub struct Origin {
    pub client: OriginClient,
    pub proxy: Proxy,
}

/// The client of one origin, with the budget whose ledger is in `data_dir`.
fn origin_client(
    config: &Config,
    base: Url,
    data_dir: &DataDir,
    status: OriginStatus,
    clock: &Clock,
    pipe: Option<Pipe>,
) -> Result<(OriginClient, Wire), ClientError> {
    let path = data_dir.path().join("budget");
    let limit = config.origin.requests_per_minute.map(NonZeroU32::get).map(|limit| limit as usize);
    let budget = Budget::open(limit, Some(&path), clock.clone());
    let client = ClientConfig {
        base,
        timeout: config.origin.timeout,
        max_body: config.origin.max_body.min(crate::data::store::MAX_BODY as u64),
        longest_pause: longest_pause(config),
    };
    let wire = Wire::through(
        pipe,
        client.timeout,
        &config.origin.user_agent,
        config.origin.ca_file.as_deref(),
        config.origin.proxy.clone(),
    )?;
    let client = OriginClient::over(Arc::new(wire.clone()), client, budget, status, clock.clone());
    let on_the_wire = share_descriptors(raise_descriptors(), 0, 0).origin;
    let client = client.with_cache_ttl(config.origin.cache_ttl).with_room(config.limits.origin_bytes);
    let client = client.with_most_on_the_wire(on_the_wire);
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
