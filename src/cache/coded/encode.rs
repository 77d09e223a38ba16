//! Compresses a body: quickly while a client waits, or well in the background.
//!
//! A page of 14 kB of the sample data, in microseconds and bytes: best of five rounds of the same encoders in a program
//! of their own, on a busy machine, so that only the proportions count. `benches/codings.rs` repeats the rows that are
//! used.
//!
//! | effort | gzip | brotli | zstd |
//! |---|---|---|---|
//! | [`Effort::Quick`] | level 1: 77, 5357 | level 2: 300, 4057 | level 1: 64, 4131 |
//! | between | level 2: 187, 4252 | level 4: 860, 3877 | level 3: 85, 4022 |
//! | [`Effort::Best`] | level 6: 330, 3867 | level 5: 1290, 3640 | level 6: 330, 3789 |
//! | more | level 9: 490, 3824 | level 9: 5300, 3587 | level 12: 2800, 3728 |
//!
//! Brotli's levels 0 and 1 are hardly faster than 2 and 30 % larger. With a window of 64 KiB its level 5 takes 6.8 ms.
//! An encoder that is used again saves a detail of 1 kB most of the time: 36 to 8 with gzip, 32 to 24 with zstd.
//! Callers: [`super`].

use std::cell::RefCell;
use std::io;

use brotli::enc::BrotliEncoderParams;
use flate2::{Compress, Compression, FlushCompress, Status};
use zstd::bulk::Compressor;

use crate::semantics::coding::Coding;

/// How much work a coding is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A client waits.
    Quick,
    /// In the background, for bodies that are sent often.
    Best,
}

impl Effort {
    const fn level(self, coding: Coding) -> i32 {
        match (self, coding) {
            (_, Coding::Identity) => 0,
            (Self::Quick, Coding::Brotli) => 2,
            (Self::Quick, _) => 1,
            (Self::Best, Coding::Gzip | Coding::Zstd) => 6,
            (Self::Best, Coding::Brotli) => 5,
        }
    }
}

/// Bodies over this size, in bytes, are compressed with an encoder of their own: its memory grows with the body, and
/// must not stay with the thread.
const REUSED_FOR: usize = 64 << 10;

thread_local! {
    /// For small bodies, setting up an encoder costs more than using it. About 1 MiB per compressing thread.
    static QUICK: RefCell<(Option<Compress>, Option<Compressor<'static>>)> = const { RefCell::new((None, None)) };
}

/// Compresses a body.
///
/// # Errors
/// When the encoder fails, which is not expected.
pub fn encode(coding: Coding, effort: Effort, body: &[u8]) -> io::Result<Vec<u8>> {
    let level = effort.level(coding);
    let reuses = effort == Effort::Quick && body.len() <= REUSED_FOR;
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Brotli => brotli(level, body),
        Coding::Gzip if reuses => QUICK.with_borrow_mut(|(encoder, _)| {
            let encoder = encoder.get_or_insert_with(|| gzip_encoder(level));
            encoder.reset();
            gzip(encoder, body)
        }),
        Coding::Gzip => gzip(&mut gzip_encoder(level), body),
        Coding::Zstd if reuses => QUICK.with_borrow_mut(|(_, encoder)| match encoder {
            Some(encoder) => encoder.compress(body),
            None => encoder.insert(Compressor::new(level)?).compress(body),
        }),
        Coding::Zstd => zstd::bulk::compress(body, level),
    }
}

fn gzip_encoder(level: i32) -> Compress {
    Compress::new_gzip(Compression::new(level.unsigned_abs()), 15)
}

fn gzip(encoder: &mut Compress, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() / 3 + 64);
    loop {
        let rest = body.get(encoder.total_in() as usize..).unwrap_or_default();
        match encoder.compress_vec(rest, &mut out, FlushCompress::Finish)? {
            Status::StreamEnd => return Ok(out),
            Status::Ok | Status::BufError => out.reserve(body.len() / 3 + 64),
        }
    }
}

fn brotli(level: i32, body: &[u8]) -> io::Result<Vec<u8>> {
    // No larger than the body needs: the window is allocated. From 256 KiB to 4 MiB.
    let window = body.len().max(2).ilog2().cast_signed() + 1;
    let parameters = BrotliEncoderParams {
        quality: level,
        lgwin: window.clamp(18, 22),
        size_hint: body.len(),
        ..BrotliEncoderParams::default()
    };
    let mut out = Vec::with_capacity(body.len() / 3 + 64);
    brotli::BrotliCompress(&mut &*body, &mut out, &parameters)?;
    Ok(out)
}
