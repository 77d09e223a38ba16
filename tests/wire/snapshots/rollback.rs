//! A rollback beside a mirror that goes on: durable, told, and without loss of what the old version needs.

use http::Method;
use sample_origin::{Switches, World};
use serde_json::json;

use super::{LIST, command, done, edit, grow, kept, listed, mirrored, newest, post, release, roll_back};
use crate::disk::{bound, limit_files, set_writable};
use crate::harness::{Body, Server, Setup, origin_with, quiet, wait_until};

async fn metric(server: &Server, name: &str) -> String {
    let text = server.admin(Method::GET, "/metrics").await.text().to_owned();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ').next().unwrap().to_owned()
}

async fn served_is(server: &Server, id: &str, total: u64) {
    let list = server.ok(LIST).await;
    assert_eq!((list.the("mirror-snapshot").as_str(), list.total()), (id, total));
    assert_eq!(server.snapshot().await, id);
}

#[tokio::test]
async fn a_rollback_holds_over_restarts_while_refreshes_go_on_until_the_release() {
    let (origin, mut server) = mirrored(60, Setup::alone).await;
    let old = server.snapshot().await;
    let refused = post(&server, "release").await;
    assert!(refused.status == 409 && refused.text().contains("no rollback is in effect"), "{refused:?}");
    for unknown in ["nonsense", "00000000000000000000000000000000"] {
        let refused = post(&server, &format!("{unknown}/rollback")).await;
        assert_eq!(refused.status, 404, "{refused:?}");
        assert!(refused.text().contains(unknown) && refused.text().contains(&old), "{refused:?}");
    }
    assert!(server.status().await["rollback"].is_null());
    assert_eq!(metric(&server, "grandstand_rolled_back ").await, "0");
    // The served one, while it is the newest.
    assert_eq!(roll_back(&server, &old).await, json!({ "served": old, "newest": old, "rolled_back": true }));
    assert_eq!(server.status().await["rollback"]["waiting"], false);
    let second = grow(&origin, &server, "Second").await;
    served_is(&server, &old, 60).await;
    let told = roll_back(&server, &old).await;
    assert_eq!(told, json!({ "served": old, "newest": second, "rolled_back": true }));
    let rollback = server.status().await["rollback"].clone();
    assert_eq!(rollback, json!({ "served": old, "newest": second, "waiting": true }));
    assert_eq!(metric(&server, "grandstand_rolled_back ").await, "1");
    served_is(&server, &old, 60).await;

    let mut newest_id = second;
    for (round, signal) in ["TERM", "KILL"].into_iter().enumerate() {
        let third = grow(&origin, &server, &format!("While rolled back {round}")).await;
        assert_ne!(third, newest_id);
        newest_id = third;
        served_is(&server, &old, 60).await;
        server.process.signal(signal);
        server.process.exit().await;
        server.restart().await;
        server.ready().await;
        served_is(&server, &old, 60).await;
        let rollback = server.status().await["rollback"].clone();
        assert_eq!(rollback, json!({ "served": old, "newest": newest_id, "waiting": true }), "after {signal}");
        server.settled(&origin).await;
        assert_eq!(newest(&server).await, newest_id, "nothing new was found");
        served_is(&server, &old, 60).await;
    }
    let told = release(&server).await;
    assert_eq!(told, json!({ "served": newest_id, "newest": newest_id, "rolled_back": false }));
    served_is(&server, &newest_id, 63).await;
    assert!(server.status().await["rollback"].is_null());
    assert_eq!(metric(&server, "grandstand_rolled_back ").await, "0");
    server.process.kill();
    server.restart().await;
    served_is(&server, &newest_id, 63).await;
    let next = grow(&origin, &server, "After the release").await;
    served_is(&server, &next, 64).await;
}

#[tokio::test]
async fn the_details_of_a_kept_version_outlive_their_listings() {
    let keep = |setup: crate::harness::Setup| setup.set("mirror.keep", "1");
    let (origin, mut server) = mirrored(60, keep).await;
    let (old, gone) = (server.snapshot().await, origin.world(|world| world.ids()[7]));
    let target = format!("/api/listings/{gone}.json");
    let detail = server.ok(&target).await.text().to_owned();
    assert_eq!(post(&server, &format!("{old}/pin")).await.status, 200);
    edit(&origin, &server, |world| assert!(world.remove(gone))).await;
    wait_until("it is unknown", || async { server.get(&target).await.status == 404 }).await;
    for round in 0..2 {
        // Each drops the one before: data without a snapshot is forgotten.
        grow(&origin, &server, &format!("Another {round}")).await;
    }
    server.settled(&origin).await;
    wait_until("what need not stay is gone", || async { kept(&server).await.len() == 2 }).await;
    roll_back(&server, &old).await;
    assert_eq!(post(&server, &format!("{old}/unpin")).await.status, 200);
    grow(&origin, &server, "While rolled back").await;
    quiet(&origin).await;
    origin.shutdown().await;
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
            server.ready().await;
        }
        let reply = server.ok(&target).await;
        assert_eq!(reply.text(), detail, "restarted: {restarted}");
        assert_eq!(server.ok(&format!("{LIST}?per_page=100")).await.total(), 60);
    }
    let status = server.status().await;
    assert_eq!((&status["details"]["mirrored"], &status["details"]["of"]), (&60.into(), &60.into()), "{status:#}");
    origin.restart().await.unwrap();
    release(&server).await;
    assert_eq!(server.get(&target).await.status, 404);
    grow(&origin, &server, "After the release").await;
    server.settled(&origin).await;
    wait_until("nothing keeps it", || async { kept(&server).await.len() == 1 }).await;
    assert_eq!(server.get(&target).await.status, 404);
}

#[tokio::test]
async fn what_is_held_back_is_judged_by_the_newest_and_waits_behind_a_rollback_when_accepted() {
    let (origin, server) = mirrored(120, |setup| setup).await;
    let old = server.snapshot().await;
    let second = grow(&origin, &server, "Second").await;
    roll_back(&server, &old).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    let left = origin.world(World::len) as u64;
    server.refresh().await;
    wait_until("it is held back", || async { !server.status().await["held"].is_null() }).await;
    let status = server.status().await;
    assert_eq!(status["held"]["listings"], left, "{status:#}");
    assert_eq!(status["rollback"], json!({ "served": old, "newest": second, "waiting": true }));
    served_is(&server, &old, 120).await;
    let held = status["held"]["snapshot"].as_str().unwrap().to_owned();
    let said = done(command(&server, &["accept"]).await);
    assert!(said.contains(&held) && said.contains("not current yet"), "{said}");
    assert_eq!(newest(&server).await, held);
    served_is(&server, &old, 120).await;
    assert!(server.status().await["held"].is_null());
    release(&server).await;
    served_is(&server, &held, left).await;
    // A release while a list is held back serves the newest published snapshot.
    roll_back(&server, &old).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(8)));
    server.refresh().await;
    wait_until("it is held back", || async { !server.status().await["held"].is_null() }).await;
    release(&server).await;
    served_is(&server, &held, left).await;
    assert!(!server.status().await["held"].is_null());
}

#[tokio::test]
async fn a_disk_that_takes_no_writes_refuses_a_rollback_and_what_is_served_stays() {
    let (origin, mut server) = mirrored(60, |setup| setup.alone().set("ttl", "3s")).await;
    let old = server.snapshot().await;
    let new = grow(&origin, &server, "Second").await;
    server.settled(&origin).await;
    limit_files(server.process.pid(), "4096");
    let store = server.store_file().display().to_string();
    for (action, undone) in [(format!("{old}/rollback"), "rollback"), (format!("{old}/pin"), "pin")] {
        let refused = post(&server, &action).await;
        assert_eq!(refused.status, 507, "{undone}: {refused:?}");
        assert!(refused.text().contains(&store) && refused.text().contains("no space left"), "{refused:?}");
    }
    let (code, said) = command(&server, &["rollback", &old]).await;
    assert!(code == 1 && said.contains("no space left") && said.contains(&store), "{said}");
    served_is(&server, &new, 61).await;
    let list = listed(&server).await;
    assert_eq!((&list["rolled_back"], &list["snapshots"][1]["pinned"]), (&false.into(), &false.into()), "{list:#}");
    limit_files(server.process.pid(), "unlimited");
    wait_until("it is healthy", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;
    roll_back(&server, &old).await;
    limit_files(server.process.pid(), "4096");
    assert_eq!(post(&server, "release").await.status, 507);
    served_is(&server, &old, 60).await;
    assert!(!server.status().await["rollback"].is_null());
    limit_files(server.process.pid(), "unlimited");
    server.restart().await;
    served_is(&server, &old, 60).await;
    release(&server).await;
    served_is(&server, &new, 61).await;

    // A directory that cannot be written.
    server.process.kill();
    set_writable(&server.data_dir(), false);
    server.setup = bound(server.setup.clone());
    server.process = Body::Child(server.setup.spawn(&server.data_dir()));
    server.found_by_log().await;
    server.ready().await;
    let refused = post(&server, &format!("{old}/rollback")).await;
    assert!(refused.status >= 500 && refused.text().contains("not writable"), "{refused:?}");
    served_is(&server, &new, 61).await;
    set_writable(&server.data_dir(), true);
    wait_until("it can be done", || async { post(&server, &format!("{old}/rollback")).await.status == 200 }).await;
    served_is(&server, &old, 60).await;
}

#[tokio::test]
async fn what_a_version_leaves_in_doubt_is_not_answered_by_the_origin_of_today() {
    let origin = origin_with(120, Switches { dropped: vec!["city"], ..Switches::default() }).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(server.disproved().await, json!(["city"]));
    let city = origin.world(|world| world.slugs_of(world.ids()[5]).unwrap().2.to_owned());
    let old = server.snapshot().await;
    let target = format!("{LIST}?city={city}");
    server.ok(&target).await;
    let new = grow(&origin, &server, "Later").await;
    roll_back(&server, &old).await;
    for target in [target.clone(), format!("{target}&snapshot={old}")] {
        let reply = server.get(&target).await;
        reply.assert_problem(503, &[&old, "in doubt"]);
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
    }
    // Held is the newest itself: the origin speaks for that.
    roll_back(&server, &new).await;
    assert_eq!(server.ok(&target).await.header("mirror-snapshot"), None, "it is the origin's answer");
    roll_back(&server, &old).await;
    server.get(&target).await.assert_problem(503, &[&old]);
    release(&server).await;
    server.ok(&target).await;
}
