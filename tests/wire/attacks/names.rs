//! DNS servers that stay silent: nothing but requests to the origin waits for them.

use std::fs;

use futures_util::future::join_all;
use http::Method;
use sample_origin::World;

use crate::client::plain_client;
use crate::harness::faults::Faults;
use crate::harness::{Server, Setup, origin, wait_until};

/// More than the threads that may block: each lookup takes one for as long as the DNS servers are silent.
const MANY: usize = 600;

fn threads(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/task", server.process.pid())).unwrap().count()
}

#[tokio::test]
async fn lookups_without_an_answer_take_neither_threads_nor_what_is_here() {
    let origin = origin(120).await;
    let setup = Setup::mirror_of(&origin).set("origin.url", &origin.url().replace("127.0.0.1", "localhost"));
    let setup = setup.set("origin.timeout", "4s").set("origin.wait", "4s").set("limits.connections_per_client", "2000");
    let (mut server, faults) = Faults::start(setup).await;
    server.settled(&origin).await;
    let before = threads(&server);
    faults.begin("lookup", "stall");
    let targets: Vec<String> = (0..MANY).map(|number| format!("/api/unknown/{number}")).collect();
    let asked = join_all(targets.iter().map(|target| server.get(target)));
    let answered = async {
        for id in origin.world(World::ids) {
            server.ok(&format!("/api/listings/{id}.json")).await;
            server.ok(&format!("/venues/{id}")).await;
        }
        server.ok("/explore?q=golf").await;
        assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
        threads(&server)
    };
    let (answers, meanwhile) = futures_util::join!(asked, answered);
    for reply in answers {
        // Connections that are open need no lookup.
        assert!(reply.status == 404 || reply.status == 503 && reply.header("retry-after").is_some(), "{reply:?}");
    }
    let most = threads(&server).max(meanwhile);
    assert!(most < before + 64, "{before} threads before, then {most}");
    faults.end("lookup");
    wait_until("the origin is asked again", || async { server.get("/api/unknown/again").await.status == 404 }).await;
    // Nor does the end of the server wait for them.
    faults.begin("lookup", "stall");
    let (client, public) = (plain_client(), server.public);
    let asking = (0..20).map(|number| {
        let asked = client.get(format!("http://{public}/api/unknown/late/{number}")).send();
        // It may be cut.
        async { drop(asked.await) }
    });
    let asking = tokio::spawn(join_all(asking));
    server.process.signal("TERM");
    wait_until("it has ended", || {
        let ended = server.process.ended();
        async move { ended == Some(0) }
    })
    .await;
    asking.await.unwrap();
}
