//! Bodies of the origin that are uncommon and right: details that are arrays, byte order marks, and bodies without any
//! byte.

use http::Method;
use sample_origin::{FaultRule, Origin, World};

use crate::gap::Desk;
use crate::harness::{Script, Server, Setup, Upstream, origin, run, wait_until};
use crate::origin_faults::{Fault, Tamper};

const LIST: &str = "/api/listings.json";
const MARKED: &str = "\u{feff}{\"a\":1}";

/// An origin with something else in all its details, and in the answers to requests that start so. Its 404s stay.
async fn tampered(prefixes: &[&str], tamper: Tamper) -> Origin {
    let origin = origin(60).await;
    let details = origin.world(World::ids).into_iter().map(detail);
    let all = prefixes.iter().map(|&prefix| prefix.to_owned()).chain(details);
    let faults = all.map(|prefix| FaultRule::always(&prefix, Fault::Tampered(tamper))).collect();
    origin.set(|switches| switches.faults = faults);
    origin
}

fn detail(id: u64) -> String {
    format!("/api/listings/{id}.json")
}

/// Each detail is served as the origin sent it, in an array.
async fn serves_arrays(server: &Server, origin: &Origin) {
    for id in origin.world(World::ids).into_iter().take(5) {
        let expected = format!("[{}]", origin.expected_text(&detail(id)).1);
        assert_eq!(server.ok(&detail(id)).await.text(), expected);
    }
}

async fn is_equal(server: &Server) {
    let arguments = server.setup.arguments(&["audit", "--samples", "60"], &server.data_dir());
    let (code, said) = run(&arguments).await;
    assert!(code == 0 && said.contains(" equal (100 %); skipped: "), "{said}");
}

#[tokio::test]
async fn details_that_are_arrays_are_mirrored_served_dumped_compared_and_carried_over_the_gap() {
    let origin = tampered(&[], Tamper::InArray).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    serves_arrays(&server, &origin).await;
    let dump = server.ok("/dumps/details.ndjson").await.text().to_owned();
    assert_eq!(dump.lines().filter(|line| line.contains(r#","detail":[{"#) && line.ends_with("]}")).count(), 60);
    is_equal(&server).await;
    let desk = Desk::new();
    desk.does(&server.setup, &server.data_dir(), &["export"], "all.gsb").await;
    desk.does(&Setup::offline(), &desk.data(), &["import"], "all.gsb").await;
    let offline = desk.serve_copy(Setup::offline()).await;
    assert_eq!(offline.status().await["details"]["mirrored"], 60);
    serves_arrays(&offline, &origin).await;
}

#[tokio::test]
async fn a_detail_that_is_an_array_is_read_through_by_a_mirror_and_by_a_shield() {
    let origin = tampered(&[], Tamper::InArray).await;
    let mirror = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    mirror.ready().await;
    let shield = Setup::shield_of(&origin).start().await;
    serves_arrays(&mirror, &origin).await;
    serves_arrays(&shield, &origin).await;
}

/// It says that there is no such row, and nothing of the listing.
#[tokio::test]
async fn an_empty_array_and_a_bare_value_are_no_detail() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    let ids = origin.world(World::ids);
    for (id, body) in ids.into_iter().zip(["[]", " [ \n] ", "7", "null", "\"a\""]) {
        origin.set(|switches| switches.faults = vec![FaultRule::always("/api/listings/", Fault::Body(body.into()))]);
        server.get(&detail(id)).await.assert_problem(502, &[]);
        let told = server.status().await["last_error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.contains("not an object or a filled array"), "{body}: {told}");
        origin.set(|switches| switches.faults.clear());
        wait_until("the right one is read", || async { server.get(&detail(id)).await.status == 200 }).await;
    }
}

#[tokio::test]
async fn a_byte_order_mark_before_any_document_is_skipped_and_not_kept() {
    let origin = tampered(&[LIST, "/api/sports", "/api/states", "/api/cities"], Tamper::Bom).await;
    let mirror = Setup::mirror_of(&origin).start().await;
    mirror.settled(&origin).await;
    let shield = Setup::shield_of(&origin).start().await;
    let id = origin.world(World::ids)[0];
    for server in [&mirror, &shield] {
        assert_eq!(server.ok(LIST).await.total(), 60);
        for target in [detail(id), "/api/sports.json".to_owned()] {
            let reply = server.ok(&target).await;
            assert!(reply.text().starts_with(['{', '[']), "{target}: {:?}", &reply.text()[..8]);
        }
        assert_eq!(server.ok(&detail(id)).await.text(), origin.expected_text(&detail(id)).1);
    }
    is_equal(&mirror).await;
}

#[tokio::test]
async fn a_body_without_a_byte_is_told_as_such_whatever_its_coding_and_other_paths_keep_their_mark() {
    let origin = Upstream::start(|seen| {
        let body = if seen.target == "/api/new.json" { MARKED } else { "" };
        let script = Script::new(200, body).with("content-type", "application/json");
        let gzip = seen.target.contains("sports");
        if gzip { script.with("content-encoding", "gzip") } else { script }
    })
    .await;
    let shield = Setup::shield_of_url(&origin.url()).start().await;
    for target in [LIST, "/api/sports.json", "/api/listings/1.json"] {
        shield.get(target).await.assert_problem(502, &[]);
        let told = shield.status().await["last_error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.ends_with(": the body is empty") && told.contains(target), "{told}");
    }
    assert_eq!(shield.ok("/api/new.json").await.text(), MARKED);
    let mirror = Setup::shield_of_url(&origin.url()).set("mirror.enabled", "true").start().await;
    wait_until("the mirror says why it is not ready", || async {
        let ready = mirror.admin(Method::GET, "/readyz").await;
        let why = ready.text().to_owned();
        assert!(ready.status == 503 && !why.contains("0 of 0"), "{why}");
        let reasons = mirror.status().await["reasons"].to_string();
        why.contains("the body is empty") && reasons.contains("the body is empty")
    })
    .await;
}
