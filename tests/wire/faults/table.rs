//! Applies a fault to a running mirror and removes it; what must hold meanwhile. Callers: the tables.

use sample_origin::{FaultRule, Origin, World};
use serde_json::Value;

use crate::client::Reply;
use crate::compare::{detail_is_the_origins, list_is_the_origins};
use crate::harness::{Server, Setup, each, origin, wait_until};
use crate::origin_faults::Fault;

pub const LIST: &str = "/api/listings.json";
/// `origin.max_body` of the servers here.
const MAX_BODY: &str = "1MiB";
/// How much the peak of memory may grow while faults last, in KiB: some answers of `MAX_BODY` at once, decoded and not,
/// and the allocator's reserve.
const GROWTH_KIB: u64 = 64 * 1024;

/// Whether `/status` shows a fault while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// In the origin's state, or as held back, with the last error.
    Yes,
    /// Nothing can be shown: the answers look like those of an old copy, or of an unchanged origin.
    No,
}

/// A mirror that refreshes all the time and does not wait long for an answer.
pub fn restless(origin: &Origin) -> Setup {
    Setup::mirror_of(origin).alone().set("ttl", "1s").set("origin.timeout", "1s").set("origin.max_body", MAX_BODY)
}

pub async fn complete(server: &Server) {
    wait_until("everything is mirrored and certified", || async {
        let status = server.status().await;
        matches!(status["snapshot"]["certificate"].as_str(), Some("full" | "incremental"))
            && status["details"]["mirrored"] == status["details"]["of"]
    })
    .await;
}

/// Whether the status reports a problem with the origin.
pub fn tells(status: &Value) -> bool {
    let state = &status["origin"]["state"];
    let bad = state == "nonsense" || state == "could-not-be-asked";
    (bad && !status["last_error"].is_null()) || !status["held"].is_null()
}

/// The most memory that the process ever had, in KiB.
pub fn peak_kib(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// How many mirrors share the faults of a table.
const MIRRORS: usize = 4;

/// Applies each fault to a running mirror, for requests that start so, and removes it. While it lasts, published data
/// is served, nothing else is published, memory stays bounded and `/status` tells; a change made meanwhile shows when
/// it ends.
pub async fn harm_nobody(prefix: &str, told: Told, faults: Vec<Fault>) {
    let mut shares = vec![Vec::new(); MIRRORS.min(faults.len())];
    let many = shares.len();
    for (number, fault) in faults.into_iter().enumerate() {
        shares[number % many].push(fault);
    }
    each(shares, async |faults| harm_nobody_in_turn(prefix, told, faults).await).await;
}

async fn harm_nobody_in_turn(prefix: &str, told: Told, faults: Vec<Fault>) {
    let origin = origin(130).await;
    let server = restless(&origin).start().await;
    complete(&server).await;
    let ids = origin.world(World::ids);
    let detail = format!("/api/listings/{}.json", ids[3]);
    let targets = [LIST, "/api/listings.json?page=3", "/api/listings.json?sport=baseball", "/api/cities.json", &detail];
    let peak = peak_kib(&server);
    for fault in faults {
        eprintln!("{fault:?}");
        let snapshot = server.snapshot().await;
        let mut good: Vec<Reply> = Vec::new();
        for target in targets {
            good.push(server.ok(target).await);
        }
        origin.set(|switches| switches.faults = vec![FaultRule::always(prefix, fault.clone())]);
        origin.clear_log();
        // From here on the fault affects every request on its way.
        wait_until("a request has met the fault", || async { met(&origin, prefix) > 0 }).await;
        origin.edit(|world| assert!(world.touch(ids[3])));
        wait_until("several requests have met the fault and are told of", || async {
            for (target, good) in targets.iter().zip(&good) {
                let reply = server.ok(target).await;
                assert_eq!(reply.etag(), good.etag(), "{target} changed under {fault:?}");
            }
            met(&origin, prefix) >= 4 && (told == Told::No || tells(&server.status().await))
        })
        .await;
        assert_eq!(server.snapshot().await, snapshot, "{fault:?}");
        let grown = peak_kib(&server).saturating_sub(peak);
        assert!(grown < GROWTH_KIB, "{fault:?}: the peak of memory has grown by {grown} KiB");
        origin.set(|switches| switches.faults.clear());
        recovers(&server, &origin, ids[3], &snapshot).await;
    }
}

/// How many requests that start so have arrived.
fn met(origin: &Origin, prefix: &str) -> usize {
    origin.log().iter().filter(|seen| seen.path_and_query.starts_with(prefix)).count()
}

async fn recovers(server: &Server, origin: &Origin, id: u64, snapshot: &str) {
    wait_until("the change shows", || async { server.snapshot().await != snapshot }).await;
    list_is_the_origins(server, origin, LIST).await;
    let target = format!("/api/listings/{id}.json");
    let expected = origin.expected_text(&target).1;
    wait_until("the changed detail shows", || async { server.ok(&target).await.text() == expected }).await;
    wait_until("it is healthy", || async { server.admin(http::Method::GET, "/status").await.status == 200 }).await;
    complete(server).await;
}

/// Starts a mirror for each fault with the fault in place: nothing is published while it lasts, `/status` tells, and
/// the crawl completes when it ends.
pub async fn delay_the_first_crawl(prefix: &str, faults: Vec<Fault>) {
    each(faults, async |fault| {
        let origin = origin(130).await;
        origin.set(|switches| switches.faults = vec![FaultRule::always(prefix, fault.clone())]);
        let server = restless(&origin).start().await;
        let start = peak_kib(&server);
        wait_until("several requests have met the fault and are told of", || async {
            met(&origin, prefix) >= 3 && tells(&server.status().await)
        })
        .await;
        assert_eq!(server.snapshot().await, "", "{fault:?}: nothing can be published");
        assert_eq!(server.admin(http::Method::GET, "/readyz").await.status, 503, "{fault:?}");
        let grown = peak_kib(&server).saturating_sub(start);
        assert!(grown < GROWTH_KIB, "{fault:?}: the peak of memory has grown by {grown} KiB");
        origin.set(|switches| switches.faults.clear());
        complete(&server).await;
        everything_is_the_origins(&server, &origin).await;
    })
    .await;
}

pub async fn everything_is_the_origins(server: &Server, origin: &Origin) {
    for page in 1..=3 {
        list_is_the_origins(server, origin, &format!("{LIST}?page={page}")).await;
    }
    for id in origin.world(World::ids).into_iter().step_by(17) {
        detail_is_the_origins(server, origin, id).await;
    }
}
