//! A real PostgreSQL with an empty database, over a socket file.
//!
//! Called by the tests of the documentation.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::wait_until;

/// It refuses to run as root.
const NOBODY: u32 = 65_534;

/// PostgreSQL until it is dropped.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    dir: TempDir,
}

/// Where the programs are; `None`: they are not installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.map(|entry| entry.unwrap().path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).chain(versions);
    all.find(|dir| ["initdb", "postgres", "createdb"].iter().all(|name| dir.join(name).exists()))
}

/// A program of it, as a user that it accepts.
fn command(programs: &Path, name: &str) -> Command {
    let program = programs.join(name);
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]).arg(program);
    command
}

impl Postgres {
    /// Starts it with an empty database; `None`: it is not installed.
    pub async fn start(database: &str) -> Option<Self> {
        let (programs, dir) = (programs()?, TempDir::new().unwrap());
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = dir.path().join("data");
        let mut made = command(&programs, "initdb");
        made.args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale", "C", "-D"]).arg(&data);
        let made = made.current_dir(dir.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut server = command(&programs, "postgres");
        server.args(["-F", "-c", "listen_addresses=", "-k"]).arg(dir.path()).arg("-D").arg(&data);
        let quiet = server.current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let this = Self { child: quiet.spawn().unwrap(), dir };
        wait_until("PostgreSQL has a database", || async {
            let mut made = Command::new(programs.join("createdb"));
            made.arg(database).envs(this.environment()).output().unwrap().status.success()
        })
        .await;
        Some(this)
    }

    /// What its clients read.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [("PGHOST", self.dir.path().to_str().unwrap().to_owned()), ("PGUSER", "postgres".to_owned())]
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its children end, too.
        let _ = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}
