//! Removes the unfinished files that a killed publisher leaves in a directory.
//!
//! The client writes an object to `<name>#<number>` first, and no list shows that. Other object stores have parts of
//! large objects instead, which rules of the bucket remove. Callers: the publisher, through [`Place`].

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Place, PlaceError};
use crate::fleet::keys::Key;

/// The directories of objects; the head lies above them.
const DIRECTORIES: [&str; 4] = ["", "full", "delta", "journal"];

impl Place {
    /// Removes unfinished files that are older than this. Blocks.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub(crate) fn sweep(&self, older: Duration) -> Result<(), PlaceError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        for below in DIRECTORIES {
            // It is made with its first object.
            let Ok(entries) = fs::read_dir(directory.join(below)) else { continue };
            for entry in entries.flatten() {
                let is_old = entry.metadata().and_then(|meta| meta.modified()).is_ok_and(|at| age(at) > older);
                if is_old && is_unfinished(below, &entry.file_name().to_string_lossy()) {
                    fs::remove_file(entry.path()).map_err(|error| PlaceError::Failed(error.to_string()))?;
                }
            }
        }
        Ok(())
    }
}

fn age(at: SystemTime) -> Duration {
    SystemTime::now().duration_since(at).unwrap_or_default()
}

fn is_unfinished(below: &str, name: &str) -> bool {
    let Some((name, number)) = name.rsplit_once('#') else { return false };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && Path::new(below).join(name).to_str().is_some_and(|key| Key::parse(key).is_some())
}
