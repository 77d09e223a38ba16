//! A client that asks for one old snapshot after the other delays only itself.

use std::time::Instant;

use super::{LIST, grow, kept, mirrored};
use crate::client::Reply;
use crate::harness::{PATIENCE, Server};

async fn ask(server: &Server, client: &str, snapshot: &str) -> Reply {
    server.get_with(&format!("{LIST}?snapshot={snapshot}"), &[("x-forwarded-for", client)]).await
}

#[tokio::test]
async fn a_client_that_walks_through_old_snapshots_causes_few_loads_and_holds_up_nobody() {
    let change = |setup: crate::harness::Setup| {
        setup.set("mirror.keep", "20").set("client_ip.trusted_proxies", r#"["127.0.0.0/8"]"#)
    };
    let (origin, server) = mirrored(20, change).await;
    for number in 0..8 {
        grow(&origin, &server, &format!("Step {number}")).await;
    }
    let old = kept(&server).await.split_off(1);
    assert_eq!(old.len(), 8);
    let (used, walked) = old.split_at(2);
    for (client, snapshot) in ["192.0.2.1", "192.0.2.2"].into_iter().zip(used) {
        assert_eq!(ask(&server, client, snapshot).await.status, 200);
    }
    let (began, mut answered, mut walk) = (Instant::now(), 0, walked.iter().cycle());
    let (refused, snapshot) = loop {
        let snapshot = walk.next().unwrap();
        let reply = ask(&server, "192.0.2.9", snapshot).await;
        if reply.status != 200 {
            break (reply, snapshot);
        }
        answered += 1;
        assert!(began.elapsed() < PATIENCE, "{answered} loads, and it is not held up");
    };
    refused.assert_problem(503, &[snapshot, "many snapshots"]);
    assert!((1..=6).contains(&refused.the("retry-after").parse::<u64>().unwrap()), "{refused:?}");
    assert!(answered >= 10, "{answered}");
    // Others' snapshots are loaded, and more may be.
    for (client, snapshot) in [("192.0.2.1", &used[0]), ("192.0.2.2", &used[1]), ("192.0.2.3", snapshot)] {
        assert_eq!(ask(&server, client, snapshot).await.status, 200, "{client}");
    }
    assert_eq!(ask(&server, "192.0.2.9", snapshot).await.status, 200, "it is in memory now, for everybody");
    assert_eq!(server.ok(LIST).await.total(), 28, "and the current one is for everybody");
}
