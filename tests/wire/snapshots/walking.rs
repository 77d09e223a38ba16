//! A client that asks for one old snapshot after the other causes few loads.

use super::{LIST, grow, kept, mirrored};
use crate::client::Reply;
use crate::harness::Server;

async fn ask(server: &Server, snapshot: &str) -> Reply {
    server.get(&format!("{LIST}?snapshot={snapshot}")).await
}

#[tokio::test]
async fn old_snapshots_are_loaded_one_at_a_time_and_the_next_one_waits() {
    let (origin, server) = mirrored(20, |setup| setup.set("mirror.keep", "20")).await;
    for number in 0..4 {
        grow(&origin, &server, &format!("Step {number}")).await;
    }
    let old = kept(&server).await.split_off(1);
    assert_eq!(old.len(), 4);
    assert_eq!(ask(&server, &old[0]).await.status, 200, "the previous one is in memory");
    assert_eq!(ask(&server, &old[1]).await.status, 200, "it is loaded");
    for refused in [&old[0], &old[2], &old[3]] {
        let reply = ask(&server, refused).await;
        reply.assert_problem(503, &[refused, "makes room"]);
        assert!((1..=10).contains(&reply.the("retry-after").parse::<u64>().unwrap()), "{reply:?}");
    }
    assert_eq!(ask(&server, &old[1]).await.status, 200, "it has its place, and a client can finish its pages");
    assert_eq!(server.ok(LIST).await.total(), 24, "the current one is always there");
}
