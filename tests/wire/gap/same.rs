//! One state has one file, whoever exports it, and however often. Nothing unfinished ever has the file's name.

use std::fs;
use std::time::Duration;

use sample_origin::{Switches, World};

use super::{Desk, LIST, Load, edit, mirrored, none_failed, targets};
use crate::harness::{Process, Setup, wait_until};

#[tokio::test]
async fn two_exports_of_one_state_are_the_same_bytes_with_a_server_and_without() {
    let (origin, mut mirror) = mirrored(700, Switches::default()).await;
    let base = mirror.snapshot().await;
    let (desk, data) = (Desk::new(), mirror.data_dir());
    desk.does(&mirror.setup, &data, &["export"], "base.gsb").await;
    edit(&origin, &mirror, |world| assert!(world.ids().iter().take(5).all(|id| world.touch(*id)))).await;
    let ids: Vec<u64> = origin.world(World::ids).into_iter().take(40).collect();
    let load = Load::on(&mirror, 6, &targets(&ids));
    for name in ["1.gsb", "2.gsb"] {
        desk.does(&mirror.setup, &data, &["export"], name).await;
        desk.does(&mirror.setup, &data, &["export", "--since", &base], &format!("delta-{name}")).await;
    }
    none_failed(&load.stop().await, &[&mirror.snapshot().await]);
    let old = desk.path("base.gsb");
    mirror.down().await;
    for name in ["3.gsb", "4.gsb"] {
        desk.does(&mirror.setup, &data, &["export"], name).await;
        desk.does(&mirror.setup, &data, &["export", "--since", old.to_str().unwrap()], &format!("delta-{name}")).await;
    }
    for name in ["2.gsb", "3.gsb", "4.gsb"] {
        assert!(desk.bytes(name) == desk.bytes("1.gsb"), "{name}");
        assert!(desk.bytes(&format!("delta-{name}")) == desk.bytes("delta-1.gsb"), "delta {name}");
    }
    let mut expected = vec!["base.gsb".to_owned()];
    expected.extend((1..=4).flat_map(|n| [format!("{n}.gsb"), format!("delta-{n}.gsb")]));
    expected.sort();
    assert_eq!(desk.names(), expected, "nothing else is left behind");
    // A replica of it writes the same file.
    desk.does(&Setup::offline(), &desk.data(), &["import"], "1.gsb").await;
    desk.does(&Setup::offline(), &desk.data(), &["export"], "5.gsb").await;
    assert!(desk.bytes("5.gsb") == desk.bytes("1.gsb"), "a replica's export");
}

#[tokio::test]
async fn an_export_that_is_killed_leaves_the_file_that_was_there() {
    let (origin, mut mirror) = mirrored(400, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "b.gsb").await;
    let old = desk.bytes("b.gsb");
    edit(&origin, &mirror, |world| assert!(world.ids().iter().take(50).all(|id| world.touch(*id)))).await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "new.gsb").await;
    let new = desk.bytes("new.gsb");
    let mut killed = 0;
    for round in 0..24_u64 {
        if round == 12 {
            mirror.down().await;
        }
        fs::write(desk.path("b.gsb"), &old).unwrap();
        let file = desk.path("b.gsb");
        let arguments = mirror.setup.arguments(&["bundle", "export", file.to_str().unwrap()], &mirror.data_dir());
        let mut export = Process::spawn(&arguments);
        let mut begun = || desk.names().iter().any(|name| name.contains(".part")) || export.ended().is_some();
        wait_until("the export has begun", || {
            let begun = begun();
            async move { begun }
        })
        .await;
        tokio::time::sleep(Duration::from_millis(round % 12 * 8)).await;
        let finished = export.ended() == Some(0);
        export.kill();
        let found = desk.bytes("b.gsb");
        assert!(found == old || found == new, "round {round}: neither the old file nor the new one");
        assert!(!finished || found == new, "round {round}");
        killed += u32::from(found == old);
        for name in desk.names().iter().filter(|name| !["b.gsb", "new.gsb"].contains(&name.as_str())) {
            assert!(name.starts_with("b.gsb.") && name.contains(".part"), "{name} is left behind");
            fs::remove_file(desk.path(name)).unwrap();
        }
    }
    assert!(killed > 4, "only {killed} of 24 exports were killed before their end");
    // A killed export disturbs neither a server nor a later export.
    mirror.restart().await;
    mirror.ready().await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "again.gsb").await;
    assert_eq!(desk.inspect("again.gsb").await["manifest"]["snapshot"], mirror.ok(LIST).await.the("mirror-snapshot"));
}

#[tokio::test]
async fn an_export_that_is_told_to_stop_takes_away_what_it_has_begun() {
    let (_origin, mut mirror) = mirrored(400, Switches::default()).await;
    mirror.down().await;
    let desk = Desk::new();
    let file = desk.path("b.gsb");
    let arguments = mirror.setup.arguments(&["bundle", "export", file.to_str().unwrap()], &mirror.data_dir());
    let mut stopped = 0;
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)].into_iter().cycle().take(30) {
        let mut export = Process::spawn(&arguments);
        wait_until("the export has begun", || {
            let begun = desk.names().iter().any(|name| name.contains(".part")) || export.ended().is_some();
            async move { begun }
        })
        .await;
        export.signal(name);
        let (code, said) = export.end().await;
        assert!(code == 0 || code == 128 + number, "{name}: {code}, {said}");
        stopped += u32::from(code != 0);
        assert!(desk.names().iter().all(|left| left == "b.gsb"), "{name}: {:?}", desk.names());
        assert!(code != 0 || file.exists(), "{name}: {said}");
    }
    assert!(stopped > 2, "only {stopped} exports were stopped before their end");
}
