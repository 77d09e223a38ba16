//! `DELETE /cache`: forgets the answers at a path, or all.
//!
//! Callers: [`crate::server::admin`].

use std::borrow::Cow;

use crate::data::cache::Cache;
use crate::edge::proxy::Proxy;
use crate::protocol::target;
use crate::protocol::target::BasePath;

pub(crate) struct Purger {
    pub cache: Cache,
    /// Reads from the origin; `None` offline.
    pub proxy: Option<Proxy>,
    /// The path of `public_url`, if any.
    pub base_path: Option<BasePath>,
}

/// Why nothing is purged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PurgeError {
    #[error("use DELETE /cache to purge everything, or DELETE /cache?path=/api/listings.json to purge one path")]
    Usage,
    #[error("path: {0}; write for example /api/sports.json")]
    Path(#[from] target::PathError),
    #[error("path: it has a query, but a path is purged with all its queries; write for example /api/sports.json")]
    Query,
}

impl Purger {
    /// Purges everything without a query, else every answer at the path that it names; returns the number of resources.
    /// Answers on their way are not cached either.
    pub(crate) fn purge(&self, query: Option<&str>) -> Result<u64, PurgeError> {
        // The cache first: a request between the two may still join a fetch, but what that brings is not cached.
        let count = match query.filter(|query| !query.is_empty()) {
            None => self.cache.purge_all(),
            Some(query) => self.cache.purge_path(path(query, self.base_path.as_ref())?.as_bytes()),
        };
        // New requests must not get answers to earlier ones.
        self.proxy.iter().for_each(Proxy::purged);
        tracing::info!(query = query.unwrap_or("everything"), count, "purged");
        Ok(count)
    }
}

/// The normalised path below `base` that `path=` and all that follows mean: the escapes may be those of the path itself, or
/// those that put it into this query.
fn path(query: &str, base: Option<&BasePath>) -> Result<String, PurgeError> {
    let is_one = |path: &&str| !path.is_empty() && !path.contains("&path=");
    let raw = query.strip_prefix("path=").filter(is_one).ok_or(PurgeError::Usage)?;
    let decoded: Cow<'_, [u8]> = percent_encoding::percent_decode_str(raw).into();
    if decoded.contains(&b'?') {
        return Err(PurgeError::Query);
    }
    let normal = target::normalise(&decoded).or_else(|error| target::normalise(raw.as_bytes()).map_err(|_| error))?;
    Ok(base.and_then(|base| base.strip(&normal)).unwrap_or(&normal).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_with_its_escapes_and_those_of_the_query() {
        for (query, named) in [
            ("path=/api/listings.json", "/api/listings.json"),
            ("path=%2Fapi%2Flistings.json", "/api/listings.json"),
            ("path=/api/c%61f%C3%A9.json", "/api/caf%C3%A9.json"),
            ("path=%2Fapi%2Fcaf%25c3%25A9.json", "/api/caf%c3%A9.json"),
            ("path=/api/sp%6Frts.json", "/api/sports.json"),
        ] {
            assert_eq!(path(query, None).as_deref(), Ok(named), "{query}");
        }
        for bad in ["paths=/x", "path=", "path=api", "path=/a/../b", "path=/a&path=/b", "path=/a&x&path="] {
            assert!(path(bad, None).is_err(), "{bad}");
        }
        for query in ["path=/api/listings.json?page=0", "path=/api/listings.json%3Fsport=golf"] {
            assert_eq!(path(query, None), Err(PurgeError::Query), "{query}");
        }
    }

    #[test]
    fn the_path_of_public_url_may_be_in_front() {
        let base = BasePath::parse("/mirror").unwrap();
        assert_eq!(path("path=/mirror/api/sports.json", Some(&base)).as_deref(), Ok("/api/sports.json"));
    }
}
