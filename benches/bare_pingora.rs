//! pingora and nothing else: answers fixed bytes under fixed heads from a moka cache. A peer of `side_by_side.py`,
//! which starts it with the answers that grandstand gave.
//!
//! `bare_pingora --listen 127.0.0.1:8000 --answers DIR`: each file `N.key` holds path, `Accept-Encoding` and whether
//! the request is conditional, on a line each; `N.head` the status and the header lines, `N.body` the body. It reads
//! nothing else of a request, limits nobody and counts nothing. Without `--listen` it does nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a program of the benches")]
#![allow(missing_docs, reason = "nothing here is called from outside")]

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderName, HeaderValue, IF_NONE_MATCH};
use moka::sync::Cache;
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream};
use pingora::http::ResponseHeader;
use pingora::listeners::{L4BufferSettings, ListenerConfig};
use pingora::protocols::http::ServerSession;
use pingora::server::configuration::ServerConf;
use pingora::server::{Server, ShutdownWatch};
use pingora::services::listening::Service;

struct Kept {
    head: ResponseHeader,
    body: Bytes,
}

struct Bare(Cache<Vec<u8>, Arc<Kept>>);

fn key(path: &[u8], coding: &[u8], conditional: bool) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len() + coding.len() + 3);
    key.extend_from_slice(path);
    key.push(b'\n');
    key.extend_from_slice(coding);
    key.extend_from_slice(if conditional { b"\n1" } else { b"\n0" });
    key
}

#[async_trait]
impl HttpServerApp for Bare {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        _shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        if !session.read_request().await.ok()? {
            return None;
        }
        let request = session.req_header();
        let coding = request.headers.get(ACCEPT_ENCODING).map_or(&b""[..], HeaderValue::as_bytes);
        let key = key(request.raw_path(), coding, request.headers.contains_key(IF_NONE_MATCH));
        let kept = self.0.get(&key)?;
        session.set_keepalive(Some(60));
        session.write_response_header(Box::new(kept.head.clone())).await.ok()?;
        if !kept.body.is_empty() {
            session.write_response_body(kept.body.clone(), true).await.ok()?;
        }
        let settings = HttpPersistentSettings::for_session(&session);
        let stream = session.finish().await.ok()?;
        stream.map(|stream| ReusedHttpStream::from_reusable_stream(stream, settings))
    }
}

fn load(directory: &Path) -> Cache<Vec<u8>, Arc<Kept>> {
    let cache = Cache::new(10_000);
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "key") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let [target, coding, conditional] = text.splitn(3, '\n').collect::<Vec<_>>()[..] else {
            panic!("{}", path.display())
        };
        let lines = std::fs::read_to_string(path.with_extension("head")).unwrap();
        let mut lines = lines.lines();
        let status: u16 = lines.next().unwrap().parse().unwrap();
        let mut head = ResponseHeader::build(status, Some(32)).unwrap();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            let name: HeaderName = name.parse().unwrap();
            head.append_header(name, value).unwrap();
        }
        let body = std::fs::read(path.with_extension("body")).unwrap().into();
        let key = key(target.as_bytes(), coding.as_bytes(), conditional.trim() == "1");
        cache.insert(key, Arc::new(Kept { head, body }));
    }
    cache
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let (Some(listen), Some(answers)) = (value("--listen"), value("--answers")) else { return };
    let mut server = Server::new_with_opt_and_conf(None, ServerConf { threads: 1, ..ServerConf::default() });
    let mut service = Service::new("bare".to_owned(), Bare(load(Path::new(answers))));
    // Header and body of a page in one send, as pingora's own session can do it: through a buffer that holds both.
    let buffers = L4BufferSettings::new(16 * 1024, 32 * 1024);
    service.add_listener(ListenerConfig::tcp(listen.clone()).l4_buffer(buffers));
    server.add_service(service);
    server.run_forever();
}

/// The allocator of grandstand.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
