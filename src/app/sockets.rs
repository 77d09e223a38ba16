//! The listening sockets: those that a service manager passed, and those that are bound here.
//!
//! Callers: [`crate::cli`] makes them before anything else, [`super::serve`] hands them to the listeners.

use std::net::SocketAddr;

use crate::config::Config;
use crate::serve::listener::{self, Bound};

use super::activation::PassedSockets;
use super::error::AppError;

/// Sockets, bound before anything else starts.
pub struct Sockets {
    pub(super) public: Vec<Bound>,
    pub(super) tls: Vec<Bound>,
    pub(super) admin: Bound,
}

impl Sockets {
    /// Binds every address of a configuration.
    ///
    /// # Errors
    /// When one is in use; then nothing was started.
    pub fn bind(config: &Config) -> Result<Self, AppError> {
        Self::passed_or_bound(config, PassedSockets::default())
    }

    /// The passed sockets, and those of the other addresses of a configuration.
    ///
    /// # Errors
    /// When an address is in use; then nothing was started.
    pub(crate) fn passed_or_bound(config: &Config, mut passed: PassedSockets) -> Result<Self, AppError> {
        let bind = listener::bind;
        Ok(Self {
            public: passed.http(config, bind)?,
            tls: passed.https(config, bind)?,
            admin: passed.admin(config, bind)?,
        })
    }

    /// The public addresses with their real ports.
    pub fn public(&self) -> Vec<SocketAddr> {
        self.public.iter().map(|bound| bound.address).collect()
    }

    /// The public addresses with TLS, with their real ports.
    pub fn tls(&self) -> Vec<SocketAddr> {
        self.tls.iter().map(|bound| bound.address).collect()
    }

    /// The operator's address with its real port.
    pub const fn admin(&self) -> SocketAddr {
        self.admin.address
    }
}
