//! The server under test: within the test's process, or the real binary as a child process where the test is about the
//! process, with its log, its data directory and its two addresses.
//!
//! It listens on ports that the system chooses. Requests and the judging of answers are in `client` and `compare`.
//! Callers: all tests.

mod aim;
pub mod faults;
pub mod haproxy;
mod in_memory;
pub mod minisign;
pub mod nginx;
pub mod openssl;
pub mod postgres;
mod process;
pub mod redis;
mod shared;
mod upstream;
pub mod virtually;
mod within;

use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use grandstand::clock::WallTime;
use grandstand::config::Config;
use grandstand::data::store::DataDir;
use grandstand::origin::connector::Pipe;
use http::Method;
use sample_origin::{Origin, Reach, Switches, World};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::Instant;

pub use aim::Aim;
pub use in_memory::InMemory;
pub use process::{Process, Running, run};
pub use shared::shared_mirror;
pub use upstream::{Script, Seen, Upstream, pipe};
pub use within::Within;

use crate::client::{Asks, Reply, header_map, plain_client, raw_get, together};

/// The default `public_url` of servers under test.
pub const PUBLIC: &str = "http://mirror.test";
/// How long a condition may take to come true. Below a minute: the windows of budget and limit must not help.
pub const PATIENCE: Duration = Duration::from_secs(55);
/// An origin without requests for so long counts as left alone.
const QUIET: Duration = Duration::from_millis(600);

/// The longest pause between two looks at a condition.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The pauses between two looks at a condition: short at first, then at most 100 ms, so that waiting tests leave the
/// processors to the others.
struct Pauses(Duration);

impl Pauses {
    const fn new() -> Self {
        Self(Duration::from_millis(20))
    }

    async fn next(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 5 / 4).min(LONGEST_PAUSE);
    }
}

/// Waits until `attempt` gives something.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut attempt: impl FnMut() -> F) -> T {
    let (start, mut pauses) = (Instant::now(), Pauses::new());
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        pauses.next().await;
    }
}

/// Waits until `holds`.
pub async fn wait_until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    until(what, || {
        let holds = holds();
        async { holds.await.then_some(()) }
    })
    .await;
}

/// Waits for what is promised within seconds on an idle machine; allows for a busy one.
pub async fn soon<F: Future<Output = bool>>(what: &str, holds: impl FnMut() -> F) {
    let start = Instant::now();
    wait_until(what, holds).await;
    assert!(start.elapsed() < Duration::from_secs(20), "{what}, but only after {:?}", start.elapsed());
}

/// The shortest time that something takes, of a few tries: a busy machine delays some of them, a built-in wait delays
/// all.
pub async fn quickest(mut something: impl AsyncFnMut()) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..4 {
        let start = Instant::now();
        something().await;
        shortest = shortest.min(start.elapsed());
    }
    shortest
}

/// A pause between the requests of a client that loads a server for as long as something takes: the load is there, and
/// leaves the processors to other tests.
pub async fn breath() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// How many cases of a table run at once.
const AT_ONCE: usize = 8;

/// Runs a test of each case, several at once: they wait more than they compute. Names a case that fails.
pub async fn each<T: Debug>(cases: impl IntoIterator<Item = T>, test: impl AsyncFn(T)) {
    let test = &test;
    let all = stream::iter(cases).map(|case| async move {
        let name: String = format!("{case:?}").chars().take(200).collect();
        if let Err(panic) = AssertUnwindSafe(test(case)).catch_unwind().await {
            eprintln!("--- the case that failed: {name}");
            resume_unwind(panic);
        }
    });
    all.buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Changes the origin and waits until a mirror serves another snapshot, with all its details; its id.
pub async fn edit(origin: &Origin, server: &Server, change: impl FnOnce(&mut World)) -> String {
    let before = server.snapshot().await;
    origin.edit(change);
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    server.settled(origin).await;
    server.snapshot().await
}

/// A mirror of so many listings that has settled.
pub async fn mirrored(listings: usize) -> (Origin, Server) {
    mirrored_by(listings, |setup| setup).await
}

/// The same, with something set differently.
pub async fn mirrored_by(listings: usize, change: impl FnOnce(Setup) -> Setup) -> (Origin, Server) {
    mirror_of(origin(listings).await, change).await
}

/// A mirror of this origin that has settled.
async fn mirror_of(origin: Origin, change: impl FnOnce(Setup) -> Setup) -> (Origin, Server) {
    let server = change(Setup::mirror_of(&origin)).start().await;
    server.settled(&origin).await;
    (origin, server)
}

/// An origin with the defaults.
pub async fn origin(listings: usize) -> Origin {
    origin_with(listings, Switches::default()).await
}

/// An origin in which something is varied.
pub async fn origin_with(listings: usize, switches: Switches) -> Origin {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Origin::start(any, World::generate(listings, 42), switches).await.unwrap()
}

/// Waits until no request arrived at the origin for a while.
pub async fn quiet(origin: &Origin) {
    let (mut count, mut since) = (origin.count(), Instant::now());
    wait_until("the origin is left alone", || {
        if origin.count() != count {
            (count, since) = (origin.count(), Instant::now());
        }
        let holds = since.elapsed() >= QUIET;
        async move { holds }
    })
    .await;
}

/// What was asked of the origin, without refreshes, which may come at any time: they ask for the index of each kind, the
/// first hundred, and what was modified lately.
pub fn asked(origin: &Origin) -> Vec<String> {
    let is_of_a_refresh = |target: &str| {
        target.ends_with("per_page=100")
            || ["sports", "states", "cities"].iter().any(|kind| target.contains(&format!("/{kind}.json")))
    };
    origin.log().into_iter().map(|seen| seen.path_and_query).filter(|target| !is_of_a_refresh(target)).collect()
}

/// The configuration of a server, as arguments of `--set`, and what it runs under.
#[derive(Clone)]
pub struct Setup {
    sets: Vec<(String, String)>,
    under: Vec<String>,
    words: Vec<String>,
    is_process: bool,
    /// What no key changes.
    adjust: fn(&mut Config),
    memory: Option<Memory>,
}

/// The way to an origin in memory, and its wall time in milliseconds since 1970: the server is in memory, too.
#[derive(Clone)]
struct Memory {
    pipe: Pipe,
    now: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl From<Reach> for Memory {
    fn from(reach: Reach) -> Self {
        let clock = reach.clone();
        Self { pipe: Arc::new(move || reach.connect()), now: Arc::new(move || clock.now_millis()) }
    }
}

impl Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.sets).finish()
    }
}

impl Setup {
    /// Offline, on free ports, without a limit for clients.
    pub fn offline() -> Self {
        Self { sets: Vec::new(), under: Vec::new(), words: Vec::new(), is_process: false, adjust: |_| {}, memory: None }
            .set("listen", r#"["127.0.0.1:0"]"#)
            .set("admin.listen", "127.0.0.1:0")
            .set("public_url", PUBLIC)
            .set("ttl", "10m")
            .set("rate_limit.requests_per_minute", "0")
    }

    /// A shield of a scripted origin, without a budget.
    pub fn shield_of_url(url: &str) -> Self {
        Self::offline()
            .set("origin.url", url)
            .set("origin.requests_per_minute", "0")
            .set("mirror.examine_per_hour", "0")
            .set("mirror.enabled", "false")
    }

    /// The same in memory, in virtual time.
    pub fn shield_of_pipe(pipe: Pipe) -> Self {
        let begin = (virtually::begin(), Instant::now());
        let now = move || begin.0.as_millis() + i64::try_from(begin.1.elapsed().as_millis()).unwrap();
        Self { memory: Some(Memory { pipe, now: Arc::new(now) }), ..Self::shield_of_url("http://127.0.0.1:1") }
    }

    /// A mirror without an origin budget, that refreshes when told to, samples nothing by itself, and asks nothing odd.
    pub fn mirror_of(origin: &Origin) -> Self {
        Self { memory: origin.within_reach().map(Memory::from), ..Self::offline() }
            .set("origin.url", &origin.url())
            .set("origin.requests_per_minute", "0")
            .set("origin.cache_ttl", "1s")
            .set("mirror.examine_per_hour", "0")
    }

    /// The same, examined.
    pub fn examining(origin: &Origin) -> Self {
        Self::mirror_of(origin).without("mirror.examine_per_hour")
    }

    /// A shield without an origin budget.
    pub fn shield_of(origin: &Origin) -> Self {
        Self::mirror_of(origin).set("mirror.enabled", "false")
    }

    /// Changes what is constant for operators. Not for a process of its own.
    #[must_use]
    pub fn adjusted(self, adjust: fn(&mut Config)) -> Self {
        Self { adjust, ..self }
    }

    /// Sets a dotted key to a TOML value, or to a string where it is none.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.sets.retain(|(known, _)| known != key);
        self.sets.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a key at its default.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.sets.retain(|(known, _)| known != key);
        self
    }

    /// Runs the real binary as a child process, because the test is about the process: kills, signals, descriptors, disks,
    /// memory, standard error.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.is_process = true;
        self
    }

    /// Runs it under a program that becomes it, such as `env` or `setpriv`; none: under nothing.
    #[must_use]
    pub fn under(mut self, program: &[&str]) -> Self {
        self.is_process = true;
        self.under = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Adds these words to `serve`.
    #[must_use]
    pub fn serving(mut self, words: &[&str]) -> Self {
        self.words = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts `serve` on a data directory and does not wait for it.
    pub fn spawn(&self, dir: &Path) -> Process {
        let words: Vec<&str> = ["serve"].into_iter().chain(self.words.iter().map(String::as_str)).collect();
        self.command(&words, dir)
    }

    /// Starts a command on a data directory and does not wait for it.
    pub fn command(&self, words: &[&str], dir: &Path) -> Process {
        Process::spawn_under(&self.under, &self.arguments(words, dir), &std::env::temp_dir())
    }

    /// Starts a small demo without a named data directory.
    pub fn demo(&self) -> Process {
        let sets = self.sets.iter().flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]);
        let words: Vec<String> = ["demo", "--listings", "20"].map(str::to_owned).into_iter().chain(sets).collect();
        Process::spawn_under(&self.under, &words, &std::env::temp_dir())
    }

    /// The arguments for a command.
    pub fn arguments(&self, command: &[&str], dir: &Path) -> Vec<String> {
        let sets = self.set_values(dir).into_iter().flat_map(|set| ["--set".to_owned(), set]);
        command.iter().map(|&word| word.to_owned()).chain(sets).collect()
    }

    /// The values of `--set`.
    fn set_values(&self, dir: &Path) -> Vec<String> {
        let dir = ("data_dir".to_owned(), dir.to_string_lossy().into_owned());
        self.sets.iter().chain([&dir]).map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Starts the server on an empty data directory.
    pub async fn start(self) -> Server {
        self.start_in(tempfile::tempdir().unwrap()).await
    }

    /// Starts the server on `data` in this directory, with any content.
    pub async fn start_in(self, dir: TempDir) -> Server {
        Server::start(self, dir).await
    }
}

/// What a server runs in, with one interface.
#[derive(Debug)]
pub enum Body {
    /// The test's process.
    Within(Within),
    /// A process of its own.
    Child(Process),
    /// The test's runtime, without sockets.
    Memory(InMemory),
    /// The test's process, for other tests, too.
    Shared(&'static Within),
}

const NO_PROCESS: &str = "this needs a process of its own: Setup::alone";

impl Body {
    /// The process of its own.
    pub fn child(&mut self) -> &mut Process {
        match self {
            Self::Child(process) => process,
            _ => panic!("{NO_PROCESS}"),
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child().kill();
    }

    pub fn pid(&self) -> u32 {
        match self {
            Self::Child(process) => process.pid(),
            _ => panic!("{NO_PROCESS}"),
        }
    }

    /// The log so far; of a process all output.
    pub fn said(&self) -> String {
        match self {
            Self::Child(process) => process.said(),
            Self::Within(within) => within.said(),
            Self::Memory(memory) => memory.said(),
            Self::Shared(within) => within.said(),
        }
    }

    /// Sends a signal by its name, `TERM` for example.
    pub fn signal(&self, name: &str) {
        match self {
            Self::Child(process) => process.signal(name),
            Self::Within(within) => within.signal(name),
            Self::Memory(_) | Self::Shared(_) => panic!("{NO_PROCESS}"),
        }
    }

    /// The exit code, if it has ended; -1 if a signal ended it.
    pub fn ended(&mut self) -> Option<i32> {
        match self {
            Self::Child(process) => process.ended(),
            Self::Within(within) => within.ended(),
            Self::Memory(_) | Self::Shared(_) => None,
        }
    }

    /// Waits for the end: the exit code.
    pub async fn exit(&mut self) -> i32 {
        match self {
            Self::Child(process) => process.exit().await,
            Self::Within(within) => within.exit().await,
            Self::Memory(_) | Self::Shared(_) => panic!("{NO_PROCESS}"),
        }
    }

    /// Waits for the end: exit code and all output.
    pub async fn end(mut self) -> (i32, String) {
        let code = self.exit().await;
        if let Self::Child(process) = &mut self {
            process.join();
        }
        (code, self.said())
    }

    /// Ends it for a restart: a process with SIGKILL.
    async fn take_down(&mut self) {
        match self {
            Self::Child(process) => {
                if process.ended().is_none() {
                    process.kill();
                }
            }
            Self::Within(within) => within.stop().await,
            Self::Memory(memory) => memory.down().await,
            Self::Shared(_) => panic!("a shared mirror stays"),
        }
    }
}

/// `grandstand serve`, up and running.
#[derive(Debug)]
pub struct Server {
    // Before `dir`: the process goes first.
    pub process: Body,
    pub setup: Setup,
    pub public: SocketAddr,
    pub admin: SocketAddr,
    client: reqwest::Client,
    dir: Arc<TempDir>,
}

impl Server {
    /// Waits until every shape of a query was asked, and returns the names of those that the origin answers otherwise.
    pub async fn disproved(&self) -> Value {
        wait_until("the origin is examined", || async { self.status().await["disproved"].is_array() }).await;
        self.status().await["disproved"].clone()
    }

    async fn start(setup: Setup, dir: TempDir) -> Self {
        let dir = Arc::new(dir);
        let client = plain_client();
        let (process, public, admin) = up(&setup, &dir.path().join("data")).await;
        Self { process, setup, public, admin, client, dir }
    }

    /// The file with everything in it.
    pub fn store_file(&self) -> PathBuf {
        self.data_dir().join("grandstand.redb")
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Ends it: a process with SIGKILL, one within this process as Ctrl-C does.
    pub async fn down(&mut self) {
        self.process.take_down().await;
        if matches!(self.process, Body::Within(_)) {
            // On a busy machine, work that blocks may hold it a moment longer.
            let data_dir = self.data_dir();
            wait_until("the data directory is free", || async { DataDir::holder(&data_dir).is_none() }).await;
        }
    }

    /// Starts again on the same data directory; ends it first if it runs, a process with SIGKILL.
    pub async fn restart(&mut self) {
        self.down().await;
        let said = self.process.said();
        assert!(!said.contains("panicked"), "{said}");
        self.client = plain_client();
        (self.process, self.public, self.admin) = up(&self.setup, &self.data_dir()).await;
    }

    /// Finds the addresses in the log of a process that could not write its name into the lock.
    pub async fn found_by_log(&mut self) {
        self.client = plain_client();
        let address = |said: &str, of: &str| {
            let line = said.lines().find(|line| line.contains(of))?.to_owned();
            line.split("address=").nth(1)?.split(' ').next()?.parse::<SocketAddr>().ok()
        };
        let (public, admin) = until("it says where it listens", || {
            let said = self.process.said();
            assert!(self.process.ended().is_none(), "{said}");
            let found = address(&said, "serving address=").zip(address(&said, "listener address="));
            async move { found }
        })
        .await;
        (self.public, self.admin) = (public, admin);
    }

    /// [`restart`](Self::restart) with something set differently.
    pub async fn restart_with(&mut self, key: &str, value: &str) {
        self.setup = self.setup.clone().set(key, value);
        self.restart().await;
    }

    /// The wall time of a server in memory.
    pub fn wall(&self) -> WallTime {
        match &self.process {
            Body::Memory(memory) => memory.hand().clock().now_wall(),
            _ => panic!("the wall clock is the system's"),
        }
    }

    pub async fn send(&self, method: Method, target: &str, headers: &[(&str, &str)]) -> Reply {
        if let Body::Memory(memory) = &self.process {
            return memory.send(method, target, header_map(headers)).await;
        }
        let url = format!("http://{}{target}", self.public);
        let request = self.client.request(method, url).headers(header_map(headers));
        Reply::of(request.send().await.unwrap_or_else(|error| panic!("{target}: {error:?}"))).await
    }

    pub async fn get_with(&self, target: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(Method::GET, target, headers).await
    }

    pub async fn get(&self, target: &str) -> Reply {
        self.get_with(target, &[]).await
    }

    /// [`get`](Self::get) of what has to be there.
    #[track_caller]
    pub fn ok(&self, target: &str) -> impl Future<Output = Reply> {
        let at = std::panic::Location::caller();
        async move {
            let reply = self.get(target).await;
            assert_eq!(reply.status, 200, "{target} at {at}: {reply:?}");
            reply
        }
    }

    pub async fn head(&self, target: &str) -> Reply {
        self.send(Method::HEAD, target, &[]).await
    }

    /// `GET` of a request target that no library would send.
    pub async fn raw_get(&self, target: &str) -> Reply {
        raw_get(self.public, target).await
    }

    /// `GET`s of many clients at once; runs `then` when the server has read all of them.
    pub async fn together(&self, clients: impl IntoIterator<Item = Asks<'_>>, then: impl FnOnce()) -> Vec<Reply> {
        together(self.public, clients, then).await
    }

    pub async fn admin(&self, method: Method, target: &str) -> Reply {
        if let Body::Memory(memory) = &self.process {
            return memory.admin(method, target).await;
        }
        let url = format!("http://{}{target}", self.admin);
        Reply::of(self.client.request(method, url).send().await.unwrap()).await
    }

    pub async fn status(&self) -> Value {
        self.admin(Method::GET, "/status").await.json()
    }

    /// What a finding says; `None`: it is not raised.
    pub async fn finding(&self, name: &str) -> Option<String> {
        let status = self.status().await;
        let raised = status["findings"].as_array().unwrap().iter().find(|raised| raised["name"] == name)?;
        raised["text"].as_str().map(str::to_owned)
    }

    /// The id of the snapshot that is served.
    pub async fn snapshot(&self) -> String {
        self.status().await["snapshot"]["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Tells it to refresh now.
    pub async fn refresh(&self) {
        let reply = self.admin(Method::POST, "/refresh").await;
        assert!((200..300).contains(&reply.status), "{reply:?}");
    }

    /// Requests a refresh and waits until it is done: until nothing more arrives at the origin.
    pub async fn refreshed(&self, origin: &Origin) {
        let before = origin.count();
        self.refresh().await;
        wait_until("a refresh reaches the origin", || async { origin.count() > before }).await;
        quiet(origin).await;
    }

    /// Waits until it answers from a snapshot, or is a shield that is up.
    pub async fn ready(&self) {
        wait_until("/readyz is 200", || async { self.admin(Method::GET, "/readyz").await.status == 200 }).await;
    }

    /// Waits until everything is mirrored, certified and known, and the origin is left alone.
    pub async fn settled(&self, origin: &Origin) {
        let (start, mut pauses) = (Instant::now(), Pauses::new());
        while !self.is_settled().await {
            assert!(start.elapsed() < 2 * PATIENCE, "not settled: {:#}", self.status().await);
            pauses.next().await;
        }
        quiet(origin).await;
    }

    async fn is_settled(&self) -> bool {
        match &self.process {
            Body::Within(within) => within.is_settled(),
            Body::Memory(memory) => memory.is_settled(),
            Body::Child(_) => is_settled(&self.status().await),
            Body::Shared(_) => true,
        }
    }
}

fn is_settled(status: &Value) -> bool {
    let certified = matches!(status["snapshot"]["certificate"].as_str(), Some("full" | "incremental"));
    let looked = matches!(status["origin"]["state"].as_str(), Some("changed" | "unchanged"));
    certified && looked && status["details"]["current"] == status["details"]["of"]
}

/// Starts a server: what it runs in, its public and its admin address.
async fn up(setup: &Setup, data_dir: &Path) -> (Body, SocketAddr, SocketAddr) {
    if setup.is_process {
        let mut process = setup.spawn(data_dir);
        let (public, admin) = discover(&mut process, data_dir).await;
        return (Body::Child(process), public, admin);
    }
    if let Some(Memory { pipe, now }) = setup.memory.clone() {
        let memory = InMemory::start(&setup.set_values(data_dir), setup.adjust, now(), Some(pipe));
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        return (Body::Memory(memory), nowhere, nowhere);
    }
    let words: Vec<&str> = setup.words.iter().map(String::as_str).collect();
    let (within, config) = Within::start(setup.arguments(&words, data_dir), setup.adjust).await;
    let Some(config) = config else { panic!("the server did not start:\n{}", within.said()) };
    let public = config.listen.first().copied().unwrap_or(config.admin.listen);
    (Body::Within(within), public, config.admin.listen)
}

/// `/status` of the server on the socket in this data directory, if there is one.
pub async fn status_in(data_dir: &Path) -> Option<Value> {
    let mut socket = UnixStream::connect(data_dir.join("admin.sock")).await.ok()?;
    socket.write_all(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).await.ok()?;
    serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
}

/// The public and the admin address of a server that has just been started.
pub async fn discover(process: &mut Process, data_dir: &Path) -> (SocketAddr, SocketAddr) {
    let (start, mut pauses) = (Instant::now(), Pauses::new());
    loop {
        if let Some(code) = process.ended() {
            process.join();
            panic!("the server ended with {code}:\n{}", process.tail());
        }
        if DataDir::holder(data_dir).is_some_and(|holder| holder.pid == Some(process.pid()))
            && let Some(status) = status_in(data_dir).await
        {
            let [public, admin] = [&status["listen"][0], &status["admin"]["listen"]];
            return (public.as_str().unwrap().parse().unwrap(), admin.as_str().unwrap().parse().unwrap());
        }
        assert!(start.elapsed() < PATIENCE, "the server cannot be found:\n{}", process.tail());
        pauses.next().await;
    }
}
