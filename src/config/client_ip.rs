//! `[client_ip]`: which peers are believed about the address of a client.
//!
//! Not the walk through the header. Callers: `resolve` reads it, `semantics` acts on it.

use http::HeaderName;
use ipnet::IpNet;

use super::address::network;
use super::describe::Toml;
use super::parse::{boolean, header_name};
use super::section::Section;

/// `[client_ip]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIpConfig {
    /// Peers whose header is believed; empty: none.
    pub trusted_proxies: Vec<IpNet>,
    /// `x-forwarded-for`, `forwarded`, or a header that holds one address.
    pub header: HeaderName,
    /// Whether connections begin with a PROXY protocol header.
    pub proxy_protocol: bool,
}

impl Default for ClientIpConfig {
    fn default() -> Self {
        Self { trusted_proxies: Vec::new(), header: HeaderName::from_static("x-forwarded-for"), proxy_protocol: false }
    }
}

impl ClientIpConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            trusted_proxies: section.list("trusted_proxies", "\"10.0.0.0/8\"", default.trusted_proxies, network),
            header: section.field("header", default.header, header_name),
            proxy_protocol: section.field("proxy_protocol", default.proxy_protocol, boolean),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("client_ip");
        out.list("trusted_proxies", &self.trusted_proxies);
        out.pair("header", self.header.as_str());
        out.pair("proxy_protocol", self.proxy_protocol);
    }
}
