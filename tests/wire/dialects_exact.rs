//! In every dialect, each slug and each pair of filters gives the origin's answer: ids, order, total and bytes.
//!
//! `dialects` samples and checks the cost of a refresh; here all combinations are compared.

use sample_origin::{
    ApiUrlStyle, CountStyle, EmptyFilters, EmptyPages, EtagStyle, Generated, GeneratedAt, ItemOrder, ModifiedStyle,
    Origin, Switches, TaxonomyShape, TermFields, TermNames,
};

use crate::compare::{same_list, slugs, taxonomy_is_the_origins};
use crate::dialects::Dialect;
use crate::harness::virtually::origin_with;
use crate::harness::{PUBLIC, Server, Setup, each, edit};

const LIST: &str = "/api/listings.json";
const KINDS: [(&str, &str); 3] = [("sports", "sport"), ("states", "state"), ("cities", "city")];

/// Every slug of all taxonomies and many pairs of filters: from the snapshot or read through, but right.
async fn every_filter_is_the_origins(server: &Server, origin: &Origin) {
    let all = KINDS.map(|(name, parameter)| (parameter, slugs(origin, name)));
    let mut queries: Vec<String> = (1..=3).map(|page| format!("per_page=100&page={page}")).collect();
    for (parameter, slugs) in &all {
        queries.extend(slugs.iter().map(|slug| format!("{parameter}={slug}&per_page=100")));
    }
    let [sports, states, cities] = &all;
    for (sport, state) in sports.1.iter().take(6).flat_map(|sport| states.1.iter().step_by(5).map(move |s| (sport, s)))
    {
        queries.push(format!("sport={sport}&state={state}"));
    }
    for (city, state) in cities.1.iter().step_by(9).flat_map(|city| states.1.iter().step_by(13).map(move |s| (city, s)))
    {
        queries.push(format!("city={city}&state={state}"));
    }
    queries.push("city=texarkana&state=texas".into());
    queries.push("city=texarkana&state=arkansas".into());
    for since in ["2025-06-01", "2025-06-01T12:30:00Z", "2024-02-29T00:00:00-05:00"] {
        queries.push(format!("modified_since={since}&per_page=100"));
        queries.push(format!("sport=baseball&modified_since={since}&per_page=7&page=2"));
    }
    for query in queries {
        let target = format!("{LIST}?{query}");
        let ours = server.ok(&target).await;
        let (status, text) = origin.expected_text(&target);
        assert_eq!(status, 200, "{target}");
        same_list(ours.text(), &text, &target);
    }
    for (name, _) in KINDS {
        taxonomy_is_the_origins(server, origin, name, PUBLIC).await;
    }
}

/// Mirrors an origin that speaks so and compares everything, before and after a change.
async fn is_exact(change: impl FnOnce(&mut Switches)) {
    let mut switches = Switches::default();
    change(&mut switches);
    let origin = origin_with(230, switches).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    every_filter_is_the_origins(&server, &origin).await;

    edit(&origin, &server, |world| {
        let ids = world.ids();
        assert!(world.touch(ids[20]) && world.remove(ids[40]) && world.relocate(ids[60], "texarkana", Some("texas")));
        assert!(world.touch(ids[60]));
        world.insert_like(ids[80], "The New Park").unwrap();
    })
    .await;
    every_filter_is_the_origins(&server, &origin).await;
}

#[tokio::test(start_paused = true)]
async fn taxonomies_in_each_dialect_are_exact() {
    let dialects: [Dialect; 9] = [
        ("bare arrays, escaped slashes, other fields, no order", |s| {
            (s.taxonomy_shape, s.api_url) = (TaxonomyShape::Array, ApiUrlStyle::EscapedSlashes);
            (s.field_names, s.order) = (TermFields::LabelTotal, ItemOrder::Arbitrary(3));
        }),
        ("objects keyed by slug", |s| {
            (s.taxonomy_shape, s.field_names) = (TaxonomyShape::Keyed, TermFields::TitleListingsCount);
        }),
        ("counts as strings", |s| s.counts = CountStyle::Text),
        ("terms without counts", |s| s.counts = CountStyle::Absent),
        ("a count that disagrees for one term", |s| s.skewed_term = Some("california".into())),
        ("names in capitals", |s| s.term_names = TermNames::Capitals),
        ("names with a trailing space", |s| s.term_names = TermNames::TrailingSpace),
        ("saints that are spelled out", |s| s.term_names = TermNames::Saint),
        ("nested, indented, without tags and gzip, under a prefix", |s| {
            (s.pretty, s.prefix, s.gzip) = (true, "/v1/public".into(), false);
            (s.taxonomy_shape, s.etags, s.order) = (TaxonomyShape::Nested, EtagStyle::None, ItemOrder::ById);
        }),
    ];
    each(dialects, async |(_, change)| is_exact(change).await).await;
}

#[tokio::test(start_paused = true)]
async fn listings_in_each_dialect_are_exact() {
    let dialects: [Dialect; 6] = [
        ("the defaults", |_| {}),
        ("weak tags, a request id, array filters, an order by name", |s| {
            (s.etags, s.request_id) = (EtagStyle::Weak, true);
            (s.empty_filters, s.order) = (EmptyFilters::Array, ItemOrder::ByName);
        }),
        ("modified without offset", |s| s.modified = ModifiedStyle::NoOffset),
        ("modified with decimals", |s| s.modified = ModifiedStyle::Fraction),
        ("modified as a day", |s| s.modified = ModifiedStyle::Day),
        // Read-through answers may be as old as the origin allows.
        ("modified that some listings lack", |s| {
            (s.modified, s.cache_control) = (ModifiedStyle::Gaps, Some("max-age=0".into()));
        }),
    ];
    each(dialects, async |(_, change)| is_exact(change).await).await;
}

#[tokio::test(start_paused = true)]
async fn addresses_and_stamps_in_each_dialect_are_exact() {
    let dialects: [Dialect; 6] = [
        ("addresses beside the taxonomy", |s| (s.api_url, s.prefix) = (ApiUrlStyle::Sibling, "/v1".into())),
        ("addresses with dot segments", |s| (s.api_url, s.prefix) = (ApiUrlStyle::Dotted, "/v1".into())),
        ("addresses without scheme", |s| s.api_url = ApiUrlStyle::WithoutScheme),
        ("stamps that stand still", |s| {
            (s.generated, s.etags) = (Generated::everywhere(GeneratedAt::StandsStill(1_768_435_200)), EtagStyle::None);
        }),
        ("stamps that run ahead", |s| s.generated = Generated::everywhere(GeneratedAt::Ahead(86_400))),
        ("an empty list that has one page", |s| s.empty_pages = EmptyPages::One),
    ];
    each(dialects, async |(_, change)| is_exact(change).await).await;
}

#[tokio::test(start_paused = true)]
async fn entity_tags_that_change_alone_publish_nothing() {
    let origin = origin_with(230, Switches { etags: EtagStyle::Deployment(1), ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let (snapshot, page) = (server.snapshot().await, server.ok(LIST).await);
    for deployment in 2..4 {
        origin.set(|switches| switches.etags = EtagStyle::Deployment(deployment));
        origin.clear_log();
        server.refreshed(&origin).await;
        assert!(origin.count() <= 5, "{} requests for other tags alone", origin.count());
        assert_eq!((server.snapshot().await, server.ok(LIST).await.etag()), (snapshot.clone(), page.etag()));
        assert_eq!(server.status().await["origin"]["state"], "unchanged");
    }
    edit(&origin, &server, |world| assert!(world.touch(world.ids()[9]))).await;
    every_filter_is_the_origins(&server, &origin).await;
}
