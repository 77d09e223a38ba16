//! Live keys that act on running parts: the access log, the bounds of `[limits]`.

use std::fs;

use http::Method;
use tokio::net::TcpStream;

use super::{Configured, OPEN, ask};
use crate::harness::{Setup, wait_until};

/// The lines of a file, which need not exist.
fn lines(path: &std::path::Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn the_access_log_is_turned_on_moved_turned_off_and_opened_again() {
    let started = Configured::start(Setup::offline(), OPEN).await;
    let server = &started.server;
    let file = |name: &str| started.dir.path().join(name);
    let log = |path: &std::path::Path| format!("{OPEN}log = {{ access = true, access_file = {path:?} }}\n");
    assert_eq!(ask(server, &[]).await.status, 404);

    let report = started.reload(&log(&file("first"))).await;
    assert_eq!(report["applied"], serde_json::json!(["log.access", "log.access_file"]));
    ask(server, &[]).await;
    wait_until("the request is logged", || async { lines(&file("first")) == 1 }).await;

    started.reload(&log(&file("second"))).await;
    ask(server, &[]).await;
    wait_until("the next one is logged in the other file", || async { lines(&file("second")) == 1 }).await;

    // A file that cannot be opened is a mistake like any other: nothing changes.
    started.write(&format!("{}ttl = \"9s\"\n", log(std::path::Path::new("/nowhere/access.log"))));
    let refused = server.admin(Method::POST, "/reload").await;
    let errors = refused.json()["errors"].to_string();
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(errors.contains("log.access_file /nowhere/access.log cannot be opened"), "{errors}");
    assert_eq!(server.status().await["reload"]["applied"], serde_json::json!([]));
    ask(server, &[]).await;
    wait_until("requests are logged as before", || async { lines(&file("second")) == 2 }).await;
    let report = started.reload(&format!("{}ttl = \"9s\"\n", log(&file("second")))).await;
    assert_eq!(report["applied"], serde_json::json!(["ttl"]));

    started.reload(OPEN).await;
    ask(server, &[]).await;
    started.reload(&log(&file("third"))).await;
    ask(server, &[]).await;
    wait_until("it is on again", || async { lines(&file("third")) == 1 }).await;
    assert_eq!((lines(&file("first")), lines(&file("second"))), (1, 2), "the request in between was not logged");

    // A configuration with mistakes opens it again, too.
    fs::rename(file("third"), file("third.1")).unwrap();
    assert_eq!(started.hang_up("ttl = \"soon\"\n").await["ok"], false);
    ask(server, &[]).await;
    wait_until("the request is logged in the new file", || async { lines(&file("third")) == 1 }).await;
    assert_eq!(lines(&file("third.1")), 1);
}

#[tokio::test]
async fn a_lower_number_of_connections_closes_the_longest_idle_ones() {
    let started = Configured::start(Setup::offline(), OPEN).await;
    let server = &started.server;
    let counted = async |line: &str| {
        let metrics = server.admin(Method::GET, "/metrics").await;
        metrics.text().lines().any(|counted| counted == line)
    };
    let mut idle = Vec::new();
    for count in 1..=4 {
        idle.push(TcpStream::connect(server.public).await.unwrap());
        let line = format!("grandstand_connections {count}");
        wait_until(&line, || counted(&line)).await;
    }
    started.reload(&format!("{OPEN}limits.connections = 2\n")).await;
    wait_until("two are left", || counted("grandstand_connections 2")).await;
    let has_ended = |stream: &TcpStream| !matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    wait_until("the first two are closed", || async { idle[..2].iter().all(has_ended) }).await;
    assert!(!idle[2..].iter().any(has_ended), "the last two stay");
    assert!(counted("grandstand_connections_evicted_total 2").await);
}
