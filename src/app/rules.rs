//! The settings of requests and answers, made from a configuration: at the start, and again at each reload.
//!
//! Pure, except the limit on open files. Callers: [`super::serve`], [`super::reload`].

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::answer::admit::Rules;
use crate::answer::compose::ConstantHeaders;
use crate::clock::Clock;
use crate::config::{Config, Settings, Use};
use crate::limit::{LimitConfig, Limiter};
use crate::pages::{Pages, Site};
use crate::semantics::client_address::ClientIpConfig;
use crate::semantics::freshness::CacheControl;
use crate::semantics::hops::Pseudonym;
use crate::semantics::target::BasePath;
use crate::serve::connections::MostConnections;
use crate::shared_limit::SharedLimit;

use super::{descriptors, fleet_limit};

/// A client's limit for pages and assets, as a multiple of the API's.
const PAGES: u32 = 10;

/// Inputs of rules besides the configuration. Reloads keep them.
#[derive(Clone)]
pub(super) struct Fixed {
    /// The limiter of the API.
    pub limiter: Arc<Limiter>,
    /// The limit of the fleet; `None`: this process counts for itself.
    pub shared: Option<Arc<SharedLimit>>,
    /// The limiter of pages and their assets.
    pub pages: Arc<Limiter>,
    /// Our name on requests to the origin; `None` without an origin.
    pub name: Option<Pseudonym>,
    /// Whether there are dumps.
    pub has_dumps: bool,
    /// Whether learned answers of the origin to odd requests are used.
    pub edges: bool,
}

impl Fixed {
    /// Limiters that have admitted nobody yet.
    pub(super) fn new(
        settings: &Settings,
        name: Option<Pseudonym>,
        has_dumps: bool,
        edges: bool,
        clock: &Clock,
    ) -> Self {
        let (api, pages) = limits(&settings.load());
        let limiter = Arc::new(Limiter::new(&api));
        let shared = fleet_limit::shared(settings, &limiter, clock);
        Self { limiter, shared, pages: Arc::new(Limiter::new(&pages)), name, has_dumps, edges }
    }

    /// The rules of a configuration.
    pub(super) fn rules(&self, config: &Config) -> Rules {
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
            head: usize::try_from(config.limits.head).unwrap_or(usize::MAX),
            name: self.name.clone(),
            dumps: config.pages.enabled && self.has_dumps,
            edges: self.edges,
        }
    }

    /// Sets new quotas; the windows stay.
    pub(super) fn set_quotas(&self, config: &Config) {
        let (api, pages) = limits(config);
        self.limiter.set_quotas(&api);
        self.pages.set_quotas(&pages);
    }
}

/// Constant parts of answers.
pub(super) fn constant_headers(config: &Config) -> ConstantHeaders {
    let cache_control = CacheControl {
        ttl: config.ttl,
        stale_while_revalidate: config.cache.stale_while_revalidate,
        stale_if_error: config.cache.stale_if_error,
    };
    let passes = config.usage().has_origin() && !config.passthrough.paths.is_empty();
    ConstantHeaders::new(
        cache_control,
        config.usage() != Use::Offline,
        if passes { &config.passthrough.methods[..] } else { &[] },
    )
}

/// What renders pages.
pub(super) fn pages(config: &Config) -> Pages {
    Pages::new(Site {
        public_url: config.public_url.as_str().to_owned(),
        usage: config.usage().as_str(),
        has_snapshots: config.usage() != Use::Shield,
        requests_per_minute: config.rate_limit.requests_per_minute.map_or(0, NonZeroU32::get),
    })
}

/// The path of `public_url`, if any.
pub(super) fn base_path(config: &Config) -> Option<BasePath> {
    BasePath::parse(config.public_url.path()).ok().filter(|base| !base.as_str().is_empty())
}

/// The limits of the API, and of pages.
fn limits(config: &Config) -> (LimitConfig, LimitConfig) {
    let limits = &config.rate_limit;
    let of = |times: u32| {
        let rate = |limit: Option<NonZeroU32>| limit.map_or(0, NonZeroU32::get).saturating_mul(times);
        LimitConfig {
            requests_per_minute: rate(limits.requests_per_minute),
            ipv6_prefix: limits.ipv6_prefix,
            max_clients: limits.max_clients as usize,
            overrides: limits.overrides.iter().map(|over| (over.network, rate(over.requests_per_minute))).collect(),
        }
    };
    (of(1), of(PAGES))
}

/// The limits on connections of clients and operators, as far as the system allows.
pub(super) fn rooms(config: &Config) -> (MostConnections, MostConnections) {
    let wanted = config.limits.connections;
    let shares = descriptors::share(descriptors::raise(), wanted);
    let most = shares.clients;
    if most < wanted as usize {
        let why = "fewer connections than limits.connections: raise the limit on open files (ulimit -n, LimitNOFILE)";
        tracing::info!(wanted, most, "{why}");
    }
    let ipv6_prefix = config.rate_limit.ipv6_prefix;
    let each = config.limits.connections_per_client as usize;
    let clients = MostConnections { name: "public", all: most, each, ipv6_prefix };
    (clients, MostConnections { name: "admin", all: shares.operators, each: usize::MAX, ipv6_prefix })
}
