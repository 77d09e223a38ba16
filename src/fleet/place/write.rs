//! Writing: small objects whole and conditionally, files in parts.
//!
//! Callers: the publisher, through [`Place`].

use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStore as _, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion};

use super::{Place, PlaceError, Version};
use crate::fleet::keys::Key;
use crate::tasks::blocking;

/// The size of the parts of a large object: at least this, and at most so many parts.
const PART: u64 = 8 << 20;
const MOST_PARTS: u64 = 5000;

/// When an object may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Always.
    Always,
    /// Only if there is none.
    Absent,
    /// Only over this version.
    Over(Version),
    /// Only over a version that cannot exist. An object store that supports conditions refuses this, so it shows whether it
    /// does.
    Impossible,
}

impl Condition {
    fn mode(self) -> PutMode {
        match self {
            Self::Always => PutMode::Overwrite,
            Self::Absent => PutMode::Create,
            Self::Over(Version(version)) => PutMode::Update(version),
            Self::Impossible => PutMode::Update(UpdateVersion {
                e_tag: Some("\"00000000000000000000000000000000\"".to_owned()),
                version: Some("1".to_owned()),
            }),
        }
    }
}

impl Place {
    /// Writes a small object.
    ///
    /// # Errors
    /// [`PlaceError::Changed`] when the condition does not hold, [`PlaceError::Unsupported`] when there is no such
    /// condition; or the object store fails.
    pub(crate) async fn write(&self, key: &Key, bytes: Bytes, condition: Condition) -> Result<Version, PlaceError> {
        let path = self.path(key);
        // Journals can be some MiB.
        let limit = self.patience.call + Duration::from_secs(bytes.len() as u64 >> 16);
        let put = self.store.put_opts(&path, PutPayload::from_bytes(bytes), condition.mode().into());
        let written = self.within(key, limit, put).await?;
        Ok(Version(written.into()))
    }

    /// Writes the first `bytes` bytes of a file, from its current position, in parts. The object shows when it is whole.
    ///
    /// # Errors
    /// When the object store fails, or the file cannot be read.
    pub(crate) async fn write_file(&self, key: &Key, mut file: File, bytes: u64) -> Result<(), PlaceError> {
        let path = self.path(key);
        if bytes <= PART {
            let (_, whole) = piece(file, bytes).await?;
            let put = self.store.put_opts(&path, whole, PutMode::Overwrite.into());
            return self.within(key, self.patience.part, put).await.map(drop);
        }
        let mut upload = self.within(key, self.patience.call, self.store.put_multipart(&path)).await?;
        let size = PART.max(bytes.div_ceil(MOST_PARTS));
        let mut left = bytes;
        let written = async {
            while left > 0 {
                let (again, part) = piece(file, left.min(size)).await?;
                file = again;
                left -= left.min(size);
                self.within(key, self.patience.part, upload.put_part(part)).await?;
            }
            self.within(key, self.patience.part, upload.complete()).await.map(drop)
        };
        let written = written.await;
        if written.is_err() {
            // Stored parts cost money. If the object store does not answer, they stay there.
            let _ = self.within(key, self.patience.call, upload.abort()).await;
        }
        written
    }
}

/// The next bytes of a file, and the file again.
async fn piece(mut file: File, bytes: u64) -> Result<(File, PutPayload), PlaceError> {
    let read = blocking(move || {
        let mut piece = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        file.read_exact(&mut piece).map(|()| (file, PutPayload::from(piece)))
    });
    read.await.map_err(|error: std::io::Error| PlaceError::File(error.to_string()))
}
