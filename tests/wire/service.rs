//! What a service manager sees: passed sockets, messages, a watchdog, and restarts that no client notices.
//!
//! The test is the service manager: it holds the listening sockets and a socket for messages.

mod generated;
mod restart;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::{FdFlags, fcntl_setfd};
use tempfile::TempDir;

use crate::client::raw;
use crate::harness::{PATIENCE, Process, Script, Setup, Upstream, run, wait_until};

/// Listening sockets that children inherit, with their names.
pub struct Sockets(Vec<(&'static str, TcpListener)>);

impl Sockets {
    /// One on loopback for each name.
    pub fn named(names: &[&'static str]) -> Self {
        let bound = |name: &&'static str| {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            fcntl_setfd(&socket, FdFlags::empty()).unwrap();
            (*name, socket)
        };
        Self(names.iter().map(bound).collect())
    }

    pub fn address(&self, index: usize) -> SocketAddr {
        self.0[index].1.local_addr().unwrap()
    }

    /// Words of a program that passes them, and becomes the one that follows.
    pub fn passing(&self) -> Vec<String> {
        // By way of numbers that the shell chooses: the sockets may have those from 3 on themselves.
        let copied =
            self.0.iter().enumerate().map(|(index, (_, socket))| format!("{{s{index}}}<&{}", socket.as_raw_fd()));
        let moved = (0..self.0.len()).map(|index| format!("exec {}<&$s{index} {{s{index}}}<&-", 3 + index));
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        let script = format!(
            "exec {}; {}; export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={}; exec \"$@\"",
            copied.collect::<Vec<_>>().join(" "),
            moved.collect::<Vec<_>>().join("; "),
            self.0.len(),
            names.join(":")
        );
        ["bash", "-c", &script, "bash"].map(str::to_owned).into()
    }
}

/// A setup whose server gets these sockets.
pub fn with_sockets(setup: Setup, sockets: &Sockets) -> Setup {
    let words = sockets.passing();
    setup.under(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What a server tells its service manager.
struct Messages {
    address: String,
    said: Arc<Mutex<String>>,
    _dir: TempDir,
}

impl Messages {
    fn listen() -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("notify");
        Self::on(UnixDatagram::bind(&path).unwrap(), path.display().to_string(), dir)
    }

    /// At an address without a file.
    fn listen_abstractly() -> Self {
        let dir = TempDir::new().unwrap();
        let name = dir.path().join("notify").display().to_string();
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        Self::on(UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"), dir)
    }

    fn on(socket: UnixDatagram, address: String, dir: TempDir) -> Self {
        let said = Arc::<Mutex<String>>::default();
        let heard = said.clone();
        // It ends with the test process.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                heard.lock().push_str(std::str::from_utf8(&buffer[..length]).unwrap());
            }
        });
        Self { address, said, _dir: dir }
    }

    fn said(&self) -> String {
        self.said.lock().clone()
    }

    fn count(&self, line: &str) -> usize {
        self.said().lines().filter(|said| *said == line).count()
    }

    /// Words of a program that sets the variables and becomes the one that follows.
    fn variables(&self, watchdog: Duration) -> [String; 3] {
        let socket = format!("NOTIFY_SOCKET={}", self.address);
        ["env".to_owned(), socket, format!("WATCHDOG_USEC={}", watchdog.as_micros())]
    }
}

#[tokio::test]
async fn the_service_manager_hears_when_the_server_is_ready_reloads_stops_and_that_it_is_alive() {
    let messages = Messages::listen();
    let words = messages.variables(Duration::from_secs(1));
    let server = Setup::offline().under(&words.each_ref().map(String::as_str)).start().await;
    wait_until("it is ready", || async { messages.count("READY=1") == 1 }).await;
    wait_until("it has a status", || async { messages.said().contains("STATUS=no data yet (offline); unhealthy: ") })
        .await;
    wait_until("it is alive", || async { messages.count("WATCHDOG=1") > 3 }).await;
    server.process.signal("HUP");
    wait_until("it has reloaded", || async { messages.count("READY=1") == 2 }).await;
    let said = messages.said();
    let reloading: Vec<&str> = said.lines().skip_while(|line| *line != "RELOADING=1").take(2).collect();
    assert!(reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse::<u64>().unwrap() > 0, "{reloading:?}");
    server.process.signal("TERM");
    wait_until("it stops", || async { messages.count("STOPPING=1") == 1 }).await;
    assert!(messages.said().contains("EXTEND_TIMEOUT_USEC=15000000"), "{}", messages.said());
}

#[tokio::test]
async fn a_server_that_is_ready_stops_in_order_however_soon_it_is_told_to() {
    for round in 0..20 {
        let (messages, dir) = (Messages::listen(), TempDir::new().unwrap());
        let words = messages.variables(Duration::from_secs(60));
        let arguments = Setup::offline().arguments(&["serve"], dir.path());
        let process = Process::spawn_under(&words, &arguments, dir.path());
        let start = Instant::now();
        while messages.count("READY=1") == 0 {
            assert!(start.elapsed() < PATIENCE, "it is never ready: {}", process.said());
            tokio::task::yield_now().await;
        }
        process.signal(["TERM", "INT"][round % 2]);
        let (code, said) = process.end().await;
        assert_eq!(code, 0, "{round}: {said}");
    }
}

#[tokio::test]
async fn it_is_ready_when_it_accepts_connections_and_not_when_a_crawl_is_done() {
    let messages = Messages::listen();
    let words = messages.variables(Duration::from_secs(60));
    let origin = Upstream::start(|_| Script::hang()).await;
    let setup = Setup::offline().set("origin.url", &origin.url()).under(&words.each_ref().map(String::as_str));
    let server = setup.start().await;
    wait_until("it is ready", || async { messages.count("READY=1") == 1 }).await;
    let reply = raw(server.public, b"GET /robots.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!(reply.unwrap().status, 200);
    let ready = server.admin(http::Method::GET, "/readyz").await;
    assert!(ready.status == 503 && ready.text().contains("the first crawl"), "{ready:?}");
    wait_until("the status line says so", || async { messages.said().contains("STATUS=no data yet (mirror)") }).await;
}

#[tokio::test]
async fn a_process_that_does_not_run_is_not_reported_as_alive() {
    // An address without a file is one as well.
    let messages = Messages::listen_abstractly();
    let words = messages.variables(Duration::from_millis(400));
    let server = Setup::offline().under(&words.each_ref().map(String::as_str)).start().await;
    wait_until("it is alive", || async { messages.count("WATCHDOG=1") > 2 }).await;
    server.process.signal("STOP");
    // What was under way has arrived once nothing more does.
    let mut before = usize::MAX;
    wait_until("it is silent", || {
        let now = messages.count("WATCHDOG=1");
        let silent = std::mem::replace(&mut before, now) == now;
        async move {
            tokio::time::sleep(Duration::from_millis(900)).await;
            silent
        }
    })
    .await;
    server.process.signal("CONT");
    wait_until("it is alive again", || async { messages.count("WATCHDOG=1") > before }).await;
}

#[tokio::test]
async fn passed_sockets_take_the_place_of_the_addresses_of_their_kind() {
    let sockets = Sockets::named(&["http", "admin", "http"]);
    // Nobody listens there: the sockets are used.
    let setup =
        Setup::offline().set("listen", r#"["192.0.2.1:1"]"#).set("admin.listen", "192.0.2.1:2").without("public_url");
    let server = with_sockets(setup, &sockets).start().await;
    assert_eq!((server.public, server.admin), (sockets.address(0), sockets.address(1)));
    for told in ["192.0.2.1:1 of listen has no effect", "192.0.2.1:2 of admin.listen has no effect"] {
        assert!(server.process.said().contains(told), "{}", server.process.said());
    }
    let status = server.status().await;
    assert_eq!(status["listen"], serde_json::json!([sockets.address(0), sockets.address(2)]));
    for index in [0, 2] {
        let reply = raw(sockets.address(index), b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(reply.status, 404);
    }
    let front = server.get_with("/", &[("accept", "application/json")]).await;
    assert!(front.text().contains(&format!("http://{}", sockets.address(0))), "public_url: {}", front.text());
}

#[tokio::test]
async fn a_socket_without_a_name_takes_the_place_of_its_address() {
    let sockets = Sockets::named(&["grandstand.socket"]);
    let listen = format!("[\"127.0.0.1:0\", \"{}\"]", sockets.address(0));
    let server = with_sockets(Setup::offline().set("listen", &listen), &sockets).start().await;
    let listen = server.status().await["listen"].clone();
    assert_eq!(listen[1], sockets.address(0).to_string());
    assert!(raw(sockets.address(0), b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.is_some());
    assert!(
        raw(server.public, b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.is_some(),
        "the other one is bound"
    );
}

#[tokio::test]
async fn sockets_that_cannot_be_used_are_mistakes_that_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    for (names, told) in [
        (&["https"][..], &["tls.cert", "a socket named https was passed, so set tls.listen, tls.cert and tls.key"][..]),
        (&["htpp"], &["listen", "\"htpp\"", "FileDescriptorName=", "add its address"]),
        (&["admin", "admin"], &["admin.listen", "two passed sockets"]),
    ] {
        let sockets = Sockets::named(names);
        let process = with_sockets(Setup::offline(), &sockets).spawn(&dir.path().join("data"));
        let (code, said) = process.end().await;
        assert_eq!(code, 64, "{names:?}: {said}");
        for text in told {
            assert!(said.contains(text), "{names:?}: {said}");
        }
    }
    let sockets = Sockets::named(&["http"]);
    let arguments = Setup::offline().arguments(&["check"], &dir.path().join("data"));
    assert_eq!(run(&arguments).await.0, 0);
    drop(sockets);
}

/// A container is stopped with SIGTERM, which its first process gets only if it handles the signal.
#[tokio::test]
async fn the_sample_origin_ends_with_0_when_it_is_stopped() {
    for signal in ["TERM", "INT"] {
        let words = ["origin", "--listen", "127.0.0.1:0", "--listings", "5"];
        let process = Process::spawn(&words.map(str::to_owned));
        wait_until("the sample origin listens", || async { process.said().contains("/api/listings.json") }).await;
        process.signal(signal);
        let (code, said) = process.end().await;
        assert_eq!(code, 0, "{signal}: {said}");
    }
}
