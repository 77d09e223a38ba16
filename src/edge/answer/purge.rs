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
            Some(query) => self.cache.purge_paths(&paths(query, self.base_path.as_ref())?),
        };
        // New requests must not get answers to earlier ones.
        self.proxy.iter().for_each(Proxy::purged);
        tracing::info!(query = query.unwrap_or("everything"), count, "purged");
        Ok(count)
    }
}

/// The paths that `path=` and all that follows mean: the escapes may be those of the path itself, or those that put it into
/// this query.
fn paths(query: &str, base: Option<&BasePath>) -> Result<Vec<Vec<u8>>, PurgeError> {
    let raw = query.strip_prefix("path=").filter(|path| !path.is_empty()).ok_or(PurgeError::Usage)?;
    let decoded: Cow<'_, [u8]> = percent_encoding::percent_decode_str(raw).into();
    if decoded.contains(&b'?') {
        return Err(PurgeError::Query);
    }
    match [raw.as_bytes(), &decoded].map(|text| reading(text, base)) {
        [Err(_), Err(error)] => Err(error),
        readings => Ok(readings.into_iter().flatten().flatten().collect()),
    }
}

/// A path as known endpoints have it, and as it was asked for, by which other answers are kept.
fn reading(text: &[u8], base: Option<&BasePath>) -> Result<[Vec<u8>; 2], PurgeError> {
    let normal = target::normalise(text)?;
    let known = base.and_then(|base| base.strip(&normal)).unwrap_or(&normal);
    Ok([known.as_bytes().to_vec(), text.to_vec()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_with_its_escapes_and_those_of_the_query() {
        let named = |query, path: &str| paths(query, None).unwrap().contains(&path.as_bytes().to_vec());
        assert!(named("path=/api/listings.json", "/api/listings.json"));
        assert!(named("path=%2Fapi%2Flistings.json", "/api/listings.json"));
        assert!(named("path=/api/c%61f%C3%A9.json", "/api/c%61f%C3%A9.json"), "as it was asked");
        assert!(named("path=/api/sp%6Frts.json", "/api/sports.json"));
        for bad in ["paths=/x", "path=", "path=api", "path=/a/../b"] {
            assert!(paths(bad, None).is_err(), "{bad}");
        }
        for query in ["path=/api/listings.json?page=0", "path=/api/listings.json%3Fsport=golf"] {
            assert_eq!(paths(query, None), Err(PurgeError::Query), "{query}");
        }
    }

    #[test]
    fn the_path_of_public_url_may_be_in_front() {
        let base = BasePath::parse("/mirror").unwrap();
        assert!(paths("path=/mirror/api/sports.json", Some(&base)).unwrap().contains(&b"/api/sports.json".to_vec()));
    }
}
