//! PROXY protocol header, versions 1 and 2: the client's address, announced by the proxy in front.
//!
//! This module finds the end of a header and bounds its length; the crate `ppp` parses complete headers. Section numbers
//! are those of the specification (haproxy.org, proxy-protocol.txt). It does not decide which proxies are trusted. Callers:
//! [`crate::edge::serve::gate`].

use std::net::SocketAddr;

use memchr::memchr;
use ppp::{v1, v2};

/// The longest header of version 1, in bytes (section 2.1).
const LONGEST_TEXT: usize = 107;
/// The longest header of version 2, in bytes. The specification allows 65,551; what proxies send is far below this.
const LONGEST_BINARY: usize = 4096;
/// The first bytes of version 1.
const TEXT: &[u8] = b"PROXY ";
/// The first bytes of version 2.
const BINARY: &[u8] = v2::PROTOCOL_PREFIX;
/// The bytes of version 2 up to the addresses, in which the length stands.
const FIXED: usize = 16;
/// Version 2, command LOCAL (section 2.2).
const LOCAL: u8 = 0x20;

/// The first bytes of a connection, looked at as a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// More bytes are needed.
    Unfinished,
    Complete {
        /// Its length in bytes; the client's own bytes follow.
        length: usize,
        /// The client, never as an IPv4-mapped address; `None`: the peer counts, because the proxy speaks for itself
        /// (`LOCAL`) or does not know the client's IP address (`UNKNOWN`, Unix sockets).
        announced: Option<SocketAddr>,
    },
}

/// Why the first bytes of a connection are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// They begin in another way.
    #[error("the connection does not begin with a PROXY protocol header; turn the header on in the proxy")]
    Missing,
    #[error("the PROXY protocol header is longer than {limit} bytes")]
    TooLong {
        /// In bytes.
        limit: usize,
    },
    #[error("the PROXY protocol header is malformed")]
    Malformed,
}

/// Reads the header at the start of `bytes`.
///
/// The result depends on the header's bytes only: more bytes change nothing but [`Header::Unfinished`]. Fails as soon
/// as no further bytes could make it a header.
pub fn read(bytes: &[u8]) -> Result<Header, BadHeader> {
    let begins_like = |start: &[u8]| bytes.iter().zip(start).all(|(byte, wanted)| byte == wanted);
    if begins_like(BINARY) {
        read_binary(bytes)
    } else if begins_like(TEXT) {
        read_text(bytes)
    } else {
        Err(BadHeader::Missing)
    }
}

/// Version 1: a line.
fn read_text(bytes: &[u8]) -> Result<Header, BadHeader> {
    let bounded = &bytes[..bytes.len().min(LONGEST_TEXT)];
    let Some(end) = memchr(b'\n', bounded) else {
        let is_full = bounded.len() == LONGEST_TEXT;
        return if is_full { Err(BadHeader::TooLong { limit: LONGEST_TEXT }) } else { Ok(Header::Unfinished) };
    };
    let line = &bounded[..=end];
    // Section 2.1: whatever follows UNKNOWN is ignored. The crate allows four words there.
    let unknown = line.strip_prefix(b"PROXY UNKNOWN").and_then(|rest| rest.strip_suffix(b"\r\n"));
    if unknown.is_some_and(|rest| matches!(rest.first(), None | Some(b' '))) {
        return Ok(Header::Complete { length: line.len(), announced: None });
    }
    let header = v1::Header::try_from(line).map_err(|_| BadHeader::Malformed)?;
    let announced = match header.addresses {
        v1::Addresses::Unknown => None,
        v1::Addresses::Tcp4(four) => Some((four.source_address, four.source_port).into()),
        v1::Addresses::Tcp6(six) => Some((six.source_address.to_canonical(), six.source_port).into()),
    };
    Ok(Header::Complete { length: line.len(), announced })
}

/// Version 2: a length, addresses and fields, all binary.
fn read_binary(bytes: &[u8]) -> Result<Header, BadHeader> {
    let Some(fixed) = bytes.get(..FIXED) else { return Ok(Header::Unfinished) };
    let length = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > LONGEST_BINARY {
        return Err(BadHeader::TooLong { limit: LONGEST_BINARY });
    }
    let Some(bytes) = bytes.get(..length) else { return Ok(Header::Unfinished) };
    // Section 2.2: with LOCAL the addresses are ignored, whatever family they claim. The crate would check them.
    if fixed[12] == LOCAL {
        return Ok(Header::Complete { length, announced: None });
    }
    let header = v2::Header::try_from(bytes).map_err(|_| BadHeader::Malformed)?;
    let announced = match (header.protocol, header.addresses) {
        (v2::Protocol::Stream, v2::Addresses::IPv4(four)) => Some((four.source_address, four.source_port).into()),
        (v2::Protocol::Stream, v2::Addresses::IPv6(six)) => {
            Some((six.source_address.to_canonical(), six.source_port).into())
        }
        // Section 2.2: what a receiver does not support counts as unspecified.
        _ => None,
    };
    Ok(Header::Complete { length, announced })
}

#[cfg(test)]
mod tests;
