//! `DELETE /cache`: turns an operator's purge request into keys of the cache, and forgets them.
//!
//! Callers: [`crate::admin`].

use std::borrow::Cow;

use crate::api::query::finder::FinderQuery;
use crate::api::query::search::SearchQuery;
use crate::api::query::{Parameters, QueryError, changes_since};
use crate::api::route::{Document, Route, WantedDocument};
use crate::cache::{Cache, Key};
use crate::proxy::Proxy;
use crate::semantics::target;
use crate::semantics::target::BasePath;

/// Purges answers.
pub(crate) struct Purger {
    pub cache: Cache,
    /// Reads from the origin; `None` offline.
    pub proxy: Option<Proxy>,
    /// The path of `public_url`, if any.
    pub base_path: Option<BasePath>,
}

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purge {
    /// Everything.
    All,
    /// Every answer at these paths, whatever their query.
    Paths(Vec<Vec<u8>>),
    /// These answers.
    Keys(Vec<Key>),
}

/// Why nothing is purged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PurgeError {
    /// The query has another shape.
    #[error("use DELETE /cache to purge everything, or DELETE /cache?path=/api/listings.json to purge one path")]
    Usage,
    /// The path is none.
    #[error("path: {0}; write for example /api/sports.json")]
    Path(#[from] target::PathError),
    /// Its query would be refused.
    #[error("path: invalid query: {0}")]
    Query(#[from] QueryError),
}

impl Purger {
    /// Purges the answers that the query names, and returns the number of resources. Answers on their way are not
    /// cached either.
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

impl Purge {
    /// Reads the query of `DELETE /cache`: nothing for everything, or `path=` and all that follows. A path without a
    /// query means every answer at it; with one, the answer to that query alone. Escapes are decoded once.
    fn parse(query: Option<&str>, base: Option<&BasePath>) -> Result<Self, PurgeError> {
        let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(Self::All) };
        let raw = query.strip_prefix("path=").filter(|path| !path.is_empty()).ok_or(PurgeError::Usage)?;
        let decoded: Cow<'_, [u8]> = percent_encoding::percent_decode_str(raw).into();
        // The escapes may be those of the path itself, or those that put it into this query.
        let texts = [raw.as_bytes(), &decoded];
        let readings = if texts[0] == texts[1] { &texts[..1] } else { &texts[..] };
        let mut keys = Vec::new();
        let mut paths = Vec::new();
        let mut failure = None;
        for text in readings {
            match Self::reading(text, base) {
                Ok(Self::Keys(more)) => keys.extend(more),
                Ok(Self::Paths(more)) => paths.extend(more),
                Ok(Self::All) => {}
                Err(error) => failure = Some(error),
            }
        }
        match (failure, keys.is_empty(), paths.is_empty()) {
            (Some(error), true, true) => Err(error),
            (_, true, _) => Ok(Self::Paths(paths)),
            _ => Ok(Self::Keys(keys)),
        }
    }

    fn reading(text: &[u8], base: Option<&BasePath>) -> Result<Self, PurgeError> {
        let (raw_path, raw_query) = match text.iter().position(|byte| *byte == b'?') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let normal = target::normalise(raw_path)?;
        let stripped = base.and_then(|base| base.strip(&normal)).unwrap_or(&normal);
        let route = Route::of(stripped);
        let Some(raw_query) = raw_query else {
            let mut paths = vec![stripped.as_bytes().to_vec()];
            if matches!(route, Route::Unknown | Route::Dump(_) | Route::Search) || route.is_of_pages() {
                // Such paths are kept as they were asked for.
                paths.push(raw_path.to_vec());
                paths.dedup();
            }
            return Ok(Self::Paths(paths));
        };
        let query = String::from_utf8_lossy(raw_query);
        Ok(Self::Keys(match route {
            Route::List => {
                let parameters = Parameters::parse(&query)?;
                let target = parameters.list.path_and_query();
                vec![Key::List(parameters.list), Key::origin(target)]
            }
            Route::Taxonomy(kind) => vec![Key::Taxonomy(kind), Key::origin(kind.path())],
            Route::Detail(id) => vec![Key::Detail(id), Key::origin(format!("/api/listings/{id}.json"))],
            Route::Changes => {
                let since = changes_since(&query)?;
                since.map(Key::Changes).into_iter().collect()
            }
            Route::Search => {
                let search = Key::Search(Box::new(SearchQuery::parse(&query)?));
                vec![search, Key::origin([raw_path, b"?", raw_query].concat())]
            }
            // Streams are never cached.
            Route::NoSuchListing | Route::ChangeRecords => Vec::new(),
            Route::Document(document @ (Document::Explore | Document::Embed)) => {
                let query = FinderQuery::parse(&query, document == Document::Embed)?;
                vec![Key::Document(WantedDocument::Explore(Box::new(query)))]
            }
            Route::Venue(id) => {
                vec![Key::Document(WantedDocument::Venue(id)), Key::origin([raw_path, b"?", raw_query].concat())]
            }
            // Where pages and dumps are not offered, their paths are unknown ones.
            Route::Document(_)
            | Route::Asset
            | Route::Dump(_)
            | Route::Slashed
            | Route::Files
            | Route::Probe(_)
            | Route::Unknown => {
                vec![Key::origin([raw_path, b"?", raw_query].concat())]
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::listing::ListingId;
    use crate::api::taxonomy::TaxonomyKind;

    #[test]
    fn a_path_names_all_its_answers_and_a_query_one() {
        let purge = |query| Purge::parse(query, None);
        assert_eq!(purge(None), Ok(Purge::All));
        assert_eq!(purge(Some("path=/api/listings.json")), Ok(Purge::Paths(vec![b"/api/listings.json".to_vec()])));
        let golf = Parameters::parse("sport=golf").unwrap().list;
        let keys = vec![Key::List(golf.clone()), Key::origin("/api/listings.json?sport=golf")];
        for text in ["path=/api/listings.json?page=1&sport=golf&utm=x", "path=/api/listings.json%3Fsport=g%6Flf"] {
            assert_eq!(purge(Some(text)), Ok(Purge::Keys(keys.clone())), "{text}");
        }
        let detail = Purge::Keys(vec![Key::Detail(ListingId(7)), Key::origin("/api/listings/7.json")]);
        assert_eq!(purge(Some("path=/api/listings/7.json?")), Ok(detail));
        let sports = Purge::Keys(vec![Key::Taxonomy(TaxonomyKind::Sports), Key::origin("/api/sports.json")]);
        assert_eq!(purge(Some("path=/api/sports.json?x=1")), Ok(sports));
        let texas = WantedDocument::Explore(Box::new(FinderQuery::parse("state=texas", false).unwrap()));
        let explorer = Purge::Keys(vec![Key::Document(texas)]);
        assert_eq!(purge(Some("path=/explore?page=1&state=texas")), Ok(explorer));
        let changes = Purge::Keys(vec![Key::Changes("abc".into())]);
        assert_eq!(purge(Some("path=/changes.json?since=abc&x=1")), Ok(changes));
        assert_eq!(purge(Some("path=/changes.ndjson?since=abc")), Ok(Purge::Paths(Vec::new())), "never cached");
        let other = Purge::Keys(vec![Key::origin("/api/regions.json?b=2&a=1")]);
        assert_eq!(purge(Some("path=/api/regions.json?b=2&a=1")), Ok(other), "as it was asked");
        for bad in ["paths=/x", "path=", "path=api", "path=/a/../b", "path=/api/listings.json?page=0"] {
            assert!(purge(Some(bad)).is_err(), "{bad}");
        }
        let refused = purge(Some("path=/api/listings.json?page=0")).unwrap_err().to_string();
        assert!(refused.starts_with("path: invalid query: `page` is \"0\"; it must be "), "{refused}");
    }

    #[test]
    fn the_path_of_public_url_may_be_in_front() {
        let base = BasePath::parse("/mirror").unwrap();
        let purge = Purge::parse(Some("path=/mirror/api/sports.json"), Some(&base));
        assert_eq!(purge, Ok(Purge::Paths(vec![b"/api/sports.json".to_vec()])));
    }
}
