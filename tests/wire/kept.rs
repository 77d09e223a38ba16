//! `snapshot=`: answers from earlier snapshots, so that consecutive pages come from one version.

use sample_origin::{Origin, World};

use crate::harness::{Server, Setup, edit, origin};

const LIST: &str = "/api/listings.json";

/// A mirror that stores only what is current.
async fn mirrored(listings: usize) -> (Origin, Server) {
    let origin = origin(listings).await;
    let server = Setup::mirror_of(&origin).set("mirror.keep", "1").start().await;
    server.settled(&origin).await;
    (origin, server)
}

#[tokio::test]
async fn three_earlier_snapshots_are_in_memory_whatever_is_stored() {
    let (origin, mut server) = mirrored(60).await;
    let ids = origin.world(World::ids);
    let mut all = vec![server.snapshot().await];
    for id in &ids[..4] {
        all.push(edit(&origin, &server, |world| assert!(world.touch(*id))).await);
    }
    let [gone, earlier @ .., now] = &all[..] else { unreachable!() };
    for target in [LIST, "/api/cities.json"] {
        server.get(&format!("{target}?snapshot={gone}")).await.assert_problem(410, &["snapshot", gone, now]);
        for unknown in ["nonsense", "00000000000000000000000000000000"] {
            server.get(&format!("{target}?snapshot={unknown}")).await.assert_problem(410, &["snapshot", now]);
        }
        for id in earlier.iter().chain([now]) {
            assert_eq!(server.ok(&format!("{target}?snapshot={id}")).await.the("mirror-snapshot"), *id);
        }
    }
    let beyond = server.ok(&format!("{LIST}?page=99&snapshot={}", earlier[0])).await;
    assert_eq!((beyond.ids().len(), beyond.total()), (0, 60));
    let target = format!("{LIST}?per_page=30&snapshot={}", earlier[0]);
    let tag = server.ok(&target).await.etag();
    assert_eq!(server.get_with(&target, &[("if-none-match", &tag)]).await.status, 304);
    server.restart().await;
    server.ready().await;
    server.get(&target).await.assert_problem(410, &["snapshot", &earlier[0], now]);
}
