//! Headline of a venue: what it is and where, in a line with links, and for the head of its page.
//!
//! Callers: [`super`].

use maud::{Markup, html};

use crate::api::listing::{Summary, Venue};
use crate::api::taxonomy::{TaxonomyKind, Term};
use crate::edge::pages::Pages;
use crate::edge::pages::facts::{PageFacts, is_address};
use crate::edge::pages::layout::shared;
use crate::edge::pages::tiles::escaped;

/// The term of a kind that has this label, or slug, and this listing.
fn term<'a>(facts: &PageFacts<'a>, kind: TaxonomyKind, text: &str, position: u32) -> Option<&'a Term> {
    let dataset = facts.dataset;
    let mut named = dataset.terms(kind).iter().filter(|term| term.slug == text || dataset.label(kind, term) == text);
    named.find(|term| {
        let positions = dataset.membership(kind, &term.slug).and_then(|known| known.positions());
        positions.is_some_and(|positions| positions.contains(position))
    })
}

/// "Golf in Austin, Texas"; each leads to its venues.
pub(super) fn where_it_is(facts: &PageFacts<'_>, summary: &Summary) -> Markup {
    let venue = Venue::read(&summary.raw);
    let position = facts.dataset.position(summary.id).unwrap_or(u32::MAX);
    let linked = |kind: TaxonomyKind, text: &str| {
        let term = term(facts, kind, text, position).filter(|term| facts.room.fits(&term.slug));
        let shown = facts.room.text(term.map_or(text, |term| facts.dataset.label(kind, term)));
        html! {
            @match term {
                Some(term) => a href={ "../explore?" (kind.parameter()) "=" (escaped(&term.slug)) } { (shown) },
                None => (shown),
            }
        }
    };
    let places = [(TaxonomyKind::Cities, venue.city.as_deref()), (TaxonomyKind::States, venue.state.as_deref())];
    let places: Vec<(TaxonomyKind, &str)> = places.into_iter().filter_map(|(kind, text)| Some((kind, text?))).collect();
    html! {
        @if let Some(sport) = venue.sport.as_deref() {
            (linked(TaxonomyKind::Sports, sport)) @if !places.is_empty() { " in " }
        }
        @for (nth, (kind, text)) in places.into_iter().enumerate() { @if nth > 0 { ", " } (linked(kind, text)) }
    }
}

/// The provider's page as the canonical one, and what is shown where somebody shares the link.
pub(super) fn described(pages: &Pages, facts: &PageFacts<'_>, summary: &Summary, name: &str) -> Markup {
    let venue = Venue::read(&summary.raw);
    let sport = venue.sport.as_deref().map_or("Sports venue", |sport| facts.label(TaxonomyKind::Sports, sport));
    let places: Vec<&str> = [&venue.city, &venue.state].into_iter().flatten().map(|place| &**place).collect();
    let mut text = sport.to_owned();
    if !places.is_empty() {
        text.extend([" in ", &places.join(", ")]);
    }
    let canonical = venue.url.as_deref().filter(|url| is_address(url) && facts.room.fits(url));
    html! {
        @if let Some(url) = canonical { link rel="canonical" href=(url); }
        (shared(pages, &facts.room, (name, &format!("{name}: {text}")), &format!("venues/{}", summary.id)))
    }
}
