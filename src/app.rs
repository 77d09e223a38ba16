//! The composition root: builds the state, wires the services, runs them.
//!
//! It knows nearly all other rooms. [`core`] opens the data and what works on it; [`serve`] adds the listeners and runs
//! all of it; [`reload`] puts a changed configuration into effect; [`signals`] ends it. At a stop, the process answers
//! the requests that have arrived. Connections that it has not accepted yet are left to the next process, if a service
//! manager holds the sockets ([`sockets`]). Callers: [`crate::cli`].

pub mod core;
pub(crate) mod error;
pub(crate) mod fleet;
pub(crate) mod keeper;
pub(crate) mod reload;
pub(crate) mod signals;
pub(crate) mod sockets;

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pingora::listeners::{L4BufferSettings, ListenerConfig};
use pingora::server::configuration::ServerConf;
use pingora::server::{RunArgs, Server, ShutdownWatch};
use pingora::services::background::{BackgroundService, background_service};
use pingora::services::listening::Service;

use crate::admin::Admin;
use crate::admin::bundle::Bundles;
use crate::admin::console::Console;
use crate::admin::front::AdminFront;
use crate::admin::health::NOTHING_TO_SERVE;
use crate::admin::history::Sampler;
use crate::admin::reload::{Reloader, Reloads};
use crate::admin::status::Status;
use crate::answer::Responder;
use crate::answer::find::{Absent, Finder};
use crate::answer::purge::Purger;
use crate::audit::Auditor;
use crate::bundle::signature::{SignatureError, TrustedKeys};
use crate::config::{Config, MOST_DRAIN, Settings, Use};
use crate::dumps::Dumps;
use crate::fleet::publisher::Publisher;
use crate::fleet::publisher::status::PublishStatus;
use crate::limit::shares::Shares;
use crate::mirror::details::worker::DetailWorker;
use crate::mirror::edges::EdgeLearner;
use crate::mirror::sweep::Sweeper;
use crate::search::Searches;
use crate::serve::Public;
use crate::serve::connections::Connections;
use crate::serve::connections::InFlight;
use crate::serve::gate::Gate;
use crate::serve::gate::ProxyHeaders;
use crate::serve::listener::Prebound;
use crate::shared_limit::SharedLimit;
use crate::snapshots::Snapshots;
use crate::snapshots::loaded::LoadedSnapshots;
use crate::store::nameless;
use crate::telemetry::Telemetry;
use crate::telemetry::access::InEffect;
use crate::telemetry::counters::ConnectionCounters;
use crate::telemetry::history::History;
use crate::telemetry::request_id::RequestIds;

use self::core::Core;
use self::error::AppError;
use self::keeper::Keeper;
use self::reload::{ConfigSource, Fixed, Reload};
use self::signals::Systemd;
use self::sockets::Https;

pub use self::sockets::Sockets;

/// Serves until a signal comes, and ends the process.
///
/// # Errors
/// When something is wrong before the first request is accepted.
pub fn serve(
    config: &Config,
    sockets: Sockets,
    mut core: Core,
    mut source: Option<ConfigSource>,
) -> Result<std::convert::Infallible, AppError> {
    let telemetry = Telemetry::default();
    let counters = telemetry.connections.clone();
    let headers = ProxyHeaders::new(telemetry.headers_refused.clone());
    let headers = config.client_ip.proxy_protocol.then(|| Arc::new(headers));
    let mut server = server();
    let in_flight = InFlight::default();
    let settings = core.settings.clone();
    settings.store(config.clone());
    let dumps = dumps(&settings, &core);
    let fixed = fixed(&core, dumps.is_some());
    let access = InEffect::new(ArcSwapOption::new(reload::open_access_log(config)?.map(Arc::new)));
    let https = config.tls.as_ref().map(|tls| Https::new(tls, &core.clock)).transpose()?;
    let publishing = PublishStatus::default();
    let status = Status {
        access: access.clone(),
        publish: config.publish.url.is_some().then(|| publishing.clone()),
        ..status(config, &sockets, &core, https.as_ref(), &fixed, &telemetry)
    };
    let status = Arc::new(status);
    let sampler = Sampler(status.clone());
    keeper(&core, &sockets).start();
    let publisher = fleet::publisher(config, &core, &publishing)?;
    let commands = (core.mirror.is_some() || core.follower.is_some()).then(|| core.commands.clone());
    let purger = Purger {
        cache: core.cache.clone(),
        proxy: core.origin.as_ref().map(|origin| origin.proxy.clone()),
        base_path: reload::base_path(config),
    };
    let bundles = bundles(config, &core, dumps.clone())?;
    let snapshots = core.snapshots.clone();
    let reloads = status.reloads.clone();
    let shared = fixed.shared.clone();
    let public = Public {
        answers: Responder { access: access.clone(), ..responder(config, &core, &fixed, telemetry, dumps) },
        in_flight: in_flight.clone(),
    };
    let public = Arc::new(public);
    let (clients, operators) = reload::rooms(config);
    let connections = Connections::new(clients, counters);
    let of_operators = Connections::new(operators, ConnectionCounters::default());

    announce(config, &sockets, &core);
    let (of_https, certificate) = {
        let start = |https: Https| https.start(Gate::new(&public, &connections, headers.clone()));
        https.map(start).transpose()?.unzip()
    };
    let mut handover = source.as_mut().map(|source| std::mem::take(&mut source.handover)).unwrap_or_default();
    let running = source.as_ref().map_or_else(|| config.clone(), |source| source.config.clone());
    let reload = Arc::new(Reload {
        source,
        running: Mutex::new(running),
        settings: settings.clone(),
        fixed,
        public: public.clone(),
        connections: connections.clone(),
        client: core.origin.as_ref().map(|origin| origin.client.clone()),
        snapshots: core.snapshots.clone(),
        cache: core.cache.clone(),
        certificate,
        reloads,
        access: access.clone(),
        clock: core.clock.clone(),
    });
    let reloader = {
        let reload = reload.clone();
        Reloader(Arc::new(move || reload.reload()))
    };
    let console = Console::default();
    let admin = Admin { status, commands, snapshots, bundles, purger, settings: settings.clone(), reloader, console };
    let mut service = Service::new("public".to_owned(), Gate::new(&public, &connections, headers));
    sockets.public().into_iter().map(buffered).for_each(|listener| service.add_listener(listener));
    let mut operator = Service::new("admin".to_owned(), AdminFront::new(admin, in_flight.clone(), of_operators));
    operator.threads = Some(1);
    operator.add_listener(ListenerConfig::tcp(sockets.admin().to_string()));
    let systemd = Systemd::default();
    let beats = || {
        let systemd = systemd.clone();
        move || systemd.beat()
    };
    let services = if of_https.is_some() { 3 } else { 2 };
    server.add_service(Prebound::new(service, sockets.public, beats()));
    server.add_service(Prebound::new(operator, vec![sockets.admin], beats()));
    if let Some(mut service) = of_https {
        sockets.tls.iter().map(|bound| buffered(bound.address)).for_each(|listener| service.add_listener(listener));
        server.add_service(Prebound::new(service, sockets.tls, beats()));
    }
    systemd.start(sampler.0.clone(), services);
    add_task(&mut server, "history", Some(sampler.run()));
    add_task(&mut server, "limit", shared.map(SharedLimit::run));
    fleet::keep_current(&mut server, &mut core);
    add_task(&mut server, "search", core.searches.map(Searches::run));
    add_task(&mut server, "sweep", core.sweeper.map(Sweeper::run));
    add_task(&mut server, "audit", core.auditor.map(Auditor::run));
    add_task(&mut server, "edges", core.learner.map(EdgeLearner::run));
    add_task(&mut server, "details", core.worker.map(DetailWorker::run));
    add_task(&mut server, "publish", publisher.map(Publisher::run));
    signals::watch(&server, in_flight, connections.clone(), settings, core.details, access, handover.at_end.take())
        .map_err(AppError::Thread)?;
    let watched = Mutex::new(Some(handover.signals()?));
    server.run(RunArgs { shutdown_signal: Box::new(signals::Signals { reload, connections, watched }) });
    std::process::exit(0)
}

/// pingora's server, without a service.
fn server() -> Server {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let conf = ServerConf {
        threads,
        // [`signals`] ends the process before that.
        grace_period_seconds: Some(MOST_DRAIN.as_secs() + 5),
        graceful_shutdown_timeout_seconds: Some(1),
        ..ServerConf::default()
    };
    Server::new_with_opt_and_conf(None, conf)
}

/// The state that survives reloads.
fn fixed(core: &Core, has_dumps: bool) -> Fixed {
    let name = core.origin.as_ref().map(|origin| origin.client.name().clone());
    let edges = core.snapshots.as_ref().is_some_and(|snapshots| snapshots.edges().are_used());
    Fixed { is_demo: core.is_demo, ..Fixed::new(&core.settings, name, has_dumps, edges, &core.clock) }
}

/// The keeper of the data directory.
fn keeper(core: &Core, sockets: &Sockets) -> Keeper {
    Keeper {
        data_dir: core.data_dir.clone(),
        snapshots: core.snapshots.clone(),
        origin: core.origin.as_ref().map(|origin| origin.client.status().clone()),
        heals: core.origin.is_some() || core.follower.is_some(),
        admin: sockets.admin(),
        clock: core.clock.clone(),
    }
}

/// Logs where the server listens.
fn announce(config: &Config, sockets: &Sockets, core: &Core) {
    for address in sockets.public() {
        tracing::info!(%address, r#use = config.usage().as_str(), "serving");
    }
    for address in sockets.tls() {
        tracing::info!(%address, r#use = config.usage().as_str(), "serving HTTPS");
    }
    tracing::info!(address = %sockets.admin(), "admin listener");
    if config.usage() == Use::Offline && core.current.load().is_none() {
        tracing::warn!("{NOTHING_TO_SERVE}: set origin.url, or run `grandstand bundle import FILE`");
    }
}

/// The state for the admin listener, without an access log and a publisher.
fn status(
    config: &Config,
    sockets: &Sockets,
    core: &Core,
    https: Option<&Https>,
    fixed: &Fixed,
    telemetry: &Telemetry,
) -> Status {
    Status {
        limiter: fixed.limiter.clone(),
        shared: fixed.shared.clone(),
        access: InEffect::default(),
        usage: config.usage(),
        listen: sockets.public(),
        data_dir: core.data_dir.absolute(),
        started_at: core.clock.now_wall(),
        publish: None,
        replica: (config.usage() == Use::Replica).then(|| core.replica.clone()),
        tls: https.map(|https| https.status(sockets.tls())),
        current: core.current.clone(),
        origin: core.origin.as_ref().map(|origin| origin.client.status().clone()),
        budget: core.origin.as_ref().map(|origin| origin.client.budget().clone()),
        details: core.details.clone(),
        audits: core.auditor.is_some().then(|| core.audits.clone()),
        store: core.store.clone(),
        snapshots: core.snapshots.clone(),
        cache: core.cache.clone(),
        telemetry: telemetry.clone(),
        settings: core.settings.clone(),
        reloads: Reloads::default(),
        max_age: config.bundle.max_age,
        clock: core.clock.clone(),
        origin_url: config.origin.url.as_ref().map(|url| url.as_str().to_owned()),
        origin_proxy: config.origin.url.as_ref().and_then(|url| config.origin.proxy.shown_for(url.as_str())),
        history: History::default(),
        recent: core.recent.clone(),
        unused_bundle: core.unused_bundle.clone(),
        is_demo: core.is_demo,
        promise: Mutex::default(),
    }
}

/// The dumps; `None` in shield use.
fn dumps(settings: &Settings, core: &Core) -> Option<Dumps> {
    let (clock, data_dir) = (core.clock.clone(), core.data_dir.path().to_owned());
    let (snapshots, details) = core.snapshots.clone().zip(core.details.clone())?;
    Some(Dumps::new(snapshots, details, data_dir, settings.clone(), clock))
}

fn bundles(config: &Config, core: &Core, dumps: Option<Dumps>) -> Result<Bundles, AppError> {
    if core.snapshots.is_some()
        && let Err(error) = nameless::sweep(&config.data_dir)
    {
        tracing::warn!(%error, "leftover files in the data directory could not be removed");
    }
    Ok(Bundles {
        snapshots: core.snapshots.clone(),
        details: core.details.clone(),
        dumps,
        trusted: trusted_keys(config)?,
        most: config.bundle.max_size,
        data_dir: config.data_dir.clone(),
        turn: Arc::default(),
        uploading: Arc::default(),
    })
}

/// A public listener. Heads are read into the session's buffers; complete answers bypass the write buffer.
fn buffered(address: std::net::SocketAddr) -> ListenerConfig {
    ListenerConfig::tcp(address.to_string()).l4_buffer(L4BufferSettings::default().read(0))
}

/// The keys whose bundles are imported; empty: signatures are not required.
///
/// # Errors
/// When a key is invalid.
pub(crate) fn trusted_keys(config: &Config) -> Result<TrustedKeys, SignatureError> {
    TrustedKeys::parse(config.bundle.trusted_keys.iter().map(String::as_str))
}

/// The state that answers clients, without an access log.
fn responder(config: &Config, core: &Core, fixed: &Fixed, telemetry: Telemetry, dumps: Option<Dumps>) -> Responder {
    let finder = Finder {
        current: core.current.clone(),
        cache: core.cache.clone(),
        details: core.details.clone(),
        origin: core.origin.as_ref().map(|origin| origin.client.status().clone()),
        proxy: core.origin.as_ref().map(|origin| origin.proxy.clone()),
        rewrite: core.rewrite.clone(),
        public_url: config.public_url.as_str().to_owned(),
        journal: match core.snapshots.clone() {
            Some(snapshots) => Box::new(move || snapshots.journal()),
            None => Box::new(Arc::default),
        },
        pages: ArcSwap::from_pointee(fixed.pages_of(config)),
        rendering: Shares::new(2, 1),
        kept: core.snapshots.as_ref().map_or_else(LoadedSnapshots::none, |snapshots| snapshots.loaded().clone()),
        searches: core.searches.clone(),
        absent: if config.usage() == Use::Replica { Absent::REPLICA } else { Absent::OFFLINE },
        edges: core.snapshots.as_ref().map(|snapshots| snapshots.edges().clone()).unwrap_or_default(),
        clock: core.clock.clone(),
        settings: core.settings.clone(),
        is_behind: {
            let snapshots = core.snapshots.clone();
            Box::new(move || snapshots.as_ref().is_some_and(Snapshots::is_behind))
        },
    };
    Responder {
        in_force: ArcSwap::from_pointee(fixed.in_force(config)),
        finder,
        telemetry,
        access: InEffect::default(),
        ids: RequestIds::default(),
        proxy: core.origin.as_ref().map(|origin| origin.proxy.clone()),
        dumps,
        clock: core.clock.clone(),
    }
}

/// A future that runs as a service until it ends or the process stops.
pub(super) struct Task(Mutex<Option<BoxFuture<'static, ()>>>);

impl Task {
    pub(super) fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
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

/// Adds what is done beside serving, if it is.
fn add_task(server: &mut Server, name: &str, task: Option<impl Future<Output = ()> + Send + 'static>) {
    if let Some(task) = task {
        server.add_service(background_service(name, Task::new(task)));
    }
}
