//! `/dumps/`: the current snapshot as one file. Its content, its HTTP, and its life.
//!
//! `contents` has an origin that sends all that JSON allows; `export` compares with the command.

pub mod contents;
mod export;
mod filters;
mod life;

use http::Method;

use crate::harness::{each, mirrored, shared_mirror};

const NDJSON: &str = "/dumps/listings.ndjson";
const CSV: &str = "/dumps/listings.csv";
const GEOJSON: &str = "/dumps/listings.geojson";
const DETAILS: &str = "/dumps/details.ndjson";
const DETAILS_CSV: &str = "/dumps/details.csv";
pub const ALL: [&str; 5] = [NDJSON, CSV, GEOJSON, DETAILS, DETAILS_CSV];

#[tokio::test]
async fn a_dump_says_what_it_is_and_of_when() {
    let (_origin, server) = mirrored(60).await;
    let list = server.ok("/api/listings.json").await;
    for (path, media_type, name) in [
        (NDJSON, "application/x-ndjson", "listings.ndjson"),
        (CSV, "text/csv; charset=utf-8; header=present", "listings.csv"),
        (GEOJSON, "application/geo+json", "listings.geojson"),
        (DETAILS, "application/x-ndjson", "details.ndjson"),
        (DETAILS_CSV, "text/csv; charset=utf-8; header=present", "details.csv"),
    ] {
        let dump = server.ok(path).await;
        assert_eq!(dump.the("content-type"), media_type);
        assert_eq!(dump.the("content-disposition"), format!("attachment; filename=\"{name}\""));
        assert_eq!(dump.header("content-length"), None, "it is made while it is sent");
        let is_strong = dump.etag().starts_with('"');
        assert!(is_strong != path.contains("details") && dump.body.len() > 1000, "{path}: {dump:?}");
        assert_eq!(dump.the("accept-ranges"), "none");
        let part = server.get_with(path, &[("range", "bytes=0-9")]).await;
        assert_eq!((part.status, part.body), (200, dump.body.clone()));
        assert_eq!(dump.header("content-encoding"), None);
        assert_eq!(dump.links().get("license"), list.links().get("license"), "{path}");
        assert!(dump.links().contains_key("license") && dump.age().is_some(), "{dump:?}");
        for name in [
            "cache-control",
            "vary",
            "mirror-snapshot",
            "mirror-confirmed",
            "access-control-allow-origin",
            "access-control-expose-headers",
            "x-content-type-options",
        ] {
            assert_eq!(dump.the(name), list.the(name), "{path}: {name}");
        }
        assert!(dump.the("cache-status").starts_with("grandstand; hit"), "{dump:?}");
        let head = server.head(path).await;
        assert_eq!((head.status, head.body.len(), head.etag()), (200, 0, dump.etag()));
        for name in ["content-type", "accept-ranges", "link"] {
            assert_eq!(head.the(name), dump.the(name), "{path}: {name}");
        }
    }
    assert_eq!(server.send(Method::POST, CSV, &[]).await.status, 405);
    assert_eq!(server.send(Method::OPTIONS, CSV, &[]).await.the("allow"), "GET, HEAD, OPTIONS");
    server.get("/dumps/listings.xml").await.assert_problem(404, &["/dumps/listings.xml"]);
}

#[tokio::test]
async fn whoever_has_a_dump_is_told_that_it_is_the_same() {
    let (_origin, server) = shared_mirror(60).await;
    for path in ALL {
        let dump = server.ok(path).await;
        let tag = dump.etag();
        let weak = format!("W/{}", tag.trim_start_matches("W/"));
        for condition in [tag.clone(), weak, format!("\"other\", {tag}"), "*".to_owned()] {
            let same = server.get_with(path, &[("if-none-match", &condition)]).await;
            assert_eq!((same.status, same.body.len(), same.etag()), (304, 0, tag.clone()), "{condition}");
            for name in ["content-length", "content-type", "content-encoding", "content-disposition"] {
                assert_eq!(same.header(name), None, "{name}");
            }
            for name in ["cache-control", "vary", "link", "mirror-snapshot", "cache-status", "age"] {
                assert!(same.header(name).is_some(), "{name}: {same:?}");
            }
        }
        assert_eq!(server.get_with(path, &[("if-none-match", "\"other\"")]).await.body, dump.body);
        let expected = if tag.starts_with("W/") { 412 } else { 200 };
        assert_eq!(server.get_with(path, &[("if-match", &tag)]).await.status, expected, "{path}");
        server.get_with(path, &[("if-match", "\"other\"")]).await.assert_problem(412, &["If-Match"]);
    }
}

#[tokio::test]
async fn each_coding_of_a_dump_has_its_own_tag_and_says_the_same() {
    let (_origin, server) = shared_mirror(120).await;
    each(ALL, async |path| {
        let plain = server.ok(path).await;
        let mut tags = vec![plain.etag()];
        for (accepted, coding) in [("gzip, deflate, br, zstd", "zstd"), ("gzip", "gzip"), ("gzip, br;q=0.5", "gzip")] {
            let coded = server.get_with(path, &[("accept-encoding", accepted)]).await;
            assert_eq!((coded.status, coded.the("content-encoding").as_str()), (200, coding));
            assert_eq!(coded.decoded(), plain.body);
            assert!(coded.body.len() < plain.body.len() / 2, "{path}: {coding}");
            let tag = coded.etag();
            let fields = [("accept-encoding", accepted), ("if-none-match", tag.as_str())];
            assert_eq!(server.get_with(path, &fields).await.status, 304);
            tags.push(tag);
        }
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 3, "{tags:?}");
        let without = server.get_with(path, &[("accept-encoding", "br")]).await;
        assert_eq!((without.header("content-encoding"), &without.body), (None, &plain.body));
    })
    .await;
}
