//! `snapshot=`: answers from earlier snapshots, so that consecutive pages come from one version.

use sample_origin::{Origin, World};

use crate::harness::{PUBLIC, Server, Setup, edit, origin};

const LIST: &str = "/api/listings.json";

/// A mirror that stores only what is current.
async fn mirrored(listings: usize) -> (Origin, Server) {
    let origin = origin(listings).await;
    let server = Setup::mirror_of(&origin).set("mirror.keep", "1").start().await;
    server.settled(&origin).await;
    (origin, server)
}

/// All ids from a page on, by its `next` links; each page is of this snapshot.
async fn follow(server: &Server, mut target: String, snapshot: &str) -> Vec<u64> {
    let mut ids = Vec::new();
    loop {
        let page = server.ok(&target).await;
        assert_eq!((page.the("mirror-snapshot").as_str(), page.age()), (snapshot, None), "{target}");
        ids.extend(page.ids());
        let links = page.links();
        for (rel, link) in &links {
            assert!(rel == "license" || link.contains(&format!("snapshot={snapshot}")), "{rel}: {link}");
        }
        let Some(next) = links.get("next") else { return ids };
        next.strip_prefix(PUBLIC).unwrap().clone_into(&mut target);
    }
}

#[tokio::test]
async fn pages_of_an_earlier_snapshot_fit_together_across_publications_until_a_restart() {
    let (origin, mut server) = mirrored(250).await;
    let old = server.snapshot().await;
    let all = follow(&server, format!("{LIST}?snapshot={old}&per_page=30"), &old).await;
    assert_eq!(all.len(), 250);
    let first = server.ok(&format!("{LIST}?snapshot={old}&per_page=30")).await;
    let sports = server.ok("/api/sports.json").await;

    let ids = origin.world(World::ids);
    let new = edit(&origin, &server, |world| {
        assert!(world.touch(ids[200]));
        ids[..20].iter().for_each(|id| assert!(world.remove(*id)));
    })
    .await;
    let current = server.ok(LIST).await;
    assert_eq!((current.the("mirror-snapshot"), current.total()), (new.clone(), 230));
    let again = server.ok(&format!("{LIST}?snapshot={old}&per_page=30")).await;
    assert_eq!((again.etag(), again.text()), (first.etag(), first.text()));
    let next = first.links()["next"].strip_prefix(PUBLIC).unwrap().to_owned();
    assert_eq!(follow(&server, next, &old).await, all[30..]);
    let pinned = server.ok(&format!("/api/sports.json?snapshot={old}")).await;
    assert_eq!((pinned.text(), pinned.etag()), (sports.text(), sports.etag()));
    assert_ne!(server.ok("/api/sports.json").await.text(), sports.text(), "counts have changed");
    let beyond = server.ok(&format!("{LIST}?page=99&snapshot={old}")).await;
    assert_eq!((beyond.ids().len(), beyond.total()), (0, 250));
    let (target, tag) = (format!("{LIST}?snapshot={old}&per_page=30"), first.etag());
    assert_eq!(server.get_with(&target, &[("if-none-match", &tag)]).await.status, 304);
    server.restart().await;
    server.ready().await;
    server.get(&target).await.assert_problem(410, &["snapshot", &old, &new]);
}

#[tokio::test]
async fn three_earlier_snapshots_are_in_memory_whatever_is_stored() {
    let (origin, server) = mirrored(60).await;
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
}
