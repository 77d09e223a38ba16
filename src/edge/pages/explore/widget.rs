//! The widget: what fits a frame of 280 pixels on another site. Its links to venues open beside that site.
//!
//! Callers: [`super::super::Pages::render`].

use maud::html;

use crate::api::taxonomy::TaxonomyKind;
use crate::edge::pages::Pages;
use crate::edge::pages::facts::{PageFacts, name_of};
use crate::edge::pages::layout;
use crate::edge::pages::map::SCRIPTS;
use crate::edge::pages::places::{miles, place, written};
use crate::words::grouped;

use super::words::{rating, summary_of, unknown_terms};
use super::{Asked, Shown, drawn, pager};

pub(in crate::edge::pages) fn widget<'a>(pages: &Pages, facts: &PageFacts<'a>, (query, hits): Asked<'a>) -> String {
    let shown = &Shown::of(pages, facts, query, hits);
    let summary = summary_of(shown, facts);
    let own = query.look.title.as_deref().map(|title| facts.room.short(title));
    let title = own.as_deref().unwrap_or(&summary);
    let is_in_one_state = query.search.list.slug(TaxonomyKind::States).is_some();
    let main = html! {
        h1 { (title) @if own.is_some() { " " span .small { (summary) } } }
        (drawn(pages, shown, facts))
        div .list {
            ul .found {
                @for (id, venue, metres) in &shown.venues {
                    li data-at=[place(venue).map(written)] {
                        a href={ "venues/" (id) } target="_blank" rel="noopener" { (facts.room.short(name_of(venue))) }
                        span .small {
                            @for text in venue.city.iter().chain(venue.state.iter().filter(|_| !is_in_one_state)) { " · " bdi { (facts.room.short(text)) } }
                            @if let Some(metres) = metres { " · " (miles(*metres)) }
                            @if venue.rating.is_some() { " · " span .rating { (rating(venue)) } }
                        }
                    }
                }
            }
            @if shown.venues.is_empty() { p .small { (unknown_terms(shown, facts)) "No venue matches." } }
            (pager(shown))
        }
    };
    let footer = html! {
        p {
            a href=(query.link("explore", 1)) target="_blank" rel="noopener" {
                @match shown.total {
                    Some(total) if shown.last > 1 => { "All " (grouped(total)) ", with filters" }
                    _ => "Find more venues",
                }
            }
        }
        (layout::credit_line(Some(&facts.credit)))
    };
    layout::framed(pages, (title, query.look.theme), &SCRIPTS, (&main, &footer))
}
