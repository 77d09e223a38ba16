//! The framing of an answer: where its body ends, and whether the head can be believed.
//!
//! The checks that come before anything of an answer is used. Not the reading of the body.
//! Callers: the clients of the origin.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};

/// How many interim answers may come before the final one.
pub(crate) const MOST_INTERIM: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAnswer {
    /// The status is not that of a final answer.
    #[error("its status is {0}, not a number from 200 to 599")]
    Status(u16),
    /// The length is stated twice, or is no number.
    #[error("Content-Length is repeated, or is not a number")]
    Length,
    /// The body is in a transfer coding that nobody asked for (RFC 9110 §10.1.4), or in two.
    #[error("its transfer coding is compressed or repeated")]
    Coding,
    #[error("an interim answer ({0}) announces a body")]
    InterimBody(u16),
    /// More than [`MOST_INTERIM`] interim answers.
    #[error("more than {MOST_INTERIM} interim answers came before it")]
    ManyInterim,
}

/// Looks at the head of a final answer; its length, if it says one.
///
/// Two lengths are refused even if they are equal, as nginx does (RFC 9110 §8.6 allows both).
pub(crate) fn check(status: StatusCode, headers: &HeaderMap) -> Result<Option<u64>, BadAnswer> {
    if !(200..600).contains(&status.as_u16()) {
        return Err(BadAnswer::Status(status.as_u16()));
    }
    if has_unreadable_coding(headers) {
        return Err(BadAnswer::Coding);
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(length), None) => {
            let digits = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or(BadAnswer::Length)
        }
        (Some(_), Some(_)) => Err(BadAnswer::Length),
    }
}

/// Whether a body would have to be decoded more than once. An unknown word changes nothing: such a body ends with its
/// connection (RFC 9112 §6.3), and is forwarded with our own length.
fn has_unreadable_coding(headers: &HeaderMap) -> bool {
    const COMPRESSED: [&[u8]; 6] = [b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress", b"br"];
    let mut chunked = 0;
    for value in headers.get_all(TRANSFER_ENCODING) {
        for coding in value.as_bytes().split(|byte| matches!(byte, b',' | b';')).map(<[u8]>::trim_ascii) {
            chunked += usize::from(coding.eq_ignore_ascii_case(b"chunked"));
            if COMPRESSED.iter().any(|compressed| coding.eq_ignore_ascii_case(compressed)) {
                return true;
            }
        }
    }
    chunked > 1
}

/// Looks at the head of an interim answer, of which `before` came already. Refuses more than [`MOST_INTERIM`], and one
/// that announces a body, which it cannot have (RFC 9110 §8.6, RFC 9112 §6.1).
pub(crate) fn check_interim(status: StatusCode, headers: &HeaderMap, before: usize) -> Result<(), BadAnswer> {
    if headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING) {
        return Err(BadAnswer::InterimBody(status.as_u16()));
    }
    if before < MOST_INTERIM { Ok(()) } else { Err(BadAnswer::ManyInterim) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn lengths(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_LENGTH, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn only_final_statuses_are_answers() {
        for (status, ok) in
            [(100, false), (101, false), (199, false), (200, true), (599, true), (600, false), (999, false)]
        {
            assert_eq!(check(StatusCode::from_u16(status).unwrap(), &HeaderMap::new()).is_ok(), ok, "{status}");
        }
    }

    #[test]
    fn a_length_is_said_once() {
        for (values, expected) in [
            (&[][..], Ok(None)),
            (&["0"], Ok(Some(0))),
            (&["007"], Ok(Some(7))),
            (&["5", "5"], Err(BadAnswer::Length)),
            (&["5", "6"], Err(BadAnswer::Length)),
            (&["5, 5"], Err(BadAnswer::Length)),
            (&["+5"], Err(BadAnswer::Length)),
            (&["-1"], Err(BadAnswer::Length)),
            (&["0x5"], Err(BadAnswer::Length)),
            (&[""], Err(BadAnswer::Length)),
            (&["99999999999999999999999"], Err(BadAnswer::Length)),
        ] {
            assert_eq!(check(StatusCode::OK, &lengths(values)), expected, "{values:?}");
        }
    }

    #[test]
    fn a_body_that_would_have_to_be_decoded_twice_is_refused() {
        for (values, ok) in [
            (&["chunked"][..], true),
            (&["Chunked "], true),
            (&["gzip, chunked"], false),
            (&["gzip"], false),
            (&["gzip;q=1"], false),
            (&["identity"], true),
            (&["whatever"], true),
            (&["chunked", "chunked"], false),
            (&["chunked, chunked"], false),
            (&[""], true),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRANSFER_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(check(StatusCode::OK, &headers).is_ok(), ok, "{values:?}");
        }
    }

    #[test]
    fn interim_answers_have_no_body_and_an_end() {
        let status = StatusCode::from_u16(199).unwrap();
        assert_eq!(check_interim(status, &HeaderMap::new(), MOST_INTERIM - 1), Ok(()));
        assert_eq!(check_interim(status, &HeaderMap::new(), MOST_INTERIM), Err(BadAnswer::ManyInterim));
        assert_eq!(check_interim(status, &lengths(&["0"]), 0), Err(BadAnswer::InterimBody(199)));
    }
}
