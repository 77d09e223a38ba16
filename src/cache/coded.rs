//! A body and its coded variants, each made once, when it is first asked for.
//!
//! It knows nothing of heads. Callers: [`super::reply`] and [`super::stored`].

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use http::HeaderValue;

use crate::semantics::coding::Coding;

/// Bodies smaller than this are sent as they are: a coding would not make them smaller.
const WORTH_CODING: usize = 200;

/// One coded body.
#[derive(Debug)]
pub struct Variant {
    /// The coded body.
    pub body: Bytes,
    /// Its `Content-Length`.
    pub length: HeaderValue,
}

impl Variant {
    fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self { length: HeaderValue::from(body.len()), body }
    }
}

/// A body.
#[derive(Debug)]
pub struct Coded {
    identity: Variant,
    coded: [OnceLock<Option<Variant>>; 3],
}

impl Coded {
    /// A body without a coding.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { identity: Variant::new(body), coded: Default::default() }
    }

    /// The body as it is.
    pub const fn identity(&self) -> &Variant {
        &self.identity
    }

    /// The body in a coding, and the coding it really has: identity where coding does not pay.
    pub fn variant(&self, coding: Coding) -> (Coding, &Variant) {
        let index = match coding {
            Coding::Identity => return (Coding::Identity, &self.identity),
            Coding::Gzip => 0,
            Coding::Brotli => 1,
            Coding::Zstd => 2,
        };
        if self.identity.body.len() < WORTH_CODING {
            return (Coding::Identity, &self.identity);
        }
        let coded = self.coded[index].get_or_init(|| {
            let coded = encode(coding, &self.identity.body).ok()?;
            (coded.len() < self.identity.body.len()).then(|| Variant::new(coded))
        });
        coded.as_ref().map_or((Coding::Identity, &self.identity), |variant| (coding, variant))
    }

    /// What it weighs in a cache, in bytes: variants are expected to be made.
    pub const fn weight(&self) -> usize {
        self.identity.body.len() * 3 / 2
    }
}

fn encode(coding: Coding, body: &[u8]) -> std::io::Result<Vec<u8>> {
    let out = Vec::with_capacity(body.len() / 3);
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(6));
            encoder.write_all(body)?;
            encoder.finish()
        }
        Coding::Brotli => {
            let mut encoder = brotli::CompressorWriter::new(out, 16 * 1024, 5, 20);
            encoder.write_all(body)?;
            encoder.flush()?;
            Ok(encoder.into_inner())
        }
        Coding::Zstd => zstd::bulk::compress(body, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn every_coding_decodes_to_the_same_bytes() {
        let body = "{\"items\":[1,2,3]}".repeat(100);
        let coded = Coded::new(body.clone());
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*coded.variant(Coding::Gzip).1.body).read_to_string(&mut text).unwrap();
        assert_eq!(text, body);
        text.clear();
        brotli::Decompressor::new(&*coded.variant(Coding::Brotli).1.body, 4096).read_to_string(&mut text).unwrap();
        assert_eq!(text, body);
        let decoded = zstd::bulk::decompress(&coded.variant(Coding::Zstd).1.body, 10_000).unwrap();
        assert_eq!(decoded, body.as_bytes());
        assert_eq!(coded.variant(Coding::Identity).1.body, body);
    }

    #[test]
    fn small_bodies_stay_as_they_are() {
        let coded = Coded::new("{}");
        assert_eq!(coded.variant(Coding::Gzip).0, Coding::Identity);
    }
}
