//! A disk that stalls or refuses to sync: answers from memory go on, nothing is torn or lost, and `/status` says why.

use futures_util::future::join_all;
use http::Method;
use sample_origin::{Origin, World};

use crate::compare::{list_is_the_origins, same_list};
use crate::harness::faults::Faults;
use crate::harness::{Body, Script, Server, Setup, Upstream, edit, origin, run, wait_until};

const LIST: &str = "/api/listings.json";

async fn unhealthy_because(server: &Server, named: &str) {
    wait_until(&format!("/status is 503 and names {named:?}"), || async {
        let reply = server.admin(Method::GET, "/status").await;
        reply.status == 503 && reply.json()["reasons"].to_string().contains(named)
    })
    .await;
}

#[tokio::test]
async fn a_disk_that_stalls_holds_up_no_answer_from_memory() {
    let origin = origin(120).await;
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "6000").set("origin.wait", "1s");
    let (server, faults) = Faults::start(setup).await;
    server.settled(&origin).await;
    let asked = origin.count();
    faults.begin("write", "stall");
    faults.begin("sync", "stall");
    // Each of them needs a slot, which must be written before it is used.
    let unknown: Vec<String> = (0..32).map(|number| format!("/api/unknown/{number}")).collect();
    let refused = join_all(unknown.iter().map(|target| server.get(target)));
    server.refresh().await;
    let hits = async {
        for _ in 0..200 {
            server.ok(LIST).await;
            assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
        }
    };
    let (refused, ()) = futures_util::join!(refused, hits);
    wait_until("it is told", || async { server.process.said().contains("the disk does not answer") }).await;
    for reply in refused {
        assert!(reply.status == 503 && reply.header("retry-after").is_some(), "{reply:?}");
    }
    assert_eq!(origin.count(), asked, "what is not in the ledger is not sent");
    for call in ["write", "sync"] {
        faults.end(call);
    }
    server.settled(&origin).await;
    // A refresh that cannot be committed holds up neither lists nor details, which are read from the file.
    faults.begin("sync", "stall");
    let (asked, ids) = (origin.count(), origin.world(World::ids));
    origin.edit(|world| assert!(world.touch(ids[5])));
    server.refresh().await;
    wait_until("the refresh has asked", || async { origin.count() > asked + 4 }).await;
    for id in &ids {
        server.ok(&format!("/api/listings/{id}.json")).await;
        server.ok(LIST).await;
    }
    faults.end("sync");
    server.settled(&origin).await;
    edit(&origin, &server, |world| assert!(world.touch(ids[3]))).await;
    list_is_the_origins(&server, &origin, LIST).await;
}

/// After `fault`, another snapshot than `old` is served, and a restart keeps it.
async fn whole_again(server: &mut Server, origin: &Origin, old: &str, fault: &str) {
    wait_until("the change shows", || async { server.snapshot().await != old }).await;
    wait_until("/status is 200", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;
    server.settled(origin).await;
    list_is_the_origins(server, origin, LIST).await;
    let now = server.snapshot().await;
    server.restart().await;
    server.ready().await;
    assert_eq!(server.snapshot().await, now, "{fault}");
    list_is_the_origins(server, origin, LIST).await;
}

async fn intact(mut server: Server) {
    server.process.kill();
    let (code, said) = run(&server.setup.arguments(&["snapshot", "verify"], &server.data_dir())).await;
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn a_disk_that_fails_once_or_for_long_tears_and_loses_nothing() {
    let origin = origin(120).await;
    let (mut server, faults) = Faults::start(Setup::mirror_of(&origin).set("ttl", "3s")).await;
    server.settled(&origin).await;
    let id = origin.world(World::ids)[7];
    for (call, fault) in [("sync", "1"), ("sync", "always"), ("write", "1"), ("write", "always")] {
        let (old, text) = (server.snapshot().await, server.ok(LIST).await.text().to_owned());
        faults.begin(call, fault);
        origin.edit(|world| assert!(world.touch(id)));
        server.refresh().await;
        if fault == "1" {
            wait_until("a call has failed", || async { !faults.lasts(call) }).await;
        } else {
            unhealthy_because(&server, "Input/output error").await;
            assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), old);
            // A crash in this state: what was published before is there, or what could be read back whole.
            server.process.kill();
            server.process = Body::Child(server.setup.spawn(&server.data_dir()));
            // It may not have been able to write its name into the lock.
            server.found_by_log().await;
            server.ready().await;
            let reply = server.ok(LIST).await;
            if reply.the("mirror-snapshot") == old {
                same_list(reply.text(), &text, LIST);
            }
            faults.end(call);
        }
        whole_again(&mut server, &origin, &old, &format!("{call} {fault}")).await;
    }
    intact(server).await;
}

/// A disk that fails in the middle of a commit, or of what follows it: wherever that is, the change is published later.
#[tokio::test]
async fn whichever_call_of_a_commit_fails_the_change_is_published_and_nothing_is_torn() {
    let origin = origin(120).await;
    let (mut server, faults) = Faults::start(Setup::mirror_of(&origin).set("ttl", "3s")).await;
    server.settled(&origin).await;
    let ids = origin.world(World::ids);
    for (call, nth) in [("sync", 2), ("sync", 3), ("sync", 4), ("sync", 6), ("write", 2), ("write", 4), ("write", 9)] {
        faults.begin(call, &nth.to_string());
        let (mut edits, mut old) = (0, String::new());
        // One publication has fewer calls than nine.
        while faults.lasts(call) {
            old = server.snapshot().await;
            origin.edit(|world| assert!(world.touch(ids[(nth + edits) % ids.len()])));
            server.refresh().await;
            wait_until("the change shows, or a call has failed", || async {
                !faults.lasts(call) || server.snapshot().await != old
            })
            .await;
            edits += 1;
        }
        whole_again(&mut server, &origin, &old, &format!("{call} {nth}")).await;
    }
    intact(server).await;
}

/// The origin may have acted upon a request whose connection it closed, unless that connection was an idle one.
#[tokio::test]
async fn a_new_connection_from_a_port_that_had_answers_is_a_new_connection() {
    let origin = Upstream::start(|seen| match &*seen.target {
        "/api/old" => Script::new(200, "old").with("connection", "close").with("cache-control", "no-store"),
        _ => Script::hang_up(),
    })
    .await;
    let (server, faults) = Faults::start(Setup::shield_of_url(&origin.url())).await;
    faults.begin("port", origin.url().rsplit(':').next().unwrap());
    for number in 0..3 {
        assert_eq!(server.ok("/api/old").await.text(), "old");
        let target = format!("/api/new/{number}");
        assert_eq!(server.get(&target).await.status, 503);
        assert_eq!(origin.count_of(&target), 1, "it is not sent again");
    }
}
