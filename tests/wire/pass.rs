//! Unknown paths: forwarded to a scripted origin, unchanged and streamed.
//!
//! Here it is what the connections to clients and the origin see; the rules of the cache are rows in `cache`.

mod bodies;
mod framing;
mod methods;
mod pace;
mod poison;
mod tls;
mod upstream;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Script, Seen, Server, Setup, Upstream};

/// An unknown path.
const PATH: &str = "/api/regions.json";

/// A shield of this origin that forwards all client fields but those used in attacks on caches.
async fn shield(answer: impl Fn(&Seen) -> Script + Send + Sync + 'static) -> (Upstream, Server) {
    let origin = Upstream::start(answer).await;
    let server = talkative(&origin).start().await;
    (origin, server)
}

/// The setup of such a shield.
fn talkative(origin: &Upstream) -> Setup {
    Setup::shield_of_url(&origin.url()).set("passthrough.request_headers", r#"["*"]"#)
}

/// An answer that is kept for an hour.
fn kept(body: impl Into<bytes::Bytes>) -> Script {
    Script::new(200, body).with("Cache-Control", "max-age=3600").with("Content-Type", "text/plain")
}

/// A connection that is read from piece by piece.
struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    async fn send(to: SocketAddr, request: &str) -> Self {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, read: Vec::new() }
    }

    /// `GET` over HTTP/1.1.
    async fn get(to: SocketAddr, target: &str) -> Self {
        Self::send(to, &format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
    }

    async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until this text has come; what has come so far.
    async fn until(&mut self, text: &str) -> String {
        let wanted = text.as_bytes();
        while !self.read.windows(wanted.len()).any(|window| window == wanted) {
            let read = tokio::time::timeout(crate::harness::PATIENCE, self.stream.read_buf(&mut self.read)).await;
            assert_ne!(read.unwrap().unwrap(), 0, "no {text:?} in {:?}", String::from_utf8_lossy(&self.read));
        }
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Everything until the connection ends, in whatever way.
    async fn rest(mut self) -> String {
        let _ = tokio::time::timeout(crate::harness::PATIENCE, self.stream.read_to_end(&mut self.read)).await.unwrap();
        String::from_utf8_lossy(&self.read).into_owned()
    }
}
