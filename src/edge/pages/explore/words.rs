//! Wording of the finder: how many venues there are, of what and where, and which words of the query mean nothing.
//!
//! Callers: [`super`].

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::api::folding::{each_word, folded};
use crate::api::listing::Venue;
use crate::api::query::finder::FinderQuery;
use crate::api::query::search::PER_DEGREE;
use crate::api::taxonomy::TaxonomyKind;

use super::{Shown, settle};
use crate::edge::pages::MOST_SHOWN;
use crate::edge::pages::facts::PageFacts;
use crate::edge::pages::room::PageRoom;
use crate::words::grouped;

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
        let point = || format!("{lat}, {lng}");
        let place = shown.query.place.as_deref().map_or_else(point, |place| facts.room.short(place).into_owned());
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma} within {} of {place}", radius(near.radius));
    }
    text
}

/// The name of a term; of a city with its state if it needs one.
pub(super) fn term_name<'s>(
    shown: &'s Shown<'_>,
    facts: &'s PageFacts<'_>,
    kind: TaxonomyKind,
    slug: &'s str,
) -> &'s str {
    let namesake = shown.names.namesakes.get(slug).filter(|_| kind == TaxonomyKind::Cities && !shown.has_state);
    namesake.map_or_else(|| facts.label(kind, slug), String::as_str)
}

/// "2.4 mi", "31 mi".
pub(super) fn radius(metres: u32) -> String {
    let miles = (f64::from(metres) / 160.934_4).round() / 10.0;
    let shown = if miles < 10.0 { miles } else { miles.round() };
    if miles > 0.0 { format!("{shown}\u{a0}mi") } else { format!("{metres}\u{a0}m") }
}

/// The words that nothing has, and the parameters that mean nothing.
pub(super) fn left_out(shown: &Shown<'_>, room: &PageRoom) -> Markup {
    html! {
        @if !shown.ignored.is_empty() { "Left out: \u{201c}" (shown.ignored.join(" ")) "\u{201d}. " }
        @for said in &shown.query.left_out { "Left out: " (room.text(said)) ". " }
    }
}

/// A name whose words are marked where they begin as one that is looked for.
pub(super) fn marked(name: &str, words: &[Box<str>]) -> Markup {
    let is_wanted = |part: &str| {
        let mut is_wanted = false;
        each_word(&folded(part), false, |word| is_wanted |= words.iter().any(|wanted| word.starts_with(&**wanted)));
        is_wanted
    };
    html! {
        @for part in name.split_inclusive(|letter: char| !letter.is_alphanumeric()) {
            @let word = part.trim_end_matches(|letter: char| !letter.is_alphanumeric());
            @if !words.is_empty() && is_wanted(word) { mark { (word) } (part[word.len()..]) } @else { (part) }
        }
    }
}

/// The slugs of the query that no term has.
fn unknown<'a>(shown: &'a Shown<'_>, facts: &PageFacts<'_>) -> impl Iterator<Item = (TaxonomyKind, &'a str)> {
    TaxonomyKind::ALL.into_iter().filter_map(|kind| {
        let slug = shown.query.search.list.slug(kind)?;
        facts.dataset.membership(kind, slug).is_none().then_some((kind, slug))
    })
}

pub(super) fn has_unknown_term(shown: &Shown<'_>, facts: &PageFacts<'_>) -> bool {
    unknown(shown, facts).next().is_some()
}

/// For each slug that no term has, the terms that may be meant, as links.
pub(super) fn unknown_terms(shown: &Shown<'_>, facts: &PageFacts<'_>) -> Markup {
    let unknown = unknown(shown, facts);
    let link = |kind: TaxonomyKind, slug: &str| {
        let mut meant = shown.query.clone();
        meant.search.list.slugs[kind.index()] = Some(slug.into());
        meant.link("explore", 1)
    };
    // What is beside the widget has no form, and its frame takes no page.
    let is_embedded = shown.query.is_embedded();
    html! {
        @for (kind, slug) in unknown {
            @let meant = if kind == TaxonomyKind::Cities {
                settle::meant(&shown.names, facts, slug, shown.query.search.list.slug(TaxonomyKind::States))
            } else {
                facts.meant(kind, &shown.names, slug)
            };
            "There is no " (kind.parameter()) " with the slug \u{201c}" (facts.room.short(slug)) "\u{201d}. "
            @if meant.is_empty() {
                @if !is_embedded { "Choose one in the form above. " }
            } @else {
                "Do you mean "
                @for (nth, term) in meant.iter().enumerate() {
                    @let name = term_name(shown, facts, kind, &term.slug);
                    @if nth > 0 { " or " }
                    a href=(link(kind, &term.slug)) target=[is_embedded.then_some("_blank")] rel=[is_embedded.then_some("noopener")] { (facts.room.short(name)) }
                    @if !name.contains(&term.slug) { " (" (facts.room.short(&term.slug)) ")" }
                }
                "? "
            }
        }
    }
}

/// Links to other cities with the name of the place.
pub(super) fn other_places(shown: &Shown<'_>, facts: &PageFacts<'_>) -> Markup {
    let Some(place) = shown.query.place.as_deref() else { return html! {} };
    let name = place.split(',').next().unwrap_or(place);
    let found = settle::meant(&shown.names, facts, name, None).into_iter();
    let names = found.map(|term| term_name(shown, facts, TaxonomyKind::Cities, &term.slug));
    let others: Vec<&str> = names.filter(|other| *other != place).collect();
    let link = |name: &str| FinderQuery { place: Some(name.into()), ..shown.query.clone() }.link("explore", 1);
    html! {
        @if !others.is_empty() {
            "Or near "
            @for (nth, name) in others.iter().enumerate() {
                @if nth > 0 { " or " }
                a href=(link(name)) { (facts.room.short(name)) }
            }
            "? "
        }
    }
}

/// What the map does not show.
pub(super) fn off_map(shown: &Shown<'_>) -> String {
    if shown.total > Some(u64::from(MOST_SHOWN)) && shown.query.searches() {
        let first = if shown.query.search.near.is_some() { "nearest" } else { "best" };
        return format!("The {first} {} are shown.", grouped(MOST_SHOWN.into()));
    }
    match shown.total.unwrap_or(0).saturating_sub(shown.extent.placed as u64) {
        0 => String::new(),
        1 => "1 of them has no coordinates.".to_owned(),
        missing => format!("{} of them have no coordinates.", grouped(missing)),
    }
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
    fn the_words_that_are_looked_for_are_marked_and_the_name_stays_text() {
        let marked = |name: &str, words: &[&str]| {
            marked(name, &words.iter().map(|word| (*word).into()).collect::<Vec<_>>()).into_string()
        };
        assert_eq!(
            marked("Golfers' <Peña> Club", &["golf", "pena"]),
            "<mark>Golfers</mark>' &lt;<mark>Peña</mark>&gt; Club"
        );
        assert_eq!(marked("A golf-club", &[]), "A golf-club");
    }

    #[test]
    fn a_radius_is_in_miles() {
        assert_eq!([1, 1_609, 20_000, 50_000].map(radius), ["1\u{a0}m", "1\u{a0}mi", "12\u{a0}mi", "31\u{a0}mi"]);
    }
}
