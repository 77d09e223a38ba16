//! `[bundle]`: which bundles are believed.
//!
//! Not the verification of signatures. Read by `resolve`, acted upon by `bundle`.

use std::fmt;

use super::describe::Toml;
use super::parse::expected;
use super::raw::Node;
use super::section::Section;

/// `[bundle]`, resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleConfig {
    /// Only bundles signed by one of these are imported; empty: signatures are not asked for.
    pub trusted_keys: Vec<TrustedKey>,
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
        Self { trusted_keys: section.list("trusted_keys", "\"RW...\"", Vec::new(), trusted_key) }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("bundle");
        out.list("trusted_keys", &self.trusted_keys);
    }
}
