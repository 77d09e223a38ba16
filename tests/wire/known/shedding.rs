//! Crowds that the origin never sees: one request for many clients.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{CODINGS, answer, case_of, in_both, nothing, number, started, target};
use crate::harness::Upstream;

#[tokio::test]
async fn a_thousand_clients_at_once_on_a_cold_key_make_one_request() {
    in_both(async |uses| {
        let gate = Arc::new(Semaphore::new(0));
        let held = gate.clone();
        let upstream = Upstream::start(move |seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600"), ("etag", "\"a\"")]).held_by(&held),
        })
        .await;
        // All of them are one household.
        let setup = uses.setup(&upstream).set("limits.connections_per_client", "2000");
        let server = started(setup, uses).await;
        for case in 0..2 {
            let target = target(case);
            let clients = (0..1_000).map(|client| {
                let and = if case == 0 { "&" } else { "?" };
                let fields = vec![("accept-encoding", CODINGS[client % 4]), ("cache-control", "no-cache")];
                (format!("{target}{and}utm={client}"), fields)
            });
            let replies = server.together(clients, || gate.add_permits(1)).await;
            assert!(replies.iter().all(|reply| number(reply) == 1 && reply.etag() == "W/\"a\""));
            assert_eq!(upstream.count_of(&target), 1, "{uses:?}");
            let told = |text: &str| replies.iter().filter(|reply| reply.the("cache-status").contains(text)).count();
            assert_eq!(told("grandstand; fwd=uri-miss; fwd-status=200; stored"), told("fwd="));
            assert_eq!(told("fwd=") - told("; collapsed"), 1, "one of them asked");
            assert!(told("; stored; collapsed") > 500, "{}", told("collapsed"));
        }
    })
    .await;
}
