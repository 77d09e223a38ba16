//! Surroundings of a venue: a map, ways to go there, and the nearest other venues.
//!
//! Callers: [`super`].

use maud::{Markup, html};

use crate::api::listing::{Summary, Venue};
use crate::api::taxonomy::TaxonomyKind;
use crate::edge::pages::Pages;
use crate::edge::pages::facts::{PageFacts, name_of};
use crate::edge::pages::map::{Map, map};
use crate::edge::pages::places::{miles, place, written};

/// So many other venues are listed, within so many metres.
const MOST_NEAR: usize = 8;
const NEAR: f64 = 50_000.0;

/// The map and the venues near; nothing if the place is not known.
pub(super) fn surroundings(pages: &Pages, facts: &PageFacts<'_>, summary: &Summary, name: &str) -> Markup {
    let dataset = facts.dataset;
    let own = dataset.position(summary.id);
    let here = place(&Venue::read(&summary.raw)).zip(own);
    let Some((point, own)) = here else { return html! {} };
    let label = format!("Map of the surroundings of {name}");
    let near = pages.places.nearest(dataset, (point, own), MOST_NEAR, NEAR);
    let near = near.into_iter().filter_map(|(at, metres)| Some((dataset.content.summaries.get(at as usize)?, metres)));
    let near: Vec<(&Summary, u32)> = near.collect();
    html! {
        (map(pages, &Map { label: &label, up: "../", here: Some((point, name)), ..Map::default() }, ""))
        p .actions {
            a href={ "https://www.google.com/maps/dir/?api=1&destination=" (written(point)) } rel="nofollow noreferrer" { "Directions (Google Maps)" }
            a href={ "https://www.openstreetmap.org/directions?to=" (written(point)) } rel="nofollow noreferrer" { "Directions (OpenStreetMap)" }
        }
        @if !near.is_empty() {
            section aria-labelledby="near" {
                h2 #near { "Near it" }
                ul .found {
                    @for (other, metres) in near {
                        @let venue = Venue::read(&other.raw);
                        li data-at=[place(&venue).map(written)] {
                            a href=(other.id) { (facts.room.short(name_of(&venue))) }
                            span .small {
                                @if let Some(sport) = venue.sport.as_deref() { " · " (facts.room.short(facts.label(TaxonomyKind::Sports, sport))) }
                                " · " (miles(metres))
                            }
                        }
                    }
                }
            }
        }
    }
}
