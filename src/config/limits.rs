//! `[limits]`: bounds on connections and memory.
//!
//! Not the limit of requests (`rate_limit`). Callers: `resolve` reads it; `serve`, `admin` and `upstream` act on it.

use super::describe::Toml;
use super::parse::whole;
use super::section::Section;
use super::units::{size, size_text};

/// `[limits]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Connections of clients at once, in all; 1 to 1,000,000.
    pub connections: u32,
    /// Connections of one client (an IPv4 address, an IPv6 network) at once; 1 to 1,000,000.
    pub connections_per_client: u32,
    /// The longest request head, and request line, in bytes; 1 KiB to 256 KiB.
    pub head: u64,
    /// All bodies of the origin that are being received, decoded or checked, in bytes; 1 MiB to 1 TiB.
    pub origin_bytes: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { connections: 20_000, connections_per_client: 512, head: 48 << 10, origin_bytes: 128 << 20 }
    }
}

impl LimitsConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let connections = || whole("connections", 1..=1_000_000);
        Self {
            connections: section.field("connections", default.connections, connections()),
            connections_per_client: section.field(
                "connections_per_client",
                default.connections_per_client,
                connections(),
            ),
            head: section.field("head", default.head, size(1 << 10..=256 << 10)),
            origin_bytes: section.field("origin_bytes", default.origin_bytes, size(1 << 20..=1 << 40)),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("limits");
        out.pair("connections", self.connections);
        out.pair("connections_per_client", self.connections_per_client);
        out.pair("head", size_text(self.head));
        out.pair("origin_bytes", size_text(self.origin_bytes));
    }
}
