//! Entity tags of the sample origin: how they are made and compared.
//!
//! Deliberately independent of the mirror's entity tags. Callers: the answering code, the CDN.

use xxhash_rust::xxh3::Xxh3;

use super::json::Text;
use super::switches::EtagStyle;

/// The tag of a body, with quotes; `None` if the style has none. `nonce` differs with every answer.
pub(super) fn tag_of(body: &Text, style: EtagStyle, nonce: u64) -> Option<String> {
    let mut hash = Xxh3::new();
    let mut from = 0;
    for volatile in &body.volatile {
        hash.update(&body.text.as_bytes()[from..volatile.start]);
        from = volatile.end;
    }
    hash.update(&body.text.as_bytes()[from..]);
    match style {
        EtagStyle::Strong => Some(format!("\"{:016x}\"", hash.digest())),
        EtagStyle::Weak => Some(format!("W/\"{:016x}\"", hash.digest())),
        EtagStyle::WithGeneratedAt => {
            hash.update(&nonce.to_le_bytes());
            Some(format!("\"{:016x}\"", hash.digest()))
        }
        EtagStyle::Deployment(number) => {
            hash.update(&number.to_le_bytes());
            Some(format!("\"{:016x}\"", hash.digest()))
        }
        EtagStyle::Fixed => Some("\"1\"".to_owned()),
        EtagStyle::None => None,
    }
}

/// The tag of the same body in another content coding: a strong one names bytes, so it has to differ (RFC 9110 §8.8.1).
pub(super) fn tag_in_coding(tag: String, gzip: bool) -> String {
    match tag.strip_suffix('"') {
        Some(opening) if gzip && !tag.starts_with("W/") => format!("{opening}-gzip\""),
        _ => tag,
    }
}

/// Whether `If-None-Match` names the tag, by weak comparison (RFC 9110 §13.1.2).
pub(super) fn none_match_hits(header: &str, tag: &str) -> bool {
    if header.trim() == "*" {
        return true;
    }
    let opaque = tag.trim_start_matches("W/");
    let mut rest = header;
    while let Some(start) = rest.find('"') {
        let Some(length) = rest[start + 1..].find('"') else { return false };
        let end = start + 1 + length + 1;
        if &rest[start..end] == opaque {
            return true;
        }
        rest = &rest[end..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_is_weak_and_understands_lists() {
        for header in ["\"a\"", "W/\"a\"", "*", " * ", "\"x,\", W/\"a\"", "\"x\",\"a\""] {
            assert!(none_match_hits(header, "\"a\"") && none_match_hits(header, "W/\"a\""), "{header}");
        }
        for header in ["", "a", "\"A\"", "\"x, a\"", "\"a", "\"b\", \"c\""] {
            assert!(!none_match_hits(header, "\"a\""), "{header}");
        }
    }

    #[test]
    fn only_strong_tags_differ_by_coding() {
        assert_eq!(tag_in_coding("\"a\"".into(), true), "\"a-gzip\"");
        assert_eq!(tag_in_coding("\"a\"".into(), false), "\"a\"");
        assert_eq!(tag_in_coding("W/\"a\"".into(), true), "W/\"a\"");
    }
}
