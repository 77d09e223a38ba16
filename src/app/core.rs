//! The state behind the listeners: store, snapshot, origin, mirror. Shared by `serve` and `sync`.
//!
//! Callers: [`super`], [`crate::cli`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use url::Url;

use crate::api::rewrite::Rewrite;
use crate::api::taxonomy::VolatileKeys;
use crate::cache::Cache;
use crate::clock::{Clock, WallTime};
use crate::config::{Config, Details as DetailsMode, Use};
use crate::origin::audit::Auditor;
use crate::origin::audit::job::Audits;
use crate::origin::client::ClientError;
use crate::origin::commands::Commands;
use crate::origin::copies::Copies;
use crate::origin::crawl::Crawler;
use crate::origin::details::Details;
use crate::origin::details::worker::DetailWorker;
use crate::origin::early::Early;
use crate::origin::mirror::{Mirror, Rhythm};
use crate::origin::status::OriginStatus;
use crate::origin::sweep::Sweeper;
use crate::origin::terms;
use crate::semantics::freshness;
use crate::serve::listener::BindError;
use crate::snapshot::columns::{Names, Traits};
use crate::snapshot::dataset::{Dataset, DatasetError};
use crate::snapshot::live::Live;
use crate::snapshot::membership::Evidence;
use crate::snapshot::version::VersionMeta;
use crate::store::{DataDir, OpenError, Store, StoreError};

use super::keeper;
use super::origin::{self, Origin};

/// Why nothing can be started.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// An address is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The certificate of the HTTPS listener cannot be served.
    #[error("HTTPS cannot be served: {0}")]
    Certificate(String),
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
    /// The store is damaged, and there is no origin to rebuild it from.
    #[error(
        "the store {path} is damaged: {detail}. Replace it by an undamaged copy, or set origin.url \
         once to have it rebuilt from the origin"
    )]
    Damaged {
        /// The file.
        path: String,
        /// What does not fit.
        detail: String,
    },
    /// An address in the configuration is no URL.
    #[error("{key}: {source}")]
    Address {
        /// The key.
        key: &'static str,
        /// Why.
        source: url::ParseError,
    },
    /// A store that is damaged cannot be replaced by what can be read of it.
    #[error("{path} is damaged and cannot be healed: {source}")]
    Unhealed {
        /// The file.
        path: String,
        /// Why.
        source: StoreError,
    },
}

/// The state behind the listeners.
pub struct Core {
    /// The lock on the data directory.
    pub data_dir: DataDir,
    /// The store; `None` in shield use.
    pub store: Option<Arc<Store>>,
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
    /// Its worker for details.
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
        let origin = match base {
            Some(base) => {
                let client = origin::client(config, base, &data_dir, status.clone(), &clock)?;
                let public = address("public_url", config.public_url.as_str())?;
                let names = aliases.into_iter().chain([public]);
                Some(Origin::new(config, client, names, &cache, &rewrite, &clock)?)
            }
            None => None,
        };
        let mut core = Self {
            data_dir,
            store: None,
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
        if config.usage() == Use::Shield {
            status.set_shield();
        } else {
            core.open_store(config, &status)?;
        }
        Ok(core)
    }

    fn open_store(&mut self, config: &Config, status: &OriginStatus) -> Result<(), AppError> {
        let (store, aside) = open_or_rebuild(&self.data_dir, self.origin.is_some())?;
        let store = Arc::new(store);
        self.store = Some(store.clone());
        if let Some(told) = aside {
            status.error(told, self.clock.now_wall());
        }
        self.remember_origin(config, &store)?;
        let evidence = terms::load(&store).unwrap_or_else(|error| {
            tracing::warn!(%error, "the evidence on terms cannot be read; it will be collected again");
            Evidence::new()
        });
        let volatile = Arc::new(RwLock::new(VolatileKeys::default()));
        if let Err(error) = self.restore(config, &store, &evidence, &volatile) {
            if self.origin.is_none() {
                return Err(hopeless(error, store.path()));
            }
            tracing::error!(%error, "the stored snapshot cannot be served");
            if store.damage().is_some() {
                keeper::heal(&store, &self.live, Some(status), &self.clock);
            }
            if let Err(error) = self.restore(config, &store, &evidence, &volatile) {
                tracing::error!(%error, "no stored snapshot can be served; it is fetched again");
            }
        }
        let details = Details::open(store.clone(), self.cache.clone(), self.live.clone())?;
        if let Some(origin) = &self.origin {
            let copies = Copies::new(origin.client.clone(), store.clone(), volatile.clone());
            let copies = copies.with_cache_ttl(config.origin.cache_ttl);
            let (details_too, live) = (details.clone(), self.live.clone());
            origin.read.keep_early(Early { details: details_too, copies: copies.clone(), live });
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
            self.worker = Some(DetailWorker {
                all: config.mirror.details == DetailsMode::All,
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
            let kept = store.state(STATE).ok().flatten();
            if kept.as_deref() != Some(base.as_bytes())
                && let Err(error) = store.put_state(STATE, base.as_bytes())
            {
                tracing::warn!(%error, "the origin's address cannot be kept");
            }
            return Ok(());
        }
        let kept = store.state(STATE).unwrap_or_else(|error| {
            tracing::warn!(%error, "the origin's address cannot be read; links to it stay as they are");
            None
        });
        let kept = kept.and_then(|bytes| Url::parse(&String::from_utf8(bytes).ok()?).ok());
        let aliases = config.origin.aliases.iter().map(|alias| address("origin.aliases", alias.as_str()));
        let aliases = aliases.collect::<Result<Vec<_>, _>>()?;
        self.rewrite = Rewrite::new(kept.as_ref(), &aliases, config.public_url.as_str());
        Ok(())
    }

    /// Serves what was published last.
    fn restore(
        &self,
        config: &Config,
        store: &Store,
        evidence: &Evidence,
        volatile: &Arc<RwLock<VolatileKeys>>,
    ) -> Result<(), AppError> {
        let Some((version, mut meta)) = store.current()? else { return Ok(()) };
        *volatile.write() = meta.volatile.clone();
        let names = Arc::<Names>::default();
        let (content, traits) = store.load_and_read(&version, |summaries| {
            let mut traits = vec![Traits::UNREAD; summaries.len()];
            names.read(summaries, &mut traits);
            traits
        })?;
        let dataset = Dataset::of(content, names, traits, evidence)?;
        meta.confirmed_ms = believable(&meta, self.clock.now_wall(), config.ttl);
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

/// The instant for which stored data counts as confirmed. A stamp from the future (the clock was set back, or was ahead)
/// says nothing: then the data is as old as its publication, or so old that nobody takes it for fresh.
fn believable(meta: &VersionMeta, now: WallTime, ttl: Duration) -> i64 {
    let past = |stamp: i64| !freshness::is_from_the_future(WallTime::from_millis(stamp), now);
    let known = [meta.confirmed_ms, meta.published_ms].into_iter().find(|stamp| past(*stamp));
    let long_ago = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).saturating_mul(3).saturating_add(1000);
    known.unwrap_or_else(|| now.as_millis().saturating_sub(long_ago)).min(now.as_millis())
}

/// The same failure, with what an operator can do about it.
fn hopeless(error: AppError, path: &Path) -> AppError {
    match error {
        AppError::Store(StoreError::Damaged(detail)) | AppError::Open(OpenError::Damaged { detail, .. }) => {
            AppError::Damaged { path: path.display().to_string(), detail }
        }
        other => other,
    }
}

fn address(key: &'static str, text: &str) -> Result<Url, AppError> {
    text.parse().map_err(|source| AppError::Address { key, source })
}

/// Opens the store; one that is damaged beyond opening is replaced by what can be read of it when there is an origin to
/// fetch the rest from. Then there is also a line for `/status`.
fn open_or_rebuild(data_dir: &DataDir, has_origin: bool) -> Result<(Store, Option<String>), AppError> {
    match Store::open(data_dir) {
        Ok(store) => Ok((store, None)),
        Err(OpenError::Damaged { path, detail }) if has_origin => {
            let failed = |source| AppError::Unhealed { path: path.display().to_string(), source };
            let healed = crate::store::salvage(data_dir).map_err(failed)?;
            let told = keeper::healed_text(&path, &detail, &healed);
            tracing::error!("{told}");
            Store::open(data_dir).map(|store| (store, Some(told))).map_err(AppError::Open)
        }
        Err(error @ OpenError::Damaged { .. }) => {
            let path = data_dir.path().join("grandstand.redb");
            Err(hopeless(AppError::Open(error), &path))
        }
        Err(error) => Err(AppError::Open(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::version::Certificate;

    #[test]
    fn a_stamp_from_the_future_confirms_nothing() {
        let ttl = Duration::from_secs(300);
        let now = WallTime::from_seconds(1_000_000);
        let meta = |confirmed: i64, published: i64| VersionMeta {
            certificate: Certificate::Full,
            confirmed_ms: confirmed * 1000,
            published_ms: published * 1000,
            volatile: VolatileKeys::default(),
            volatile_values: std::collections::BTreeMap::new(),
            left_out: Vec::new(),
            open_points: Vec::new(),
            disproved: None,
        };
        for (confirmed, published, age) in
            [(999_990, 999_000, 10), (1_000_003, 999_000, 0), (1_003_600, 999_000, 1000), (1_003_600, 1_003_500, 901)]
        {
            let believed = believable(&meta(confirmed, published), now, ttl);
            assert_eq!(now.seconds_since(WallTime::from_millis(believed)), age, "{confirmed} {published}");
        }
    }
}
