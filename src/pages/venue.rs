//! A venue for people: where it is, when it is open, how to reach it, and every other field that the origin sends.
//!
//! Images are links, because pages load nothing from other hosts. Text of the data is escaped, and only `http` and `https`
//! addresses become links. Callers: [`super::Pages::render`].

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use serde_json::{Map, json};

use crate::api::listing::{Summary, Venue};
use crate::api::taxonomy::TaxonomyKind;
use crate::semantics::excerpt;
use crate::snapshot::pointer::Snapshot;
use crate::words::grouped;

use super::Pages;
use super::detail::{Recognised, Topic, Value, plain, recognise};
use super::facts::{PageFacts, is_address};
use super::layout::{instant, page_below};
use super::map::{Drawn, dot, map};

/// A longer text is cut, in bytes; so are lists of images and reviews, and nesting.
const MOST_OF_A_TEXT: usize = 4000;
const MOST_IMAGES: usize = 60;
const MOST_REVIEWS: usize = 40;
const DEEPEST: usize = 8;

/// A detail larger than this is not taken apart, in bytes.
const MOST_OF_A_DETAIL: usize = 1 << 20;

/// The fields of a summary that have a place of their own on the page.
const SHOWN: [&str; 10] = ["id", "name", "url", "city", "state", "sport", "lat", "lng", "rating", "review_count"];

/// Fields that say something to programs only.
const OF_JSON_LD: [&str; 2] = ["@context", "@type"];

/// The days as they are written, from the start of a field's name.
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// What is known of the venue beside its summary.
pub(crate) enum DetailShown {
    /// The origin's text.
    Mirrored(bytes::Bytes),
    /// The origin has none.
    Gone,
    /// It is not mirrored yet.
    Missing,
}

/// What the page shows of the data.
struct VenueFacts<'a> {
    venue: Venue<'a>,
    recognised: Recognised<'a>,
    /// The fields without a place of their own.
    others: Value<'a>,
    /// Whether the page shows every field.
    is_whole: bool,
}

pub(super) fn page(pages: &Pages, published: &Snapshot, summary: &Summary, detail: &DetailShown) -> String {
    let facts = PageFacts::of(published);
    let shown = shown(published, summary, detail);
    let venue = &shown.venue;
    let name = venue.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let name = name.map_or_else(|| format!("Venue {}", summary.id), str::to_owned);
    let json = format!("../api/listings/{}.json", summary.id);
    let main = html! {
        h1 { (name) }
        p .summary { (where_it_is(venue, &facts)) }
        @match detail {
            DetailShown::Mirrored(_) => {}
            DetailShown::Gone => p .notice role="note" { "The provider lists this venue, but has no details of it." },
            DetailShown::Missing => p .notice role="note" {
                "The details of this venue are not mirrored yet: this is what the list of venues says of it."
            },
        }
        div .venue {
            div { (contact(&shown)) (hours(&shown.recognised)) (images(&shown.recognised)) }
            figure .map { (place(&facts, venue, &name)) }
        }
        (reviews(&shown.recognised))
        @if !shown.others.is_empty() {
            section aria-labelledby="others" {
                h2 #others { "More about it" }
                (value(&shown.others, 0))
            }
        }
        @if !shown.is_whole { p { "There is more than fits here: the JSON has all of it." } }
        p .small {
            a href=(json) { "JSON" }
            @if let Some(at) = &facts.confirmed { " · confirmed " (instant(at)) }
        }
        script type="application/ld+json" { (PreEscaped(linked_data(&name, &shown, &facts))) }
    };
    let alternate = html! { link rel="alternate" type="application/json" href=(json); };
    page_below(pages, "../", (None, &name), &["age.js"], Some(&facts), (&alternate, &main))
}

fn shown<'a>(published: &Snapshot, summary: &'a Summary, detail: &'a DetailShown) -> VenueFacts<'a> {
    let summary = std::str::from_utf8(&summary.raw).unwrap_or_default();
    let text = match detail {
        DetailShown::Mirrored(text) => std::str::from_utf8(text).ok(),
        DetailShown::Gone | DetailShown::Missing => None,
    };
    let fits = text.filter(|text| text.len() <= MOST_OF_A_DETAIL);
    let read = fits.and_then(Value::read);
    let is_whole = read.as_ref().map_or(text.is_none(), |(_, is_all)| *is_all);
    let (mut others, _) = read.or_else(|| Value::read(summary)).unwrap_or((Value::Null, true));
    if let Value::Object(fields) = &mut others {
        let said = Value::read(summary);
        let of_summary = |key: &str| match &said {
            Some((Value::Object(fields), _)) => fields.iter().find(|(own, _)| own == key).map(|(_, value)| value),
            _ => None,
        };
        let envelope = &published.dataset.content.envelope;
        let is_of_the_list = |key: &str, own: &Value<'_>| {
            envelope.carried(key).and_then(Value::read).is_some_and(|(value, _)| value == *own)
        };
        // What the page shows elsewhere, the same words on each page, and what means nothing.
        fields.retain(|(key, own)| {
            let is_shown = SHOWN.contains(&&**key) && of_summary(key) == Some(own);
            !is_shown
                && !OF_JSON_LD.contains(&&**key)
                && !is_of_the_list(key, own)
                && !published.meta.volatile.contains(key)
        });
    }
    let mut recognised = Vec::new();
    recognise(&mut others, &mut recognised);
    VenueFacts { venue: Venue::read(summary.as_bytes()), recognised, others, is_whole }
}

/// "Golf in Austin, Texas".
fn where_it_is(venue: &Venue<'_>, facts: &PageFacts<'_>) -> String {
    let sport = venue.sport.as_deref().map(|sport| facts.label(TaxonomyKind::Sports, sport));
    let places: Vec<&str> = [venue.city.as_deref(), venue.state.as_deref()].into_iter().flatten().collect();
    match (sport, places.is_empty()) {
        (Some(sport), false) => format!("{sport} in {}", places.join(", ")),
        (Some(sport), true) => sport.to_owned(),
        (None, _) => places.join(", "),
    }
}

/// Every recognised value of a topic.
fn of<'s, 'a>(recognised: &'s Recognised<'a>, topic: Topic) -> impl Iterator<Item = &'s Value<'a>> {
    recognised.iter().filter(move |(own, _)| *own == topic).map(|(_, value)| value)
}

/// The scalars of a topic, each once.
fn scalars(recognised: &Recognised<'_>, topic: Topic) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, text) in of(recognised, topic).flat_map(Value::scalars) {
        if !found.iter().any(|known| known == text) {
            found.push(cut(text).to_owned());
        }
    }
    found
}

/// The lines of an address: a text as it is, the parts of an object in their order.
fn addresses(recognised: &Recognised<'_>) -> Vec<String> {
    let is_part = |name: &str| !["type", "lat", "lng", "latitude", "longitude"].contains(&plain(name).as_str());
    let mut lines: Vec<String> = Vec::new();
    for address in of(recognised, Topic::Address) {
        let parts = address.scalars().into_iter().filter(|(name, _)| is_part(name));
        let line = parts.map(|(_, text)| text).collect::<Vec<_>>().join(", ");
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(cut(&line).to_owned());
        }
    }
    lines
}

fn contact(shown: &VenueFacts<'_>) -> Markup {
    let VenueFacts { venue, recognised, .. } = shown;
    let (addresses, phones) = (addresses(recognised), scalars(recognised, Topic::Phone));
    let websites = scalars(recognised, Topic::Website);
    html! {
        dl .facts {
            @if !addresses.is_empty() { dt { "Address" } @for line in &addresses { dd .lines { (line) } } }
            @if !phones.is_empty() {
                dt { "Phone" }
                @for phone in &phones {
                    dd { @match dialled(phone) { Some(number) => a href={ "tel:" (number) } { (phone) }, None => (phone) } }
                }
            }
            @if !websites.is_empty() { dt { "Website" } @for site in &websites { dd { (linked(site)) } } }
            @if let Some(rating) = rating(shown) { dt { "Rating" } dd { (rating) } }
            @if let (Some(lat), Some(lng)) = (venue.lat, venue.lng) { dt { "Coordinates" } dd { (lat) ", " (lng) } }
            @if let Some(url) = venue.url.as_deref() { dt { "Provider's page" } dd { (linked(url)) } }
        }
    }
}

/// "4.5 of 12 reviews", as the detail spells it, else the summary.
fn rating(shown: &VenueFacts<'_>) -> Option<String> {
    let number = |topic| {
        let mut values = of(&shown.recognised, topic);
        values.find_map(|value| value.scalar().or_else(|| value.field(&["ratingvalue", "value", "rating"])))
    };
    let count = |value: &Value<'_>| value.field(&["reviewcount", "ratingcount", "count"]).map(str::to_owned);
    let counted = of(&shown.recognised, Topic::Rating).find_map(count);
    let counted = counted.or_else(|| number(Topic::ReviewCount).map(str::to_owned));
    let counted = counted.or_else(|| shown.venue.review_count.map(grouped));
    let rating = number(Topic::Rating).map(|text| cut(text).to_owned());
    let rating = rating.or_else(|| shown.venue.rating.map(|rating| rating.to_string()))?;
    Some(match counted {
        Some(count) if count == "1" => format!("{rating} (1 review)"),
        Some(count) => format!("{rating} ({} reviews)", cut(&count)),
        None => rating,
    })
}

fn hours(recognised: &Recognised<'_>) -> Markup {
    html! {
        @for (number, hours) in of(recognised, Topic::Hours).enumerate() {
            section aria-labelledby={ "hours" (number) } {
                h2 id={ "hours" (number) } { "Hours" }
                @match hours {
                    Value::Object(days) => dl .facts {
                        @for (key, own) in days {
                            dt { (day(key).unwrap_or_else(|| cut(key))) }
                            dd { @if own.is_empty() { "closed or unknown" } @else { (value(own, 1)) } }
                        }
                    },
                    other => (value(other, 0)),
                }
            }
        }
    }
}

/// The day that a field names: "monday", "Mon", "TUE".
fn day(name: &str) -> Option<&'static str> {
    let name = plain(name);
    DAYS.into_iter().find(|day| (2..=9).contains(&name.len()) && day.to_lowercase().starts_with(&name))
}

fn images(recognised: &Recognised<'_>) -> Markup {
    let mut images: Vec<&str> = Vec::new();
    for (_, text) in of(recognised, Topic::Images).flat_map(Value::scalars).filter(|(_, text)| is_address(text)) {
        if !images.contains(&text) && images.len() < MOST_IMAGES {
            images.push(text);
        }
    }
    let words = of(recognised, Topic::Images).filter(|value| !value.scalars().iter().any(|(_, text)| is_address(text)));
    html! {
        @if !images.is_empty() {
            section aria-labelledby="images" {
                h2 #images { "Images" }
                ul .links {
                    @for (number, image) in images.iter().enumerate() {
                        li { a href=(image) rel="nofollow noreferrer" { "Image " (number + 1) " (" (host(image)) ")" } }
                    }
                }
            }
        }
        // Names that look like images and lead nowhere.
        @for words in words { section { h2 { "Images" } (value(words, 0)) } }
    }
}

fn reviews(recognised: &Recognised<'_>) -> Markup {
    let mut reviews: Vec<&Value<'_>> = Vec::new();
    for found in of(recognised, Topic::Reviews) {
        match found {
            Value::Array(elements) => reviews.extend(elements),
            one => reviews.push(one),
        }
    }
    let more = reviews.len().saturating_sub(MOST_REVIEWS);
    html! {
        @if !reviews.is_empty() {
            section aria-labelledby="reviews" {
                h2 #reviews { "Reviews" }
                @for review in reviews.iter().take(MOST_REVIEWS) { div .review { (value(review, 0)) } }
                @if more > 0 { p { (grouped(more as u64)) " more reviews are in the JSON." } }
            }
        }
    }
}

fn place(facts: &PageFacts<'_>, venue: &Venue<'_>, name: &str) -> Markup {
    let dot = venue.lat.zip(venue.lng).map(|(lat, lng)| dot(lat, lng));
    let missing = match &dot {
        Some(Some(_)) => None,
        Some(None) => Some("It lies outside of this map."),
        None => Some("Its coordinates are not known."),
    };
    let label = match missing {
        None => format!("Map of the United States with {name}"),
        Some(_) => "Map of the United States".to_owned(),
    };
    let states = facts.terms(TaxonomyKind::States);
    let state = states.iter().find(|state| venue.state.as_deref() == Some(state.label)).map(|state| state.slug);
    html! {
        (map(&states, state, (&Drawn::default(), &dot.flatten().unwrap_or_default()), false, &label))
        @if let Some(missing) = missing { figcaption .small { (missing) } }
    }
}

/// Any value: objects as lists of names and values, arrays as lists.
fn value(shown: &Value<'_>, depth: usize) -> Markup {
    if depth > DEEPEST {
        return html! { "(more in the JSON)" };
    }
    if shown.is_empty() {
        return html! { span .small { "none" } };
    }
    html! {
        @match shown {
            Value::Text(text) => (linked(text)),
            Value::Literal(text) => (cut(text)),
            Value::Null => {}
            Value::Object(fields) => dl .facts {
                @for (key, own) in fields { dt { (cut(key)) } dd { (value(own, depth + 1)) } }
            },
            Value::Array(elements) if elements.iter().all(|own| matches!(own, Value::Literal(_))) => (cut(&joined(shown))),
            Value::Array(elements) => ul .values { @for own in elements { li { (value(own, depth + 1)) } } },
        }
    }
}

/// Numbers in a row.
fn joined(numbers: &Value<'_>) -> String {
    numbers.scalars().into_iter().map(|(_, number)| number).collect::<Vec<_>>().join(", ")
}

/// A text, as a link if it is an address.
fn linked(text: &str) -> Markup {
    html! {
        @if is_address(text) {
            a href=(text) rel="nofollow noreferrer" { (cut(text)) }
        } @else {
            span .lines { (cut(text)) }
        }
    }
}

/// The start of a text, cut between two letters.
fn cut(text: &str) -> &str {
    excerpt::start(text, MOST_OF_A_TEXT)
}

fn host(address: &str) -> String {
    url::Url::parse(address).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

/// What a phone dials; `None` for a text that is no number.
fn dialled(phone: &str) -> Option<String> {
    let is_separator = |letter: char| " -.()/\u{a0}".contains(letter);
    let number: String = phone.chars().filter(|letter| !is_separator(*letter)).collect();
    let digits = number.strip_prefix('+').unwrap_or(&number);
    ((5..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
}

/// Plain names of the parts of an address.
const STREET: [&str; 5] = ["streetaddress", "street", "street1", "line1", "addressline1"];
const POSTAL_CODE: [&str; 5] = ["postalcode", "zip", "zipcode", "postcode", "postal"];

/// The venue in the words of schema.org. Nothing in it ends the element that it stands in.
fn linked_data(name: &str, shown: &VenueFacts<'_>, facts: &PageFacts<'_>) -> String {
    let VenueFacts { venue, recognised, .. } = shown;
    let mut data = Map::new();
    data.insert("@context".into(), "https://schema.org".into());
    data.insert("@type".into(), "SportsActivityLocation".into());
    data.insert("name".into(), name.into());
    let text = |value: Option<&str>| value.map(|value| json!(cut(value)));
    let of_topic = |topic| scalars(recognised, topic).into_iter().next().map(|text| json!(text));
    let only = |found: Vec<String>| -> Vec<String> { found.into_iter().filter(|text| is_address(text)).collect() };
    let part = |names: &[&str]| of(recognised, Topic::Address).find_map(|address| address.field(names));
    let mut address = Map::new();
    address.insert("@type".into(), "PostalAddress".into());
    let parts = [
        ("streetAddress", text(part(&STREET)).or_else(|| addresses(recognised).first().map(|line| json!(line)))),
        ("postalCode", text(part(&POSTAL_CODE))),
        ("addressLocality", text(venue.city.as_deref())),
        ("addressRegion", text(venue.state.as_deref())),
        ("addressCountry", Some(json!("US"))),
    ];
    address.extend(parts.into_iter().filter_map(|(key, part)| Some((key.to_owned(), part?))));
    let images = only(scalars(recognised, Topic::Images));
    let website = only(scalars(recognised, Topic::Website)).into_iter().next();
    let geo = venue.lat.zip(venue.lng);
    let rated = venue.rating.filter(|_| venue.review_count.is_some_and(|count| count > 0));
    let fields = [
        ("sport", text(venue.sport.as_deref().map(|sport| facts.label(TaxonomyKind::Sports, sport)))),
        ("url", text(venue.url.as_deref().filter(|url| is_address(url)))),
        ("sameAs", website.map(|site| json!(site))),
        ("address", Some(json!(address))),
        ("geo", geo.map(|(lat, lng)| json!({"@type": "GeoCoordinates", "latitude": lat, "longitude": lng}))),
        ("telephone", of_topic(Topic::Phone)),
        ("image", (!images.is_empty()).then(|| json!(images))),
        (
            "aggregateRating",
            rated.map(
                |rating| json!({"@type": "AggregateRating", "ratingValue": rating, "reviewCount": venue.review_count}),
            ),
        ),
    ];
    data.extend(fields.into_iter().filter_map(|(key, field)| Some((key.to_owned(), field?))));
    // `</script>` and `<!--` would end the element; other readers mind the separators of lines.
    let mut safe = String::new();
    for letter in serde_json::Value::Object(data).to_string().chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\u{:04x}", u32::from(letter));
            }
            other => safe.push(other),
        }
    }
    safe
}
