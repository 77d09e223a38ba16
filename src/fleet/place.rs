//! The place: one prefix of an object store, with deadlines.
//!
//! Reads, writes, lists and removes objects by their [`Key`], without knowing what they mean. Each call ends in bounded
//! time, and bodies are streamed. The client is that of `object_store`; [`open`] makes it from the configuration.
//! Callers: publisher and replica.

mod error;
mod open;
mod read;
mod sweep;
#[cfg(test)]
mod tests;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, UpdateVersion};
use tokio::time::timeout;

use super::keys::Key;

pub(crate) use error::PlaceError;
pub(crate) use read::Found;
pub(crate) use write::Condition;

/// How long calls may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// A call with a small answer, with all its retries.
    pub call: Duration,
    /// The next piece of an object that is being read, or the next page of a list.
    pub piece: Duration,
    /// An object that is being read must bring [`read::FLOOR`] a second in each time of this length.
    pub pace: Duration,
    /// One part of an object that is being written.
    pub part: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(20),
            piece: Duration::from_secs(30),
            pace: Duration::from_secs(60),
            part: Duration::from_secs(120),
        }
    }
}

/// One version of an object, as the object store tells versions apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version(UpdateVersion);

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its name.
    pub key: Key,
    /// Its length.
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

/// A prefix of an object store; cheap to clone.
#[derive(Clone)]
pub(crate) struct Place {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The directory, of an object store of files.
    directory: Option<PathBuf>,
    patience: Patience,
}

impl Place {
    fn path(&self, key: &Key) -> Path {
        // Keys have no character that a path does not take.
        let path = if self.prefix.as_ref().is_empty() { key.to_string() } else { format!("{}/{key}", self.prefix) };
        Path::from(path)
    }

    /// All objects of ours below the prefix, in no order.
    ///
    /// # Errors
    /// When the object store fails, or the list is too long.
    pub(crate) async fn list(&self) -> Result<Vec<Listed>, PlaceError> {
        let prefix = (!self.prefix.as_ref().is_empty()).then_some(&self.prefix);
        let mut objects = self.store.list(prefix);
        let (mut listed, mut seen) = (Vec::new(), 0_u64);
        let end = Instant::now() + LONGEST_LIST;
        loop {
            let next = timeout(self.patience.piece, objects.next()).await;
            let Some(object) = next.map_err(|_elapsed| PlaceError::slow("a list", self.patience.piece))? else {
                return Ok(listed);
            };
            let object = object.map_err(|error| PlaceError::of("the list of objects", &error))?;
            seen += 1;
            if listed.len() >= MOST_LISTED || Instant::now() >= end {
                return Err(PlaceError::Failed(format!(
                    "the list of objects below the prefix is too long (at most {MOST_LISTED} objects of publishers, within \
                     {} s): it has {seen} so far, {} of them of publishers; use a prefix that has nothing else",
                    LONGEST_LIST.as_secs(),
                    listed.len()
                )));
            }
            let name = object.location.as_ref().strip_prefix(self.prefix.as_ref()).unwrap_or_default();
            if let Some(key) = Key::parse(name.trim_start_matches('/')) {
                let modified_ms = object.last_modified.timestamp_millis();
                listed.push(Listed { key, bytes: object.size, modified_ms, tag: object.e_tag });
            }
        }
    }

    /// Removes an object. One that is not there is removed already.
    ///
    /// # Errors
    /// When the object store fails.
    pub(crate) async fn delete(&self, key: &Key) -> Result<(), PlaceError> {
        let path = self.path(key);
        match self.within(key, self.patience.call, self.store.delete(&path)).await {
            Err(PlaceError::Missing(_)) => Ok(()),
            deleted => deleted,
        }
    }

    /// Waits for an answer of the object store, at most so long.
    async fn within<T>(
        &self,
        key: &Key,
        limit: Duration,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, PlaceError> {
        let answer = timeout(limit, call).await.map_err(|_elapsed| PlaceError::slow(&key.to_string(), limit))?;
        answer.map_err(|error| PlaceError::of(&key.to_string(), &error))
    }
}
