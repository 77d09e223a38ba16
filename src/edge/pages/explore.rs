//! Finder: venues by words, place, sport, state and city, as a list and on a map; and its widget for other sites.
//!
//! All of it is rendered here, so it works without a script; `static/explore.js` makes it quicker. Callers:
//! [`super::Pages::render`].

pub(super) mod settle;
mod widget;
mod words;

use std::sync::Arc;

use maud::{Markup, html};

use crate::api::facets::Facets;
use crate::api::listing::Venue;
use crate::api::query::finder::FinderQuery;
use crate::api::query::search::{Bounds, MOST_CHARACTERS, Order};
use crate::api::route::DumpKind;
use crate::api::taxonomy::TaxonomyKind;
use crate::edge::search::index::Hits;
use crate::words::grouped;

use super::Pages;
use super::facts::{PageFacts, TermFact, TermNames, is_offered, name_of};
use super::layout::{self, NavigationItem, instant};
use super::map::{self, Map, map};
use super::places::{Extent, miles, place, written};

pub(super) use widget::widget;
use words::{has_unknown_term, left_out, marked, off_map, other_places, rating, summary_of, term_name, unknown_terms};

/// So many cities are suggested: those of the state, else the largest. Any other can be written.
const CITIES: usize = 500;

/// Distances to choose from, in miles, and as `radius`, in kilometres; empty: the usual one.
const RADII: [(&str, &str); 8] = [
    ("5 miles", "8.047"),
    ("10 miles", "16.093"),
    ("20 miles", "32.187"),
    ("25 miles", "40.234"),
    ("31 miles", ""),
    ("50 miles", "80.467"),
    ("100 miles", "160.934"),
    ("250 miles", "402.336"),
];

/// The markup of a row and of a choice, in bytes. Numbers may have 300 digits, and a row has the name twice.
const ROW: usize = 2500;
const OPTION: usize = 80;

struct Shown<'a> {
    query: &'a FinderQuery,
    /// The page, from 1, and the last one.
    page: u64,
    last: u64,
    /// How many; `None` while that is in doubt.
    total: Option<u64>,
    /// The page's venues, each with its id, and its distance in metres.
    venues: Vec<(u64, Venue<'a>, Option<u32>)>,
    /// Words of the query that were left out.
    ignored: &'a [Box<str>],
    extent: Extent,
    names: Arc<TermNames>,
    /// Whether a state is chosen, which tells cities of one name apart.
    has_state: bool,
    /// How many of the venues each sport and each state has; `None`: the venues are all that there are.
    facets: Option<Facets>,
}

impl<'a> Shown<'a> {
    fn of(pages: &Pages, facts: &PageFacts<'a>, query: &'a FinderQuery, hits: Option<&'a Hits>) -> Self {
        let (dataset, list) = (facts.dataset, &query.search.list);
        let positions = positions(facts, query, hits);
        let total = hits.map(|hits| hits.total).or(positions.as_ref().map(|found| found.len() as u64));
        let positions = positions.unwrap_or_default();
        let extent = pages.places.extent(dataset, &positions);
        // Of a search that finds more, the rest is not shown.
        let last = list.total_pages(positions.len() as u64).max(1);
        let page = list.page.min(last);
        let from = usize::try_from((page - 1) * u64::from(list.per_page)).unwrap_or(usize::MAX);
        let on_page = positions.iter().enumerate().skip(from).take(list.per_page.into());
        let venues = on_page.filter_map(|(at, position)| {
            let summary = dataset.content.summaries.get(*position as usize)?;
            let metres = hits.and_then(|hits| hits.page.get(at)?.metres);
            Some((summary.id.0, Venue::read(&summary.raw), metres))
        });
        let state = list.slug(TaxonomyKind::States);
        let has_state = state.is_some_and(|state| dataset.membership(TaxonomyKind::States, state).is_some());
        let names = pages.term_names(facts);
        let ignored = hits.map_or(&[][..], |hits| &hits.ignored);
        let found = || dataset.facets(&positions.iter().copied().collect());
        let facets = hits.and_then(|hits| hits.facets.clone()).or_else(|| list.is_filtered().then(found));
        Self { query, page, last, total, venues: venues.collect(), ignored, extent, names, has_state, facets }
    }
}

/// A query, and what the search has found; `None`: it does not search.
type Asked<'a> = (&'a FinderQuery, Option<&'a Hits>);

/// The positions of all venues of a query; `None` while that is in doubt.
fn positions(facts: &PageFacts<'_>, query: &FinderQuery, hits: Option<&Hits>) -> Option<Vec<u32>> {
    let found = |hits: &Hits| Some(hits.page.iter().map(|hit| hit.position).collect());
    hits.map_or_else(|| facts.dataset.positions(&query.search.list.slugs).ok(), found)
}

/// The points of a query in a part of the earth, for the map: JSON.
pub(super) fn points(pages: &Pages, facts: &PageFacts<'_>, (query, hits): Asked<'_>, view: Option<Bounds>) -> String {
    let positions = positions(facts, query, hits).unwrap_or_default();
    pages.places.json(facts.dataset, &positions, view, &facts.room)
}

fn drawn(pages: &Pages, shown: &Shown<'_>, facts: &PageFacts<'_>) -> Markup {
    let label = format!("Map of {}", summary_of(shown, facts));
    // The list has its points; where it has only a part of them, the script asks for the rest.
    let points = (shown.last > 1).then(|| shown.query.points());
    let near = shown.query.search.near.as_ref();
    map(pages, &Map { label: &label, extent: Some(shown.extent), points, near, ..Map::default() }, &off_map(shown))
}

pub(super) fn page<'a>(pages: &Pages, facts: &PageFacts<'a>, (query, hits): Asked<'a>) -> String {
    let shown = Shown::of(pages, facts, query, hits);
    // The venues have room before the choices.
    let table = table(&shown, facts);
    let main = html! {
        h1 { "Find a venue" }
        (filters(facts, &shown))
        p #summary .summary role="status" { (summary_of(&shown, facts)) }
        p #hint .notice { (left_out(&shown, &facts.room)) (unknown_terms(&shown, facts)) (other_places(&shown, facts)) }
        p #notice .notice role="alert" hidden {}
        (files(&shown, shown.venues.is_empty() || has_unknown_term(&shown, facts)))
        div .explorer .near[query.search.near.is_some()] {
            (drawn(pages, &shown, facts))
            div .results {
                h2 #list-title { "Venues" }
                (table)
                (pager(&shown))
            }
        }
        (request(&pages.site.public_url, &shown))
        (cities(facts, &shown))
        @if let Some(at) = &facts.confirmed {
            p .small { "Confirmed " (instant(at)) }
        }
    };
    let found = summary_of(&shown, facts);
    let summary = format!("{found}: list, map and files");
    let is_all = query.search.is_empty();
    let title = if is_all { "Find a venue".into() } else { facts.room.short(&found) };
    let more = layout::shared(pages, &facts.room, ("Find a venue", &summary), &query.link("explore", shown.page));
    layout::page_below(
        pages,
        "",
        (Some(NavigationItem::Explore), &title),
        &[map::SCRIPTS[0], map::SCRIPTS[1], "age.js", "copy.js", "explore.js"],
        Some(facts),
        (Some(&more), &main),
    )
}

fn filters(facts: &PageFacts<'_>, shown: &Shown<'_>) -> Markup {
    let query = shown.query;
    let (search, list) = (&query.search, &query.search.list);
    let point = search.own_filters().find(|(name, _)| *name == "near").map(|(_, text)| text);
    // What is no place stays there to be corrected.
    let no_place = query.no_place.as_deref().map(|text| facts.room.short(text));
    let near = query.place.as_deref().or(point).or(no_place.as_deref());
    let city = list
        .slug(TaxonomyKind::Cities)
        .map(|slug| facts.room.short(term_name(shown, facts, TaxonomyKind::Cities, slug)));
    let bbox = search.own_filters().find(|(name, _)| *name == "bbox");
    html! {
        form #filters .filters action="explore" method="get" role="search" aria-label="Find venues" {
            label .words {
                span { "Name, city or sport" }
                input #q type="search" name="q" value=[search.text.as_deref()] maxlength=(MOST_CHARACTERS) autocomplete="off" spellcheck="false";
            }
            // On a phone, venues come before choices; what is chosen stands above the venues.
            input #more .more type="checkbox";
            label .toggle for="more" { span .opens { "More choices" } span .closes { "Fewer choices" } }
            a .to-map href="#map" { "Map" }
            (choice(TaxonomyKind::Sports, "Sport", "All sports", (shown, facts)))
            (choice(TaxonomyKind::States, "State", "All states", (shown, facts)))
            label {
                span { "City" }
                input #city type="search" name="city" list="cities" value=[city] placeholder="All cities" autocomplete="off" spellcheck="false";
            }
            label {
                span { "Near" }
                input #near type="search" name="near" list="cities" value=[near] placeholder="A city" autocomplete="off" spellcheck="false";
            }
            (radius(shown))
            label {
                span { "Order" }
                select #sort name="sort" {
                    @for (order, text) in ORDERS {
                        @let text = if order == Order::Usual && search.near.is_some() { "Nearest" } else { text };
                        option value=(order.as_str()) selected[order == search.order] { (text) }
                    }
                }
            }
            @if let Some((name, value)) = bbox { input .place type="hidden" name=(name) value=(value); }
            button type="submit" { "Find" }
            button #locate .quiet type="button" aria-pressed=(search.near.is_some() && query.place.is_none()) hidden { "Near me" }
            a .reset href="explore" { "Reset" }
        }
    }
}

/// How far from the place, in miles; another distance than those to choose from stays one of them.
fn radius(shown: &Shown<'_>) -> Markup {
    let mut own = shown.query.search.own_filters();
    let chosen = own.find(|(name, _)| *name == "radius").map(|(_, text)| text);
    let other = chosen.filter(|chosen| !RADII.iter().any(|(_, km)| km == chosen));
    html! {
        label {
            span { "Within" }
            select #radius name="radius" {
                @if let (Some(km), Some(near)) = (other, &shown.query.search.near) { option value=(km) selected { (words::radius(near.radius)) } }
                @for (text, km) in RADII { option value=(km) selected[km == chosen.unwrap_or_default()] { (text) } }
            }
        }
    }
}

const ORDERS: [(Order, &str); 4] = [
    (Order::Usual, "Best match"),
    (Order::Name, "Name"),
    (Order::Rating, "Best rated (weighed by reviews)"),
    (Order::Reviews, "Most reviews"),
];

/// The cities that are suggested, the largest first. It stands behind the venues, which have room before it.
fn cities(facts: &PageFacts<'_>, shown: &Shown<'_>) -> Markup {
    let (kind, room) = (TaxonomyKind::Cities, &facts.room);
    let mut cities = match shown.query.search.list.slug(TaxonomyKind::States) {
        Some(state) => {
            let within = facts.dataset.terms_within(kind, TaxonomyKind::States, state).into_iter();
            within
                .filter(|(term, _)| is_offered(term))
                .map(|(term, count)| facts.fact(kind, term, Some(count)))
                .collect()
        }
        None => facts.terms(kind),
    };
    cities.sort_by_key(|city| std::cmp::Reverse(city.count));
    html! {
        datalist #cities {
            @for city in cities.iter().take(CITIES).take_while(|_| room.takes(OPTION)) {
                option value=(room.short(term_name(shown, facts, kind, city.slug))) {}
            }
        }
    }
}

/// A choice among terms, each with how many of the venues it leaves; includes the chosen one in any case.
fn choice(kind: TaxonomyKind, title: &str, all: &str, (shown, facts): (&Shown<'_>, &PageFacts<'_>)) -> Markup {
    let (name, chosen) = (kind.parameter(), shown.query.search.list.slug(kind));
    let terms = facts.terms(kind);
    let count = |term: &TermFact<'_>| match &shown.facets {
        // What another term of this kind would leave is not known.
        _ if chosen.is_some() => None,
        Some(_) if facts.dataset.membership(kind, term.slug).is_none_or(|known| known.positions().is_none()) => None,
        Some(facets) => facets.count(kind, term.slug),
        None => term.count,
    };
    let room = &facts.room;
    let is_missing = |slug: &&str| !terms.iter().any(|term| term.slug == *slug);
    html! {
        label {
            span { (title) }
            select name=(name) id=(name) {
                option value="" { (all) }
                @if let Some(slug) = chosen.filter(is_missing) { option value=(slug) selected { (room.short(slug)) } }
                @for term in terms.iter().take_while(|term| room.takes(OPTION) && room.fits(term.slug)) {
                    option value=(term.slug) selected[Some(term.slug) == chosen] {
                        (room.short(term.label)) @if let Some(count) = count(term) { " (" (grouped(count)) ")" }
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
                    tr { th scope="col" { "Name" } th scope="col" { "City" } th scope="col" { "State" } th scope="col" .number .distance { "Distance" } th scope="col" { "Sport" } th scope="col" .number { "Rating" } }
                }
                tbody #venues {
                    @for (id, venue, metres) in shown.venues.iter().take_while(|_| facts.room.takes(ROW)) {
                        tr data-at=[place(venue).map(written)] {
                            th scope="row" { a href={ "venues/" (id) } { (marked(&facts.room.short(name_of(venue)), &shown.query.search.words)) } }
                            td { (facts.room.short(venue.city.as_deref().unwrap_or_default())) }
                            td { (facts.room.short(venue.state.as_deref().unwrap_or_default())) }
                            td .number .distance { (metres.map(miles).unwrap_or_default()) }
                            td { (facts.room.short(venue.sport.as_deref().map(|sport| facts.label(TaxonomyKind::Sports, sport)).unwrap_or_default())) }
                            td .number { (rating(venue)) }
                        }
                    }
                }
            }
        }
        p #empty hidden[!shown.venues.is_empty()] {
            "No venue matches. Remove a word or a filter"
            @if shown.query.search.near.is_some() { ", or choose a larger distance." } @else { ". For a distance, use Near and Within." }
        }
    }
}

fn pager(shown: &Shown<'_>) -> Markup {
    let (page, last) = (shown.page, shown.last);
    let is_embedded = shown.query.is_embedded();
    let link = |to: u64| if is_embedded { shown.query.widget(to) } else { shown.query.link("explore", to) };
    html! {
        nav #pager .pager aria-label="Pages of the list" hidden[last == 1] {
            a #prev rel="prev" href=[(page > 1).then(|| link(page - 1))] { "Previous" }
            span #place { "Page " (grouped(page)) " of " (grouped(last)) }
            a #next rel="next" href=[(page < last).then(|| link(page + 1))] { "Next" }
        }
    }
}

/// The shown venues as files. `is_empty`: there are none.
fn files(shown: &Shown<'_>, is_empty: bool) -> Markup {
    let excel = |csv: &str| format!("{csv}{}bom=1", if csv.contains('?') { '&' } else { '?' });
    let file = |kind: DumpKind| shown.query.file(kind.path().trim_start_matches('/'));
    html! {
        p #downloads .small {
            @if is_empty {
                "Files: there are no venues to save."
            } @else if !shown.ignored.is_empty() {
                "Files: take out the words that were left out to save these venues as CSV or GeoJSON."
            } @else {
                @let csv = file(DumpKind::Csv);
                "As a file: " a href=(excel(&csv)) { "Excel" } ", " a href=(excel(&file(DumpKind::DetailsCsv))) { "Excel with address and hours" } ", " a href=(csv) { "CSV" } ", "
                a href=(file(DumpKind::Geojson)) { "GeoJSON" } ", "
                a href=(file(DumpKind::Ndjson)) { "NDJSON" }
                @if ![Order::Usual, Order::Distance].contains(&shown.query.search.order) { " (not in this order: sort them yourself)" }
            }
            " · " a href="#request-title" { "API request, widget" }
        }
    }
}

/// The API request for the shown venues, and the widget.
fn request(public_url: &str, shown: &Shown<'_>) -> Markup {
    let query = shown.query;
    let list = &query.search.list;
    let mut path = String::new();
    let sorts = query.search.order != Order::Usual;
    if query.searches() && !query.search.is_empty() {
        query.search.write(list.page, &mut path);
    } else {
        list.write(list.page, &mut path);
    }
    let widget = format!(
        "<iframe src=\"{public_url}/{}\" title=\"Sports venues\" width=\"100%\" height=\"480\" style=\"border:0\" loading=\"lazy\"></iframe>",
        query.link("embed", 1)
    );
    html! {
        section .request aria-labelledby="request-title" {
            h2 #request-title { "The same from the API" }
            p {
                code #api-url { (public_url) (path) }
                " " (layout::copy_button("api-url", None))
                " " a #api-link href=(path.trim_start_matches('/')) { "Open" }
            }
            p #api-order .small {
                @if sorts && query.search.is_empty() { "In its own order: the API sorts what a search finds, not the whole list." }
            }
            details {
                summary { "Embed this" }
                p .small { "Put this into a page of yours. It shows these venues, with the credit that their licence asks for." }
                p { code #widget { (widget) } " " (layout::copy_button("widget", None)) }
            }
        }
    }
}
