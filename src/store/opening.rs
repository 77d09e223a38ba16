//! Getting the store's file ready to be used: created whole or not at all, of a format we know, and undamaged as far as
//! can be told without walking it.
//!
//! Callers: [`super::Store::open`]; [`super::handle`] opens it again through [`database`].

use std::cmp::Ordering;
use std::fs::{self, File};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError};

use super::checked::Checked;
use super::coding;
use super::error::{OpenError, StoreError};
use super::handle::{self, Fault};
use super::overlay::Overlay;
use super::tables::{self, FORMAT};

/// What redb may keep in memory. The snapshot is in memory already, so this is for tree pages and writes only.
const CACHE_BYTES: usize = 32 << 20;

/// Opens an existing file.
pub fn database(path: &Path) -> Result<Database, DatabaseError> {
    on(FileBackend::new(File::options().read(true).write(true).open(path)?)?)
}

/// The database in a file that was created before, every page of which is verified as it is read.
pub fn on(file: impl StorageBackend) -> Result<Database, DatabaseError> {
    let file = Checked(file);
    if file.len()? == 0 {
        // redb would make a new database of it.
        return Err(StorageError::Corrupted("the file is empty".to_owned()).into());
    }
    builder().create_with_backend(file)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Creates the file if it is missing, and else checks its format without changing a byte.
///
/// # Errors
/// When it cannot be created or read, or is damaged or of a newer format.
pub fn prepare(path: &Path) -> Result<(), OpenError> {
    let fail = |fault: Fault| OpenError::of_store(fault.into_store_error(path, 0), path);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return handle::guarded(|| create(path)).map_err(fail);
        }
        Err(error) => return Err(OpenError::of_io(error, path)),
    };
    let found = handle::guarded(|| format_of(file, path)).map_err(fail)?;
    match found.cmp(&FORMAT) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(OpenError::NewerFormat { found, supported: FORMAT }),
        // Format 1 is the first. A migration from an older one belongs here, in one transaction.
        Ordering::Less => Err(OpenError::Damaged { path: path.to_owned(), detail: format!("format number {found}") }),
    }
}

/// Creates the file under another name and renames it when it is whole, so that a file with the right name that is empty
/// or lacks a table is known to be damaged.
fn create(path: &Path) -> Result<(), Fault> {
    let io = |error| Fault::Store(StoreError::of_io(error, path, 1 << 20));
    let unfinished = path.with_extension("new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let file = File::options().read(true).write(true).create_new(true).open(&unfinished).map_err(io)?;
    let database = builder().create_with_backend(Checked(FileBackend::new(file)?))?;
    let transaction = handle::begin_write(&database)?;
    {
        let mut meta = transaction.open_table(tables::META)?;
        for (name, number) in [(tables::META_FORMAT, FORMAT), (tables::META_CURRENT, 0), (tables::META_NEXT, 1)] {
            meta.insert(name, coding::seal_number(name, number).as_slice())?;
        }
        transaction.open_table(tables::BLOCKS)?;
        transaction.open_table(tables::VERSIONS)?;
        transaction.open_table(tables::VERSION_META)?;
        transaction.open_table(tables::COPY_META)?;
        transaction.open_table(tables::COPY_BODY)?;
        transaction.open_table(tables::DETAIL_META)?;
        transaction.open_table(tables::DETAILS)?;
        transaction.open_table(tables::STATE)?;
    }
    transaction.commit()?;
    drop(database);
    fs::rename(&unfinished, path).map_err(io)?;
    // The rename is durable once the directory is; not every system can sync one, and then there is nothing to do.
    if let Some(directory) = path.parent().and_then(|parent| File::open(parent).ok()) {
        let _ = directory.sync_all();
    }
    Ok(())
}

fn format_of(file: File, path: &Path) -> Result<u64, Fault> {
    let io = |error| Fault::Store(StoreError::of_io(error, path, 0));
    let overlay = Overlay::new(file).map_err(io)?;
    let database = on(overlay)?;
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(tables::META)?;
    let sealed = meta.get(tables::META_FORMAT)?;
    let sealed = sealed.ok_or_else(|| StoreError::Damaged("there is no format number".to_owned()))?;
    Ok(coding::unseal_number(tables::META_FORMAT, sealed.value())?)
}
