//! The taxonomies: sports, states and cities with their slugs, names, counts and URLs.
//!
//! Only terms with a venue are listed. Counts are true unless `count_skew` is set; switches vary envelope and field
//! names. Callers: `answer`.

use super::answer::{Answer, Context};
use super::gazetteer::state_slug;
use super::json::Json;
use super::places::STATES;
use super::sports::SPORTS;
use super::switches::{CountStyle, TaxonomyShape, TermFields, TermNames};
use super::world::World;

/// Number of venues per term.
#[derive(Debug)]
pub(super) struct Counts {
    sports: Vec<i64>,
    states: Vec<i64>,
    cities: Vec<i64>,
}

impl Counts {
    /// Counts by walking all venues.
    pub(super) fn of(world: &World) -> Self {
        let mut counts = Self {
            sports: vec![0; SPORTS.len()],
            states: vec![0; STATES.len()],
            cities: vec![0; world.map.cities.len()],
        };
        for venue in &world.venues {
            let place = &world.map.places[usize::from(venue.place)];
            counts.sports[usize::from(venue.sport)] += 1;
            counts.states[usize::from(place.state)] += 1;
            counts.cities[usize::from(place.city)] += 1;
        }
        counts
    }
}

struct Term {
    slug: String,
    name: &'static str,
    count: i64,
}

/// Answers with the sports, the most frequent first.
pub(super) fn sports(context: &Context<'_>) -> Answer {
    let counts = context.world.counts();
    let name_of = |index: usize| (SPORTS[index].slug.to_owned(), SPORTS[index].name);
    let mut terms = terms(&counts.sports, name_of);
    terms.sort_by_key(|term| std::cmp::Reverse(term.count));
    taxonomy(context, "sport", "sports", &terms)
}

/// Answers with the states by name.
pub(super) fn states(context: &Context<'_>) -> Answer {
    let counts = context.world.counts();
    let mut terms = terms(&counts.states, |index| (state_slug(index as u8), STATES[index].name));
    terms.sort_by_key(|term| term.name);
    taxonomy(context, "state", "states", &terms)
}

/// Answers with the cities by name; equal names by slug.
pub(super) fn cities(context: &Context<'_>) -> Answer {
    let counts = context.world.counts();
    let cities = &context.world.map.cities;
    let mut terms = terms(&counts.cities, |index| (cities[index].slug.clone(), cities[index].name));
    terms.sort_by(|one, two| (one.name, &one.slug).cmp(&(two.name, &two.slug)));
    taxonomy(context, "city", "cities", &terms)
}

fn terms(counts: &[i64], name_of: impl Fn(usize) -> (String, &'static str)) -> Vec<Term> {
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let term = |(index, &count): (usize, &i64)| {
        let (slug, name) = name_of(index);
        Term { slug, name, count }
    };
    used.map(term).collect()
}

fn taxonomy(context: &Context<'_>, parameter: &str, plural: &str, terms: &[Term]) -> Answer {
    let mut json = context.json();
    let write = |json: &mut Json, terms: &[Term]| {
        json.array(|json| {
            for term in terms {
                json.object(|json| members(context, json, parameter, term));
            }
        });
    };
    match context.switches.taxonomy_shape {
        TaxonomyShape::Array => write(&mut json, terms),
        TaxonomyShape::Object => json.object(|json| {
            context.envelope(json, "DefinedTermSet", context.switches.generated.taxonomies);
            json.key("total").raw(terms.len());
            json.key("items");
            write(json, terms);
        }),
        TaxonomyShape::Nested => json.object(|json| {
            context.envelope(json, "DefinedTermSet", context.switches.generated.taxonomies);
            json.key("data").object(|json| {
                json.field("taxonomy", plural);
                json.key("groups").array(|json| {
                    for group in terms.chunk_by(|one, two| initial(one) == initial(two)) {
                        json.object(|json| {
                            json.field("letter", initial(&group[0]));
                            json.key("terms");
                            write(json, group);
                        });
                    }
                });
            });
        }),
        TaxonomyShape::Keyed => json.object(|json| {
            context.envelope(json, "DefinedTermSet", context.switches.generated.taxonomies);
            json.key(plural).object(|json| {
                for group in terms.chunk_by(|one, two| initial(one) == initial(two)) {
                    json.key(&format!("{}-{}", initial(&group[0]), group[0].slug)).object(|json| {
                        for term in group {
                            json.key(&term.slug).object(|json| members(context, json, parameter, term));
                        }
                    });
                }
            });
        }),
    }
    Answer::json(200, json.finish())
}

fn members(context: &Context<'_>, json: &mut Json, parameter: &str, term: &Term) {
    let (name, count) = match context.switches.field_names {
        TermFields::NameCount => ("name", "count"),
        TermFields::TitleListingsCount => ("title", "listings_count"),
        TermFields::LabelTotal => ("label", "total"),
    };
    json.field("slug", &term.slug);
    let spelled = match context.switches.term_names {
        TermNames::Same => term.name.to_owned(),
        TermNames::Capitals => term.name.to_uppercase(),
        TermNames::TrailingSpace => format!("{} ", term.name),
        TermNames::Saint => term.name.replace("St.", "Saint"),
    };
    json.field(name, &spelled);
    let own = i64::from(context.switches.skewed_term.as_ref() == Some(&term.slug));
    let number = term.count.saturating_add(context.switches.count_skew).saturating_add(own).max(0);
    match context.switches.counts {
        CountStyle::Number => json.key(count).raw(number),
        CountStyle::Text => json.field(count, &number.to_string()),
        CountStyle::Absent => {}
    }
    json.field("api_url", &context.api_url(parameter, &term.slug));
}

/// The first letter; all names begin with one in ASCII.
fn initial(term: &Term) -> &str {
    term.name.get(..1).unwrap_or("")
}
