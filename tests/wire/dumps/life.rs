//! Dumps beside publications, arriving details and restarts.

use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::contents::{Texts, answers, lines, mirror_of, origin_of};
use super::{ALL, CSV, DETAILS, DETAILS_CSV, NDJSON};
use crate::client::{Asks, Reply, http2_client, parse};
use crate::harness::{Script, Seen, Server, Setup, Upstream, mirrored, origin, wait_until};

/// Listings far too large for the buffers of a connection.
fn large(count: u64, word: &str) -> (Vec<Texts>, Vec<Texts>) {
    let text = word.repeat(100_000 / word.len());
    let listing = |id| (id, format!("{{\"id\":{id},\"state\":\"Texas\",\"text\":\"{text}\"}}"));
    ((1..=count).map(listing).collect(), (1..=count).map(|id| (id, "{}".to_owned())).collect())
}

#[tokio::test]
async fn all_who_ask_at_once_get_the_same() {
    let (_origin, server) = mirrored(400).await;
    let clients: Vec<Asks<'_>> = (0..20).map(|_| (CSV.to_owned(), vec![])).collect();
    let replies = server.together(clients, || {}).await;
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.body == replies[0].body && !reply.body.is_empty()));
    assert_eq!(server.ok(CSV).await.etag(), replies[0].etag());
}

/// The same, with a taxonomy that names their state.
fn of_texas(count: u64, word: &str) -> impl Fn(&Seen) -> Script + Send + Sync + 'static {
    let (listings, details) = large(count, word);
    let others = answers(listings, details);
    let term = format!(
        "{{\"slug\":\"texas\",\"name\":\"Texas\",\"count\":{count},\"api_url\":\"/api/listings.json?state=texas\"}}"
    );
    move |seen| match seen.target.as_str() {
        "/api/states.json" => {
            let text = format!("{{\"total\":1,\"items\":[{term}]}}");
            Script::new(200, text).with("content-type", "application/json")
        }
        _ => others(seen),
    }
}

/// A client that reads slowly until it hurries. One that reads nothing for long would be cut off.
struct Slow {
    hurry: oneshot::Sender<()>,
    reading: JoinHandle<Vec<u8>>,
}

impl Slow {
    /// One that has the beginning of an answer.
    async fn of(server: &Server, target: &str) -> Self {
        let slow = TcpSocket::new_v4().unwrap();
        slow.set_recv_buffer_size(64 << 10).unwrap();
        let mut slow = slow.connect(server.public).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n\r\n");
        slow.write_all(request.as_bytes()).await.unwrap();
        let mut got = vec![0; 100];
        slow.read_exact(&mut got).await.unwrap();
        let (hurry, mut hurried) = oneshot::channel();
        let reading = tokio::spawn(async move {
            let mut piece = [0; 8 << 10];
            while hurried.try_recv().is_err() {
                let read = slow.read(&mut piece).await.unwrap();
                got.extend_from_slice(&piece[..read]);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            slow.read_to_end(&mut got).await.unwrap();
            got
        });
        Self { hurry, reading }
    }

    /// All of the answer, framed as it came.
    async fn all(self) -> Reply {
        self.hurry.send(()).unwrap();
        parse(&self.reading.await.unwrap()).unwrap()
    }
}

/// The content of a body in chunks (RFC 9112 §7.1), which must be complete.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|pair| pair == b"\r\n").expect("another chunk");
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        let (chunk, rest) = body[end + 2..].split_at(length);
        content.extend_from_slice(chunk);
        body = rest.strip_prefix(b"\r\n").expect("the end of a chunk");
        if length == 0 {
            assert_eq!(body, b"");
            return content;
        }
    }
}

/// Parts are rendered while they are sent: from the snapshot with which they began.
#[tokio::test]
async fn a_part_that_a_publication_overtakes_ends_as_it_began() {
    let origin = Upstream::start(of_texas(60, "old ")).await;
    let server = mirror_of(&origin).await;
    let changes = format!("/changes.ndjson?since={}", server.snapshot().await);
    wait_until("all details are durable", || async { lines(&server.ok(&changes).await).len() == 61 }).await;
    let targets = [
        NDJSON.to_owned(),
        DETAILS_CSV.to_owned(),
        format!("{NDJSON}?state=texas"),
        format!("{CSV}?state=texas"),
        changes,
    ];
    let (mut before, mut slow) = (Vec::new(), Vec::new());
    for target in &targets {
        before.push(server.ok(target).await);
        slow.push(Slow::of(&server, target).await);
    }
    origin.answers(of_texas(61, "new "));
    let snapshot = server.snapshot().await;
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != snapshot }).await;
    for ((target, before), slow) in targets.iter().zip(before).zip(slow) {
        assert_ne!(server.ok(target).await.body, before.body, "{target}");
        let all = slow.all().await;
        assert_eq!((all.status, all.the("mirror-snapshot")), (200, snapshot.clone()));
        assert!(unchunked(&all.body) == before.body, "{target}: {} bytes", before.body.len());
    }
}

#[tokio::test]
async fn details_that_arrive_are_in_their_dump_at_once() {
    let origin = origin(40).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    let none = server.ok(DETAILS).await;
    assert_eq!(none.text(), "");
    let ids = server.ok("/api/listings.json").await.ids();
    server.ok(&format!("/api/listings/{}.json", ids[7])).await;
    let one = server.ok(DETAILS).await;
    let detail = origin.texts_of(ids[7]).unwrap().1;
    assert_eq!(lines(&one), [format!("{{\"id\":{},\"detail\":{detail}}}", ids[7])]);
    assert!(one.etag().starts_with("W/") && one.etag() != none.etag());
    assert_eq!(server.admin(Method::GET, "/bundle?format=details-ndjson").await.body, one.body);
}

#[tokio::test]
async fn the_next_start_sends_the_same_under_the_same_tag() {
    let (listings, details) = large(60, "text ");
    let origin = origin_of(listings, details).await;
    let mut server = mirror_of(&origin).await;
    let mut before = Vec::new();
    server.admin(Method::GET, "/bundle").await;
    for path in ALL {
        before.push(server.ok(path).await);
    }
    server.restart().await;
    server.ready().await;
    for (path, before) in ALL.into_iter().zip(before) {
        let after = server.ok(path).await;
        assert!(after.body == before.body && after.etag() == before.etag(), "{path}");
    }
}

#[tokio::test]
async fn a_dump_takes_the_same_way_over_http_2() {
    let (listings, details) = large(40, "h2 ");
    let origin = origin_of(listings, details).await;
    let server = mirror_of(&origin).await;
    let one = server.ok(NDJSON).await;
    let url = format!("http://{}{NDJSON}", server.public);
    let two = Reply::of(http2_client().get(&url).send().await.unwrap()).await;
    assert_eq!((two.status, two.etag()), (200, one.etag()));
    assert!(two.body == one.body);
    let head = Reply::of(http2_client().head(&url).send().await.unwrap()).await;
    assert_eq!((head.status, head.etag(), head.body.len()), (200, one.etag(), 0));
}
