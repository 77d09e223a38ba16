//! A real nginx: with its cache in front of a server, or as the web server of a directory.
//!
//! One process, as the user who runs the tests. Callers: tests of our answers behind nginx, and of replicas.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::client::{Reply, parse};

use super::process::Running;
use super::wait_until;

/// A process of nginx until it is dropped, and the directory of its own.
struct Own {
    child: Running,
    dir: TempDir,
}

impl Own {
    /// Starts it with the rest of an `http` block, which may say `{at}` for its directory.
    fn start(http: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary: String = temporary.map(|name| format!("{name}_temp_path {{at}}/{name};\n")).concat();
        let config = format!(
            "daemon off;\nmaster_process off;\npid {{at}}/pid;\nerror_log {{at}}/log;\nevents {{}}\nhttp {{\n\
             access_log off;\n{temporary}{http}}}\n"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config.replace("{at}", dir.path().to_str().unwrap())).unwrap();
        let child = Command::new(program())
            .args([Path::new("-e"), &dir.path().join("log"), Path::new("-c"), &file])
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx: setup.sh installs it");
        Self { child: Running(child), dir }
    }
}

/// nginx with its cache in front of a server, over a socket file: it takes no port of the system's choice.
pub struct Nginx(Own);

impl Nginx {
    /// Starts it in front of `server`; `cache` is added to its cache directives. `X-Cache` in answers tells what the
    /// cache did.
    pub async fn before(server: SocketAddr, cache: &str) -> Self {
        Self::proxying(server, &format!("proxy_cache answers;\n{cache}")).await
    }

    /// Starts it in front of `server` without a cache; `settings` are added to `proxy_pass`.
    pub async fn proxying(server: SocketAddr, settings: &str) -> Self {
        let this = Self(Own::start(&format!(
            "proxy_cache_path {{at}}/cache keys_zone=answers:1m;\nserver {{\nlisten unix:{{at}}/socket;\n\
             add_header X-Cache $upstream_cache_status always;\nlocation / {{\nproxy_pass http://{server};\n{settings}\n}}\n}}\n"
        )));
        wait_until("nginx listens", || async { UnixStream::connect(this.socket()).await.is_ok() }).await;
        this
    }

    fn socket(&self) -> PathBuf {
        self.0.dir.path().join("socket")
    }

    /// `GET` through it.
    pub async fn get(&self, target: &str) -> Reply {
        let mut stream = UnixStream::connect(self.socket()).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        parse(&answer).unwrap_or_else(|| panic!("no answer to GET {target}: {}", self.log()))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.dir.path().join("log")).unwrap_or_default()
    }
}

/// nginx as a plain web server of a directory, or as the cache of an origin, on a port that was free a moment before.
pub struct OnPort {
    running: Own,
    port: u16,
}

impl OnPort {
    /// A web server of a directory, below `/fleet/`.
    pub async fn files(root: &Path) -> Self {
        Self::start("", &format!("location /fleet/ {{\nalias {}/;\n}}\n", root.display())).await
    }

    /// A cache of an origin that says neither how old its copies are nor that they are copies.
    pub async fn cache_of(origin: SocketAddr, cache: &str) -> Self {
        let location = format!(
            "location / {{\nproxy_pass http://{origin};\nproxy_set_header Host $http_host;\nproxy_cache answers;\n{cache}\n\
             access_log {{at}}/requests;\n}}\n"
        );
        Self::start("proxy_cache_path {at}/cache keys_zone=answers:1m;\n", &location).await
    }

    /// In front of several servers, as in the documentation: what one lacks, another answers.
    pub async fn balancing(servers: &[SocketAddr]) -> Self {
        let servers: Vec<String> = servers.iter().map(|server| format!("server {server} max_fails=0;\n")).collect();
        let location = "location / {\nproxy_pass http://servers;\nproxy_next_upstream error timeout http_503;\n}\n";
        Self::start(&format!("upstream servers {{\n{}}}\n", servers.concat()), location).await
    }

    async fn start(global: &str, location: &str) -> Self {
        for _ in 0..5 {
            if let Some(started) = Self::try_start(global, location).await {
                return started;
            }
        }
        panic!("nginx found no port");
    }

    async fn try_start(global: &str, location: &str) -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut running = Own::start(&format!("{global}server {{\nlisten 127.0.0.1:{port};\n{location}}}\n"));
        // In real time, whatever the test's clock does: a blocking task stops it.
        let waits = tokio::task::spawn_blocking(move || {
            let start = std::time::Instant::now();
            loop {
                // Somebody may have taken the port.
                let ended = running.child.0.try_wait().unwrap().is_some();
                if ended || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return (running, ended);
                }
                assert!(start.elapsed() < super::PATIENCE, "nginx neither listens nor ends");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        let (running, ended) = waits.await.unwrap();
        (!ended).then_some(Self { running, port })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The path and query of each request so far.
    pub fn requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.running.dir.path().join("requests")).unwrap_or_default();
        log.lines().filter_map(|line| Some(line.split('"').nth(1)?.split(' ').nth(1)?.to_owned())).collect()
    }
}

/// Debian has it where only root looks.
fn program() -> &'static str {
    if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" }
}
