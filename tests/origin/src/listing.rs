//! A venue as JSON: the summary in lists, and the detail at `/api/listings/{id}.json`.
//!
//! The world writes most members; here they get the origin's spelling. Callers: `lists` and `answer`.

use sample::Venue;

use super::answer::{Answer, Context, credits};
use super::json::Json;
use super::switches::ModifiedStyle;

/// Writes the members of a summary.
pub(super) fn summary(context: &Context<'_>, json: &mut Json, venue: &Venue) {
    json.members(&context.world.members(venue));
    version(context, json);
    match context.switches.modified {
        ModifiedStyle::Gaps if venue.id.is_multiple_of(7) => {}
        ModifiedStyle::Offset | ModifiedStyle::Gaps => json.field("modified", &venue.modified.text()),
        ModifiedStyle::Second => json.field("modified", &venue.modified.whole().text()),
        ModifiedStyle::NoOffset => json.field("modified", &venue.modified.at.strftime("%FT%T%.f").to_string()),
        ModifiedStyle::Fraction => json.field("modified", &venue.modified.at.strftime("%FT%T%.6fZ").to_string()),
        ModifiedStyle::Day => json.field("modified", &venue.modified.at.strftime("%F").to_string()),
    }
}

/// Writes what only one of two versions has.
fn version(context: &Context<'_>, json: &mut Json) {
    if context.switches.rolling && context.nonce % 2 == 1 {
        json.field("indoor", "unknown");
    }
}

/// Answers with the detail of a listing; `None` if the id is unknown.
pub(super) fn detail(context: &Context<'_>, id: u64) -> Option<Answer> {
    let venue = context.world.venue(id).filter(|_| !context.switches.hidden.contains(&id))?;
    let mut json = context.json();
    json.object(|json| {
        credits(json);
        context.generated_at(json, context.switches.generated.details);
        context.request_id(json);
        json.field("@type", "SportsActivityLocation");
        json.members(&context.world.members(venue));
        json.members(&context.world.details(venue));
        version(context, json);
    });
    Some(Answer::json(200, json.finish()))
}
