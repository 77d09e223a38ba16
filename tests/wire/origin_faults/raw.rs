//! Answers that no HTTP library would send, written directly to the socket.
//!
//! Bytes only: the caller decides on the right text and its recipient. Each answer ends the connection. Callers:
//! `fault`.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// What is wrong with an answer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// `Content-Length` counts a thousand bytes more than there are.
    LongLength,
    /// `Content-Length` counts half of the body.
    ShortLength,
    /// Chunked, and the connection ends in the middle of a chunk.
    CutChunks,
    /// A header field of 1 MiB.
    HugeHeader,
    /// 10,000 header fields.
    ManyHeaders,
    /// The header, a byte at a time, each after this pause.
    HeaderDrip(Duration),
    /// Interim answers (103) without end.
    InterimFlood,
    /// An entity tag with a control character.
    ControlTag,
    /// A status line and nothing else.
    StatusOnly,
    /// 304 with a body.
    NotModifiedWithBody,
}

/// Writes the answer whose right body is `text`; the caller then ends the connection. `None`: there is no socket.
pub(super) async fn write(raw: Raw, text: &str, connection: Option<&std::net::TcpStream>) -> io::Result<()> {
    let Some(connection) = connection else { return Ok(()) };
    let mut stream = TcpStream::from_std(connection.try_clone()?)?;
    let length = text.len();
    let head =
        |status: &str, fields: &str| format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{fields}\r\n");
    let sized = |length: usize, fields: &str| head("200 OK", &format!("{fields}content-length: {length}\r\n"));
    let whole = match raw {
        Raw::LongLength => sized(length + 1000, "") + text,
        Raw::ShortLength => sized(length / 2, "") + text,
        Raw::CutChunks => {
            let half = text.get(..length / 2).unwrap_or(text);
            head("200 OK", "transfer-encoding: chunked\r\n") + &format!("{length:x}\r\n{half}")
        }
        Raw::HugeHeader => sized(length, &format!("x-filler: {}\r\n", "x".repeat(1024 * 1024))) + text,
        Raw::ManyHeaders => sized(length, &"x-filler: x\r\n".repeat(10_000)) + text,
        Raw::ControlTag => sized(length, "etag: \"a\u{1}b\"\r\n") + text,
        Raw::StatusOnly => "HTTP/1.1 200 OK".to_owned(),
        Raw::NotModifiedWithBody => head("304 Not Modified", &format!("content-length: {length}\r\n")) + text,
        Raw::HeaderDrip(pause) => {
            for byte in sized(length, "").bytes() {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(pause).await;
            }
            text.to_owned()
        }
        Raw::InterimFlood => loop {
            stream.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n").await?;
        },
    };
    stream.write_all(whole.as_bytes()).await
}
