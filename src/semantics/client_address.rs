//! The client's address, also behind proxies.
//!
//! The walk from the TCP peer, or from the client that the PROXY protocol announces ([`super::proxy_protocol`]), back
//! through the proxies that the operator trusts. Nobody is trusted unless configured: anyone can send the header and
//! evade the limit. Callers: `answer::admit`, once per request, before the limit.

use std::net::IpAddr;
use std::str::FromStr;

use http::header::{HeaderMap, HeaderName};
use ipnet::IpNet;

use super::{network, trim};

mod forwarded;

/// The most entries of the header that are read, from the right, empty ones included.
const MAX_ENTRIES: usize = 64;
/// How many bytes of the header are looked at, from the right, over all its lines.
const MAX_BYTES: usize = 4096;

/// Which peers are believed, and which header they use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientIpConfig {
    /// Networks of proxies whose header is believed; empty: none.
    pub trusted_proxies: Vec<IpNet>,
    /// The header that those proxies append to or set.
    pub header: ClientIpHeader,
}

impl ClientIpConfig {
    /// Whether an address is one of a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|&trusted| network::covers(trusted, address))
    }
}

/// The header that names the client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClientIpHeader {
    /// `X-Forwarded-For`: addresses, each proxy appending its peer.
    #[default]
    XForwardedFor,
    /// `Forwarded` of RFC 7239: the `for` parameters.
    Forwarded,
    /// A header with one address, such as `X-Real-IP`; read like `X-Forwarded-For` if a proxy appends to it.
    Named(HeaderName),
}

/// A configured name that no header can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a header name")]
pub struct NotAHeaderName(String);

impl FromStr for ClientIpHeader {
    type Err = NotAHeaderName;

    /// The header of that name, whatever its case.
    fn from_str(name: &str) -> Result<Self, NotAHeaderName> {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| NotAHeaderName(name.to_owned()))?;
        Ok(match header.as_str() {
            "x-forwarded-for" => Self::XForwardedFor,
            "forwarded" => Self::Forwarded,
            _ => Self::Named(header),
        })
    }
}

impl ClientIpHeader {
    /// The header's name, in lower case.
    pub fn name(&self) -> &str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::Named(name) => name.as_str(),
        }
    }
}

/// A client's address, never an IPv4-mapped one, and how it was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientAddress {
    /// The address.
    pub ip: IpAddr,
    /// Where it was found.
    pub source: AddressSource,
}

/// Where a client's address was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressSource {
    /// It is the TCP peer.
    Peer,
    /// A trusted proxy named it.
    Header,
}

/// Finds the client's address: the peer unless it is trusted, else the right-most entry of the header that is not.
///
/// Several header lines are one list (RFC 9110 §5.3), read from the right, empty entries passed over. The walk ends at
/// the last trusted hop if an entry is not an address, at the left end of the list, and at 64 entries or 4 KiB: no
/// trusted proxy vouches for the rest.
pub fn resolve(config: &ClientIpConfig, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
    let mut hop = ClientAddress { ip: peer.to_canonical(), source: AddressSource::Peer };
    if !config.trusts(hop.ip) {
        return hop;
    }
    let in_quotes = config.header == ClientIpHeader::Forwarded;
    let (mut entries, mut bytes) = (MAX_ENTRIES, MAX_BYTES);
    for line in headers.get_all(config.header.name()).iter().rev() {
        let line = line.as_bytes();
        let cut = line.len().saturating_sub(bytes);
        bytes -= line.len() - cut;
        let mut rest = Some(&line[cut..]);
        while let Some(text) = rest {
            let comma =
                if in_quotes { forwarded::last_comma(text) } else { text.iter().rposition(|&byte| byte == b',') };
            let entry = trim(comma.map_or(text, |at| &text[at + 1..]));
            rest = comma.map(|at| &text[..at]);
            if entries == 0 || (rest.is_none() && cut > 0) {
                return hop;
            }
            entries -= 1;
            if entry.is_empty() {
                continue;
            }
            let address = if in_quotes { forwarded::element_for(entry) } else { parse_node(entry) };
            let Some(ip) = address else { return hop };
            hop = ClientAddress { ip, source: AddressSource::Header };
            if !config.trusts(ip) {
                return hop;
            }
        }
    }
    hop
}

/// Reads an address with or without a port: `1.2.3.4`, `1.2.3.4:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`. The port may be an obfuscated one (`_p`, RFC 7239 §6.3). IPv4-mapped addresses come out as IPv4.
fn parse_node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']')?;
        if !after.is_empty() && !after.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        IpAddr::V6(inside.parse().ok()?)
    } else if let Some((four, port)) = text.split_once(':').filter(|(_, port)| !port.contains(':')) {
        if !is_port(port) {
            return None;
        }
        IpAddr::V4(four.parse().ok()?)
    } else {
        text.parse().ok()?
    };
    Some(address.to_canonical())
}

/// `node-port` of RFC 7239 §6.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        }
        None => matches!(text.len(), 1..=5) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests;
