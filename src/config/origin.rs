//! `[origin]`: the address of the origin, and limits on requests to it.
//!
//! Not the client. Callers: `resolve` reads it, `upstream` acts on it.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::address::{BaseUrl, base_url};
use super::describe::Toml;
use super::parse::{header_text, path, rate};
use super::section::Section;
use super::units::{DAY, duration, duration_text, size, size_text};

/// `[origin]`, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginConfig {
    /// The base address of the API. `None`: offline, no requests.
    pub url: Option<BaseUrl>,
    /// Other base addresses that its data uses for itself.
    pub aliases: Vec<BaseUrl>,
    /// The budget: requests in any 60 seconds. `None`: unlimited.
    pub requests_per_minute: Option<NonZeroU32>,
    /// How old copies of its CDN can be if headers do not say; 0 to 24 h.
    pub cache_ttl: Duration,
    /// How long one request may take; 10 ms to 10 min.
    pub timeout: Duration,
    /// How long the read of a client may wait for the budget; 0 to 10 min.
    pub wait: Duration,
    /// The largest accepted body, in bytes; 1 KiB to 4 GiB.
    pub max_body: u64,
    /// Certificates (PEM) to trust besides those of the system. `None`: no others.
    pub ca_file: Option<PathBuf>,
    pub user_agent: String,
}

impl Default for OriginConfig {
    fn default() -> Self {
        Self {
            url: None,
            aliases: Vec::new(),
            requests_per_minute: NonZeroU32::new(60),
            cache_ttl: Duration::from_secs(5 * 60),
            timeout: Duration::from_secs(10),
            wait: Duration::from_secs(10),
            max_body: 32 << 20,
            ca_file: None,
            user_agent: concat!("grandstand/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl OriginConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let minutes = Duration::from_secs(10 * 60);
        Self {
            url: section.optional("url", base_url),
            aliases: section.list("aliases", "\"https://example.org\"", default.aliases, base_url),
            requests_per_minute: section.field("requests_per_minute", default.requests_per_minute, rate("unlimited")),
            cache_ttl: section.field("cache_ttl", default.cache_ttl, duration(Duration::ZERO..=DAY)),
            timeout: section.field("timeout", default.timeout, duration(Duration::from_millis(10)..=minutes)),
            wait: section.field("wait", default.wait, duration(Duration::ZERO..=minutes)),
            max_body: section.field("max_body", default.max_body, size(1 << 10..=4 << 30)),
            ca_file: section.optional("ca_file", path),
            user_agent: section.field("user_agent", default.user_agent, header_text),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("origin");
        match &self.url {
            Some(url) => out.pair("url", url.as_str()),
            None => out.absent("url", "absent, offline"),
        }
        out.list("aliases", &self.aliases);
        out.pair("requests_per_minute", self.requests_per_minute.map_or(0, NonZeroU32::get));
        out.pair("cache_ttl", duration_text(self.cache_ttl));
        out.pair("timeout", duration_text(self.timeout));
        out.pair("wait", duration_text(self.wait));
        out.pair("max_body", size_text(self.max_body));
        match &self.ca_file {
            Some(file) => out.pair("ca_file", file.to_string_lossy().as_ref()),
            None => out.absent("ca_file", "absent: the certificates of the system"),
        }
        out.pair("user_agent", self.user_agent.as_str());
    }
}
