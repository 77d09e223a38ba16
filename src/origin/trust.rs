//! Trust in servers: whose certificates are accepted, and the PEM files of authorities.
//!
//! Callers: [`super::wire`]; [`crate::fleet`] for object stores; [`crate::cli`] for requests to a running server;
//! [`crate::edge::shared_limit`] for Redis; [`crate::edge::serve`] reads PEM files.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_parser::parse_x509_certificate;

use super::ask::ClientError;
use crate::clock::WallTime;
use crate::config::files;

/// What helps when a server shows the certificate of an authority, which webpki refuses as `CaUsedAsEndEntity`.
const AUTHORITY: &str = "the server shows the certificate of an authority (CA:TRUE) as its own; give the server a certificate \
                         with CA:FALSE that the authority signs, and make the authority known here (origin.ca_file for the \
                         origin; for others update-ca-certificates or SSL_CERT_FILE)";

/// The longest PEM file, in bytes.
const MOST_PEM: u64 = 4 << 20;

/// TLS with peers that have a certificate of the system's authorities, or of those in a file.
pub(crate) fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let failed = |error: rustls::Error| ClientError::Tls(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let mut more = RootCertStore::empty();
    if let Some(path) = ca_file {
        read_ca_file(path)?.into_iter().try_for_each(|certificate| more.add(certificate)).map_err(failed)?;
    }
    let verifier = Verifier { provider: provider.clone(), more, authorities: OnceLock::new() };
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(failed)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}

/// Reads the system's authorities when the first certificate arrives: without TLS nothing is read.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    more: RootCertStore,
    authorities: OnceLock<Arc<WebPkiServerVerifier>>,
}

impl Verifier {
    /// The error is not kept: the next certificate is tried again.
    fn authorities(&self) -> Result<&WebPkiServerVerifier, rustls::Error> {
        if let Some(authorities) = self.authorities.get() {
            return Ok(authorities);
        }
        let mut roots = self.more.clone();
        match rustls_native_certs::load_native_certs() {
            Ok(found) => drop(roots.add_parsable_certificates(found)),
            Err(error) => tracing::warn!(%error, "the certificate authorities of the system cannot be read"),
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(roots.into(), self.provider.clone()).build();
        let authorities = authorities.map_err(|error| {
            rustls::Error::General(format!("the system has no usable certificate authorities ({error})"))
        })?;
        Ok(self.authorities.get_or_init(|| authorities))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.authorities()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verified.map_err(|error| match error {
            rustls::Error::InvalidCertificate(CertificateError::Other(_))
                if parse_x509_certificate(end_entity).is_ok_and(|(_, shown)| shown.is_ca()) =>
            {
                rustls::Error::General(AUTHORITY.to_owned())
            }
            rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
                untimely("expired at", not_after, "the server needs a new one")
            }
            rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. }) => {
                untimely("is not valid before", not_before, "the server needs another one")
            }
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The server's certificate is not valid now.
fn untimely(why: &str, at: UnixTime, todo: &str) -> rustls::Error {
    let at = WallTime::from_seconds(at.as_secs().try_into().unwrap_or(i64::MAX));
    rustls::Error::General(format!(
        "the server's certificate {why} {at}; see whether the clock of this machine is right; if it is, {todo}"
    ))
}

/// The bytes of a PEM file without a byte order mark, which would hide the first certificate or key.
pub(crate) fn read_pem(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    files::open(path)?.take(MOST_PEM + 1).read_to_end(&mut bytes)?;
    // Cut, it would lack certificates without a word.
    if bytes.len() as u64 > MOST_PEM {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 4 MiB"));
    }
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(.."\u{feff}".len());
    }
    Ok(bytes)
}

/// The certificates of a CA file (PEM).
fn read_ca_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let bad = |error: &dyn std::fmt::Display| ClientError::CaFile(format!("{}: {error}", path.display()));
    let bytes = read_pem(path).map_err(|error| bad(&error))?;
    let certificates = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| bad(&error))?;
    if certificates.is_empty() { Err(bad(&"it contains no certificate")) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_authorities_that_is_too_long_is_refused_and_not_cut() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MOST_PEM).unwrap();
        assert_eq!(read_pem(file.path()).unwrap().len() as u64, MOST_PEM);
        file.as_file().set_len(MOST_PEM + 1).unwrap();
        assert!(read_pem(file.path()).unwrap_err().to_string().contains("more than 4 MiB"));
    }
}
