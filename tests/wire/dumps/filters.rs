//! Dumps of some listings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ALL, CSV, DETAILS_CSV, GEOJSON};
use crate::client::Reply;
use crate::harness::{Server, shared_mirror};

/// The ids in the lines of a dump, or its features.
fn ids(path: &str, reply: &Reply) -> Vec<u64> {
    let number = |value: &Value| value["id"].as_u64().unwrap();
    if path == GEOJSON {
        return reply.json()["features"].as_array().unwrap().iter().map(number).collect();
    }
    if [CSV, DETAILS_CSV].contains(&path) {
        let mut reader = csv::Reader::from_reader(&reply.body[..]);
        return reader.records().map(|row| row.unwrap()[0].parse().unwrap()).collect();
    }
    reply.text().lines().map(|line| number(&serde_json::from_str(line).unwrap())).collect()
}

async fn listed(server: &Server, query: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for page in 1.. {
        let ids = server.ok(&format!("/api/listings.json?per_page=100&page={page}&{query}")).await.ids();
        if ids.is_empty() {
            break;
        }
        all.extend(ids);
    }
    all
}

#[tokio::test]
async fn a_filter_leaves_what_the_list_leaves() {
    let (_origin, server) = shared_mirror(600).await;
    for query in ["sport=golf", "state=texas", "sport=golf&state=texas", "city=nowhere-at-all"] {
        let expected = if query.starts_with("city") { Vec::new() } else { listed(&server, query).await };
        for path in ALL {
            let reply = server.get(&format!("{path}?{query}")).await;
            if expected.is_empty() {
                reply.assert_problem(400, &["city", "nowhere-at-all", "/api/cities.json"]);
                continue;
            }
            assert_eq!(reply.status, 200, "{path}?{query}: {reply:?}");
            assert_eq!(ids(path, &reply), expected, "{path}?{query}");
        }
    }
    // Slugs of a column are the slugs that filter.
    let csv = server.ok(CSV).await;
    let mut reader = csv::Reader::from_reader(&csv.body[..]);
    let headers = reader.headers().unwrap().clone();
    let at = |name: &str| headers.iter().position(|own| own == name).unwrap();
    let mut by_slug: BTreeMap<(&str, String), BTreeSet<u64>> = BTreeMap::new();
    for row in reader.records().map(Result::unwrap) {
        for (parameter, column) in [("state", "state_slug"), ("city", "city_slug")] {
            let slug = row[at(column)].to_owned();
            by_slug.entry((parameter, slug)).or_default().insert(row[0].parse().unwrap());
        }
    }
    for ((parameter, slug), ids) in by_slug.iter().filter(|((_, slug), _)| !slug.is_empty()).step_by(7) {
        let list = listed(&server, &format!("{parameter}={slug}")).await;
        assert_eq!(&list.into_iter().collect::<BTreeSet<u64>>(), ids, "{parameter}={slug}");
    }
    assert!(by_slug.len() > 20, "{by_slug:?}");
}

#[tokio::test]
async fn a_part_is_tagged_and_has_no_ranges() {
    let (_origin, server) = shared_mirror(300).await;
    for path in ALL {
        let target = format!("{path}?sport=golf");
        let reply = server.ok(&target).await;
        assert_eq!((reply.header("content-length"), reply.the("accept-ranges").as_str()), (None, "none"));
        assert_ne!(reply.etag(), server.ok(path).await.etag());
        assert!(reply.the("content-disposition").starts_with("attachment; filename=\"selected-"), "{reply:?}");
        let part = server.get_with(&target, &[("range", "bytes=0-9")]).await;
        assert_eq!((part.status, part.body.len()), (200, reply.body.len()));
        let again = server.get_with(&target, &[("if-none-match", &reply.etag())]).await;
        assert_eq!((again.status, again.body.len()), (304, 0));
        let head = server.head(&target).await;
        assert_eq!((head.status, head.body.len(), head.etag()), (200, 0, reply.etag()));
        assert_eq!(server.ok(&format!("{path}?state=&sport=golf")).await.body, reply.body, "empty is as if absent");
    }
}

#[tokio::test]
async fn a_parameter_without_effect_is_refused() {
    let (_origin, server) = shared_mirror(60).await;
    for path in ALL {
        server.get(&format!("{path}?states=texas")).await.assert_problem(400, &["states", "sport, state and city"]);
        server.get(&format!("{path}?page=2")).await.assert_problem(400, &["page"]);
        server.get(&format!("{path}?state=texas&state=ohio")).await.assert_problem(400, &["state", "twice"]);
        assert_eq!(server.get(&format!("{path}?")).await.status, 200);
    }
}

#[tokio::test]
async fn what_a_search_finds_is_a_file_in_its_order() {
    let (_origin, server) = shared_mirror(600).await;
    for query in ["q=park", "q=golf&state=texas", "near=30.27,-97.74&radius=400", "bbox=-107,26,-93,37&sport=tennis"] {
        let mut found = Vec::new();
        for page in 1.. {
            let hits = server.ok(&format!("/search.json?{query}&per_page=100&page={page}")).await.json();
            let hits = hits["items"].as_array().unwrap().clone();
            if hits.is_empty() {
                break;
            }
            found.extend(hits.iter().map(|hit| hit["listing"]["id"].as_u64().unwrap()));
        }
        assert!(found.len() > 3, "{query}");
        for path in ALL {
            assert_eq!(ids(path, &server.ok(&format!("{path}?{query}")).await), found, "{path}?{query}");
        }
    }
    server.get(&format!("{CSV}?q=park+qzvxk")).await.assert_problem(400, &["\"q\"", "qzvxk"]);
    server.get(&format!("{GEOJSON}?bom=1")).await.assert_problem(400, &["bom", "CSV"]);
    let plain = server.ok(CSV).await;
    let marked = server.ok(&format!("{CSV}?bom=1")).await;
    assert_ne!(marked.etag(), plain.etag());
    assert!(marked.body.starts_with(b"\xef\xbb\xbfid,"));
}
