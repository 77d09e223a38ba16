//! Client address, also behind proxies, and networks of addresses.
//!
//! The walk from the TCP peer, or from the client that the PROXY protocol announces ([`super::proxy_protocol`]), back
//! through the proxies that the operator trusts. Nobody is trusted unless configured: anyone can send the header and
//! evade the limit. IPv4-mapped IPv6 is IPv4 everywhere: `::ffff:10.0.0.1` and `10.0.0.1` are one address. Callers:
//! [`crate::edge::answer::admit`], once per request, before the limit; [`crate::edge::limit`] and [`crate::edge::serve`] for
//! networks.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::{IpNet, Ipv4Net};

use super::grammar::{trim, unquoted};

/// The most entries of the header that are read, from the right, empty ones included.
const MAX_ENTRIES: usize = 64;
/// How many bytes of the header are looked at, from the right, over all its lines.
const MAX_BYTES: usize = 4096;

/// Which peers are believed, and which header they use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientIpConfig {
    /// Networks of proxies whose header is believed; empty: none.
    pub trusted_proxies: Vec<IpNet>,
    /// The header that those proxies append to or set: `Forwarded` (RFC 7239), or one of addresses, such as
    /// `X-Forwarded-For` or `X-Real-IP`.
    pub header: HeaderName,
}

impl Default for ClientIpConfig {
    fn default() -> Self {
        Self { trusted_proxies: Vec::new(), header: HeaderName::from_static("x-forwarded-for") }
    }
}

impl ClientIpConfig {
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|&trusted| canonical(trusted).contains(&address.to_canonical()))
    }
}

/// Finds the client's address, never an IPv4-mapped one: the peer unless it is trusted, else the right-most entry of the
/// header that is not.
///
/// Several header lines are one list (RFC 9110 §5.3), read from the right, empty entries passed over. The walk ends at
/// the last trusted hop if an entry is not an address, at the left end of the list, and at 64 entries or 4 KiB: no
/// trusted proxy vouches for the rest.
pub fn resolve(config: &ClientIpConfig, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut hop = peer.to_canonical();
    if !config.trusts(hop) {
        return hop;
    }
    let in_quotes = config.header == FORWARDED;
    let (mut entries, mut bytes) = (MAX_ENTRIES, MAX_BYTES);
    for line in headers.get_all(&config.header).iter().rev() {
        let line = line.as_bytes();
        let cut = line.len().saturating_sub(bytes);
        bytes -= line.len() - cut;
        let mut rest = Some(&line[cut..]);
        while let Some(text) = rest {
            let comma = if in_quotes { last_comma(text) } else { text.iter().rposition(|&byte| byte == b',') };
            let entry = trim(comma.map_or(text, |at| &text[at + 1..]));
            rest = comma.map(|at| &text[..at]);
            if entries == 0 || (rest.is_none() && cut > 0) {
                return hop;
            }
            entries -= 1;
            if entry.is_empty() {
                continue;
            }
            let address = if in_quotes { element_for(entry) } else { parse_node(entry) };
            match address {
                Some(ip) if config.trusts(ip) => hop = ip,
                _ => return address.unwrap_or(hop),
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

/// The last comma outside quotes, found from the right: a quote that the client left open hides no trusted proxy's
/// entry.
fn last_comma(text: &[u8]) -> Option<usize> {
    let mut in_quotes = false;
    for (at, &byte) in text.iter().enumerate().rev() {
        match byte {
            b'"' if !is_escaped(text, at) => in_quotes = !in_quotes,
            b',' if !in_quotes => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether an odd number of backslashes precedes the byte.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// The address in an element's `for` parameter; `None` if it is absent, repeated, not an address (`unknown`,
/// `_hidden`), or if the element is malformed.
fn element_for(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = element;
    loop {
        let equals = rest.iter().position(|&byte| byte == b'=')?;
        let name = trim(&rest[..equals]);
        let (value, after) = split_value(&rest[equals + 1..])?;
        if name.eq_ignore_ascii_case(b"for") {
            // RFC 7239 §4: no parameter occurs twice.
            if found.is_some() {
                return None;
            }
            found = Some(parse_node(&value)?);
        }
        match trim(after) {
            [] | [b';'] => return found,
            [b';', more @ ..] => rest = more,
            _ => return None,
        }
    }
}

/// A token or the content of a quoted-string, and the rest. A token may have more characters than RFC 9110 §5.6.2
/// allows: some proxies send `for=1.2.3.4:80` without quotes.
fn split_value(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    if text.starts_with(b"\"") {
        return unquoted(text);
    }
    let end = text.iter().position(|&byte| byte == b';').unwrap_or(text.len());
    Some((Cow::Borrowed(trim(&text[..end])), &text[end..]))
}

/// The network with IPv4-mapped IPv6 (`::ffff:10.0.0.0/104`) as IPv4 (`10.0.0.0/8`) and host bits cleared. A network
/// wider than `::ffff:0:0/96` stays IPv6 and holds no IPv4 address.
pub(crate) fn canonical(network: IpNet) -> IpNet {
    let network = network.trunc();
    let IpNet::V6(six) = network else {
        return network;
    };
    let mapped = six.network().to_ipv4_mapped().zip(six.prefix_len().checked_sub(96));
    match mapped.map(|(four, prefix)| Ipv4Net::new(four, prefix)) {
        Some(Ok(four)) => IpNet::V4(four),
        _ => network,
    }
}

/// The first address of the network that counts as one client with this address: an IPv4 address itself, or the first
/// `ipv6_prefix` bits of an IPv6 address.
pub(crate) fn household(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & mask))
        }
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests;
