//! How an answer was made, in the same words everywhere: `Cache-Status`, `/metrics` and the access log.

use std::time::Duration;

use http::Method;

use super::{Fields, answer, case_of, in_both, nothing, pass, started, target, with};
use crate::client::Reply;
use crate::harness::{Script, Server, Upstream, wait_until};

const LIST: &str = "list";

/// How often `/metrics` counts answers of lists with an outcome and a status.
async fn counted(server: &Server, outcome: &str, status: u16) -> u64 {
    let metrics = server.admin(Method::GET, "/metrics").await;
    let line = metrics.text().lines().find(|line| {
        let labels = [format!("route=\"{LIST}\""), format!("outcome=\"{outcome}\""), format!("status=\"{status}\"")];
        line.starts_with("grandstand_answers_total{") && labels.iter().all(|label| line.contains(label))
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// Asks, and asserts that header, counter and log say the same; `N` in the header is any number.
async fn told(server: &Server, target: &str, headers: Fields<'_>, outcome: &str, header: &str) -> Reply {
    let logged = |server: &Server| {
        let said = server.process.said();
        said.lines().filter(|line| line.contains("access") && line.contains(&format!("outcome=\"{outcome}\""))).count()
    };
    let (status, before) = (if headers.is_empty() { 200 } else { 304 }, logged(server));
    let count = counted(server, outcome, status).await;
    let reply = server.get_with(target, headers).await;
    assert_eq!(reply.status, status, "{reply:?}");
    let said = reply.the("cache-status");
    match header.strip_suffix('N') {
        Some(start) => {
            let ttl = said.strip_prefix(start);
            assert!(ttl.is_some_and(|ttl| ttl.parse::<u64>().is_ok()), "{said} is not {header}");
        }
        None => assert_eq!(said, header),
    }
    // Both are written when the answer has left.
    wait_until("it is counted", || async { counted(server, outcome, status).await == count + 1 }).await;
    wait_until("the log says it", || async { logged(server) == before + 1 }).await;
    reply
}

#[tokio::test]
async fn header_metrics_and_log_say_the_same_of_every_outcome() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| {
            // Fresh for as long as the checks of its reports take.
            let fields: Fields<'_> = &[("cache-control", "max-age=5, stale-while-revalidate=0"), ("etag", "\"a\"")];
            match (case_of(seen), seen.nth) {
                (None, _) => nothing(),
                (Some(4), _) => answer(1, &[("cache-control", "no-store")]),
                (Some(6), _) => Script::new(500, ""),
                (_, 1) => answer(1, fields),
                (_, 2) => with(Script::new(304, ""), fields),
                (_, 3) => answer(3, &[("cache-control", "max-age=0, stale-while-revalidate=0"), ("etag", "\"a\"")]),
                (_, 4) => Script::new(503, ""),
                (_, 5) => Script::hang_up(),
                _ => answer(6, &[("cache-control", "max-age=1, stale-while-revalidate=60")]),
            }
        })
        .await;
        let server = started(uses.setup(&upstream).set("log.level", "debug"), uses).await;
        let target = target(0);
        let stale = || pass(Duration::from_millis(5_100));
        told(&server, &target, &[], "uri-miss", "grandstand; fwd=uri-miss; fwd-status=200; stored").await;
        told(&server, &target, &[], "hit", "grandstand; hit; ttl=N").await;
        let if_changed = [("if-none-match", "\"a\"")];
        told(&server, &target, &if_changed, "hit", "grandstand; hit; ttl=N").await;
        stale().await;
        told(&server, &target, &[], "stale", "grandstand; fwd=stale; fwd-status=304; stored").await;
        told(&server, &target, &[], "hit", "grandstand; hit; ttl=N").await;
        stale().await;
        told(&server, &target, &[], "stale", "grandstand; fwd=stale; fwd-status=200; stored").await;
        let failed = "grandstand; fwd=stale; fwd-status=503; detail=stale-if-error";
        told(&server, &target, &[], "stale-if-error", failed).await;
        told(&server, &target, &[], "stale-if-error", "grandstand; fwd=stale; detail=stale-if-error").await;
        // It may be paused for a moment after two failures.
        wait_until("it is asked again", || async { !server.ok(&target).await.the("cache-status").contains("error") })
            .await;
        pass(Duration::from_millis(1_100)).await;
        let reply = told(&server, &target, &[], "hit-stale", "grandstand; hit; ttl=-N").await;
        assert!(reply.age().unwrap() >= 1);
        let private = super::target(4);
        told(&server, &private, &[], "uri-miss", "grandstand; fwd=uri-miss; fwd-status=200").await;
        // What we refuse or cannot answer has no such field.
        for (target, status) in [(super::target(6), 503), ("/api/listings.json?page=0".into(), 400)] {
            let before = counted(&server, "problem", status).await;
            let reply = server.get(&target).await;
            assert_eq!((reply.status, reply.header("cache-status")), (status, None), "{uses:?} {reply:?}");
            wait_until("it is counted", || async { counted(&server, "problem", status).await == before + 1 }).await;
        }
        let asked = [("origin", "https://page.example"), ("access-control-request-method", "GET")];
        let preflight = server.send(Method::OPTIONS, &target, &asked).await;
        assert_eq!((preflight.status, preflight.header("cache-status")), (204, None));
    })
    .await;
}
