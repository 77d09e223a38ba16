//! Content codings: equal bodies under one tag. The negotiation is a table in `src/protocol/coding`.

use sample_origin::World;

use crate::harness::shared_mirror;

#[tokio::test]
async fn every_coding_decodes_to_the_same_body() {
    let (origin, server) = shared_mirror(120).await;
    let id = origin.world(World::ids)[0];
    let detail = format!("/api/listings/{id}.json");
    for target in ["/api/listings.json", "/api/listings.json?per_page=100", "/api/cities.json", &detail] {
        let identity = server.ok(target).await;
        let tag = &*identity.etag();
        assert_eq!(identity.header("content-encoding"), None, "nothing is coded for who does not ask");
        assert!(tag.starts_with("W/\"") && tag.ends_with('"') && tag.len() > 8, "{tag}");
        for coding in ["gzip", "br", "zstd"] {
            let reply = server.get_with(target, &[("accept-encoding", coding)]).await;
            assert_eq!(reply.decoded(), identity.body, "{target} {coding}");
            assert_eq!((&*reply.etag(), reply.the("vary")), (tag, identity.the("vary")), "{target} {coding}");
            assert!(reply.the("vary").to_lowercase().contains("accept-encoding"));
            assert_eq!(reply.the("content-length"), reply.body.len().to_string());
            if target != detail {
                assert_eq!(reply.the("content-encoding"), coding, "{target}");
                assert!(reply.body.len() * 2 < identity.body.len(), "{target} {coding}: {}", reply.body.len());
            }
            let fields = [("accept-encoding", coding), ("if-none-match", tag)];
            assert_eq!(server.get_with(target, &fields).await.status, 304, "{target} {coding}");
        }
    }
    for (accepted, coding) in [("gzip;q=0.2,br;q=0.8,zstd;q=0.5", Some("br")), ("gzip;q=0, br;q=0, zstd;q=0.0", None)] {
        let reply = server.get_with("/api/listings.json", &[("accept-encoding", accepted)]).await;
        assert_eq!((reply.status, reply.header("content-encoding").as_deref()), (200, coding), "{accepted}");
    }
}
