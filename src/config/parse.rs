//! Readers of single values: from a raw node to a typed value or a message.
//!
//! A message is `<the value> is not <what is expected>`. Durations and sizes are in [`super::units`], addresses in
//! [`super::address`]. Callers: the sections.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::raw::{Node, Value};

/// The largest rate, in requests per minute, that can be configured.
const MAX_RATE: u64 = 1_000_000_000;

/// `<value> is not <expected>`.
pub(super) fn expected<T>(node: &Node, expected: &str) -> Result<T, String> {
    Err(format!("{} is not {expected}", node.shown()))
}

/// `true` or `false`.
pub(super) fn boolean(node: &Node) -> Result<bool, String> {
    match node.value {
        Value::Boolean(flag) => Ok(flag),
        _ => expected(node, "true or false"),
    }
}

/// A whole number of something, within bounds.
pub(super) fn whole(what: &'static str, bounds: RangeInclusive<u32>) -> impl Fn(&Node) -> Result<u32, String> {
    move |node| {
        let number = match node.value {
            Value::Integer(number) => u32::try_from(number).ok(),
            _ => None,
        };
        match number.filter(|number| bounds.contains(number)) {
            Some(number) => Ok(number),
            None => expected(node, &format!("a whole number of {what} from {} to {}", bounds.start(), bounds.end())),
        }
    }
}

/// A rate in requests per minute; 0 is `None`: no limit.
pub(super) fn rate(zero_means: &'static str) -> impl Fn(&Node) -> Result<Option<NonZeroU32>, String> {
    move |node| match node.value {
        Value::Integer(number) if (0..=i128::from(MAX_RATE)).contains(&number) => {
            Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
        }
        Value::Integer(_) => {
            expected(node, &format!("a whole number of requests from 0 to {MAX_RATE} (0: {zero_means})"))
        }
        _ => expected(node, &format!("a whole number of requests (0: {zero_means})")),
    }
}

/// A share of a whole, from 0 to 1.
pub(super) fn share(node: &Node) -> Result<f64, String> {
    let share = match node.value {
        Value::Float(share) => share,
        Value::Integer(0) => 0.0,
        Value::Integer(1) => 1.0,
        _ => f64::NAN,
    };
    if (0.0..=1.0).contains(&share) { Ok(share.abs()) } else { expected(node, "a share from 0 to 1, such as 0.2") }
}

/// One of a few words.
pub(super) fn choice<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&Node) -> Result<T, String> {
    move |node| {
        let found = node.as_text().and_then(|text| words.iter().find(|(word, _)| *word == text));
        if let Some((_, meaning)) = found {
            return Ok(*meaning);
        }
        let listed: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        expected(node, &format!("one of {}", listed.join(", ")))
    }
}

/// A path in the file system.
pub(super) fn path(node: &Node) -> Result<PathBuf, String> {
    match node.as_text() {
        Some(text) if !text.is_empty() && !text.contains('\0') => Ok(PathBuf::from(text)),
        _ => expected(node, "a path"),
    }
}

/// The name of a header; case does not matter.
pub(super) fn header_name(node: &Node) -> Result<http::HeaderName, String> {
    match node.as_text().and_then(|text| text.parse().ok()) {
        Some(name) => Ok(name),
        None => expected(node, "the name of a header, such as \"x-forwarded-for\""),
    }
}

/// A text that can be sent as the value of a header: visible ASCII and inner spaces, 1 to 200 characters.
pub(super) fn header_text(node: &Node) -> Result<String, String> {
    let sendable = |text: &&str| {
        (1..=200).contains(&text.len())
            && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
            && text.trim() == *text
    };
    match node.as_text().filter(sendable) {
        Some(text) => Ok(text.to_owned()),
        None => expected(node, "1 to 200 visible ASCII characters"),
    }
}

/// A request method that may be forwarded; methods are case-sensitive (RFC 9110 §9.1).
pub(super) fn method(node: &Node) -> Result<http::Method, String> {
    const WHAT: &str = "a request method such as \"GET\"";
    let Some(method) = node.as_text().and_then(|text| http::Method::from_bytes(text.as_bytes()).ok()) else {
        return expected(node, WHAT);
    };
    let capitals = method.as_str().to_ascii_uppercase();
    if method == http::Method::CONNECT || method == http::Method::TRACE {
        return expected(node, "a method that can be forwarded (CONNECT and TRACE never are)");
    }
    if capitals != method.as_str() {
        return expected(node, &format!("{WHAT}: methods are case-sensitive, write {capitals:?}"));
    }
    Ok(method)
}

/// A prefix of request paths, as written in a request.
pub(super) fn path_prefix(node: &Node) -> Result<String, String> {
    let plain = |text: &&str| {
        text.starts_with('/')
            && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'\\'))
            && !text.contains("//")
            && !text.split('/').any(|segment| matches!(segment, "." | ".."))
    };
    match node.as_text().filter(plain) {
        Some(text) => Ok(text.to_owned()),
        None => expected(
            node,
            "a path prefix that begins with \"/\", such as \"/api/\" (no query, no empty or dot segments)",
        ),
    }
}
