//! A body that is read whole: collected in blocks, joined once.
//!
//! A buffer that grows by doubling leaves its smaller selves to the allocator, which holds them for a while: with many
//! large bodies at once they took as much as the bodies. Callers: [`super::client`].

use bytes::{Bytes, BytesMut};

/// The size of a block, in bytes.
const BLOCK: usize = 64 << 10;

/// The body so far.
#[derive(Debug, Default)]
pub(super) struct Collected {
    full: Vec<Bytes>,
    last: BytesMut,
    length: usize,
}

impl Collected {
    /// One more piece. It is copied: a small piece may hold on to the large buffer it came from.
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        self.length += piece.len();
        while !piece.is_empty() {
            if self.last.capacity() == self.last.len() {
                let full = std::mem::replace(&mut self.last, BytesMut::with_capacity(piece.len().clamp(4096, BLOCK)));
                if !full.is_empty() {
                    self.full.push(full.freeze());
                }
            }
            let room = self.last.capacity() - self.last.len();
            let (fits, rest) = piece.split_at(room.min(piece.len()));
            self.last.extend_from_slice(fits);
            piece = rest;
        }
    }

    /// How many bytes there are.
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// All of it in one piece.
    pub(super) fn into_bytes(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.freeze();
        }
        let mut whole = BytesMut::with_capacity(self.length);
        // Each block is freed once it is copied.
        self.full.into_iter().for_each(|block| whole.extend_from_slice(&block));
        whole.extend_from_slice(&self.last);
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_pushed_comes_out(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20_000), 0..30)) {
            let mut collected = Collected::default();
            for piece in &pieces {
                collected.push(piece);
            }
            prop_assert_eq!(collected.len(), pieces.iter().map(Vec::len).sum::<usize>());
            prop_assert_eq!(collected.into_bytes(), pieces.concat());
        }
    }
}
