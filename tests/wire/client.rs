//! The client side: replies as they come off the wire, and requests that no HTTP library would send.
//!
//! Nothing is decoded, followed or repaired on the way. Callers: all tests.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::wait_until;

/// Where every client begins: with the cryptography of the program.
pub fn client_builder() -> reqwest::ClientBuilder {
    // An error: it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

/// A client that sends no `Accept-Encoding` of its own, follows nothing and decodes nothing.
pub fn plain_client() -> reqwest::Client {
    builder().build().unwrap()
}

/// The same over HTTP/2 with prior knowledge.
pub fn http2_client() -> reqwest::Client {
    builder().http2_prior_knowledge().build().unwrap()
}

/// Speaks no TLS, so it does not read the system's certificate authorities; each of them costs time.
fn builder() -> reqwest::ClientBuilder {
    client_builder()
        .tls_certs_only([])
        .no_proxy()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(60))
}

/// An answer, undecoded.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, body: response.bytes().await.unwrap() }
    }

    /// The value of a header, several lines joined; `None` if absent.
    pub fn header(&self, name: &str) -> Option<String> {
        let lines: Vec<_> = self.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    /// The value of a required header.
    #[track_caller]
    pub fn the(&self, name: &str) -> String {
        self.header(name).unwrap_or_else(|| panic!("no {name} in {} {:#?}", self.status, self.headers))
    }

    pub fn etag(&self) -> String {
        self.the("etag")
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The ids of the items, in order.
    pub fn ids(&self) -> Vec<u64> {
        self.json()["items"].as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect()
    }

    pub fn total(&self) -> u64 {
        self.json()["total"].as_u64().unwrap()
    }

    /// The seconds of `Age`; `None` if absent.
    pub fn age(&self) -> Option<u64> {
        self.header("age").map(|age| age.parse().unwrap())
    }

    /// The body without its content coding.
    pub fn decoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.header("content-encoding").as_deref() {
            None => out.extend_from_slice(&self.body),
            Some("gzip") => drop(flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut out).unwrap()),
            Some("br") => drop(brotli::Decompressor::new(&self.body[..], 4096).read_to_end(&mut out).unwrap()),
            Some("zstd") => out = zstd::decode_all(&self.body[..]).unwrap(),
            Some(other) => panic!("the coding {other} was not asked for"),
        }
        out
    }

    /// The targets of `Link` by relation.
    pub fn links(&self) -> BTreeMap<String, String> {
        let joined = self.header("link").unwrap_or_default();
        let mut links = BTreeMap::new();
        let mut rest = joined.as_str();
        while let Some(start) = rest.find('<') {
            let end = start + rest[start..].find('>').expect("an unclosed target in Link");
            let target = &rest[start + 1..end];
            let after = &rest[end + 1..];
            let next = after.find('<').unwrap_or(after.len());
            let rel = after[..next].split("rel=").nth(1).expect("a link without rel");
            let rel = rel.trim_end_matches([',', ' ']).trim_matches('"').to_owned();
            assert!(links.insert(rel, target.to_owned()).is_none(), "a relation twice in {joined}");
            rest = &after[next..];
        }
        links
    }

    /// Asserts a problem document of this status whose detail has all these texts.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, named: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        let media_type = self.the("content-type");
        assert!(media_type.starts_with("application/problem+json"), "{media_type}");
        let body = self.json();
        assert_eq!(body["status"], status, "{body}");
        assert!(body["type"].is_string() && body["title"].is_string(), "{body}");
        let detail = body["detail"].as_str().unwrap_or_else(|| panic!("no detail in {body}"));
        for text in named {
            assert!(detail.contains(text), "{detail:?} does not name {text:?}");
        }
        let freshness = self.the("cache-control");
        match status {
            404 => assert!(freshness.contains("max-age=60") && !freshness.contains("no-store"), "{freshness}"),
            _ => assert!(freshness.contains("no-store"), "{freshness}"),
        }
        assert_eq!(self.the("access-control-allow-origin"), "*");
        assert_eq!(self.header("cache-status"), None, "an error that we generate carries no Cache-Status");
    }
}

/// Headers from pairs.
pub fn header_map(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

/// Sends these bytes and reads the answer until the connection ends; the bytes should say `Connection: close`. `None`
/// if it ends without an answer.
pub async fn raw(to: SocketAddr, request: &[u8]) -> Option<Reply> {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request).await.unwrap();
    read_reply(stream).await
}

/// A connection from one of the addresses of loopback.
pub async fn connect_from(address: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// [`raw`] of what may not even look like a request: nothing more will come, and the server is told so.
pub async fn raw_and_no_more(to: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // The server may have hung up in the middle of it.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    read_reply(stream).await
}

/// Sends pieces of a request, a millisecond apart, until an answer comes.
pub async fn drip(mut stream: impl AsyncRead + AsyncWrite + Unpin, pieces: impl IntoIterator<Item = &str>) -> Reply {
    let mut answer = Vec::new();
    for piece in pieces {
        stream.write_all(piece.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // Not to wait for anything: packets that come together are read together.
        let pause = tokio::time::timeout(Duration::from_millis(1), stream.read_buf(&mut answer));
        if pause.await.is_ok() {
            break;
        }
    }
    let rest = tokio::time::timeout(crate::harness::PATIENCE, stream.read_to_end(&mut answer)).await;
    rest.expect("an end").expect("no reset");
    parse(&answer).expect("an answer")
}

async fn read_reply(mut stream: TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(crate::harness::PATIENCE, stream.read_to_end(&mut bytes)).await;
    let read = read.unwrap_or_else(|_| panic!("no end after {:?}", String::from_utf8_lossy(&bytes)));
    // A reset after the answer is a legal way to refuse a body.
    if let (Err(error), true) = (&read, bytes.is_empty()) {
        eprintln!("the connection ended: {error}");
    }
    parse(&bytes)
}

/// One client of several.
pub type Asks<'a> = (String, Vec<(&'a str, &'a str)>);

/// Sends these requests, each on its own connection. When the server has read all of them, runs `then`, such as the
/// answer of an origin that all wait for. Returns the answers in order.
pub async fn together(to: SocketAddr, clients: impl IntoIterator<Item = Asks<'_>>, then: impl FnOnce()) -> Vec<Reply> {
    let mut streams = Vec::new();
    for (target, fields) in clients {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let fields: String = fields.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
        let request = format!("GET {target} HTTP/1.1\r\nHost: mirror.test\r\n{fields}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    wait_until("the server has read all requests", || async { !has_unread(to) }).await;
    then();
    let replies = join_all(streams.into_iter().map(read_reply)).await;
    replies.into_iter().map(|reply| reply.expect("an answer")).collect()
}

/// An end of a TCP connection on this machine, as the kernel sees it.
struct Socket {
    ports: [u16; 2],
    established: bool,
    /// Bytes written and not acknowledged, and bytes received and not read.
    sending: u64,
    unread: u64,
}

/// All ends of connections over IPv4.
fn sockets() -> Vec<Socket> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let port = |address: &str| hex(address.split_once(':').unwrap().1) as u16;
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (sending, unread) = words[4].split_once(':').unwrap();
        let (ports, established) = ([port(words[1]), port(words[2])], words[3] == "01");
        Socket { ports, established, sending: hex(sending), unread: hex(unread) }
    };
    table.lines().skip(1).map(socket).collect()
}

/// Whether the kernel holds bytes for this address that have not been read yet.
fn has_unread(address: SocketAddr) -> bool {
    sockets().iter().any(|socket| socket.established && socket.ports[0] == address.port() && socket.unread > 0)
}

/// How many bytes the kernel holds of connections to this address, in both directions.
pub fn on_the_wire(address: SocketAddr) -> u64 {
    let all = sockets().into_iter().filter(|socket| socket.established && socket.ports.contains(&address.port()));
    all.map(|socket| socket.sending + socket.unread).sum()
}

/// `GET` of a request target as it is.
pub async fn raw_get(to: SocketAddr, target: &str) -> Reply {
    let request = format!("GET {target} HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n\r\n");
    let reply = raw(to, request.as_bytes()).await;
    reply.unwrap_or_else(|| panic!("no answer to GET {target}"))
}

/// A whole answer as it came off the wire.
pub fn parse(bytes: &[u8]) -> Option<Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').unwrap();
        headers.append(name.parse::<HeaderName>().unwrap(), value.trim().parse().unwrap());
    }
    Some(Reply { status, headers, body: Bytes::copy_from_slice(&bytes[end + 4..]) })
}
