//! When a dump is written, how long it is kept, and what a kill leaves.

use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::contents::{Texts, answers, lines, mirror_of, origin_of};
use super::{ALL, CSV, DETAILS, NDJSON};
use crate::client::{Asks, Reply, http2_client, parse};
use crate::harness::{Script, Seen, Server, Setup, Upstream, edit, mirrored, origin, wait_until};

/// How often the log tells of a dump that was written.
fn times(said: &str, dump: &str) -> usize {
    said.lines()
        .filter(|line| line.contains("a dump was written") && line.contains(&format!("dump=\"{dump}\"")))
        .count()
}

/// Listings far too large for the buffers of a connection.
fn large(count: u64, word: &str) -> (Vec<Texts>, Vec<Texts>) {
    let text = word.repeat(100_000 / word.len());
    let listing = |id| (id, format!("{{\"id\":{id},\"state\":\"Texas\",\"text\":\"{text}\"}}"));
    ((1..=count).map(listing).collect(), (1..=count).map(|id| (id, "{}".to_owned())).collect())
}

#[tokio::test]
async fn a_dump_is_written_once_for_all_who_ask_at_once() {
    let (_origin, server) = mirrored(400).await;
    assert_eq!(times(&server.process.said(), "csv"), 0, "nobody has asked for one");
    let clients: Vec<Asks<'_>> = (0..20).map(|_| (CSV.to_owned(), vec![])).collect();
    let replies = server.together(clients, || {}).await;
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.body == replies[0].body && !reply.body.is_empty()));
    server.ok(CSV).await;
    assert_eq!(times(&server.process.said(), "csv"), 1);
}

#[tokio::test]
async fn a_new_snapshot_has_new_dumps_and_a_confirmed_one_keeps_them() {
    let (origin, server) = mirrored(60).await;
    let before = server.ok(NDJSON).await;
    server.refreshed(&origin).await;
    assert_eq!(server.ok(NDJSON).await.etag(), before.etag());
    assert_eq!(times(&server.process.said(), "ndjson"), 1, "the snapshot is the same");
    let id = before.text().lines().count() as u64 / 2;
    let snapshot = edit(&origin, &server, |world| assert!(world.touch(world.ids()[id as usize]))).await;
    let after = server.ok(NDJSON).await;
    assert_eq!(after.the("mirror-snapshot"), snapshot);
    assert_ne!((after.etag(), &after.body), (before.etag(), &before.body));
    let fields = [("range", "bytes=9-"), ("if-range", &before.etag())];
    let whole = server.get_with(NDJSON, &fields).await;
    assert_eq!((whole.status, whole.body), (200, after.body), "a part of the old one would not fit");
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
    let targets = [format!("{NDJSON}?state=texas"), format!("{CSV}?state=texas"), changes];
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
async fn a_download_that_a_publication_overtakes_ends_as_it_began() {
    let (listings, details) = large(60, "old ");
    let origin = origin_of(listings, details).await;
    let server = mirror_of(&origin).await;
    let slow = Slow::of(&server, NDJSON).await;
    let (listings, details) = large(61, "new ");
    origin.answers(answers(listings, details));
    let before = server.snapshot().await;
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    let new = server.ok(NDJSON).await;
    assert!(lines(&new).len() == 61 && new.text().contains("new ") && !new.text().contains("old "));

    let old = slow.all().await;
    assert_eq!(old.the("content-length"), old.body.len().to_string());
    assert!(lines(&old).len() == 60 && old.text().contains("old ") && !old.text().contains("new "));
    assert_eq!(old.the("mirror-snapshot"), before);
}

#[tokio::test]
async fn details_that_arrive_are_in_their_dump_after_ttl_and_in_an_export_at_once() {
    let origin = origin(40).await;
    let setup = Setup::mirror_of(&origin).set("mirror.details", "on-demand").set("ttl", "6s");
    let server = setup.start().await;
    server.ready().await;
    assert_eq!(server.ok(DETAILS).await.text(), "");
    let id = server.ok("/api/listings.json").await.ids()[7];
    server.ok(&format!("/api/listings/{id}.json")).await;
    let exported = server.admin(Method::GET, "/bundle?format=details-ndjson").await;
    let detail = origin.texts_of(id).unwrap().1;
    assert_eq!(lines(&exported), [format!("{{\"id\":{id},\"detail\":{detail}}}")]);
    wait_until("the dump has it", || async { server.ok(DETAILS).await.body == exported.body }).await;
}

#[tokio::test]
async fn a_kill_while_dumps_are_written_leaves_nothing_and_the_next_start_writes_the_same() {
    let (listings, details) = large(60, "text ");
    let origin = origin_of(listings, details).await;
    let mut server = mirror_of(&origin).await;
    let mut tags = Vec::new();
    for path in ALL {
        tags.push(server.ok(path).await.etag());
    }
    // As by a kill in the instant in which a file has a name.
    std::fs::write(server.data_dir().join("dump-1-0.tmp"), "half").unwrap();
    for pause in [1, 20, 100, 300] {
        server.restart().await;
        server.ready().await;
        let mut asking = Vec::new();
        for path in ALL {
            let mut stream = TcpStream::connect(server.public).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: mirror.test\r\nAccept-Encoding: gzip\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            asking.push(stream);
        }
        // Not to wait for anything: the kill comes at any instant.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.down().await;
        let names = std::fs::read_dir(server.data_dir()).unwrap().map(|entry| entry.unwrap().file_name());
        let dumps: Vec<_> = names.filter(|name| name.to_string_lossy().contains("dump")).collect();
        assert!(dumps.len() <= 1, "a file loses its name at once: {dumps:?}");
    }
    server.restart().await;
    server.ready().await;
    assert!(!server.data_dir().join("dump-1-0.tmp").exists());
    for (path, tag) in ALL.into_iter().zip(tags) {
        assert_eq!(server.ok(path).await.etag(), tag, "{path}");
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
    assert_eq!((two.status, two.etag(), two.the("content-length")), (200, one.etag(), one.the("content-length")));
    assert!(two.body == one.body);
    let part = http2_client().get(&url).header("range", "bytes=100-199").send().await.unwrap();
    let part = Reply::of(part).await;
    assert_eq!((part.status, part.body), (206, one.body.slice(100..200)));
    let head = Reply::of(http2_client().head(&url).send().await.unwrap()).await;
    assert_eq!((head.status, head.the("content-length"), head.body.len()), (200, one.the("content-length"), 0));
}
