//! `[cache]`: answers kept in memory, and for how long stale ones may still be used.
//!
//! Not the cache. Callers: `resolve` reads it, `cache` and `answer` act on it.

use std::time::Duration;

use super::describe::Toml;
use super::section::Section;
use super::units::{DAY, duration, duration_text, size, size_text};

/// `[cache]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// Memory for cached answers, in bytes; 1 KiB to 1 TiB.
    pub max_bytes: u64,
    /// How long after `ttl` an answer may be used while it is being refreshed; 0 to 30 d.
    pub stale_while_revalidate: Duration,
    /// How long after `ttl` an answer may be used when the origin fails; 0 to 365 d.
    pub stale_if_error: Duration,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { max_bytes: 256 << 20, stale_while_revalidate: Duration::from_secs(60), stale_if_error: DAY }
    }
}

impl CacheConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            max_bytes: section.field("max_bytes", default.max_bytes, size(1 << 10..=1 << 40)),
            stale_while_revalidate: section.field(
                "stale_while_revalidate",
                default.stale_while_revalidate,
                duration(Duration::ZERO..=30 * DAY),
            ),
            stale_if_error: section.field(
                "stale_if_error",
                default.stale_if_error,
                duration(Duration::ZERO..=365 * DAY),
            ),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("cache");
        out.pair("max_bytes", size_text(self.max_bytes));
        out.pair("stale_while_revalidate", duration_text(self.stale_while_revalidate));
        out.pair("stale_if_error", duration_text(self.stale_if_error));
    }
}
