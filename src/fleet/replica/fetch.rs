//! Fetches objects of a head: into files of the data directory, resumed after an interruption, and verified.
//!
//! A file has the hash of its object in its name, so that the next process can continue an unfinished download. An
//! object is used only if it has the hash that the head names. Callers: [`super::Follower`].

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::status::{Download, ReplicaStatus};
use crate::bundle::{Bundle, BundleError};
use crate::fleet::head::{NamedBundle, NamedJournal};
use crate::fleet::journal::{self, BadJournal};
use crate::fleet::keys::{Digest, Key};
use crate::fleet::place::{Found, Place, PlaceError};
use crate::mirror::commands::Commands;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::journal::Journal;
use crate::snapshot::pointer::SnapshotPointer;
use crate::snapshots::follow::Step;
use crate::store::files;
use crate::tasks::{Aborted, blocking};
use crate::words::counted;

/// The names of unfinished files.
const PREFIX: &str = "follow-";
const END: &str = ".part";

/// A part on its way to the disk is at least this long.
const PIECE: usize = 32 << 10;

/// How often the progress of a long download is logged.
const PROGRESS: Duration = Duration::from_secs(10);

/// Why an object could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The object store fails.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It is not what the head says.
    #[error("{key} in the object store is not what the head names: {why}")]
    Wrong {
        /// The object.
        key: String,
        why: String,
    },
    /// It is larger than `bundle.max_size`.
    #[error("{key} has {bytes} bytes, more than bundle.max_size ({most})")]
    TooLarge {
        /// The object.
        key: String,
        bytes: u64,
        /// The bound.
        most: u64,
    },
    /// The data directory fails.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// Somebody asked for another look at the head.
    #[error("the download was interrupted by a request to refresh")]
    Interrupted,
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

impl FetchError {
    /// Whether the same object will be as bad the next time.
    pub(crate) const fn is_bad_object(&self) -> bool {
        matches!(self, Self::Wrong { .. } | Self::TooLarge { .. } | Self::Place(PlaceError::Missing(_)))
    }
}

/// Fetches objects.
pub(crate) struct Fetcher {
    pub place: Place,
    /// Where files go.
    pub data_dir: PathBuf,
    /// The largest bundle, in bytes.
    pub most: u64,
    /// The newest data here: a bundle shares its equal texts.
    pub newest: SnapshotPointer,
    pub status: ReplicaStatus,
    /// A command interrupts a download, so that a slow one does not hold the replica.
    pub commands: Commands,
}

impl Fetcher {
    /// One bundle, verified: its file, its digest, its snapshot and its base. `before`: the snapshot before it in the
    /// chain; `None`: it is the full bundle. `what`: words for the progress.
    pub(crate) async fn bundle(
        &self,
        named: &NamedBundle,
        before: Option<&SnapshotId>,
        what: &str,
    ) -> Result<Step, FetchError> {
        let key = named.key().to_string();
        if named.bytes > self.most {
            return Err(FetchError::TooLarge { key, bytes: named.bytes, most: self.most });
        }
        let path = self.path(&named.blake3);
        let file = self.file(named, &path, what).await?;
        let (named, before, newest) = (named.clone(), before.cloned(), self.newest.clone());
        let opened = blocking(move || {
            let known = newest.get().map(|newest| newest.dataset.clone());
            let opened = open(&file, &named, before.as_ref(), known.as_deref());
            Ok::<_, FetchError>(opened.map(|bundle| Step { bundle, file }))
        });
        opened.await?.map_err(|why| {
            // The next try begins at the beginning.
            let _ = fs::remove_file(&path);
            FetchError::Wrong { key, why }
        })
    }

    /// The whole file of a bundle, not verified.
    async fn file(&self, named: &NamedBundle, path: &Path, what: &str) -> Result<File, FetchError> {
        let disk = |source| FetchError::Disk { path: path.to_owned(), source };
        let mut file = files::edit_or_create(path).map_err(disk)?;
        let mut here = file.seek(SeekFrom::End(0)).map_err(disk)?;
        if here > named.bytes {
            file.set_len(0).map_err(disk)?;
            here = file.seek(SeekFrom::Start(0)).map_err(disk)?;
        }
        self.status.downloads(Download { what: what.to_owned(), done: here, of: named.bytes });
        if here == named.bytes {
            return Ok(file);
        }
        let key = Key::Bundle(named.key());
        let mut download = match self.place.download(&key, here).await {
            // A server that does not send parts of files.
            Err(PlaceError::Unsupported(_)) if here > 0 => {
                file.set_len(0).map_err(disk)?;
                file.seek(SeekFrom::Start(0)).map_err(disk)?;
                here = 0;
                self.status.downloads(Download { what: what.to_owned(), done: 0, of: named.bytes });
                self.place.download(&key, 0).await?
            }
            other => other?,
        };
        if download.bytes != named.bytes {
            let why = format!("it has {}, not {}", counted(download.bytes, "byte"), named.bytes);
            return Err(FetchError::Wrong { key: key.to_string(), why });
        }
        if here > 0 {
            tracing::info!(%key, from = here, of = named.bytes, "the download goes on where it was interrupted");
        }
        let (mut waiting, mut logged): (Vec<u8>, _) = (Vec::new(), Instant::now());
        loop {
            let piece = tokio::select! {
                piece = download.next() => piece.map_err(FetchError::Place),
                () = self.commands.wait() => Err(FetchError::Interrupted),
            };
            let ended = !matches!(piece, Ok(Some(_)));
            if let Ok(Some(piece)) = &piece {
                waiting.extend_from_slice(piece);
                self.status.received(piece.len() as u64);
            }
            if here + waiting.len() as u64 > named.bytes {
                return Err(FetchError::Wrong { key: key.to_string(), why: "it is longer than it says".to_owned() });
            }
            if waiting.len() >= PIECE || ended {
                let some = std::mem::take(&mut waiting);
                here += some.len() as u64;
                let path = path.to_owned();
                file = blocking(move || {
                    let written = file.write_all(&some).map(|()| file);
                    written.map_err(|source| FetchError::Disk { path, source })
                })
                .await?;
            }
            if logged.elapsed() >= PROGRESS {
                let percent = here.saturating_mul(100) / named.bytes.max(1);
                tracing::info!(%key, bytes = here, of = named.bytes, percent, "downloading from the object store");
                logged = Instant::now();
            }
            // What has arrived before an interruption stays.
            piece?;
            if ended {
                break;
            }
        }
        if here < named.bytes {
            let why = format!("the object store ended {key} after {here} of {}", counted(named.bytes, "byte"));
            return Err(PlaceError::Unreachable(why).into());
        }
        Ok(file)
    }

    /// The publisher's journal, verified.
    pub(crate) async fn journal(&self, named: &NamedJournal, snapshot: &SnapshotId) -> Result<Journal, FetchError> {
        let key = Key::Journal(named.key());
        let wrong = |why: String| FetchError::Wrong { key: key.to_string(), why };
        if named.bytes > journal::MOST_BYTES {
            return Err(wrong(BadJournal::TooLarge.to_string()));
        }
        let Found::Changed(bytes, _) = self.place.read(&key, named.bytes, None).await? else {
            return Err(wrong("there is none".to_owned()));
        };
        self.status.received(bytes.len() as u64);
        let (blake3, snapshot) = (named.blake3, snapshot.clone());
        let read = blocking(move || Ok::<_, FetchError>(read_journal(&bytes, &blake3, &snapshot))).await?;
        read.map_err(wrong)
    }

    /// Removes unfinished files of objects that are not `wanted`.
    pub(crate) fn tidy(&self, wanted: &[Digest]) {
        let wanted: Vec<PathBuf> = wanted.iter().map(|hash| self.path(hash)).collect();
        let entries = fs::read_dir(&self.data_dir).into_iter().flatten().filter_map(Result::ok);
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let hash = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(END));
            hash.is_some_and(|hash| Digest::parse(hash).is_some())
        };
        for path in entries.map(|entry| entry.path()).filter(|path| is_ours(path) && !wanted.contains(path)) {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "an unfinished download could not be removed");
            }
        }
    }

    fn path(&self, hash: &Digest) -> PathBuf {
        self.data_dir.join(format!("{PREFIX}{hash}{END}"))
    }
}

/// Opens a bundle, and compares it with what the head says of it and of the bundle before it.
fn open(
    mut file: &File,
    named: &NamedBundle,
    before: Option<&SnapshotId>,
    known: Option<&Dataset>,
) -> Result<Bundle, String> {
    file.rewind().map_err(|error| error.to_string())?;
    let bundle = Bundle::open_beside(file, known, &mut |_, _| {}).map_err(|error: BundleError| error.to_string())?;
    if Digest::from(bundle.file_hash()) != named.blake3 {
        return Err("its hash is another one".to_owned());
    }
    if Digest::new(*bundle.digest().as_bytes()) != named.digest {
        return Err(format!("its digest is {}", bundle.digest()));
    }
    if bundle.manifest().snapshot != named.snapshot {
        return Err(format!("its snapshot is {}", bundle.manifest().snapshot));
    }
    match (bundle.base(), before) {
        (base, before) if base == before => Ok(bundle),
        (None, _) => Err("it is a full bundle, not a delta".to_owned()),
        (Some(_), None) => Err("it is a delta, not a full bundle".to_owned()),
        (Some(base), Some(before)) => Err(format!("it is a delta of snapshot {base}, not of {before}")),
    }
}

fn read_journal(bytes: &Bytes, blake3: &Digest, snapshot: &SnapshotId) -> Result<Journal, String> {
    if Digest::from(blake3::hash(bytes)) != *blake3 {
        return Err("its hash is another one".to_owned());
    }
    journal::decode(bytes, snapshot).map_err(|error| error.to_string())
}
