//! Damaged files and full disks: the current data is still served, and the reason is reported.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{LIST, Load, Two, everything, is_one_of, none_failed, targets, two};
use crate::client::{Reply, plain_client};
use crate::disk::limit_files;
use crate::harness::{Server, Setup, wait_until};
use http::Method;

/// Two bundles between which everything has changed; the older one is imported in the desk's data directory.
async fn prepared(listings: usize) -> Two {
    let two = two(listings, |world, ids| {
        assert!(ids.iter().all(|id| world.touch(*id) && world.change_detail(*id)));
    });
    let two = two.await;
    two.desk.does(&Setup::offline(), &two.desk.data(), &["import"], "old.gsb").await;
    two
}

async fn upload(server: &Server, bytes: Vec<u8>) -> Reply {
    let url = format!("http://{}/bundle", server.admin);
    Reply::of(plain_client().post(url).body(bytes).send().await.unwrap()).await
}

#[tokio::test]
async fn truncated_and_altered_bundles_change_nothing() {
    let Two { desk, old, new, .. } = prepared(60).await;
    let server = desk.serve_copy(Setup::offline()).await;
    let whole = desk.bytes("new.gsb");
    let step = whole.len() / 40;
    let cut = (0..whole.len()).step_by(step).map(|length| whole[..length].to_vec());
    let flipped = (0..whole.len()).step_by(step).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    let longer = [&whole[..], b"x"].concat();
    let twice = [&whole[..], &whole[..]].concat();
    for (n, bytes) in cut.chain(flipped).chain([longer, twice, vec![0; 5000]]).enumerate() {
        let reply = upload(&server, bytes.clone()).await;
        assert!(reply.status == 422 && reply.json()["detail"].is_string(), "{n}: {reply:?}");
        if n.is_multiple_of(11) {
            fs::write(desk.path("bad.gsb"), bytes).unwrap();
            for data in [&desk.data(), &server.data_dir()] {
                desk.refuses(&Setup::offline(), data, &["import"], "bad.gsb", &["grandstand: "]).await;
            }
        }
    }
    is_one_of(&everything(&server).await, &[&old.1]);
    is_one_of(&everything(&desk.serve_copy(Setup::offline()).await).await, &[&old.1]);
    let reply = upload(&server, whole).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    is_one_of(&everything(&server).await, &[&new.1]);
}

/// A command that writes no file beyond so many KiB.
fn within(kib: u64, setup: &Setup, data: &Path, words: &[&str]) -> (i32, String) {
    let script = format!(r#"ulimit -S -f {kib}; exec "$0" "$@""#);
    let output = Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_grandstand")])
        .args(setup.arguments(words, data))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8(said).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_during_an_import_leaves_the_old_snapshot_served() {
    let Two { desk, ids, old, new } = prepared(500).await;
    let offline = Setup::offline().alone();
    let (file, bundle) = (desk.path("new.gsb"), desk.bytes("new.gsb").len() as u64);
    let store = fs::metadata(desk.data().join("grandstand.redb")).unwrap().len();
    assert!(bundle < store, "the upload fits where the store does");
    let mut server = desk.serve_copy(offline.clone()).await;
    server.ready().await;
    let (before, data) = (server.snapshot().await, server.data_dir());
    let load = Load::on(&server, 4, &targets(&ids[..30]));
    for (limit, named) in [(bundle / 2, "grandstand"), (store, "no space left")] {
        limit_files(server.process.pid(), &limit.to_string());
        desk.refuses(&offline, &data, &["import"], "new.gsb", &[named]).await;
        assert_eq!(server.snapshot().await, before);
        is_one_of(&everything(&server).await, &[&old.1]);
    }
    none_failed(&load.stop().await, &[&before]);
    // Unchanged after a restart as well, and well again when there is room.
    server.restart().await;
    is_one_of(&everything(&server).await, &[&old.1]);
    limit_files(server.process.pid(), &store.to_string());
    desk.refuses(&offline, &data, &["import"], "new.gsb", &["no space left", "grandstand.redb"]).await;
    limit_files(server.process.pid(), "unlimited");
    desk.does(&offline, &data, &["import"], "new.gsb").await;
    is_one_of(&everything(&server).await, &[&new.1]);
    wait_until("/status is 200", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;

    // Without a server.
    let words = ["bundle", "import", file.to_str().unwrap()];
    let (code, said) = within(store / 1024, &offline, &desk.data(), &words);
    assert!(code == 1 && said.contains("no space left") && said.contains("grandstand.redb"), "{code} {said}");
    is_one_of(&everything(&desk.serve_copy(offline.clone()).await).await, &[&old.1]);
    desk.does(&offline, &desk.data(), &["import"], "new.gsb").await;
    is_one_of(&everything(&desk.serve_copy(offline.clone()).await).await, &[&new.1]);

    // An export on a full disk leaves nothing, and the file that was there.
    let out = desk.path("old.gsb");
    let was = desk.bytes("old.gsb");
    let words = ["bundle", "export", out.to_str().unwrap()];
    for dir in [&desk.data(), &data] {
        let (code, said) = within(bundle / 2048, &offline, dir, &words);
        assert!(code == 1 && said.contains("old.gsb"), "{code} {said}");
        assert!(desk.bytes("old.gsb") == was);
        assert_eq!(desk.names(), ["data", "new.gsb", "old.gsb"]);
    }
    assert_eq!(server.ok(LIST).await.total(), 500);
}
