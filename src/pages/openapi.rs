//! `/openapi.json`: the description of the API, with examples from the data.
//!
//! The file `openapi.json` beside this one is the template. `pages::tests` compares it with the code, and
//! `tests/wire/pages` with a running server. Callers: [`super::Pages::render`].

use crate::api::json;
use crate::api::taxonomy::TaxonomyKind;

use super::Site;
use super::facts::Facts;

/// The template, with names in place of values.
pub(super) const TEMPLATE: &str = include_str!("openapi.json");

/// The description with examples that this server answers.
pub(super) fn document(site: &Site, facts: Option<&Facts<'_>>) -> String {
    let example = |kind| facts.and_then(|facts| facts.example(kind));
    let sport = example(TaxonomyKind::Sports).unwrap_or("golf");
    let state = example(TaxonomyKind::States).unwrap_or("texas");
    let city = example(TaxonomyKind::Cities).unwrap_or("austin");
    let snapshot = facts.map_or("0123456789abcdef0123456789abcdef", |facts| facts.dataset.id.as_str());
    let id = facts.and_then(Facts::first_id).unwrap_or(1);
    let limit = match site.requests_per_minute {
        0 => "Requests are not limited here.".to_owned(),
        most => format!(
            "An address may send {most} requests in any 60 seconds; `RateLimit` says how many are left. Above that the \
             answer is 429, and `Retry-After` says when to try again."
        ),
    };
    let credit = facts.map_or_else(String::new, |facts| {
        let attribution = facts.credit.attribution.as_deref().unwrap_or_default();
        let backlink = facts.credit.backlink.as_deref().unwrap_or_default();
        format!(" Attribution: {attribution} {backlink}").trim_end().to_owned()
    });
    let mut text = TEMPLATE.to_owned();
    for (name, value) in [
        ("sport", sport),
        ("state", state),
        ("city", city),
        ("snapshot", snapshot),
        ("limit", &limit),
        ("credit", &credit),
    ] {
        let quoted = json::quote(value);
        text = text.replace(&format!("<{name}>"), &quoted[1..quoted.len() - 1]);
    }
    text.replace("<version>", super::RENDERER).replace("\"<id>\"", &id.to_string())
}
