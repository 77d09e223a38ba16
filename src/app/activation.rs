//! Sockets that the service manager passes (socket activation, `sd_listen_fds(3)`): they outlive this process, so that
//! connections wait while it restarts.
//!
//! A socket named `http`, `https` or `admin` takes the place of the addresses of that kind; any other one takes the place of
//! the address that it listens on. Callers: [`crate::cli`], before the configuration is used.

use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

use crate::config::{Config, Examined};
use crate::serve::listener::Bound;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `listen`.
    Http,
    /// `tls.listen`.
    Https,
    /// `admin.listen`.
    Admin,
}

impl Kind {
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

/// One passed socket.
#[derive(Debug)]
struct Passed {
    kind: Kind,
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
        if all.iter().filter(|passed: &&Passed| passed.kind == Kind::Admin).count() > 1 {
            examined.fail("admin.listen", &"two passed sockets are for the admin listener; pass one");
        }
        Self(all)
    }

    /// The sockets of `kind`: the passed ones, and for addresses without one what `bind` makes.
    fn of<E>(
        &mut self,
        kind: Kind,
        addresses: &[SocketAddr],
        bind: impl Fn(SocketAddr) -> Result<Bound, E>,
    ) -> Result<Vec<Bound>, E> {
        let (mine, others): (Vec<Passed>, Vec<Passed>) = self.0.drain(..).partition(|passed| passed.kind == kind);
        self.0 = others;
        let replaces_all = mine.iter().any(|passed| passed.is_named);
        let mut sockets: Vec<Bound> = mine.into_iter().map(|passed| passed.socket).collect();
        if !replaces_all {
            for address in addresses {
                if sockets.iter().all(|socket| socket.address != *address) {
                    sockets.push(bind(*address)?);
                }
            }
            // The first listener gives the default of `public_url`.
            sockets.sort_by_key(|socket| addresses.iter().position(|address| *address == socket.address));
        }
        Ok(sockets)
    }

    /// For `listen`.
    pub(super) fn http<E>(
        &mut self,
        config: &Config,
        bind: impl Fn(SocketAddr) -> Result<Bound, E>,
    ) -> Result<Vec<Bound>, E> {
        self.of(Kind::Http, &config.listen, bind)
    }

    /// For `tls.listen`.
    pub(super) fn https<E>(
        &mut self,
        config: &Config,
        bind: impl Fn(SocketAddr) -> Result<Bound, E>,
    ) -> Result<Vec<Bound>, E> {
        let addresses = config.tls.as_ref().map_or(&[][..], |tls| &tls.listen);
        self.of(Kind::Https, addresses, bind)
    }

    /// For `admin.listen`.
    pub(super) fn admin<E>(
        &mut self,
        config: &Config,
        bind: impl Fn(SocketAddr) -> Result<Bound, E>,
    ) -> Result<Bound, E> {
        let passed = self.0.iter().position(|passed| passed.kind == Kind::Admin);
        match passed {
            Some(at) => Ok(self.0.swap_remove(at).socket),
            None => bind(config.admin.listen),
        }
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
    let named = Kind::of_name(name);
    let Some(kind) = named.or_else(|| Kind::of_address(socket.address, &examined.config)) else {
        let problem = format!(
            "the passed socket \"{name}\" on {} belongs to no listener. Name it http, https or admin \
             (FileDescriptorName= in the socket unit), or add its address to listen, tls.listen or admin.listen",
            socket.address
        );
        examined.fail("listen", &problem);
        return None;
    };
    if kind == Kind::Https && examined.config.tls.is_none() {
        let problem = "is missing: a socket named https was passed, so set tls.listen, tls.cert and tls.key";
        examined.fail("tls.cert", &problem);
    }
    Some(Passed { kind, is_named: named.is_some(), socket })
}
