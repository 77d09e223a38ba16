//! Small blobs in files of their own, beside the data file.
//!
//! For what is written often: each transaction of the data file writes the map of its free pages, which is a quarter of a
//! MiB at a million listings. Callers: [`crate::fleet`].

use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;

use super::error::{StoreError, unless_damaged};
use super::{MAX_BODY, Store, coding, files};

/// What the checksums are bound to, with the name.
const TABLE: &str = "beside";

impl Store {
    fn beside_path(&self, name: &str) -> PathBuf {
        self.path().with_file_name(name)
    }

    /// Stores a blob. It is durable when this returns, and replaces the one with that name as a whole. A blob has at
    /// most [`MAX_BODY`] bytes.
    pub(crate) fn put_beside(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        coding::check_size(|| name.to_owned(), bytes.len(), MAX_BODY)?;
        let (path, sealed) = (self.beside_path(name), coding::seal(TABLE, name.as_bytes(), bytes));
        files::replace(&path, &sealed).map_err(|error| StoreError::of_io(&error, &path, sealed.len() as u64))
    }

    /// The blob of that name; `None` if it is absent or damaged.
    pub(crate) fn beside(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.beside_path(name);
        let mut sealed = Vec::new();
        let read = files::read(&path).and_then(|file| file.take(MAX_BODY as u64 + 64).read_to_end(&mut sealed));
        let read = match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(|_| Some(sealed)).map_err(|error| StoreError::of_io(&error, &path, 0)),
        };
        let unsealed = read.and_then(|sealed| {
            sealed.map(|sealed| coding::unseal(TABLE, name.as_bytes(), &sealed).map(<[u8]>::to_vec)).transpose()
        });
        unless_damaged(unsealed, || path.display().to_string())
    }

    /// Removes the blob of that name, if any.
    pub(crate) fn remove_beside(&self, name: &str) -> Result<(), StoreError> {
        let path = self.beside_path(name);
        files::remove(&path).map_err(|error| StoreError::of_io(&error, &path, 0))
    }
}
