//! Copies of the origin's answers, with the validators for conditional requests.
//!
//! Stored by canonical path and query; never served as they are. Callers: [`crate::mirror`].

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable};

use super::coding::{self, Packer, Reader, unpack};
use super::error::{Fault, StoreError, unless_damaged};
use super::{MAX_BODY, Store, database};
use crate::api::hash::ContentHash;
use crate::data::fields::put_optional_text;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyMeta {
    /// The origin's entity tag, as sent.
    pub etag: Option<String>,
    /// The origin's `Last-Modified`, as sent.
    pub last_modified: Option<String>,
    /// The instant for which the origin last confirmed it, in the origin's time; milliseconds since 1970.
    pub origin_time_ms: i64,
    /// The latest instant at which the content can have changed to this, in the origin's time.
    pub since_ms: i64,
    /// When the answer arrived here; milliseconds since the epoch.
    pub fetched_ms: i64,
    /// Hash of the body as the caller sees fit (without volatile values, say); not checked here.
    pub hash: ContentHash,
    /// The status of the answer with the body.
    pub status: u16,
}

pub(super) const META: &str = "copy_meta";
pub(super) const BODY: &str = "copy_body";
const ENCODING: u8 = 1;

impl CopyMeta {
    /// `1`, origin time i64, since i64, fetched i64, hash, status u16, entity tag, last modified.
    fn encode(&self, key: &str) -> Vec<u8> {
        let mut out = vec![ENCODING];
        out.extend_from_slice(&self.origin_time_ms.to_le_bytes());
        out.extend_from_slice(&self.since_ms.to_le_bytes());
        out.extend_from_slice(&self.fetched_ms.to_le_bytes());
        out.extend_from_slice(&self.hash.to_bytes());
        out.extend_from_slice(&self.status.to_le_bytes());
        put_optional_text(&mut out, self.etag.as_deref());
        put_optional_text(&mut out, self.last_modified.as_deref());
        coding::seal(META, key.as_bytes(), out)
    }

    fn decode(key: &str, sealed: &[u8]) -> Result<Self, StoreError> {
        let mut reader = Reader::new(META, coding::unseal(META, key.as_bytes(), sealed)?);
        reader.version(ENCODING)?;
        let (origin_time_ms, since_ms, fetched_ms) = (reader.i64()?, reader.i64()?, reader.i64()?);
        let (hash, status) = (reader.hash()?, reader.u16()?);
        let [etag, last_modified] =
            [reader.optional_text()?, reader.optional_text()?].map(|text| text.map(str::to_owned));
        reader.end()?;
        Ok(Self { etag, last_modified, origin_time_ms, since_ms, fetched_ms, hash, status })
    }
}

impl Store {
    /// Stores one copy, which a crash may undo until the next other write or [`Store::sync`]. Then it is fetched again.
    /// Without a body only the metadata is replaced, as after a 304. A body has at most [`MAX_BODY`] bytes.
    pub fn put_copy_soon(&self, key: &str, meta: &CopyMeta, body: Option<&[u8]>) -> Result<(), StoreError> {
        let pack = |body: &[u8]| {
            coding::check_size(|| format!("the body of {key}"), body.len(), MAX_BODY)?;
            Ok::<_, StoreError>(coding::seal(BODY, key.as_bytes(), Packer::new()?.pack(body)?))
        };
        let (meta, body) = (meta.encode(key), body.map(pack).transpose()?);
        let needed = (meta.len() + body.as_ref().map_or(0, Vec::len)) as u64 * 5 / 4 + (1 << 20);
        self.handle.write_soon(needed, |transaction| {
            transaction.open_table(database::COPY_META)?.insert(key, meta.as_slice())?;
            if let Some(body) = &body {
                transaction.open_table(database::COPY_BODY)?.insert(key, body.as_slice())?;
            }
            Ok(())
        })
    }

    /// The metadata of a copy; `None` if it is absent or damaged.
    pub fn copy_meta(&self, key: &str) -> Result<Option<CopyMeta>, StoreError> {
        self.read_copy(key, |meta, _| Ok(meta))
    }

    /// Metadata and body of a copy, read together; `None` if it is absent or damaged.
    pub fn copy(&self, key: &str) -> Result<Option<(CopyMeta, Bytes)>, StoreError> {
        self.read_copy(key, |meta, transaction| {
            let Some(meta) = meta else { return Ok(None) };
            let Some(sealed) = transaction.open_table(database::COPY_BODY)?.get(key)? else { return Ok(None) };
            let packed = coding::unseal(BODY, key.as_bytes(), sealed.value())?;
            Ok(Some((meta, unpack(packed, MAX_BODY)?.into())))
        })
    }

    fn read_copy<T>(
        &self,
        key: &str,
        read: impl Fn(Option<CopyMeta>, &ReadTransaction) -> Result<Option<T>, Fault>,
    ) -> Result<Option<T>, StoreError> {
        let read = self.handle.read(|transaction| {
            let sealed = transaction.open_table(database::COPY_META)?.get(key)?;
            let meta = sealed.map(|sealed| CopyMeta::decode(key, sealed.value())).transpose()?;
            read(meta, transaction)
        });
        unless_damaged(read, || format!("the copy of {key}"))
    }

    /// The metadata of all copies, by key. Fails if one is damaged.
    pub fn copy_metas(&self) -> Result<Vec<(String, CopyMeta)>, StoreError> {
        self.handle.read(|transaction| {
            let mut metas = Vec::new();
            for entry in transaction.open_table(database::COPY_META)?.iter()? {
                let (key, sealed) = entry?;
                metas.push((key.value().to_owned(), CopyMeta::decode(key.value(), sealed.value())?));
            }
            Ok(metas)
        })
    }

    /// Removes copies; absent ones are skipped.
    pub fn remove_copies(&self, keys: &[String]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        self.handle.write(1 << 20, |transaction| {
            let mut metas = transaction.open_table(database::COPY_META)?;
            let mut bodies = transaction.open_table(database::COPY_BODY)?;
            for key in keys {
                metas.remove(key.as_str())?;
                bodies.remove(key.as_str())?;
            }
            Ok(())
        })
    }
}
