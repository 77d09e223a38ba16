//! From a normalised path to the endpoint that it names.
//!
//! Callers: [`crate::answer`].

use super::listing::ListingId;
use super::taxonomy::TaxonomyKind;

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/api/listings.json`
    List,
    /// `/api/listings/{id}.json`
    Detail(ListingId),
    /// `/api/listings/….json` with something that is no canonical id: it can name no listing.
    NoSuchListing,
    /// `/api/sports.json`, `/api/states.json`, `/api/cities.json`
    Taxonomy(TaxonomyKind),
    /// `/changes.json`
    Changes,
    /// Any other path.
    Unknown,
}

impl Route {
    /// Names the endpoint of a path; exact and case-sensitive.
    pub fn of(path: &str) -> Self {
        match path {
            "/api/listings.json" => Self::List,
            "/changes.json" => Self::Changes,
            _ => {
                let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
                if let Some(id) = id.filter(|id| !id.contains('/')) {
                    return ListingId::parse(id).map_or(Self::NoSuchListing, Self::Detail);
                }
                TaxonomyKind::ALL.into_iter().find(|kind| kind.path() == path).map_or(Self::Unknown, Self::Taxonomy)
            }
        }
    }

    /// The word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Detail(_) | Self::NoSuchListing => "detail",
            Self::Taxonomy(TaxonomyKind::Sports) => "sports",
            Self::Taxonomy(TaxonomyKind::States) => "states",
            Self::Taxonomy(TaxonomyKind::Cities) => "cities",
            Self::Changes => "changes",
            Self::Unknown => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_endpoints_exactly() {
        for (path, route) in [
            ("/api/listings.json", Route::List),
            ("/api/listings.json/", Route::Unknown),
            ("/api/Listings.json", Route::Unknown),
            ("/api/listings/7.json", Route::Detail(ListingId(7))),
            ("/api/listings/007.json", Route::NoSuchListing),
            ("/api/listings/x.json", Route::NoSuchListing),
            ("/api/listings/.json", Route::NoSuchListing),
            ("/api/listings/7", Route::Unknown),
            ("/api/listings/7/8.json", Route::Unknown),
            ("/api/cities.json", Route::Taxonomy(TaxonomyKind::Cities)),
            ("/changes.json", Route::Changes),
            ("/", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
