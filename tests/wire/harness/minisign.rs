//! Keys and signatures by the real tool.
//!
//! Callers: the tests of bundles and of fleets.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the tool in a directory; whether it succeeds.
pub fn minisign(dir: &Path, arguments: &[&str]) -> bool {
    let output = Command::new("minisign").args(arguments).current_dir(dir).output();
    output.expect("the tool `minisign` is there: setup.sh installs it").status.success()
}

/// The public line of a key.
pub fn public(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(format!("{name}.pub"))).unwrap().lines().nth(1).unwrap().to_owned()
}

/// Makes a key without a password; its public line.
pub fn key(dir: &Path, name: &str) -> String {
    assert!(minisign(dir, &["-G", "-W", "-p", &format!("{name}.pub"), "-s", &format!("{name}.key")]));
    public(dir, name)
}
