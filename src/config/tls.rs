//! `[tls]`: the public HTTPS listener. All of its keys or none.
//!
//! Nothing is opened here. Callers: `resolve` reads it, `serve` acts on it.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::address::socket;
use super::describe::Toml;
use super::parse::path;
use super::section::Section;

/// `[tls]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Public addresses with TLS, at least one.
    pub listen: Vec<SocketAddr>,
    /// The certificate chain, PEM.
    pub cert: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

impl TlsConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Option<Self> {
        if section.is_empty() {
            // Read anyway, so that suggestions know the keys.
            section.optional("listen", socket);
            section.optional("cert", path);
            section.optional("key", path);
            return None;
        }
        let listen = section.required_list("listen", "\"0.0.0.0:8443\"", socket);
        let cert = section.required("cert", path);
        let key = section.required("key", path);
        Some(Self { listen, cert: cert?, key: key? })
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("tls");
        out.list("listen", &self.listen);
        out.pair("cert", self.cert.to_string_lossy().as_ref());
        out.pair("key", self.key.to_string_lossy().as_ref());
    }
}
