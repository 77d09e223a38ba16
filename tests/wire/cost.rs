//! What the mirror costs its origin, counted by the origin, in several dialects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sample_origin::{
    BeyondLast, Cdn, EtagStyle, ItemOrder, Origin, Reading, Seen, Switches, TaxonomyShape, TermFields, World,
};
use serde_json::Value;

use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, wait_until};
use crate::origin_faults::Spelling;

const LISTINGS: usize = 230;
const LIST: &str = "/api/listings.json";
/// Changes at once.
const CHANGES: usize = 3;
const KINDS: [(&str, &str); 3] = [("sports", "sport"), ("states", "state"), ("cities", "city")];

/// What a request is for, as the origin can tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum For {
    Page,
    Taxonomy,
    Detail,
    /// A page of one term: parameter and slug.
    Term(&'static str, String),
    /// An example of a shape: several filters, a date, a time in another spelling, an open case.
    Example,
    /// Any other filter: a probe.
    Probe,
}

/// The most examples.
const EXAMPLES: usize = 108;

/// Examples with one term alone, which look like the list of a term.
const OF_TERMS: usize = 3;

/// The most requests beside the mirror's own where filters mean something else.
const MISREAD: usize = 30;

fn purpose(path_and_query: &str) -> For {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    if let Some((_, id)) = path.split_once("/listings/") {
        return if id.starts_with(|first: char| first.is_ascii_digit()) { For::Detail } else { For::Example };
    }
    if !path.ends_with("/listings.json") {
        return For::Taxonomy;
    }
    let filters: Vec<(&str, &str)> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .filter(|(name, _)| !matches!(*name, "page" | "per_page"))
        .collect();
    // Open cases: another size of pages, nothing, or a word that nothing has.
    let is_known = |(_, value): &(&str, &str)| !value.is_empty() && !matches!(*value, "qzvxk" | "wjqpfh");
    let is_own = query.contains("per_page=100") || query.starts_with("modified_since");
    if !is_own || !filters.iter().all(is_known) {
        return For::Example;
    }
    let term = |&(name, slug): &(&str, &str)| {
        let (_, parameter) = KINDS.into_iter().find(|(_, parameter)| *parameter == name)?;
        Some(For::Term(parameter, slug.to_owned()))
    };
    match &filters[..] {
        [] => For::Page,
        [("modified_since", time)] if !time.ends_with('Z') => For::Example,
        [one] => term(one).unwrap_or(For::Probe),
        _ => For::Example,
    }
}

fn text(seen: &[Seen]) -> String {
    let lines = seen.iter().map(|seen| format!("{} {} {}", seen.status, seen.conditional, seen.path_and_query));
    lines.collect::<Vec<_>>().join("\n")
}

fn of(log: &[Seen], wanted: impl Fn(&For) -> bool) -> Vec<Seen> {
    log.iter().filter(|seen| wanted(&purpose(&seen.path_and_query))).cloned().collect()
}

/// Slugs, names and counts of a taxonomy, whatever its shape.
fn terms(value: &Value, found: &mut Vec<(String, String, u64)>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| terms(value, found)),
        Value::Object(fields) => {
            if let Some(slug) = fields.get("slug").and_then(Value::as_str) {
                let name =
                    fields.iter().find(|(key, value)| !matches!(key.as_str(), "slug" | "api_url") && value.is_string());
                let count = fields.values().find_map(Value::as_u64).unwrap();
                found.push((slug.to_owned(), name.unwrap().1.as_str().unwrap().to_owned(), count));
            }
            fields.values().for_each(|value| terms(value, found));
        }
        _ => {}
    }
}

/// How many pages the origin's list has.
fn pages(origin: &Origin) -> usize {
    let largest = usize::try_from(origin.switches().edges.largest_page).unwrap();
    origin.world(World::len).div_ceil(largest.min(100))
}

/// The terms that names and counts leave ambiguous, worked out from the origin's answers alone.
fn ambiguous(origin: &Origin) -> BTreeSet<For> {
    let mut items = Vec::new();
    for page in 1..=pages(origin) {
        let (_, body) = origin.expected(&format!("{LIST}?per_page=100&page={page}"));
        items.extend(body["items"].as_array().unwrap().clone());
    }
    let mut found = BTreeSet::new();
    for (name, parameter) in KINDS {
        let mut all = Vec::new();
        terms(&origin.expected(&format!("/api/{name}.json")).1, &mut all);
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, name, _) in &all {
            *by_name.entry(name).or_default() += 1;
        }
        for (slug, name, count) in &all {
            let value = if parameter == "sport" { slug } else { name };
            let group = items.iter().filter(|item| item[parameter] == value.as_str()).count() as u64;
            if group != *count || (parameter != "sport" && by_name[name.as_str()] > 1) {
                found.insert(For::Term(parameter, slug.clone()));
            }
        }
    }
    found
}

fn first_mirror_is_cheap(origin: &Origin) {
    let log = origin.log();
    let other = of(&log, |purpose| !matches!(purpose, For::Term(..) | For::Example));
    // Where filters mean something else, that is asked again, and whether the list holds still.
    let is_misread = origin.switches().reading != Reading::default();
    // Whether a field is volatile shows at a third look.
    let looks = usize::from(Spelling::Counting.is_of(&origin.switches()));
    let beside = if is_misread { MISREAD } else { looks };
    // Two of the examples look like probes, one of them for the very second of a listing, and some are pages.
    let most = 2 * pages(origin) + 9 + LISTINGS + beside + 4;
    let few = of(&other, |purpose| *purpose != For::Detail);
    assert!(other.len() <= most, "{} instead of {most} requests; without details:\n{}", other.len(), text(&few));
    assert_eq!(of(&log, |purpose| *purpose == For::Detail).len(), LISTINGS, "each detail once");
    let probes = of(&log, |purpose| *purpose == For::Probe);
    assert!(probes.len() <= 5, "{}", text(&probes));
    let examples = of(&log, |purpose| *purpose == For::Example);
    assert!((10..=EXAMPLES).contains(&examples.len()), "{} {}", examples.len(), text(&examples));
    let ambiguous = ambiguous(origin);
    let term_pages = of(&log, |purpose| matches!(purpose, For::Term(..)));
    let needless = of(&term_pages, |purpose| !ambiguous.contains(purpose));
    assert!(needless.len() <= OF_TERMS, "names and counts say what these stand for:\n{}", text(&needless));
    let mut paths: Vec<&str> = term_pages.iter().map(|seen| seen.path_and_query.as_str()).collect();
    paths.sort_unstable();
    let twice = paths.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(twice <= OF_TERMS, "a page of a term twice: {paths:#?}");
}

async fn a_refresh_that_finds_nothing_is_cheap(server: &Server, origin: &Origin, stable: bool) {
    for round in 0..2 {
        origin.clear_log();
        server.refreshed(origin).await;
        let log = of(&origin.log(), |purpose| *purpose != For::Example);
        assert!(log.len() <= 5, "{}", text(&log));
        let bodies = log.iter().filter(|seen| seen.status != 304).count();
        assert!(!stable || round == 0 || bodies == 0, "{}", text(&log));
    }
}

/// Changes the world and counts the requests until the mirror has all of it.
async fn a_change_is_cheap(
    server: &Server,
    origin: &Origin,
    stable: bool,
    details: usize,
    change: impl FnOnce(&mut World),
) {
    let old: BTreeMap<String, String> = shown(origin);
    let before = server.snapshot().await;
    origin.clear_log();
    origin.edit(change);
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    server.settled(origin).await;
    let log = origin.log();
    let fetched = of(&log, |purpose| *purpose == For::Detail);
    assert_eq!(fetched.len(), details, "{}", text(&fetched));
    let other = of(&log, |purpose| !matches!(purpose, For::Detail | For::Example));
    assert!(other.len() <= pages(origin) + 10, "{} requests:\n{}", other.len(), text(&other));
    let new = shown(origin);
    for seen in other.iter().filter(|seen| stable && seen.status == 200) {
        let path = &seen.path_and_query;
        let same = old.get(path).is_some_and(|old| new.get(path) == Some(old));
        assert!(!same, "a body although nothing changed: {path}\n{}", text(&other));
    }
}

/// Every page of the crawl and every taxonomy by path, without volatile fields.
fn shown(origin: &Origin) -> BTreeMap<String, String> {
    let prefix = origin.url().splitn(4, '/').nth(3).map(|rest| format!("/{rest}")).unwrap_or_default();
    let mut paths = vec![format!("{LIST}?per_page=100")];
    paths.extend((2..=pages(origin)).map(|page| format!("{LIST}?page={page}&per_page=100")));
    paths.extend(KINDS.map(|(name, _)| format!("/api/{name}.json")));
    let of = |path: String| {
        let mut body = origin.expected(&path).1;
        for volatile in ["generated_at", "request_id"] {
            body.as_object_mut().map(|fields| fields.remove(volatile));
        }
        (format!("{prefix}{path}"), body.to_string())
    };
    paths.into_iter().map(of).collect()
}

/// Listings that no ambiguous term holds, far apart.
fn plain_ids(origin: &Origin, ambiguous: &BTreeSet<For>) -> Vec<u64> {
    origin.world(|world| {
        let plain = |id: &u64| {
            let (sport, state, city) = world.slugs_of(*id).unwrap();
            let terms = [("sport", sport.to_owned()), ("state", state), ("city", city.to_owned())];
            terms.into_iter().all(|(parameter, slug)| !ambiguous.contains(&For::Term(parameter, slug)))
        };
        world.ids().into_iter().filter(plain).step_by(11).collect()
    })
}

async fn is_cheap(change: impl FnOnce(&mut Switches)) {
    let mut switches = Switches::default();
    change(&mut switches);
    let has_tags = matches!(switches.etags, EtagStyle::Strong | EtagStyle::Weak);
    let stable = has_tags && switches.faults.is_empty();
    let origin = origin_with(LISTINGS, switches).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    server.disproved().await;
    crate::harness::quiet(&origin).await;
    first_mirror_is_cheap(&origin);
    if origin.switches().reading != Reading::default() {
        // It shows itself only to a refresh.
        server.refreshed(&origin).await;
    }
    a_refresh_that_finds_nothing_is_cheap(&server, &origin, stable).await;
    let ids = plain_ids(&origin, &ambiguous(&origin));
    let (touched, rest) = ids.split_at(CHANGES);
    let (like, gone) = rest.split_at(CHANGES);
    a_change_is_cheap(&server, &origin, stable, CHANGES, |world| {
        assert!(touched.iter().all(|id| world.touch(*id)));
    })
    .await;
    a_change_is_cheap(&server, &origin, stable, CHANGES, |world| {
        for id in like {
            world.insert_like(*id, "A New One").unwrap();
        }
    })
    .await;
    a_change_is_cheap(&server, &origin, stable, 0, |world| {
        assert!(gone[..CHANGES].iter().all(|id| world.remove(*id)));
    })
    .await;
    if origin.switches().names_removed {
        // Its lists of changes have more than ours; the probe shows it.
        let disproved = async || server.status().await["disproved"].to_string();
        wait_until("they are read through", async || disproved().await.contains("modified_since(zoned)")).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        crate::harness::quiet(&origin).await;
    }
    a_refresh_that_finds_nothing_is_cheap(&server, &origin, stable).await;
    let unsteady = server.finding("answers-unsteady").await;
    assert_eq!(unsteady.is_some(), !origin.switches().faults.is_empty(), "{unsteady:?}");
}

macro_rules! dialects {
    ($($name:ident: $change:expr;)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                is_cheap($change).await;
            }
        )*
    };
}

dialects! {
    an_origin_with_the_defaults_is_cheap: |_| {};
    an_order_by_id_is_cheap: |s| s.order = ItemOrder::ById;
    an_order_by_name_is_cheap: |s| s.order = ItemOrder::ByName;
    an_arbitrary_order_is_cheap: |s| s.order = ItemOrder::Arbitrary(7);
    weak_tags_and_a_request_id_are_cheap: |s| (s.etags, s.request_id) = (EtagStyle::Weak, true);
    an_origin_without_tags_is_cheap: |s| s.etags = EtagStyle::None;
    tags_that_never_repeat_are_cheap: |s| s.etags = EtagStyle::WithGeneratedAt;
    nested_and_indented_under_a_prefix_is_cheap: |s| {
        (s.taxonomy_shape, s.pretty, s.prefix) = (TaxonomyShape::Nested, true, "/v1".into());
    };
    keyed_by_slug_with_other_fields_is_cheap: |s| {
        (s.taxonomy_shape, s.field_names) = (TaxonomyShape::Keyed, TermFields::TitleListingsCount);
    };
    answers_that_say_an_age_of_nothing_are_cheap: |s| s.cdn = Some(Cdn { max_age: Duration::ZERO, nodes: 1 });
    smaller_pages_are_cheap: |s| s.edges.largest_page = 50;
    a_total_that_stops_counting_is_cheap: |s| s.cached_total = Some(200);
    a_total_that_stops_counting_before_the_last_page_is_cheap: |s| s.cached_total = Some(150);
    an_error_beyond_the_last_page_is_cheap: |s| s.edges.beyond = BeyondLast::NotFound;
    the_last_page_again_beyond_it_is_cheap: |s| s.edges.beyond = BeyondLast::LastPage;
    times_in_a_zone_of_its_own_are_cheap: |s| {
        s.reading = Reading { drops_offset: true, ..Reading::local("CST6CDT,M3.2.0,M11.1.0").unwrap() };
    };
    times_that_are_compared_as_text_are_cheap: |s| s.reading.as_text = true;
    removed_listings_that_are_still_named_are_cheap: |s| s.names_removed = true;
}

// Origins whose answers have equal values and other bytes at each look.
dialects! {
    another_order_of_keys_at_each_look_is_cheap: |s| Spelling::Shuffled.everywhere(s);
    other_white_space_at_each_look_is_cheap: |s| Spelling::Padded.everywhere(s);
    a_counter_in_each_listing_is_cheap: |s| Spelling::Counting.everywhere(s);
}
