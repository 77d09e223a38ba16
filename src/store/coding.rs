//! Bytes to store and back: checksums bound to table and key, and a reader that never trusts a length.
//!
//! Callers: the other modules of [`crate::store`].

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::error::StoreError;
use crate::api::hash::ContentHash;

const SUM_LEN: usize = 8;

/// Appends a checksum over table, key and payload, which reveals flipped bits and values under another key.
pub(super) fn seal(table: &str, key: &[u8], mut payload: Vec<u8>) -> Vec<u8> {
    let sum = checksum(table, key, &payload);
    // Some payloads are tens of MiB, and would double.
    payload.reserve_exact(SUM_LEN);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

/// The payload of a sealed value.
///
/// # Errors
/// When the checksum does not fit.
pub(super) fn unseal<'a>(table: &str, key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], StoreError> {
    let split = sealed.split_last_chunk::<SUM_LEN>();
    match split {
        Some((payload, sum)) if checksum(table, key, payload) == u64::from_le_bytes(*sum) => Ok(payload),
        _ => Err(damaged(table, "checksum")),
    }
}

fn checksum(table: &str, key: &[u8], payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, xxh3_64_with_seed(key, xxh3_64(table.as_bytes())))
}

/// A number of the table `meta`.
pub(super) fn seal_number(name: &str, number: u64) -> Vec<u8> {
    seal("meta", name.as_bytes(), number.to_le_bytes().to_vec())
}

/// A number of the table `meta`.
///
/// # Errors
/// When it is damaged.
pub(super) fn unseal_number(name: &str, sealed: &[u8]) -> Result<u64, StoreError> {
    let payload = unseal("meta", name.as_bytes(), sealed)?;
    payload.try_into().map(u64::from_le_bytes).map_err(|_| damaged("meta", "length"))
}

/// Refuses what is too large to be stored.
pub(super) fn check_size(what: impl Fn() -> String, bytes: usize, most: usize) -> Result<(), StoreError> {
    if bytes > most { Err(StoreError::TooLarge { what: what(), bytes }) } else { Ok(()) }
}

/// The error for a value of `table`, or a block of that kind, with a wrong `what`.
pub(super) fn damaged(table: &str, what: &str) -> StoreError {
    StoreError::Damaged(format!("{table}: wrong {what}"))
}

/// Reads fields off the front of a payload.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    table: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(table: &'static str, payload: &'a [u8]) -> Self {
        Self { rest: payload, table }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| damaged(self.table, "length"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| damaged(self.table, "length"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, StoreError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, StoreError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, StoreError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, StoreError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, StoreError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn hash(&mut self) -> Result<ContentHash, StoreError> {
        self.array().map(ContentHash::from_bytes)
    }

    /// A count of items of at least `least` bytes each: it cannot exceed the remaining bytes.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, StoreError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / least { Err(damaged(self.table, "count")) } else { Ok(count) }
    }

    pub(super) fn text(&mut self) -> Result<&'a str, StoreError> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| damaged(self.table, "text"))
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.u8()? {
            0 => Ok(None),
            1 => self.text().map(|text| Some(text.to_owned())),
            _ => Err(damaged(self.table, "tag")),
        }
    }

    /// The version byte with which an encoding begins.
    pub(super) fn version(&mut self, known: u8) -> Result<(), StoreError> {
        if self.u8()? == known { Ok(()) } else { Err(damaged(self.table, "version")) }
    }

    /// Checks that all bytes were read.
    pub(super) fn end(&self) -> Result<(), StoreError> {
        if self.rest.is_empty() { Ok(()) } else { Err(damaged(self.table, "length")) }
    }

    /// The remaining bytes.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Writes what [`Reader::text`] reads.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Writes what [`Reader::optional_text`] reads.
pub(super) fn put_optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(out, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_flipped_bit_and_any_other_key_is_noticed(payload in any::<Vec<u8>>(), key in any::<u64>(), at: usize) {
            let key = key.to_le_bytes();
            let mut sealed = seal("details", &key, payload.clone());
            prop_assert_eq!(unseal("details", &key, &sealed).unwrap(), payload.as_slice());
            prop_assert!(unseal("details", b"other", &sealed).is_err());
            prop_assert!(unseal("copies", &key, &sealed).is_err());
            let bit = at % (sealed.len() * 8);
            sealed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(unseal("details", &key, &sealed).is_err());
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            let mut reader = Reader::new("t", &bytes);
            while reader.optional_text().is_ok() && reader.count(4).is_ok() && reader.text().is_ok() {}
            let _ = reader.end();
        }
    }
}
