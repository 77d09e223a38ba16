//! `DELETE /cache`: purges answers.
//!
//! [`crate::answer::purge`] reads the request. Callers: [`super::Admin`].

use crate::answer::purge::{Purge, PurgeError};
use crate::cache::Cache;
use crate::proxy::Proxy;
use crate::semantics::target::BasePath;

/// Purges answers.
pub(crate) struct Purger {
    pub cache: Cache,
    /// Reads from the origin; `None` offline.
    pub proxy: Option<Proxy>,
    /// The path of `public_url`, if any.
    pub base_path: Option<BasePath>,
}

impl Purger {
    /// Purges the answers that the query names, and returns the number of resources. Answers on their way are not
    /// cached either.
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
        // New requests must not get answers to earlier ones.
        self.proxy.iter().for_each(Proxy::purged);
        tracing::info!(query = query.unwrap_or("everything"), count, "purged");
        Ok(count)
    }
}
