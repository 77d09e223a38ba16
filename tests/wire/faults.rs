//! An origin that answers nonsense never damages published data, and its recovery shows.

mod lived_with;
mod table;
mod tables;
mod tls;

use sample_origin::{FaultRule, World};

use crate::compare::list_is_the_origins;
use crate::harness::{Setup, origin, wait_until};
use crate::origin_faults::Fault;

#[tokio::test]
async fn one_broken_page_never_blocks_the_rest() {
    let origin = origin(230).await;
    origin.set(|switches| {
        let detail = format!("/api/listings/{}.json", origin.world(World::ids)[7]);
        switches.faults = vec![FaultRule::always(&detail, Fault::Status(500))];
    });
    let server = Setup::mirror_of(&origin).start().await;
    server.ready().await;
    wait_until("all details but one are mirrored", || async { server.status().await["details"]["mirrored"] == 229 })
        .await;
    list_is_the_origins(&server, &origin, "/api/listings.json?page=3").await;
    let broken = server.get(&format!("/api/listings/{}.json", origin.world(World::ids)[7])).await;
    broken.assert_problem(503, &[]);
    broken.the("retry-after");
}

#[tokio::test]
async fn random_faults_only_delay_the_first_mirror() {
    let origin = origin(130).await;
    // A detail is tried again after 1, 2, 4 ... seconds: that one of 130 fails six times in a row must not happen.
    let share = |fault| FaultRule::share(0.02, fault);
    origin.set(|switches| {
        switches.faults =
            vec![share(Fault::Status(500)), share(Fault::Truncated), share(Fault::HtmlWith200), share(Fault::Reset)];
    });
    let server = Setup::mirror_of(&origin).set("ttl", "2s").start().await;
    server.ready().await;
    list_is_the_origins(&server, &origin, "/api/listings.json?page=3").await;
    wait_until("all details are mirrored", || async { server.status().await["details"]["mirrored"] == 130 }).await;
    origin.set(|switches| switches.faults.clear());
    for id in origin.world(World::ids) {
        crate::compare::detail_is_the_origins(&server, &origin, id).await;
    }
}
