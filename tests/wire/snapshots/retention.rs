//! Which snapshots stay, what happens to the others, and what keeping them costs.

use std::collections::{BTreeSet, HashSet};
use std::fs;

use grandstand::data::store::{BlockKey, DataDir, Store};
use sample_origin::World;

use super::{LIST, command, done, grow, kept, mirrored, newest, post, roll_back};
use crate::harness::{Server, Setup, origin, wait_until};

async fn kept_are(server: &Server, expected: &[&str]) {
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    wait_until(&format!("{expected:?} are kept"), || async {
        let kept = kept(server).await;
        kept.iter().map(String::as_str).collect::<BTreeSet<_>>() == expected
    })
    .await;
}

#[tokio::test]
async fn the_newest_and_the_pinned_stay_and_the_others_go() {
    let keep = |setup: Setup| setup.set("mirror.keep", "2");
    let (origin, mut server) = mirrored(60, keep).await;
    let first = server.snapshot().await;
    assert_eq!(post(&server, &format!("{first}/pin")).await.status, 200);
    let mut all = vec![first.clone()];
    for number in 0..4 {
        all.push(grow(&origin, &server, &format!("Number {number}")).await);
    }
    let now = all[4].clone();
    kept_are(&server, &[&first, &all[3], &now]).await;
    for gone in &all[1..3] {
        for action in ["pin", "unpin", "rollback", "verify"] {
            let refused = post(&server, &format!("{gone}/{action}")).await;
            assert_eq!(refused.status, 404, "{action}: {refused:?}");
        }
    }
    server.settled(&origin).await;
    server.down().await;
    server.restart().await;
    server.ready().await;
    kept_are(&server, &[&first, &all[3], &now]).await;
    // Unpinned by a command without a server; it goes with the next publication.
    server.down().await;
    done(command(&server, &["unpin", &first]).await);
    server.restart().await;
    server.ready().await;
    let next = grow(&origin, &server, "After the pin").await;
    kept_are(&server, &[&now, &next]).await;
    // Fewer are asked for: those beyond go with the next publication.
    server.settled(&origin).await;
    server.restart_with("mirror.keep", "1").await;
    server.ready().await;
    let last = grow(&origin, &server, "The only one").await;
    kept_are(&server, &[&last]).await;
}

/// Counts blocks: a file has free pages as well, more than so little data takes.
#[tokio::test]
async fn thirty_snapshots_with_small_changes_share_what_is_equal() {
    const LISTINGS: usize = 1500;
    let origin = origin(LISTINGS).await;
    let setup = Setup::mirror_of(&origin).set("mirror.details", "on-demand");
    let mut all = setup.clone().set("mirror.keep", "40").start().await;
    let one = setup.set("mirror.keep", "1").start().await;
    for server in [&all, &one] {
        wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    }
    let (first, ids) = (all.snapshot().await, origin.world(World::ids));
    let text: usize = ids.iter().map(|id| origin.texts_of(*id).unwrap().0.len()).sum();
    for number in 0..30 {
        let before = newest(&all).await;
        origin.edit(|world| assert!(world.touch(ids[number * 47])));
        for server in [&all, &one] {
            server.refresh().await;
        }
        wait_until("both follow", || async {
            let now = newest(&all).await;
            now != before && newest(&one).await == now
        })
        .await;
    }
    // Superfluous data is dropped soon after a publication; nobody waits for that.
    wait_until("the other one keeps one", || async { kept(&one).await.len() == 1 }).await;
    assert_eq!(kept(&all).await.len(), 31);
    let size = |server: &Server| fs::metadata(server.store_file()).unwrap().len();
    let (with, without) = (size(&all), size(&one));
    println!("{text} bytes of listings; {with} bytes with 31 snapshots, {without} with one");
    roll_back(&all, &first).await;
    assert_eq!(all.ok(&format!("{LIST}?per_page=100&page=15")).await.ids().len(), 100);

    all.down().await;
    let store = Store::open(&DataDir::open(all.data_dir()).unwrap()).unwrap();
    let snapshots = store.snapshots().unwrap();
    let each = snapshots[0].0.block_keys().count();
    let distinct: HashSet<BlockKey> = snapshots.iter().flat_map(|(record, _)| record.block_keys()).collect();
    println!("{each} blocks each, {} in all", distinct.len());
    assert!(distinct.len() <= each + 30 * 4, "{} blocks of {each} each", distinct.len());
}
