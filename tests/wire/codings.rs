//! Content codings: the negotiation, and equal bodies.

use sample_origin::World;

use crate::harness::shared_mirror;

#[tokio::test]
async fn every_coding_decodes_to_the_same_body() {
    let (origin, server) = shared_mirror(120).await;
    let id = origin.world(World::ids)[0];
    for target in ["/api/listings.json", "/api/listings.json?per_page=100", "/api/cities.json"] {
        let identity = server.ok(target).await;
        assert_eq!(identity.header("content-encoding"), None, "nothing is coded for who does not ask");
        assert!(identity.the("vary").to_lowercase().contains("accept-encoding"));
        for coding in ["gzip", "br", "zstd"] {
            let reply = server.get_with(target, &[("accept-encoding", coding)]).await;
            assert_eq!(reply.the("content-encoding"), coding, "{target}");
            assert_eq!(reply.decoded(), identity.body, "{target} {coding}");
            assert!(reply.body.len() * 2 < identity.body.len(), "{target} {coding}: {}", reply.body.len());
            assert_eq!(reply.the("content-length"), reply.body.len().to_string());
            assert!(reply.the("vary").to_lowercase().contains("accept-encoding"));
        }
    }
    let detail = format!("/api/listings/{id}.json");
    let identity = server.ok(&detail).await;
    for coding in ["gzip", "br", "zstd"] {
        let reply = server.get_with(&detail, &[("accept-encoding", coding)]).await;
        assert_eq!(reply.decoded(), identity.body, "{coding}");
        assert!(reply.the("vary").to_lowercase().contains("accept-encoding"));
    }
}

#[tokio::test]
async fn weights_decide_between_codings() {
    let (_origin, server) = shared_mirror(120).await;
    let any = ["gzip", "br", "zstd"];
    for (accepted, allowed) in [
        ("gzip", &["gzip"][..]),
        ("GZIP", &["gzip"][..]),
        ("br;q=0.5, gzip;q=0.9", &["gzip"][..]),
        ("gzip;q=0.2,br;q=0.8,zstd;q=0.5", &["br"][..]),
        ("zstd;q=1.0, br;q=0.999", &["zstd"][..]),
        ("gzip;q=0, br", &["br"][..]),
        ("gzip, br, zstd", &any[..]),
        ("gzip, deflate, br, zstd", &any[..]),
        ("deflate, gzip;q=0.1", &["gzip"][..]),
        ("*;q=0.5, gzip;q=0, br;q=0", &["zstd"][..]),
    ] {
        let reply = server.get_with("/api/listings.json", &[("accept-encoding", accepted)]).await;
        let coding = reply.the("content-encoding");
        assert!(allowed.contains(&coding.as_str()), "{accepted}: {coding}");
    }
    for accepted in [
        "identity",
        "deflate",
        "gzip;q=0",
        "gzip;q=0, br;q=0, zstd;q=0.0",
        "compress;q=1, x",
        "",
        "gzip;q=0.5, identity",
    ] {
        let reply = server.get_with("/api/listings.json", &[("accept-encoding", accepted)]).await;
        assert_eq!((reply.status, reply.header("content-encoding")), (200, None), "{accepted:?}");
    }
    let lines = [("accept-encoding", "gzip;q=0.5"), ("accept-encoding", "br;q=0.7")];
    let reply = server.get_with("/api/listings.json", &lines).await;
    assert_eq!(reply.the("content-encoding"), "br", "several lines are one list");
}
