//! The log of a process: a reader that is stuck, and the signals that are about logs.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;

use crate::harness::{Server, Setup, wait_until};

/// A server whose standard error is a pipe, and the pipe, which nobody reads. So much was logged that lines were dropped.
async fn stuck(dir: &Path) -> (Server, File) {
    let pipe = dir.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Reading and writing: opening it does not wait for another end.
    let held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let to_pipe = format!(r#"exec "$0" "$@" 2> {}"#, pipe.display());
    let server = Setup::offline().under(&["bash", "-c", &to_pipe]).set("log.level", "debug").start().await;
    wait_until("the pipe and the queue are full", || async {
        let asked = (0..200).map(|_| server.get("/nothing"));
        for reply in futures_util::future::join_all(asked).await {
            assert_eq!(reply.status, 404);
        }
        let scrape = server.admin(Method::GET, "/metrics").await;
        scrape
            .text()
            .lines()
            .any(|line| line.strip_prefix("grandstand_log_dropped_total ").is_some_and(|count| count != "0"))
    })
    .await;
    (server, held)
}

#[tokio::test]
async fn a_reader_of_the_log_that_is_stuck_costs_lines_and_neither_answers_nor_the_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, _held) = stuck(dir.path()).await;
    assert_eq!(server.get("/livez").await.status, 200);
    server.process.signal("TERM");
    assert_eq!(server.process.exit().await, 0);
}

#[tokio::test]
async fn a_reader_that_comes_back_hears_what_it_missed_and_the_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, mut held) = stuck(dir.path()).await;
    let said = Arc::<Mutex<String>>::default();
    let heard = said.clone();
    // It ends with the test process.
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = held.read(&mut buffer) {
            heard.lock().push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    });
    wait_until("it is told", || async { said.lock().contains("lines of the log were dropped") }).await;
    server.process.signal("TERM");
    assert_eq!(server.process.exit().await, 0);
    wait_until("the last line is there", || async { said.lock().contains("grandstand::server: stopped\n") }).await;
}

#[tokio::test]
async fn sigusr1_opens_log_files_again_sigusr2_is_ignored_and_sigquit_drains() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let setup = Setup::offline().alone().set("log.access", "true").set("log.access_file", path.to_str().unwrap());
    let server = setup.start().await;
    std::fs::rename(&path, &old).unwrap();
    server.process.signal("USR1");
    wait_until("a new file is begun", || async { path.exists() }).await;
    server.process.signal("USR2");
    wait_until("it is told", || async { server.process.said().contains("SIGUSR2 is ignored") }).await;
    server.process.signal("QUIT");
    let (code, said) = server.process.end().await;
    assert!(code == 0 && said.contains("requests in flight are finished") && !said.contains("reloaded"), "{said}");
}
