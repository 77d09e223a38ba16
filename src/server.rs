//! The composition: builds one of the four uses, runs it, and returns when it has stopped.
//!
//! [`core`] opens the data and what works on it, for each of the four uses; [`serve`] adds the listeners and runs all of it
//! ([`services`]), so that one process can run several servers, each with its own clock, log and counters. [`reload`] puts a
//! changed configuration into effect. At a stop ([`stop`]), the server answers the requests that have arrived, and for a
//! while those that come. Connections that it has not accepted are left to the next process, if a service manager holds
//! the sockets ([`sockets`]). [`admin`] is the operator's listener: status, metrics, console, commands. [`maintenance`]
//! looks after the data directory. [`in_memory`] is a whole server in virtual time, for tests.
//!
//! It knows nearly all other rooms, and decides nothing that one of them can. Three types to know: [`core::Core`], what
//! every use has; `core::Role`, the four uses; [`stop::Order`].
//!
//! Callers: [`crate::cli`].

pub mod admin;
pub mod core;
pub(crate) mod error;
pub(crate) mod fleet;
pub(crate) mod hosted;
pub mod in_memory;
pub(crate) mod maintenance;
pub(crate) mod reload;
mod services;
pub(crate) mod signals;
pub(crate) mod sockets;
pub mod stop;
mod systemd;

use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use pingora::listeners::{L4BufferSettings, ListenerConfig};
use pingora::services::listening::Service;

use crate::config::{Config, Settings, Use};
use crate::edge::answer::Responder;
use crate::edge::answer::find::{Absent, Finder};
use crate::edge::answer::purge::Purger;
use crate::edge::dumps::Dumps;
use crate::edge::serve::Public;
use crate::edge::serve::connections::Connections;
use crate::edge::serve::connections::InFlight;
use crate::edge::serve::gate::Gate;
use crate::edge::serve::gate::ProxyHeaders;
use crate::edge::serve::tls::TlsGate;
use crate::fleet::publisher::status::PublishStatus;
use crate::mirror::details::on_demand::OnDemand;
use crate::server::admin::Admin;
use crate::server::admin::bundle::Bundles;
use crate::server::admin::console::Console;
use crate::server::admin::front::AdminFront;
use crate::server::admin::health::NOTHING_TO_SERVE;
use crate::server::admin::history::Sampler;
use crate::server::admin::reload::Reloads;
use crate::server::admin::socket::{AdminSocket, SocketState};
use crate::server::admin::status::Status;
use crate::tasks::fair::FairSemaphore;
use crate::telemetry::Telemetry;
use crate::telemetry::access::InEffect;
use crate::telemetry::counters::ConnectionCounters;
use crate::telemetry::findings::Findings;
use crate::telemetry::history::History;
use crate::telemetry::request_id::RequestIds;

use self::core::{Core, Data, Role};
use self::error::AppError;
use self::maintenance::Keeper;
use self::reload::{ConfigSource, Fixed, Reload};
use self::services::Services;
use self::sockets::Https;
use self::stop::{Order, Orders};
use self::systemd::Systemd;

pub use self::sockets::Sockets;

/// A look at a server that runs. It keeps nothing of the server alive.
#[derive(Clone)]
pub struct Probe(Weak<Status>);

impl Probe {
    /// Whether a mirror has nothing left to copy.
    pub fn is_settled(&self) -> bool {
        self.0.upgrade().is_some_and(|status| status.is_settled())
    }
}

/// Serves until an order ends it, and returns when all of it has stopped. `orders` is called once it listens. Fails if
/// something is wrong before the first request is accepted.
pub fn serve(
    config: &Config,
    sockets: Sockets,
    core: Core,
    source: Option<ConfigSource>,
    orders: impl FnOnce(Probe) -> Result<Orders, AppError>,
) -> Result<(), AppError> {
    Server::build(config, core, source)?.listen(sockets, orders)
}

/// A server that is built, and does not listen yet.
struct Server {
    gate: Gate,
    https: Option<Service<TlsGate>>,
    operators: AdminFront,
    socket: AdminSocket,
    tasks: Vec<(&'static str, BoxFuture<'static, ()>)>,
    keeper: Keeper,
    status: Arc<Status>,
    reload: Arc<Reload>,
}

impl Server {
    fn build(config: &Config, core: Core, source: Option<ConfigSource>) -> Result<Self, AppError> {
        let telemetry = Telemetry::default();
        let counters = telemetry.connections.clone();
        let headers = ProxyHeaders::new(telemetry.headers_refused.clone());
        let headers = config.client_ip.proxy_protocol.then(|| Arc::new(headers));
        let in_flight = InFlight::default();
        let settings = core.settings.clone();
        settings.store(config.clone());
        let dumps = dumps(&settings, &core);
        let fixed = Fixed::new(&core, dumps.is_some());
        let access = InEffect::new(ArcSwapOption::new(reload::open_access_log(config)?.map(Arc::new)));
        let https = config.tls.as_ref().map(Https::new).transpose()?;
        let publishing = PublishStatus::default();
        let status = Arc::new(Status {
            access: access.clone(),
            publish: config.publish.url.is_some().then(|| publishing.clone()),
            ..status(&core, https.as_ref(), &fixed, &telemetry)
        });
        let keeper = Keeper { data_dir: core.data_dir.clone(), status: status.clone() };
        let socket = AdminSocket::new(core.data_dir.clone(), status.socket.clone());
        let publisher = fleet::publisher(config, &core, &publishing)?;
        let purger = Purger {
            cache: core.cache.clone(),
            proxy: core.origin().map(|origin| origin.proxy.clone()),
            base_path: reload::base_path(config),
        };
        let bundles = bundles(config, &core, dumps.clone())?;
        let public = Arc::new(Public {
            answers: Responder { access, ..responder(config, &core, &fixed, telemetry, dumps) },
            in_flight: in_flight.clone(),
        });
        let (clients, operators) = reload::rooms(config);
        let connections = Connections::new(clients, counters);
        let (https, certificate) = {
            let start = |https: Https| https.start(Gate::new(&public, &connections, headers.clone()));
            https.map(start).transpose()?.unzip()
        };
        let shared = fixed.shared.clone();
        let running = source.as_ref().map_or_else(|| config.clone(), |source| source.config.clone());
        let reload = Arc::new(Reload {
            source,
            running: Mutex::new(running),
            status: status.clone(),
            fixed,
            public: public.clone(),
            connections: connections.clone(),
            certificate,
        });
        let reloader = {
            let reload = reload.clone();
            Arc::new(move || reload.reload())
        };
        let commands = core.commands().cloned();
        let admin = Admin { status: status.clone(), commands, bundles, purger, reloader, console: Console::default() };
        let operators = Connections::new(operators, ConnectionCounters::default());
        let mut tasks: Vec<(&str, BoxFuture<'_, ()>)> = vec![("history", Sampler(status.clone()).run().boxed())];
        tasks.extend(publisher.map(|publisher| ("publish", publisher.run().boxed())));
        tasks.extend(shared.map(|shared| ("limit", shared.run().boxed())));
        tasks.extend(core.role.tasks(&settings));
        Ok(Self {
            gate: Gate::new(&public, &connections, headers),
            https,
            operators: AdminFront::new(admin, in_flight, operators),
            socket,
            tasks,
            keeper,
            status,
            reload,
        })
    }

    /// Listens, and follows orders until one ends it.
    fn listen(self, sockets: Sockets, orders: impl FnOnce(Probe) -> Result<Orders, AppError>) -> Result<(), AppError> {
        let Self { gate, https, operators, socket, tasks, keeper, status, reload } = self;
        let _keeper = keeper.start().map_err(AppError::Thread)?;
        let systemd = Systemd::default();
        let _status_line =
            systemd.start(status.clone(), if https.is_some() { 3 } else { 2 }).transpose().map_err(AppError::Thread)?;
        let beats = || {
            let systemd = systemd.clone();
            move || systemd.beat()
        };
        let (mut services, are_passed) = (Services::new(), sockets.are_passed());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (public_addresses, tls_addresses, admin_address) = (sockets.public(), sockets.tls(), sockets.admin());
        announce(&sockets, &status);
        // Signals are watched before the first answer: who got one may send a signal.
        let orders = orders(Probe(Arc::downgrade(&status)))?;
        let mut public = Service::new("public".to_owned(), gate);
        public_addresses.into_iter().map(buffered).for_each(|listener| public.add_listener(listener));
        services.listen(public, sockets.public, threads, beats())?;
        if let Some(mut https) = https {
            tls_addresses.into_iter().map(buffered).for_each(|listener| https.add_listener(listener));
            services.listen(https, sockets.tls, threads, beats())?;
        }
        services.accept("commands", Arc::new(operators.trusting()), socket.connections())?;
        let mut admin = Service::new("admin".to_owned(), operators);
        admin.add_listener(ListenerConfig::tcp(admin_address.to_string()));
        services.listen(admin, vec![sockets.admin], 1, beats())?;
        for (name, task) in tasks {
            services.run(name, task)?;
        }
        Systemd::ready();
        let followed = stop::run_until_stop(orders, &reload, &mut services);

        tracing::info!("stopping: requests in flight are finished");
        Systemd::stopping(status.settings.load().drain);
        status.telemetry.stop();
        let order = *followed.as_ref().unwrap_or(&Order::StopAtOnce);
        stop::drain(&reload, order, !are_passed, || services.stop());
        if let Some(details) = &status.details {
            details.flush();
        }
        if let Some(access) = status.access.load_full() {
            access.lines.flush(stop::LAST_LINES);
        }
        services.end();
        tracing::info!("stopped");
        followed.map(drop)
    }
}

impl Role {
    fn tasks(self, settings: &Settings) -> Vec<(&'static str, BoxFuture<'static, ()>)> {
        let searches = |data: Data| ("search", data.searches.run().boxed());
        match self {
            Self::Shield(_) => Vec::new(),
            Self::Mirror(mirror) => {
                vec![
                    ("mirror", fleet::mirror(mirror.lists, mirror.seed).boxed()),
                    ("sweep", mirror.sweeper.run().boxed()),
                    ("examiner", mirror.examiner.run().boxed()),
                    ("details", mirror.worker.run().boxed()),
                    searches(mirror.data),
                ]
            }
            Self::Replica(replica) => {
                vec![("replica", replica.follower.run(settings.clone()).boxed()), searches(replica.data)]
            }
            Self::Offline(data) => vec![searches(data)],
        }
    }
}

fn announce(sockets: &Sockets, status: &Status) {
    let usage = status.usage.as_str();
    for address in sockets.public() {
        tracing::info!(%address, r#use = usage, "serving");
    }
    for address in sockets.tls() {
        tracing::info!(%address, r#use = usage, "serving HTTPS");
    }
    tracing::info!(address = %sockets.admin(), "admin listener");
    if status.usage == Use::Offline && status.current.get().is_none() {
        tracing::warn!("{NOTHING_TO_SERVE}: set origin.url, or run `grandstand bundle import FILE`");
    }
}

/// The state for the admin listener, without an access log and a publisher.
fn status(core: &Core, https: Option<&Https>, fixed: &Fixed, telemetry: &Telemetry) -> Status {
    let (audits, replica) = match &core.role {
        Role::Mirror(mirror) => (Some(mirror.audits.clone()), None),
        Role::Replica(replica) => (None, Some(replica.follower.status.clone())),
        Role::Shield(_) | Role::Offline(_) => (None, None),
    };
    Status {
        limiter: fixed.limiter.clone(),
        shared: fixed.shared.clone(),
        access: InEffect::default(),
        usage: core.settings.load().usage(),
        data_dir: core.data_dir.absolute(),
        started_at: core.clock.now_wall(),
        publish: None,
        replica,
        certificate: https.map(Https::certificate),
        current: core.current.clone(),
        origin: core.origin().map(|origin| origin.client.clone()),
        snapshots: core.data().map(|data| data.snapshots.clone()),
        details: core.data().map(|data| data.details.clone()),
        audits,
        cache: core.cache.clone(),
        telemetry: telemetry.clone(),
        settings: core.settings.clone(),
        reloads: Reloads::default(),
        socket: SocketState::default(),
        clock: core.clock.clone(),
        history: History::default(),
        findings: Findings::default(),
        is_demo: core.is_demo,
        promise: Mutex::default(),
    }
}

/// The dumps; `None` in shield use.
fn dumps(settings: &Settings, core: &Core) -> Option<Dumps> {
    let Data { snapshots, details, searches } = core.data()?.clone();
    Some(Dumps::new(snapshots, details, searches, settings.clone(), core.clock.clone()))
}

fn bundles(config: &Config, core: &Core, dumps: Option<Dumps>) -> Result<Bundles, AppError> {
    Ok(Bundles {
        snapshots: core.data().map(|data| data.snapshots.clone()),
        details: core.data().map(|data| data.details.clone()),
        dumps,
        trusted: fleet::trusted_keys(config)?,
        directory: core.scratch.clone(),
        turn: tokio::sync::Mutex::default(),
        uploading: tokio::sync::Mutex::default(),
    })
}

/// A public listener. Heads are read into the session's buffers; complete answers bypass the write buffer.
fn buffered(address: std::net::SocketAddr) -> ListenerConfig {
    ListenerConfig::tcp(address.to_string()).l4_buffer(L4BufferSettings::default().read(0))
}

/// The state that answers clients, without an access log.
fn responder(config: &Config, core: &Core, fixed: &Fixed, telemetry: Telemetry, dumps: Option<Dumps>) -> Responder {
    let (origin, data) = (core.origin(), core.data());
    let snapshots = data.map(|data| &data.snapshots);
    let finder = Finder {
        current: core.current.clone(),
        cache: core.cache.clone(),
        on_demand: OnDemand::default(),
        details: data.map(|data| data.details.clone()),
        origin: origin.map(|origin| origin.client.status().clone()),
        proxy: origin.map(|origin| origin.proxy.clone()),
        instants: core.instants().cloned(),
        rewrite: core.rewrite.clone(),
        public_url: config.public_url.as_str().to_owned(),
        pages: ArcSwap::from_pointee(fixed.pages_of(config)),
        rendering: FairSemaphore::new(2, 1),
        earlier: snapshots.map(|snapshots| snapshots.earlier().clone()).unwrap_or_default(),
        searches: data.map(|data| data.searches.clone()),
        absent: if config.usage() == Use::Replica { Absent::REPLICA } else { Absent::OFFLINE },
        verdicts: snapshots.map(|snapshots| snapshots.verdicts().clone()).unwrap_or_default(),
        clock: core.clock.clone(),
        settings: core.settings.clone(),
    };
    Responder {
        in_force: ArcSwap::from_pointee(fixed.in_force(config)),
        finder,
        telemetry,
        access: InEffect::default(),
        ids: RequestIds::default(),
        proxy: origin.map(|origin| origin.proxy.clone()),
        dumps,
        clock: core.clock.clone(),
    }
}
