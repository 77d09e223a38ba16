//! The public HTTPS listener: certificate, service and status.
//!
//! Callers: [`super::serve`].

use std::net::SocketAddr;
use std::sync::Arc;

use pingora::services::listening::Service;
use rustls::crypto::CryptoProvider;

use crate::admin::status::TlsStatus;
use crate::clock::Clock;
use crate::config::TlsConfig;
use crate::serve::gate::Gate;
use crate::serve::tls::certificate::Files;
use crate::serve::tls::certificate::{Renewal, Watched};
use crate::serve::tls::{TlsGate, provider};

use super::error::AppError;

/// A listener with a usable certificate.
pub(crate) struct Https {
    renewal: Renewal,
    provider: Arc<CryptoProvider>,
}

impl Https {
    /// Reads the certificate.
    ///
    /// # Errors
    /// With everything that is wrong with it.
    pub(crate) fn new(config: &TlsConfig, clock: &Clock) -> Result<Self, AppError> {
        let provider = provider();
        let renewal = Renewal::new(files(config), provider.clone(), clock.clone()).map_err(|errors| {
            let errors = errors.iter().map(|error| format!("{}: {error}", error.key));
            AppError::Certificate(errors.collect::<Vec<_>>().join("; "))
        })?;
        Ok(Self { renewal, provider })
    }

    /// Its part of `/status`.
    pub(crate) fn status(&self, listen: Vec<SocketAddr>) -> TlsStatus {
        TlsStatus { listen, certificate: self.renewal.current() }
    }

    /// The service, and its certificate, which a reload looks at.
    ///
    /// # Errors
    /// When the TLS library refuses.
    pub(crate) fn start(self, gate: Gate) -> Result<(Service<TlsGate>, Watched), AppError> {
        let gate = TlsGate::new(gate, self.provider, self.renewal.current());
        let gate = gate.map_err(|error| AppError::Certificate(error.to_string()))?;
        Ok((Service::new("public-https".to_owned(), gate), self.renewal.start()))
    }
}

/// The files that a configuration names.
pub(crate) fn files(config: &TlsConfig) -> Files {
    Files { cert: config.cert.clone(), key: config.key.clone() }
}
