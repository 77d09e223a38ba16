//! Facts that pages show of the data: terms with names and counts, its source, and when it was confirmed.
//!
//! Field names that the origin does not document are looked for, never relied on. Callers: the pages.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;

use crate::api::folding::SAME;
use crate::api::json::{self, Picked};
use crate::api::listing::{Summary, Venue};
use crate::api::states;
use crate::api::taxonomy::{TaxonomyKind, Term};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::pointer::Snapshot;
use crate::protocol::excerpt;

use strsim::osa_distance;

use super::detail::plain;
use super::room::{MOST_OF_A_TEXT, PageRoom};

/// The most terms that a word may mean.
const MOST_MEANT: usize = 5;

/// In a shorter text a typing error is another word, and a longer one takes long to compare, in bytes.
const MISTYPED: RangeInclusive<usize> = 5..=60;

/// So many words of a name are compared.
const MOST_WORDS: usize = 30;

/// A term with a longer slug is not offered, in bytes.
const MOST_OF_A_SLUG: usize = 200;

/// The names of the terms of a snapshot.
#[derive(Default)]
pub(super) struct TermNames {
    /// By slug, the cities whose name another city has, too, with their state: "Albany, Georgia".
    pub namesakes: HashMap<Box<str>, String>,
    /// The slugs of these, by name as [`written_out`].
    pub by_plain: HashMap<String, Box<str>>,
    /// Of each kind, slug and label of each term, as names that are [`written_out`].
    plain: [Vec<[String; 2]>; 3],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TermFact<'a> {
    /// What filters take.
    pub slug: &'a str,
    pub label: &'a str,
    /// How many listings it has; `None` while that is in doubt.
    pub count: Option<u64>,
}

/// The data's source, in the form that its licence asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    pub attribution: Option<String>,
    pub backlink: Option<String>,
    /// The licence's address.
    pub license: Option<String>,
    pub license_name: String,
}

pub(super) struct PageFacts<'a> {
    pub dataset: &'a Dataset,
    /// When it was confirmed: RFC 3339, in whole seconds; `None` for an instant beyond the calendar.
    pub confirmed: Option<String>,
    pub credit: Credit,
    /// For all texts of the data on the page.
    pub room: PageRoom,
    /// By slug, of each kind.
    labels: [OnceCell<HashMap<&'a str, &'a str>>; 3],
}

impl<'a> PageFacts<'a> {
    pub(super) fn of(published: &'a Snapshot) -> Self {
        let confirmed = json::string(&published.generated_at).map(Cow::into_owned);
        let room = PageRoom::default();
        Self {
            dataset: &published.dataset,
            confirmed,
            credit: Credit::of(published, &room),
            room,
            labels: Default::default(),
        }
    }

    /// The terms of a kind, in the origin's order.
    pub(super) fn terms(&self, kind: TaxonomyKind) -> Vec<TermFact<'a>> {
        let count = |term: &Term| self.dataset.count(kind, &term.slug);
        let terms = self.dataset.terms(kind).iter().filter(|term| is_offered(term));
        terms.map(|term| self.fact(kind, term, count(term))).collect()
    }

    pub(super) fn fact(&self, kind: TaxonomyKind, term: &'a Term, count: Option<u64>) -> TermFact<'a> {
        TermFact { slug: &term.slug, label: self.dataset.label(kind, term), count }
    }

    /// The same, those with most listings first.
    pub(super) fn largest(&self, kind: TaxonomyKind) -> Vec<TermFact<'a>> {
        let mut terms = self.terms(kind);
        terms.sort_by_key(|term| std::cmp::Reverse(term.count));
        terms
    }

    /// The name of a slug; the slug itself if no term has it.
    pub(super) fn label<'s>(&self, kind: TaxonomyKind, slug: &'s str) -> &'s str
    where
        'a: 's,
    {
        let labels = self.labels[kind.index()].get_or_init(|| {
            // Of equal slugs the first one counts.
            let terms = self.dataset.terms(kind).iter().rev();
            terms.map(|term| (&*term.slug, self.dataset.label(kind, term))).collect()
        });
        labels.get(slug).copied().unwrap_or(slug)
    }

    /// The names of all terms. Takes 20 ms for 20,000 cities.
    pub(super) fn term_names(&self) -> TermNames {
        let namesakes = self.namesakes();
        let by_plain = namesakes.iter().map(|(slug, name)| (written_out(name), slug.clone())).collect();
        let plain = |kind| {
            let terms = self.dataset.terms(kind).iter();
            terms.map(|term| [written_out(&term.slug), written_out(self.dataset.label(kind, term))]).collect()
        };
        TermNames { namesakes, by_plain, plain: TaxonomyKind::ALL.map(plain) }
    }

    /// The cities that their name alone does not tell apart.
    fn namesakes(&self) -> HashMap<Box<str>, String> {
        let (dataset, kind) = (self.dataset, TaxonomyKind::Cities);
        let start = |text: &str| excerpt::start(text, MOST_OF_A_SLUG).to_owned();
        let mut by_name: HashMap<String, Vec<&Term>> = HashMap::new();
        for term in dataset.terms(kind) {
            by_name.entry(start(dataset.label(kind, term)).to_lowercase()).or_default().push(term);
        }
        // Many terms may have one large listing.
        let mut states: HashMap<u32, Option<String>> = HashMap::new();
        let mut state = |term: &Term| {
            let first = dataset.membership(kind, &term.slug)?.positions()?.iter().next()?;
            let read = || {
                let venue = Venue::read(&dataset.content.summaries.get(first as usize)?.raw);
                venue.state.map(|state| start(&state))
            };
            states.entry(first).or_insert_with(read).clone()
        };
        let named = |term: &Term| {
            let label = start(dataset.label(kind, term));
            let name = match state(term) {
                Some(state) => format!("{label}, {state}"),
                // Where it is is not known, perhaps not yet.
                None => format!("{label} ({})", start(&term.slug)),
            };
            (term.slug.as_str().into(), name)
        };
        let all = by_name.into_values().filter(|terms| terms.len() > 1).flatten().map(named);
        let mut namesakes: Vec<(Box<str>, String)> = all.collect();
        // A state may have two of one name.
        namesakes.sort_unstable_by(|(slug, name), (other, others)| (name, slug).cmp(&(others, other)));
        for same in namesakes.chunk_by_mut(|(_, one), (_, other)| one == other) {
            same.iter_mut().skip(1).for_each(|(slug, name)| *name = format!("{name} ({slug})"));
        }
        namesakes.into_iter().collect()
    }

    /// The terms that someone may mean by a text that is no slug: those that it names, else those that it would name
    /// without one typing error.
    pub(super) fn meant(&self, kind: TaxonomyKind, names: &TermNames, text: &str) -> Vec<&'a Term> {
        let named = self.named(kind, names, text);
        let wanted = written_out(text);
        if !named.is_empty() || !MISTYPED.contains(&wanted.len()) {
            return named;
        }
        let is_close = |name: &str| name.len().abs_diff(wanted.len()) <= 1 && osa_distance(name, &wanted) == 1;
        self.fitting(kind, names, &is_close)
    }

    /// The terms with a name, else with a name that begins so.
    pub(super) fn named(&self, kind: TaxonomyKind, names: &TermNames, text: &str) -> Vec<&'a Term> {
        let state = states::name_of(&plain(text)).filter(|_| kind == TaxonomyKind::States);
        let wanted = written_out(state.unwrap_or(text));
        let exact = self.fitting(kind, names, &|name| name == wanted);
        // A shorter text is the start of too many.
        let is_start = exact.is_empty() && wanted.len() >= 3;
        if is_start { self.fitting(kind, names, &|name| name.starts_with(&wanted)) } else { exact }
    }

    fn fitting(&self, kind: TaxonomyKind, names: &TermNames, fits: &dyn Fn(&str) -> bool) -> Vec<&'a Term> {
        let terms =
            self.dataset.terms(kind).iter().zip(&names.plain[kind.index()]).filter(|(term, _)| is_offered(term));
        let named = terms.filter(|(_, names)| names.iter().any(|name| fits(name)));
        named.map(|(term, _)| term).take(MOST_MEANT).collect()
    }

    /// The slug of the largest term; for examples.
    pub(super) fn example(&self, kind: TaxonomyKind) -> Option<&'a str> {
        self.largest(kind).first().map(|term| term.slug)
    }

    /// One of the first listings, a short one; for examples.
    pub(super) fn example_listing(&self) -> Option<&'a Summary> {
        self.dataset.content.summaries.iter().take(100).find(|summary| summary.raw.len() <= MOST_OF_A_TEXT)
    }

    /// The id of the first listing; for examples.
    pub(super) fn first_id(&self) -> Option<u64> {
        self.dataset.content.summaries.first().map(|summary| summary.id.0)
    }
}

/// A [`plain`] name in which `st`, `ft` and `mt` are whole words.
pub(super) fn written_out(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let whole = |word: &str| {
        let word = plain(word);
        let same = SAME.iter().find(|[short, _]| *short == word);
        same.map_or(word, |[_, whole]| (*whole).to_owned())
    };
    words.take(MOST_WORDS).map(whole).collect()
}

impl Credit {
    fn of(published: &Snapshot, room: &PageRoom) -> Self {
        let envelope = &published.dataset.content.envelope;
        let text = |name| envelope.carried(name).and_then(json::string).map(Cow::into_owned);
        let attribution = envelope.carried("attribution").and_then(words).map(|words| room.text(&words).into_owned());
        let linked = envelope.carried("attribution").and_then(address);
        let docs = text("docs").filter(|docs| is_address(docs));
        let first =
            || published.dataset.content.summaries.first().and_then(|first| site(&Venue::read(&first.raw).url?));
        let license_name = match published.license.as_deref() {
            Some(license) if license.contains("creativecommons.org/licenses/by/4.0") => "CC BY 4.0".to_owned(),
            Some(license) => room.text(license).into_owned(),
            None => text("license").map_or_else(|| "CC BY 4.0".to_owned(), |name| room.text(&name).into_owned()),
        };
        let backlink = linked.or(docs).or_else(first).filter(|link| room.fits(link));
        let license = published.license.clone().filter(|link| is_address(link) && room.fits(link));
        Self { attribution, backlink, license, license_name }
    }
}

/// The words of an attribution, which may be a text or an object with one.
fn words(value: &str) -> Option<String> {
    if let Some(text) = json::string(value) {
        return Some(text.into_owned());
    }
    let picked = json::pick(value, &["text", "name", "title"]).ok()?;
    picked.into_iter().find_map(|picked| match picked {
        Picked::Once(text) => json::string(text).map(Cow::into_owned),
        Picked::Absent | Picked::Repeated(..) => None,
    })
}

/// The first address in a JSON text.
fn address(value: &str) -> Option<String> {
    let value = value.replace("\\/", "/");
    let start = value.find("https://").or_else(|| value.find("http://"))?;
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | ')' | '\\' | ',' | '\'');
    let found = value[start..].split(ends).next()?.trim_end_matches(['.', ';', ':']);
    is_address(found).then(|| found.to_owned())
}

/// The name of a venue, which may have none.
pub(super) fn name_of<'s>(venue: &'s Venue<'_>) -> &'s str {
    venue.name.as_deref().map(str::trim).filter(|name| !name.is_empty()).unwrap_or("(no name)")
}

pub(super) fn is_offered(term: &Term) -> bool {
    term.slug.len() <= MOST_OF_A_SLUG
}

/// Whether a text is an address that a page may link to.
pub(super) fn is_address(text: &str) -> bool {
    if text.len() > MOST_OF_A_TEXT || text.contains(char::is_control) {
        return false;
    }
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// The front page of the site that an address is on.
fn site(address: &str) -> Option<String> {
    let url = url::Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.join("/").ok().map(String::from).filter(|site| is_address(site))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribution_may_be_a_text_or_an_object() {
        for (value, text, link) in [
            (r#""Data from Venues""#, Some("Data from Venues"), None),
            (
                r#""Data: https:\/\/venues.example\/, thanks.""#,
                Some("Data: https://venues.example/, thanks."),
                Some("https://venues.example/"),
            ),
            (r#"{"name":"Venues","url":"https://venues.example"}"#, Some("Venues"), Some("https://venues.example")),
            (r#"{"html":"<a href=\"https://venues.example/a\">Venues</a>"}"#, None, Some("https://venues.example/a")),
            (r#""javascript:alert(1)""#, Some("javascript:alert(1)"), None),
            ("7", None, None),
        ] {
            assert_eq!((words(value).as_deref(), address(value).as_deref()), (text, link), "{value}");
        }
    }
}
