//! Content coding of a file, made while it is sent.
//!
//! Callers: [`super::download`].

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::protocol::coding::Coding;

/// The default of zstd, and the gzip level that is worth its time.
const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 6;

/// A download holds its encoder's window for as long as it takes: 256 KiB.
const WINDOW_LOG: u32 = 18;

pub(super) enum Encoder {
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Encoder {
    /// `None`: as it is.
    pub(super) fn of(coding: Coding) -> io::Result<Option<Self>> {
        Ok(match coding {
            Coding::Zstd => {
                let mut encoder = ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.window_log(WINDOW_LOG)?;
                Some(Self::Zstd(Box::new(encoder)))
            }
            Coding::Gzip => Some(Self::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))))),
            Coding::Identity | Coding::Brotli => None,
        })
    }

    /// What can be sent after this piece; perhaps nothing yet.
    pub(super) fn put(&mut self, piece: &[u8], is_last: bool) -> io::Result<Bytes> {
        let out = match self {
            Self::Zstd(encoder) => {
                encoder.write_all(piece)?;
                if is_last {
                    encoder.do_finish()?;
                }
                encoder.get_mut()
            }
            Self::Gzip(encoder) => {
                encoder.write_all(piece)?;
                if is_last {
                    encoder.try_finish()?;
                }
                encoder.get_mut()
            }
        };
        Ok(std::mem::take(out).into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn pieces_in_a_coding_are_one_stream() {
        let pieces: Vec<Vec<u8>> = (0..50_u8).map(|n| vec![n; 10_000]).collect();
        let whole = pieces.concat();
        let coded = |coding| {
            let mut encoder = Encoder::of(coding).unwrap().unwrap();
            let coded = pieces.iter().enumerate().map(|(at, piece)| encoder.put(piece, at == 49).unwrap());
            coded.collect::<Vec<_>>().concat()
        };
        assert_eq!(zstd::decode_all(&coded(Coding::Zstd)[..]).unwrap(), whole);
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&coded(Coding::Gzip)[..]).read_to_end(&mut read).unwrap();
        assert_eq!(read, whole);
        assert!(Encoder::of(Coding::Identity).unwrap().is_none());
    }
}
