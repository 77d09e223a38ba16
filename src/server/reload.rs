//! Effective configuration of requests and answers, at the start and at each reload; a reload puts into effect what can
//! change without a restart.
//!
//! [`crate::config::merge`] decides which keys these are. Connections, windows of the limit and caches stay. Callers:
//! [`super::serve`] builds it, and calls it for SIGHUP; `POST /reload` ([`crate::server::admin`]) call it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::config::{
    AdminConfig, Config, ConfigErrors, KeyChanges, Loaded, LogConfig, LogFormat, TlsConfig, UNCHANGED, Use, merge,
    refusal, rhythm,
};
use crate::edge::answer::InForce;
use crate::edge::answer::admit::Rules;
use crate::edge::answer::compose::ConstantHeaders;
use crate::edge::limit::{LimitConfig, Limiter};
use crate::edge::pages::{Pages, Site};
use crate::edge::serve::Public;
use crate::edge::serve::connections::{Connections, MostConnections};
use crate::edge::serve::tls::certificate::Watched;
use crate::edge::shared_limit::SharedLimit;
use crate::origin::client::OriginClient;
use crate::protocol::client_address::ClientIpConfig;
use crate::protocol::freshness::CacheControl;
use crate::protocol::hops::Pseudonym;
use crate::protocol::target::BasePath;
use crate::server::admin::facts::ReloadFacts;
use crate::server::admin::status::Status;
use crate::telemetry::access::AccessLog;
use crate::telemetry::findings::Kind;

use super::core::Core;
use super::error::AppError;
use super::sockets::{RESERVE, files, raise_descriptors, share_descriptors};
use super::systemd::Systemd;

/// Where the configuration came from, so that it can be read again.
pub struct ConfigSource {
    /// The configuration as it was read, without the ports that the system chose.
    pub config: Config,
    /// Reads file, environment and command line again, and checks them as at the start.
    pub read: Box<dyn Fn() -> Result<Loaded, ConfigErrors> + Send + Sync>,
    pub log: Box<dyn Fn(&LogConfig) + Send + Sync>,
}

pub(super) struct Reload {
    /// `None`: there is nothing to read again.
    pub source: Option<ConfigSource>,
    /// The configuration in effect, as [`ConfigSource::config`]; one reload at a time.
    pub running: Mutex<Config>,
    pub status: Arc<Status>,
    pub fixed: Fixed,
    pub public: Arc<Public>,
    pub connections: Connections,
    /// `None` without HTTPS.
    pub certificate: Option<Watched>,
}

impl Reload {
    /// Reads the configuration and applies it; a configuration with mistakes changes nothing. It blocks. `None`: there
    /// is nothing to read.
    pub(super) fn reload(&self) -> Option<ReloadFacts> {
        let source = self.source.as_ref()?;
        // Held to the end, so that reloads take turns. Order: this lock, then those of the certificate and of the
        // snapshots.
        let mut running = self.running.lock();
        Systemd::reloading();
        let texts = |errors: ConfigErrors| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let read = (source.read)().map_err(texts);
        let read = read.and_then(|loaded| {
            refusal(&running, &loaded.config).map_or(Ok(()), |why| Err(vec![why]))?;
            let (next, changes) = merge(&running, &loaded.config);
            // A new access log is opened before anything else changes: its file may be a mistake.
            let is_other = running.access != next.access || running.log.format != next.log.format;
            let access = is_other.then(|| open_access_log(&next)).transpose();
            let access = access.map_err(|error| vec![error.to_string()])?;
            Ok((loaded.warnings, next, changes, access))
        });
        let at = self.status.clock.now_wall().rfc3339();
        let report = match read {
            Ok((warnings, next, mut changes, access)) => {
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
                self.apply(&running, &next, &mut changes, source);
                match access {
                    Some(access) => self.status.access.store(access.map(Arc::new)),
                    // For programs that rotate it.
                    None => self.reopen_logs(),
                }
                *running = next;
                let (applied, needs_restart) = (changes.applied.join(", "), changes.needs_restart.join(", "));
                if applied.is_empty() && needs_restart.is_empty() {
                    tracing::info!("{UNCHANGED}");
                } else {
                    tracing::info!(applied, needs_restart, "reloaded");
                }
                let KeyChanges { applied, needs_restart } = changes;
                ReloadFacts { at, ok: true, applied, needs_restart, errors: Vec::new() }
            }
            Err(errors) => {
                if let Some(certificate) = &self.certificate {
                    certificate.look(None);
                }
                self.reopen_logs();
                let (finding, told) = (Kind::ReloadFailed.name(), errors.join("; "));
                tracing::error!(finding, "the configuration has mistakes; the old one stays in effect: {told}");
                ReloadFacts { at, errors, ..ReloadFacts::default() }
            }
        };
        self.status.reloads.record(report.clone());
        Systemd::ready();
        Some(report)
    }

    fn apply(&self, running: &Config, next: &Config, changes: &mut KeyChanges, source: &ConfigSource) {
        let config = self.in_effect(next);
        // Each part changes as a whole, but not all at one instant: a request meanwhile may have new settings and old
        // rules.
        self.status.settings.store(config.clone());
        self.fixed.set_quotas(&config);
        let answers = &self.public.answers;
        answers.in_force.store(Arc::new(self.fixed.in_force(&config)));
        if running.rate_limit.requests_per_minute != next.rate_limit.requests_per_minute {
            // They name the limit.
            // In front of forgetting: what is rendered from here on names the new limit.
            answers.finder.pages.store(Arc::new(self.fixed.pages_of(&config)));
            self.status.cache.forget_documents();
        }
        if running.limits != next.limits || running.rate_limit.ipv6_prefix != next.rate_limit.ipv6_prefix {
            self.connections.set_room(rooms(&config).0);
        }
        if let Some(client) = &self.status.origin {
            bound(client, &config);
        }
        if running.log != next.log {
            (source.log)(&next.log);
        }
        if let (Some(certificate), Some(tls)) = (&self.certificate, &next.tls)
            && certificate.look(Some(files(tls)))
            && !changes.applied.iter().any(|key| key.starts_with("tls."))
        {
            changes.applied.push("tls.cert".to_owned());
        }
        if running.mirror.keep != next.mirror.keep
            && let Some(snapshots) = self.status.snapshots.as_ref()
            && let Err(error) = snapshots.tidy()
        {
            tracing::warn!(%error, "snapshots beyond mirror.keep could not be removed; the next publication tries again");
        }
    }

    /// Opens the file of the access log again, if there is one.
    pub(super) fn reopen_logs(&self) {
        if let Some(access) = self.status.access.load().as_ref() {
            access.lines.reopen();
        }
    }

    /// A configuration with the addresses that are listened on.
    fn in_effect(&self, next: &Config) -> Config {
        let (now, next) = (self.status.settings.load(), next.clone());
        let listens = |tls: TlsConfig| {
            let listen = now.tls.as_ref().map_or_else(|| tls.listen.clone(), |now| now.listen.clone());
            TlsConfig { listen, ..tls }
        };
        Config {
            listen: now.listen.clone(),
            public_url: now.public_url.clone(),
            admin: AdminConfig { listen: now.admin.listen, ..next.admin },
            tls: next.tls.map(listens),
            ..next
        }
    }
}

/// Bounds the way to the origin.
pub(super) fn bound(client: &OriginClient, config: &Config) {
    client.set_longest_pause(longest_pause(config));
    client.budget().set_ipv6_prefix(config.rate_limit.ipv6_prefix);
    if config.usage() == Use::Mirror {
        client.budget().expect_refreshes(rhythm::due(config.ttl));
    }
}

/// How long a failing origin is left alone at most.
pub(super) fn longest_pause(config: &Config) -> Duration {
    config.ttl.min(Duration::from_secs(10))
}

/// A client's limit for pages and assets, as a multiple of the API's.
const PAGES: u32 = 10;

/// Inputs of rules besides the configuration. Reloads keep them.
#[derive(Clone)]
pub(super) struct Fixed {
    pub limiter: Arc<Limiter>,
    /// The limit of the fleet; `None`: this process counts for itself.
    pub shared: Option<Arc<SharedLimit>>,
    /// The limiter of pages and their assets.
    pub pages: Arc<Limiter>,
    /// Our name on requests to the origin; `None` without an origin.
    pub name: Option<Pseudonym>,
    pub has_dumps: bool,
    pub is_demo: bool,
}

impl Fixed {
    pub(super) fn new(core: &Core, has_dumps: bool) -> Self {
        let (settings, clock) = (&core.settings, &core.clock);
        let config = settings.load();
        let (api, pages) = limits(&config);
        let limiter = Arc::new(Limiter::new(&api));
        let store = config.rate_limit.store.clone();
        // Not connected yet.
        let shared = store.map(|store| SharedLimit::new(limiter.clone(), store, settings.clone(), clock.clone()));
        let shared = shared.map(Arc::new);
        let name = core.origin().map(|origin| origin.client.name().clone());
        Self { limiter, shared, pages: Arc::new(Limiter::new(&pages)), name, has_dumps, is_demo: core.is_demo }
    }

    pub(super) fn in_force(&self, config: &Config) -> InForce {
        InForce { rules: self.rules(config), constant_headers: constant_headers(config) }
    }

    fn rules(&self, config: &Config) -> Rules {
        let header = config.client_ip.header.clone();
        let has_origin = config.usage().has_origin();
        Rules {
            client_ip: ClientIpConfig { trusted_proxies: config.client_ip.trusted_proxies.clone(), header },
            limiter: self.limiter.clone(),
            shared: self.shared.clone(),
            pages: config.pages.enabled.then(|| self.pages.clone()),
            base_path: base_path(config),
            passthrough_paths: if has_origin { config.passthrough.paths.clone() } else { Vec::new() },
            passthrough_methods: config.passthrough.methods.clone(),
            name: self.name.clone(),
            dumps: config.pages.enabled && self.has_dumps,
        }
    }

    pub(super) fn pages_of(&self, config: &Config) -> Pages {
        let site = Site {
            public_url: config.public_url.as_str().to_owned(),
            usage: config.usage().as_str(),
            has_snapshots: config.usage() != Use::Shield,
            requests_per_minute: config.rate_limit.requests_per_minute.map_or(0, NonZeroU32::get),
            tiles: config.pages.tiles.as_ref().map(|tiles| tiles.as_str().to_owned()),
            tiles_credit: config.pages.tiles_credit.clone(),
        };
        Pages::new(site).of_demo(self.is_demo)
    }

    /// Sets new quotas; the windows stay.
    pub(super) fn set_quotas(&self, config: &Config) {
        let (api, pages) = limits(config);
        self.limiter.set_quotas(&api);
        self.pages.set_quotas(&pages);
    }
}

fn constant_headers(config: &Config) -> ConstantHeaders {
    let cache_control = CacheControl {
        ttl: config.ttl,
        stale_while_revalidate: config.cache.stale_while_revalidate,
        stale_if_error: config.cache.stale_if_error,
    };
    let passes = config.usage().has_origin() && !config.passthrough.paths.is_empty();
    let headers = ConstantHeaders::new(
        cache_control,
        config.usage() != Use::Offline,
        if passes { &config.passthrough.methods[..] } else { &[] },
    );
    match &config.pages.tiles {
        Some(tiles) => headers.with_tiles(tiles.origin()),
        None => headers,
    }
}

/// The path of `public_url`, if any.
pub(super) fn base_path(config: &Config) -> Option<BasePath> {
    BasePath::parse(config.public_url.path()).ok().filter(|base| !base.as_str().is_empty())
}

fn limits(config: &Config) -> (LimitConfig, LimitConfig) {
    let limits = &config.rate_limit;
    let of = |times: u32| {
        let rate = |limit: Option<NonZeroU32>| limit.map_or(0, NonZeroU32::get).saturating_mul(times);
        LimitConfig {
            requests_per_minute: rate(limits.requests_per_minute),
            ipv6_prefix: limits.ipv6_prefix,
            overrides: limits.overrides.iter().map(|over| (over.network, rate(over.requests_per_minute))).collect(),
            ..LimitConfig::default()
        }
    };
    (of(1), of(PAGES))
}

/// The limits on connections of clients and operators, as far as the system allows.
pub(super) fn rooms(config: &Config) -> (MostConnections, MostConnections) {
    let limits = &config.limits;
    let (wanted, each) = (limits.connections as usize, limits.connections_per_client as usize);
    let shares = share_descriptors(raise_descriptors(), wanted, each);
    let most = shares.clients;
    if most < wanted {
        let wanted_files = wanted as u64;
        let needed_files = wanted_files + wanted_files.clamp(*RESERVE.start(), *RESERVE.end());
        let why = "fewer connections than limits.connections: raise the limit on open files (ulimit -n, LimitNOFILE)";
        tracing::info!(wanted, most, needed_files, "{why}");
    }
    let ipv6_prefix = config.rate_limit.ipv6_prefix;
    let clients = MostConnections { name: "public", all: most, each: shares.each, ipv6_prefix };
    (clients, MostConnections { name: "admin", all: shares.operators, each: usize::MAX, ipv6_prefix })
}

/// The access log; `None`: it is off.
pub(super) fn open_access_log(config: &Config) -> Result<Option<AccessLog>, AppError> {
    let access = &config.access;
    if !access.enabled {
        return Ok(None);
    }
    let path =
        || access.file.as_ref().map_or_else(|| "on standard error".to_owned(), |path| path.display().to_string());
    let opened = AccessLog::open(access.file.as_deref(), config.log.format == LogFormat::Json);
    opened.map(Some).map_err(|source| AppError::AccessLog { path: path(), source })
}
