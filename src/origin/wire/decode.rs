//! Decoder of content codings (RFC 9110 §8.4): bodies come out piece by piece, in bounded memory.
//!
//! The reader bounds the size of the output. Callers: [`super`], [`crate::fleet`].

use std::io;
use std::pin::Pin;

use async_compression::tokio::bufread::{BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use super::{Body, TransportError};

/// `Accept-Encoding` of requests whose answers are decoded.
pub(super) const ACCEPTED: &str = "zstd,gzip,br";

/// How much is decoded at once, in bytes.
const PIECE: usize = 16 << 10;

/// The largest window that zstd may ask for: 8 MiB, as a power of two (RFC 9659).
const ZSTD_WINDOW: u32 = 23;

/// The body without coding, and its head without the fields about one. A body without a byte stays so, whatever its
/// coding: an answer to HEAD and a 304 name the coding that another answer would have (RFC 9110 §8.4, §9.3.2).
pub(crate) fn decoded(headers: &mut HeaderMap, pieces: Body) -> Body {
    if !headers.contains_key(CONTENT_ENCODING) {
        return pieces;
    }
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let words = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let words = words.filter(|word| !word.is_empty() && !word.eq_ignore_ascii_case(b"identity"));
    let coding = words.collect::<Vec<_>>().join(&b", "[..]).to_ascii_lowercase();
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    let plain = async move {
        let mut pieces = pieces.try_filter(|piece| std::future::ready(!piece.is_empty())).boxed().peekable();
        match Pin::new(&mut pieces).peek().await {
            None => pieces.boxed(),
            Some(first) => {
                let first = first.as_ref().map_or(b"".as_slice(), |piece| piece.trim_ascii_start()).first().copied();
                unpacked(&coding, first, pieces.boxed()).unwrap_or_else(|error| stream::iter([Err(error)]).boxed())
            }
        }
    };
    stream::once(plain).flatten().boxed()
}

/// A body without this coding. `first`: its first byte but for white space.
///
/// DEVIATION: words that are no codings (`utf-8`, `none`), on what begins like a JSON document, mean no coding (RFC 9110
/// §8.4.1 knows none of them). No coding begins so.
fn unpacked(coding: &[u8], first: Option<u8>, pieces: Body) -> Result<Body, TransportError> {
    let packed = StreamReader::new(pieces.map_err(io::Error::other));
    let plain: Pin<Box<dyn AsyncRead + Send>> = match coding {
        b"gzip" | b"x-gzip" => {
            let mut decoder = GzipDecoder::new(packed);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        b"br" => Box::pin(BrotliDecoder::new(packed)),
        b"zstd" => {
            let mut decoder = ZstdDecoder::with_params(packed, &[DParameter::window_log_max(ZSTD_WINDOW)]);
            decoder.multiple_members(true);
            Box::pin(decoder)
        }
        // RFC 9110 §8.4.1.2: some send no zlib format, whose first byte no encoder of the bare format makes.
        b"deflate" if first.is_some_and(|first| first & 0x8f == 8) => Box::pin(ZlibDecoder::new(packed)),
        b"deflate" => Box::pin(DeflateDecoder::new(packed)),
        b"" => Box::pin(packed),
        words if !words.split(|byte| *byte == b',').any(is_coding) && matches!(first, Some(b'{' | b'[')) => {
            Box::pin(packed)
        }
        other => return Err(unknown(&String::from_utf8_lossy(other))),
    };
    Ok(Box::pin(ReaderStream::with_capacity(plain, PIECE).map_err(why)))
}

fn is_coding(word: &[u8]) -> bool {
    matches!(word.trim_ascii(), b"gzip" | b"x-gzip" | b"br" | b"zstd" | b"deflate" | b"compress" | b"x-compress")
}

fn unknown(coding: &str) -> TransportError {
    TransportError::Decode(format!("its content coding is {coding}, but only {ACCEPTED} were requested"))
}

/// An error of the connection comes through the decoder.
fn why(error: io::Error) -> TransportError {
    error.downcast::<TransportError>().unwrap_or_else(|error| TransportError::Decode(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;

    const TEXT: &[u8] = b"{\"total\": 1, \"items\": [1]}";

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::BrotliCompress(&mut &*text, &mut out, &brotli::enc::BrotliEncoderParams::default()).unwrap();
        out
    }

    fn deflate(text: &[u8], is_bare: bool) -> Vec<u8> {
        let level = flate2::Compression::default();
        if is_bare {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            return encoder.finish().unwrap();
        }
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// The result for a body in pieces of so many bytes.
    async fn plain(coding: &'static str, body: &[u8], piece: usize) -> Result<Vec<u8>, TransportError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        let pieces: Vec<_> = body.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let pieces = decoded(&mut headers, stream::iter(pieces).boxed());
        assert!(headers.is_empty(), "{headers:?}");
        let pieces: Vec<Bytes> = pieces.try_collect().await?;
        Ok(pieces.concat())
    }

    #[tokio::test]
    async fn each_coding_that_is_asked_for_is_decoded_however_it_is_cut() {
        let twice = [gzip(&TEXT[..5]), gzip(&TEXT[5..])].concat();
        for (coding, body) in [
            ("gzip", gzip(TEXT)),
            ("X-GZIP ", gzip(TEXT)),
            ("gzip", twice),
            ("br", brotli(TEXT)),
            ("zstd", zstd::bulk::compress(TEXT, 3).unwrap()),
            ("deflate", deflate(TEXT, false)),
            ("deflate", deflate(TEXT, true)),
            ("identity", TEXT.to_vec()),
            ("gzip, identity", gzip(TEXT)),
            ("UTF-8", TEXT.to_vec()),
            ("none", b"[1]".to_vec()),
            ("utf8, none", TEXT.to_vec()),
        ] {
            for piece in [1, 7, 1000] {
                let text = if coding == "none" { b"[1]" } else { TEXT };
                assert_eq!(plain(coding, &body, piece).await.as_deref(), Ok(text), "{coding} {piece}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_in_no_coding_that_was_asked_for_is_an_error() {
        let cut = gzip(TEXT);
        for (coding, body) in [
            ("gzip", &b"no gzip"[..]),
            ("gzip", &cut[..cut.len() - 3]),
            ("br", b"\xff\xff\xff"),
            ("zstd", b"no zstd"),
            ("deflate", TEXT),
            ("gzip, br", TEXT),
            ("none", b"<html>"),
            ("UTF-8", &cut),
            ("UTF-8, gzip", TEXT),
        ] {
            let error = plain(coding, body, 100).await.unwrap_err();
            assert!(matches!(error, TransportError::Decode(_)), "{coding}: {error:?}");
        }
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&vec![b'x'; 1 << 20]).unwrap();
        let error = plain("zstd", &encoder.finish().unwrap(), 100).await.unwrap_err();
        assert!(matches!(error, TransportError::Decode(_)), "a window of 128 MiB: {error:?}");
    }

    #[tokio::test]
    async fn a_body_without_a_byte_is_in_no_coding() {
        for coding in ["gzip", "br", "zstd", "identity", "deflate", "gzip, br"] {
            assert_eq!(plain(coding, b"", 1).await.as_deref(), Ok(&b""[..]), "{coding}");
        }
    }

    #[tokio::test]
    async fn an_error_of_the_connection_stays_one() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let start = Ok(Bytes::from(gzip(TEXT)).slice(..10));
        let pieces = stream::iter([start, Err(TransportError::Timeout)]).boxed();
        let pieces: Result<Vec<Bytes>, _> = decoded(&mut headers, pieces).try_collect().await;
        assert_eq!(pieces.unwrap_err(), TransportError::Timeout);
    }
}
