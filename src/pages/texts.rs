//! `/llms.txt` and `/robots.txt`, for language models and crawlers.
//!
//! Callers: [`super::Pages::render`].

use std::fmt::Write as _;

use crate::api::taxonomy::TaxonomyKind;

use super::Site;
use super::facts::{Facts, grouped};
use super::front::DUMPS;
use super::map::escaped;

/// The server in words and links, as llmstxt.org proposes.
pub(super) fn llms(site: &Site, facts: &Facts<'_>) -> String {
    let base = &site.public_url;
    let (dataset, credit) = (facts.dataset, &facts.credit);
    let count = |kind| grouped(facts.terms(kind).len() as u64);
    let state = facts.example(TaxonomyKind::States).unwrap_or("texas");
    let sport = facts.example(TaxonomyKind::Sports).unwrap_or("golf");
    let attribution = credit.attribution.as_deref().unwrap_or("Public Sports Venue Listings API");
    let limit = match site.requests_per_minute {
        0 => "Requests are not limited.".to_owned(),
        most => format!(
            "At most {most} requests in any 60 seconds from one address. Above that: 429 with `Retry-After`. \
             Prefer one of the files below to many pages."
        ),
    };
    let mut dumps = String::new();
    for (name, what) in DUMPS {
        // Writing to a String cannot fail.
        let _ = writeln!(dumps, "- [{name}]({base}/dumps/{name}): {what}");
    }
    format!(
        "# Sports venues of the United States\n\n\
         > A mirror of the Public Sports Venue Listings API: {venues} venues, {sports} sports, {states} states, {cities} cities. \
         JSON over HTTP, no key, read only.\n\n\
         - Confirmed: {confirmed}\n\
         - Licence: {license}\n\
         - Attribution, required wherever the data is shown: {attribution}{backlink}\n\
         - Limit: {limit}\n\n\
         ## API\n\n\
         - [Venues of a sport in a state]({base}/api/listings.json?sport={sport}&state={state}): parameters `sport`, `state`, \
         `city` (slugs), `modified_since`, `page`, `per_page` (at most 100)\n\
         - `{base}/api/listings/{{id}}.json`: one venue in full\n\
         - [Sports]({base}/api/sports.json), [states]({base}/api/states.json), [cities]({base}/api/cities.json): slugs, names, counts\n\
         - [OpenAPI 3.1]({base}/openapi.json): every parameter, header and error\n\n\
         ## Files with everything\n\n{dumps}",
        venues = grouped(dataset.len() as u64),
        sports = count(TaxonomyKind::Sports),
        states = count(TaxonomyKind::States),
        cities = count(TaxonomyKind::Cities),
        confirmed = facts.confirmed.as_deref().unwrap_or("unknown"),
        license = credit.license.as_ref().unwrap_or(&credit.license_name),
        backlink = credit.backlink.as_ref().map(|link| format!(" ({link})")).unwrap_or_default(),
        state = escaped(state),
        sport = escaped(sport),
    )
}

/// Crawlers may read the pages and the API, but not every page of the explorer, nor the files.
pub(super) fn robots(site: &Site) -> String {
    let path = url::Url::parse(&site.public_url).map(|url| url.path().trim_end_matches('/').to_owned());
    let path = path.unwrap_or_default();
    format!("User-agent: *\nDisallow: {path}/explore?\nDisallow: {path}/dumps/\nDisallow: {path}/changes.json\n")
}
