//! Reading: small objects whole and conditionally, large ones as a stream.
//!
//! Callers: publisher and replica, through [`Place`].

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::{GetOptions, GetRange, GetResult, ObjectStore as _, UpdateVersion};
use tokio::time::timeout;

use super::{Patience, Place, PlaceError, Version};
use crate::fleet::keys::{Digest, Key};

/// The answer to a conditional read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It still is the known version.
    Unchanged,
    /// Another version.
    Changed(Bytes, Version),
}

/// The least bytes a second of a download.
pub(super) const FLOOR: u64 = 4 << 10;

/// What has come in the present period, and how long it was waited for. The reader's own pauses do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pace {
    waited: Duration,
    bytes: u64,
}

impl Pace {
    /// After another piece, or a wait without one. `None`: too little has come.
    fn after(self, waited: Duration, bytes: usize, period: Duration) -> Option<Self> {
        let pace = Self { waited: self.waited + waited, bytes: self.bytes + bytes as u64 };
        if pace.waited < period {
            return Some(pace);
        }
        (pace.bytes >= FLOOR * period.as_secs()).then(Self::default)
    }
}

/// An object that is being read.
pub(crate) struct Download {
    /// The length of the whole object.
    pub bytes: u64,
    key: String,
    pieces: BoxStream<'static, object_store::Result<Bytes>>,
    patience: Patience,
    pace: Pace,
}

impl Download {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When the object store fails, sends nothing for too long, or less than [`FLOOR`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, PlaceError> {
        let Patience { piece: longest, pace: period, .. } = self.patience;
        let mut silence = Duration::ZERO;
        loop {
            let begin = Instant::now();
            let limit = longest.saturating_sub(silence).min(period.saturating_sub(self.pace.waited));
            let piece = timeout(limit, self.pieces.next()).await;
            let waited = begin.elapsed().max(if piece.is_err() { limit } else { Duration::ZERO });
            let piece = piece.ok();
            let bytes = piece.as_ref().and_then(|piece| piece.as_ref()?.as_ref().ok()).map_or(0, Bytes::len);
            let all = self.pace.bytes + bytes as u64;
            let Some(pace) = self.pace.after(waited, bytes, period) else {
                return Err(PlaceError::Drips { key: self.key.clone(), bytes: all, seconds: period.as_secs() });
            };
            self.pace = pace;
            if let Some(piece) = piece {
                return piece.transpose().map_err(|error| PlaceError::of(&self.key, &error));
            }
            silence += waited;
            if silence >= longest {
                return Err(PlaceError::slow(&self.key, longest));
            }
        }
    }
}

impl Place {
    /// Reads an object of at most `most` bytes, unless it still is the version `known`.
    ///
    /// # Errors
    /// When it is missing or longer, or the object store fails.
    pub(crate) async fn read(&self, key: &Key, most: u64, known: Option<&Version>) -> Result<Found, PlaceError> {
        let if_none_match = known.and_then(|known| known.0.e_tag.clone());
        let is_conditional = if_none_match.is_some();
        let options = GetOptions { if_none_match, ..GetOptions::default() };
        let path = self.path(key);
        let limit = self.patience.call;
        let answer = timeout(limit, self.store.get_opts(&path, options)).await;
        let answer = match answer.map_err(|_elapsed| PlaceError::slow(&key.to_string(), limit))? {
            Err(object_store::Error::NotModified { .. }) if is_conditional => return Ok(Found::Unchanged),
            Err(object_store::Error::NotModified { .. }) => {
                return Err(PlaceError::Failed(format!("it answered 304 to an unconditional request for {key}")));
            }
            answer => answer.map_err(|error| PlaceError::of(&key.to_string(), &error))?,
        };
        let (e_tag, version) = (answer.meta.e_tag.clone(), answer.meta.version.clone());
        let version = Version(UpdateVersion { e_tag, version });
        // A server that ignores the condition, of the same version.
        if is_conditional && known == Some(&version) {
            return Ok(Found::Unchanged);
        }
        let too_large = || PlaceError::TooLarge { key: key.to_string(), most };
        if answer.meta.size > most {
            return Err(too_large());
        }
        let (mut download, mut read) = (self.downloading(key, answer), BytesMut::new());
        while let Some(piece) = download.next().await? {
            read.extend_from_slice(&piece);
            if read.len() as u64 > most {
                return Err(too_large());
            }
        }
        Ok(Found::Changed(read.freeze(), version))
    }

    /// Whether an object has this length and this hash; an object that is missing has not.
    ///
    /// # Errors
    /// When the object store fails.
    pub(crate) async fn matches(&self, key: &Key, bytes: u64, blake3: &Digest) -> Result<bool, PlaceError> {
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
        Ok(self.downloading(key, answer))
    }

    fn downloading(&self, key: &Key, answer: GetResult) -> Download {
        let (bytes, pieces) = (answer.meta.size, answer.into_stream());
        Download { bytes, key: key.to_string(), pieces, patience: self.patience, pace: Pace::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_must_bring_its_share() {
        let (period, share) = (Duration::from_secs(60), 60 * FLOOR);
        let of = |seconds, bytes| Pace { waited: Duration::from_secs(seconds), bytes };
        for (pace, seconds, bytes, expected) in [
            (of(0, 0), 59, 1, Some(of(59, 1))),
            (of(59, 1), 1, 1, None),
            (of(59, share - 2), 1, 1, None),
            (of(59, share - 1), 1, 1, Some(of(0, 0))),
            (of(59, share), 1, 0, Some(of(0, 0))),
            (of(0, 0), 60, 0, None),
        ] {
            assert_eq!(pace.after(Duration::from_secs(seconds), bytes, period), expected, "{pace:?} {seconds} {bytes}");
        }
    }
}
