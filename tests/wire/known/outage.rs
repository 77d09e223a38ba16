//! The origin fails: kept answers stand in, others are an honest error, and its return is noticed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{Use, answer, case_of, in_both, nothing, number, pass, target};
use crate::harness::{Script, Upstream, soon, wait_until};

/// Reads are retried as other requests are: the connection had been idle, and nothing was done.
#[tokio::test]
async fn a_connection_that_the_origin_closes_between_two_reads_is_not_noticed() {
    let origin = Upstream::start(|_| answer(1, &[])).await;
    let server = Use::Shield.start(&origin).await;
    let used = parking_lot::Mutex::new(HashSet::new());
    origin.answers(move |seen| if used.lock().insert(seen.connection) { answer(1, &[]) } else { Script::hang_up() });
    let before = origin.count();
    let mut read = 0;
    // The last connection may not be back in the pool yet.
    wait_until("a read meets a connection that is closed under it", || {
        read += 1;
        let (read, server, origin) = (read, &server, &origin);
        async move {
            let reply = server.get(&target(read)).await;
            assert_eq!(number(&reply), 1, "{read}: {:?}", server.status().await["last_error"]);
            origin.count() - before > read
        }
    })
    .await;
}

const PAUSE: Duration = Duration::from_millis(1_200);

#[tokio::test]
async fn a_refused_connection_is_an_outage_like_any_other_and_the_return_is_noticed() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.number, &[("cache-control", "max-age=1")]),
        })
        .await;
        let server = uses.start(&upstream).await;
        let target = target(0);
        let first = server.ok(&target).await;
        pass(PAUSE).await;
        upstream.go_down().await;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            let stale = server.get(&target).await;
            assert_eq!(stale.body, first.body, "{uses:?}");
            assert_eq!(stale.the("cache-status"), "grandstand; fwd=stale; detail=stale-if-error");
            pass(Duration::from_millis(10)).await;
        }
        upstream.come_back();
        soon("its return shows", || async { server.get(&target).await.body != first.body }).await;
    })
    .await;
}
