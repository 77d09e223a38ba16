//! What the finder says: how many venues there are, of what and where, and which words of the query mean nothing.
//!
//! Callers: [`super`].

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::api::listing::Venue;
use crate::api::query::search::PER_DEGREE;
use crate::api::taxonomy::TaxonomyKind;

use super::Shown;
use crate::pages::MOST_SHOWN;
use crate::pages::facts::PageFacts;
use crate::words::grouped;

/// "850 m", "1.2 km", "34 km".
pub(super) fn distance(metres: u32) -> String {
    match metres {
        0..1_000 => format!("{metres} m"),
        1_000..9_950 => format!("{:.1} km", f64::from(metres) / 1000.0),
        _ => format!("{} km", grouped(u64::from(metres + 500) / 1000)),
    }
}

/// What is shown, in words: "1,234 venues, Golf, Texas".
pub(super) fn summary_of(shown: &Shown<'_>, facts: &PageFacts<'_>) -> String {
    let mut text = match shown.total {
        None => "venues (only the origin can list them now: send the API request below)".to_owned(),
        Some(1) => "1 venue".to_owned(),
        Some(total) => format!("{} venues", grouped(total)),
    };
    let search = &shown.query.search;
    if let Some(words) = &search.text {
        text.extend([" for \u{201c}", words, "\u{201d}"]);
    }
    for kind in [TaxonomyKind::Sports, TaxonomyKind::Cities, TaxonomyKind::States] {
        if let Some(slug) = search.list.slug(kind) {
            text.extend([", ", &facts.room.short(term_name(shown, facts, kind, slug))]);
        }
    }
    if let Some(near) = &search.near {
        let [lat, lng] = [near.point.lat, near.point.lng].map(|units| f64::from(units) / PER_DEGREE);
        let comma = if search.list.is_filtered() { "," } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma} within {} of {lat}, {lng}", kilometres(near.radius));
    }
    text
}

/// The name of a term; of a city with its state if it needs one.
fn term_name<'s>(shown: &'s Shown<'_>, facts: &'s PageFacts<'_>, kind: TaxonomyKind, slug: &'s str) -> &'s str {
    let namesake = shown.namesakes.get(slug).filter(|_| kind == TaxonomyKind::Cities);
    namesake.map_or_else(|| facts.label(kind, slug), String::as_str)
}

/// "20 km", as exact as a radius may be.
fn kilometres(metres: u32) -> String {
    format!("{}\u{a0}km", f64::from(metres) / 1000.0)
}

/// The words that nothing has.
pub(super) fn left_out(shown: &Shown<'_>) -> Markup {
    html! {
        @if !shown.ignored.is_empty() { "Left out: \u{201c}" (shown.ignored.join(" ")) "\u{201d}. " }
    }
}

/// For each slug that no term has, the terms that may be meant, as links.
pub(super) fn unknown_terms(shown: &Shown<'_>, facts: &PageFacts<'_>) -> Markup {
    let unknown = TaxonomyKind::ALL.into_iter().filter_map(|kind| {
        let slug = shown.query.search.list.slug(kind)?;
        facts.dataset.membership(kind, slug).is_none().then_some((kind, slug))
    });
    let link = |kind: TaxonomyKind, slug: &str| {
        let mut meant = shown.query.clone();
        meant.search.list.slugs[kind.index()] = Some(slug.into());
        meant.link("explore", 1)
    };
    // What is beside the widget has no form, and its frame takes no page.
    let is_embedded = shown.query.is_embedded;
    html! {
        @for (kind, slug) in unknown {
            @let meant = facts.meant(kind, slug);
            "There is no " (kind.parameter()) " with the slug \u{201c}" (facts.room.short(slug)) "\u{201d}. "
            @if meant.is_empty() {
                @if !is_embedded { "Choose one in the form above. " }
            } @else {
                "Do you mean "
                @for (nth, term) in meant.iter().enumerate() {
                    @if nth > 0 { " or " }
                    a href=(link(kind, &term.slug)) target=[is_embedded.then_some("_blank")] rel=[is_embedded.then_some("noopener")] { (facts.room.short(term_name(shown, facts, kind, &term.slug))) }
                        " (" (facts.room.short(&term.slug)) ")"
                }
                "? "
            }
        }
    }
}

/// What the map does not show by itself.
pub(super) fn off_map(shown: &Shown<'_>) -> String {
    let near = shown.query.search.near.as_ref().filter(|_| shown.drawn.is_around());
    let circle =
        near.map_or_else(String::new, |near| format!("The circle has a radius of {}. ", kilometres(near.radius)));
    let missing = shown.total.unwrap_or(0).saturating_sub(shown.drawn.shown as u64);
    if shown.total > Some(u64::from(MOST_SHOWN)) && shown.query.searches() {
        let first = if shown.query.search.near.is_some() { "nearest" } else { "best" };
        return format!("{circle}The {first} {} are shown.", grouped(MOST_SHOWN.into()));
    }
    if missing == 0 { circle } else { format!("{circle}{} of them are not on this map.", grouped(missing)) }
}

/// "4.5 (12)", or nothing.
pub(super) fn rating(venue: &Venue<'_>) -> String {
    let Some(rating) = venue.rating else { return String::new() };
    let rating = (rating * 10.0).round() / 10.0;
    match venue.review_count {
        Some(count) => format!("{rating:.1} ({})", grouped(count)),
        None => format!("{rating:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_as_exact_as_one_walks() {
        let texts = [0, 999, 1_000, 9_949, 9_950, 1_234_567].map(distance);
        assert_eq!(texts, ["0 m", "999 m", "1.0 km", "9.9 km", "10 km", "1,235 km"]);
    }
}
