//! `/api/regions.json`: an undocumented endpoint, of the kind that an API gains over time.
//!
//! With it, a proxy can show how it treats unknown endpoints: the body has an `api_url` that must stay as it is, and
//! repeats the raw query. Callers: `answer`.

use super::answer::{Answer, Context};

/// Name of each region and the codes of its states.
const REGIONS: [(&str, &str, &str); 4] = [
    ("northeast", "Northeast", "ct me ma nh nj ny pa ri vt"),
    ("midwest", "Midwest", "il in ia ks mi mn mo ne nd oh sd wi"),
    ("south", "South", "al ar de dc fl ga ky la md ms nc ok sc tn tx va wv"),
    ("west", "West", "ak az ca co hi id mt nv nm or ut wa wy"),
];

/// Answers with the regions and the query as it came.
pub(super) fn regions(context: &Context<'_>, query: &str) -> Answer {
    let mut json = context.json();
    json.object(|json| {
        context.envelope(json, "DefinedTermSet", context.switches.generated.taxonomies);
        json.field("query", query);
        json.key("items").array(|json| {
            for (slug, name, codes) in REGIONS {
                json.object(|json| {
                    json.field("slug", slug);
                    json.field("name", name);
                    json.key("states").array(|json| codes.split(' ').for_each(|code| json.string(code)));
                    json.field("api_url", &context.api_url("region", slug));
                });
            }
        });
    });
    Answer::json(200, json.finish())
}
