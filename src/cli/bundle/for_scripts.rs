//! `grandstand bundle --json`: what a command did, for scripts.
//!
//! Callers: [`super`].

use std::path::Path;

use serde_json::{Value, json};

use crate::bundle::Manifest;
use crate::cli::Failure;

/// What was done with which file, and what is in it. `done`: `"intact"`, `"exported"` or `"imported"`.
pub(super) fn told(file: &Path, done: &str, manifest: &Manifest, signature: &Value) -> Result<Value, Failure> {
    Ok(json!({
        done: true,
        "file": file.display().to_string(),
        "kind": manifest.kind(),
        "snapshot": manifest.snapshot.to_string(),
        "listings": manifest.listings,
        "signature": signature,
        "manifest": serde_json::to_value(manifest)?,
    }))
}
