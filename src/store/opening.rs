//! Prepares the store's file: creates it completely or not at all, and checks its format and, without reading all, for
//! damage.
//!
//! Callers: [`super::Store::open`], [`super::data_dir`], [`super::heal`]; [`super::handle`] opens it again.

use std::fs::{self, File};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, Durability, ReadTransaction, StorageBackend, StorageError, WriteTransaction,
};

use super::checked::Checked;
use super::coding;
use super::error::{OpenError, StoreError};
use super::fault::{Fault, guarded};
use super::files;
use super::overlay::Overlay;
use super::tables::{self, FORMAT};

/// redb's cache. The snapshot is in memory already, so this is for tree pages and writes only.
const CACHE_BYTES: usize = 32 << 20;

/// Opens an existing file.
pub(super) fn database(path: &Path) -> Result<Database, DatabaseError> {
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
pub(super) fn untouched(path: &Path) -> Result<Database, DatabaseError> {
    on(Overlay::new(files::read(path)?)?)
}

/// Creates the file if it is missing.
///
/// # Errors
/// When it cannot be created.
pub(super) fn prepare(path: &Path) -> Result<(), OpenError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let fail = |fault: Fault| OpenError::of_store(fault.into_store_error(path, 1 << 20), path);
            guarded(|| create(path)).map_err(fail)
        }
        Err(error) => Err(OpenError::of_io(error, path)),
    }
}

/// Creates the file under another name and renames it when it is complete, so an incomplete file with the right name is
/// known to be damaged.
fn create(path: &Path) -> Result<(), Fault> {
    let unfinished = path.with_extension("new");
    create_as(&unfinished)?;
    put_in_place(&unfinished, path).map_err(|error| Fault::Store(StoreError::of_io(error, path, 1 << 20)))
}

/// Renames a complete file to its final name.
pub(super) fn put_in_place(unfinished: &Path, path: &Path) -> std::io::Result<()> {
    fs::rename(unfinished, path)?;
    // The rename is durable once the directory is; not every system can sync a directory.
    if let Some(directory) = path.parent().and_then(|parent| File::open(parent).ok()) {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// Creates an empty store with this name, replacing any file.
pub(super) fn create_as(unfinished: &Path) -> Result<(), Fault> {
    let io = |error| Fault::Store(StoreError::of_io(error, unfinished, 1 << 20));
    match fs::remove_file(unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    fill(unfinished).inspect_err(|_| drop(fs::remove_file(unfinished)))
}

fn fill(unfinished: &Path) -> Result<(), Fault> {
    let io = |error| Fault::Store(StoreError::of_io(error, unfinished, 1 << 20));
    let file = files::create_new(unfinished).map_err(io)?;
    let database = builder().create_with_backend(Checked(FileBackend::new(file)?))?;
    let transaction = begin_write(&database)?;
    {
        let mut meta = transaction.open_table(tables::META)?;
        for (name, number) in [(tables::META_FORMAT, FORMAT), (tables::META_CURRENT, 0), (tables::META_NEXT, 1)] {
            meta.insert(name, coding::seal_number(name, number).as_slice())?;
        }
        transaction.open_table(tables::BLOCKS)?;
        transaction.open_table(tables::SNAPSHOTS)?;
        transaction.open_table(tables::VERSION_META)?;
        transaction.open_table(tables::COPY_META)?;
        transaction.open_table(tables::COPY_BODY)?;
        transaction.open_table(tables::DETAIL_PLACES)?;
        transaction.open_table(tables::DETAIL_META)?;
        transaction.open_table(tables::DETAILS)?;
        transaction.open_table(tables::STATE)?;
    }
    Ok(transaction.commit()?)
}

/// A transaction that is synced on commit, and after which the file opens without being walked.
pub(super) fn begin_write(database: &Database) -> Result<WriteTransaction, Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// The format number of an open file.
///
/// # Errors
/// When there is none or it is damaged.
pub(super) fn format_of(transaction: &ReadTransaction) -> Result<u64, Fault> {
    let meta = transaction.open_table(tables::META)?;
    let sealed = meta.get(tables::META_FORMAT)?;
    let sealed = sealed.ok_or_else(|| StoreError::Damaged("there is no format number".to_owned()))?;
    Ok(coding::unseal_number(tables::META_FORMAT, sealed.value())?)
}
