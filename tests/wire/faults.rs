//! An origin that answers nonsense never damages published data, and its recovery shows.

mod lived_with;
mod table;
mod tables;
mod tls;

use std::time::Duration;

use sample_origin::{FaultRule, World};

use crate::compare::list_is_the_origins;
use crate::harness::{Setup, origin, wait_until};
use crate::origin_faults::Fault;

const LIST: &str = "/api/listings.json";

/// With this fault for everything, lets several refreshes fail, then heals the origin.
async fn harms_nobody(fault: Fault) {
    let origin = origin(130).await;
    let setup = Setup::mirror_of(&origin).set("ttl", "1s").set("origin.timeout", "1s").set("origin.max_body", "1MiB");
    let server = setup.start().await;
    server.ready().await;
    wait_until("everything is mirrored and certified", || async {
        let status = server.status().await;
        matches!(status["snapshot"]["certificate"].as_str(), Some("full" | "incremental"))
            && status["details"]["mirrored"] == status["details"]["of"]
    })
    .await;
    let ids = origin.world(World::ids);
    let detail = format!("/api/listings/{}.json", ids[3]);
    let targets = [LIST, "/api/listings.json?page=3", "/api/listings.json?sport=baseball", "/api/cities.json", &detail];
    let mut good = Vec::new();
    for target in targets {
        good.push(server.ok(target).await);
    }
    let snapshot = server.snapshot().await;

    origin.set(|switches| switches.faults = vec![FaultRule::always("", fault.clone())]);
    origin.clear_log();
    // The change must not show in parts while the fault lasts.
    origin.edit(|world| assert!(world.touch(ids[3])));
    wait_until("several refreshes have met the fault and are told of", || async {
        for (target, good) in targets.iter().zip(&good) {
            let reply = server.ok(target).await;
            assert_eq!(reply.etag(), good.etag(), "{target} changed under {fault:?}");
        }
        let status = server.status().await;
        let state = &status["origin"]["state"];
        // A list that shrank to nothing is well-formed: it is held back instead.
        let told = state == "nonsense" || state == "could-not-be-asked" || !status["held"].is_null();
        origin.count() >= 8 && told
    })
    .await;
    let status = server.status().await;
    assert_eq!(status["snapshot"]["id"], snapshot.as_str());
    let told = !status["last_error"].is_null() || !status["held"].is_null();
    assert!(told, "nothing tells what is wrong: {status:#}");

    origin.set(|switches| switches.faults.clear());
    wait_until("the change shows", || async { server.snapshot().await != snapshot }).await;
    list_is_the_origins(&server, &origin, LIST).await;
    let expected = origin.expected_text(&detail).1;
    wait_until("the changed detail shows", || async { server.ok(&detail).await.text() == expected }).await;
    wait_until("it is healthy", || async { server.admin(http::Method::GET, "/status").await.status == 200 }).await;
}

macro_rules! faults {
    ($($name:ident: $fault:expr;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                harms_nobody($fault).await;
            }
        )*
    };
}

faults! {
    html_with_status_200_harms_nobody: Fault::HtmlWith200;
    a_truncated_answer_harms_nobody: Fault::Truncated;
    an_empty_array_harms_nobody: Fault::Body("[]".into());
    an_empty_object_harms_nobody: Fault::Body("{}".into());
    an_empty_body_harms_nobody: Fault::Body(String::new());
    a_literal_null_harms_nobody: Fault::Body("null".into());
    half_a_document_harms_nobody: Fault::Body(r#"{"@type":"ItemList","total":130,"items":[{"id":1,"na"#.into());
    wrong_types_harm_nobody: Fault::Body(
        r#"{"page":"1","per_page":50,"total":"many","total_pages":{},"filters":3,"items":{"id":[]}}"#.into());
    a_total_that_collapses_harms_nobody: Fault::Body(
        r#"{"page":1,"per_page":100,"total":0,"total_pages":0,"filters":{},"items":[]}"#.into());
    deep_nesting_harms_nobody: Fault::Body("[".repeat(100_000));
    a_500_harms_nobody: Fault::Status(500);
    a_503_harms_nobody: Fault::Status(503);
    a_404_for_everything_harms_nobody: Fault::Status(404);
    a_204_for_everything_harms_nobody: Fault::Status(204);
    a_429_harms_nobody: Fault::TooManyRequests(Some(1));
    a_429_without_retry_after_harms_nobody: Fault::TooManyRequests(None);
    a_redirect_is_not_followed_and_harms_nobody: Fault::Redirect("http://127.0.0.1:1/elsewhere".into());
    a_body_without_end_harms_nobody: Fault::EndlessBody;
    an_origin_that_hangs_harms_nobody: Fault::Hang;
    a_connection_that_is_cut_harms_nobody: Fault::Reset;
    an_answer_in_drips_harms_nobody: Fault::SlowDrip(Duration::from_secs(5));
}

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
