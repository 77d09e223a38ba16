//! The grammar of `Forwarded` (RFC 7239 §4), as far as the `for` parameter needs it.
//!
//! Splitting the list from its right end, and reading `for` out of one element. Not the walk over trusted proxies.
//! Callers: `client_address::resolve`.

use std::borrow::Cow;
use std::net::IpAddr;

use super::super::trim;
use super::parse_node;

/// The last comma outside quotes, found from the right: a quote that the client left open hides no trusted proxy's
/// entry.
pub(super) fn last_comma(text: &[u8]) -> Option<usize> {
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
pub(super) fn element_for(element: &[u8]) -> Option<IpAddr> {
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
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|&byte| byte == b';').unwrap_or(text.len());
        return Some((Cow::Borrowed(trim(&text[..end])), &text[end..]));
    };
    let mut escaped = false;
    let end = quoted.iter().position(|&byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    let (inside, after) = (&quoted[..end], &quoted[end + 1..]);
    if !inside.contains(&b'\\') {
        return Some((Cow::Borrowed(inside), after));
    }
    let mut plain = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    while let Some(&byte) = bytes.next() {
        let literal = if byte == b'\\' { bytes.next() } else { Some(&byte) };
        plain.extend(literal);
    }
    Some((Cow::Owned(plain), after))
}
