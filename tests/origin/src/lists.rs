//! `/api/listings.json`: pages of summaries.
//!
//! Filters walk all venues in the origin's order; only unfiltered pages are sliced. Callers: `answer`.

use std::cmp::Reverse;

use sample::Venue;
use sample::dice::Dice;

use super::answer::{Answer, Context};
use super::edges::{BeyondLast, Elsewhere};
use super::json::Json;
use super::listing;
use super::order::ItemOrder;
use super::query::Query;
use super::switches::{EmptyFilters, EmptyPages, Quirk, Switches};

/// Answers with one page.
pub(super) fn page(context: &Context<'_>, raw: &str) -> Answer {
    let edges = &context.switches.edges;
    let mut query = match Query::parse(raw, context.world, context.switches, context.now) {
        Ok(query) => query,
        Err((status, complaint)) => return context.error(status, &complaint),
    };
    if edges.elsewhere == Elsewhere::NotFound
        && let Some((state, city)) = query.outside(context.world)
    {
        return context.error(404, &format!("{city} is not in {state}"));
    }
    let mut page = query.page.unwrap_or(1);
    let (quirk, is_filtered) = (context.switches.quirk, !query.filters.is_empty());
    let menu = |size: &u64| quirk != Some(Quirk::MenuOfSizes) || is_filtered || [10, 25, 50, 100].contains(size);
    let small = (quirk == Some(Quirk::SmallFilteredPages) && is_filtered).then_some(20);
    let per_page = query.per_page.filter(menu).or(small).unwrap_or(context.switches.style.page_size);
    if let Some(Quirk::Window(most, status)) = quirk
        && page.saturating_mul(per_page) > most
    {
        return context.error(status, &format!("results beyond the first {most} are not shown"));
    }
    let is_empty = is_filtered && select(context, &query, 0, 1).1 == 0;
    if is_empty && quirk == Some(Quirk::EmptyIsNotFound) {
        return context.error(404, "there is no such listing");
    }
    if is_empty && quirk == Some(Quirk::FallsBack) {
        query = query.first_alone();
    }
    let (mut venues, mut total) = select(context, &query, (page - 1).saturating_mul(per_page), per_page);
    let last = total.div_ceil(per_page).max(1);
    if page > last {
        let ends = quirk == Some(Quirk::EndsFiltered) && is_filtered;
        match edges.beyond {
            BeyondLast::Empty if !ends => {}
            BeyondLast::NoTotal => total = 0,
            BeyondLast::Empty | BeyondLast::NotFound => {
                return context.error(404, &format!("page '{page}' is beyond the last one"));
            }
            BeyondLast::LastPage => {
                page = last;
                venues = select(context, &query, (page - 1).saturating_mul(per_page), per_page).0;
            }
        }
    }
    let mut json = context.json();
    json.object(|json| {
        context.envelope(json, "ItemList", context.switches.generated.lists);
        json.key("page").raw(page);
        json.key("per_page").raw(per_page);
        let quote = if context.switches.style.quotes_totals { "\"" } else { "" };
        json.key("total").raw(format_args!("{quote}{total}{quote}"));
        json.key("total_pages").raw(format_args!("{quote}{}{quote}", pages(total, per_page, context.switches)));
        json.key("filters");
        echo(json, &query.filters, context.switches);
        if context.switches.style.facets {
            let all = select(context, &query, 0, u64::MAX).0;
            let mut sports: Vec<u8> = all.iter().map(|venue| venue.sport).collect();
            sports.sort_unstable();
            json.key("facets").object(|json| {
                for of_sport in sports.chunk_by(|one, other| one == other) {
                    json.key(&of_sport[0].to_string()).raw(of_sport.len());
                }
            });
        }
        json.key("items");
        if venues.is_empty() && quirk == Some(Quirk::NullIfEmpty) {
            json.raw("null");
            return;
        }
        json.array(|json| {
            let has_rank = quirk == Some(Quirk::Ranks) && query.filters.iter().any(|(name, _)| *name == "state");
            for (place, venue) in venues.into_iter().enumerate() {
                json.object(|json| {
                    listing::summary(context, json, venue);
                    if has_rank {
                        json.key("rank").raw(place + 1);
                    }
                });
            }
        });
    });
    Answer::json(200, json.finish())
}

fn pages(total: u64, per_page: u64, switches: &Switches) -> u64 {
    let more = u64::from(switches.style.one_more && total > 0 && total.is_multiple_of(per_page));
    (total.div_ceil(per_page) + more).max(u64::from(switches.empty_pages == EmptyPages::One))
}

/// The venues of a page, and how many the query selects in all.
fn select<'a>(context: &Context<'a>, query: &Query, skip: u64, take: u64) -> (Vec<&'a Venue>, u64) {
    let (world, switches) = (context.world, context.switches);
    let is_filtered = !query.filters.is_empty();
    let filtered = switches.filtered_order.filter(|_| is_filtered);
    let by_size = (switches.quirk == Some(Quirk::LargePagesById) && take > 50).then_some(ItemOrder::ById);
    let order = world.ordered(by_size.or(filtered).unwrap_or(switches.order));
    let venue = |position: &u32| &world.venues[*position as usize];
    if !is_filtered && switches.ties.is_none() && switches.hidden.is_empty() {
        let from = order.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
        let slice = order[from..].iter().take(take as usize);
        return (slice.map(venue).collect(), switches.cached_total.unwrap_or(order.len() as u64));
    }
    let selected = query.selection(world, switches);
    let mut venues: Vec<&Venue> = order.iter().map(venue).filter(|venue| selected(venue)).collect();
    if let Some(Quirk::EndsAfter(most)) = switches.quirk.filter(|_| is_filtered) {
        venues.truncate(most);
    }
    let total = switches.cached_total.filter(|_| !is_filtered).unwrap_or(venues.len() as u64);
    let mut total = total;
    if switches.names_removed && query.filters.iter().any(|(name, _)| *name == "modified_since") {
        venues.extend(world.removed().iter().filter(|venue| selected(venue)));
        total = venues.len() as u64;
    }
    venues.retain(|venue| !switches.hidden.contains(&venue.id));
    if let Some(seed) = switches.ties {
        let filters = query.filters.iter().flat_map(|(name, value)| name.bytes().chain(value.bytes()));
        let filters = filters.fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        venues.sort_by_cached_key(|venue| {
            (Reverse(venue.modified.at), Dice::of(&[filters, skip, take, venue.id]).roll())
        });
    }
    let from = venues.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
    (venues[from..].iter().copied().take(take as usize).collect(), total)
}

fn echo(json: &mut Json, filters: &[(&str, String)], switches: &Switches) {
    if filters.is_empty() && switches.empty_filters == EmptyFilters::Array {
        return json.array(|_| {});
    }
    let is_absent = |name: &&str| !filters.iter().any(|(known, _)| known == name);
    json.object(|json| {
        for (name, value) in filters {
            json.field(name, value);
        }
        let all = ["sport", "state", "city", "modified_since"];
        for name in all.into_iter().filter(is_absent).filter(|_| switches.style.echoes_all && !filters.is_empty()) {
            json.key(name).raw("null");
        }
    });
}
