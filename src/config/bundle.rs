//! `[bundle]`: which bundles are accepted, and how old data may be.
//!
//! Not the verification of signatures. Callers: `resolve` reads it, `app` uses it.

use std::fmt;
use std::time::Duration;

use super::describe::Toml;
use super::parse::expected;
use super::raw::Node;
use super::section::Section;
use super::units::{DAY, duration, duration_text, size, size_text};

/// `[bundle]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleConfig {
    /// Only bundles signed by one of these are imported; empty: signatures are not required.
    pub trusted_keys: Vec<TrustedKey>,
    /// The largest bundle that is read, in bytes; 1 KiB to 1 TiB.
    pub max_size: u64,
    /// The age of data at which `/status` becomes unhealthy; 1 s to 3650 d. `None`: any age is healthy.
    pub max_age: Option<Duration>,
}

impl Default for BundleConfig {
    fn default() -> Self {
        Self { trusted_keys: Vec::new(), max_size: 4 << 30, max_age: None }
    }
}

/// A minisign public key in its written form: 56 characters of base64 that begin with `RW`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey(String);

impl TrustedKey {
    /// The written form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TrustedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn trusted_key(node: &Node) -> Result<TrustedKey, String> {
    let well_formed = |text: &&str| {
        let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        text.len() == 56 && text.starts_with("RW") && text.bytes().all(base64)
    };
    match node.as_text().filter(well_formed) {
        Some(text) => Ok(TrustedKey(text.to_owned())),
        None => expected(
            node,
            "a minisign public key: 56 characters of base64 that begin with RW (the second line of the .pub file)",
        ),
    }
}

impl BundleConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            trusted_keys: section.list("trusted_keys", "\"RW...\"", Vec::new(), trusted_key),
            max_size: section.field("max_size", Self::default().max_size, size(1 << 10..=1 << 40)),
            max_age: section.optional("max_age", duration(Duration::from_secs(1)..=3650 * DAY)),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("bundle");
        out.list("trusted_keys", &self.trusted_keys);
        out.pair("max_size", size_text(self.max_size));
        match self.max_age {
            Some(age) => out.pair("max_age", duration_text(age)),
            None => out.absent("max_age", "absent: data may have any age"),
        }
    }
}
