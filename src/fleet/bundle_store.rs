//! The object store of a fleet: one prefix of it, read and written with deadlines.
//!
//! Reads, writes, lists and removes objects by their [`ObjectKey`], without knowing what they mean. Small objects are
//! read and written whole and conditionally, large ones as streams and in parts. Each call ends in bounded time. The
//! client is that of `object_store`; [`open`] makes it from the configuration. Callers: publisher and replica;
//! [`crate::server`] and `grandstand check` open it.

mod client;
mod error;
mod files;
mod open;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload};
use tokio::time::timeout;

use super::head::FileHash;
use super::keys::ObjectKey;
use crate::tasks::blocking;

pub(crate) use error::BundleStoreError;
/// When an object may be written, and one version of it, as the object store tells versions apart.
pub(crate) use object_store::{PutMode, UpdateVersion};

/// The longest time of a call with a small answer, with all its retries.
const CALL: Duration = Duration::from_secs(20);
/// The longest time until the next piece of an object that is being read, or the next page of a list.
const PIECE: Duration = Duration::from_secs(30);
/// The longest time of one part of an object that is being written.
const PART_TIME: Duration = Duration::from_secs(120);
/// An object that is being read must bring [`FLOOR`] a second in each time of this length.
const PACE: Duration = Duration::from_secs(60);

/// The length of an object, or the most that is read of it, for servers that do not say one.
#[derive(Clone, Copy, Debug)]
struct Expected(u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub key: ObjectKey,
    pub bytes: u64,
    /// When it was written, by the object store's clock; milliseconds since the epoch.
    pub modified_ms: i64,
    /// What tells its version from others, as lists of this store show it; `None`: they do not.
    pub tag: Option<String>,
}

/// The most objects of ours that are listed: a hundred times as many as an object store has normally.
const MOST_LISTED: usize = 100_000;

/// The longest time of a list. Foreign objects below the prefix cost nothing but time.
const LONGEST_LIST: Duration = Duration::from_secs(60);

/// The size of the parts of a large object: at least this, and at most so many parts. One part is in memory at a time.
const PART: u64 = 8 << 20;
const MOST_PARTS: u64 = 5000;

/// The least bytes a second of a download: the largest bundle (4 GiB) takes 12 days at most.
const FLOOR: u64 = 4 << 10;

/// The directories of objects; the head lies above them.
const DIRECTORIES: [&str; 4] = ["", "full", "delta", "journal"];

/// A prefix of an object store; cheap to clone.
#[derive(Clone)]
pub(crate) struct BundleStore {
    store: Arc<dyn ObjectStore>,
    below: Path,
    /// The directory, of an object store of files.
    directory: Option<PathBuf>,
    /// The address of the proxy on the way to it, without user name and password; `None`: it is asked directly.
    pub(crate) proxy: Option<String>,
    /// [`PACE`], but in tests.
    period: Duration,
}

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

pub(crate) struct Download {
    /// The length of the whole object.
    pub bytes: u64,
    key: String,
    pieces: BoxStream<'static, object_store::Result<Bytes>>,
    /// [`PACE`], but in tests.
    period: Duration,
    pace: Pace,
}

impl Download {
    /// The next piece; `None` at the end. Fails when nothing comes for [`PIECE`], or less than [`FLOOR`] a second for
    /// [`PACE`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BundleStoreError> {
        let period = self.period;
        let mut silence = Duration::ZERO;
        loop {
            let begin = Instant::now();
            let limit = PIECE.saturating_sub(silence).min(period.saturating_sub(self.pace.waited));
            let piece = timeout(limit, self.pieces.next()).await;
            let waited = begin.elapsed().max(if piece.is_err() { limit } else { Duration::ZERO });
            let piece = piece.ok();
            let bytes = piece.as_ref().and_then(|piece| piece.as_ref()?.as_ref().ok()).map_or(0, Bytes::len);
            let all = self.pace.bytes + bytes as u64;
            let Some(pace) = self.pace.after(waited, bytes, period) else {
                return Err(BundleStoreError::Drips { key: self.key.clone(), bytes: all, seconds: period.as_secs() });
            };
            self.pace = pace;
            if let Some(piece) = piece {
                return piece.transpose().map_err(|error| BundleStoreError::of(&self.key, &error));
            }
            silence += waited;
            if silence >= PIECE {
                return Err(BundleStoreError::slow(&self.key, PIECE));
            }
        }
    }
}

/// Only over a version that cannot exist. An object store that supports conditions refuses this, so it shows whether it
/// does.
pub(crate) fn impossible() -> PutMode {
    let e_tag = Some("\"00000000000000000000000000000000\"".to_owned());
    PutMode::Update(UpdateVersion { e_tag, version: Some("1".to_owned()) })
}

impl BundleStore {
    fn path(&self, key: &ObjectKey) -> Path {
        // Keys have no character that a path does not take.
        let path = if self.below.as_ref().is_empty() { key.to_string() } else { format!("{}/{key}", self.below) };
        Path::from(path)
    }

    pub(crate) const fn is_directory(&self) -> bool {
        self.directory.is_some()
    }

    /// All objects of ours below the prefix, in no order. Fails if there are more than [`MOST_LISTED`], or after
    /// [`LONGEST_LIST`].
    pub(crate) async fn list(&self) -> Result<Vec<Listed>, BundleStoreError> {
        let prefix = (!self.below.as_ref().is_empty()).then_some(&self.below);
        let mut objects = self.store.list(prefix);
        let (mut listed, mut seen) = (Vec::new(), 0_u64);
        let end = Instant::now() + LONGEST_LIST;
        loop {
            let next = timeout(PIECE, objects.next()).await;
            let Some(object) = next.map_err(|_elapsed| BundleStoreError::slow("a list", PIECE))? else {
                return Ok(listed);
            };
            let object = object.map_err(|error| BundleStoreError::of("the list of objects", &error))?;
            seen += 1;
            if listed.len() >= MOST_LISTED || Instant::now() >= end {
                return Err(BundleStoreError::Failed(format!(
                    "the list of objects below the prefix is too long (at most {MOST_LISTED} objects of publishers, within \
                     {} s): it has {seen} so far, {} of them of publishers; use a prefix that has nothing else",
                    LONGEST_LIST.as_secs(),
                    listed.len()
                )));
            }
            let name = object.location.as_ref().strip_prefix(self.below.as_ref()).unwrap_or_default();
            if let Some(key) = ObjectKey::parse(name.trim_start_matches('/')) {
                let modified_ms = object.last_modified.timestamp_millis();
                listed.push(Listed { key, bytes: object.size, modified_ms, tag: object.e_tag });
            }
        }
    }

    /// Removes an object. One that is not there is removed already.
    pub(crate) async fn delete(&self, key: &ObjectKey) -> Result<(), BundleStoreError> {
        let path = self.path(key);
        match self.within(key, CALL, self.store.delete(&path)).await {
            Err(BundleStoreError::Missing(_)) => Ok(()),
            deleted => deleted,
        }
    }

    /// Reads an object of at most `most` bytes, and its version; `None`: it still is the version `known`.
    pub(crate) async fn read(
        &self,
        key: &ObjectKey,
        most: u64,
        known: Option<&UpdateVersion>,
    ) -> Result<Option<(Bytes, UpdateVersion)>, BundleStoreError> {
        let if_none_match = known.and_then(|known| known.e_tag.clone());
        let is_conditional = if_none_match.is_some();
        let options = GetOptions { if_none_match, ..expecting(most) };
        let answer = timeout(CALL, self.get(key, options)).await;
        let answer = match answer.map_err(|_elapsed| BundleStoreError::slow(&key.to_string(), CALL))? {
            Err(object_store::Error::NotModified { .. }) if is_conditional => return Ok(None),
            Err(object_store::Error::NotModified { .. }) => {
                return Err(BundleStoreError::Failed(format!("it answered 304 to an unconditional request for {key}")));
            }
            answer => answer.map_err(|error| BundleStoreError::of(&key.to_string(), &error))?,
        };
        let (e_tag, version) = (answer.meta.e_tag.clone(), answer.meta.version.clone());
        let version = UpdateVersion { e_tag, version };
        // A server that ignores the condition, of the same version.
        if is_conditional && known == Some(&version) {
            return Ok(None);
        }
        let too_large = || BundleStoreError::TooLarge { key: key.to_string(), most, version: version.clone() };
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
        Ok(Some((read.freeze(), version)))
    }

    /// Whether an object has this length and this hash; an object that is missing has not. Its bytes go `into` a file, if
    /// there is one.
    pub(crate) async fn matches<E: From<BundleStoreError> + From<io::Error>>(
        &self,
        key: &ObjectKey,
        known: FileHash,
        mut into: Option<File>,
    ) -> Result<bool, E> {
        let mut download = match self.download(key, 0, known.bytes).await {
            Err(BundleStoreError::Missing(_)) => return Ok(false),
            download => download?,
        };
        let (mut hasher, mut read) = (blake3::Hasher::new(), 0);
        while let Some(piece) = download.next().await? {
            read += piece.len() as u64;
            if read > known.bytes {
                return Ok(false);
            }
            hasher.update(&piece);
            if let Some(mut file) = into.take() {
                into = Some(blocking(move || file.write_all(&piece).map(|()| file)).await?);
            }
        }
        Ok(known == FileHash { bytes: read, blake3: hasher.finalize().into() })
    }

    /// Reads an object from the byte `from` on, as a stream. `bytes`: its length, if the object store does not say it.
    pub(crate) async fn download(&self, key: &ObjectKey, from: u64, bytes: u64) -> Result<Download, BundleStoreError> {
        let range = (from > 0).then_some(GetRange::Offset(from));
        let options = GetOptions { range, ..expecting(bytes) };
        let answer = self.within(key, CALL, self.get(key, options)).await?;
        Ok(self.downloading(key, answer))
    }

    /// Begins to read an object. In a directory only a file: a FIFO would hold its thread until somebody writes to it.
    async fn get(&self, key: &ObjectKey, options: GetOptions) -> object_store::Result<GetResult> {
        if let Some(path) = self.directory.as_ref().map(|directory| directory.join(key.to_string())) {
            let looking = blocking(move || fs::metadata(path));
            if looking.await.is_ok_and(|meta| !meta.is_file()) {
                let source = format!("{key} is not a regular file; remove it").into();
                return Err(object_store::Error::Generic { store: "LocalFileSystem", source });
            }
        }
        self.store.get_opts(&self.path(key), options).await
    }

    fn downloading(&self, key: &ObjectKey, answer: GetResult) -> Download {
        let (bytes, pieces) = (answer.meta.size, answer.into_stream());
        Download { bytes, key: key.to_string(), pieces, period: self.period, pace: Pace::default() }
    }

    /// Writes a small object. [`BundleStoreError::Changed`]: the condition of `mode` does not hold.
    /// [`BundleStoreError::Unsupported`]: the object store has no such condition.
    pub(crate) async fn write(
        &self,
        key: &ObjectKey,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<UpdateVersion, BundleStoreError> {
        let path = self.path(key);
        // Journals can be some MiB: a second more for each 64 KiB.
        let limit = CALL + Duration::from_secs(bytes.len() as u64 >> 16);
        if self.directory.is_some() {
            let is_new = match mode {
                PutMode::Overwrite => false,
                PutMode::Create => true,
                PutMode::Update(_) => {
                    return Err(BundleStoreError::Unsupported("a directory has no conditions".to_owned()));
                }
            };
            self.file(key, limit, io::Cursor::new(bytes), is_new).await?;
            let written = self.within(key, CALL, self.store.head(&path)).await?;
            return Ok(UpdateVersion { e_tag: written.e_tag, version: None });
        }
        let put = self.store.put_opts(&path, PutPayload::from_bytes(bytes), mode.into());
        let written = self.within(key, limit, put).await?;
        Ok(written.into())
    }

    /// Writes the first `bytes` bytes of a file, from its current position, in parts. The object shows when it is whole.
    pub(crate) async fn write_file(&self, key: &ObjectKey, mut file: File, bytes: u64) -> Result<(), BundleStoreError> {
        if self.directory.is_some() {
            // A second more for each MiB.
            let limit = PART_TIME + Duration::from_secs(bytes >> 20);
            return self.file(key, limit, file.take(bytes), false).await;
        }
        let path = self.path(key);
        if bytes <= PART {
            let (_, whole) = piece(file, bytes).await?;
            let put = self.store.put_opts(&path, whole, PutMode::Overwrite.into());
            return self.within(key, PART_TIME, put).await.map(drop);
        }
        let mut upload = self.within(key, CALL, self.store.put_multipart(&path)).await?;
        let size = PART.max(bytes.div_ceil(MOST_PARTS));
        let mut left = bytes;
        let written = async {
            while left > 0 {
                let (again, part) = piece(file, left.min(size)).await?;
                file = again;
                left -= left.min(size);
                self.within(key, PART_TIME, upload.put_part(part)).await?;
            }
            self.within(key, PART_TIME, upload.complete()).await.map(drop)
        };
        let written = written.await;
        if written.is_err() {
            // Stored parts cost money. If the object store does not answer, they stay there.
            let _ = self.within(key, CALL, upload.abort()).await;
        }
        written
    }

    /// Writes an object of a store of files. `is_new`: fails if there is one of that name.
    async fn file(
        &self,
        key: &ObjectKey,
        limit: Duration,
        from: impl io::Read + Send + 'static,
        is_new: bool,
    ) -> Result<(), BundleStoreError> {
        let path = self.directory.as_ref().map(|directory| directory.join(key.to_string())).unwrap_or_default();
        let shown = path.display().to_string();
        // The thread goes on after the limit, so an object may come late. A head that does so is an older one for the next
        // look, and the publisher replaces it.
        let written = timeout(limit, blocking(move || files::write(&path, from, is_new))).await;
        written.map_err(|_elapsed| BundleStoreError::slow(&key.to_string(), limit))?.map_err(|source| {
            let error = match source.kind() {
                io::ErrorKind::AlreadyExists => {
                    object_store::Error::AlreadyExists { path: shown, source: Box::new(source) }
                }
                _ => object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(source) },
            };
            BundleStoreError::of(&key.to_string(), &error)
        })
    }

    /// Removes the unfinished files, older than this, that a killed publisher leaves in a directory, and lets others
    /// read what an earlier version wrote. Blocks.
    ///
    /// An object is written to `<name>#<number>` first, and no list shows that. Other object stores have parts of
    /// large objects instead, which rules of the bucket remove.
    pub(crate) fn sweep(&self, older: Duration) -> Result<(), BundleStoreError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        for below in DIRECTORIES {
            // It is made with its first object.
            let Ok(entries) = fs::read_dir(directory.join(below)) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                if is_object(below, &name.to_string_lossy()) {
                    files::open_to_others(&entry.path(), 0o044);
                }
                let modified = entry.metadata().and_then(|meta| meta.modified()).ok();
                let age = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
                let is_old = age.is_some_and(|age| age > older);
                if is_old && is_unfinished(below, &name.to_string_lossy()) {
                    fs::remove_file(entry.path()).map_err(|error| BundleStoreError::Failed(error.to_string()))?;
                }
            }
        }
        Ok(())
    }

    /// Waits for an answer of the object store, at most so long.
    async fn within<T>(
        &self,
        key: &ObjectKey,
        limit: Duration,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, BundleStoreError> {
        let answer = timeout(limit, call).await.map_err(|_elapsed| BundleStoreError::slow(&key.to_string(), limit))?;
        answer.map_err(|error| BundleStoreError::of(&key.to_string(), &error))
    }
}

fn expecting(bytes: u64) -> GetOptions {
    let mut options = GetOptions::default();
    options.extensions.insert(Expected(bytes));
    options
}

fn is_unfinished(below: &str, name: &str) -> bool {
    let Some((name, number)) = name.rsplit_once('#') else { return false };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && is_object(below, name)
}

/// Whether a file is one of our objects.
fn is_object(below: &str, name: &str) -> bool {
    PathBuf::from(below).join(name).to_str().is_some_and(|key| ObjectKey::parse(key).is_some())
}

/// The next bytes of a file, and the file again.
async fn piece(mut file: File, bytes: u64) -> Result<(File, PutPayload), BundleStoreError> {
    let read = blocking(move || {
        let mut piece = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        file.read_exact(&mut piece).map(|()| (file, PutPayload::from(piece)))
    });
    Ok(read.await?)
}
