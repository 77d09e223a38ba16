//! kill -9 at random instants of rollbacks, releases, pins and publications: whatever was told is so afterwards, and
//! what was not is done as a whole or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use grandstand::sample::World;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::{LIST, content, grow, kept, listed, mirrored, tells_the_difference};
use crate::client::{Reply, plain_client};
use crate::harness::Aim;

const ROUNDS: u64 = 24;

#[tokio::test]
async fn kills_during_switches_leave_one_of_two_snapshots_and_a_whole_journal() {
    let (origin, mut server) = mirrored(120, |setup| setup.set("mirror.keep", "50").set("ttl", "20s")).await;
    let mut dice = SmallRng::seed_from_u64(7);
    for name in ["Second", "Third"] {
        grow(&origin, &server, name).await;
    }
    let mut contents = BTreeMap::new();
    let (mut told, mut silent, mut aim) = (0, 0, Aim::new(Duration::from_millis(60)));
    for round in 0..ROUNDS {
        for id in kept(&server).await {
            if !contents.contains_key(&id) {
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
        let after = listed(&server).await;
        let (served, newest) = (after["served"].as_str().unwrap(), after["newest"].as_str().unwrap());
        let status = server.status().await;
        assert_eq!(status["snapshot"]["id"], served, "{what}");
        if after["rolled_back"] == true {
            let rollback = &status["rollback"];
            assert_eq!((&rollback["served"], &rollback["newest"]), (&after["served"], &after["newest"]), "{what}");
        } else {
            assert_eq!(served, newest, "{what}");
            assert!(status["rollback"].is_null(), "{what}");
        }
        let pinned = |list: &serde_json::Value, id: &str| {
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
        let list = server.ok(&format!("{LIST}?per_page=100")).await;
        assert_eq!(list.the("mirror-snapshot"), served, "{what}");
        let now = content(&server, served).await;
        if let Some(known) = contents.get(served) {
            assert_eq!(*known, now, "{what}: not what it was");
        }
        for (since, then) in &contents {
            let reply: Reply = server.get(&format!("/changes.json?since={since}")).await;
            match reply.status {
                200 => tells_the_difference(&reply, then, &now),
                _ => reply.assert_problem(410, &[since, served]),
            }
        }
        assert_eq!(server.get(&format!("/changes.json?since={served}")).await.status, 200, "{what}");
    }
    println!("{told} commands were answered, {silent} not; {} snapshots", contents.len());
    assert!(told > 2 && silent > 2, "{told} {silent}");
    let (code, said) = super::command(&server, &["verify"]).await;
    assert_eq!(code, 0, "{said}");
}
