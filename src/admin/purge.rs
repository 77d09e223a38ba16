//! `DELETE /cache`: forgets answers.
//!
//! What is named by the words of the request is decided in [`crate::answer::purge`]. Callers: [`super::Admin`].

use crate::answer::purge::{Purge, PurgeError};
use crate::cache::Cache;
use crate::proxy::Proxy;
use crate::semantics::path::BasePath;

/// What forgets.
pub(crate) struct Purger {
    /// The cache.
    pub cache: Cache,
    /// What is fetching; `None` offline.
    pub proxy: Option<Proxy>,
    /// The path of `public_url`, where it has one.
    pub base_path: Option<BasePath>,
}

impl Purger {
    /// Forgets what the query names, and says how many resources that were. What is on its way is not kept either.
    ///
    /// # Errors
    /// When the query names nothing.
    pub(crate) fn purge(&self, query: Option<&str>) -> Result<u64, PurgeError> {
        let purge = Purge::parse(query, self.base_path.as_ref())?;
        let count = match &purge {
            Purge::All => self.cache.purge_all(),
            Purge::Paths(paths) => self.cache.purge_paths(paths),
            Purge::Keys(keys) => keys.iter().map(|key| u64::from(self.cache.purge(key))).sum(),
        };
        // Who asks from now on must not be told what was asked before.
        self.proxy.iter().for_each(Proxy::purged);
        tracing::info!(query = query.unwrap_or("everything"), count, "purged");
        Ok(count)
    }
}
