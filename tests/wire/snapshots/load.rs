//! Switching under load: no request fails, and every answer is of one snapshot.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{LIST, edit, mirrored, release, roll_back};
use crate::client::{Reply, http2_client, plain_client};
use crate::harness::wait_until;
use sample_origin::World;

/// What does not change with a confirmation.
type Whole = (String, String);

fn whole(reply: &Reply) -> Whole {
    let mut body = reply.json();
    body.as_object_mut().map(|fields| fields.remove("generated_at"));
    (reply.etag(), body.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn switches_under_load_fail_no_request_and_mix_no_two_snapshots() {
    let (origin, server) = mirrored(230, |setup| setup).await;
    let ids = origin.world(World::ids);
    let mut targets: Vec<String> = (1..=5).map(|page| format!("{LIST}?per_page=50&page={page}")).collect();
    targets.extend(["sports", "states", "cities"].map(|name| format!("/api/{name}.json")));
    targets.push(format!("{LIST}?modified_since=2020-01-01&per_page=100"));
    let (mut expected, mut snapshots) = (HashMap::<(String, String), Whole>::new(), Vec::new());
    for round in 0..2 {
        if round == 1 {
            edit(&origin, &server, |world| {
                ids.iter().step_by(3).take(20).for_each(|id| assert!(world.touch(*id)));
                ids.iter().skip(1).step_by(9).take(12).for_each(|id| assert!(world.remove(*id)));
            })
            .await;
            server.settled(&origin).await;
        }
        let snapshot = server.snapshot().await;
        for target in &targets {
            let reply = server.ok(target).await;
            assert_eq!(reply.the("mirror-snapshot"), snapshot);
            expected.insert((snapshot.clone(), target.clone()), whole(&reply));
        }
        snapshots.push(snapshot);
    }
    let (expected, targets) = (Arc::new(expected), Arc::new(targets));
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..16)
        .map(|number| {
            let (expected, targets) = (Arc::clone(&expected), Arc::clone(&targets));
            let (over, answered, public) = (Arc::clone(&over), Arc::clone(&answered), server.public);
            tokio::spawn(async move {
                let client = if number % 4 == 0 { http2_client() } else { plain_client() };
                let mut seen = HashMap::<String, u64>::new();
                for at in number.. {
                    if over.load(Ordering::Acquire) {
                        break;
                    }
                    let target = &targets[at % targets.len()];
                    let sent = client.get(format!("http://{public}{target}")).send().await;
                    let reply = Reply::of(sent.unwrap_or_else(|error| panic!("{target}: {error:?}"))).await;
                    assert_eq!(reply.status, 200, "{target}: {reply:?}");
                    let snapshot = reply.the("mirror-snapshot");
                    let known = expected.get(&(snapshot.clone(), target.clone()));
                    assert_eq!(Some(&whole(&reply)), known, "{target} of {snapshot}");
                    *seen.entry(snapshot).or_default() += 1;
                    answered.fetch_add(1, Ordering::AcqRel);
                }
                seen
            })
        })
        .collect();
    let more = |many: u64| {
        let (answered, then) = (Arc::clone(&answered), answered.load(Ordering::Acquire));
        let failed = clients.iter().any(tokio::task::JoinHandle::is_finished);
        async move {
            wait_until("clients are answered", || async { failed || answered.load(Ordering::Acquire) >= then + many })
                .await;
        }
    };
    for _ in 0..12 {
        more(60).await;
        roll_back(&server, &snapshots[0]).await;
        assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), snapshots[0], "at once");
        more(60).await;
        release(&server).await;
        assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), snapshots[1], "at once");
    }
    over.store(true, Ordering::Release);
    let mut seen = HashMap::<String, u64>::new();
    for client in clients {
        for (snapshot, count) in client.await.unwrap() {
            *seen.entry(snapshot).or_default() += count;
        }
    }
    assert!(snapshots.iter().all(|snapshot| seen.get(snapshot).is_some_and(|count| *count > 100)), "{seen:?}");
}
