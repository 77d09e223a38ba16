//! A client's pace is its own: one that reads slowly holds up nobody, and takes no room from others for long.
//!
//! Slow clients have small buffers and read a little now and then, and the deadlines for the origin are minutes: no
//! timeout ends what a slow client holds up.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::{Wire, kept, talkative};
use crate::client::{Reply, header_map};
use crate::harness::{Script, Seen, Server, Setup, Upstream, wait_until};

const MEBIBYTE: usize = 1 << 20;
/// A field that an answer might show, so that nobody gets the answer before its end.
const ODD: (&str, &str) = ("x-odd", "something");

/// A shield that caches bodies of at most 1 MiB. Streams of a household may take 5 MiB of the room at once.
fn patient(origin: &Upstream) -> Setup {
    talkative(origin)
        .set("origin.max_body", "1MiB")
        .adjusted(|config| config.limits.origin_bytes = 16 << 20)
        .set("origin.timeout", "5m")
        .set("origin.wait", "5m")
}

async fn shield(answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> (Upstream, Server) {
    let origin = Upstream::start(answer).await;
    let server = patient(&origin).start().await;
    (origin, server)
}

/// A client that reads a little now and then, just enough not to be given up.
struct Slow {
    reading: JoinHandle<Wire>,
    stop: oneshot::Sender<()>,
}

impl Slow {
    async fn get(server: &Server, household: u8, target: &str, fields: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, household), 0).into()).unwrap();
        let mut stream = socket.connect(server.public).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut wire = Wire { stream, read: Vec::new() };
        wire.until("\r\n\r\n").await;
        let (stop, mut stopped) = oneshot::channel();
        let reading = tokio::spawn(async move {
            loop {
                let pause = tokio::time::sleep(Duration::from_millis(500));
                if tokio::time::timeout(Duration::ZERO, &mut stopped).await.is_ok() {
                    return wire;
                }
                pause.await;
                let mut piece = [0; 4096];
                let read = wire.stream.read(&mut piece).await.unwrap_or(0);
                wire.read.extend_from_slice(&piece[..read]);
            }
        });
        Self { reading, stop }
    }

    /// Reads as fast as it can from now on; everything until the connection ends.
    async fn rest(self) -> String {
        let _ = self.stop.send(());
        self.reading.await.unwrap().rest().await
    }
}

/// The same over HTTP/2.
struct SlowHttp2 {
    reading: JoinHandle<bool>,
    stop: oneshot::Sender<()>,
}

impl SlowHttp2 {
    async fn get(server: &Server, household: u8, target: &str, fields: &[(&str, &str)]) -> Self {
        let client = of(household).http2_prior_knowledge().http2_initial_stream_window_size(16 << 10).build().unwrap();
        let request = client.get(format!("http://{}{target}", server.public)).headers(header_map(fields));
        let mut response = request.send().await.unwrap();
        let (stop, mut stopped) = oneshot::channel();
        let reading = tokio::spawn(async move {
            let mut is_slow = true;
            loop {
                if is_slow {
                    is_slow = tokio::time::timeout(Duration::from_millis(500), &mut stopped).await.is_err();
                }
                match response.chunk().await {
                    Ok(Some(_)) => {}
                    end => return end.is_ok(),
                }
            }
        });
        Self { reading, stop }
    }

    /// Reads as fast as it can from now on; whether its stream ends as it should.
    async fn ends_well(self) -> bool {
        let _ = self.stop.send(());
        self.reading.await.unwrap()
    }
}

/// A client of another household, to be built.
fn of(household: u8) -> reqwest::ClientBuilder {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, household));
    crate::client::client_builder().no_proxy().local_address(address)
}

fn client_of(household: u8) -> reqwest::Client {
    of(household).build().unwrap()
}

/// Clients of a household that speak HTTP/1.1 and HTTP/2.
fn clients_of(household: u8) -> [reqwest::Client; 2] {
    [client_of(household), of(household).http2_prior_knowledge().build().unwrap()]
}

/// An answer whose head has come.
async fn begun(client: &reqwest::Client, server: &Server, target: &str) -> (String, Response) {
    let response = client.get(format!("http://{}{target}", server.public)).send().await.unwrap();
    (response.headers()["cache-status"].to_str().unwrap().to_owned(), response)
}

async fn get(client: &reqwest::Client, server: &Server, target: &str) -> Reply {
    let url = format!("http://{}{target}", server.public);
    Reply::of(client.get(url).send().await.unwrap()).await
}

async fn is_hit(client: &reqwest::Client, server: &Server, target: &str) -> bool {
    get(client, server, target).await.the("cache-status").contains("; hit")
}

/// Whether a chunked answer ended as it should.
fn is_whole(answer: &str) -> bool {
    answer.ends_with("0\r\n\r\n")
}

/// A large body of unknown length: the cache takes its start, and nobody knows yet that it will not take all.
fn large() -> Script {
    kept("first ").then(Duration::ZERO, "").repeating(vec![b'x'; MEBIBYTE], 32)
}

#[tokio::test]
async fn a_slow_client_delays_nobody_who_asks_for_the_same() {
    let (origin, server) = shield(|_| large()).await;
    for (number, odd) in [("0", None), ("1", Some(ODD))] {
        let line = odd.map_or(String::new(), |(name, value)| format!("{name}: {value}\r\n"));
        for (version, client) in ["1", "2"].into_iter().zip(clients_of(3)) {
            let target = format!("/api/{number}/{version}");
            let slow = Slow::get(&server, 2, &target, &line).await;
            let reply = get(&client, &server, &target).await;
            assert_eq!((reply.status, reply.body.len()), (200, 6 + 32 * MEBIBYTE), "{target}");
            let target = format!("{target}?http2");
            let slow_http2 = SlowHttp2::get(&server, 2, &target, odd.as_slice()).await;
            let reply = get(&client, &server, &target).await;
            assert_eq!((reply.status, reply.body.len()), (200, 6 + 32 * MEBIBYTE), "{target}");
            drop(slow);
            slow_http2.reading.abort();
        }
    }
    assert!(origin.count() >= 8);
}

#[tokio::test]
async fn a_client_that_joined_a_slow_one_gets_all_and_the_slow_one_sees_an_early_end() {
    for (version, client) in ["1", "2"].into_iter().zip(clients_of(3)) {
        let gate = Arc::new(Semaphore::new(0));
        let (origin, server) = shield({
            let gate = gate.clone();
            move |_| kept("first ").then_held_by(&gate, "second").repeating(vec![b'x'; MEBIBYTE], 32)
        })
        .await;
        let slow = if version == "1" {
            Ok(Slow::get(&server, 2, "/api/large", "").await)
        } else {
            Err(SlowHttp2::get(&server, 2, "/api/large", &[]).await)
        };
        let (status, joiner) = begun(&client, &server, "/api/large").await;
        assert!(status.ends_with("; collapsed"), "{status}");
        gate.add_permits(1);
        assert_eq!(joiner.bytes().await.unwrap().len(), "first second".len() + 32 * MEBIBYTE);
        assert_eq!(origin.count(), 1);
        match slow {
            Ok(slow) => {
                let all = slow.rest().await;
                assert!(all.contains("first ") && !is_whole(&all), "{} bytes", all.len());
            }
            Err(slow) => assert!(!slow.ends_well().await, "the stream is reset"),
        }
    }
}

#[tokio::test]
async fn slow_readers_of_stored_bodies_take_no_room_from_new_ones() {
    let body = vec![b'x'; 1000 << 10];
    let (_origin, server) = shield(move |_| kept("").then(Duration::ZERO, body.clone())).await;
    let client = client_of(2);
    let (mut readers, mut http2_readers) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let target = format!("/api/{number}");
        if number % 2 == 0 {
            readers.push(Slow::get(&server, 2, &target, "").await);
        } else {
            http2_readers.push(SlowHttp2::get(&server, 2, &target, &[]).await);
        }
        wait_until("it is stored", || is_hit(&client, &server, &target)).await;
    }
    get(&client, &server, "/api/new").await;
    assert!(is_hit(&client, &server, "/api/new").await);
}

#[tokio::test]
async fn a_household_that_fills_its_share_of_the_room_leaves_the_rest_to_others() {
    let gate = Arc::new(Semaphore::new(0));
    let (_origin, server) = shield({
        let gate = gate.clone();
        move |seen| {
            let body = vec![b'x'; 1000 << 10];
            if seen.target.contains("held") {
                // Its last piece waits.
                kept([&body[..], b"mark"].concat()).then_held_by(&gate, "end")
            } else {
                let started = kept("").then(Duration::ZERO, body.clone());
                if seen.target.contains("length") { started.counted() } else { started }
            }
        }
    })
    .await;
    let mut filling = Vec::new();
    for (number, client) in (0..20).zip(clients_of(2).iter().cycle()) {
        let (_, mut response) = begun(client, &server, &format!("/api/held/{number}")).await;
        let mut read = 0;
        while read < (1000 << 10) + "mark".len() {
            read += response.chunk().await.unwrap().unwrap().len();
        }
        filling.push(response);
    }
    let (own, other) = (client_of(2), client_of(3));
    for target in ["/api/length", "/api/chunked"] {
        get(&own, &server, target).await;
        assert!(!is_hit(&own, &server, target).await, "{target}: the share is full");
        get(&other, &server, target).await;
        assert!(is_hit(&other, &server, target).await, "{target}");
    }
    // What ends gives its room back.
    gate.add_permits(20);
    for response in filling {
        assert_eq!(response.bytes().await.unwrap(), "end");
    }
    get(&own, &server, "/api/again/length").await;
    assert!(is_hit(&own, &server, "/api/again/length").await);
}

#[tokio::test]
async fn an_origin_that_breaks_off_ends_the_answers_of_slow_readers_and_gives_their_room_back() {
    let (_origin, server) = shield(|seen| {
        let body = kept("").then(Duration::ZERO, vec![b'x'; 1000 << 10]);
        if seen.target.contains("broken") { body.announced(1) } else { body }
    })
    .await;
    let (mut readers, mut http2_readers) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let target = format!("/api/broken/{number}");
        if number % 2 == 0 {
            readers.push(Slow::get(&server, 2, &target, "").await);
        } else {
            http2_readers.push(SlowHttp2::get(&server, 2, &target, &[]).await);
        }
    }
    let client = client_of(2);
    wait_until("there is room again", || async {
        get(&client, &server, "/api/whole").await;
        is_hit(&client, &server, "/api/whole").await
    })
    .await;
    for reader in readers {
        let all = reader.rest().await;
        assert!(all.starts_with("HTTP/1.1 200") && !is_whole(&all), "{} bytes", all.len());
    }
    for reader in http2_readers {
        assert!(!reader.ends_well().await, "the stream is reset");
    }
}
