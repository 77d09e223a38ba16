//! Repair of a damaged file: a new one with everything that can still be read takes its place.
//!
//! The rest is lost here, and the mirror fetches it again. The first damaged file that a process replaces stays under
//! another name. There is always a file under the store's own name. Only damage counts as loss; any other failure ends
//! the repair, and the damaged file stays in place. It does not decide when to repair. Callers: [`crate::server`],
//! [`crate::data::snapshots`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redb::{Key, ReadableTable, TableDefinition, WriteTransaction};

use super::data_dir::{DataDir, Lock};
use super::database::Sealed;
use super::error::{Fault, StoreError};
use super::handle::Handle;
use super::record::{self, SnapshotRecord};
use super::{Store, block, coding, copies, database, details, files, positions, state};
use crate::data::snapshot::content::Content;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::words::counted;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healed {
    /// The damaged file's new path; `None` if one that this process set aside before is kept instead.
    pub aside: Option<PathBuf>,
    pub snapshots: usize,
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
    files::remove(&unfinished)?;
    let kept = fs::hard_link(path, &unfinished)
        .or_else(|_| copy_bytes(path, &unfinished))
        .and_then(|()| fs::rename(&unfinished, aside));
    // If both names are of the same file, a rename does nothing, and both names stay.
    files::remove(&unfinished).and(kept)
}

fn copy_bytes(path: &Path, new: &Path) -> io::Result<()> {
    let mut copy = files::create_new(new)?;
    io::copy(&mut files::read(path)?, &mut copy)?;
    // The repair takes the name of the damaged file away: from then on this copy is the only one.
    copy.sync_all()
}

fn put_in_place(path: &Path, lock: &Lock) -> Result<Option<PathBuf>, StoreError> {
    let io = |error| StoreError::of_io(&error, path, 0);
    let aside = files::aside_of(path);
    // The first damaged file of this run has the most data. Relaxed: repairs exclude each other (`publishing`), or come
    // before the store is open.
    let first = !lock.set_aside.load(Ordering::Relaxed);
    if first {
        // First the second name, then the exchange: after a crash between, both names are of the damaged file, and the next
        // start repairs it.
        keep_aside(path, &aside).map_err(io)?;
    }
    // It syncs the directory, and with it the name of the file that was set aside.
    files::put_in_place(path).map_err(io)?;
    lock.set_aside.store(true, Ordering::Relaxed);
    Ok(first.then_some(aside))
}

/// Repairs a file that cannot be opened as a store. If the repair fails, the damaged file is still in place.
pub fn salvage(dir: &DataDir) -> Result<Healed, StoreError> {
    let (path, lock) = (dir.store_file(), dir.lock());
    let fresh = files::unfinished(&path);
    let healed = copy(&path, &fresh, &lock, None)
        .and_then(|(snapshots, details)| Ok(Healed { aside: put_in_place(&path, &lock)?, snapshots, details }));
    healed.inspect_err(|_| drop(fs::remove_file(&fresh)))
}

impl Store {
    /// Copies everything readable into a new file, which replaces the damaged one. `current` is the current snapshot
    /// in memory, with its sequence number: it is written to the new file if it cannot be copied from the damaged one.
    ///
    /// Writes wait until it is done, reads only during the exchange of the files. If the repair fails, the damaged
    /// file is still in place.
    pub fn heal(&self, current: Option<(u64, &Content, &SnapshotMeta)>) -> Result<Healed, StoreError> {
        let _publishing = self.publishing.lock();
        let healed = self.handle.replace(
            true,
            |fresh| copy(self.path(), fresh, &self.lock, current),
            |(snapshots, details)| {
                let aside = put_in_place(self.path(), &self.lock)?;
                // Its details have other places.
                self.begin_another_epoch();
                Ok(Healed { aside, snapshots, details })
            },
        )?;
        self.handle.trouble().repaired();
        Ok(healed)
    }
}

fn copy(
    path: &Path,
    fresh: &Path,
    lock: &Arc<Lock>,
    current: Option<(u64, &Content, &SnapshotMeta)>,
) -> Result<(usize, usize), StoreError> {
    database::create(fresh).map_err(|fault| fault.into_store_error(fresh, 1 << 20))?;
    let target = Handle::open(fresh.to_owned(), Box::new(database::open))?;
    let target = Store::new(target, Arc::clone(lock));
    let mut saved = (0, 0);
    // A file too damaged to be opened has nothing to give.
    let source = Handle::open(path.to_owned(), Box::new(database::open_untouched));
    if let Some(source) = unless_lost(source)? {
        let needed = fs::metadata(path).map_or(1 << 20, |file| file.len());
        saved = target.handle.write(needed, |to| {
            let whole = copy_snapshots(&source, to)?;
            copy_copies(&source, to)?;
            copy_state(&source, to, &whole)?;
            let details = copy_details(&source, to)?;
            positions::begin_epoch(to, target.epoch())?;
            Ok((whole.len(), details))
        })?;
    }
    if let Some((seq, content, meta)) = current
        && target.snapshot(seq)?.is_none()
    {
        // Under the number that it has in memory, by which a rollback and the mirror name it. In three transactions:
        // the file has not its name yet, so a crash between them leaves the damaged one.
        let next = target.handle.read(|t| record::number(&t.open_table(database::META)?, database::META_NEXT))?;
        target.handle.write(64, |to| record::set_number(to, database::META_NEXT, seq))?;
        let written = target.publish(content, meta)?;
        let next = next.max(written.seq + 1);
        target.handle.write(64, |to| record::set_number(to, database::META_NEXT, next))?;
        saved.0 += 1;
    }
    Ok(saved)
}

/// `None` for damage. Other failures are errors, because the data may be intact.
fn unless_lost<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Damaged(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Every reachable entry of a table.
fn reachable<K: Key + 'static, O: Ord>(
    source: &Handle,
    table: TableDefinition<'static, K, Sealed>,
    own: impl for<'k> Fn(K::SelfType<'k>) -> O,
) -> Result<BTreeMap<O, Vec<u8>>, StoreError> {
    let mut found = BTreeMap::new();
    source.reach(table, &mut |key, value| drop(found.insert(own(key), value.to_vec())))?;
    Ok(found)
}

/// One value of a table, unless it is lost.
fn value<K: Key + 'static>(
    source: &Handle,
    table: TableDefinition<'static, K, Sealed>,
    key: &K::SelfType<'_>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let read = source.read(|transaction| Ok(transaction.open_table(table)?.get(key)?.map(|it| it.value().to_vec())));
    Ok(unless_lost(read)?.flatten())
}

impl Store {
    /// The kept snapshots, oldest first; those that cannot be read are left out, and the damage is noted.
    pub fn snapshots(&self) -> Result<Vec<(SnapshotRecord, SnapshotMeta)>, StoreError> {
        let mut left = Vec::new();
        for (seq, sealed) in reachable(&self.handle, database::SNAPSHOTS, |seq| seq)? {
            let meta = value(&self.handle, database::VERSION_META, &seq)?;
            let meta = meta.ok_or_else(|| coding::damaged("version_meta", "sequence number"));
            let read =
                SnapshotRecord::decode(seq, &sealed).and_then(|record| Ok((record, record::decode_meta(seq, &meta?)?)));
            match read {
                Ok(read) => left.push(read),
                Err(error) => tracing::error!(error = %self.handle.noted(error), "a kept snapshot cannot be listed"),
            }
        }
        Ok(left)
    }
}

/// Copies the snapshots that have all their blocks, and returns their sequence numbers.
fn copy_snapshots(source: &Handle, to: &WriteTransaction) -> Result<Vec<u64>, Fault> {
    let number = |name| unless_lost(source.read(|t| record::number(&t.open_table(database::META)?, name)));
    let (mut records, mut metas) = (to.open_table(database::SNAPSHOTS)?, to.open_table(database::VERSION_META)?);
    let (mut whole, mut last) = (Vec::new(), 0);
    for (seq, sealed) in reachable(source, database::SNAPSHOTS, |key| key)? {
        last = last.max(seq);
        let Ok(record) = SnapshotRecord::decode(seq, &sealed) else { continue };
        let Some(meta) = value(source, database::VERSION_META, &seq)? else { continue };
        if record::decode_meta(seq, &meta).is_ok() && copy_blocks(source, to, &record)? {
            records.insert(seq, sealed.as_slice())?;
            metas.insert(seq, meta.as_slice())?;
            whole.push(seq);
        }
    }
    let newest = whole.last().copied().unwrap_or(0);
    let current = number(database::META_CURRENT)?.filter(|seq| whole.contains(seq)).unwrap_or(newest);
    record::set_number(to, database::META_CURRENT, current)?;
    record::set_number(to, database::META_NEXT, number(database::META_NEXT)?.unwrap_or(1).max(last + 1))?;
    Ok(whole)
}

/// Copies the blocks of a snapshot if all are whole.
fn copy_blocks(source: &Handle, to: &WriteTransaction, record: &SnapshotRecord) -> Result<bool, Fault> {
    let mut copied = to.open_table(database::BLOCKS)?;
    let mut blocks = Vec::new();
    for key in record.block_keys() {
        if copied.get(key.as_bytes())?.is_some() {
            continue;
        }
        let packed = value(source, database::BLOCKS, &key.as_bytes())?;
        let Some(packed) = packed.filter(|packed| block::open(&key, packed).is_ok()) else { return Ok(false) };
        blocks.push((key, packed));
    }
    for (key, packed) in &blocks {
        copied.insert(key.as_bytes(), packed.as_slice())?;
    }
    Ok(true)
}

fn copy_details(source: &Handle, to: &WriteTransaction) -> Result<usize, Fault> {
    let mut writer = details::Writer::open(to)?;
    let mut copied = 0;
    for (place, meta) in reachable(source, database::DETAIL_META, |key| key)? {
        if let Ok((id, meta)) = details::split(&meta)
            && let Some(body) = value(source, database::DETAILS, &place)?
            && is_whole(details::META, &id.0.to_le_bytes(), meta)
            && is_whole(details::BODY, &id.0.to_le_bytes(), &body)
        {
            writer.put(id, None, meta, &body)?;
            copied += 1;
        }
    }
    Ok(copied)
}

fn copy_copies(source: &Handle, to: &WriteTransaction) -> Result<(), Fault> {
    let (mut metas, mut bodies) = (to.open_table(database::COPY_META)?, to.open_table(database::COPY_BODY)?);
    for (key, meta) in reachable(source, database::COPY_META, |key| String::from(key))? {
        if let Some(body) = value(source, database::COPY_BODY, &key.as_str())?
            && is_whole(copies::META, key.as_bytes(), &meta)
            && is_whole(copies::BODY, key.as_bytes(), &body)
        {
            metas.insert(key.as_str(), meta.as_slice())?;
            bodies.insert(key.as_str(), body.as_slice())?;
        }
    }
    Ok(())
}

/// Copies the blobs, but for those of snapshots that are lost, and of places: details have others now.
fn copy_state(source: &Handle, to: &WriteTransaction, whole: &[u64]) -> Result<(), Fault> {
    let mut states = to.open_table(database::STATE)?;
    for (key, sealed) in reachable(source, database::STATE, |key| String::from(key))? {
        let is_of_lost = state::evidence_version(&key).is_some_and(|seq| !whole.contains(&seq));
        if !is_of_lost && !positions::is_of_places(&key) && is_whole(state::TABLE, key.as_bytes(), &sealed) {
            states.insert(key.as_str(), sealed.as_slice())?;
        }
    }
    Ok(())
}

fn is_whole(table: &str, key: &[u8], sealed: &[u8]) -> bool {
    coding::unseal(table, key, sealed).is_ok()
}
