//! `/` for programs: the links of the front page as JSON.
//!
//! Callers: [`super::Pages::render`].

use serde_json::{Map, Value, json};

use crate::api::taxonomy::TaxonomyKind;

use super::Site;
use super::facts::Facts;
use super::front::DUMPS;

pub(super) fn document(site: &Site, facts: Option<&Facts<'_>>) -> String {
    let mut links = Map::new();
    let mut link = |name: &str, to: String| links.insert(name.to_owned(), to.into());
    link("listings", "api/listings.json".to_owned());
    link("listing", "api/listings/{id}.json".to_owned());
    link("sports", "api/sports.json".to_owned());
    link("states", "api/states.json".to_owned());
    link("cities", "api/cities.json".to_owned());
    if site.has_snapshots {
        link("changes", "changes.json?since={snapshot}".to_owned());
        for (name, _) in DUMPS {
            link(name, format!("dumps/{name}"));
        }
        link("explore", "explore".to_owned());
        link("llms", "llms.txt".to_owned());
    }
    link("openapi", "openapi.json".to_owned());
    link("docs", "docs".to_owned());
    let data = facts.map(|facts| {
        let count = |kind| facts.terms(kind).len();
        json!({
            "snapshot": facts.dataset.id.as_str(),
            "confirmed_at": facts.confirmed,
            "listings": facts.dataset.len(),
            "sports": count(TaxonomyKind::Sports),
            "states": count(TaxonomyKind::States),
            "cities": count(TaxonomyKind::Cities),
            "license": facts.credit.license.as_ref().unwrap_or(&facts.credit.license_name),
            "attribution": facts.credit.attribution,
            "attribution_link": facts.credit.backlink,
        })
    });
    let document = json!({
        "name": "A mirror of the Public Sports Venue Listings API",
        "use": site.usage,
        "example": format!("{}/api/listings.json", site.public_url),
        "requests_per_minute": (site.requests_per_minute > 0).then_some(site.requests_per_minute),
        "links": Value::Object(links),
        "data": data,
    });
    format!("{document:#}\n")
}
