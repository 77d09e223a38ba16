//! The documents for programs: `/` as JSON, `/openapi.json`, `/llms.txt` for language models, `/robots.txt`.
//!
//! The file `openapi.json` beside this one is the template of the description of the API. `pages::tests` compares it
//! with the code, and `tests/wire/pages` with a running server. Callers: [`super::Pages::render`].

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::api::json::{self, quote};
use crate::api::listing::Summary;
use crate::api::taxonomy::TaxonomyKind;
use crate::protocol::excerpt;
use crate::words::grouped;

use super::Site;
use super::facts::{PageFacts, TermFact};
use super::front::{DUMPS, file_name};
use super::room::MOST_OF_A_TEXT;
use super::schema::{Described, Seen};
use super::tiles::escaped;

/// `/` for programs: the links of the front page as JSON.
pub(super) fn index(site: &Site, facts: Option<&PageFacts<'_>>) -> String {
    let mut links = Map::new();
    let mut link = |name: &str, to: String| links.insert(name.to_owned(), to.into());
    link("listings", "api/listings.json".to_owned());
    link("listing", "api/listings/{id}.json".to_owned());
    link("sports", "api/sports.json".to_owned());
    link("states", "api/states.json".to_owned());
    link("cities", "api/cities.json".to_owned());
    if site.has_snapshots {
        link("changes", "changes.json?since={snapshot}".to_owned());
        link("change_records", "changes.ndjson?since={snapshot}".to_owned());
        link("search", "search.json?q={words}".to_owned());
        for (kind, _) in DUMPS {
            link(file_name(kind), kind.path().trim_start_matches('/').to_owned());
        }
        link("explore", "explore".to_owned());
        link("llms", "llms.txt".to_owned());
        link("listing_schema", "schema/listing.json".to_owned());
        link("detail_schema", "schema/detail.json".to_owned());
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

/// The template, with names in place of values.
pub(super) const TEMPLATE: &str = include_str!("openapi.json");

/// The example where there is no listing yet.
const MADE_UP: &str = r#"{"id":1,"name":"Example Field","url":"https://venues.example/1","city":"Austin","state":"Texas","sport":"golf","lat":30.25,"lng":-97.75,"rating":4.5,"review_count":10,"modified":"2026-01-31T12:00:00Z"}"#;

/// The description with examples that this server answers.
pub(super) fn openapi(site: &Site, facts: Option<&PageFacts<'_>>, described: &Described) -> String {
    let snapshot = facts.map_or("0123456789abcdef0123456789abcdef", |facts| facts.dataset.id.as_str());
    let confirmed = facts.and_then(|facts| facts.confirmed.as_deref()).unwrap_or("2026-01-31T12:00:00Z");
    let id = facts.and_then(PageFacts::first_id).unwrap_or(1);
    let limit = match site.requests_per_minute {
        0 => "Requests are not limited here.".to_owned(),
        most => format!(
            "An address may send {most} requests in any 60 seconds; `RateLimit` says how many are left. Above that the \
             answer is 429, and `Retry-After` says when to try again. Pages and their assets have a limit of their own, ten \
             times as large."
        ),
    };
    let credit = facts.map_or_else(String::new, |facts| {
        let attribution = facts.credit.attribution.as_deref().unwrap_or_default();
        let backlink = facts.credit.backlink.as_deref().unwrap_or_default();
        format!(" Attribution: {attribution} {backlink}").trim_end().to_owned()
    });
    let term = |kind: TaxonomyKind, given: &'static str| {
        let fact = facts.and_then(|facts| facts.largest(kind).into_iter().next());
        fact.unwrap_or(TermFact { slug: given, label: given, count: Some(1) })
    };
    let terms = [
        ("sport", term(TaxonomyKind::Sports, "golf")),
        ("state", term(TaxonomyKind::States, "texas")),
        ("city", term(TaxonomyKind::Cities, "austin")),
    ];
    // Generators take a `$ref` in an example for a reference.
    let refers = |listing: &&Summary| String::from_utf8_lossy(&listing.raw).contains("$ref\"");
    let listing = facts.and_then(PageFacts::example_listing).filter(|listing| !refers(listing));
    let listing = listing.map_or(MADE_UP.into(), |summary| String::from_utf8_lossy(&summary.raw));
    let total = facts.map_or(1, |facts| facts.dataset.len());
    let whole = filled(|name| {
        if let Some((_, term)) = terms.iter().find(|(kind, _)| name.starts_with(kind)) {
            return match name.split_once('_') {
                None => Some(Filling::Text(term.slug)),
                Some((_, "name")) => Some(Filling::Text(excerpt::start(term.label, MOST_OF_A_TEXT))),
                Some(_) => Some(Filling::Json(json!(term.count).to_string())),
            };
        }
        Some(match name {
            "snapshot" => Filling::Text(snapshot),
            "limit" => Filling::Text(&limit),
            "credit" => Filling::Text(&credit),
            "confirmed" => Filling::Text(confirmed),
            "public_url" => Filling::Text(&site.public_url),
            "version" => Filling::Text(super::RENDERER),
            "id" => Filling::Json(id.to_string()),
            "total" => Filling::Json(total.to_string()),
            "listing" => Filling::Json(listing.to_string()),
            "fields_of_a_listing" => Filling::Json(described.listing.to_string()),
            "fields_of_a_detail" => Filling::Json(described.detail.to_string()),
            "detail" => Filling::Json(described.detail_body.to_string()),
            "taxonomy" => Filling::Json(described.taxonomy.to_string()),
            _ => return None,
        })
    });
    if site.has_snapshots { whole } else { without_data(whole) }
}

/// The paths that need no snapshot.
const OF_A_SHIELD: [&str; 6] = ["/", "/docs", "/openapi.json", "/robots.txt", "/livez", "/readyz"];

/// The description with the paths alone that a shield has.
fn without_data(whole: String) -> String {
    let is_kept = |path: &str| path.starts_with("/api/") || OF_A_SHIELD.contains(&path);
    let Ok(fields) = json::fields(&whole) else { return whole };
    let Some(paths) = fields.iter().find(|field| field.key == "paths") else { return whole };
    let kept = json::fields(paths.value).unwrap_or_default().into_iter().filter(|path| is_kept(&path.key));
    let kept: Vec<String> = kept.map(|path| format!("\n    {}: {}", quote(&path.key), path.value)).collect();
    whole.replacen(paths.value, &format!("{{{}\n  }}", kept.join(",")), 1)
}

/// What takes the place of a name in the template.
enum Filling<'a> {
    /// The text, within its string.
    Text(&'a str),
    /// The JSON value, in the place of the string.
    Json(String),
}

/// The template with `value` of each `<name>`, in one pass: what a value contains stays.
fn filled<'a>(value: impl Fn(&str) -> Option<Filling<'a>>) -> String {
    let (mut text, mut rest) = (String::with_capacity(2 * TEMPLATE.len()), TEMPLATE);
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let found = after.split_once('>').and_then(|(name, after)| Some((value(name)?, after)));
        rest = match found {
            None => {
                text.push('<');
                after
            }
            Some((Filling::Text(value), after)) => {
                let quoted = quote(value);
                text.push_str(&quoted[1..quoted.len() - 1]);
                after
            }
            Some((Filling::Json(value), after)) => {
                text.pop();
                text.push_str(&value);
                after.strip_prefix('"').unwrap_or(after)
            }
        };
    }
    text + rest
}

/// The server in words and links, as llmstxt.org proposes.
pub(super) fn llms(site: &Site, facts: &PageFacts<'_>, seen: &Seen) -> String {
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
    for (kind, what) in DUMPS {
        let name = file_name(kind);
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
         - [Search]({base}/search.json?q={sport}&state={state}): parameters `q` (words and prefixes; typing errors are \
         forgiven), `near=LAT,LNG` or a city's slug with `radius` in km, `bbox=W,S,E,N`, and the filters; nearest or best match first\n\
         - `{base}/api/listings/{{id}}.json`: one venue in full\n\
         - [Sports]({base}/api/sports.json), [states]({base}/api/states.json), [cities]({base}/api/cities.json): slugs, names, counts\n\
         - [OpenAPI 3.1]({base}/openapi.json): every parameter, header and error\n\n\
         ## Data\n\n\
         Fields of a listing: {fields}. [Types and examples]({base}/schema/listing.json), [those of a \
         detail]({base}/schema/detail.json). Filters take slugs (`{state}`) from the three indexes; `city` and `state` in a \
         listing are display names, `sport` is a slug. A listing:\n\n```json\n{sample}\n```\n\n\
         To stay current: ask with `If-None-Match` (304: nothing changed), or read the files below once and then ask \
         `{base}/changes.ndjson?since=` with the id from the header `Mirror-Snapshot` of the listings, later with `next` of the \
         last line: each other line has a listing that was added, changed or removed, with its detail. Without its last \
         line an answer is incomplete; 410: read the files again. `{base}/changes.json?since=` has the ids alone.\n\n\
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
        fields = seen.names().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        sample = facts.example_listing().map_or(MADE_UP.into(), |listing| one_line(&listing.raw)),
    )
}

fn one_line(raw: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(raw);
    // Within strings JSON has no line breaks.
    if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ").into() } else { text }
}

/// Crawlers may read the pages, the API and the files, but not the answers to every query.
pub(super) fn robots(site: &Site) -> String {
    let path = url::Url::parse(&site.public_url).map(|url| url.path().trim_end_matches('/').to_owned());
    let path = path.unwrap_or_default();
    format!(
        "User-agent: *\nDisallow: {path}/explore?\nDisallow: {path}/explore/\nDisallow: {path}/embed?\nDisallow: {path}/search.json?\n\
         Disallow: {path}/changes.\n"
    )
}
