//! `grandstand sync`, alone and through a running server: it succeeds only with a copy that is complete and proven.

use std::time::Duration;

use sample_origin::{Cdn, FaultRule, Switches};

use crate::harness::{Process, Script, Setup, Upstream, origin, origin_with, run, status_in, wait_until};
use crate::origin_faults::Fault;

#[tokio::test]
async fn sync_ends_with_0_at_full_coverage() {
    let origin = origin(60).await;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let setup = Setup::mirror_of(&origin);
    let (code, said) = run(&setup.arguments(&["sync"], &data)).await;
    assert_eq!(code, 0, "{said}");
    let details = origin.log().iter().filter(|seen| seen.path_and_query.contains("/listings/")).count();
    assert_eq!(details, 60);
    assert!(origin.count() <= 2 + 9 + 60, "{:?}", origin.log());
    origin.shutdown().await;
    // Beside a server it says the same.
    let setup = setup.set("origin.timeout", "500ms");
    for is_beside in [false, true] {
        let server = if is_beside { Some(setup.spawn(&data)) } else { None };
        if server.is_some() {
            wait_until("the server is up", || async { status_in(&data).await.is_some() }).await;
        }
        let (code, said) = run(&setup.arguments(&["sync"], &data)).await;
        assert_eq!(code, 1, "an origin that cannot be asked: {said}");
        assert!(said.contains("the mirror is incomplete (") && !said.contains(['{', '}']), "{said}");
        let last = said.lines().find(|line| line.starts_with("grandstand: ")).unwrap_or_default();
        assert_eq!(last.matches(&format!("{}/api/", origin.url())).count(), 1, "the URL that was asked: {said}");
        assert!(last.contains("; check that the origin works and that origin.url is its address; then run "), "{said}");
        assert_eq!(said.matches("the origin fails: ").count(), 1, "{said}");
        assert!(!said.contains("client") && !said.contains("complete: ") && !said.contains(" WARN "), "{said}");
    }
}

/// Without `--wait` eight failures in a row are enough.
#[tokio::test]
async fn sync_with_wait_outlasts_an_origin_that_fails() {
    let faults = vec![FaultRule::always("/api/listings/", Fault::Status(500))];
    let origin = origin_with(20, Switches { faults, ..Switches::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let arguments = Setup::mirror_of(&origin).arguments(&["sync", "--wait"], &dir.path().join("data"));
    let mut sync = Process::spawn(&arguments);
    wait_until("more than eight requests failed", || async {
        origin.log().iter().filter(|seen| seen.path_and_query.contains("/listings/")).count() > 9
    })
    .await;
    assert_eq!(sync.ended(), None, "{}", sync.said());
    origin.set(|switches| switches.faults.clear());
    let (code, said) = sync.end().await;
    assert!(code == 0 && said.contains("complete: 20 listings with details"), "{code}: {said}");
}

#[tokio::test]
async fn a_pause_that_the_origin_asks_for_is_shown_as_one() {
    let origin = Upstream::start(|_| Script::new(429, "").with("retry-after", "40")).await;
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::shield_of_url(&origin.url()).without("mirror.enabled");
    let sync = Process::spawn(&setup.arguments(&["sync"], &dir.path().join("data")));
    wait_until("it is told", || async {
        sync.said().contains("pages: not known yet, the origin asked for a pause of ")
    })
    .await;
    assert!(!sync.said().contains("0 of 0"), "{}", sync.said());
}

#[tokio::test]
async fn without_an_origin_there_is_nothing_to_sync() {
    let (origin, dir) = (origin(1).await, tempfile::tempdir().unwrap());
    for (setup, key) in [(Setup::offline(), "origin.url: "), (Setup::shield_of(&origin), "mirror.enabled: ")] {
        let (code, said) = run(&setup.arguments(&["sync"], &dir.path().join("data"))).await;
        assert!(code == 64 && said.contains(key), "{code} {said}");
    }
    assert!(!dir.path().join("data").exists() && origin.count() == 0, "nothing is touched or asked");
    // A server of another use says the same.
    for setup in [Setup::offline(), Setup::shield_of(&origin)] {
        let server = setup.start().await;
        let admin = server.admin.to_string();
        for command in ["sync", "audit"] {
            let (code, said) = run(&[command, "--admin", &admin].map(str::to_owned)).await;
            assert_eq!(code, 64, "{command}: {said}");
        }
    }
}

#[tokio::test]
async fn sync_beside_a_server_that_fetches_details_on_demand_waits_for_none() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    assert_eq!(server.status().await["details"]["wanted"], "on-demand");
    let (code, said) = run(&server.setup.arguments(&["sync"], &server.data_dir())).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("complete: 60 listings; details are fetched on demand, 0 of 60 are stored"), "{said}");
}

/// The origin's CDN sends the same copies for an hour, longer than `origin.cache_ttl`. So no pass can prove that all
/// pages are of one instant.
#[tokio::test]
async fn sync_says_the_same_of_an_unproven_copy_with_a_server_and_without() {
    let cdn = Some(Cdn { max_age: Duration::from_secs(3600), nodes: 1 });
    let origin = origin_with(60, Switches { cdn, ..Switches::default() }).await;
    let mut server = Setup::mirror_of(&origin).alone().set("ttl", "3s").start().await;
    server.ready().await;
    let passes = async || server.status().await["origin"]["passes"].as_u64().unwrap();
    wait_until("three tries gave no proof, and all details are here", || async {
        let status = server.status().await;
        passes().await > 0 && status["details"]["current"] == 60
    })
    .await;
    let arguments = server.setup.arguments(&["sync"], &server.data_dir());
    let sync = Process::spawn(&arguments);
    wait_until("it uses the server", || async { sync.said().contains("makes the copy") }).await;
    let before = passes().await;
    wait_until("the pass that it asked for has ended", || async { passes().await >= before + 2 }).await;
    origin.shutdown().await;
    // Each further try begins with `provisional`.
    let is_said = |said: &str| {
        ["best-effort", "provisional"].iter().any(|certificate| {
            said.contains(&format!(
                "grandstand: the mirror is incomplete (60 of 60 details, certificate {certificate}); check that the \
                 origin works and that origin.url is its address; then run `grandstand sync` again to continue; last \
                 error: "
            ))
        })
    };
    let (code, said) = sync.end().await;
    assert!(code == 1 && is_said(&said) && !said.contains("complete: 60 listings"), "{code}: {said}");
    server.down().await;
    let (code, said) = run(&arguments).await;
    assert!(code == 1 && is_said(&said), "{code}: {said}");
}

#[tokio::test]
async fn sync_says_what_is_held_back() {
    let origin = origin(60).await;
    let dir = tempfile::tempdir().unwrap();
    let arguments = Setup::mirror_of(&origin).arguments(&["sync"], &dir.path().join("data"));
    let (code, said) = run(&arguments).await;
    assert!(code == 0 && !said.contains("held back"), "{code}: {said}");
    origin.edit(|world| {
        for id in world.ids().into_iter().take(40) {
            assert!(world.remove(id));
        }
    });
    let (code, said) = run(&arguments).await;
    assert!(code == 0 && said.contains("warning: a snapshot is held back: "), "{code}: {said}");
}
