//! A real HAProxy in front of a server, which announces its clients by the PROXY protocol.
//!
//! It gets its listening socket from the test, so that no port is fixed. Called by tests of the PROXY protocol.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::process::Running;

/// HAProxy until it is dropped.
pub struct HaProxy {
    _child: Running,
    dir: TempDir,
    /// Where it listens.
    pub address: SocketAddr,
}

impl HaProxy {
    /// Starts it in front of `server`. `options` are those of HAProxy's `server` line, such as `send-proxy-v2`.
    pub fn before(server: SocketAddr, options: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let at = dir.path().display();
        let config = format!(
            "global\n maxconn 100\n stats socket {at}/stats\ndefaults\n mode tcp\n timeout connect 30s\n timeout client 60s\n timeout server 60s\n\
             listen all\n bind fd@0\n server grandstand {server} {options}\n"
        );
        let file = dir.path().join("haproxy.cfg");
        std::fs::write(&file, config).unwrap();
        let child = Command::new(program())
            .args([Path::new("-db"), Path::new("-f"), &file])
            // Its standard input is the socket: connections wait there until it accepts them.
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .spawn()
            .expect("haproxy: setup.sh installs it");
        Self { _child: Running(child), dir, address }
    }

    /// The result of its last health check, such as `L4OK`, and how many have failed.
    pub async fn health(&self) -> Option<(String, u64)> {
        let mut stream = UnixStream::connect(self.dir.path().join("stats")).await.ok()?;
        stream.write_all(b"show stat\n").await.ok()?;
        let mut table = String::new();
        stream.read_to_string(&mut table).await.ok()?;
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = lines.next()?;
        let server = lines.find(|line| line.get(1) == Some(&"grandstand"))?;
        let cell = |name: &str| names.iter().position(|known| *known == name).and_then(|at| server.get(at).copied());
        // While the next check runs, "* " stands before the last one's result.
        Some((cell("check_status")?.trim_start_matches("* ").to_owned(), cell("chkfail")?.parse().ok()?))
    }
}

/// Debian has it where only root looks.
fn program() -> &'static str {
    if Path::new("/usr/sbin/haproxy").exists() { "/usr/sbin/haproxy" } else { "haproxy" }
}
