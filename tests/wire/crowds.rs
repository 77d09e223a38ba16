//! The limits on connections: of one household, in all, and by the system's open files. Households are addresses of
//! loopback: 127.0.0.1, 127.0.0.2 and so on.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::client::{Reply, connect_from, on_the_wire, parse, raw};
use crate::floods;
use crate::harness::{PATIENCE, Script, Server, Setup, Upstream, wait_until};

const LIST: &str = "/api/listings.json";
const HELD: &str = "/api/held.json";

/// A shield whose origin answers everything but [`HELD`], which waits for a permit.
async fn shield(sets: &[(&str, &str)]) -> (Upstream, Server, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let origin = Upstream::start(move |seen| {
        let answer = Script::new(200, "{}").with("cache-control", "max-age=60");
        if seen.target.starts_with(HELD) { answer.held_by(&held) } else { answer }
    })
    .await;
    let mut setup = Setup::shield_of_url(&origin.url());
    for (key, value) in sets {
        setup = setup.set(key, value);
    }
    (origin, setup.start().await, gate)
}

fn household(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number)
}

/// A connection of a household.
struct Visitor(TcpStream);

impl Visitor {
    async fn from(number: u8, server: &Server) -> Self {
        Self(connect_from(household(number), server.public).await)
    }

    async fn ask(&mut self, target: &str) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: mirror.test\r\n\r\n");
        // If it was closed, the answer tells.
        let _ = self.0.write_all(request.as_bytes()).await;
    }

    /// The status of the next answer; 0 for the end of the connection.
    async fn status(&mut self) -> u16 {
        let mut answer = Vec::new();
        loop {
            let read = tokio::time::timeout(PATIENCE, self.0.read_buf(&mut answer)).await.expect("no answer");
            if read.is_err() || read.is_ok_and(|read| read == 0) {
                return 0;
            }
            let text = String::from_utf8_lossy(&answer);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.split("content-length: ").nth(1).or(head.split("Content-Length: ").nth(1));
                let length: usize = length.unwrap().split("\r\n").next().unwrap().parse().unwrap();
                if body.len() == length {
                    return head.split(' ').nth(1).unwrap().parse().unwrap();
                }
            }
        }
    }

    async fn get(&mut self, target: &str) -> u16 {
        self.ask(target).await;
        self.status().await
    }

    /// Whether the other side closed it.
    fn has_ended(&self) -> bool {
        let mut byte = [0];
        match self.0.try_read(&mut byte) {
            Ok(0) => true,
            Ok(_) => panic!("nothing was asked for"),
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

async fn ends(what: &str, visitor: &Visitor) {
    wait_until(what, || async { visitor.has_ended() }).await;
}

/// What a household gets on a new connection.
async fn told(number: u8, server: &Server) -> Option<Reply> {
    let mut visitor = Visitor::from(number, server).await;
    let request = format!("GET {LIST} HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n\r\n");
    let _ = visitor.0.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, visitor.0.read_to_end(&mut answer)).await.expect("an end");
    assert!(read.is_ok() || answer.is_empty(), "an answer is delivered: {read:?}");
    parse(&answer)
}

/// Waits until so many are connected; the order in which they are accepted is open.
async fn connected(count: usize, server: &Server) {
    let line = format!("grandstand_connections {count}");
    wait_until(&line, || counted(server, &line)).await;
}

async fn counted(server: &Server, line: &str) -> bool {
    server.admin(Method::GET, "/metrics").await.text().lines().any(|counted| counted == line)
}

#[tokio::test]
async fn a_household_has_so_many_connections_and_the_next_is_told_so() {
    let (_origin, server, _gate) = shield(&[("limits.connections_per_client", "3")]).await;
    let mut first = Visitor::from(2, &server).await;
    assert_eq!(first.get(LIST).await, 200);
    let (silent, mut half) = (Visitor::from(2, &server).await, Visitor::from(2, &server).await);
    half.0.write_all(b"GET / HT").await.unwrap();
    connected(3, &server).await;
    let refused = told(2, &server).await.expect("an answer");
    refused.assert_problem(503, &["3 open connections"]);
    let wait: u64 = refused.the("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait) && refused.the("connection") == "close", "{refused:?}");
    assert_eq!(told(3, &server).await.unwrap().status, 200, "another household");
    assert_eq!(first.get(LIST).await, 200, "nobody goes for it");
    assert!(!silent.has_ended() && !half.has_ended());
    assert!(
        server
            .admin(Method::GET, "/metrics")
            .await
            .text()
            .contains("grandstand_connections_refused_total{limit=\"client\"}")
    );
    drop(silent);
    wait_until("there is room again", || async { told(2, &server).await.is_some_and(|reply| reply.status == 200) })
        .await;
}

#[tokio::test]
async fn a_household_never_has_more_than_a_quarter_of_all_connections() {
    let (_origin, server, _gate) = shield(&[("limits.connections", "8")]).await;
    let mut mine = [Visitor::from(2, &server).await, Visitor::from(2, &server).await];
    for visitor in &mut mine {
        assert_eq!(visitor.get(LIST).await, 200);
    }
    told(2, &server).await.expect("an answer").assert_problem(503, &["2 open connections"]);
    assert_eq!(told(3, &server).await.unwrap().status, 200, "another household");
}

#[tokio::test]
async fn a_trusted_proxy_has_as_many_connections_as_it_likes() {
    let sets = [("limits.connections_per_client", "2"), ("client_ip.trusted_proxies", r#"["127.0.0.2"]"#)];
    let (_origin, server, _gate) = shield(&sets).await;
    let mut visitors = Vec::new();
    for _ in 0..20 {
        visitors.push(Visitor::from(2, &server).await);
    }
    for visitor in &mut visitors {
        assert_eq!(visitor.get(LIST).await, 200);
    }
    let mut others = [Visitor::from(3, &server).await, Visitor::from(3, &server).await];
    for other in &mut others {
        assert_eq!(other.get(LIST).await, 200);
    }
    assert_eq!(told(3, &server).await.unwrap().status, 503);
}

#[tokio::test]
async fn when_all_connections_are_taken_the_one_that_has_been_idle_for_the_longest_goes() {
    let (origin, server, gate) = shield(&[("limits.connections", "4")]).await;
    let mut busy = Visitor::from(2, &server).await;
    busy.ask(HELD).await;
    wait_until("it is at the origin", || async { origin.count_of(HELD) == 1 }).await;
    let mut idle = Vec::new();
    for number in 3..6 {
        idle.push(Visitor::from(number, &server).await);
        connected(idle.len() + 1, &server).await;
    }
    // The first of them is used.
    assert_eq!(idle[0].get(LIST).await, 200);
    let mut newcomer = Visitor::from(6, &server).await;
    assert_eq!(newcomer.get(LIST).await, 200);
    ends("the second has been idle for the longest", &idle[1]).await;
    assert!(!idle[0].has_ended() && !idle[2].has_ended());
    let mut next = Visitor::from(7, &server).await;
    assert_eq!(next.get(LIST).await, 200);
    ends("now the third", &idle[2]).await;
    assert_eq!(idle[0].get(LIST).await, 200);
    assert!(counted(&server, "grandstand_connections_evicted_total 2").await);
    gate.add_permits(1);
    assert_eq!(busy.status().await, 200, "who waits for an answer stays");
}

#[tokio::test]
async fn when_all_connections_are_busy_a_new_one_is_told_so() {
    let (origin, server, gate) = shield(&[("limits.connections", "2")]).await;
    let mut busy = [Visitor::from(2, &server).await, Visitor::from(3, &server).await];
    for (number, visitor) in busy.iter_mut().enumerate() {
        visitor.ask(&format!("{HELD}?{number}")).await;
    }
    wait_until("both are at the origin", || async { origin.count() == 2 }).await;
    let refused = told(4, &server).await.expect("an answer");
    refused.assert_problem(503, &["in use"]);
    refused.the("retry-after");
    assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
    gate.add_permits(2);
    for visitor in &mut busy {
        assert_eq!(visitor.status().await, 200);
    }
    assert_eq!(told(4, &server).await.unwrap().status, 200);
}

/// A client of a household that speaks HTTP/2.
fn from(number: u8) -> reqwest::Client {
    let builder = crate::client::client_builder().no_proxy().http2_prior_knowledge();
    builder.local_address(std::net::IpAddr::V4(household(number))).build().unwrap()
}

#[tokio::test]
async fn a_connection_of_http_2_goes_when_it_is_idle_and_stays_when_it_is_busy() {
    let (origin, server, gate) = shield(&[("limits.connections", "2")]).await;
    let (busy, idle) = (from(2), from(3));
    let url = |target: &str| format!("http://{}{target}", server.public);
    let held = tokio::spawn(busy.get(url(HELD)).send());
    wait_until("it is at the origin", || async { origin.count_of(HELD) == 1 }).await;
    assert_eq!(idle.get(url(LIST)).send().await.unwrap().status(), 200);
    // It is idle once its stream is.
    let is_let_in = || async { told(4, &server).await.is_some_and(|reply| reply.status == 200) };
    wait_until("the idle one goes", is_let_in).await;
    assert!(counted(&server, "grandstand_connections_evicted_total 1").await);
    gate.add_permits(1);
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
}

/// Their clients neither read nor acknowledge anything.
#[tokio::test]
async fn idle_connections_of_http_2_are_closed_before_others_take_their_places() {
    let origin = Upstream::start(|_| Script::new(200, "{}")).await;
    let setup = Setup::shield_of_url(&origin.url()).set("limits.connections", "10");
    let server = setup.set("client_ip.trusted_proxies", r#"["127.0.0.1"]"#).alone().start().await;
    let files = || std::fs::read_dir(format!("/proc/{}/fd", server.process.pid())).unwrap().count();
    let (before, mut open) = (files(), Vec::new());
    for nth in 0..200 {
        let mut stream = floods::begin(&server, &[]).await;
        let mut first = [0];
        tokio::time::timeout(PATIENCE, stream.read_exact(&mut first)).await.expect("settings").unwrap();
        open.push(stream);
        assert!(files() <= before + 20, "{} of {nth} are open", files() - before);
    }
}

#[tokio::test]
async fn http_2_is_not_answered_in_words_it_does_not_understand() {
    let (_origin, server, _gate) = shield(&[("limits.connections_per_client", "1")]).await;
    let mut first = Visitor::from(2, &server).await;
    assert_eq!(first.get(LIST).await, 200);
    let mut second = Visitor::from(2, &server).await;
    second.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, second.0.read_to_end(&mut answer)).await.expect("an end");
    assert_eq!(answer, b"");
}

/// Limits of open files, soft and hard.
fn limited(files: &str) -> Vec<String> {
    ["prlimit", &format!("--nofile={files}"), "--"].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_and_a_part_of_it_is_never_given_to_clients() {
    let origin = Upstream::start(|_| Script::new(200, "{}")).await;
    let under = limited("256:1024");
    let under: Vec<&str> = under.iter().map(String::as_str).collect();
    let server = Setup::shield_of_url(&origin.url()).under(&under).start().await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.process.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("1024"), "{files}");
    let said = server.process.said();
    assert!(said.contains("limits.connections") && said.contains("most=512"), "the operator is told: {said}");
    // More than the file limit, each household within its own bound.
    let mut crowd = Vec::new();
    for number in 0..1100_u16 {
        crowd.push(connect_from(household(10 + (number % 100) as u8), server.public).await);
    }
    for number in 0..50 {
        let target = format!("/api/{number}.json");
        let reply = tokio::time::timeout(PATIENCE, server.get(&target)).await.expect("an answer");
        assert_eq!(reply.status, 200, "the origin can be reached: {reply:?}");
        assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
    }
    let said = server.process.said();
    assert!(!said.contains("Too many open files") && !said.contains("os error 24"), "{said}");
    assert!(said.contains("all connections are in use"), "{said}");
    drop(crowd);
}

/// A hanging origin must not get the descriptors of everybody else.
#[tokio::test]
async fn one_household_has_half_of_the_places_on_the_way_to_the_origin() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let origin = Upstream::start(move |seen| {
        let answer = Script::new(200, "{}");
        if seen.target.contains("held") { answer.held_by(&held) } else { answer }
    })
    .await;
    let under = limited("256:256");
    let under: Vec<&str> = under.iter().map(String::as_str).collect();
    let shield = Setup::shield_of_url(&origin.url()).set("origin.requests_per_minute", "0").set("origin.wait", "0s");
    let server = shield.under(&under).start().await;
    let client = from(2);
    let asked: Vec<_> = (0..40)
        .map(|nth| tokio::spawn(client.get(format!("http://{}/api/held/{nth}", server.public)).send()))
        .collect();
    wait_until("the others are told", || async { asked.iter().filter(|one| one.is_finished()).count() == 8 }).await;
    // Those that have a place may still be on their way.
    wait_until("32 are at the origin", || async { origin.count() >= 32 }).await;
    assert_eq!(origin.count(), 32);
    assert_eq!(from(3).get(format!("http://{}/api/free", server.public)).send().await.unwrap().status(), 200);
    gate.add_permits(32);
    let mut statuses = Vec::new();
    for one in asked {
        let reply = one.await.unwrap().unwrap();
        statuses.push(reply.status().as_u16());
        assert!(reply.status() == 200 || reply.headers().contains_key("retry-after"), "{reply:?}");
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; 32], vec![503; 8]].concat());
    assert_eq!(client.get(format!("http://{}/api/free/again", server.public)).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn operators_have_connections_of_their_own_and_the_oldest_idle_one_goes_as_well() {
    let (_origin, server, _gate) = shield(&[("limits.connections", "1")]).await;
    let to: SocketAddr = server.admin;
    let mut open = Vec::new();
    for _ in 0..300 {
        open.push(TcpStream::connect(to).await.unwrap());
    }
    // On its own connection: the one that the client still holds open has been idle longer than any of these.
    let alive = raw(to, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert_eq!(alive.expect("an answer").status, 200);
    assert_eq!(told(2, &server).await.unwrap().status, 200);
    let mut first = [0];
    let ended = tokio::time::timeout(PATIENCE, open[0].read(&mut first)).await.expect("the first had to go");
    assert!(ended.is_err() || ended.is_ok_and(|read| read == 0));
    tokio::time::timeout(Duration::from_millis(10), open[299].read(&mut first)).await.expect_err("the last stays");
}

/// The kernel's memory for TCP is one for all: thousands of clients that read nothing must not fill it.
#[tokio::test]
async fn an_answer_that_nobody_reads_takes_little_of_the_kernels_memory() {
    const LARGE: usize = 1 << 20;
    let origin = Upstream::start(|_| Script::new(200, vec![b'a'; LARGE]).with("cache-control", "max-age=60")).await;
    let server = Setup::shield_of_url(&origin.url()).start().await;
    server.ok("/api/large").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut silent = socket.connect(server.public).await.unwrap();
    let request = b"GET /api/large HTTP/1.1\r\nHost: mirror.test\r\n\r\n";
    silent.write_all(&request.repeat(8)).await.unwrap();
    let mut held = 0;
    wait_until("the server writes no more", || {
        let now = on_the_wire(server.public);
        let still = now > 0 && std::mem::replace(&mut held, now) == now;
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            still
        }
    })
    .await;
    assert!(held < LARGE as u64 / 2, "{held} bytes");
    // It gets all of them as soon as it reads.
    let mut received = 0;
    while received < 8 * LARGE {
        let mut part = Vec::with_capacity(1 << 16);
        let read = tokio::time::timeout(PATIENCE, silent.read_buf(&mut part)).await.expect("no progress").unwrap();
        assert!(read > 0, "the connection ended after {received} bytes");
        received += read;
    }
}
