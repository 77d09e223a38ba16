//! In every dialect, each slug and each pair of filters gives the origin's answer: ids, order, total and bytes.
//!
//! `dialects` samples and checks the cost of a refresh; here all combinations are compared.

use sample_origin::{
    ApiUrlStyle, CountStyle, EmptyFilters, EmptyPages, EtagStyle, Generated, GeneratedAt, ItemOrder, ModifiedStyle,
    Origin, Switches, TaxonomyShape, TermFields, TermNames, World,
};

use crate::compare::{same_list, slugs, taxonomy_is_the_origins};
use crate::harness::{PUBLIC, Server, Setup, origin_with, wait_until};

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

    let before = server.snapshot().await;
    origin.edit(|world| {
        let ids = world.ids();
        assert!(world.touch(ids[20]) && world.remove(ids[40]) && world.relocate(ids[60], "texarkana", Some("texas")));
        assert!(world.touch(ids[60]));
        world.insert_like(ids[80], "The New Park").unwrap();
    });
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    server.settled(&origin).await;
    every_filter_is_the_origins(&server, &origin).await;
}

macro_rules! dialects {
    ($($name:ident: $change:expr;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                is_exact($change).await;
            }
        )*
    };
}

dialects! {
    the_defaults_are_exact: |_| {};
    nested_indented_without_tags_and_gzip_under_a_prefix_is_exact: |s| {
        (s.pretty, s.prefix, s.gzip) = (true, "/v1/public".into(), false);
        (s.taxonomy_shape, s.etags, s.order) = (TaxonomyShape::Nested, EtagStyle::None, ItemOrder::ById);
    };
    weak_tags_a_request_id_array_filters_and_names_in_order_are_exact: |s| {
        (s.etags, s.request_id) = (EtagStyle::Weak, true);
        (s.empty_filters, s.order) = (EmptyFilters::Array, ItemOrder::ByName);
    };
    bare_arrays_escaped_slashes_other_fields_and_no_order_are_exact: |s| {
        (s.taxonomy_shape, s.api_url) = (TaxonomyShape::Array, ApiUrlStyle::EscapedSlashes);
        (s.field_names, s.order) = (TermFields::LabelTotal, ItemOrder::Arbitrary(3));
    };
    objects_keyed_by_slug_are_exact: |s| {
        (s.taxonomy_shape, s.field_names) = (TaxonomyShape::Keyed, TermFields::TitleListingsCount);
    };
    counts_as_strings_are_exact: |s| s.counts = CountStyle::Text;
    terms_without_counts_are_exact: |s| s.counts = CountStyle::Absent;
    a_count_that_disagrees_for_one_term_is_exact: |s| s.skewed_term = Some("california".into());
    names_in_capitals_are_exact: |s| s.term_names = TermNames::Capitals;
    names_with_a_trailing_space_are_exact: |s| s.term_names = TermNames::TrailingSpace;
    saints_that_are_spelled_out_are_exact: |s| s.term_names = TermNames::Saint;
    modified_without_offset_is_exact: |s| s.modified = ModifiedStyle::NoOffset;
    modified_with_decimals_is_exact: |s| s.modified = ModifiedStyle::Fraction;
    modified_as_a_day_is_exact: |s| s.modified = ModifiedStyle::Day;
    modified_that_some_listings_lack_is_exact: |s| {
        // Read-through answers may be as old as the origin allows.
        (s.modified, s.cache_control) = (ModifiedStyle::Gaps, Some("max-age=0".into()));
    };
    addresses_beside_the_taxonomy_are_exact: |s| {
        (s.api_url, s.prefix) = (ApiUrlStyle::Sibling, "/v1".into());
    };
    addresses_with_dot_segments_are_exact: |s| {
        (s.api_url, s.prefix) = (ApiUrlStyle::Dotted, "/v1".into());
    };
    stamps_that_stand_still_are_exact: |s| {
        (s.generated, s.etags) = (Generated::everywhere(GeneratedAt::StandsStill(1_768_435_200)), EtagStyle::None);
    };
    stamps_that_run_ahead_are_exact: |s| s.generated = Generated::everywhere(GeneratedAt::Ahead(86_400));
    an_empty_list_that_has_one_page_is_exact: |s| s.empty_pages = EmptyPages::One;
    addresses_without_scheme_are_exact: |s| s.api_url = ApiUrlStyle::WithoutScheme;
}

#[tokio::test]
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
    let id = origin.world(World::ids)[9];
    origin.edit(|world| assert!(world.touch(id)));
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != snapshot }).await;
    server.settled(&origin).await;
    every_filter_is_the_origins(&server, &origin).await;
}
