//! Venue page: where it is, when it is open, how to reach it, and every other field that the origin sends.
//!
//! Images are links, because pages load nothing from other hosts. Text of the data is escaped, and only `http` and `https`
//! addresses become links. Callers: [`super::Pages::render`].

mod head;
mod surroundings;
mod titles;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use serde_json::{Map, json};

use crate::api::listing::{Summary, Venue};
use crate::api::page::EnvelopeField;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::pointer::Snapshot;
use crate::words::grouped;

use super::Pages;
use super::detail::{Recognised, Topic, Value, plain, recognise};
use super::facts::{PageFacts, is_address};
use super::layout::{instant, page_below};
use super::map;
use super::places::place;
use super::room::{MOST_OF_A_TEXT, PageRoom};

use head::{described, where_it_is};
use surroundings::surroundings;
use titles::{instant_in, title};

/// Longer lists of images and reviews are cut, and so is deeper nesting.
const MOST_IMAGES: usize = 60;
const MOST_REVIEWS: usize = 40;
const DEEPEST: usize = 8;

/// A detail or a summary larger than this is not taken apart, in bytes.
const MOST_OF_A_DETAIL: usize = 1 << 20;

/// The markup of a value and its name, in bytes.
const NODE: usize = 120;

/// The fields of a summary that have a place of their own on the page.
const SHOWN: [&str; 10] = ["id", "name", "url", "city", "state", "sport", "lat", "lng", "rating", "review_count"];

/// The scripts of a page with a map; of one without it, those after the first two.
const WITH_MAP: [&str; 3] = [map::SCRIPTS[0], map::SCRIPTS[1], "age.js"];

/// Fields that say something to programs only.
const OF_JSON_LD: [&str; 2] = ["@context", "@type"];

/// The days as they are written, from the start of a field's name.
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// What is known of the venue beside its summary.
pub(crate) enum DetailShown {
    Mirrored(bytes::Bytes),
    /// The origin has none.
    Gone,
    Missing,
}

struct VenueFacts<'a> {
    venue: Venue<'a>,
    recognised: Recognised<'a>,
    /// The fields without a place of their own.
    others: Value<'a>,
}

pub(super) fn page(pages: &Pages, published: &Snapshot, summary: &Summary, detail: &DetailShown) -> String {
    let facts = PageFacts::of(published);
    let room = &facts.room;
    let shown = shown(published, summary, detail, room);
    let venue = &shown.venue;
    let name = venue.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let name = name.map_or_else(|| format!("Venue {}", summary.id), str::to_owned);
    let json = format!("../api/listings/{}.json", summary.id);
    let main = html! {
        h1 { (room.text(&name)) }
        p .summary { (where_it_is(&facts, summary)) }
        @match detail {
            DetailShown::Mirrored(_) => {}
            DetailShown::Gone => p .notice role="note" { "The provider lists this venue, but has no details of it." },
            DetailShown::Missing => p .notice role="note" {
                "The details of this venue are not mirrored yet: this is what the list of venues says of it."
            },
        }
        div .venue {
            div { (contact(&shown, room)) (hours(&shown.recognised, room)) (images(&shown.recognised, room)) }
            div { (surroundings(pages, &facts, summary, &room.short(&name))) }
        }
        (reviews(&shown.recognised, room))
        @if !shown.others.is_empty() {
            section aria-labelledby="others" {
                h2 #others { "More about it" }
                (value(&shown.others, 0, room))
            }
        }
        p .small {
            a href=(json) { "JSON" }
            @if let Some(at) = &facts.confirmed { " · confirmed " (instant(at)) }
        }
        script type="application/ld+json" { (PreEscaped(linked_data(&room.text(&name), &shown, &facts))) }
    };
    let more = html! {
        (described(pages, &facts, summary, &name))
        link rel="alternate" type="application/json" href=(json);
    };
    let has_map = place(venue).is_some();
    page_below(
        pages,
        "../",
        (None, &room.short(&name)),
        if has_map { &WITH_MAP } else { &WITH_MAP[2..] },
        Some(&facts),
        (Some(&more), &main),
    )
}

fn shown<'a>(published: &Snapshot, summary: &'a Summary, detail: &'a DetailShown, room: &PageRoom) -> VenueFacts<'a> {
    let summary = std::str::from_utf8(&summary.raw).unwrap_or_default();
    let text = match detail {
        DetailShown::Mirrored(text) => std::str::from_utf8(text).ok(),
        DetailShown::Gone | DetailShown::Missing => None,
    };
    let read = |text: &'a str| Some(text).filter(|text| text.len() <= MOST_OF_A_DETAIL).and_then(Value::read);
    let of_detail = text.and_then(read);
    if of_detail.as_ref().map_or(text.is_some(), |(_, is_all)| !is_all) {
        room.leave_out();
    }
    let (mut others, _) = of_detail.or_else(|| read(summary)).unwrap_or((Value::Null, true));
    if let Value::Object(fields) = &mut others {
        // What the page shows elsewhere, the same words on each page, and what means nothing. A detail may repeat a name
        // thousands of times: each is looked up in a table.
        let names: HashSet<&str> = fields.iter().map(|(key, _)| &**key).collect();
        let of_list = published.dataset.content.envelope.fields.iter().filter_map(|field| match field {
            EnvelopeField::Carried { key, value } if names.contains(&**key) => Some((key.clone(), read_short(value)?)),
            _ => None,
        });
        let of_list: HashMap<String, Value<'_>> = of_list.collect();
        let mut of_summary: HashMap<Cow<'_, str>, Value<'_>> = HashMap::new();
        if let Some((Value::Object(fields), _)) = read(summary) {
            for (key, value) in fields.into_iter().filter(|(key, _)| SHOWN.contains(&&**key)) {
                of_summary.entry(key).or_insert(value);
            }
        }
        fields.retain(|(key, own)| {
            of_summary.get(key) != Some(own)
                && !OF_JSON_LD.contains(&&**key)
                && of_list.get(&**key) != Some(own)
                && !published.meta.volatile.contains(key)
        });
    }
    let mut recognised = Vec::new();
    recognise(&mut others, &mut recognised);
    VenueFacts { venue: Venue::read(summary.as_bytes()), recognised, others }
}

/// A value of the list's envelope, which a detail repeats only if it is short.
fn read_short(text: &str) -> Option<Value<'_>> {
    Some(text).filter(|text| text.len() <= MOST_OF_A_TEXT).and_then(Value::read).map(|(value, _)| value)
}

fn of<'s, 'a>(recognised: &'s Recognised<'a>, topic: Topic) -> impl Iterator<Item = &'s Value<'a>> {
    recognised.iter().filter(move |(own, _)| *own == topic).map(|(_, value)| value)
}

/// The scalars of a topic, each once.
fn scalars<'s>(recognised: &'s Recognised<'_>, topic: Topic) -> Vec<&'s str> {
    let mut known = HashSet::new();
    let texts = of(recognised, topic).flat_map(Value::scalars).map(|(_, text)| text);
    texts.filter(|text| known.insert(*text)).collect()
}

/// The lines of an address: a text as it is, the parts of an object in their order.
fn addresses(recognised: &Recognised<'_>) -> Vec<String> {
    let is_part = |name: &str| !["type", "lat", "lng", "latitude", "longitude"].contains(&plain(name).as_str());
    let mut known = HashSet::new();
    let lines = of(recognised, Topic::Address).map(|address| {
        let parts = address.scalars().into_iter().filter(|(name, _)| is_part(name));
        parts.map(|(_, text)| text).collect::<Vec<_>>().join(", ")
    });
    lines.filter(|line| !line.is_empty() && known.insert(line.clone())).collect()
}

fn contact(shown: &VenueFacts<'_>, room: &PageRoom) -> Markup {
    let VenueFacts { venue, recognised, .. } = shown;
    let (addresses, phones) = (addresses(recognised), scalars(recognised, Topic::Phone));
    let websites = scalars(recognised, Topic::Website);
    html! {
        dl .facts {
            @if !addresses.is_empty() { dt { "Address" } @for line in &addresses { dd .lines { (room.text(line)) } } }
            @if !phones.is_empty() {
                dt { "Phone" }
                @for phone in &phones {
                    dd { @match dialled(phone) { Some(number) => a href={ "tel:" (number) } { (room.text(phone)) }, None => (room.text(phone)) } }
                }
            }
            @if !websites.is_empty() { dt { "Website" } @for site in &websites { dd { (linked(site, room)) } } }
            @if let Some(rating) = rating(shown, room) { dt { "Rating" } dd { (rating) } }
            @if let (Some(lat), Some(lng)) = (venue.lat, venue.lng) { dt { "Coordinates" } dd { (lat) ", " (lng) } }
            @if let Some(url) = venue.url.as_deref() { dt { "Provider's page" } dd { (linked(url, room)) } }
        }
    }
}

/// "4.5 of 12 reviews", as the detail spells it, else the summary.
fn rating(shown: &VenueFacts<'_>, room: &PageRoom) -> Option<String> {
    let number = |topic| {
        let mut values = of(&shown.recognised, topic);
        values.find_map(|value| value.scalar().or_else(|| value.field(&["ratingvalue", "value", "rating"])))
    };
    let count = |value: &Value<'_>| value.field(&["reviewcount", "ratingcount", "count"]).map(str::to_owned);
    let counted = of(&shown.recognised, Topic::Rating).find_map(count);
    let counted = counted.or_else(|| number(Topic::ReviewCount).map(str::to_owned));
    let counted = counted.or_else(|| shown.venue.review_count.map(grouped));
    let rating = number(Topic::Rating).map(|text| room.text(text).into_owned());
    let rating = rating.or_else(|| shown.venue.rating.map(|rating| rating.to_string()))?;
    Some(match counted {
        Some(count) if count == "1" => format!("{rating} (1 review)"),
        Some(count) => format!("{rating} ({} reviews)", room.text(&count)),
        None => rating,
    })
}

fn hours(recognised: &Recognised<'_>, room: &PageRoom) -> Markup {
    html! {
        @for (number, hours) in of(recognised, Topic::Hours).enumerate() {
            section aria-labelledby={ "hours" (number) } {
                h2 id={ "hours" (number) } { "Hours" }
                @match hours {
                    Value::Object(days) => dl .facts {
                        @for (key, own) in days {
                            dt data-day=[day(key)] { (day(key).map_or_else(|| room.text(key), Cow::Borrowed)) }
                            dd { @if own.is_empty() { "closed or unknown" } @else { (value(own, 1, room)) } }
                        }
                    },
                    other => (value(other, 0, room)),
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

fn images(recognised: &Recognised<'_>, room: &PageRoom) -> Markup {
    let images = addressed(scalars(recognised, Topic::Images)).take(MOST_IMAGES);
    let images: Vec<&str> = images.filter(|image| room.fits(image)).collect();
    let words = of(recognised, Topic::Images).filter(|value| !value.scalars().iter().any(|(_, text)| is_address(text)));
    html! {
        @if !images.is_empty() {
            section aria-labelledby="images" {
                h2 #images { "Images" }
                ul .links {
                    @for (number, image) in images.iter().enumerate() {
                        li { a href=(image) rel="nofollow noreferrer" { "Image " (number + 1) " (" (room.text(&host(image))) ")" } }
                    }
                }
            }
        }
        // Names that look like images and lead nowhere.
        @for words in words { section { h2 { "Images" } (value(words, 0, room)) } }
    }
}

fn reviews(recognised: &Recognised<'_>, room: &PageRoom) -> Markup {
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
                @for review in reviews.iter().filter(|review| !review.is_empty()).take(MOST_REVIEWS) { div .review { (value(review, 0, room)) } }
                @if more > 0 { p { (grouped(more as u64)) " more reviews are in the JSON." } }
            }
        }
    }
}

/// Any value: objects as lists of names and values, arrays as lists.
fn value(shown: &Value<'_>, depth: usize, room: &PageRoom) -> Markup {
    if depth > DEEPEST || !room.takes(NODE) {
        return html! { "(more in the JSON)" };
    }
    html! {
        @match shown {
            Value::Text(text) => (linked(text, room)),
            Value::Literal(text) => (room.text(text)),
            Value::Null => {}
            Value::Object(fields) => dl .facts {
                @for (key, own) in fields.iter().filter(|(_, own)| !own.is_empty()) {
                    dt { (title(key).map_or_else(|| room.text(key), Cow::Borrowed)) }
                    dd { @match instant_in(key, own) { Some(at) => (instant(&at)), None => (value(own, depth + 1, room)) } }
                }
            },
            Value::Array(elements) if elements.iter().all(|own| matches!(own, Value::Literal(_))) => (room.text(&joined(shown))),
            Value::Array(elements) => ul .values { @for own in elements.iter().filter(|own| !own.is_empty()) { li { (value(own, depth + 1, room)) } } },
        }
    }
}

fn joined(numbers: &Value<'_>) -> String {
    numbers.scalars().into_iter().map(|(_, number)| number).collect::<Vec<_>>().join(", ")
}

fn linked(text: &str, room: &PageRoom) -> Markup {
    html! {
        @if is_address(text) && room.fits(text) {
            a href=(text) rel="nofollow noreferrer" { (room.text(text)) }
        } @else {
            span .lines { (room.text(text)) }
        }
    }
}

fn addressed(texts: Vec<&str>) -> impl Iterator<Item = &str> {
    texts.into_iter().filter(|text| is_address(text))
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
    let text = |value: Option<&str>| value.map(|value| json!(facts.room.text(value)));
    // A part of an address leads elsewhere.
    let link = |value: Option<&str>| value.filter(|value| facts.room.fits(value)).map(|value| json!(value));
    let part = |names: &[&str]| of(recognised, Topic::Address).find_map(|address| address.field(names));
    let mut address = Map::new();
    address.insert("@type".into(), "PostalAddress".into());
    let parts = [
        ("streetAddress", text(part(&STREET)).or_else(|| text(addresses(recognised).first().map(String::as_str)))),
        ("postalCode", text(part(&POSTAL_CODE))),
        ("addressLocality", text(venue.city.as_deref())),
        ("addressRegion", text(venue.state.as_deref())),
        ("addressCountry", Some(json!("US"))),
    ];
    address.extend(parts.into_iter().filter_map(|(key, part)| Some((key.to_owned(), part?))));
    let images = addressed(scalars(recognised, Topic::Images)).take(MOST_IMAGES);
    let images: Vec<&str> = images.filter(|image| facts.room.fits(image)).collect();
    let website = addressed(scalars(recognised, Topic::Website)).next();
    let geo = venue.lat.zip(venue.lng);
    let rated = venue.rating.filter(|_| venue.review_count.is_some_and(|count| count > 0));
    let fields = [
        ("sport", text(venue.sport.as_deref().map(|sport| facts.label(TaxonomyKind::Sports, sport)))),
        ("url", link(venue.url.as_deref().filter(|url| is_address(url)))),
        ("sameAs", link(website)),
        ("address", Some(json!(address))),
        ("geo", geo.map(|(lat, lng)| json!({"@type": "GeoCoordinates", "latitude": lat, "longitude": lng}))),
        ("telephone", text(scalars(recognised, Topic::Phone).first().copied())),
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
