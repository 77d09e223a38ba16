//! The taxonomies: sports, states and cities with their slugs, names, counts and URLs.
//!
//! Only terms with a venue are listed. Counts are true unless `count_skew` is set; switches vary envelope and field
//! names. Callers: `answer`.

use sample::Term;

use super::answer::{Answer, Context};
use super::json::Json;
use super::switches::{CountStyle, TaxonomyShape, TermFields, TermNames};

/// Answers with the sports, the most frequent first.
pub(super) fn sports(context: &Context<'_>) -> Answer {
    taxonomy(context, "sport", "sports", &context.world.current_terms()[0])
}

/// Answers with the states by name.
pub(super) fn states(context: &Context<'_>) -> Answer {
    taxonomy(context, "state", "states", &context.world.current_terms()[1])
}

/// Answers with the cities by name; equal names by slug.
pub(super) fn cities(context: &Context<'_>) -> Answer {
    taxonomy(context, "city", "cities", &context.world.current_terms()[2])
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
