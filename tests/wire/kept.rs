//! `snapshot=`: answers from kept snapshots, so that consecutive pages come from one version.

use sample_origin::{Origin, World};

use crate::harness::{PUBLIC, Server, Setup, edit, origin, wait_until};

const LIST: &str = "/api/listings.json";

async fn mirrored(listings: usize, keep: &str) -> (Origin, Server) {
    let origin = origin(listings).await;
    let server = Setup::mirror_of(&origin).set("mirror.keep", keep).set("mirror.keep_daily", "0").start().await;
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
async fn pages_of_a_kept_snapshot_fit_together_across_publications_and_a_restart() {
    let (origin, mut server) = mirrored(250, "5").await;
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
    assert_eq!((current.the("mirror-snapshot"), current.total()), (new, 230));
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
            server.ready().await;
        }
        let again = server.ok(&format!("{LIST}?snapshot={old}&per_page=30")).await;
        assert_eq!((again.etag(), again.text()), (first.etag(), first.text()), "restarted: {restarted}");
        let next = first.links()["next"].strip_prefix(PUBLIC).unwrap().to_owned();
        assert_eq!(follow(&server, next, &old).await, all[30..], "restarted: {restarted}");
        let pinned = server.ok(&format!("/api/sports.json?snapshot={old}")).await;
        assert_eq!((pinned.text(), pinned.etag()), (sports.text(), sports.etag()));
        assert_ne!(server.ok("/api/sports.json").await.text(), sports.text(), "counts have changed");
        let beyond = server.ok(&format!("{LIST}?page=99&snapshot={old}")).await;
        assert_eq!((beyond.ids().len(), beyond.total()), (0, 250));
        let (target, tag) = (format!("{LIST}?snapshot={old}&per_page=30"), first.etag());
        assert_eq!(server.get_with(&target, &[("if-none-match", &tag)]).await.status, 304);
    }
}

#[tokio::test]
async fn a_snapshot_that_is_not_kept_any_more_is_gone() {
    let (origin, server) = mirrored(60, "1").await;
    let old = server.snapshot().await;
    let touched = origin.world(|world| world.ids()[7]);
    let new = edit(&origin, &server, |world| assert!(world.touch(touched))).await;
    wait_until("it is dropped", || async { server.get(&format!("{LIST}?snapshot={old}")).await.status == 410 }).await;
    for target in [LIST, "/api/cities.json"] {
        server.get(&format!("{target}?snapshot={old}")).await.assert_problem(410, &["snapshot", &old, &new]);
        server.ok(&format!("{target}?snapshot={new}")).await;
    }
}
