//! A disk that fails or stalls for one server, as `faults.c` says: every call, one, or until the test says otherwise.
//!
//! Callers: the attacks on disks and connections, the limits of the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use super::{Server, Setup};

/// The faults of a server.
pub struct Faults(PathBuf);

impl Faults {
    /// Starts a server on an empty data directory, without a fault yet.
    pub async fn start(setup: Setup) -> (Server, Self) {
        let (setup, dir, faults) = Self::of(setup);
        (setup.start_in(dir).await, faults)
    }

    /// The setup of a server that is not started yet, and the directory to start it in.
    pub fn of(setup: Setup) -> (Setup, TempDir, Self) {
        let dir = TempDir::new().unwrap();
        let faults = Self(dir.path().to_owned());
        let (preload, told) = (format!("LD_PRELOAD={}", library().display()), format!("FAULTS={}", faults.0.display()));
        (setup.under(&["env", &preload, &told]), dir, faults)
    }

    /// From now on this call has this fault. At once: the file is never half written.
    pub fn begin(&self, call: &str, fault: &str) {
        let half = self.0.join("half");
        fs::write(&half, fault).unwrap();
        fs::rename(half, self.0.join(call)).unwrap();
    }

    /// The call works again.
    pub fn end(&self, call: &str) {
        fs::remove_file(self.0.join(call)).unwrap();
    }

    /// Whether a fault is there.
    pub fn lasts(&self, call: &str) -> bool {
        self.0.join(call).exists()
    }
}

/// Compiled once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = dir.path().join("faults.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/harness/faults.c");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&path).args([source, "-ldl"]).status();
        assert!(built.unwrap().success());
        (dir, path)
    });
    path
}
