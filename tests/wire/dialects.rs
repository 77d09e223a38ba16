//! The documented API has many dialects; the mirror understands them all, and a refresh stays cheap in each.

use sample_origin::{
    ApiUrlStyle, EmptyFilters, EmptyPages, EtagStyle, Generated, GeneratedAt, ItemOrder, Switches, TaxonomyShape,
    TermFields, World,
};

use crate::compare::{
    detail_is_the_origins, list_is_the_origins, slugs, taxonomies_are_the_origins, taxonomy_is_the_origins,
};
use crate::harness::virtually::origin_with;
use crate::harness::{PUBLIC, Setup, each};

/// The name of another base address of the origin.
const ALIAS: &str = "https://api.venues.example/v2";

/// 2026-01-15, months ago.
const STANDS: GeneratedAt = GeneratedAt::StandsStill(1_768_435_200);

/// Mirrors an origin with this dialect, compares a sample, and refreshes without a change.
async fn is_understood(change: impl FnOnce(&mut Switches)) {
    let mut switches = Switches::default();
    change(&mut switches);
    let request_id = switches.request_id;
    let conditional = matches!(switches.etags, EtagStyle::Strong | EtagStyle::Weak);
    let origin = origin_with(230, switches).await;
    let server = Setup::mirror_of(&origin).set("origin.aliases", &format!("[{ALIAS:?}]")).start().await;
    server.settled(&origin).await;

    taxonomies_are_the_origins(&server, &origin).await;
    for id in origin.world(World::ids).into_iter().step_by(23) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    let mut sample = vec![String::new(), "?page=3".into(), "?per_page=100&page=3".into(), "?page=6".into()];
    sample.extend(["?modified_since=2025-06-01", "?modified_since=2025-06-01&page=2&per_page=7"].map(str::to_owned));
    for (name, parameter) in [("sports", "sport"), ("states", "state"), ("cities", "city")] {
        sample.extend(slugs(&origin, name).iter().step_by(3).map(|slug| format!("?{parameter}={slug}")));
    }
    sample.push("?sport=baseball&state=california".into());
    for query in &sample {
        list_is_the_origins(&server, &origin, &format!("/api/listings.json{query}")).await;
    }

    if request_id {
        let status = server.status().await.to_string();
        assert!(status.contains("request_id"), "neither volatile nor left out: {status}");
    }

    let shown = [String::new(), "?page=2".into(), "?sport=baseball".into()];
    let mut tags = Vec::new();
    for query in &shown {
        tags.push(server.ok(&format!("/api/listings.json{query}")).await.etag());
    }
    let taxonomy = server.ok("/api/cities.json").await.etag();
    let snapshot = server.snapshot().await;
    for round in 0..2 {
        origin.clear_log();
        server.refreshed(&origin).await;
        let log = origin.log();
        let asked: Vec<_> = log.iter().map(|seen| (&seen.path_and_query, seen.status)).collect();
        assert!(asked.len() <= 5, "a refresh that finds nothing costs too much: {asked:#?}");
        if conditional {
            // A question asked for the first time cannot be conditional; the next time it is.
            let new = |path: &str| round == 0 && path.contains("modified_since=");
            let cheap = log.iter().all(|seen| seen.status == 304 || new(&seen.path_and_query));
            assert!(cheap && log.iter().filter(|seen| !seen.conditional).count() <= 1, "{asked:#?}");
        }
        assert_eq!(server.snapshot().await, snapshot, "a refresh that finds nothing publishes nothing");
    }
    for (query, tag) in shown.iter().zip(tags) {
        assert_eq!(server.ok(&format!("/api/listings.json{query}")).await.etag(), tag, "{query}");
    }
    assert_eq!(server.ok("/api/cities.json").await.etag(), taxonomy);
    assert_eq!(server.status().await["origin"]["state"], "unchanged");
}

/// What is otherwise, and how the origin does it.
pub type Dialect = (&'static str, fn(&mut Switches));

#[tokio::test(start_paused = true)]
async fn each_spelling_is_understood_and_its_refresh_is_cheap() {
    let dialects: [Dialect; 13] = [
        ("the defaults", |_| {}),
        ("a prefix in front of api", |s| s.prefix = "/v1/public".into()),
        ("escaped slashes", |s| s.api_url = ApiUrlStyle::EscapedSlashes),
        ("relative addresses", |s| (s.api_url, s.prefix) = (ApiUrlStyle::Relative, "/v1".into())),
        ("addresses under an alias", |s| s.api_url = ApiUrlStyle::Alias(ALIAS.into())),
        ("indented bodies", |s| s.pretty = true),
        ("taxonomies that are bare arrays", |s| s.taxonomy_shape = TaxonomyShape::Array),
        ("nested taxonomies", |s| (s.taxonomy_shape, s.pretty) = (TaxonomyShape::Nested, true)),
        ("terms with a title", |s| s.field_names = TermFields::TitleListingsCount),
        ("terms with a label and a total", |s| s.field_names = TermFields::LabelTotal),
        ("empty filters as an array", |s| s.empty_filters = EmptyFilters::Array),
        ("empty lists of one page", |s| s.empty_pages = EmptyPages::One),
        ("neither gzip nor Cache-Control", |s| (s.gzip, s.cache_control) = (false, None)),
    ];
    each(dialects, async |(_, change)| is_understood(change).await).await;
}

#[tokio::test(start_paused = true)]
async fn each_stamp_tag_and_order_is_understood_and_its_refresh_is_cheap() {
    let dialects: [Dialect; 13] = [
        ("weak entity tags", |s| s.etags = EtagStyle::Weak),
        ("entity tags that never repeat", |s| s.etags = EtagStyle::WithGeneratedAt),
        ("no entity tags", |s| s.etags = EtagStyle::None),
        ("a request id", |s| s.request_id = true),
        ("a request id, no entity tags", |s| (s.request_id, s.etags) = (true, EtagStyle::None)),
        ("stamps that stand still", |s| s.generated = Generated::everywhere(STANDS)),
        ("the same without entity tags", |s| {
            (s.generated, s.etags) = (Generated::everywhere(STANDS), EtagStyle::None);
        }),
        ("stamps that run ahead", |s| s.generated = Generated::everywhere(GeneratedAt::Ahead(86_400))),
        ("stamps in every answer", |s| s.generated = Generated::everywhere(GeneratedAt::Now)),
        ("no stamps at all", |s| s.generated = Generated::everywhere(GeneratedAt::Absent)),
        ("an order by id", |s| s.order = ItemOrder::ById),
        ("an order by name", |s| s.order = ItemOrder::ByName),
        ("an arbitrary order", |s| s.order = ItemOrder::Arbitrary(7)),
    ];
    each(dialects, async |(_, change)| is_understood(change).await).await;
}

/// Terms in doubt are read through, so their answers are the origin's, too; only the cost may differ.
#[tokio::test(start_paused = true)]
async fn counts_that_disagree_make_terms_doubtful_and_block_nothing() {
    let switches = Switches { count_skew: 3, ..Switches::default() };
    let origin = origin_with(120, switches).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    list_is_the_origins(&server, &origin, "/api/listings.json?page=2").await;
    for (name, parameter) in [("sports", "sport"), ("states", "state"), ("cities", "city")] {
        taxonomy_is_the_origins(&server, &origin, name, PUBLIC).await;
        for slug in slugs(&origin, name) {
            let target = format!("/api/listings.json?{parameter}={slug}&per_page=100");
            let ours = server.ok(&target).await;
            crate::compare::same_list(ours.text(), &origin.expected_text(&target).1, &target);
        }
    }
}
