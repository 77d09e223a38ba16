//! Deltas: as small as the change, for one base only, with all that the base lacks.

use sample_origin::{Origin, Switches, World};

use super::{Desk, Everything, LIST, edit, everything, is_one_of, mirrored};
use crate::compare::{detail_is_the_origins, list_is_the_origins};
use crate::harness::{Server, Setup, quiet, wait_until};

async fn five_changed(origin: &Origin, mirror: &Server, from: usize) -> (String, Everything) {
    let id = edit(origin, mirror, |world| {
        let ids = world.ids();
        for id in &ids[from..from + 5] {
            assert!(world.touch(*id) && world.change_detail(*id));
        }
    })
    .await;
    (id, everything(mirror).await)
}

async fn exported(mirror: &Server, desk: &Desk, words: &[&str], name: &str) {
    desk.does(&mirror.setup, &mirror.data_dir(), &[&["export"], words].concat(), name).await;
}

#[tokio::test]
async fn a_delta_is_small_and_brings_its_base_up_to_date() {
    let (origin, mirror) = mirrored(700, Switches::default()).await;
    let (desk, offline) = (Desk::new(), Setup::offline());
    let a = (mirror.snapshot().await, everything(&mirror).await);
    exported(&mirror, &desk, &[], "a.gsb").await;
    let b = five_changed(&origin, &mirror, 100).await;
    exported(&mirror, &desk, &["--since", &a.0], "ab.gsb").await;
    exported(&mirror, &desk, &["--since", desk.path("a.gsb").to_str().unwrap()], "ab-by-file.gsb").await;
    assert!(desk.bytes("ab.gsb") == desk.bytes("ab-by-file.gsb"));
    let c = five_changed(&origin, &mirror, 300).await;
    exported(&mirror, &desk, &["--since", &b.0], "bc.gsb").await;
    exported(&mirror, &desk, &["--since", &a.0], "ac.gsb").await;
    exported(&mirror, &desk, &[], "c.gsb").await;
    let length = |name: &str| desk.bytes(name).len();
    for name in ["ab.gsb", "bc.gsb"] {
        assert!(length(name) * 20 <= length("c.gsb"), "{name} has {} bytes of {}", length(name), length("c.gsb"));
        let told = desk.inspect(name).await;
        assert_eq!((&told["kind"], &told["manifest"]["base"]["changed"]), (&"delta".into(), &5.into()), "{told}");
        assert_eq!(told["manifest"]["details"]["present"], 5, "{told}");
        desk.does(&offline, &desk.path("none"), &["verify"], name).await;
    }

    // On no data, on another base, and however it is invoked: refused, naming the base it needs.
    desk.refuses(&offline, &desk.path("empty"), &["import"], "ab.gsb", &["needs its base", &a.0]).await;
    desk.does(&offline, &desk.data(), &["import"], "a.gsb").await;
    desk.refuses(&offline, &desk.data(), &["import"], "bc.gsb", &["needs its base", &b.0]).await;
    let server = desk.serve_copy(offline.clone()).await;
    let data = server.data_dir();
    desk.refuses(&offline, &data, &["import"], "bc.gsb", &["needs its base", &b.0]).await;
    is_one_of(&everything(&server).await, &[&a.1]);
    let list = server.admin(http::Method::GET, "/snapshots").await.json();
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 1, "{list}");

    // One after the other, each twice, beside the server.
    for (name, state) in [("ab.gsb", &b), ("ab-by-file.gsb", &b), ("bc.gsb", &c), ("bc.gsb", &c)] {
        desk.does(&offline, &data, &["import"], name).await;
        assert_eq!(server.snapshot().await, state.0, "{name}");
        is_one_of(&everything(&server).await, &[&state.1]);
    }
    list_is_the_origins(&server, &origin, LIST).await;
    // Each is the mirror's, as was seen; changed ones are among these.
    for id in origin.world(World::ids).into_iter().step_by(5) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    // At one step, without a server.
    desk.does(&offline, &desk.data(), &["import"], "ac.gsb").await;
    let other = desk.serve_copy(offline).await;
    is_one_of(&everything(&other).await, &[&c.1]);
    // What came by deltas goes on as a whole.
    desk.does(&other.setup, &other.data_dir(), &["export"], "of-replica.gsb").await;
    assert!(desk.bytes("of-replica.gsb") == desk.bytes("c.gsb"));
}

#[tokio::test]
async fn an_export_has_every_detail_that_a_client_has_got_and_a_delta_what_the_first_one_lacked() {
    let origin = crate::harness::origin(60).await;
    let mirror = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    mirror.ready().await;
    quiet(&origin).await;
    let (desk, offline) = (Desk::new(), Setup::offline());
    let a = mirror.snapshot().await;
    exported(&mirror, &desk, &[], "few.gsb").await;
    let ids = origin.world(World::ids);
    for id in &ids {
        detail_is_the_origins(&mirror, &origin, *id).await;
    }
    // Details are made durable together, within a second.
    let said = desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "all.gsb").await;
    assert!(said.contains("details: 60 of 60 listings mirrored"), "{said}");
    assert_eq!(mirror.snapshot().await, a, "it is the same snapshot");
    let server = desk.serve_bundle(offline.clone(), "few.gsb").await;
    server.get(&format!("/api/listings/{}.json", ids[50])).await.assert_problem(503, &[]);
    desk.does(&offline, &server.data_dir(), &["import"], "all.gsb").await;
    for id in &ids {
        detail_is_the_origins(&server, &origin, *id).await;
    }
    // Only details have come: a delta upon the snapshot itself.
    for name in ["same.gsb", "same-again.gsb"] {
        exported(&mirror, &desk, &["--since", &a], name).await;
    }
    assert!(desk.bytes("same.gsb") == desk.bytes("same-again.gsb"));
    origin.edit(|world| assert!(world.touch(ids[7])));
    mirror.refresh().await;
    wait_until("the change shows", || async { mirror.snapshot().await != a }).await;
    quiet(&origin).await;
    exported(&mirror, &desk, &["--since", desk.path("few.gsb").to_str().unwrap()], "delta.gsb").await;
    for delta in ["same.gsb", "delta.gsb"] {
        let data = desk.path(&format!("data-{delta}"));
        desk.does(&offline, &data, &["import"], "few.gsb").await;
        desk.does(&offline, &data, &["import"], delta).await;
        let dir = tempfile::tempdir().unwrap();
        super::copy_all(&data, &dir.path().join("data"));
        let server = offline.clone().start_in(dir).await;
        for id in ids.iter().filter(|id| **id != ids[7]) {
            detail_is_the_origins(&server, &origin, *id).await;
        }
    }
}
