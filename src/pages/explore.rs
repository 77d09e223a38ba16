//! The finder: venues by words, place, sport, state and city, as a list and as dots on a map; and its widget for other
//! sites.
//!
//! All of it is rendered here, so it works without a script; `static/explore.js` makes it quicker. Callers:
//! [`super::Pages::render`].

mod words;

use std::sync::Arc;

use maud::{DOCTYPE, Markup, html};

use crate::api::listing::Venue;
use crate::api::query::finder::FinderQuery;
use crate::api::query::search::{MOST_CHARACTERS, Order};
use crate::api::route::DumpKind;
use crate::api::taxonomy::TaxonomyKind;
use crate::search::index::{Hit, Hits};
use crate::semantics::excerpt;
use crate::words::grouped;

use super::Pages;
use super::facts::{Namesakes, PageFacts, TermFact, is_offered};
use super::layout::{self, NavigationItem, instant};
use super::map::{Drawn, draw_around, map, place_of};
use super::room::{MOST_OF_A_TEXT, allowed};

use words::{distance, left_out, off_map, rating, summary_of, unknown_terms};

/// Cities to choose from while no state is chosen: the largest.
const CITIES: usize = 200;

/// More venues are not listed in the widget.
const IN_WIDGET: usize = 10;

/// The markup of a row and of a choice, in bytes. Numbers may have 300 digits, and a row has the name twice.
const ROW: usize = 2500;
const OPTION: usize = 80;

/// What the query leaves.
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
    drawn: Drawn,
    /// Of all cities; of none if a state is chosen, which tells them apart.
    namesakes: Arc<Namesakes>,
}

impl<'a> Shown<'a> {
    fn of(pages: &Pages, facts: &PageFacts<'a>, query: &'a FinderQuery, hits: Option<&'a Hits>) -> Self {
        let (dataset, list) = (facts.dataset, &query.search.list);
        let listed = || {
            let positions = dataset.positions(&list.slugs).ok()?;
            Some(positions.iter().map(|position| Hit { position: *position, metres: None }).collect::<Vec<_>>())
        };
        let found = hits.map_or_else(listed, |hits| Some(hits.page.clone()));
        let total = hits.map(|hits| hits.total).or(found.as_ref().map(|found| found.len() as u64));
        let found = found.unwrap_or_default();
        let positions: Vec<u32> = found.iter().map(|hit| hit.position).collect();
        let near = query.search.near.as_ref().and_then(|near| draw_around(dataset, &positions, near));
        let drawn = near.unwrap_or_else(|| pages.dots.draw(dataset, &positions));
        // Of a search that finds more, the rest is not shown.
        let last = list.total_pages(found.len() as u64).max(1);
        let page = list.page.min(last);
        let from = usize::try_from((page - 1) * u64::from(list.per_page)).unwrap_or(usize::MAX);
        let on_page = found.iter().skip(from).take(list.per_page.into());
        let venues = on_page.filter_map(|hit| {
            let summary = dataset.content.summaries.get(hit.position as usize)?;
            Some((summary.id.0, Venue::read(&summary.raw), hit.metres))
        });
        let state = list.slug(TaxonomyKind::States);
        let is_chosen = state.is_some_and(|state| dataset.membership(TaxonomyKind::States, state).is_some());
        let namesakes = || pages.namesakes.get_or_make(dataset.id.clone(), || facts.namesakes().into());
        let namesakes = if is_chosen { Arc::default() } else { namesakes() };
        let ignored = hits.map_or(&[][..], |hits| &hits.ignored);
        Self { query, page, last, total, venues: venues.collect(), ignored, drawn, namesakes }
    }
}

pub(super) fn page<'a>(
    pages: &Pages,
    facts: &PageFacts<'a>,
    (query, hits): (&'a FinderQuery, Option<&'a Hits>),
) -> String {
    let shown = Shown::of(pages, facts, query, hits);
    let states = facts.terms(TaxonomyKind::States);
    let label = format!("Map of the United States with {}", summary_of(&shown, facts));
    let chosen = query.search.list.slug(TaxonomyKind::States);
    let is_zoomed = query.selects() || chosen.is_some() || query.search.list.slug(TaxonomyKind::Cities).is_some();
    let drawn = map(&states, chosen, (&shown.drawn, ""), is_zoomed, &label);
    if query.is_embedded {
        return widget(pages, &shown, facts, &drawn);
    }
    let is_near = query.search.near.is_some();
    // The venues have room before the choices.
    let table = table(&shown, facts);
    let main = html! {
        h1 { "Find a venue" }
        (filters(facts, &shown, &states))
        p #summary .summary role="status" { (summary_of(&shown, facts)) }
        p #hint .notice { (left_out(&shown)) (unknown_terms(&shown, facts)) }
        p #notice .notice role="alert" hidden {}
        div .explorer .near[is_near] {
            figure .map {
                (drawn)
                figcaption #off-map .small { (off_map(&shown)) }
            }
            div .results {
                h2 #list-title { "Venues" }
                (table)
                (pager(&shown))
            }
        }
        (request(&pages.site.public_url, &shown))
        @if let Some(at) = &facts.confirmed {
            p .small { "Confirmed " (instant(at)) }
        }
    };
    layout::page(
        pages,
        (NavigationItem::Explore, "Find a venue"),
        &["age.js", "copy.js", "explore.js"],
        Some(facts),
        &main,
    )
}

/// The widget: what fits a frame of 280 pixels on another site. Its links open beside that site.
fn widget(pages: &Pages, shown: &Shown<'_>, facts: &PageFacts<'_>, drawn: &Markup) -> String {
    let title = summary_of(shown, facts);
    let is_in_one_state = shown.query.search.list.slug(TaxonomyKind::States).is_some();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (layout::head(pages, "", &title, (&["style.css"], &[]), &html! {}))
            body .widget {
                main {
                    h1 { (title) }
                    figure .map { (drawn) }
                    ul .found {
                        @for (id, venue, metres) in shown.venues.iter().take(IN_WIDGET) {
                            li {
                                a href={ "venues/" (id) } target="_blank" rel="noopener" { (facts.room.short(venue.name.as_deref().unwrap_or("(no name)"))) }
                                span .small {
                                    @for text in venue.city.iter().chain(venue.state.iter().filter(|_| !is_in_one_state)) { " · " (facts.room.short(text)) }
                                    @if let Some(metres) = metres { " · " (distance(*metres)) }
                                }
                            }
                        }
                    }
                    @if shown.venues.is_empty() { p .small { (unknown_terms(shown, facts)) "No venue matches." } }
                }
                footer {
                    p {
                        a href=(shown.query.link("explore", 1)) target="_blank" rel="noopener" {
                            @match shown.total {
                                Some(total) if total > IN_WIDGET as u64 => { "All " (grouped(total)) ", with filters" }
                                _ => "Find more venues",
                            }
                        }
                    }
                    (layout::credit_line(Some(&facts.credit)))
                }
            }
        }
    };
    allowed(page.into_string())
}

fn filters(facts: &PageFacts<'_>, shown: &Shown<'_>, states: &[TermFact<'_>]) -> Markup {
    let query = shown.query;
    let (search, list) = (&query.search, &query.search.list);
    let state = list.slug(TaxonomyKind::States);
    let place = search.own_filters().filter(|(name, _)| *name != "q");
    html! {
        form #filters .filters action="explore" method="get" role="search" aria-label="Find venues" {
            label .words {
                span { "Name, city or sport" }
                input #q type="search" name="q" value=[search.text.as_deref()] maxlength=(MOST_CHARACTERS) autocomplete="off" spellcheck="false";
            }
            (choice(TaxonomyKind::Sports, "Sport", "All sports", &facts.terms(TaxonomyKind::Sports), (shown, facts)))
            (choice(TaxonomyKind::States, "State", "All states", states, (shown, facts)))
            (choice(TaxonomyKind::Cities, "City", "All cities", &cities(facts, state), (shown, facts)))
            label {
                span { "Order" }
                select #sort name="sort" {
                    @for (order, text) in ORDERS {
                        @let text = if order == Order::Usual && search.near.is_some() { "Nearest" } else { text };
                        option value=(order.as_str()) selected[order == search.order] { (text) }
                    }
                }
            }
            @for (name, value) in place { input .place type="hidden" name=(name) value=(value); }
            button type="submit" { "Find" }
            button #locate .quiet type="button" aria-pressed=(search.near.is_some()) hidden { "Near me" }
            a .reset href="explore" { "Reset" }
        }
    }
}

const ORDERS: [(Order, &str); 4] = [
    (Order::Usual, "Best match"),
    (Order::Name, "Name"),
    (Order::Rating, "Best rated"),
    (Order::Reviews, "Most reviews"),
];

/// The cities to choose from, by name: those of the state, else the largest.
fn cities<'a>(facts: &PageFacts<'a>, state: Option<&str>) -> Vec<TermFact<'a>> {
    let kind = TaxonomyKind::Cities;
    let mut cities: Vec<TermFact<'a>> = match state {
        Some(state) => {
            let within = facts.dataset.terms_within(kind, TaxonomyKind::States, state).into_iter();
            let offered = within.filter(|(term, _)| is_offered(term));
            offered.map(|(term, count)| facts.fact(kind, term, Some(count))).collect()
        }
        None => facts.largest(kind).into_iter().take(CITIES).collect(),
    };
    cities.sort_by_cached_key(|city| (excerpt::start(city.label, MOST_OF_A_TEXT).to_lowercase(), city.slug));
    cities
}

/// A choice among terms; includes the chosen one in any case.
fn choice(
    kind: TaxonomyKind,
    title: &str,
    all: &str,
    terms: &[TermFact<'_>],
    (shown, facts): (&Shown<'_>, &PageFacts<'_>),
) -> Markup {
    let (name, chosen) = (kind.parameter(), shown.query.search.list.slug(kind));
    let room = &facts.room;
    let namesake = |slug: &str| shown.namesakes.get(slug).filter(|_| kind == TaxonomyKind::Cities);
    let is_missing = |slug: &&str| !terms.iter().any(|term| term.slug == *slug);
    html! {
        label {
            span { (title) }
            select name=(name) id=(name) {
                option value="" { (all) }
                @if let Some(slug) = chosen.filter(is_missing) { option value=(slug) selected { (room.short(slug)) } }
                @for term in terms.iter().take_while(|term| room.takes(OPTION) && room.fits(term.slug)) {
                    option value=(term.slug) data-label=(room.short(term.label)) selected[Some(term.slug) == chosen] {
                        (room.short(namesake(term.slug).map_or(term.label, String::as_str))) @if let Some(count) = term.count { " (" (grouped(count)) ")" }
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
                    tr { th scope="col" { "Name" } th scope="col" { "City" } th scope="col" { "State" } th scope="col" .number .distance { "Distance" } th scope="col" { "Sport" } th scope="col" .number { "Rating" } th scope="col" { "Data" } }
                }
                tbody #venues {
                    @for (id, venue, metres) in shown.venues.iter().take_while(|_| facts.room.takes(ROW)) {
                        @let at = place_of(venue, shown.drawn.is_around());
                        tr data-x=[at.map(|(x, _)| x)] data-y=[at.map(|(_, y)| y)] {
                            @let name = facts.room.short(venue.name.as_deref().unwrap_or("(no name)"));
                            th scope="row" { a href={ "venues/" (id) } { (name) } }
                            td { (facts.room.short(venue.city.as_deref().unwrap_or_default())) }
                            td { (facts.room.short(venue.state.as_deref().unwrap_or_default())) }
                            td .number .distance { (metres.map(distance).unwrap_or_default()) }
                            td { (facts.room.short(venue.sport.as_deref().map(|sport| facts.label(TaxonomyKind::Sports, sport)).unwrap_or_default())) }
                            td .number { (rating(venue)) }
                            td { a href={ "api/listings/" (id) ".json" } aria-label={ "JSON of " (name) } { "JSON" } }
                        }
                    }
                }
            }
        }
        p #empty hidden[!shown.venues.is_empty()] { "No venue matches. Remove a word or a filter." }
    }
}

fn pager(shown: &Shown<'_>) -> Markup {
    let (page, last) = (shown.page, shown.last);
    let link = |to: u64| shown.query.link("explore", to);
    html! {
        nav #pager .pager aria-label="Pages of the list" hidden[last == 1] {
            a #prev rel="prev" href=[(page > 1).then(|| link(page - 1))] { "Previous" }
            span #place { "Page " (grouped(page)) " of " (grouped(last)) }
            a #next rel="next" href=[(page < last).then(|| link(page + 1))] { "Next" }
        }
    }
}

/// The API request for the shown venues, the same as files, and the widget.
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
    let file = |kind: DumpKind| query.file(kind.path().trim_start_matches('/'));
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
            p #downloads {
                @if !shown.ignored.is_empty() {
                    "Files: take out the words that were left out to save these venues as CSV or GeoJSON."
                } @else {
                    "As a file: " a href=(file(DumpKind::Csv)) { "CSV" } ", "
                    a href=(file(DumpKind::Geojson)) { "GeoJSON" } ", "
                    a href=(file(DumpKind::Ndjson)) { "NDJSON" }
                }
            }
            details {
                summary { "Embed this" }
                p .small { "Put this into a page of yours. It shows these venues, with the credit that their licence asks for." }
                p { code #widget { (widget) } " " (layout::copy_button("widget", None)) }
            }
        }
    }
}
