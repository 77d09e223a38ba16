//! The explorer: venues by sport, state and city, as a list and as dots on a map.
//!
//! All of it is rendered here, so it works without a script; `static/explore.js` makes it quicker. Callers:
//! [`super::Pages::render`].

use maud::{Markup, html};

use crate::api::listing::Venue;
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::pointer::Snapshot;

use super::facts::{PageFacts, TermFact, grouped};
use super::layout::{NavigationItem, instant, page as layout};
use super::map::{Drawn, map};
use super::{Pages, Site};

/// Cities to choose from while no state is chosen: the largest.
const CITIES: usize = 200;

/// What the filters leave.
struct Shown<'a> {
    query: &'a ListQuery,
    /// How many; `None` while that is in doubt.
    total: Option<u64>,
    /// The page's venues, each with its id.
    venues: Vec<(u64, Venue<'a>)>,
    drawn: Drawn,
}

pub(super) fn page(pages: &Pages, published: &Snapshot, facts: &PageFacts<'_>, query: &ListQuery) -> String {
    let dataset = &*published.dataset;
    let positions = dataset.positions(&query.slugs).ok();
    let from = usize::try_from((query.page - 1).saturating_mul(query.per_page.into())).unwrap_or(usize::MAX);
    let on_page = positions.iter().flatten().skip(from).take(query.per_page.into());
    let summaries = on_page.filter_map(|position| dataset.content.summaries.get(*position as usize));
    let shown = Shown {
        query,
        total: positions.as_ref().map(|positions| positions.len() as u64),
        venues: summaries.map(|summary| (summary.id.0, Venue::read(&summary.raw))).collect(),
        drawn: positions.as_ref().map(|positions| pages.dots.draw(dataset, positions)).unwrap_or_default(),
    };
    let states = facts.terms(TaxonomyKind::States);
    let label = format!("Map of the United States with {}", summary_of(&shown, facts));
    let main = html! {
        h1 { "Explore the venues" }
        (filters(facts, query, &states))
        p #summary .summary role="status" { (summary_of(&shown, facts)) }
        p #notice .notice role="alert" hidden {}
        div .explorer {
            figure .map {
                (map(&states, query.slug(TaxonomyKind::States), (&shown.drawn.path, ""), &label))
                figcaption #off-map .small { (off_map(&shown)) }
            }
            div .results {
                h2 #list-title { "Venues" }
                (table(&shown, facts))
                (pager(query, shown.total.unwrap_or(0)))
            }
        }
        (request(&pages.site, query))
        @if let Some(at) = &facts.confirmed {
            p .small { "Confirmed " (instant(at)) }
        }
    };
    layout(pages, (NavigationItem::Explore, "Explore"), &["age.js", "explore.js"], Some(facts), &main)
}

/// What is shown, in words: "1,234 venues, Golf, Texas".
fn summary_of(shown: &Shown<'_>, facts: &PageFacts<'_>) -> String {
    let mut text = match shown.total {
        None => "venues (only the origin can list them now: send the API request below)".to_owned(),
        Some(1) => "1 venue".to_owned(),
        Some(total) => format!("{} venues", grouped(total)),
    };
    for kind in [TaxonomyKind::Sports, TaxonomyKind::Cities, TaxonomyKind::States] {
        if let Some(slug) = shown.query.slug(kind) {
            text.push_str(", ");
            text.push_str(facts.label(kind, slug));
        }
    }
    text
}

fn off_map(shown: &Shown<'_>) -> String {
    let missing = shown.total.unwrap_or(0).saturating_sub(shown.drawn.shown as u64);
    if missing == 0 { String::new() } else { format!("{} of them are not on this map.", grouped(missing)) }
}

fn filters(facts: &PageFacts<'_>, query: &ListQuery, states: &[TermFact<'_>]) -> Markup {
    let state = query.slug(TaxonomyKind::States);
    html! {
        form #filters .filters action="explore" method="get" role="search" aria-label="Filter the venues" {
            (choice(TaxonomyKind::Sports, "Sport", "All sports", &facts.terms(TaxonomyKind::Sports), query))
            (choice(TaxonomyKind::States, "State", "All states", states, query))
            (choice(TaxonomyKind::Cities, "City", "All cities", &cities(facts, state), query))
            button type="submit" { "Show" }
            a .reset href="explore" { "Reset" }
        }
    }
}

/// The cities to choose from, by name: those of the state, else the largest.
fn cities<'a>(facts: &PageFacts<'a>, state: Option<&str>) -> Vec<TermFact<'a>> {
    let kind = TaxonomyKind::Cities;
    let mut cities: Vec<TermFact<'a>> = match state {
        Some(state) => {
            let within = facts.dataset.terms_within(kind, TaxonomyKind::States, state).into_iter();
            within.map(|(term, count)| facts.fact(kind, term, Some(count))).collect()
        }
        None => facts.largest(kind).into_iter().take(CITIES).collect(),
    };
    cities.sort_by_key(|city| (city.label.to_lowercase(), city.slug));
    cities
}

/// A choice among terms; includes the chosen one in any case.
fn choice(kind: TaxonomyKind, title: &str, all: &str, terms: &[TermFact<'_>], query: &ListQuery) -> Markup {
    let (name, chosen) = (kind.parameter(), query.slug(kind));
    let is_missing = |slug: &&str| !terms.iter().any(|term| term.slug == *slug);
    html! {
        label {
            span { (title) }
            select name=(name) id=(name) {
                option value="" { (all) }
                @if let Some(slug) = chosen.filter(is_missing) { option value=(slug) selected { (slug) } }
                @for term in terms {
                    option value=(term.slug) data-label=(term.label) selected[Some(term.slug) == chosen] {
                        (term.label) @if let Some(count) = term.count { " (" (grouped(count)) ")" }
                    }
                }
            }
        }
    }
}

fn table(shown: &Shown<'_>, facts: &PageFacts<'_>) -> Markup {
    html! {
        div .scroll tabindex="0" role="region" aria-labelledby="list-title" {
            table {
                thead {
                    tr { th scope="col" { "Name" } th scope="col" { "City" } th scope="col" { "State" } th scope="col" { "Sport" } th scope="col" .number { "Rating" } th scope="col" { "Data" } }
                }
                tbody #venues {
                    @for (id, venue) in &shown.venues {
                        tr data-lat=[venue.lat] data-lng=[venue.lng] {
                            th scope="row" {
                                a href={ "venues/" (id) } { (venue.name.as_deref().unwrap_or("(no name)")) }
                            }
                            td { (venue.city.as_deref().unwrap_or_default()) }
                            td { (venue.state.as_deref().unwrap_or_default()) }
                            td { (venue.sport.as_deref().map(|sport| facts.label(TaxonomyKind::Sports, sport)).unwrap_or_default()) }
                            td .number { (rating(venue)) }
                            td { a href={ "api/listings/" (id) ".json" } aria-label={ "JSON of " (name_of(venue)) } { "JSON" } }
                        }
                    }
                }
            }
        }
        p #empty hidden[!shown.venues.is_empty()] { "No venue on this page." }
    }
}

fn name_of<'v>(venue: &'v Venue<'_>) -> &'v str {
    venue.name.as_deref().unwrap_or("this venue")
}

/// "4.5 (12)", or nothing.
fn rating(venue: &Venue<'_>) -> String {
    let Some(rating) = venue.rating else { return String::new() };
    // As the script rounds it.
    let rating = (rating * 10.0).round() / 10.0;
    match venue.review_count {
        Some(count) => format!("{rating:.1} ({})", grouped(count)),
        None => format!("{rating:.1}"),
    }
}

fn pager(query: &ListQuery, total: u64) -> Markup {
    let last = query.total_pages(total).max(1);
    html! {
        nav #pager .pager aria-label="Pages of the list" {
            a #prev rel="prev" href=[(query.page > 1).then(|| link(query, (query.page - 1).min(last)))] { "Previous" }
            span #place { "Page " (grouped(query.page)) " of " (grouped(last)) }
            a #next rel="next" href=[(query.page < last).then(|| link(query, query.page + 1))] { "Next" }
        }
    }
}

/// The same filters on another page of this explorer.
fn link(query: &ListQuery, page: u64) -> String {
    let mut text = String::new();
    query.with_page(page).write(page, &mut text);
    text.replacen("/api/listings.json", "explore", 1)
}

/// The API request for the shown venues.
fn request(site: &Site, query: &ListQuery) -> Markup {
    let path = query.path_and_query();
    html! {
        section .request aria-labelledby="request-title" {
            h2 #request-title { "The same from the API" }
            p {
                code #api-url data-base=(site.public_url) { (site.public_url) (path) }
                " " button #copy type="button" hidden { "Copy" }
                " " a #api-link href=(path.trim_start_matches('/')) { "Open" }
            }
            p #answered .small role="status" {}
        }
    }
}
