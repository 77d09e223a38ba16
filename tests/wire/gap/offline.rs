//! A replica opens no connection, whatever the request: its system calls are read.

use std::fs;
use std::path::Path;

use sample_origin::{Switches, World};

use super::{Desk, LIST, mirrored};
use crate::harness::{Server, Setup};

/// The server under `strace`, which goes aside: the process stays the one that was started.
fn traced(setup: Setup, trace: &Path) -> Setup {
    setup.under(&["strace", "-D", "-f", "-e", "trace=network", "-o", trace.to_str().unwrap()])
}

/// The calls that begin a connection, or send something to an address.
fn outgoing(trace: &Path) -> Vec<String> {
    let text = fs::read_to_string(trace).unwrap();
    assert!(text.contains("bind(") && text.contains("listen(") && text.contains("accept"), "a trace: {text}");
    let goes_out = |line: &&str| {
        line.contains("connect(")
            || (line.contains("send") && (line.contains("sa_family") || line.contains("sin_addr")))
    };
    text.lines().filter(goes_out).map(str::to_owned).collect()
}

async fn ask_for_all_kinds(server: &Server, ids: &[u64], snapshot: &str) {
    let last = ids.iter().max().unwrap() + 1;
    for target in [
        LIST.to_owned(),
        format!("{LIST}?sport=baseball&state=texas&modified_since=2025-01-01"),
        format!("{LIST}?city=texarkana"),
        format!("{LIST}?city=unknown-city"),
        format!("{LIST}?snapshot={snapshot}&page=2"),
        format!("{LIST}?snapshot=00000000000000000000000000000000"),
        format!("{LIST}?page=0"),
        "/api/cities.json".into(),
        format!("/api/sports.json?snapshot={snapshot}"),
        format!("/api/listings/{}.json", ids[3]),
        format!("/api/listings/{}.json", ids[40]),
        format!("/api/listings/{last}.json"),
        "/api/unknown.json".into(),
        "/api/v2/anything?at=all".into(),
        "/elsewhere".into(),
        format!("/changes.json?since={snapshot}"),
    ] {
        let reply = server.get(&target).await;
        assert!(reply.status < 500 || target.ends_with(&format!("{}.json", ids[40])), "{target}: {reply:?}");
        server.head(&target).await;
        server.send(http::Method::POST, &target, &[("content-length", "0")]).await;
    }
    for target in ["/status", "/readyz", "/livez", "/metrics", "/snapshots", "/"] {
        server.admin(http::Method::GET, target).await;
    }
    for target in ["/refresh", "/sync", "/audit"] {
        server.admin(http::Method::POST, target).await;
    }
}

#[tokio::test]
async fn a_replica_opens_no_connection() {
    let (origin, mirror) = mirrored(60, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "all.gsb").await;
    let (ids, snapshot) = (origin.world(World::ids), mirror.snapshot().await);
    drop(mirror);
    origin.clear_log();

    let (first, second) = (desk.path("first.trace"), desk.path("second.trace"));
    desk.does(&Setup::offline(), &desk.data(), &["import"], "all.gsb").await;
    let mut server = desk.serve_copy(traced(Setup::offline(), &first)).await;
    server.ready().await;
    ask_for_all_kinds(&server, &ids, &snapshot).await;
    desk.does(&Setup::offline(), &server.data_dir(), &["import"], "all.gsb").await;
    desk.does(&Setup::offline(), &server.data_dir(), &["export"], "again.gsb").await;
    server.setup = traced(Setup::offline(), &second);
    server.restart().await;
    server.ready().await;
    ask_for_all_kinds(&server, &ids, &snapshot).await;
    server.process.signal("TERM");
    server.process.exit().await;
    for trace in [&first, &second] {
        assert_eq!(outgoing(trace), Vec::<String>::new(), "{}", trace.display());
    }
    assert_eq!(origin.count(), 0);

    // The trace of whoever does connect shows it.
    let third = desk.path("third.trace");
    let mirror = traced(Setup::mirror_of(&origin), &third).start().await;
    mirror.ready().await;
    let port = format!("htons({})", origin.addr().port());
    assert!(outgoing(&third).iter().any(|line| line.contains("connect(") && line.contains(&port)));
}
