//! Reading: small objects whole and conditionally, large ones as a stream.
//!
//! Callers: publisher and replica, through [`Place`].

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::{GetOptions, GetRange, ObjectStore as _, UpdateVersion};
use tokio::time::timeout;

use super::{Place, PlaceError, Version};
use crate::fleet::keys::{Digest, Key};

/// The answer to a conditional read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It still is the known version.
    Unchanged,
    /// Another version.
    Changed(Bytes, Version),
}

/// An object that is being read.
pub(crate) struct Download {
    /// The length of the whole object.
    pub bytes: u64,
    key: String,
    pieces: BoxStream<'static, object_store::Result<Bytes>>,
    limit: Duration,
}

impl Download {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When the object store fails, or sends nothing for too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, PlaceError> {
        let piece = timeout(self.limit, self.pieces.next()).await;
        let piece = piece.map_err(|_elapsed| PlaceError::slow(&self.key, self.limit))?;
        piece.transpose().map_err(|error| PlaceError::of(&self.key, &error))
    }
}

impl Place {
    /// Reads an object of at most `most` bytes, unless it still is the version `known`.
    ///
    /// # Errors
    /// When it is missing or longer, or the object store fails.
    pub(crate) async fn read(&self, key: &Key, most: u64, known: Option<&Version>) -> Result<Found, PlaceError> {
        let if_none_match = known.and_then(|known| known.0.e_tag.clone());
        let options = GetOptions { if_none_match, ..GetOptions::default() };
        let path = self.path(key);
        let reading = async {
            let answer = match self.store.get_opts(&path, options).await {
                Err(object_store::Error::NotModified { .. }) => return Ok(Found::Unchanged),
                answer => answer.map_err(|error| PlaceError::of(&key.to_string(), &error))?,
            };
            let version =
                Version(UpdateVersion { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() });
            // A server that ignores the condition, of the same version.
            if known.is_some_and(|known| known.0.e_tag.is_some() && *known == version) {
                return Ok(Found::Unchanged);
            }
            let too_large = || PlaceError::TooLarge { key: key.to_string(), most };
            if answer.meta.size > most {
                return Err(too_large());
            }
            let (mut pieces, mut read) = (answer.into_stream(), BytesMut::new());
            while let Some(piece) = pieces.next().await {
                read.extend_from_slice(&piece.map_err(|error| PlaceError::of(&key.to_string(), &error))?);
                if read.len() as u64 > most {
                    return Err(too_large());
                }
            }
            Ok(Found::Changed(read.freeze(), version))
        };
        let limit = self.patience.call;
        timeout(limit, reading).await.map_err(|_elapsed| PlaceError::slow(&key.to_string(), limit))?
    }

    /// Whether an object has this length and this hash; an object that is missing has not.
    ///
    /// # Errors
    /// When the object store fails, or reading takes longer than two pieces may, and the bytes at 64 KiB a second.
    pub(crate) async fn matches(&self, key: &Key, bytes: u64, blake3: &Digest) -> Result<bool, PlaceError> {
        let limit = 2 * self.patience.piece + Duration::from_secs(bytes >> 16);
        let reading = async {
            let mut download = match self.download(key, 0).await {
                Err(PlaceError::Missing(_)) => return Ok(false),
                download => download?,
            };
            let (mut hasher, mut read) = (blake3::Hasher::new(), 0_u64);
            while let Some(piece) = download.next().await? {
                read += piece.len() as u64;
                if read > bytes {
                    return Ok(false);
                }
                hasher.update(&piece);
            }
            Ok(read == bytes && *blake3 == hasher.finalize().into())
        };
        timeout(limit, reading).await.map_err(|_elapsed| PlaceError::slow(&key.to_string(), limit))?
    }

    /// Reads an object from the byte `from` on, as a stream.
    ///
    /// # Errors
    /// When it is missing, or the object store fails, or does not send parts of objects.
    pub(crate) async fn download(&self, key: &Key, from: u64) -> Result<Download, PlaceError> {
        let range = (from > 0).then_some(GetRange::Offset(from));
        let options = GetOptions { range, ..GetOptions::default() };
        let path = self.path(key);
        let answer = self.within(key, self.patience.call, self.store.get_opts(&path, options)).await?;
        let bytes = answer.meta.size;
        Ok(Download { bytes, key: key.to_string(), pieces: answer.into_stream(), limit: self.patience.piece })
    }
}
