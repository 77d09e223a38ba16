//! The state behind the listeners: store, snapshot, origin, mirror. Shared by `serve` and `sync`.
//!
//! Callers: [`super`], [`crate::cli`].

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use url::Url;

use crate::api::rewrite::Rewrite;
use crate::api::taxonomy::VolatileKeys;
use crate::cache::Cache;
use crate::clock::{Clock, WallTime};
use crate::config::{Config, Details as DetailsMode, Use};
use crate::origin::audit::Auditor;
use crate::origin::audit::job::Audits;
use crate::origin::budget::Budget;
use crate::origin::client::{ClientConfig, ClientError, OriginClient};
use crate::origin::commands::Commands;
use crate::origin::copies::Copies;
use crate::origin::crawl::Crawler;
use crate::origin::details::Details;
use crate::origin::details::worker::DetailWorker;
use crate::origin::mirror::{Mirror, Rhythm};
use crate::origin::read_through::{ReadConfig, ReadThrough};
use crate::origin::status::OriginStatus;
use crate::origin::sweep::Sweeper;
use crate::origin::terms;
use crate::serve::listener::BindError;
use crate::snapshot::dataset::{Dataset, DatasetError};
use crate::snapshot::live::Live;
use crate::snapshot::membership::Evidence;
use crate::store::{DataDir, OpenError, Store, StoreError};

/// Why nothing can be started.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// An address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Open(OpenError),
    /// The store fails.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// What is stored cannot be served.
    #[error("the stored snapshot cannot be used: {0}")]
    Dataset(#[from] DatasetError),
    /// The origin cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The ledger of the origin's budget fails.
    #[error("the budget's ledger {path}: {source}")]
    Ledger {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// An address in the configuration is no URL.
    #[error("{key}: {source}")]
    Address {
        /// The key.
        key: &'static str,
        /// Why.
        source: url::ParseError,
    },
    /// A file that was damaged cannot be moved aside.
    #[error("{path} is damaged and cannot be moved aside: {source}")]
    MoveAside {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// The way to the origin.
pub struct Origin {
    /// The polite client.
    pub client: OriginClient,
    /// Reads that clients wait for.
    pub read: ReadThrough,
}

/// The state behind the listeners.
pub struct Core {
    /// The lock on the data directory.
    pub data_dir: DataDir,
    /// The served snapshot.
    pub live: Live,
    /// Hot answers.
    pub cache: Cache,
    /// What becomes of `api_url`.
    pub rewrite: Rewrite,
    /// The clock.
    pub clock: Clock,
    /// Details; `None` in shield use.
    pub details: Option<Details>,
    /// The way to the origin; `None` offline.
    pub origin: Option<Origin>,
    /// Commands to the mirror.
    pub commands: Commands,
    /// The mirror, where there is one.
    pub mirror: Option<Mirror>,
    /// Its sweeper.
    pub sweeper: Option<Sweeper>,
    /// Its worker for details, where they are all wanted.
    pub worker: Option<DetailWorker>,
    /// What compares it with its origin.
    pub auditor: Option<Auditor>,
    /// How audits are asked for.
    pub audits: Audits,
}

impl Core {
    /// Opens the data directory, reads back what is published, and prepares everything that runs on it.
    ///
    /// # Errors
    /// When something is missing, held or broken; see [`AppError`].
    pub fn open(config: &Config) -> Result<Self, AppError> {
        let clock = Clock::system();
        let data_dir = DataDir::open(&config.data_dir).map_err(AppError::Open)?;
        let live = Live::default();
        let cache = Cache::new(config.cache.max_bytes);
        let status = OriginStatus::default();
        let base = config.origin.url.as_ref().map(|url| address("origin.url", url.as_str())).transpose()?;
        let aliases = config.origin.aliases.iter().map(|alias| address("origin.aliases", alias.as_str()));
        let aliases = aliases.collect::<Result<Vec<_>, _>>()?;
        let rewrite = Rewrite::new(base.as_ref(), &aliases, config.public_url.as_str());
        let origin =
            base.map(|base| origin(config, base, &data_dir, status.clone(), &cache, &rewrite, &clock)).transpose()?;
        let mut core = Self {
            data_dir,
            live,
            cache,
            rewrite,
            clock,
            details: None,
            origin,
            commands: Commands::default(),
            mirror: None,
            sweeper: None,
            worker: None,
            auditor: None,
            audits: Audits::default(),
        };
        if config.usage() != Use::Shield {
            core.open_store(config, status)?;
        }
        Ok(core)
    }

    fn open_store(&mut self, config: &Config, status: OriginStatus) -> Result<(), AppError> {
        let store = Arc::new(open_or_rebuild(&self.data_dir, self.origin.is_some())?);
        self.remember_origin(config, &store)?;
        let evidence = terms::load(&store)?;
        let volatile = Arc::new(RwLock::new(VolatileKeys::default()));
        if let Err(error) = self.restore(&store, &evidence, &volatile) {
            if self.origin.is_none() {
                return Err(error);
            }
            tracing::error!(%error, "the stored snapshot cannot be served; it is fetched again");
        }
        let details = Details::open(store.clone(), status, self.cache.clone(), self.live.clone())?;
        if let Some(origin) = &self.origin {
            let copies = Copies::new(origin.client.clone(), store.clone(), volatile.clone());
            let copies = copies.with_cache_ttl(config.origin.cache_ttl);
            let rhythm =
                Rhythm { ttl: config.ttl, max_shrink: config.mirror.max_shrink, keep: config.mirror.keep as usize };
            self.sweeper = Some(Sweeper {
                copies: copies.clone(),
                store: store.clone(),
                live: self.live.clone(),
                commands: self.commands.clone(),
                every: config.mirror.sweep_every,
                clock: self.clock.clone(),
            });
            self.auditor = Some(Auditor {
                client: origin.client.clone(),
                live: self.live.clone(),
                details: details.clone(),
                volatile: volatile.clone(),
                commands: self.commands.clone(),
                audits: self.audits.clone(),
                cache_ttl: config.origin.cache_ttl,
                per_hour: config.mirror.audit_per_hour,
                clock: self.clock.clone(),
                passed: parking_lot::Mutex::default(),
            });
            let crawler = Crawler::new(copies, config.origin.cache_ttl);
            let (live, clock) = (self.live.clone(), self.clock.clone());
            let commands = self.commands.clone();
            let mirror = Mirror::new(crawler, store, live, volatile.clone(), commands, rhythm, clock, evidence);
            self.mirror = Some(mirror);
            self.worker = (config.mirror.details == DetailsMode::All).then(|| DetailWorker {
                details: details.clone(),
                client: origin.client.clone(),
                live: self.live.clone(),
                volatile,
                cache_ttl: config.origin.cache_ttl,
                verify_every: config.mirror.verify_details_every,
                clock: self.clock.clone(),
            });
        }
        self.details = Some(details);
        Ok(())
    }

    /// Keeps the origin's address beside its data, so that an offline replica still knows which addresses are its.
    fn remember_origin(&mut self, config: &Config, store: &Store) -> Result<(), AppError> {
        const STATE: &str = "origin";
        if let Some(origin) = &self.origin {
            let base = origin.client.base().as_str();
            if store.state(STATE)?.as_deref() != Some(base.as_bytes())
                && let Err(error) = store.put_state(STATE, base.as_bytes())
            {
                tracing::warn!(%error, "the origin's address cannot be kept");
            }
            return Ok(());
        }
        let kept = store.state(STATE)?.and_then(|bytes| Url::parse(&String::from_utf8(bytes).ok()?).ok());
        let aliases = config.origin.aliases.iter().map(|alias| address("origin.aliases", alias.as_str()));
        let aliases = aliases.collect::<Result<Vec<_>, _>>()?;
        self.rewrite = Rewrite::new(kept.as_ref(), &aliases, config.public_url.as_str());
        Ok(())
    }

    /// Serves what was published last.
    fn restore(
        &self,
        store: &Store,
        evidence: &Evidence,
        volatile: &Arc<RwLock<VolatileKeys>>,
    ) -> Result<(), AppError> {
        let Some((version, mut meta)) = store.current()? else { return Ok(()) };
        *volatile.write() = meta.volatile.clone();
        let dataset = Dataset::build(store.load(&version)?, evidence)?;
        // A clock that was set back must not make the data look confirmed in the future.
        meta.confirmed_ms = meta.confirmed_ms.min(self.clock.now_wall().as_millis());
        tracing::info!(
            snapshot = %dataset.id,
            listings = dataset.len(),
            confirmed = %WallTime::from_millis(meta.confirmed_ms).rfc3339(),
            "serving the snapshot published last"
        );
        self.live.swap(Arc::new(dataset), meta, version.seq);
        Ok(())
    }
}

fn address(key: &'static str, text: &str) -> Result<Url, AppError> {
    text.parse().map_err(|source| AppError::Address { key, source })
}

fn origin(
    config: &Config,
    base: Url,
    data_dir: &DataDir,
    status: OriginStatus,
    cache: &Cache,
    rewrite: &Rewrite,
    clock: &Clock,
) -> Result<Origin, AppError> {
    let path = data_dir.path().join("budget");
    let limit = config.origin.requests_per_minute.map(NonZeroU32::get).map(|limit| limit as usize);
    let budget = Budget::open(limit, Some(&path), clock.clone())
        .map_err(|source| AppError::Ledger { path: path.display().to_string(), source })?;
    let client = ClientConfig {
        base,
        timeout: config.origin.timeout,
        max_body: config.origin.max_body.min(crate::store::MAX_BODY as u64),
        longest_pause: config.ttl.min(std::time::Duration::from_secs(10)),
        user_agent: config.origin.user_agent.clone(),
    };
    let client = OriginClient::new(client, config.origin.ca_file.as_deref(), budget, status, clock.clone())?;
    let times = ReadConfig { ttl: config.ttl, stale_if_error: config.cache.stale_if_error, wait: config.origin.wait };
    let read = ReadThrough::new(client.clone(), cache.clone(), rewrite.clone(), times, clock.clone());
    Ok(Origin { client, read })
}

/// Opens the store; a damaged one is moved aside and rebuilt when there is an origin to rebuild it from.
fn open_or_rebuild(data_dir: &DataDir, has_origin: bool) -> Result<Store, AppError> {
    match Store::open(data_dir) {
        Ok(store) => Ok(store),
        Err(OpenError::Damaged { path, detail }) if has_origin => {
            let aside = set_aside(&path)?;
            tracing::error!(path = %path.display(), aside, detail, "the store is damaged; it is rebuilt from the origin");
            Store::open(data_dir).map_err(AppError::Open)
        }
        Err(error) => Err(AppError::Open(error)),
    }
}

fn set_aside(path: &Path) -> Result<String, AppError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let failed = |source| AppError::MoveAside { path: path.display().to_string(), source };
    std::fs::rename(path, &aside).map_err(failed)?;
    Ok(Path::new(&aside).display().to_string())
}
