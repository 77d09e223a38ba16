//! From a normalised path to the endpoint that it names.
//!
//! Callers: [`crate::answer`].

use crate::telemetry::RouteLabel;

use super::dump::DumpKind;
use super::listing::ListingId;
use super::taxonomy::TaxonomyKind;

/// The endpoint of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/api/listings.json`
    List,
    /// `/api/listings/{id}.json`
    Detail(ListingId),
    /// `/api/listings/….json` with an invalid id.
    NoSuchListing,
    /// `/api/sports.json`, `/api/states.json`, `/api/cities.json`
    Taxonomy(TaxonomyKind),
    /// `/changes.json`
    Changes,
    /// `/dumps/…`
    Dump(DumpKind),
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
                let taxonomy = TaxonomyKind::ALL.into_iter().find(|kind| kind.path() == path);
                let dump = || DumpKind::of_path(path).map_or(Self::Unknown, Self::Dump);
                taxonomy.map_or_else(dump, Self::Taxonomy)
            }
        }
    }

    /// The label for metrics and logs.
    pub const fn label(self) -> RouteLabel {
        match self {
            Self::List => RouteLabel::List,
            Self::Detail(_) | Self::NoSuchListing => RouteLabel::Detail,
            Self::Taxonomy(TaxonomyKind::Sports) => RouteLabel::Sports,
            Self::Taxonomy(TaxonomyKind::States) => RouteLabel::States,
            Self::Taxonomy(TaxonomyKind::Cities) => RouteLabel::Cities,
            Self::Changes => RouteLabel::Changes,
            Self::Dump(_) => RouteLabel::Dumps,
            Self::Unknown => RouteLabel::Other,
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
            ("/dumps/listings.csv", Route::Dump(DumpKind::Csv)),
            ("/dumps/listings.xml", Route::Unknown),
            ("/", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
