//! The store's file: its tables, which are its format, and how it is created, opened and refused.
//!
//! The encodings of values are described by their users. A file is created completely or not at all; opening it finds
//! another format and, without reading all, damage. Callers: the other modules of [`crate::data::store`].

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase, StorageBackend, StorageError,
    TableDefinition, WriteTransaction,
};

use super::backend::{Checked, Overlay};
use super::error::{Fault, StoreError, guarded};
use super::{files, record};

/// The number of the format that this program reads and writes.
pub(crate) const FORMAT: u64 = 2;

/// Bytes, checksummed by [`super::coding::seal`] unless they are a block.
pub(super) type Sealed = &'static [u8];

/// Single numbers by name: [`META_FORMAT`] and those below. This table and the encoding of
/// [`META_FORMAT`] (sealed 8 bytes, little endian) are the same in every format.
pub(super) const META: TableDefinition<'static, &str, Sealed> = TableDefinition::new("meta");
pub(super) const META_FORMAT: &str = "format";
/// Sequence number of the current snapshot; 0 when nothing was published yet.
pub(super) const META_CURRENT: &str = "current";
/// The sequence number that the next snapshot gets, from 1.
pub(super) const META_NEXT: &str = "next";
/// From here on no place was given to a detail when details were last removed; absent before.
pub(super) const META_NEXT_PLACE: &str = "next_place";

/// Compressed blocks by the hash of their content.
pub(super) const BLOCKS: TableDefinition<'static, &[u8; 16], Sealed> = TableDefinition::new("blocks");
/// [`super::SnapshotRecord`]s by sequence number.
pub(super) const SNAPSHOTS: TableDefinition<'static, u64, Sealed> = TableDefinition::new("versions");
/// [`crate::data::snapshot::meta::SnapshotMeta`] as JSON by sequence number.
pub(super) const VERSION_META: TableDefinition<'static, u64, Sealed> = TableDefinition::new("version_meta");

/// [`super::CopyMeta`] by canonical path and query.
pub(super) const COPY_META: TableDefinition<'static, &str, Sealed> = TableDefinition::new("copy_meta");
/// Bodies of copies, compressed, by canonical path and query.
pub(super) const COPY_BODY: TableDefinition<'static, &str, Sealed> = TableDefinition::new("copy_body");

/// The place of each detail by listing id. A detail takes the next place when it arrives, and whenever others see a change;
/// no place is used twice. So new ones share pages, whatever their ids, those that arrived one after the other lie beside
/// each other, and the details by place are the log of their changes.
pub(super) const DETAIL_PLACES: TableDefinition<'static, u64, u64> = TableDefinition::new("detail_places");
/// The listing id (8 bytes, little endian) and [`super::DetailMeta`] by place; without bodies, so that reading all is
/// fast.
pub(super) const DETAIL_META: TableDefinition<'static, u64, Sealed> = TableDefinition::new("placed_detail_meta");
/// Bodies of details by place.
pub(super) const DETAILS: TableDefinition<'static, u64, Sealed> = TableDefinition::new("placed_details");

pub(super) const STATE: TableDefinition<'static, &str, Sealed> = TableDefinition::new("state");

/// What `$look` says of each table, with the value of `$with` beside it.
macro_rules! each_table {
    ($transaction:expr, $look:expr $(, $with:expr)?) => {{
        use $crate::data::store::database;
        [
            $look(&$transaction.open_table(database::META)? $(, $with)?)?,
            $look(&$transaction.open_table(database::BLOCKS)? $(, $with)?)?,
            $look(&$transaction.open_table(database::SNAPSHOTS)? $(, $with)?)?,
            $look(&$transaction.open_table(database::VERSION_META)? $(, $with)?)?,
            $look(&$transaction.open_table(database::COPY_META)? $(, $with)?)?,
            $look(&$transaction.open_table(database::COPY_BODY)? $(, $with)?)?,
            $look(&$transaction.open_table(database::DETAIL_PLACES)? $(, $with)?)?,
            $look(&$transaction.open_table(database::DETAIL_META)? $(, $with)?)?,
            $look(&$transaction.open_table(database::DETAILS)? $(, $with)?)?,
            $look(&$transaction.open_table(database::STATE)? $(, $with)?)?,
        ]
    }};
}
pub(super) use each_table;

/// redb's cache. The snapshot is in memory already, so this is for tree pages and writes only.
const CACHE_BYTES: usize = 32 << 20;

pub(super) fn open(path: &Path) -> Result<Database, DatabaseError> {
    on(FileBackend::new(files::edit(path)?)?)
}

/// The database in an existing file, whose pages are verified when they are read.
pub(super) fn on(file: impl StorageBackend) -> Result<Database, DatabaseError> {
    let file = Checked(file);
    if file.len()? == 0 {
        // redb would create a new database in it.
        return Err(StorageError::Corrupted("the file is empty".to_owned()).into());
    }
    builder().create_with_backend(file)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// A view of an existing file that never writes to it.
pub(super) fn open_untouched(path: &Path) -> Result<Database, DatabaseError> {
    on(Overlay::new(files::read(path)?)?)
}

/// Creates the file if it is missing.
pub(super) fn prepare(path: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // Under another name until it is complete, so an incomplete file with the right name is known to be damaged. Its
            // commit is synced before the rename.
            let created = guarded(|| create(&files::unfinished(path)));
            let created = created.map_err(|fault| fault.into_store_error(path, 1 << 20));
            created.and_then(|()| files::put_in_place(path).map_err(failed(path)))
        }
        Err(error) => Err(StoreError::of_io(&error, path, 0)),
    }
}

/// Creates an empty store with this name, replacing any file.
pub(super) fn create(path: &Path) -> Result<(), Fault> {
    files::remove(path).map_err(failed(path))?;
    fill(path).inspect_err(|_| drop(fs::remove_file(path)))
}

fn fill(path: &Path) -> Result<(), Fault> {
    let file = files::create_new(path).map_err(failed(path))?;
    let database = builder().create_with_backend(Checked(FileBackend::new(file)?))?;
    let transaction = begin_write(&database)?;
    each_table!(transaction, created);
    for (name, number) in [(META_FORMAT, FORMAT), (META_CURRENT, 0), (META_NEXT, 1)] {
        record::set_number(&transaction, name, number)?;
    }
    Ok(transaction.commit()?)
}

/// Opening a table creates it.
#[expect(clippy::unnecessary_wraps, reason = "as what else looks at each table")]
const fn created<T>(_: &T) -> Result<(), Fault> {
    Ok(())
}

fn failed(path: &Path) -> impl Fn(io::Error) -> StoreError {
    |error| StoreError::of_io(&error, path, 1 << 20)
}

/// A transaction that is synced on commit, and after which the file opens without being walked.
pub(super) fn begin_write(database: &Database) -> Result<WriteTransaction, Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// The format number of an open file.
pub(super) fn format_of(transaction: &ReadTransaction) -> Result<u64, Fault> {
    record::number(&transaction.open_table(META)?, META_FORMAT)
}

/// Whether nothing was published into a file yet. `false` if it cannot be read.
pub(super) fn is_empty(path: &Path) -> bool {
    let current = guarded(|| record::number(&open_untouched(path)?.begin_read()?.open_table(META)?, META_CURRENT));
    current.is_ok_and(|current| current == 0)
}

pub(super) fn check_format(found: u64) -> Result<(), StoreError> {
    let refused = match found {
        FORMAT => return Ok(()),
        ..FORMAT => format!(
            "the store has format {found}, and this program opens only format {FORMAT}. Write its data to a bundle with the \
             grandstand version that wrote the store (`grandstand bundle export FILE`), and import it into a new data \
             directory (`grandstand bundle import FILE`)"
        ),
        _ => format!(
            "the store has format {found}, but this program supports only formats up to {FORMAT}; use a newer grandstand"
        ),
    };
    Err(StoreError::Refused(refused))
}

/// Refuses a file of another format without changing a byte. Other problems are found when it is opened.
pub(super) fn refuse_other_format(path: &Path) -> Result<(), StoreError> {
    if !files::is_file(path) {
        return Ok(());
    }
    let found = guarded(|| format_of(&open_untouched(path)?.begin_read()?));
    found.map_or(Ok(()), check_format)
}
