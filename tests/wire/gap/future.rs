//! A bundle that is dated in the future confirms nothing, and every place that shows a time says so.

use http::Method;
use sample_origin::Switches;

use super::{Desk, LIST};
use crate::clocks::Hand;
use crate::harness::{Setup, origin_with, wait_until};

const FIFTY_YEARS: i64 = 50 * 365 * 86_400;

#[tokio::test]
async fn a_bundle_from_the_future_is_unconfirmed_everywhere() {
    let origin = origin_with(60, Switches { clock_ahead: FIFTY_YEARS, ..Switches::default() }).await;
    let (hand, desk) = (Hand::new(), Desk::new());
    hand.set(FIFTY_YEARS);
    let mut mirror = hand.on(Setup::mirror_of(&origin)).start().await;
    mirror.settled(&origin).await;
    // Beside the server the command has the true time: the data's own stamp is exported.
    desk.does(&Setup::mirror_of(&origin), &mirror.data_dir(), &["export"], "future.gsb").await;
    mirror.down().await;
    let stamp = desk.inspect("future.gsb").await["confirmed_at"].as_str().unwrap().to_owned();
    assert!(
        stamp.parse::<jiff::Timestamp>().unwrap() > jiff::Timestamp::now() + jiff::SignedDuration::from_hours(9999)
    );

    let inspected = desk.inspect("future.gsb").await;
    assert_eq!((&inspected["unconfirmed"], &inspected["age_seconds"]), (&true.into(), &serde_json::Value::Null));
    let said = desk.does(&Setup::offline(), &desk.data(), &["verify"], "future.gsb").await;
    assert!(said.contains("in the future") && said.contains(&stamp), "{said}");
    let said = desk.does(&Setup::offline(), &desk.data(), &["import"], "future.gsb").await;
    assert!(said.contains("check both clocks"), "{said}");

    // Just imported, and after a restart.
    let mut server = desk.serve_bundle(Setup::offline(), "future.gsb").await;
    for restarts in [false, true] {
        if restarts {
            server.restart().await;
        }
        server.ready().await;
        let status = server.status().await;
        assert_eq!(
            (&status["unconfirmed"], &status["confirmed_at"]),
            (&true.into(), &stamp.as_str().into()),
            "{status:#}"
        );
        assert_eq!(status["age_seconds"], serde_json::Value::Null);
        let reply = server.ok(LIST).await;
        assert_eq!((reply.header("mirror-confirmed"), reply.age()), (None, None), "{reply:?}");
        let generated = reply.json()["generated_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(generated <= jiff::Timestamp::now(), "clients send it back as modified_since: {generated}");
        let metrics = server.admin(Method::GET, "/metrics").await.text().to_owned();
        assert!(
            metrics.contains("grandstand_unconfirmed 1") && !metrics.contains("grandstand_age_seconds "),
            "{metrics}"
        );
        let kept = server.admin(Method::GET, "/snapshots").await.json();
        assert_eq!(kept["snapshots"][0]["unconfirmed"], true);
    }

    // A mirror that begins with it is not healthy before its origin has confirmed the data.
    origin.set(|switches| switches.clock_ahead = 0);
    origin.shutdown().await;
    let setup = Setup::mirror_of(&origin).set("ttl", "4s").set("origin.timeout", "3s");
    let mirror = desk.serve_bundle(setup, "future.gsb").await;
    mirror.ready().await;
    let status = mirror.admin(Method::GET, "/status").await;
    assert_eq!((status.status, &status.json()["unconfirmed"]), (503, &true.into()));
    assert!(mirror.finding("clock-wrong").await.is_some());
    let reply = mirror.ok(LIST).await;
    assert!(reply.age().unwrap() >= 4 && reply.header("mirror-confirmed").is_none(), "{reply:?}");
    origin.restart().await.unwrap();
    wait_until("the origin has confirmed it", || async {
        let status = mirror.admin(Method::GET, "/status").await;
        status.status == 200 && status.json()["unconfirmed"] == false
    })
    .await;
    assert!(mirror.ok(LIST).await.header("mirror-confirmed").is_some());
}
