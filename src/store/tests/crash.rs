//! A process killed at any instant loses nothing that was committed.

use super::*;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DIR: &str = "GRANDSTAND_CRASH_TEST_DIR";

/// The content of the `n`th publication.
fn nth(n: u64) -> Content {
    let mut content = content(2000);
    for summary_of in 0..=n {
        let at = (summary_of * 37 % 2000) as usize;
        content.summaries[at] = summary(content.summaries[at].id.0, &format!("changed {summary_of}"));
    }
    content
}

/// What the child does until it is killed: publish, keep details, collect; and tell what is committed.
#[test]
#[ignore = "the child process of the test below"]
fn child() {
    let dir = std::env::var_os(DIR).unwrap();
    let store = open(dir.as_ref()).unwrap();
    let start = store.current().unwrap().map_or(0, |(_, meta)| meta.published_ms as u64);
    for n in start.. {
        store.publish(&nth(n), &meta(i64::try_from(n).unwrap())).unwrap();
        let details: Vec<_> = (0..20).map(|d| (ListingId(n * 20 + d), detail(&format!("{n}").repeat(300)))).collect();
        store.put_details(&details).unwrap();
        writeln!(std::io::stderr(), "committed {n}").unwrap();
        let newest = store.current().unwrap().unwrap().0.seq;
        store.collect_garbage(&[newest.saturating_sub(1)]).unwrap();
    }
}

fn spawn(name: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("store::tests::crash::{name}"), "--ignored", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the child process of a test"]
fn migrating_child() {
    let store = open(std::env::var_os(DIR).unwrap().as_ref()).unwrap();
    assert_eq!(store.handle.read(opening::format_of).unwrap(), FORMAT);
}

#[test]
fn a_killed_migration_begins_again_and_loses_nothing() {
    let mut store = Temp::new();
    let record = store.publish(&nth(3), &meta(3)).unwrap();
    let details: Vec<_> =
        (0..4000_u64).map(|n| (ListingId(n * 7919 % 100_003), detail(&format!("detail {n}")))).collect();
    store.put_details(&details).unwrap();
    formats::to_format_1(&store);
    let path = store.path().to_owned();
    drop(store.store.take());
    let (old, mut killed, mut pause) = (std::fs::read(&path).unwrap(), 0, 500);
    loop {
        std::fs::write(&path, &old).unwrap();
        let (mut child, began) = (spawn("migrating_child", store.dir.path()), std::time::Instant::now());
        while began.elapsed().as_micros() < pause && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        let is_done = child.wait().unwrap().success();
        let store = open(store.dir.path()).unwrap();
        assert_eq!(store.handle.read(opening::format_of).unwrap(), FORMAT);
        for (id, detail) in &details {
            assert_eq!(store.detail(*id).unwrap().as_ref(), Some(detail), "killed after {pause} us");
        }
        assert!(store.load(&record).unwrap() == nth(3));
        if is_done {
            break;
        }
        (killed, pause) = (killed + 1, pause * 3 / 2);
    }
    assert!(killed > 5, "{killed}");
}

#[test]
fn a_killed_writer_leaves_what_it_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut least = 0;
    for round in 0..6_u64 {
        let mut child = spawn("child", dir.path());
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut committed =
            lines.filter_map(|line| line.unwrap().strip_prefix("committed ").and_then(|n| n.parse::<u64>().ok()));
        for _ in 0..=round % 3 {
            least = committed.next().expect("the child commits");
        }
        // The next writes are under way; each round is hit at another instant.
        let spin = std::time::Instant::now();
        while spin.elapsed().as_micros() < u128::from(round * 2711 % 9000) {}
        child.kill().unwrap();
        child.wait().unwrap();
        least = committed.last().unwrap_or(least);

        let store = open(dir.path()).unwrap();
        let (record, meta) = store.current().unwrap().unwrap();
        let n = meta.published_ms as u64;
        assert!(n >= least, "{n} < {least}");
        assert!(store.load(&record).unwrap() == nth(n));
        for id in 0..(least + 1) * 20 {
            assert!(store.detail(ListingId(id)).unwrap().is_some(), "detail {id} of {least}");
        }
    }
}
