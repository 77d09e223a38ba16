//! Download of the objects of a head: into files of the data directory, resumed after an interruption, and verified.
//!
//! A file has the hash of its object in its name, so that the next process can continue an unfinished download. An
//! object is used only if it has the hash that the head names. Callers: [`super::take`].

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Follower;
use super::decide::FollowError;
use super::status::DownloadProgress;
use crate::api::hash::Digest;
use crate::data::bundle::signature::{Opened, Voucher};
use crate::data::bundle::{Bundle, BundleError, MOST_BYTES};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::journal::Entry;
use crate::data::snapshot::journal::codec::{self, BadJournal};
use crate::data::store::files;
use crate::fleet::bundle_store::BundleStoreError;
use crate::fleet::head::{NamedBundle, NamedJournal};
use crate::tasks::blocking;
use crate::words::counted;

const PREFIX: &str = "follow-";
const END: &str = ".part";

/// A part on its way to the disk is at least this long.
const PIECE: usize = 32 << 10;

/// How often the progress of a long download is logged.
const PROGRESS: Duration = Duration::from_secs(10);

impl Follower {
    /// One bundle, verified: its file, its digest, its snapshot and its base. `before`: the snapshot before it in the
    /// chain; `None`: it is the full bundle. `what`: words for the progress.
    pub(super) async fn bundle(
        &self,
        named: &NamedBundle,
        before: Option<&SnapshotId>,
        what: &str,
    ) -> Result<Opened, FollowError> {
        let key = named.key().to_string();
        if named.bytes > MOST_BYTES {
            let why = format!("it has {} bytes; a bundle may have {MOST_BYTES}", named.bytes);
            return Err(FollowError::Wrong { key, why });
        }
        let path = self.path(&named.blake3);
        let file = self.file(named, &path, what).await?;
        let (named, before, newest) = (named.clone(), before.cloned(), self.snapshots.newest().clone());
        let opened = blocking(move || {
            let known = newest.get().map(|newest| newest.dataset.clone());
            let opened = open(&file, &named, before.as_ref(), known.as_deref());
            Ok::<_, FollowError>(opened.map(|bundle| Opened { bundle, file, voucher: Voucher::Nobody }))
        });
        opened.await?.map_err(|why| {
            // The next try begins at the beginning.
            let _ = fs::remove_file(&path);
            FollowError::Wrong { key, why }
        })
    }

    /// The whole file of a bundle, not verified.
    async fn file(&self, named: &NamedBundle, path: &Path, what: &str) -> Result<File, FollowError> {
        let disk = |source| FollowError::Disk { path: path.to_owned(), source };
        let mut file = files::edit_or_create(path).map_err(disk)?;
        let mut here = file.seek(SeekFrom::End(0)).map_err(disk)?;
        if here > named.bytes {
            file.set_len(0).map_err(disk)?;
            here = file.seek(SeekFrom::Start(0)).map_err(disk)?;
        }
        self.status.lock().downloads(DownloadProgress { what: what.to_owned(), done: here, of: named.bytes });
        if here == named.bytes {
            return Ok(file);
        }
        let key = named.key();
        let mut download = match self.store.download(&key, here, named.bytes).await {
            // A server that sends no parts of files, or wrong ones. What is here stays until the whole file comes.
            Err(BundleStoreError::Unsupported(_) | BundleStoreError::Failed(_)) if here > 0 => {
                let whole = self.store.download(&key, 0, named.bytes).await?;
                file.set_len(0).map_err(disk)?;
                here = file.seek(SeekFrom::Start(0)).map_err(disk)?;
                self.status.lock().downloads(DownloadProgress { what: what.to_owned(), done: 0, of: named.bytes });
                whole
            }
            other => other?,
        };
        if download.bytes != named.bytes {
            let why = format!("it has {}, not {}", counted(download.bytes, "byte"), named.bytes);
            return Err(FollowError::Wrong { key: key.to_string(), why });
        }
        if here > 0 {
            tracing::info!(%key, from = here, of = named.bytes, "the download goes on where it was interrupted");
        }
        let (mut waiting, mut logged): (Vec<u8>, _) = (Vec::new(), Instant::now());
        loop {
            let piece = tokio::select! {
                piece = download.next() => piece.map_err(FollowError::from),
                () = self.commands.wait() => Err(FollowError::Interrupted),
            };
            let ended = !matches!(piece, Ok(Some(_)));
            if let Ok(Some(piece)) = &piece {
                waiting.extend_from_slice(piece);
                self.status.lock().received(piece.len() as u64);
            }
            if here + waiting.len() as u64 > named.bytes {
                return Err(FollowError::Wrong { key: key.to_string(), why: "it is longer than it says".to_owned() });
            }
            if waiting.len() >= PIECE || ended {
                let some = std::mem::take(&mut waiting);
                here += some.len() as u64;
                let path = path.to_owned();
                file = blocking(move || {
                    // Not synced: what a crash alters has another hash, and is fetched again.
                    let written = file.write_all(&some).map(|()| file);
                    written.map_err(|source| FollowError::Disk { path, source })
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
            return Err(BundleStoreError::Unreachable(why).into());
        }
        Ok(file)
    }

    /// The publisher's journal, verified.
    pub(super) async fn journal(&self, named: &NamedJournal, snapshot: &SnapshotId) -> Result<Vec<Entry>, FollowError> {
        let key = named.key();
        let wrong = |why: String| FollowError::Wrong { key: key.to_string(), why };
        if named.bytes > codec::MOST_BYTES {
            return Err(wrong(BadJournal::TooLarge.to_string()));
        }
        let Some((bytes, _)) = self.store.read(&key, named.bytes, None).await? else {
            return Err(wrong("there is none".to_owned()));
        };
        self.status.lock().received(bytes.len() as u64);
        let (blake3, snapshot) = (named.blake3, snapshot.clone());
        let read = blocking(move || Ok::<_, FollowError>(read_journal(&bytes, &blake3, &snapshot))).await?;
        read.map_err(wrong)
    }

    /// Removes unfinished files of objects that are not `wanted`.
    pub(super) fn tidy(&self, wanted: &[Digest]) {
        let wanted: Vec<PathBuf> = wanted.iter().map(|hash| self.path(hash)).collect();
        let entries = fs::read_dir(&self.data_dir).into_iter().flatten().filter_map(Result::ok);
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let hash = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(END));
            hash.is_some_and(|hash| <Digest>::parse(hash).is_some())
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
    if bundle.digest() != named.digest {
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

fn read_journal(bytes: &Bytes, blake3: &Digest, snapshot: &SnapshotId) -> Result<Vec<Entry>, String> {
    if Digest::from(blake3::hash(bytes)) != *blake3 {
        return Err("its hash is another one".to_owned());
    }
    let entries = codec::decode(bytes).map_err(|error| error.to_string())?;
    match entries.last() {
        Some(last) if last.to != *snapshot => Err("the journal ends with another snapshot".to_owned()),
        _ => Ok(entries),
    }
}
