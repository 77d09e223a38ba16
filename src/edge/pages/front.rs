//! Front page: what this server has, for people.
//!
//! It works without a script. Callers: [`super::Pages::render`].

use maud::{Markup, html};

use crate::api::query::search::MOST_CHARACTERS;
use crate::api::route::DumpKind;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::details::Details;
use crate::edge::dumps;
use crate::origin::status::Progress;
use crate::words::{bytes, grouped};

use super::facts::{PageFacts, TermFact};
use super::layout::{self, NavigationItem, bar, example, instant, page};
use super::room::PageRoom;
use super::tiles::{escaped, tiles};
use super::{Material, Pages, Site};

/// Sports that the chart shows; the others are in the finder.
const SPORTS: usize = 12;

/// The markup of a bar, in bytes.
const BAR: usize = 300;

/// After how many seconds the page is loaded again while there is no snapshot.
const AGAIN: u64 = 10;

/// The files with everything, and their readers.
pub(super) const DUMPS: [(DumpKind, &str); 5] = [
    (DumpKind::Csv, "for spreadsheets and pandas"),
    (DumpKind::Geojson, "for maps: QGIS, Leaflet"),
    (DumpKind::Ndjson, "for DuckDB, jq and notebooks: each listing as the provider sent it"),
    (DumpKind::DetailsCsv, "every venue in full as a table: address, hours, phone"),
    (DumpKind::Details, "every listing in full: address, hours, images"),
];

const ENDPOINTS: [(&str, &str); 8] = [
    ("/api/listings.json", "venues, 50 to a page; filters: sport, state, city, modified_since"),
    ("/api/listings/{id}.json", "one venue in full"),
    ("/api/sports.json", "the sports, with counts"),
    ("/api/states.json", "the states, with counts"),
    ("/api/cities.json", "the cities, with counts"),
    ("/search.json?q={words}", "venues by words, or near a place: near=LAT,LNG or a city's slug, with radius=KM"),
    ("/changes.json?since={snapshot}", "what was added, changed and removed since a snapshot"),
    ("/changes.ndjson?since={snapshot}", "the same with listings and details, for a copy that stays current"),
];

/// Renders the page, and says after how many seconds browsers load it again; `None`: not by themselves.
pub(super) fn page_of(pages: &Pages, facts: Option<&PageFacts<'_>>, of: Material<'_>) -> (String, Option<u64>) {
    let site = &pages.site;
    let again = (facts.is_none() && site.has_snapshots).then_some(AGAIN);
    let main = html! {
        div .overview {
            (lead(site, facts, of.first_copy, again))
            @if let Some(facts) = facts { (data(facts, of.details)) }
        }
        @if let Some(facts) = facts { (charts(facts)) }
        (endpoints(site))
        (examples(site, facts))
        (limit(site))
    };
    (page(pages, (NavigationItem::Front, "Overview"), &["age.js", "copy.js"], facts, &main), again)
}

fn lead(site: &Site, facts: Option<&PageFacts<'_>>, first_copy: Option<Progress>, again: Option<u64>) -> Markup {
    html! {
        section .lead {
            h1 { "Sports venues of the United States" }
            @match facts {
                Some(facts) => {
                    p {
                        "A mirror of the Public Sports Venue Listings API: "
                        strong { (grouped(facts.dataset.len() as u64)) " venues" } ", "
                        (grouped(facts.dataset.terms(TaxonomyKind::Sports).len() as u64)) " sports, "
                        (grouped(facts.dataset.terms(TaxonomyKind::States).len() as u64)) " states, "
                        (grouped(facts.dataset.terms(TaxonomyKind::Cities).len() as u64)) " cities. "
                        "The same paths and the same JSON as the original, answered from a copy."
                    }
                    form .filters action="explore" method="get" role="search" {
                        label .words {
                            span { "Find a venue by name, city or sport" }
                            input type="search" name="q" maxlength=(MOST_CHARACTERS) autocomplete="off" spellcheck="false";
                        }
                        label { span { "Near" } input type="search" name="near" placeholder="A city" autocomplete="off" spellcheck="false"; }
                        button type="submit" { "Find" }
                    }
                    p .actions {
                        a .button .quiet href="explore" { "All venues on a map" }
                        a .button .quiet href="docs" { "Read the API" }
                    }
                }
                None => {
                    p {
                        "This server is a " (site.usage) " of the Public Sports Venue Listings API: the same paths and the same JSON as \
                         the original. "
                        @if site.has_snapshots {
                            "It has no copy of the data yet; this page shows it as soon as there is one."
                        } @else {
                            "It caches the answers that clients ask for, and keeps no full copy."
                        }
                    }
                    @if let Some(progress) = first_copy { (layout::first_copy(progress)) }
                    @if let Some(seconds) = again { (layout::again(seconds)) }
                    p .actions { a .button href="docs" { "Read the API" } }
                }
            }
        }
    }
}

/// How old the data is, and the files that have all of it.
fn data(facts: &PageFacts<'_>, details: Option<&Details>) -> Markup {
    let dataset = facts.dataset;
    let rows = |kind| match (kind, details) {
        (DumpKind::Details, Some(details)) => details.counts(dataset).present,
        (DumpKind::Details, None) => 0,
        _ => dataset.len() as u64,
    };
    // One that cannot be written has no size; the log says why when somebody asks for it.
    let size = |kind| details.and_then(|details| dumps::size(kind, dataset, details).ok());
    html! {
        section .data aria-labelledby="data" {
            h2 #data { "The data" }
            p .confirmed {
                "Confirmed " @match &facts.confirmed {
                    Some(at) => (instant(at)),
                    None => "at an unknown time",
                }
            }
            table #files {
                caption {
                    "Everything as a file" @if let Some((date, _)) = facts.confirmed.as_deref().and_then(|at| at.split_once('T')) { ", as of " (date) }
                }
                thead { tr { th scope="col" { "File" } th .number scope="col" { "Rows" } th .number scope="col" { "Size" } } }
                tbody {
                    @for (kind, what) in DUMPS {
                        tr {
                            th scope="row" {
                                a href=(kind.path().trim_start_matches('/')) { (file_name(kind)) }
                                span .small {
                                    (what)
                                    @if kind.is_table() { " (" a href={ (kind.path().trim_start_matches('/')) "?bom=1" } { "for Excel" } ")" }
                                }
                            }
                            td .number { (grouped(rows(kind))) }
                            td .number { @match size(kind) { Some(size) => (bytes(size)), None => "–" } }
                        }
                    }
                }
            }
            p .small { "One file counts as one request: faster than a hundred pages. Sizes are about right, and smaller on the way: files are sent compressed." }
            p .small { "Snapshot " code { (dataset.id.as_str()) } }
        }
    }
}

/// The name of a dump, without its folder.
pub(super) fn file_name(kind: DumpKind) -> &'static str {
    kind.path().trim_start_matches("/dumps/")
}

fn charts(facts: &PageFacts<'_>) -> Markup {
    let sports = facts.largest(TaxonomyKind::Sports);
    let states = facts.terms(TaxonomyKind::States);
    let most = sports.first().and_then(|sport| sport.count).unwrap_or(0);
    let (shown, others) = sports.split_at(sports.len().min(SPORTS));
    html! {
        div .charts {
            section aria-labelledby="sports" {
                h2 #sports { "By sport" }
                (bars("sport", shown, most, &facts.room))
                @if !others.is_empty() {
                    details {
                        summary { (others.len()) " more" }
                        (bars("sport", others, most, &facts.room))
                    }
                }
            }
            section aria-labelledby="states" {
                h2 #states { "By state" }
                (tiles(&states, &facts.room))
                details {
                    summary { "As a list" }
                    @let largest = facts.largest(TaxonomyKind::States);
                    (bars("state", &largest, largest.first().and_then(|state| state.count).unwrap_or(0), &facts.room))
                }
            }
        }
    }
}

fn bars(parameter: &str, terms: &[TermFact<'_>], most: u64, room: &PageRoom) -> Markup {
    html! {
        ul .bars {
            @for term in terms.iter().take_while(|term| room.takes(BAR + 3 * term.slug.len())) {
                li {
                    a href={ "explore?" (parameter) "=" (escaped(term.slug)) } { (room.short(term.label)) }
                    (bar(term.count.unwrap_or(0), most))
                    span .number { @match term.count { Some(count) => (grouped(count)), None => "?" } }
                }
            }
        }
    }
}

fn endpoints(site: &Site) -> Markup {
    let shown = ENDPOINTS.iter().filter(|(path, _)| site.has_snapshots || path.starts_with("/api/"));
    html! {
        section aria-labelledby="endpoints" {
            h2 #endpoints { "Endpoints" }
            dl .endpoints {
                @for (path, what) in shown {
                    dt { code { (path) } }
                    dd { (what) }
                }
            }
            p { "Everything about them: " a href="docs" { "documentation" } ", " a href="openapi.json" { "openapi.json" } " (OpenAPI 3.1, for generated clients)" @if site.has_snapshots { ", " a href="llms.txt" { "llms.txt" } } "." }
        }
    }
}

fn examples(site: &Site, facts: Option<&PageFacts<'_>>) -> Markup {
    let state = facts.and_then(|facts| facts.example(TaxonomyKind::States)).unwrap_or("texas");
    let list = format!("{}/api/listings.json?state={}", site.public_url, escaped(state));
    let curl = format!("curl --compressed '{list}&per_page=2'");
    let script = format!(
        "const answer = await fetch(\"{list}\");\nconst {{ total, items }} = await answer.json();\n\
         console.log(total, items.map((venue) => venue.name));"
    );
    let python = format!(
        "import json, urllib.request\n\nwith urllib.request.urlopen(\"{list}\") as answer:\n    page = json.load(answer)\n\
         print(page[\"total\"], [venue[\"name\"] for venue in page[\"items\"]])"
    );
    html! {
        section aria-labelledby="examples" {
            h2 #examples { "Try it" }
            div .examples {
                (example("shell", "Shell", &curl))
                (example("javascript", "JavaScript", &script))
                (example("python", "Python", &python))
            }
            p {
                "Send the " code { "ETag" } " of an answer back as " code { "If-None-Match" }
                ": if nothing has changed, the answer is 304, without a body."
            }
        }
    }
}

fn limit(site: &Site) -> Markup {
    html! {
        section aria-labelledby="limit" {
            h2 #limit { "Limit" }
            @if site.requests_per_minute == 0 {
                p { "Requests are not limited." }
            } @else {
                p {
                    "Each address may send " strong { (grouped(site.requests_per_minute.into())) " requests" }
                    " to the API in any 60 seconds. " code { "RateLimit" } " in every answer says how many requests are left. Above the limit \
                     the answer is 429, and " code { "Retry-After" } " says when to try again."
                }
            }
        }
    }
}
