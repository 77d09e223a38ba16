//! A reply that is ready to be sent: body, validators, and its coded variants made at most once.
//!
//! It holds nothing that varies from request to request. Callers: [`crate::serve`].

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::semantics::coding::Coding;
use crate::semantics::etag::EntityTag;

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

/// A reply.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The entity tag, parsed for comparison.
    pub tag: Option<EntityTag>,
    /// `ETag`.
    pub etag: Option<HeaderValue>,
    /// `Content-Type`.
    pub content_type: HeaderValue,
    /// `Link`.
    pub link: Option<HeaderValue>,
    /// The epoch of the snapshot that it was rendered from; 0 when it comes from none.
    pub epoch: u64,
    identity: Variant,
    coded: [OnceLock<Option<Variant>>; 3],
}

impl Reply {
    /// A reply of status 200 with a JSON body.
    pub fn new(body: impl Into<Bytes>, tag: Option<EntityTag>, link: Option<HeaderValue>, epoch: u64) -> Self {
        Self {
            status: StatusCode::OK,
            etag: tag.as_ref().map(EntityTag::to_header_value),
            tag,
            content_type: HeaderValue::from_static("application/json"),
            link,
            epoch,
            identity: Variant::new(body),
            coded: Default::default(),
        }
    }

    /// The same with another status and content type.
    #[must_use]
    pub fn with_kind(mut self, status: StatusCode, content_type: Option<HeaderValue>) -> Self {
        self.status = status;
        self.content_type = content_type.unwrap_or(self.content_type);
        self
    }

    /// The body as it is.
    pub fn body(&self) -> &Bytes {
        &self.identity.body
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
    pub fn weight(&self) -> usize {
        let head = [&self.link, &self.etag].into_iter().flatten().map(HeaderValue::len).sum::<usize>();
        self.identity.body.len() * 3 / 2 + head
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
        let reply = Reply::new(body.clone(), None, None, 0);
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*reply.variant(Coding::Gzip).1.body).read_to_string(&mut text).unwrap();
        assert_eq!(text, body);
        text.clear();
        brotli::Decompressor::new(&*reply.variant(Coding::Brotli).1.body, 4096).read_to_string(&mut text).unwrap();
        assert_eq!(text, body);
        let decoded = zstd::bulk::decompress(&reply.variant(Coding::Zstd).1.body, 10_000).unwrap();
        assert_eq!(decoded, body.as_bytes());
        assert_eq!(reply.variant(Coding::Identity).1.body, body);
    }

    #[test]
    fn small_bodies_stay_as_they_are() {
        let reply = Reply::new("{}", None, None, 0);
        assert_eq!(reply.variant(Coding::Gzip).0, Coding::Identity);
    }
}
