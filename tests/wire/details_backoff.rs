//! Details that the origin does not give: they are asked for ever more seldom, and the operator is told.

use std::time::Duration;

use tokio::time::Instant;

use sample_origin::{FaultRule, Origin, World};

use crate::harness::virtually::origin;
use crate::harness::{Server, Setup, wait_until};
use crate::origin_faults::Fault;

const DETAILS: &str = "/api/listings/";

/// When requests for details arrived.
fn arrivals(origin: &Origin) -> Vec<Instant> {
    let log = origin.log();
    log.iter().filter(|seen| seen.path_and_query.starts_with(DETAILS)).map(|seen| seen.at.into()).collect()
}

async fn findings(server: &Server) -> Vec<String> {
    let status = server.status().await;
    let findings = status["findings"].as_array().unwrap_or_else(|| panic!("{status:#}"));
    findings.iter().map(|finding| finding["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn while_all_details_fail_they_are_asked_for_ever_more_seldom_and_that_is_told() {
    // One after the other: in memory, servers of one test share its log.
    for fault in [Fault::HtmlWith200, Fault::Body("[]".into()), Fault::Status(403), Fault::Status(500)] {
        let origin = origin(60).await;
        origin.set(|switches| switches.faults = vec![FaultRule::always(DETAILS, fault.clone())]);
        let server = Setup::mirror_of(&origin).start().await;
        server.ready().await;
        // At first some at once; when 8 have failed, one after each pause: 1, 2, 4 s and so on, with jitter.
        let pauses = |arrived: &[Instant]| {
            let gaps = arrived.windows(2).map(|two| two[1].saturating_duration_since(two[0]));
            gaps.filter(|gap| *gap >= Duration::from_millis(450)).count()
        };
        wait_until("it has tried again some times", || async { pauses(&arrivals(&origin)) >= 5 }).await;
        let sent = arrivals(&origin).len();
        assert!(sent <= 24, "{sent} requests");
        let status = server.status().await;
        assert!(status["state"] == "healthy" && !status["last_error"].is_null(), "{status:#}");
        assert!(status["origin"]["eta_seconds"].is_null(), "{status:#}");
        let told = findings(&server).await;
        assert!(told.len() == 1 && told[0].contains("detail"), "{told:?}");
        let said = server.process.said();
        assert_eq!(said.matches("no details can be fetched").count(), 1, "{said}");
        origin.set(|switches| switches.faults.clear());
        wait_until("all details are here", || async { server.status().await["details"]["current"] == 60 }).await;
        server.refresh().await;
        server.settled(&origin).await;
        // It stays for a minute.
        tokio::time::sleep(Duration::from_secs(62)).await;
        assert_eq!(findings(&server).await, Vec::<String>::new());
        assert_eq!(server.status().await["origin"]["eta_seconds"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_few_details_that_fail_delay_no_others_and_are_told() {
    let origin = origin(60).await;
    let ids = origin.world(sample_origin::World::ids);
    // The detail of another listing is not theirs.
    let faults = [Fault::HtmlWith200, Fault::Redirect(path(ids[20]))];
    let rules = ids[..12].iter().zip(faults.iter().cycle());
    let rules: Vec<_> = rules.map(|(id, fault)| FaultRule::always(&path(*id), fault.clone())).collect();
    origin.set(|switches| switches.faults = rules);
    let server = Setup::mirror_of(&origin).start().await;
    wait_until("all others are here", || async { server.status().await["details"]["mirrored"] == 48 }).await;
    wait_until("it is told", || async { findings(&server).await.iter().any(|told| told.contains("detail")) }).await;
    let status = server.status().await;
    assert!(status["origin"]["eta_seconds"].is_null() && !status["last_error"].is_null(), "{status:#}");
    origin.set(|switches| switches.faults.clear());
    wait_until("the rest is here", || async { server.status().await["details"]["mirrored"] == 60 }).await;
    // It stays for a minute.
    tokio::time::sleep(Duration::from_secs(62)).await;
    assert_eq!(findings(&server).await, Vec::<String>::new());
}

fn path(id: u64) -> String {
    format!("{DETAILS}{id}.json")
}

#[tokio::test(start_paused = true)]
async fn some_details_that_fail_do_not_delay_the_examiner() {
    let origin = origin(230).await;
    let ids = origin.world(World::ids);
    let rules = ids.iter().step_by(12).map(|id| FaultRule::always(&path(*id), Fault::Status(500)));
    let rules: Vec<_> = rules.collect();
    origin.set(|switches| switches.faults = rules);
    let server = Setup::examining(&origin).start().await;
    server.ready().await;
    let ready = Instant::now();
    server.disproved().await;
    assert!(ready.elapsed() < Duration::from_secs(10), "{:?}", ready.elapsed());
    assert_eq!(server.status().await["confirmed"].as_array().unwrap().len(), 31);
    // Nor anybody else, while nothing but these details is asked for.
    for _ in 0..60 {
        let budget = server.status().await["origin"]["budget"].clone();
        assert_eq!(budget["paused_seconds"].as_u64().unwrap_or(0), 0, "{budget}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn details_that_come_as_old_copies_are_asked_for_ever_more_seldom() {
    const MINUTE: Duration = Duration::from_secs(60);
    let origin = origin(60).await;
    // What changes now is, by its clock, of a time to come.
    origin.set(|switches| switches.clock_ahead = -6 * 3600);
    let server = Setup::mirror_of(&origin).start().await;
    server.ready().await;
    server.settled(&origin).await;
    let id = origin.world(World::ids)[7];
    origin.edit(|world| world.touch(id));
    server.refresh().await;
    let of_it = || origin.log().iter().filter(|seen| seen.path_and_query == path(id)).count();
    let before = of_it();
    wait_until("the change is here", || async { of_it() > before }).await;
    let first = of_it();
    tokio::time::sleep(300 * MINUTE).await;
    // Each pause is twice the one before it.
    let asked = of_it() - first;
    assert!((5..=16).contains(&asked), "{asked} times");
    tokio::time::sleep(300 * MINUTE).await;
    assert_eq!(server.status().await["details"]["current"], 60);
}
