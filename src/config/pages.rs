//! `[pages]`: the pages and documents for people on the public listener.
//!
//! Not their content. Callers: `resolve` reads it, `app` uses it.

use super::describe::Toml;
use super::parse::boolean;
use super::section::Section;

/// `[pages]`, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagesConfig {
    /// Whether there are pages; without, their paths are unknown paths.
    pub enabled: bool,
}

impl Default for PagesConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl PagesConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self { enabled: section.field("enabled", Self::default().enabled, boolean) }
    }

    pub(super) fn write(self, out: &mut Toml) {
        out.table("pages");
        out.pair("enabled", self.enabled);
    }
}
