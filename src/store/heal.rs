//! Replaces a damaged file by a new one with everything that can still be read.
//!
//! The rest is lost here, and the mirror fetches it again. The first damaged file that a process replaces stays under
//! another name. There is always a file under the store's own name. Only damage counts as loss; any other failure ends
//! the repair, and the damaged file stays in place. It does not decide when to repair. Callers: [`crate::app`],
//! [`crate::snapshots`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{ReadableTable, TableDefinition};

use super::coding;
use super::data_dir::{DataDir, Lock};
use super::error::StoreError;
use super::files;
use super::handle::Handle;
use super::record::{self, SnapshotRecord};
use super::tables;
use super::{Store, block, details, evidence, opening, placed};
use crate::api::listing::ListingId;
use crate::snapshot::content::Content;
use crate::snapshot::meta::SnapshotMeta;
use crate::words::counted;

/// Approximate bytes per transaction.
const BATCH: usize = 8 << 20;

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healed {
    /// The damaged file's new path; `None` if one that this process set aside before is kept instead.
    pub aside: Option<PathBuf>,
    /// Kept snapshots that were saved.
    pub snapshots: usize,
    /// Details that were saved.
    pub details: usize,
}

impl Healed {
    /// The result, for people.
    pub fn text(&self, path: &Path, detail: &str) -> String {
        let Self { aside, snapshots, details } = self;
        let path = path.display();
        let kept = aside.as_ref().map_or_else(
            || "an earlier damaged file is kept".to_owned(),
            |aside| format!("the damaged file is kept as {}", aside.display()),
        );
        let (snapshots, details) = (counted(*snapshots as u64, "snapshot"), counted(*details as u64, "detail"));
        let whole = format!("{snapshots} and {details} were saved; the rest must be fetched or imported again");
        format!("the store {path} was damaged ({detail}); {kept}; {whole}")
    }
}

/// Gives a file a second name. It replaces the file that an earlier process set aside, to save disk space.
fn keep_aside(path: &Path, aside: &Path) -> io::Result<()> {
    let mut unfinished = aside.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let gone =
        |removed: io::Result<()>| removed.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) });
    gone(fs::remove_file(&unfinished))?;
    let kept = fs::hard_link(path, &unfinished)
        .or_else(|_| copy_bytes(path, &unfinished))
        .and_then(|()| fs::rename(&unfinished, aside));
    // If both names are of the same file, a rename does nothing, and both names stay.
    gone(fs::remove_file(&unfinished)).and(kept)
}

fn copy_bytes(path: &Path, new: &Path) -> io::Result<()> {
    let mut copy = files::create_new(new)?;
    io::copy(&mut files::read(path)?, &mut copy)?;
    copy.sync_all()
}

/// Puts the repaired file in place.
fn put_in_place(fresh: &Path, path: &Path, lock: &Lock) -> Result<Option<PathBuf>, StoreError> {
    let io = |error| StoreError::of_io(error, path, 0);
    let aside = files::aside_of(path);
    // The first damaged file of this run has the most data.
    let first = !lock.has_set_aside();
    if first {
        keep_aside(path, &aside).map_err(io)?;
    }
    opening::put_in_place(fresh, path).map_err(io)?;
    lock.set_aside();
    Ok(first.then_some(aside))
}

/// Repairs a file that cannot be opened as a store.
///
/// # Errors
/// When the new file cannot be written, or the damaged one cannot be read for another reason than damage. Then the
/// damaged file is still in place.
pub fn salvage(dir: &DataDir) -> Result<Healed, StoreError> {
    let (path, lock) = (dir.store_file(), dir.lock());
    let fresh = path.with_extension("new");
    let healed = copy(&path, &fresh, &lock, None)
        .and_then(|(snapshots, details)| Ok(Healed { aside: put_in_place(&fresh, &path, &lock)?, snapshots, details }));
    healed.inspect_err(|_| drop(fs::remove_file(&fresh)))
}

/// Earlier versions of the program replaced the file with two renames. If one of them was stopped between the two, the
/// store is missing: it is repaired from the file that was set aside. The unfinished replacement may be incomplete and
/// is not used.
pub(super) fn finish_interrupted(dir: &DataDir) -> Result<(), StoreError> {
    let path = dir.store_file();
    let (aside, fresh) = (files::aside_of(&path), path.with_extension("new"));
    if fs::symlink_metadata(&path).is_ok() || !files::is_file(&aside) {
        return Ok(());
    }
    let (path_told, aside_told) = (path.display(), aside.display());
    if !files::is_file(&fresh) {
        tracing::warn!("{path_told} is missing, and only the damaged {aside_told} is here; the store starts empty");
        return Ok(());
    }
    let copied = copy(&aside, &fresh, &dir.lock(), None).and_then(|copied| {
        opening::put_in_place(&fresh, &path).map_err(|error| StoreError::of_io(error, &path, 0))?;
        Ok(copied)
    });
    let (snapshots, details) = copied?;
    tracing::error!(
        "{path_told} was missing; {} and {} were taken from the damaged {aside_told}",
        counted(snapshots as u64, "snapshot"),
        counted(details as u64, "detail")
    );
    Ok(())
}

impl Store {
    /// Copies everything readable into a new file, which replaces the damaged one. `current` is the current snapshot
    /// in memory, with its sequence number: it is written to the new file if it cannot be copied from the damaged one.
    ///
    /// Writes wait until it is done, reads only during the exchange of the files.
    ///
    /// # Errors
    /// When the new file cannot be written, or the damaged one cannot be read for another reason than damage. Then the
    /// damaged file is still in place.
    pub fn heal(&self, current: Option<(u64, &Content, &SnapshotMeta)>) -> Result<Healed, StoreError> {
        let _publishing = self.publishing.lock();
        let path = self.path();
        let fresh = path.with_extension("new");
        let healed = self.handle.replacing(
            || copy(path, &fresh, &self.lock, current),
            |(snapshots, details)| Ok(Healed { aside: put_in_place(&fresh, path, &self.lock)?, snapshots, details }),
        );
        healed.inspect_err(|_| drop(fs::remove_file(&fresh)))
    }
}

fn copy(
    path: &Path,
    fresh: &Path,
    lock: &Arc<Lock>,
    current: Option<(u64, &Content, &SnapshotMeta)>,
) -> Result<(usize, usize), StoreError> {
    opening::create_as(fresh).map_err(|fault| fault.into_store_error(fresh, 1 << 20))?;
    let target = Handle::open(fresh.to_owned(), Box::new(opening::database)).map_err(StoreError::of_open)?;
    let target = Store::new(target, Arc::clone(lock));
    let (mut snapshots, mut details) = (0, 0);
    // A file too damaged to be opened has nothing to give.
    let source = Handle::open(path.to_owned(), Box::new(opening::untouched)).map_err(StoreError::of_open);
    if let Some(source) = unless_lost(source)? {
        snapshots = copy_snapshots(&source, &target)?;
        details = copy_details(&source, &target)?;
        copy_copies(&source, &target)?;
        copy_state(&source, &target)?;
    }
    if let Some((seq, content, meta)) = current
        && !target.snapshots()?.iter().any(|(record, _)| record.seq == seq)
    {
        let next = target.handle.read(|t| record::number(&t.open_table(tables::META)?, tables::META_NEXT))?;
        target.set_number(tables::META_NEXT, seq)?;
        let written = target.publish(content, meta)?;
        target.set_number(tables::META_NEXT, next.max(written.seq + 1))?;
        snapshots += 1;
    }
    Ok((snapshots, details))
}

/// `None` for damage. Other failures are errors, because the data may be intact.
fn unless_lost<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Damaged(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Every reachable entry of a table: from its front and, if that ends at a damaged page, from its back.
macro_rules! reachable {
    ($source:expr, $table:expr, $own:expr) => {{
        let found = RefCell::new(BTreeMap::new());
        let walk = |back: bool| {
            $source.read(|transaction| {
                let table = transaction.open_table($table)?;
                let mut entries = table.iter()?;
                while let Some(entry) = if back { entries.next_back() } else { entries.next() } {
                    let (key, value) = entry?;
                    found.borrow_mut().insert($own(key.value()), value.value().to_vec());
                }
                Ok(())
            })
        };
        if unless_lost(walk(false))?.is_none() {
            // Entries that cannot be reached from either end are lost.
            unless_lost(walk(true))?;
        }
        found.into_inner()
    }};
}

/// One value of a table, unless it is lost.
macro_rules! value {
    ($source:expr, $table:expr, $key:expr) => {
        unless_lost(
            $source
                .read(|transaction| Ok(transaction.open_table($table)?.get($key)?.map(|value| value.value().to_vec()))),
        )
        .map(Option::flatten)
    };
}

impl Store {
    /// The readable ones of the kept snapshots, oldest first.
    ///
    /// # Errors
    /// When the file cannot be read for another reason than its damage.
    pub fn snapshots_left(&self) -> Result<Vec<(SnapshotRecord, SnapshotMeta)>, StoreError> {
        let records: BTreeMap<u64, Vec<u8>> = reachable!(self.handle, tables::SNAPSHOTS, |seq: u64| seq);
        let mut left = Vec::new();
        for (seq, sealed) in records {
            let Ok(record) = SnapshotRecord::decode(seq, &sealed) else { continue };
            let meta = value!(self.handle, tables::VERSION_META, seq)?;
            left.extend(meta.and_then(|meta| record::decode_meta(seq, &meta).ok()).map(|meta| (record, meta)));
        }
        Ok(left)
    }

    fn set_number(&self, name: &'static str, number: u64) -> Result<(), StoreError> {
        self.handle.write(64, |transaction| {
            let sealed = coding::seal_number(name, number);
            transaction.open_table(tables::META)?.insert(name, sealed.as_slice())?;
            Ok(())
        })
    }
}

fn copy_snapshots(source: &Handle, target: &Store) -> Result<usize, StoreError> {
    let records: BTreeMap<u64, Vec<u8>> = reachable!(source, tables::SNAPSHOTS, |seq: u64| seq);
    let number = |name| unless_lost(source.read(|t| record::number(&t.open_table(tables::META)?, name)));
    let (mut whole, mut last) = (Vec::new(), 0);
    for (seq, sealed) in records {
        last = last.max(seq);
        let Ok(record) = SnapshotRecord::decode(seq, &sealed) else { continue };
        let Some(meta) = value!(source, tables::VERSION_META, seq)? else { continue };
        if record::decode_meta(seq, &meta).is_err() {
            continue;
        }
        let Some(blocks) = whole_blocks(source, &record)? else { continue };
        let needed = blocks.iter().map(|(_, packed)| packed.len() as u64).sum::<u64>() * 5 / 4 + (1 << 20);
        target.handle.write(needed, |transaction| {
            transaction.open_table(tables::SNAPSHOTS)?.insert(seq, sealed.as_slice())?;
            transaction.open_table(tables::VERSION_META)?.insert(seq, meta.as_slice())?;
            let mut table = transaction.open_table(tables::BLOCKS)?;
            for (key, packed) in &blocks {
                table.insert(key, packed.as_slice())?;
            }
            Ok(())
        })?;
        whole.push(seq);
    }
    let newest = whole.last().copied().unwrap_or(0);
    let current = number(tables::META_CURRENT)?.filter(|seq| whole.contains(seq)).unwrap_or(newest);
    target.set_number(tables::META_CURRENT, current)?;
    target.set_number(tables::META_NEXT, number(tables::META_NEXT)?.unwrap_or(1).max(last + 1))?;
    Ok(whole.len())
}

/// Blocks by key, as they are stored.
type Packed = Vec<([u8; 16], Vec<u8>)>;

/// The blocks of a snapshot, still compressed; `None` when one is lost.
fn whole_blocks(source: &Handle, record: &SnapshotRecord) -> Result<Option<Packed>, StoreError> {
    let mut blocks = Vec::new();
    for key in record.block_keys() {
        let Some(packed) = value!(source, tables::BLOCKS, key.as_bytes())? else { return Ok(None) };
        if block::open(&key, &packed).is_err() {
            return Ok(None);
        }
        blocks.push((*key.as_bytes(), packed));
    }
    Ok(Some(blocks))
}

/// Copies the details, whatever the format of the file: it has the tables of one format only.
fn copy_details(source: &Handle, target: &Store) -> Result<usize, StoreError> {
    let by_id = copy_details_of(source, target, (tables::DETAIL_META_1, tables::DETAILS_1), |id, meta| {
        Ok((ListingId(id), meta))
    })?;
    let by_place =
        copy_details_of(source, target, (tables::DETAIL_META, tables::DETAILS), |_, value| placed::split(value))?;
    Ok(by_id + by_place)
}

type Details = TableDefinition<'static, u64, tables::Sealed>;
/// The id and the encoded metadata of a key and a value.
type Split = fn(u64, &[u8]) -> Result<(ListingId, &[u8]), StoreError>;

fn copy_details_of(
    source: &Handle,
    target: &Store,
    (metas, bodies): (Details, Details),
    split: Split,
) -> Result<usize, StoreError> {
    let metas: BTreeMap<u64, Vec<u8>> = reachable!(source, metas, |key: u64| key);
    let mut copied = 0;
    let mut batch = Vec::new();
    let mut entries = metas.into_iter().peekable();
    while let Some((key, meta)) = entries.next() {
        if let Ok((id, meta)) = split(key, &meta)
            && let Some(body) = value!(source, bodies, key)?
            && coding::unseal(details::BODY, &id.0.to_le_bytes(), &body).is_ok()
            && coding::unseal(details::META, &id.0.to_le_bytes(), meta).is_ok()
        {
            batch.push((id, meta.to_vec(), body));
        }
        let bytes: usize = batch.iter().map(|(_, meta, body): &(_, Vec<u8>, Vec<u8>)| meta.len() + body.len()).sum();
        if bytes < BATCH && batch.len() < 1000 && entries.peek().is_some() {
            continue;
        }
        target.handle.write(bytes as u64 * 2, |transaction| {
            let mut writer = placed::Writer::open(transaction)?;
            batch.iter().try_for_each(|(id, meta, body)| writer.put(*id, meta, body))
        })?;
        copied += batch.len();
        batch.clear();
    }
    Ok(copied)
}

fn copy_copies(source: &Handle, target: &Store) -> Result<(), StoreError> {
    let metas: BTreeMap<String, Vec<u8>> = reachable!(source, tables::COPY_META, str::to_owned);
    for (key, meta) in metas {
        let Some(body) = value!(source, tables::COPY_BODY, key.as_str())? else { continue };
        let sealed = |table, value: &[u8]| coding::unseal(table, key.as_bytes(), value).is_ok();
        if sealed("copy_meta", &meta) && sealed("copy_body", &body) {
            let needed = (meta.len() + body.len()) as u64 * 2;
            target.handle.write(needed, |transaction| {
                transaction.open_table(tables::COPY_META)?.insert(key.as_str(), meta.as_slice())?;
                transaction.open_table(tables::COPY_BODY)?.insert(key.as_str(), body.as_slice())?;
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn copy_state(source: &Handle, target: &Store) -> Result<(), StoreError> {
    let states: BTreeMap<String, Vec<u8>> = reachable!(source, tables::STATE, str::to_owned);
    let kept = target.snapshots()?;
    let is_lost =
        |key: &str| evidence::version_of(key).is_some_and(|seq| kept.iter().all(|(record, _)| record.seq != seq));
    for (key, sealed) in states.into_iter().filter(|(key, _)| !is_lost(key)) {
        if coding::unseal("state", key.as_bytes(), &sealed).is_ok() {
            target.handle.write(sealed.len() as u64, |transaction| {
                transaction.open_table(tables::STATE)?.insert(key.as_str(), sealed.as_slice())?;
                Ok(())
            })?;
        }
    }
    Ok(())
}
