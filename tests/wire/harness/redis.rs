//! A real redis-server over a socket file, and a port of the system's choice through which servers reach it.
//!
//! The port belongs to the test, so it stays the same when Redis is killed and started again. Called by the tests of the
//! shared limit.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use redis::{Connection, FromRedisValue, RedisResult};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::wait_until;

/// Redis until it is dropped.
#[derive(Debug)]
pub struct Redis {
    dir: Arc<TempDir>,
    child: Option<Child>,
    password: Option<String>,
    /// Where servers reach it.
    pub address: SocketAddr,
    relay: JoinHandle<()>,
}

impl Redis {
    /// Starts it empty.
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// Starts it; servers reach it over TLS if there is an acceptor.
    pub async fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let mut this = Self::absent(tls).await;
        this.run(&[]).await;
        this
    }

    /// Its port alone, behind which nothing runs yet.
    pub async fn absent(tls: Option<TlsAcceptor>) -> Self {
        let dir = Arc::new(TempDir::new().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let relay = tokio::spawn(relay(listener, dir.path().join("socket"), tls));
        Self { dir, child: None, password: None, address, relay }
    }

    /// Starts the program, with these options too.
    pub async fn run(&mut self, options: &[&str]) {
        assert!(self.child.is_none(), "it runs");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--enable-debug-command", "yes"])
            .args(["--appendonly", "no", "--daemonize", "no", "--logfile", "log"])
            .args(options)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server: setup.sh installs it");
        self.child = Some(child);
        wait_until("redis-server listens", || async { UnixStream::connect(self.socket()).await.is_ok() }).await;
    }

    /// SIGKILL. Nothing was saved.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// What it wants from now on from new connections, and from those of this test.
    pub fn require_password(&mut self, password: &str) {
        self.ask::<()>(&["CONFIG", "SET", "requirepass", password]);
        self.password = Some(password.to_owned()).filter(|password| !password.is_empty());
    }

    /// A connection for the test itself.
    pub fn connect(&self) -> RedisResult<Connection> {
        let url = format!("redis+unix://{}", self.socket().display());
        let url =
            self.password.iter().fold(url, |url, password| format!("{url}?pass={}", password.replace(' ', "%20")));
        redis::Client::open(url)?.get_connection()
    }

    /// Runs one command.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connect().unwrap()).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The stamps of the admissions that count for a client, oldest first, by id.
    pub fn stamps(&self, client: &str) -> Vec<(Vec<u8>, u64)> {
        let pairs: Vec<(Vec<u8>, f64)> =
            self.ask(&["ZRANGE", &format!("grandstand:limit:{client}"), "0", "-1", "WITHSCORES"]);
        pairs.into_iter().map(|(id, stamp)| (id, stamp as u64)).collect()
    }

    /// How many scripts have run.
    pub fn scripts(&self) -> u64 {
        let info: String = self.ask(&["INFO", "commandstats"]);
        let calls = |line: &str| {
            let rest = line.strip_prefix("cmdstat_evalsha:calls=")?;
            rest.split(',').next()?.parse().ok()
        };
        info.lines().find_map(calls).unwrap_or(0)
    }

    /// `rate_limit.store` for it.
    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.relay.abort();
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself; both fail then, and that is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Carries bytes between the port and the socket file. Without a server a connection is closed.
async fn relay(listener: TcpListener, socket: PathBuf, tls: Option<TlsAcceptor>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (socket, tls) = (socket.clone(), tls.clone());
        stream.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            match tls {
                None => carry(stream, &socket).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        carry(stream, &socket).await;
                    }
                }
            }
        });
    }
}

async fn carry(mut stream: impl AsyncRead + AsyncWrite + Unpin, socket: &Path) {
    if let Ok(mut redis) = UnixStream::connect(socket).await {
        // Either side may end it.
        let _ended = tokio::io::copy_bidirectional(&mut stream, &mut redis).await;
    }
}
