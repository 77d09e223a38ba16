//! Listening sockets of clients, bound before anything else starts, so that a taken address is an error at once and port
//! 0 works.
//!
//! Callers: [`crate::server`].

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;

use pingora::server::Fds;
use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};

/// How many bytes a connection may have unsent in the kernel (Linux `TCP_NOTSENT_LOWAT`). Without a bound it is up to
/// `net.ipv4.tcp_wmem`, 4 MiB, and some thousand clients that read slowly take all the memory that the kernel has for
/// TCP. The connections inherit it.
const MOST_UNSENT: u32 = 32 << 10;

#[derive(Debug, thiserror::Error)]
#[error("{key}: cannot listen on {address}: {source}; {}", what_to_do(source))]
pub struct BindError {
    /// The key of the configuration, or the option.
    pub key: &'static str,
    pub address: SocketAddr,
    pub source: io::Error,
}

fn what_to_do(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "stop the program that listens there (`ss -ltnp` names it), or set another address or port"
        }
        ErrorKind::AddrNotAvailable => "set an address of this machine; 0.0.0.0 and [::] are all its addresses",
        ErrorKind::PermissionDenied => {
            "set a port above 1023, or let this program use lower ports (CAP_NET_BIND_SERVICE, or socket activation)"
        }
        _ => "set another address",
    }
}

impl BindError {
    pub(crate) fn is_without_ipv6(&self) -> bool {
        self.address.is_ipv6() && self.source.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
    }
}

/// A bound socket that does not accept yet.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The address with its real port.
    pub address: SocketAddr,
    /// Whether it is a service manager's, so that connections wait in it while the server restarts.
    pub is_passed: bool,
    listener: TcpListener,
}

/// Binds an address. With `only_v6`, an IPv6 address leaves its port to IPv4 listeners; without it, `[::]` takes
/// IPv4 connections too, whatever the system's default (`net.ipv6.bindv6only`).
pub(crate) fn bind(key: &'static str, address: SocketAddr, only_v6: bool) -> Result<Bound, BindError> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            match socket.set_only_v6(only_v6) {
                // Some systems always keep IPv4 and IPv6 apart.
                Err(_) if !only_v6 => {}
                set => set?,
            }
        }
        socket.bind(&address.into())?;
        // As long a queue as the system allows.
        socket.listen(i32::MAX)?;
        Bound::new(socket.into(), false)
    };
    listen().map_err(|source| BindError { key, address, source })
}

impl Bound {
    /// A socket of a service manager, which listens already.
    pub(crate) fn passed(listener: TcpListener) -> io::Result<Self> {
        Self::new(listener, true)
    }

    fn new(listener: TcpListener, is_passed: bool) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        #[cfg(target_os = "linux")]
        if let Err(error) = SockRef::from(&listener).set_tcp_notsent_lowat(MOST_UNSENT) {
            // Not every kind of socket that a service manager passes has it.
            tracing::debug!(%error, "unsent bytes of connections are not bounded");
        }
        Ok(Self { address: listener.local_addr()?, is_passed, listener })
    }

    /// Gives the socket to pingora, under its address.
    pub(crate) fn hand_to(self, fds: &mut Fds) {
        fds.add(self.address.to_string(), self.listener.into_raw_fd());
    }
}
