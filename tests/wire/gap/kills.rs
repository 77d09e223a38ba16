//! kill -9 at random instants of an import: afterwards there is the old snapshot or the new one, whole.

use std::fs;
use std::time::{Duration, Instant};

use super::{Two, copy_all, everything, is_one_of, two};
use crate::harness::{Aim, Process, Setup, wait_until};

/// A desk whose data directory has the older of two bundles between which much changes.
async fn prepared() -> Two {
    let two = two(260, |world, ids| {
        assert!(ids[..200].iter().all(|id| world.touch(*id) && world.change_detail(*id)) && world.remove(ids[250]));
    });
    let two = two.await;
    two.desk.does(&Setup::offline(), &two.desk.data(), &["import"], "old.gsb").await;
    two
}

#[tokio::test]
async fn a_killed_import_leaves_the_old_snapshot_or_the_new_one() {
    const ROUNDS: u64 = 16;
    let Two { desk, old, new, .. } = prepared().await;
    let offline = Setup::offline();
    let work = desk.path("work");
    let arguments = |dir| offline.arguments(&["bundle", "import", desk.path("new.gsb").to_str().unwrap()], dir);
    copy_all(&desk.data(), &work);
    let start = Instant::now();
    assert_eq!(Process::spawn(&arguments(&work)).end().await.0, 0);
    let mut aim = Aim::new(start.elapsed());
    let mut seen = [0; 2];
    for round in 0..ROUNDS {
        fs::remove_dir_all(&work).unwrap();
        copy_all(&desk.data(), &work);
        let mut import = Process::spawn(&arguments(&work));
        tokio::time::sleep(aim.next()).await;
        let finished = import.ended() == Some(0);
        import.kill();
        let dir = tempfile::tempdir().unwrap();
        copy_all(&work, &dir.path().join("data"));
        let server = offline.clone().start_in(dir).await;
        let which = is_one_of(&everything(&server).await, &[&old.1, &new.1]);
        assert!(which == 1 || !finished, "round {round}");
        seen[which] += 1;
        aim.learn(which == 1);
        // The lock of a killed process delays nobody.
        assert_eq!(Process::spawn(&arguments(&work)).end().await.0, 0, "round {round}");
        let dir = tempfile::tempdir().unwrap();
        copy_all(&work, &dir.path().join("data"));
        let server = offline.clone().start_in(dir).await;
        is_one_of(&everything(&server).await, &[&new.1]);
    }
    assert!(seen[0] > 2, "{seen:?}: nothing was killed before it was done");
}

#[tokio::test]
async fn a_server_that_is_killed_while_it_imports_has_the_old_snapshot_or_the_new_one() {
    const ROUNDS: u64 = 8;
    let Two { desk, old, new, .. } = prepared().await;
    let offline = Setup::offline().alone();
    let (mut aim, mut seen) = (Aim::new(Duration::ZERO), [0; 2]);
    for round in 0.. {
        // A server killed early leaves the import to the command: few rounds end with the old snapshot.
        if round > ROUNDS && seen[0] > 1 {
            break;
        }
        assert!(round < 8 * ROUNDS, "{seen:?}: nothing was killed before it was done");
        let mut server = desk.serve_copy(offline.clone()).await;
        server.ready().await;
        let file = desk.path("new.gsb");
        let arguments = offline.arguments(&["bundle", "import", file.to_str().unwrap()], &server.data_dir());
        let start = Instant::now();
        let mut import = Process::spawn(&arguments);
        if round == 0 {
            assert_eq!(import.end().await.0, 0);
            aim = Aim::new(start.elapsed());
            continue;
        }
        tokio::time::sleep(aim.next()).await;
        server.process.kill();
        let mut code = None;
        wait_until("the command ends", || {
            code = import.ended();
            async move { code.is_some() }
        })
        .await;
        // With 0 only if it is done; without a server it may have done it itself.
        server.restart().await;
        let which = is_one_of(&everything(&server).await, &[&old.1, &new.1]);
        assert!(which == 1 || code == Some(1), "round {round}: {code:?}");
        seen[which] += 1;
        assert_eq!(super::names(&server.data_dir()).iter().filter(|name| name.contains(".tmp")).count(), 0);
        desk.does(&offline, &server.data_dir(), &["import"], "new.gsb").await;
        is_one_of(&everything(&server).await, &[&new.1]);
    }
}
