//! kill -9 at random instants of rollbacks, releases, pins and publications: a confirmed command is in force
//! afterwards, any other is done as a whole or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use sample_origin::World;
use serde_json::Value;

use super::{LIST, content, grow, kept, listed, mirrored, tells_the_difference};
use crate::client::{Reply, plain_client};
use crate::harness::{Aim, Server, until};

const ROUNDS: u64 = 24;

/// A server's report, all of one state.
struct Look {
    after: Value,
    status: Value,
    list: Reply,
    /// What has changed since each of the snapshots.
    changes: Vec<(String, Reply)>,
}

/// Retries until nothing is published meanwhile: a refresh may do so any time.
async fn look(server: &Server, snapshots: impl Iterator<Item = &String> + Clone) -> Look {
    until("nothing is published while it is looked at", || async {
        let after = listed(server).await;
        let status = server.status().await;
        let list = server.ok(&format!("{LIST}?per_page=100")).await;
        let mut changes = Vec::new();
        for since in snapshots.clone().cloned().chain(after["served"].as_str().map(str::to_owned)) {
            let reply = server.get(&format!("/changes.json?since={since}")).await;
            changes.push((since, reply));
        }
        let now = listed(server).await;
        let is_one = ["served", "newest", "rolled_back"].iter().all(|key| after[key] == now[key]);
        is_one.then_some(Look { after, status, list, changes })
    })
    .await
}

#[tokio::test]
async fn kills_during_switches_leave_one_of_two_snapshots_and_a_whole_journal() {
    let (origin, mut server) = mirrored(120, |setup| setup.alone().set("mirror.keep", "50").set("ttl", "20s")).await;
    let mut dice = SmallRng::seed_from_u64(7);
    for name in ["Second", "Third"] {
        grow(&origin, &server, name).await;
    }
    let mut contents = BTreeMap::new();
    let (mut told, mut silent, mut aim) = (0, 0, Aim::new(Duration::from_millis(60)));
    for round in 0..ROUNDS {
        for id in kept(&server).await {
            // Not one that waits, nor one that another process served.
            let is_readable = server.get(&format!("{LIST}?snapshot={id}")).await.status == 200;
            if !contents.contains_key(&id) && is_readable {
                contents.insert(id.clone(), content(&server, &id).await);
            }
        }
        let before = listed(&server).await;
        let ids = super::ids_of(&before);
        let id = &ids[dice.random_range(0..ids.len())];
        let action = match dice.random_range(0..5) {
            0 | 1 => format!("{id}/rollback"),
            2 => "release".to_owned(),
            3 => format!("{id}/pin"),
            _ => format!("{id}/unpin"),
        };
        if round % 3 == 0 {
            // A publication is under way meanwhile.
            let touched = origin.world(World::ids)[dice.random_range(0..100)];
            origin.edit(|world| assert!(world.touch(touched)));
            server.refresh().await;
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..1500))).await;
        }
        let url = format!("http://{}/snapshots/{action}", server.admin);
        let asked = tokio::spawn(async move {
            match plain_client().post(url).send().await {
                Ok(response) => Some(response.status().as_u16()),
                Err(_) => None,
            }
        });
        let outcome = if round % 3 == 1 {
            // As soon as it was told.
            let outcome = asked.await.unwrap();
            server.process.kill();
            outcome
        } else {
            tokio::time::sleep(aim.next()).await;
            server.process.kill();
            let outcome = asked.await.unwrap();
            aim.learn(outcome.is_some());
            outcome
        };
        *if outcome.is_some() { &mut told } else { &mut silent } += 1;
        server.restart().await;
        server.ready().await;
        let what = format!("round {round}: {action}, told {outcome:?}");
        let Look { after, status, list, changes } = look(&server, contents.keys()).await;
        let (served, newest) = (after["served"].as_str().unwrap(), after["newest"].as_str().unwrap());
        assert_eq!(status["snapshot"]["id"], served, "{what}");
        if after["rolled_back"] == true {
            let rollback = &status["rollback"];
            assert_eq!((&rollback["served"], &rollback["newest"]), (&after["served"], &after["newest"]), "{what}");
        } else {
            assert_eq!(served, newest, "{what}");
            assert!(status["rollback"].is_null(), "{what}");
        }
        let pinned = |list: &Value, id: &str| {
            let all = list["snapshots"].as_array().unwrap();
            all.iter().any(|one| one["id"] == id && one["pinned"] == true)
        };
        match (action.rsplit('/').next().unwrap(), outcome) {
            ("rollback", Some(200)) => assert!(served == id && after["rolled_back"] == true, "{what}: {after:#}"),
            ("release", Some(200)) => assert!(after["rolled_back"] == false, "{what}: {after:#}"),
            ("pin", Some(200)) => assert!(pinned(&after, id), "{what}: {after:#}"),
            ("unpin", Some(200)) => assert!(!pinned(&after, id), "{what}: {after:#}"),
            ("rollback", None) if before["served"] != served => assert!(served == id || served == newest, "{what}"),
            ("release", None | Some(409)) | ("rollback", None) => {}
            ("pin" | "unpin", None) => assert_eq!(after["rolled_back"], before["rolled_back"], "{what}"),
            _ => panic!("{what}"),
        }
        assert_eq!(list.the("mirror-snapshot"), served, "{what}");
        let now = content(&server, served).await;
        let known = contents.entry(served.to_owned()).or_insert_with(|| now.clone());
        assert_eq!(*known, now, "{what}: not what it was");
        for (since, reply) in &changes {
            match (reply.status, contents.get(since)) {
                (200, Some(then)) => tells_the_difference(reply, then, &now),
                (200, None) => {}
                _ => reply.assert_problem(410, &[since, served]),
            }
            assert!(reply.status == 200 || since != served, "{what}: {reply:?}");
        }
    }
    println!("{told} commands were answered, {silent} not; {} snapshots", contents.len());
    assert!(told > 2 && silent > 2, "{told} {silent}");
    let (code, said) = super::command(&server, &["verify"]).await;
    assert_eq!(code, 0, "{said}");
}
