//! Sockets bound before anything else starts, so that a taken address is an error at once and port 0 works.
//!
//! Callers: [`crate::app`].

use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::{Fds, ListenFds, ShutdownWatch};
use pingora::services::{ServiceReadyNotifier, ServiceWithDependents};
use socket2::SockRef;

/// How many bytes a connection may have unsent in the kernel (Linux `TCP_NOTSENT_LOWAT`). Without a bound it is up to
/// `net.ipv4.tcp_wmem`, 4 MiB, and some thousand clients that read slowly take all the memory that the kernel has for
/// TCP. The connections inherit it.
const MOST_UNSENT: u32 = 32 << 10;

/// An address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    pub address: SocketAddr,
    /// Why.
    pub source: std::io::Error,
}

/// A bound socket that does not accept yet.
#[derive(Debug)]
pub(crate) struct Bound {
    /// The address with its real port.
    pub address: SocketAddr,
    listener: TcpListener,
}

/// Binds an address.
///
/// # Errors
/// When it is taken, not ours, or not allowed.
pub(crate) fn bind(address: SocketAddr) -> Result<Bound, BindError> {
    let failed = |source| BindError { address, source };
    TcpListener::bind(address).and_then(Bound::passed).map_err(failed)
}

impl Bound {
    /// A socket that listens already.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) fn passed(listener: TcpListener) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        #[cfg(target_os = "linux")]
        if let Err(error) = SockRef::from(&listener).set_tcp_notsent_lowat(MOST_UNSENT) {
            // Not every kind of socket that a service manager passes has it.
            tracing::debug!(%error, "unsent bytes of connections are not bounded");
        }
        Ok(Self { address: listener.local_addr()?, listener })
    }
}

/// A pingora service on sockets bound here.
pub(crate) struct Prebound<S> {
    service: S,
    fds: ListenFds,
    /// Called on the service's own threads.
    starts: Box<dyn Fn() + Send + Sync>,
}

impl<S> Prebound<S> {
    /// `service` has one endpoint per socket, under the socket's address. `starts` is called on its threads.
    pub(crate) fn new(service: S, sockets: Vec<Bound>, starts: impl Fn() + Send + Sync + 'static) -> Self {
        let mut fds = Fds::new();
        for socket in sockets {
            fds.add(socket.address.to_string(), socket.listener.into_raw_fd());
        }
        Self { service, fds: Arc::new(Mutex::new(fds)), starts: Box::new(starts) }
    }
}

#[async_trait]
impl<S: ServiceWithDependents> ServiceWithDependents for Prebound<S> {
    async fn start_service(
        &mut self,
        _fds: Option<ListenFds>,
        shutdown: ShutdownWatch,
        listeners_per_fd: usize,
        ready: ServiceReadyNotifier,
    ) {
        (self.starts)();
        self.service.start_service(Some(self.fds.clone()), shutdown, listeners_per_fd, ready).await;
    }

    fn name(&self) -> &str {
        self.service.name()
    }

    fn threads(&self) -> Option<usize> {
        self.service.threads()
    }
}
