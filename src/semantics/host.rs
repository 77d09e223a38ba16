//! The value of `Host`: its syntax and its host.
//!
//! Not whose host it is. Callers: `answer::admit`, `admin::guard`, `config`.

use std::net::{IpAddr, Ipv6Addr};

/// Whether a value is `uri-host [ ":" port ]` (RFC 9110 §7.2, RFC 3986 §3.2.2) with a host that is not empty (required
/// for http and https, RFC 9110 §4.2). Only ASCII. A port may be empty.
pub(crate) fn is_host(value: &[u8]) -> bool {
    if let Some(rest) = value.strip_prefix(b"[") {
        let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
        return is_ip_literal(&rest[..end]) && is_port(&rest[end + 1..]);
    }
    let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    end > 0 && is_registered_name(&value[..end]) && is_port(&value[end..])
}

/// The host of a value in its canonical form: an address as an address (IPv4-mapped IPv6 as IPv4), a name in lower case
/// without the dot at its end; no port. `None`: the value is no host.
pub(crate) fn name_of(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok().filter(|_| is_host(value))?;
    let name = match text.strip_prefix('[') {
        Some(literal) => literal.split(']').next()?,
        None => text.split(':').next()?,
    };
    Some(match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
    })
}

/// The text between brackets.
fn is_ip_literal(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// A name or an IPv4 address: unreserved characters, sub-delims and percent-escapes.
fn is_registered_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            _ if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte) => after,
            b'%' => match after {
                [high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => after,
                _ => return false,
            },
            _ => return false,
        };
    }
    true
}

/// Nothing, or a colon and a port, which may be empty (RFC 3986 §3.2.3).
fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => {
            let number = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
            digits.is_empty() || number.is_some_and(|number| number.parse::<u16>().is_ok())
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_are_told_from_what_is_none() {
        for host in [
            "example.org",
            "EXAMPLE.org.",
            "localhost:8080",
            "a_b.example",
            "127.0.0.1",
            "127.0.0.1:65535",
            "[::1]",
            "[2001:db8::1]:443",
            "[::ffff:10.0.0.1]",
            "x%41.example",
            "example.org:",
            "xn--bcher-kva.example:08080",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for none in [
            "",
            ":80",
            "a b",
            "a/b",
            "http://a",
            "user@a",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a, b",
            "a%4",
            "a%zz",
            "::1",
            "[::1",
            "[]",
            "[::1]80",
            "[fe80::1%25eth0]",
            "[127.0.0.1]",
            "b\u{fc}cher.example",
            "a\tb",
            "<script>",
            "a\\b",
            "a?b",
            "a#b",
        ] {
            assert!(!is_host(none.as_bytes()), "{none}");
        }
    }

    #[test]
    fn a_host_has_one_name_however_it_is_written() {
        for (value, name) in [
            ("LOCALHOST:9090", Some("localhost")),
            ("localhost.", Some("localhost")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[0:0:0:0:0:0:0:1]:9090", Some("::1")),
            ("[::ffff:127.0.0.1]", Some("127.0.0.1")),
            ("127.0.0.1.evil.test", Some("127.0.0.1.evil.test")),
            ("a b", None),
            ("::1", None),
        ] {
            assert_eq!(name_of(value.as_bytes()).as_deref(), name, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_judged(value: Vec<u8>) {
            prop_assert_eq!(is_host(&value), name_of(&value).is_some());
        }

        #[test]
        fn what_a_url_library_takes_for_a_host_is_one(host in "[a-z0-9-]{1,20}(\\.[a-z0-9-]{1,10}){0,3}", port: Option<u16>) {
            let value = port.map_or(host.clone(), |port| format!("{host}:{port}"));
            prop_assert!(is_host(value.as_bytes()));
        }
    }
}
