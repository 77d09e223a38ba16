//! Uploads to the admin listener: unusable ones are refused before they are stored, and none delays others.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Desk;
use crate::client::{Reply, parse, plain_client};
use crate::harness::{PATIENCE, Server, Setup, wait_until};

const START: &[u8] = b"\x89GSB\r\n\x1a\n\x01\0";

/// Begins an upload: its head with these fields, and a part of its body.
async fn begin(to: SocketAddr, fields: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let head = format!("POST /bundle HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    stream
}

/// Begins an upload of this length that the server has accepted: it waits for the body.
async fn let_in(to: SocketAddr, length: usize, body: &[u8]) -> TcpStream {
    let fields = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n");
    let mut stream = begin(to, &fields, b"").await;
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        assert!(tokio::time::timeout(PATIENCE, stream.read_buf(&mut bytes)).await.expect("a word").unwrap() > 0);
    }
    assert!(bytes.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&bytes));
    stream.write_all(body).await.unwrap();
    stream
}

/// The answer to an upload that sends nothing more.
async fn answer(mut stream: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let reading = async {
        while parse(&bytes).is_none_or(|reply| reply.body.len() < reply.the("content-length").parse().unwrap()) {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "{}", String::from_utf8_lossy(&bytes));
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer");
    parse(&bytes).unwrap()
}

/// Asserts the answer before more of the body arrives.
async fn refused(to: SocketAddr, fields: &str, body: &[u8], status: u16, named: &str) {
    let began = Instant::now();
    let reply = answer(begin(to, fields, body).await).await;
    assert_eq!(reply.status, status, "{fields:?}: {reply:?}");
    assert_eq!(reply.the("content-type"), "application/problem+json");
    assert!(reply.text().contains(named), "{fields:?}: {reply:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "before it waits for the body in vain");
}

async fn upload(server: &Server, desk: &Desk) -> (u16, Option<String>) {
    let body = fs::read(desk.path("bundle-v1.gsb")).unwrap();
    let reply = plain_client().post(format!("http://{}/bundle", server.admin)).body(body).send().await.unwrap();
    let again = reply.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    (reply.status().as_u16(), again)
}

#[tokio::test]
async fn what_is_too_large_or_no_bundle_is_refused_before_it_is_there() {
    let server = Setup::offline().start().await;
    let (admin, chunked) = (server.admin, "Transfer-Encoding: chunked\r\n");
    refused(admin, "Content-Length: 4294967297\r\n", b"", 413, "4294967296 bytes").await;
    refused(admin, "Content-Length: 1000000000000\r\n", START, 413, "4294967296 bytes").await;
    for (body, named) in [
        (&b"P"[..], "not a bundle"),
        (b"PK\x03\x04 and so on", "not a bundle"),
        (b"\x89GSB\n\x1a\n and so on", "text mode"),
        (b"\x89GSB\r\n\x1a\n\x06\0", "bundle format 6"),
    ] {
        refused(admin, "Content-Length: 1000\r\n", body, 422, named).await;
        let piece = [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat();
        refused(admin, chunked, &piece, 422, named).await;
    }
    refused(admin, "Content-Length: 0\r\n", b"", 422, "empty").await;
    refused(admin, "Content-Length: 8\r\n", &START[..8], 422, "truncated").await;
}

#[tokio::test]
async fn an_upload_without_the_signature_of_a_trusted_key_is_refused_before_its_body() {
    let desk = Desk::new();
    let (ours, _theirs) = (desk.key("ours"), desk.key("theirs"));
    let server = Setup::offline().set("bundle.trusted_keys", &format!("[{ours:?}]")).start().await;
    let length = "Content-Length: 1000000\r\n";
    refused(server.admin, length, b"", 403, "not signed").await;
    desk.tool(&["-S", "-s", "theirs.key", "-m", "bundle-v1.gsb"]);
    let text = fs::read_to_string(desk.path("bundle-v1.gsb.minisig")).unwrap();
    let signature = format!("Bundle-Signature: {}\r\n", utf8_percent_encode(&text, NON_ALPHANUMERIC));
    refused(server.admin, &format!("{length}{signature}"), b"", 403, "and restart the server").await;
    refused(server.admin, &format!("{length}Bundle-Signature: nonsense\r\n"), b"", 403, "not a minisign").await;
}

#[tokio::test]
async fn one_upload_is_taken_in_at_a_time_and_the_next_one_is_told_when_to_come_again() {
    let (server, desk) = (Setup::offline().start().await, Desk::new());
    let first = let_in(server.admin, 1000, START).await;
    let (status, again) = upload(&server, &desk).await;
    assert!(status == 503 && again.unwrap().parse::<u64>().unwrap() > 0, "{status}");
    assert_eq!(server.admin(http::Method::GET, "/livez").await.status, 200);
    drop(first);
    wait_until("the first one has gone", || async { upload(&server, &desk).await.0 == 200 }).await;
}

#[tokio::test]
async fn an_upload_that_drips_in_or_falls_silent_is_cut_and_leaves_its_place() {
    tokio::join!(is_cut("x"), is_cut(""));
}

/// `drip`: what comes each second.
async fn is_cut(drip: &'static str) {
    let (server, desk) = (Setup::offline().start().await, Desk::new());
    let began = Instant::now();
    let slow = let_in(server.admin, 1_000_000, START).await;
    let dripping = tokio::spawn(async move {
        let mut slow = slow;
        let mut bytes = [0; 4096];
        loop {
            // Each read of the server brings something: only the whole takes too long.
            slow.write_all(drip.as_bytes()).await.unwrap();
            let answered = tokio::time::timeout(Duration::from_secs(1), slow.read(&mut bytes)).await;
            if let Ok(read) = answered {
                return String::from_utf8_lossy(&bytes[..read.unwrap()]).into_owned();
            }
        }
    });
    let told = tokio::time::timeout(PATIENCE, dripping).await.expect("an answer").unwrap();
    assert!(told.starts_with("HTTP/1.1 408 ") && began.elapsed() > Duration::from_secs(15), "{told}");
    wait_until("others may upload", || async { upload(&server, &desk).await.0 == 200 }).await;
}

#[tokio::test]
async fn a_client_that_waits_for_a_word_gets_it_or_the_refusal() {
    let (server, desk) = (Setup::offline().start().await, Desk::new());
    let body = fs::read(desk.path("bundle-v1.gsb")).unwrap();
    assert_eq!(answer(let_in(server.admin, body.len(), &body).await).await.status, 200);
    let too_long = "Content-Length: 1000000000000\r\nExpect: 100-continue\r\n";
    refused(server.admin, too_long, b"", 413, "4294967296 bytes").await;
}

/// The names of all files in the data directory, but for the socket, which may be about to get its name.
fn names(server: &Server) -> Vec<String> {
    let entries = fs::read_dir(server.data_dir()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with("admin."));
    names.sort();
    names
}

#[tokio::test]
async fn an_upload_leaves_no_file_however_it_ends() {
    let (mut server, desk) = (Setup::offline().start().await, Desk::new());
    let before = names(&server);
    let open = let_in(server.admin, 1000, &[START, &[7; 100]].concat()).await;
    assert_eq!(upload(&server, &desk).await.0, 503);
    // It has a name for the instant between two system calls.
    wait_until("its file has no name", || async { names(&server) == before }).await;
    server.down().await;
    drop(open);
    server.restart().await;
    assert_eq!(names(&server), before);
    refused(server.admin, "Content-Length: 1000\r\n", b"no bundle at all", 422, "not a bundle").await;
    let cut = let_in(server.admin, 1000, START).await;
    drop(cut);
    wait_until("it takes another one", || async { upload(&server, &desk).await.0 == 200 }).await;
    assert_eq!(names(&server), before);
}
