//! A reload: reads the configuration again, and puts into effect what can change without a restart.
//!
//! [`crate::config::merge`] decides which keys these are. Connections, windows of the limit and caches stay. Callers:
//! [`super::serve`] builds it; SIGHUP ([`super::shutdown`]) and `POST /reload` ([`crate::admin`]) call it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::Signal;

use crate::admin::facts::ReloadFacts;
use crate::admin::reload::Reloads;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::config::{AdminConfig, Changes, Config, ConfigErrors, Examined, LogConfig, Settings, TlsConfig, merge};
use crate::serve::Public;
use crate::serve::connections::Connections;
use crate::serve::tls::certificate::Watched;
use crate::snapshots::Snapshots;
use crate::telemetry::access::{AccessLog, InEffect};
use crate::upstream::client::OriginClient;

use super::access_log;
use super::error::AppError;
use super::https::files;
use super::rules::{self, Fixed};
use super::systemd::Systemd;

/// Where the configuration came from, so that it can be read again.
pub struct ConfigSource {
    /// The configuration as it was read, without the ports that the system chose.
    pub config: Config,
    /// Reads file, environment and command line again, and checks them as at the start.
    pub read: Box<dyn Fn() -> Examined + Send + Sync>,
    /// Signals to reload since the start.
    pub hangups: Option<Signal>,
    /// Changes the log.
    pub log: Box<dyn Fn(&LogConfig) + Send + Sync>,
}

/// What a reload changes.
pub(super) struct Reload {
    /// `None`: there is nothing to read again.
    pub source: Option<ConfigSource>,
    /// The configuration in effect, as [`ConfigSource::config`]; one reload at a time.
    pub running: Mutex<Config>,
    pub settings: Settings,
    pub fixed: Fixed,
    pub public: Arc<Public>,
    pub connections: Connections,
    /// `None` offline.
    pub client: Option<OriginClient>,
    pub snapshots: Option<Snapshots>,
    pub cache: Cache,
    /// `None` without HTTPS.
    pub certificate: Option<Watched>,
    pub reloads: Reloads,
    pub access: InEffect,
    pub clock: Clock,
}

/// What becomes of the access log.
enum AccessChange {
    /// It stays.
    Same,
    /// This one takes its place; `None`: it is turned off.
    Other(Option<AccessLog>),
}

impl Reload {
    /// Reads the configuration and applies it; a configuration with mistakes changes nothing. It blocks. `None`: there
    /// is nothing to read.
    pub(super) fn reload(&self) -> Option<ReloadFacts> {
        let source = self.source.as_ref()?;
        let mut running = self.running.lock();
        Systemd::reloading();
        let texts = |errors: ConfigErrors| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let read = (source.read)().finish().map_err(texts);
        let read = read.and_then(|loaded| {
            let (next, changes) = merge(&running, &loaded.config);
            let access = Self::access(&running, &next).map_err(|error| vec![error.to_string()])?;
            Ok((loaded.warnings, next, changes, access))
        });
        let at = self.clock.now_wall().rfc3339();
        let report = match read {
            Ok((warnings, next, mut changes, access)) => {
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
                self.apply(&running, &next, &mut changes, source);
                self.log_requests(access);
                *running = next;
                let (applied, needs_restart) = (changes.applied.join(", "), changes.needs_restart.join(", "));
                if applied.is_empty() && needs_restart.is_empty() {
                    tracing::info!("reloaded: the configuration has not changed");
                } else {
                    tracing::info!(applied, needs_restart, "reloaded");
                }
                let Changes { applied, needs_restart } = changes;
                ReloadFacts { at, ok: true, applied, needs_restart, errors: Vec::new() }
            }
            Err(errors) => {
                if let Some(certificate) = &self.certificate {
                    certificate.look(None);
                }
                tracing::error!("the configuration has mistakes; the old one stays in effect:\n{}", errors.join("\n"));
                ReloadFacts { at, errors, ..ReloadFacts::default() }
            }
        };
        self.reloads.record(report.clone());
        Systemd::ready();
        Some(report)
    }

    fn apply(&self, running: &Config, next: &Config, changes: &mut Changes, source: &ConfigSource) {
        let config = self.in_effect(next);
        self.settings.store(config.clone());
        self.fixed.set_quotas(&config);
        let answers = &self.public.answers;
        answers.rules.store(Arc::new(self.fixed.rules(&config)));
        answers.constant_headers.store(Arc::new(rules::constant_headers(&config)));
        if running.rate_limit.requests_per_minute != next.rate_limit.requests_per_minute {
            // They name the limit.
            answers.finder.pages.store(Arc::new(rules::pages(&config)));
            self.cache.forget_documents();
        }
        if running.limits != next.limits || running.rate_limit.ipv6_prefix != next.rate_limit.ipv6_prefix {
            self.connections.set_room(rules::rooms(&config).0);
        }
        if let Some(client) = &self.client {
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
        let kept = |config: &Config| (config.mirror.keep, config.mirror.keep_daily);
        if kept(running) != kept(next)
            && let Some(snapshots) = &self.snapshots
            && let Err(error) = snapshots.tidy()
        {
            tracing::warn!(%error, "snapshots beyond mirror.keep could not be removed; the next publication tries again");
        }
    }

    /// What becomes of the access log. A new one is opened before anything else changes: its file may be a mistake.
    fn access(running: &Config, next: &Config) -> Result<AccessChange, AppError> {
        if running.access == next.access && running.log.format == next.log.format {
            return Ok(AccessChange::Same);
        }
        access_log::open(next).map(AccessChange::Other)
    }

    /// Changes the access log. Without a change, opens its file again, for programs that rotate it.
    fn log_requests(&self, access: AccessChange) {
        match access {
            AccessChange::Other(access) => self.access.store(access.map(Arc::new)),
            AccessChange::Same => {
                if let Some(access) = self.access.load().as_ref() {
                    access.reopen();
                }
            }
        }
    }

    /// A configuration with the addresses that are listened on.
    fn in_effect(&self, next: &Config) -> Config {
        let (now, next) = (self.settings.load(), next.clone());
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
    client.set_bounds(config.limits.origin_bytes, longest_pause(config));
    client.budget().set_ipv6_prefix(config.rate_limit.ipv6_prefix);
}

/// How long a failing origin is left alone at most.
pub(super) fn longest_pause(config: &Config) -> Duration {
    config.ttl.min(Duration::from_secs(10))
}
