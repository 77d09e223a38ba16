//! Head of an HTTP/1 request: read to its end within bounds, then handed to pingora, which parses it once.
//!
//! Pingora alone accepts heads of up to 1 MiB and parses all bytes again at each read. Here lines are only counted.
//! Callers: `super::connection`, [`crate::server::admin::front`].

use bytes::BytesMut;
use memchr::{memchr, memmem, memrchr};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::edge::answer::admit::{MOST_FIELDS, MOST_HEAD};
use crate::protocol::problem::Problem;
use crate::protocol::target::{Absolute, absolute, is_host};

/// How many reads in a row may end without the end of a line.
const MOST_PIECES: u32 = 64;
/// Room for the first read, in bytes: nearly every head fits.
const FIRST: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadHead {
    /// The connection ended, or broke.
    Gone,
    Refused(Problem),
}

impl From<Problem> for UnreadHead {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

/// Reads the next head, and perhaps bytes after it. `begun`: bytes that arrived with the request before. It holds at
/// most twice the bound. There is no deadline.
pub async fn read(stream: &mut (impl AsyncRead + Unpin), begun: Option<BytesMut>) -> Result<BytesMut, UnreadHead> {
    let mut scan = Scan::default();
    let mut buffer = begun.unwrap_or_else(|| BytesMut::with_capacity(FIRST));
    let mut is_whole = !buffer.is_empty() && scan.go_on(&buffer)?;
    while !is_whole {
        if buffer.len() == buffer.capacity() {
            buffer.reserve(FIRST.max(buffer.len()));
        }
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return Err(UnreadHead::Gone),
            Ok(_) => is_whole = scan.go_on(&buffer)?,
        }
    }
    Ok(match scan.in_origin_form(&buffer)? {
        Some(rewritten) => rewritten,
        None => buffer,
    })
}

/// How far a head has been looked at.
#[derive(Default)]
struct Scan {
    /// Everything before was seen.
    seen: usize,
    /// The start of the unfinished line.
    line: usize,
    /// The range of the request line; empty until it is complete.
    request_line: std::ops::Range<usize>,
    /// The number of complete lines, without empty ones in front (RFC 9112 §2.2).
    lines: usize,
    /// Looks since a line ended.
    pieces: u32,
}

impl Scan {
    /// Scans the new part of `bytes`; returns whether the head is complete.
    fn go_on(&mut self, bytes: &[u8]) -> Result<bool, Problem> {
        self.pieces += 1;
        while let Some(length) = memchr(b'\n', &bytes[self.seen..]) {
            let (start, end) = (self.line, self.seen + length);
            (self.seen, self.line, self.pieces) = (end + 1, end + 1, 0);
            let is_empty = matches!(bytes[start..end], [] | [b'\r']);
            match self.lines {
                // The server may pass over empty lines in front.
                0 if is_empty => {}
                0 => {
                    self.request_line = start..end - usize::from(bytes[end - 1] == b'\r');
                    self.lines = 1;
                    if self.request_line.len() > MOST_HEAD {
                        return Err(Problem::uri_too_long(MOST_HEAD as u64));
                    }
                    if !is_token(bytes[start]) {
                        return Err(Problem::unreadable());
                    }
                    if !has_one_reading(&bytes[self.request_line.clone()]) {
                        return Err(Problem::bad_target());
                    }
                }
                _ if is_empty && self.seen > MOST_HEAD => return Err(Problem::headers_too_large(MOST_HEAD as u64)),
                _ if is_empty => return Ok(true),
                _ => {
                    self.lines += 1;
                    if self.lines > MOST_FIELDS + 1 {
                        return Err(Problem::too_many_headers(MOST_FIELDS));
                    }
                }
            }
        }
        self.seen = bytes.len();
        self.check_unfinished(bytes).map(|()| false)
    }

    /// The bytes of a complete head in absolute form (RFC 9112 §3.2.2) with the target in origin form, and with its
    /// authority as `Host`; `None`: they stay as they are. Pingora wants both to be the same bytes, which clients of
    /// proxies do not send.
    fn in_origin_form(&self, bytes: &[u8]) -> Result<Option<BytesMut>, Problem> {
        let line = &bytes[self.request_line.clone()];
        let Some(start) = memchr(b' ', line).map(|at| at + 1).filter(|at| line.get(*at) != Some(&b'/')) else {
            return Ok(None);
        };
        let Some(end) = memmem::rfind(line, b" HTTP/").filter(|end| *end > start) else { return Ok(None) };
        // The target of CONNECT is an authority, and pingora checks it.
        let Some(Absolute { authority, rest }) = absolute(&line[start..end]).filter(|_| !line.starts_with(b"CONNECT "))
        else {
            return Ok(None);
        };
        if !is_host(authority) {
            return Err(Problem::bad_authority(authority));
        }
        let mut rewritten = BytesMut::with_capacity(bytes.len() + FIRST);
        rewritten.extend_from_slice(&line[..start]);
        match rest {
            // RFC 9112 §3.2.4.
            [] if line.starts_with(b"OPTIONS ") => rewritten.extend_from_slice(b"*"),
            [b'/', ..] => {}
            _ => rewritten.extend_from_slice(b"/"),
        }
        rewritten.extend_from_slice(rest);
        rewritten.extend_from_slice(&line[end..]);
        let mut has_host = false;
        for field in bytes[self.request_line.end..self.seen].split_inclusive(|byte| *byte == b'\n') {
            let value = field.split_at_checked(5).filter(|(name, _)| name.eq_ignore_ascii_case(b"host:"));
            let value = value.map(|(_, value)| value.trim_ascii_end());
            // A value with a control character stays, so that the request is refused. A second `Host` stays, too: if each
            // became the authority, the head would have no bound.
            let is_text = |value: &[u8]| value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control());
            let is_replaced = !has_host && value.is_some_and(is_text);
            has_host |= value.is_some();
            if is_replaced {
                rewritten.extend_from_slice(&field[..5]);
                rewritten.extend_from_slice(authority);
                rewritten.extend_from_slice(b"\r\n");
            } else {
                rewritten.extend_from_slice(field);
            }
        }
        rewritten.extend_from_slice(&bytes[self.seen..]);
        Ok(Some(rewritten))
    }

    fn check_unfinished(&self, bytes: &[u8]) -> Result<(), Problem> {
        // A client with another protocol is refused at once, not at the deadline.
        let begun = if self.lines == 0 { self.line..bytes.len() } else { self.request_line.clone() };
        let is_http = bytes.get(begun.start).is_none_or(|&first| first == b'\r' || is_token(first))
            && (self.lines == 0 || memmem::find(&bytes[begun], b" HTTP/").is_some());
        if !is_http {
            return Err(Problem::unreadable());
        }
        // The last byte may belong to its end.
        if self.lines == 0 && bytes.len() - self.line > MOST_HEAD + 1 {
            return Err(Problem::uri_too_long(MOST_HEAD as u64));
        }
        if bytes.len() > MOST_HEAD {
            return Err(Problem::headers_too_large(MOST_HEAD as u64));
        }
        if self.pieces > MOST_PIECES { Err(Problem::in_pieces()) } else { Ok(()) }
    }
}

/// Whether a request line has three parts, and no byte in the target that could end it (RFC 9112 §3). Pingora would
/// escape such bytes, and the origin would get another request than the client sent.
fn has_one_reading(line: &[u8]) -> bool {
    let (Some(start), Some(last)) = (memchr(b' ', line), memrchr(b' ', line)) else { return true };
    // Nearly every line ends with its version. A space after that means a fourth part.
    let ends = line[last..].starts_with(b" HTTP/");
    let Some(end) = Some(last).filter(|_| ends).or_else(|| memmem::rfind(line, b" HTTP/")) else { return true };
    let Some(target) = line.get(start + 1..end) else { return true };
    // Without a way out in the middle, several bytes are looked at at once.
    ends && !target.iter().fold(false, |found, &byte| found | (byte == b' ' || byte.is_ascii_control()))
}

/// Whether a method may start with this byte (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
