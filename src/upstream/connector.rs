//! Connections over TCP and TLS, verified by the system's certificate authorities.
//!
//! Callers: [`super::wire`]; [`crate::cli`] for requests to a running server; [`crate::shared_limit`] for TLS.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::ask::ClientError;

/// How long a connection may be silent before the system checks that its peer is there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Connects over TCP within `timeout`.
pub(crate) fn tcp(timeout: Duration) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_connect_timeout(Some(timeout));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    tcp
}

/// Speaks TLS where it is asked for, over any connections. `ca_file`: more authorities to trust.
///
/// # Errors
/// When the CA file or the TLS library is not usable.
pub(crate) fn over<C>(connector: C, ca_file: Option<&Path>) -> Result<HttpsConnector<C>, ClientError> {
    let https = HttpsConnectorBuilder::new().with_tls_config(tls(ca_file)?).https_or_http().enable_all_versions();
    Ok(https.wrap_connector(connector))
}

/// TLS that trusts the system's authorities and those in `ca_file`.
///
/// # Errors
/// When the CA file or the TLS library is not usable.
pub(crate) fn tls(ca_file: Option<&Path>) -> Result<rustls::ClientConfig, ClientError> {
    let failed = |error: &dyn std::fmt::Display| ClientError::Tls(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let more = ca_file.map(read_ca_file).transpose()?.unwrap_or_default();
    for certificate in &more {
        RootCertStore::empty().add(certificate.clone()).map_err(|error| failed(&error))?;
    }
    let verifier = SystemVerifier { provider: provider.clone(), more, verifier: OnceLock::new() };
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Reads the system's authorities when the first certificate arrives: without TLS nothing is read.
#[derive(Debug)]
struct SystemVerifier {
    provider: Arc<CryptoProvider>,
    more: Vec<CertificateDer<'static>>,
    verifier: OnceLock<Verifier>,
}

impl SystemVerifier {
    /// The error is not kept: the next certificate is tried again.
    fn verifier(&self) -> Result<&Verifier, Error> {
        if let Some(verifier) = self.verifier.get() {
            return Ok(verifier);
        }
        let verifier = Verifier::new_with_extra_roots(self.more.iter().cloned(), self.provider.clone())?;
        Ok(self.verifier.get_or_init(|| verifier))
    }
}

impl ServerCertVerifier for SystemVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The certificates of a CA file (PEM).
///
/// # Errors
/// When it cannot be read, or holds none.
fn read_ca_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let bad = |error: &dyn std::fmt::Display| ClientError::CaFile(format!("{}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(|error| bad(&error))?;
    if certificates.is_empty() { Err(bad(&"it contains no certificate")) } else { Ok(certificates) }
}
