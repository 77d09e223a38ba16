//! Crashes: a process killed at any instant loses nothing that was committed.

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

fn spawn(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "data::store::tests::crash::child", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_writer_leaves_what_it_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut least = 0;
    for round in 0..6_u64 {
        let mut child = spawn(dir.path());
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
