//! The composition root: builds the state, wires the services, runs them.
//!
//! The only room that knows all others. Callers: [`crate::cli`].

mod access_log;
pub(crate) mod core;
pub(crate) mod descriptors;
mod fleet_limit;
pub(crate) mod https;
pub(crate) mod keeper;
pub(crate) mod origin;
pub(crate) mod shutdown;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::listeners::{L4BufferSettings, ListenerConfig};
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, background_service};
use pingora::services::listening::Service;
use prometheus_client::registry::Registry;

use crate::admin::Admin;
use crate::admin::bundle::Bundles;
use crate::admin::front::AdminFront;
use crate::admin::purge::Purger;
use crate::admin::sampler::Sampler;
use crate::admin::status::Status;
use crate::answer::admit::Rules;
use crate::answer::compose::Standing;
use crate::answer::find::Finder;
use crate::answer::respond::Responder;
use crate::bundle::signature::{SignatureError, TrustedKeys};
use crate::config::{Config, TrustedKey, Use};
use crate::dumps::Dumps;
use crate::limit::{LimitConfig, Limiter};
use crate::pages::{Pages, Site};
use crate::semantics::client_address::ClientIpConfig;
use crate::semantics::freshness::CacheControl;
use crate::semantics::path::BasePath;
use crate::serve::connections::{Connections, Room};
use crate::serve::gate::Gate;
use crate::serve::in_flight::InFlight;
use crate::serve::listener::{self, Bound, Prebound};
use crate::serve::public::Public;
use crate::serve::request_head::HeadBounds;
use crate::store::nameless;
use crate::telemetry::Telemetry;
use crate::telemetry::connections::ConnectionCounters;
use crate::telemetry::history::History;
use crate::versions::Versions;
use crate::versions::kept::Kept;

use self::core::{AppError, Core};
use self::https::Https;
use self::keeper::Keeper;

/// Sockets, bound before anything else starts.
pub struct Sockets {
    public: Vec<Bound>,
    tls: Vec<Bound>,
    admin: Bound,
}

impl Sockets {
    /// Binds every address of a configuration.
    ///
    /// # Errors
    /// When one is in use; then nothing was started.
    pub fn bind(config: &Config) -> Result<Self, AppError> {
        let public = config.listen.iter().map(|address| listener::bind(*address)).collect::<Result<_, _>>()?;
        let tls = config.tls.iter().flat_map(|tls| &tls.listen);
        let tls = tls.map(|address| listener::bind(*address)).collect::<Result<_, _>>()?;
        Ok(Self { public, tls, admin: listener::bind(config.admin.listen)? })
    }

    /// The public addresses with their real ports.
    pub fn public(&self) -> Vec<std::net::SocketAddr> {
        self.public.iter().map(|bound| bound.address).collect()
    }

    /// The public addresses with TLS, with their real ports.
    pub fn tls(&self) -> Vec<std::net::SocketAddr> {
        self.tls.iter().map(|bound| bound.address).collect()
    }

    /// The operator's address with its real port.
    pub const fn admin(&self) -> std::net::SocketAddr {
        self.admin.address
    }
}

/// A future that runs as a service until it ends or the process stops.
struct Task(Mutex<Option<futures_util::future::BoxFuture<'static, ()>>>);

impl Task {
    fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(future))))
    }
}

#[async_trait]
impl BackgroundService for Task {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        let Some(future) = self.0.lock().take() else { return };
        tokio::select! {
            () = future => {}
            _ = shutdown.changed() => {}
        }
    }
}

/// Serves until a signal comes, and ends the process.
///
/// # Errors
/// When something is wrong before the first request is accepted.
pub fn serve(config: &Config, sockets: Sockets, core: Core) -> Result<std::convert::Infallible, AppError> {
    let mut registry = Registry::default();
    let telemetry = Telemetry::new(&mut registry);
    let counters = ConnectionCounters::new(&mut registry);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut server = Server::new_with_opt_and_conf(
        None,
        ServerConf {
            threads,
            grace_period_seconds: Some(config.drain.as_secs() + 5),
            graceful_shutdown_timeout_seconds: Some(1),
            ..ServerConf::default()
        },
    );
    let in_flight = InFlight::default();
    let limiter = Arc::new(limiter(config, 1));
    let shared = fleet_limit::shared(config, &limiter, &core.clock);
    let access = access_log::open(config)?;
    let https = config.tls.as_ref().map(|tls| Https::new(tls, &core.clock)).transpose()?;
    let status = Status {
        shared: shared.clone(),
        access: access.clone(),
        ..status(config, &sockets, &core, https.as_ref(), &limiter, &telemetry)
    };
    let status = Arc::new(status);
    let sampler = Sampler(status.clone());
    let keeper = Keeper {
        data_dir: core.data_dir.clone(),
        versions: core.versions.clone(),
        origin: core.origin.as_ref().map(|origin| origin.client.status().clone()),
        admin: sockets.admin(),
        clock: core.clock.clone(),
    };
    keeper.start();
    let commands = core.mirror.is_some().then(|| core.commands.clone());
    let purger = Purger {
        cache: core.cache.clone(),
        proxy: core.origin.as_ref().map(|origin| origin.proxy.clone()),
        base_path: base_path(config),
    };
    let dumps = dumps(config, &core);
    let bundles = bundles(config, &core, dumps.clone())?;
    let (versions, registry, config_of_admin) = (core.versions.clone(), Mutex::new(registry), config.admin.clone());
    let admin = Admin { status, commands, versions, bundles, purger, registry, config: config_of_admin };
    let mut public = public(config, &core, limiter, telemetry, in_flight.clone(), dumps);
    public.answers.rules.shared.clone_from(&shared);
    public.answers.access.clone_from(&access);
    let public = Arc::new(public);
    let (connections, of_operators) = connections(config, counters);

    for address in sockets.public() {
        tracing::info!(%address, r#use = config.usage().as_str(), "serving");
    }
    for address in sockets.tls() {
        tracing::info!(%address, r#use = config.usage().as_str(), "serving HTTPS");
    }
    tracing::info!(address = %sockets.admin(), "admin listener");
    if config.usage() == Use::Offline && core.live.load().is_none() {
        tracing::warn!(
            "there is no data to serve yet: run `grandstand bundle import FILE`, or start with --bundle FILE"
        );
    }

    let mut service = Service::new("public".to_owned(), Gate::new(&public, &connections));
    sockets.public().into_iter().map(buffered).for_each(|listener| service.add_listener(listener));
    let mut operator = Service::new(
        "admin".to_owned(),
        AdminFront::new(admin, in_flight.clone(), of_operators, HeadBounds::new(head_bytes(config))),
    );
    operator.threads = Some(1);
    operator.add_listener(ListenerConfig::tcp(sockets.admin().to_string()));
    server.add_service(Prebound::new(service, sockets.public));
    server.add_service(Prebound::new(operator, vec![sockets.admin]));
    let mut certificate = None;
    if let Some(https) = https {
        let (mut service, nudge) = https.start(&public, &connections)?;
        certificate = Some(nudge);
        sockets.tls.iter().map(|bound| buffered(bound.address)).for_each(|listener| service.add_listener(listener));
        server.add_service(Prebound::new(service, sockets.tls));
    }
    server.add_service(background_service("history", Task::new(sampler.run())));
    if let Some(shared) = shared {
        server.add_service(background_service("limit", Task::new(shared.run())));
    }
    if let Some(mirror) = core.mirror {
        server.add_service(background_service("mirror", Task::new(mirror.run())));
    }
    if let Some(sweeper) = core.sweeper {
        server.add_service(background_service("sweep", Task::new(sweeper.run())));
    }
    if let Some(auditor) = core.auditor {
        server.add_service(background_service("audit", Task::new(auditor.run())));
    }
    if let Some(worker) = core.worker {
        server.add_service(background_service("details", Task::new(worker.run())));
    }
    shutdown::watch(&server, in_flight, config.drain, core.details, access);
    server.run(RunArgs { shutdown_signal: Box::new(shutdown::Signals { certificate }) });
    std::process::exit(0)
}

/// What the admin listener tells.
fn status(
    config: &Config,
    sockets: &Sockets,
    core: &Core,
    https: Option<&Https>,
    limiter: &Arc<Limiter>,
    telemetry: &Telemetry,
) -> Status {
    Status {
        limiter: limiter.clone(),
        shared: None,
        access: None,
        usage: config.usage(),
        listen: sockets.public(),
        tls: https.map(|https| https.status(sockets.tls())),
        live: core.live.clone(),
        origin: core.origin.as_ref().map(|origin| origin.client.status().clone()),
        budget: core.origin.as_ref().map(|origin| origin.client.budget().clone()),
        details: core.details.clone(),
        audits: core.auditor.is_some().then(|| core.audits.clone()),
        store: core.store.clone(),
        versions: core.versions.clone(),
        cache: core.cache.clone(),
        telemetry: telemetry.clone(),
        ttl: config.ttl,
        max_age: config.bundle.max_age,
        clock: core.clock.clone(),
        origin_url: config.origin.url.as_ref().map(|url| url.as_str().to_owned()),
        history: History::default(),
        recent: core.recent.clone(),
    }
}

/// The files that are offered; `None` in shield use.
fn dumps(config: &Config, core: &Core) -> Option<Dumps> {
    let (live, clock, data_dir) = (core.live.clone(), core.clock.clone(), core.data_dir.path().to_owned());
    core.details.clone().map(|details| Dumps::new(live, details, data_dir, config.ttl, clock))
}

fn bundles(config: &Config, core: &Core, dumps: Option<Dumps>) -> Result<Bundles, AppError> {
    if core.versions.is_some()
        && let Err(error) = nameless::sweep(&config.data_dir)
    {
        tracing::warn!(%error, "leftover files in the data directory could not be removed");
    }
    Ok(Bundles {
        versions: core.versions.clone(),
        details: core.details.clone(),
        dumps,
        trusted: trusted_keys(config)?,
        most: config.bundle.max_size,
        data_dir: config.data_dir.clone(),
        clock: core.clock.clone(),
        turn: Arc::default(),
        uploading: Arc::default(),
    })
}

/// A public listener. Heads are read into the session's buffers; complete answers bypass the write buffer.
fn buffered(address: std::net::SocketAddr) -> ListenerConfig {
    ListenerConfig::tcp(address.to_string()).l4_buffer(L4BufferSettings::default().read(0))
}

/// The path of `public_url`, if any.
fn base_path(config: &Config) -> Option<BasePath> {
    BasePath::parse(config.public_url.path()).ok().filter(|base| !base.as_str().is_empty())
}

/// The keys whose bundles are imported; empty: signatures are not required.
///
/// # Errors
/// When a key is invalid.
pub(crate) fn trusted_keys(config: &Config) -> Result<TrustedKeys, SignatureError> {
    TrustedKeys::parse(config.bundle.trusted_keys.iter().map(TrustedKey::as_str))
}

/// The limits on connections of clients and operators, as far as the system allows.
fn connections(config: &Config, counters: ConnectionCounters) -> (Connections, Connections) {
    let wanted = config.limits.connections;
    let shares = descriptors::share(descriptors::raise(), wanted);
    let most = shares.clients;
    if most < wanted as usize {
        let why = "fewer connections than limits.connections: raise the limit on open files (ulimit -n, LimitNOFILE)";
        tracing::info!(wanted, most, "{why}");
    }
    let ipv6_prefix = config.rate_limit.ipv6_prefix;
    let each = config.limits.connections_per_client as usize;
    let clients = Room { name: "public", all: most, each, ipv6_prefix };
    let operators = Room { name: "admin", all: shares.operators, each: usize::MAX, ipv6_prefix };
    (Connections::new(clients, counters), Connections::new(operators, ConnectionCounters::default()))
}

/// `limits.head`.
fn head_bytes(config: &Config) -> usize {
    usize::try_from(config.limits.head).unwrap_or(usize::MAX)
}

/// How many times as many requests for pages and their assets a client has.
const PAGES: u32 = 10;

/// The configured limit, and so many times as much of it.
fn limiter(config: &Config, times: u32) -> Limiter {
    let limits = &config.rate_limit;
    let rate = |limit: Option<std::num::NonZeroU32>| limit.map_or(0, std::num::NonZeroU32::get).saturating_mul(times);
    Limiter::new(&LimitConfig {
        requests_per_minute: rate(limits.requests_per_minute),
        ipv6_prefix: limits.ipv6_prefix,
        max_clients: limits.max_clients as usize,
        overrides: limits.overrides.iter().map(|over| (over.network, rate(over.requests_per_minute))).collect(),
    })
}

fn public(
    config: &Config,
    core: &Core,
    limiter: Arc<Limiter>,
    telemetry: Telemetry,
    in_flight: InFlight,
    dumps: Option<Dumps>,
) -> Public {
    let header = config.client_ip.header.as_str().parse().unwrap_or_default();
    let offline = config.usage() == Use::Offline;
    let passes = !offline && !config.passthrough.paths.is_empty();
    let passthrough_methods = if passes { &config.passthrough.methods[..] } else { &[] };
    let rules = Rules {
        client_ip: ClientIpConfig { trusted_proxies: config.client_ip.trusted_proxies.clone(), header },
        limiter,
        shared: None,
        pages: config.pages.enabled.then(|| Arc::new(self::limiter(config, PAGES))),
        base_path: base_path(config),
        passthrough_paths: if offline { Vec::new() } else { config.passthrough.paths.clone() },
        passthrough_methods: config.passthrough.methods.clone(),
        head: head_bytes(config),
        name: core.origin.as_ref().map(|origin| origin.client.name().clone()),
        dumps: config.pages.enabled && dumps.is_some(),
    };
    let finder = Finder {
        live: core.live.clone(),
        cache: core.cache.clone(),
        details: core.details.clone(),
        proxy: core.origin.as_ref().map(|origin| origin.proxy.clone()),
        rewrite: core.rewrite.clone(),
        public_url: config.public_url.as_str().to_owned(),
        journal: match core.versions.clone() {
            Some(versions) => Box::new(move || versions.journal()),
            None => Box::new(Arc::default),
        },
        pages: config.pages.enabled.then(|| {
            Arc::new(Pages::new(Site {
                public_url: config.public_url.as_str().to_owned(),
                usage: config.usage().as_str(),
                has_snapshots: config.usage() != Use::Shield,
                requests_per_minute: config.rate_limit.requests_per_minute.map_or(0, std::num::NonZeroU32::get),
            }))
        }),
        kept: core.versions.as_ref().map_or_else(Kept::none, |versions| versions.loaded().clone()),
        ipv6_prefix: config.rate_limit.ipv6_prefix,
        is_behind: {
            let versions = core.versions.clone();
            Box::new(move || versions.as_ref().is_some_and(Versions::is_behind))
        },
    };
    let cache_control = CacheControl {
        ttl: config.ttl,
        stale_while_revalidate: config.cache.stale_while_revalidate,
        stale_if_error: config.cache.stale_if_error,
    };
    let answers = Responder {
        rules,
        finder,
        standing: Standing::new(cache_control, !offline, passthrough_methods),
        telemetry,
        access: None,
        proxy: core.origin.as_ref().map(|origin| origin.proxy.clone()),
        dumps,
        clock: core.clock.clone(),
    };
    Public { answers, in_flight }
}
