//! Missing resources: remembered for a short time, so that nobody hammers the origin with unknown ids.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{Fields, Use, answer, case_of, in_both, nothing, pass, started, target, with};
use crate::harness::{Script, Upstream};

#[tokio::test]
async fn what_is_missing_is_asked_for_once_by_however_many() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(case) => Script::new([404, 410][case / 2 % 2], "<html>secret path</html>")
                .with("content-type", "text/html")
                .with("set-cookie", "a=b")
                .with("x-foo", "bar")
                .after(Duration::from_millis(100)),
        })
        .await;
        let server = uses.start(&upstream).await;
        join_all((0..4).map(async |case| {
            let target = target(case);
            let replies = join_all((0..50).map(|_| server.get(&target))).await;
            let again = server.get_with(&target, &[("cache-control", "no-cache")]).await;
            for reply in replies.iter().chain([&again]) {
                if case % 2 == 0 {
                    // Only the origin knows what a list lacks.
                    assert_eq!(reply.status, [404, 410][case / 2 % 2], "{uses:?} {case}: {reply:?}");
                    assert_eq!(reply.text(), "<html>secret path</html>");
                } else {
                    assert_eq!(reply.status, 404, "{uses:?} {case}: {reply:?}");
                    assert!(reply.the("content-type").starts_with("application/problem+json"));
                    assert!(!reply.text().contains("secret"), "the words are ours");
                }
                assert_eq!((reply.header("set-cookie"), reply.the("x-foo")), (None, "bar".into()));
                assert_eq!(reply.the("cache-control"), "public, max-age=60");
                assert_eq!(reply.the("access-control-allow-origin"), "*");
            }
            let outcome = again.the("cache-status");
            let ttl = outcome.strip_prefix("grandstand; hit; ttl=").unwrap_or_else(|| panic!("{outcome}"));
            assert!(ttl.parse::<u64>().unwrap() <= 60, "{outcome}");
            assert_eq!(upstream.count_of(&target), 1, "{uses:?} {case}");
        }))
        .await;
    })
    .await;
}

/// How long a missing resource is remembered: as long as the origin says, at most a minute.
#[tokio::test]
async fn what_is_missing_is_remembered_for_a_minute_at_most() {
    const CASES: [(Fields<'_>, u64); 6] = [
        (&[], 60),
        (&[("cache-control", "max-age=3600")], 60),
        (&[("cache-control", "max-age=10")], 10),
        (&[("expires", "@3600"), ("date", "@0")], 60),
        (&[("cache-control", "max-age=3600"), ("age", "50")], 10),
        (&[("cdn-cache-control", "max-age=20"), ("cache-control", "max-age=3600")], 20),
    ];
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(case) => with(Script::new(404, ""), CASES[case].0),
        })
        .await;
        let server = uses.start(&upstream).await;
        for (case, (fields, seconds)) in CASES.iter().enumerate() {
            let asked = Instant::now();
            server.get(&target(case)).await;
            let reply = server.get(&target(case)).await;
            assert_eq!(reply.status, 404);
            let ttl: u64 = reply.the("cache-status").strip_prefix("grandstand; hit; ttl=").unwrap().parse().unwrap();
            let least = seconds.saturating_sub(2 + asked.elapsed().as_secs());
            assert!((least..=*seconds).contains(&ttl), "{uses:?} {fields:?}: {ttl}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_missing_and_must_not_be_kept_is_asked_for_each_time() {
    in_both(async |uses| {
        let upstream = Upstream::start(|_| nothing()).await;
        let server = uses.start(&upstream).await;
        for count in 1..4 {
            let reply = server.get(&target(0)).await;
            assert_eq!(reply.status, 404);
            assert_eq!(reply.the("cache-status"), "grandstand; fwd=uri-miss; fwd-status=404");
            assert_eq!((reply.the("cache-control"), upstream.count_of(&target(0))), ("no-store".into(), count));
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_missing_shows_when_its_time_is_over_and_what_is_gone_goes() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| {
            let fields: Fields<'_> = &[("cache-control", "max-age=1")];
            match (case_of(seen), seen.nth) {
                (None, _) => nothing(),
                (Some(0), 1) | (Some(1), 2) => with(Script::new(404, ""), fields),
                _ => answer(seen.nth, fields),
            }
        })
        .await;
        let server = uses.start(&upstream).await;
        for (case, statuses) in [(0, [404, 200]), (1, [200, 404])] {
            assert_eq!(server.get(&target(case)).await.status, statuses[0]);
            pass(Duration::from_millis(1_100)).await;
            let reply = server.get(&target(case)).await;
            assert_eq!(reply.status, statuses[1], "{uses:?} {case}");
            let told = format!("grandstand; fwd=stale; fwd-status={}; stored", statuses[1]);
            assert_eq!(reply.the("cache-status"), told);
        }
    })
    .await;
}

#[tokio::test]
async fn ids_that_cannot_exist_and_ways_to_write_one_twice_never_reach_the_origin() {
    let upstream = Upstream::start(|seen| answer(seen.nth, &[])).await;
    let server = started(Use::Shield.setup(&upstream), Use::Shield).await;
    for id in ["007", "+7", "-7", "7.0", "7e0", "", "%20", "99999999999999999999999999", "seven", "7%00"] {
        let reply = server.raw_get(&format!("/api/listings/{id}.json")).await;
        assert!(matches!(reply.status, 400 | 404), "{id}: {reply:?}");
    }
    assert_eq!(upstream.count(), 0, "{:#?}", upstream.seen());
    for spelled in ["7", "%37"] {
        assert_eq!(server.raw_get(&format!("/api/listings/{spelled}.json?x={spelled}")).await.status, 200);
    }
    assert_eq!(upstream.count(), 1);
}
