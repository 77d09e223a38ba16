//! `[rate_limit]`: the limit for one client on the public listener.
//!
//! Not the counting. Callers: `resolve` reads it, `limit` acts on it.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::address::network;
use super::describe::Toml;
use super::parse::{path, rate, whole};
use super::secret::{StoreUrl, store_url};
use super::section::Section;
use super::units::{duration, duration_text};

/// `[rate_limit]`, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimitConfig {
    /// Requests of one client in any 60 seconds. `None`: no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// How many leading bits of an IPv6 address identify a client; 1 to 128. An IPv4 address is one client.
    pub ipv6_prefix: u8,
    /// How many clients are remembered; 1 to 67,108,864.
    pub max_clients: u32,
    /// The shared store of the limit. `None`: each process counts for itself.
    pub store: Option<StoreUrl>,
    /// A file with the password of the store. `None`: the password in `store`, if any.
    pub store_password_file: Option<PathBuf>,
    /// How long a decision may wait for the store; 1 ms to 10 s.
    pub store_timeout: Duration,
    /// `[[rate_limit.override]]`: other limits for some addresses, no network twice. The longest matching
    /// prefix is meant to win; the limit still counts each client by itself.
    pub overrides: Vec<RateLimitOverride>,
}

/// One `[[rate_limit.override]]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitOverride {
    /// Its addresses, host bits cleared; IPv4-mapped networks are IPv4.
    pub network: IpNet,
    /// Requests of each of its clients in any 60 seconds. `None`: no limit.
    pub requests_per_minute: Option<NonZeroU32>,
}

impl Default for RateLimitConfig {
    fn default() -> Self {
        Self {
            requests_per_minute: NonZeroU32::new(60),
            ipv6_prefix: 64,
            max_clients: 200_000,
            store: None,
            store_password_file: None,
            store_timeout: Duration::from_millis(50),
            overrides: Vec::new(),
        }
    }
}

impl RateLimitConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let bits = |node: &_| whole("bits", 1..=128)(node).map(|bits| u8::try_from(bits).unwrap_or(128));
        let timeout = duration(Duration::from_millis(1)..=Duration::from_secs(10));
        let config = Self {
            requests_per_minute: section.field("requests_per_minute", default.requests_per_minute, rate("off")),
            ipv6_prefix: section.field("ipv6_prefix", default.ipv6_prefix, bits),
            max_clients: section.field("max_clients", default.max_clients, whole("clients", 1..=67_108_864)),
            store: section.optional("store", store_url),
            store_password_file: section.optional("store_password_file", path),
            store_timeout: section.field("store_timeout", default.store_timeout, timeout),
            overrides: section.tables("override", RateLimitOverride::read),
        };
        let in_url = config.store.as_ref().is_some_and(StoreUrl::has_password);
        if config.store_password_file.is_some() && (in_url || config.store.is_none()) {
            let problem = if in_url {
                "`rate_limit.store` has a password, too; remove one of them"
            } else {
                "needs `rate_limit.store`"
            };
            section.fail("store_password_file", problem);
        }
        for (index, entry) in config.overrides.iter().enumerate() {
            if config.overrides[..index].iter().any(|other| other.network == entry.network) {
                section.fail("override", format!("{} is listed twice", entry.network));
            }
        }
        config
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("rate_limit");
        out.pair("requests_per_minute", self.requests_per_minute.map_or(0, NonZeroU32::get));
        out.pair("ipv6_prefix", self.ipv6_prefix);
        out.pair("max_clients", self.max_clients);
        match &self.store {
            None => out.absent("store", "absent: each process counts for itself"),
            Some(store) if store.has_password() => out.secret("store", store.expose(), "set, password not shown"),
            Some(store) => out.pair("store", store.expose()),
        }
        match &self.store_password_file {
            None => out.absent("store_password_file", "absent: the password in store, if any"),
            Some(path) => out.pair("store_password_file", path.to_string_lossy().as_ref()),
        }
        out.pair("store_timeout", duration_text(self.store_timeout));
        for entry in &self.overrides {
            out.element("rate_limit.override");
            out.pair("network", entry.network.to_string());
            out.pair("requests_per_minute", entry.requests_per_minute.map_or(0, NonZeroU32::get));
        }
    }
}

impl RateLimitOverride {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let network = section.required("network", network);
        let requests_per_minute = section.required("requests_per_minute", rate("no limit"));
        Some(Self { network: network?, requests_per_minute: requests_per_minute? })
    }
}
