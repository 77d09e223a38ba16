//! The listening sockets: those that a service manager passes (socket activation, `sd_listen_fds(3)`), those that are bound
//! here, the certificate of the HTTPS listener, and how many connections the limit on open files allows.
//!
//! Passed sockets outlive this process, so that connections wait while it restarts. A socket named `http`, `https` or
//! `admin` takes the place of the addresses of that kind; any other one takes the place of the address that it listens on.
//! Running out of descriptors would block the admin listener, the origin's client and the store, so a part of them is never
//! given to clients. Callers: [`crate::cli`] makes them before anything else, [`super::serve`] hands them to the listeners.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use listenfd::ListenFd;
use pingora::services::listening::Service;
use rustix::net::sockopt::socket_acceptconn;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::crypto::CryptoProvider;

use crate::config::{Config, Examined, TlsConfig};
use crate::edge::serve::gate::Gate;
use crate::edge::serve::listener::{self, BindError, Bound};
use crate::edge::serve::tls::certificate::{Current, Files, Renewal, Watched};
use crate::edge::serve::tls::{TlsGate, provider};

use super::error::AppError;

/// Sockets, bound before anything else starts.
pub struct Sockets {
    pub(super) public: Vec<Bound>,
    pub(super) tls: Vec<Bound>,
    pub(super) admin: Bound,
}

impl Sockets {
    /// Binds every address of a configuration. If one is in use, nothing was started.
    pub fn bind(config: &Config) -> Result<Self, AppError> {
        Self::passed_or_bound(config, PassedSockets::default())
    }

    /// The passed sockets, and those of the other addresses of a configuration.
    pub(crate) fn passed_or_bound(config: &Config, mut passed: PassedSockets) -> Result<Self, AppError> {
        let tls = config.tls.as_ref().map_or(&[][..], |tls| &tls.listen);
        Ok(Self {
            public: passed.of(SocketKind::Http, &config.listen)?,
            tls: passed.of(SocketKind::Https, tls)?,
            // There is one at least.
            admin: passed.of(SocketKind::Admin, &[config.admin.listen])?.swap_remove(0),
        })
    }

    /// The public addresses with their real ports.
    pub fn public(&self) -> Vec<SocketAddr> {
        addresses(&self.public)
    }

    /// The public addresses with TLS, with their real ports.
    pub(crate) fn tls(&self) -> Vec<SocketAddr> {
        addresses(&self.tls)
    }

    /// Whether all public ones outlive this process.
    pub(super) fn are_passed(&self) -> bool {
        self.public.iter().chain(&self.tls).all(|socket| socket.is_passed)
    }

    /// The operator's address with its real port.
    pub const fn admin(&self) -> SocketAddr {
        self.admin.address
    }
}

fn addresses(sockets: &[Bound]) -> Vec<SocketAddr> {
    sockets.iter().map(|bound| bound.address).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketKind {
    /// `listen`.
    Http,
    /// `tls.listen`.
    Https,
    /// `admin.listen`.
    Admin,
}

impl SocketKind {
    const fn key(self) -> &'static str {
        match self {
            Self::Http => "listen",
            Self::Https => "tls.listen",
            Self::Admin => "admin.listen",
        }
    }

    /// The kind that a name says; `None`: the address decides.
    fn of_name(name: &str) -> Option<Self> {
        match name {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }

    /// The kind of the listener with this address, if any.
    fn of_address(address: SocketAddr, config: &Config) -> Option<Self> {
        if config.listen.contains(&address) {
            Some(Self::Http)
        } else if config.tls.as_ref().is_some_and(|tls| tls.listen.contains(&address)) {
            Some(Self::Https)
        } else {
            (config.admin.listen == address).then_some(Self::Admin)
        }
    }
}

#[derive(Debug)]
struct Passed {
    kind: SocketKind,
    is_named: bool,
    socket: Bound,
}

/// The sockets that were passed and belong to a listener of the configuration.
#[derive(Debug, Default)]
pub(crate) struct PassedSockets(Vec<Passed>);

impl PassedSockets {
    /// Takes the sockets out of the environment. One that cannot be used is a mistake in the configuration.
    pub(crate) fn take(examined: &mut Examined) -> Self {
        // Before they are taken, which removes the other variables.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let (mut found, mut all) = (ListenFd::from_env(), Vec::new());
        for index in 0..found.len() {
            let name = names.next().unwrap_or_default();
            let taken = found.take_tcp_listener(index).and_then(|socket| socket.map(listening).transpose());
            match taken {
                Ok(Some(socket)) => all.extend(belongs(name, socket, examined)),
                Ok(None) => {}
                Err(error) => {
                    let problem = format!(
                        "the passed socket \"{name}\" cannot be used: {error}; pass listening TCP sockets only (ListenStream= in the socket unit)"
                    );
                    examined.fail("listen", &problem);
                }
            }
        }
        if all.iter().filter(|passed: &&Passed| passed.kind == SocketKind::Admin).count() > 1 {
            examined.fail("admin.listen", &"two passed sockets are for the admin listener; pass one");
        }
        Self(all)
    }

    /// The sockets of `kind`: the passed ones, and bound ones for addresses without one.
    fn of(&mut self, kind: SocketKind, addresses: &[SocketAddr]) -> Result<Vec<Bound>, BindError> {
        let (mine, others): (Vec<Passed>, Vec<Passed>) = self.0.drain(..).partition(|passed| passed.kind == kind);
        self.0 = others;
        let replaces_all = mine.iter().any(|passed| passed.is_named);
        let mut sockets: Vec<Bound> = mine.into_iter().map(|passed| passed.socket).collect();
        if replaces_all {
            let default = Config::default();
            let is_set = |address: &&SocketAddr| !default.listen.contains(address) && default.admin.listen != **address;
            let has_it = |address: &&SocketAddr| sockets.iter().any(|socket| socket.address == **address);
            for address in addresses.iter().filter(is_set).filter(|address| !has_it(address)) {
                let passed: Vec<String> = sockets.iter().map(|socket| socket.address.to_string()).collect();
                tracing::warn!(
                    "{address} of {} has no effect: the service manager passed its own sockets, on {}; change \
                     ListenStream= in the socket unit instead (`systemctl edit grandstand.socket`)",
                    kind.key(),
                    passed.join(", ")
                );
            }
        } else {
            for address in addresses {
                let is_v4 = |other: &SocketAddr| other.ip().to_canonical().is_ipv4();
                let shares =
                    !is_v4(address) && addresses.iter().any(|other| is_v4(other) && other.port() == address.port());
                if sockets.iter().all(|socket| socket.address != *address) {
                    match listener::bind(kind.key(), *address, shares) {
                        Err(error) if shares && error.is_without_ipv6() => tracing::warn!("{error}"),
                        bound => sockets.push(bound?),
                    }
                }
            }
            // The first listener gives the default of `public_url`.
            sockets.sort_by_key(|socket| addresses.iter().position(|address| *address == socket.address));
        }
        Ok(sockets)
    }
}

fn listening(socket: TcpListener) -> std::io::Result<Bound> {
    if !socket_acceptconn(&socket)? {
        return Err(std::io::Error::other("it does not listen"));
    }
    Bound::passed(socket)
}

/// The socket with its use; without one, that is a mistake.
fn belongs(name: &str, socket: Bound, examined: &mut Examined) -> Option<Passed> {
    let named = SocketKind::of_name(name);
    let Some(kind) = named.or_else(|| SocketKind::of_address(socket.address, &examined.config)) else {
        let problem = format!(
            "the passed socket \"{name}\" on {} belongs to no listener. Name it http, https or admin \
             (FileDescriptorName= in the socket unit), or add its address to listen, tls.listen or admin.listen",
            socket.address
        );
        examined.fail("listen", &problem);
        return None;
    };
    if kind == SocketKind::Https && examined.config.tls.is_none() {
        let problem = "is missing: a socket named https was passed, so set tls.listen, tls.cert and tls.key";
        examined.fail("tls.cert", &problem);
    }
    Some(Passed { kind, is_named: named.is_some(), socket })
}

pub(crate) struct Https {
    renewal: Renewal,
    provider: Arc<CryptoProvider>,
}

impl Https {
    pub(crate) fn new(config: &TlsConfig) -> Result<Self, AppError> {
        let provider = provider();
        let renewal = Renewal::new(files(config), provider.clone()).map_err(|errors| {
            let errors = errors.iter().map(|error| format!("{}: {error}", error.key));
            AppError::Certificate(errors.collect::<Vec<_>>().join("; "))
        })?;
        Ok(Self { renewal, provider })
    }

    /// The certificate for new connections.
    pub(crate) fn certificate(&self) -> Arc<Current> {
        self.renewal.current()
    }

    /// The service, and its certificate, which a reload looks at.
    pub(crate) fn start(self, gate: Gate) -> Result<(Service<TlsGate>, Watched), AppError> {
        let gate = TlsGate::new(gate, self.provider, self.renewal.current());
        let gate = gate.map_err(|error| AppError::Certificate(error.to_string()))?;
        let renewal = self.renewal.start().map_err(AppError::Thread)?;
        Ok((Service::new("public-https".to_owned(), gate), renewal))
    }
}

pub(crate) fn files(config: &TlsConfig) -> Files {
    Files { cert: config.cert.clone(), key: config.key.clone() }
}

/// The reserve for the admin listener, the origin and the store, and for accepted connections that are not yet checked:
/// a half, within bounds. An idle server has 62 files open.
pub(super) const RESERVE: std::ops::RangeInclusive<u64> = 128..=1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionShares {
    pub clients: usize,
    /// Of one client.
    pub each: usize,
    pub operators: usize,
    /// Requests of clients to the origin.
    pub origin: usize,
}

/// Raises the limit of open files as far as the system allows; fails if that is less than `needed`. A runtime that has too
/// few panics.
pub(crate) fn expect_descriptors(needed: u64) -> Result<(), AppError> {
    match raise_descriptors() {
        Some(limit) if limit < needed => Err(AppError::FewFiles { limit, needed }),
        _ => Ok(()),
    }
}

/// Raises the soft limit to the hard one; returns the new limit. `None`: unlimited.
pub(super) fn raise_descriptors() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit on open files could not be raised");
            current
        }
    }
}

/// Each side's share of `files`, if clients shall have `wanted` connections, and one client `each` of them.
pub(super) fn share_descriptors(files: Option<u64>, wanted: usize, each: usize) -> ConnectionShares {
    let files = files.unwrap_or(u64::MAX);
    let reserve = (files / 2).clamp(*RESERVE.start(), *RESERVE.end());
    let clients = usize::try_from(files.saturating_sub(reserve).max(1)).unwrap_or(usize::MAX).min(wanted);
    // Of few connections, one client must not have all.
    let each = each.min((clients / 4).max(1));
    // Of the reserve a quarter is for operators and a half for the origin; the rest is for the store, the logs, and
    // connections that are not checked yet.
    ConnectionShares { clients, each, operators: (reserve / 4) as usize, origin: (reserve / 2) as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_kept_for_what_is_not_a_client() {
        for (files, wanted, clients, each, operators, origin) in [
            (None, 20_000, 20_000, 512, 256, 512),
            (Some(1 << 20), 20_000, 20_000, 512, 256, 512),
            (Some(20_000), 20_000, 18_976, 512, 256, 512),
            (Some(4096), 20_000, 3072, 512, 256, 512),
            (Some(1024), 20_000, 512, 128, 128, 256),
            (Some(1024), 100, 100, 25, 128, 256),
            (Some(256), 20_000, 128, 32, 32, 64),
            (Some(10), 20_000, 1, 1, 32, 64),
        ] {
            let shares = ConnectionShares { clients, each, operators, origin };
            assert_eq!(share_descriptors(files, wanted, 512), shares, "{files:?}");
        }
    }
}
