//! Commands' output: on a terminal, in a file, and to scripts.
//!
//! The terminal is that of `script`, which every Debian has. Other files test the server and its answers.

mod streams;

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use crate::harness::{PATIENCE, Process, Server, Setup, edit, mirrored, origin, run, wait_until};

/// Those about origins are in `faults::tls`.
#[tokio::test]
async fn the_first_mistakes_of_a_stranger_end_in_what_to_do() {
    let server = Setup::offline().start().await;
    let (data, public) = (server.data_dir(), server.public.to_string());
    let (none, empty) = (Path::new("/dev/null"), tempfile::tempdir().unwrap());
    let file = empty.path().join("notes.txt");
    std::fs::write(&file, "no bundle").unwrap();
    let file = file.to_str().unwrap();
    let nobody = Setup::offline();
    let taken = nobody.clone().set("listen", &format!("[\"{public}\"]"));
    for (setup, words, dir, code, todo) in [
        (
            nobody.clone(),
            &["check", "--set", "orgin.url=https://x.example"][..],
            empty.path(),
            64,
            "did you mean `origin`?",
        ),
        (nobody.clone(), &["check", "--set", "origin.timeout=5"], empty.path(), 64, "such as \"10s\""),
        (nobody.clone(), &["check", "--set", "origin.url"], empty.path(), 64, "such as ttl=5m"),
        (nobody.clone(), &["server"], empty.path(), 64, "a similar subcommand exists: 'serve'"),
        (nobody.clone(), &["serve"], none, 1, "data_dir: /dev/null cannot be used (not a directory); set a directory"),
        (taken, &["serve"], empty.path(), 1, "or set another address or port"),
        (nobody.clone(), &["serve"], &data, 1, "stop it, or set another data_dir"),
        (nobody.clone(), &["sync"], empty.path(), 64, "for example --set origin.url="),
        (nobody.clone(), &["bundle", "verify", file], empty.path(), 1, "`grandstand bundle export` writes bundles"),
        (nobody.clone(), &["purge", "api/sports.json"], &data, 64, "write /api/sports.json"),
        (nobody.set("admin.listen", "127.0.0.1:1"), &["status"], empty.path(), 1, "start `grandstand serve`, or give"),
    ] {
        let (ended, said) = run(&setup.arguments(words, dir)).await;
        assert!(ended == code && said.contains(todo), "{words:?}: {ended} {said}");
        assert!(!said.contains("client error") && said.lines().count() < 10, "{words:?}: {said}");
    }
}

/// A command on a terminal of its own, and its output.
struct OnTerminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn run(arguments: &[String], environment: &[(&str, &str)]) -> Self {
        let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
        let words: Vec<String> = arguments.iter().map(quoted).collect();
        let command = format!("exec '{}' {}", env!("CARGO_BIN_EXE_grandstand"), words.join(" "));
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut out, to) = (child.stdout.take().unwrap(), shown.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut piece) {
                to.lock().extend_from_slice(&piece[..read]);
            }
        });
        Self { child, shown }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock()).into_owned()
    }

    /// Presses Ctrl-C.
    fn interrupt(&mut self) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(b"\x03").unwrap();
        stdin.flush().unwrap();
    }

    /// Waits for the end: exit code and all output.
    async fn end(mut self) -> (i32, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // Its last output is on its way.
                let mut length = usize::MAX;
                while length != self.shown.lock().len() {
                    length = self.shown.lock().len();
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                return (status.code().unwrap_or(-1), self.shown());
            }
            assert!(start.elapsed() < PATIENCE, "no end: {}", self.shown());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It has ended in most cases.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments(server: &Server, words: &[&str]) -> Vec<String> {
    server.setup.arguments(words, &server.data_dir())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn colours_are_for_terminals_that_want_them() {
    let (_origin, server) = mirrored(20).await;
    for (words, coloured) in
        [(&["status"][..], "\x1b[1;32mgrandstand healthy"), (&["snapshot", "list"], "\x1b[1mSNAPSHOT")]
    {
        let words = arguments(&server, words);
        let (code, shown) = OnTerminal::run(&words, &[]).end().await;
        assert!(code == 0 && shown.contains(coloured), "{shown:?}");
        for plain in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
            let (code, shown) = OnTerminal::run(&words, &plain).end().await;
            assert!(
                code == 0 && !shown.contains('\x1b') && shown.contains(&coloured[coloured.find('m').unwrap() + 1..]),
                "{plain:?}: {shown:?}"
            );
        }
        let (code, said) = run(&words).await;
        assert!(code == 0 && !said.contains('\x1b'), "{said:?}");
    }
}

#[tokio::test]
async fn colours_of_the_log_and_bars_are_for_terminals_that_want_them() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!(r#"["{}"]"#, taken.local_addr().unwrap());
    let (dir, origin) = (tempfile::tempdir().unwrap(), origin(60).await);
    // It warns, and ends.
    let warns = Setup::offline().set("listen", &listen).set("public_url", "http://127.0.0.1:1");
    let warns = warns.arguments(&["serve"], &dir.path().join("none"));
    for (number, (variables, colours, bar)) in
        [(&[][..], true, true), (&[("NO_COLOR", "1")], false, true), (&[("TERM", "dumb")], false, false)]
            .into_iter()
            .enumerate()
    {
        let (_, said) = OnTerminal::run(&warns, variables).end().await;
        assert!(said.contains("WARN") && said.contains("cannot listen on"), "{said}");
        assert_eq!(said.contains("\u{1b}["), colours, "{variables:?}: {said}");
        let sync = Setup::mirror_of(&origin).arguments(&["sync"], &dir.path().join(number.to_string()));
        let (_, said) = OnTerminal::run(&sync, variables).end().await;
        assert!(said.contains("complete: 60 listings"), "{said}");
        let shown = (said.contains("\u{1b}["), said.contains("details: 60 of 60"));
        assert_eq!(shown, (bar, !bar), "{variables:?}: {said}");
    }
}

#[tokio::test]
async fn a_screen_is_drawn_again_and_ctrl_c_leaves_the_terminal_as_it_was() {
    let (origin, mut server) = mirrored(20).await;
    let words = arguments(&server, &["status", "--watch"]);
    let mut watching = OnTerminal::run(&words, &[]);
    let drawn = |shown: &str| shown.matches("\x1b[H").count();
    wait_until("it is drawn twice", || async { drawn(&watching.shown()) >= 2 }).await;
    let before = server.snapshot().await;
    let after = edit(&origin, &server, |world| assert!(world.touch(world.ids()[3]))).await;
    wait_until("the new snapshot shows", || async { watching.shown().contains(&after) }).await;
    watching.interrupt();
    let (code, shown) = watching.end().await;
    assert_eq!(code, 0, "healthy when it was seen last: {shown:?}");
    assert!(shown.contains(&before) && shown.contains("Ctrl-C"), "{shown:?}");
    let (open, close) = ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l");
    assert!(shown.starts_with(open), "{shown:?}");
    assert!(shown.trim_end().ends_with(close), "{shown:?}");

    // A server that goes away is reported; the exit code says so.
    let mut watching = OnTerminal::run(&words, &[]);
    wait_until("it is drawn", || async { drawn(&watching.shown()) >= 1 }).await;
    server.down().await;
    wait_until("it is told", || async { watching.shown().contains("unreachable") }).await;
    watching.interrupt();
    let (code, shown) = watching.end().await;
    assert!(code == 1 && shown.trim_end().ends_with(close), "{code}: {shown:?}");
}

#[tokio::test]
async fn elsewhere_a_line_is_written_for_each_change() {
    let (origin, server) = mirrored(20).await;
    let before = server.snapshot().await;
    let text = Process::spawn(&arguments(&server, &["status", "--watch"]));
    let objects = Process::spawn(&arguments(&server, &["status", "--watch", "--json"]));
    wait_until("both have begun", || async { [&text, &objects].iter().all(|one| one.said().contains(&before)) }).await;
    let after = edit(&origin, &server, |world| assert!(world.touch(world.ids()[3]))).await;
    wait_until("both tell of it", || async { [&text, &objects].iter().all(|one| one.said().contains(&after)) }).await;
    for (process, name) in [(text, "TERM"), (objects, "INT")] {
        process.signal(name);
        let (code, said) = process.end().await;
        assert_eq!(code, 0, "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
        // A refresh may show on its way. Nothing is said twice, although it was looked at often.
        let lines: Vec<&str> = said.lines().collect();
        assert!((2..=8).contains(&lines.len()), "{said}");
        if name == "INT" {
            assert!(lines.iter().all(|line| json(line)["state"].is_string()), "{said}");
        } else {
            let told: Vec<&str> = lines.iter().map(|line| line.split_once("  ").unwrap().1).collect();
            assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "{said}");
        }
    }
    let (code, said) = run(&["status", "--watch", "--admin", "127.0.0.1:1"].map(str::to_owned)).await;
    assert!(code == 1 && said.contains("127.0.0.1:1"), "{said}");
}

/// The object that a command writes, and nothing else, to its standard output.
async fn told(words: Vec<String>) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grandstand"));
    command.args(&words).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let (out, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{words:?}: {out}{said}");
    json(&out)
}

#[tokio::test]
async fn scripts_get_one_json_object() {
    let (origin, mut server) = mirrored(30).await;
    let older = server.snapshot().await;
    edit(&origin, &server, |world| assert!(world.touch(world.ids()[3]))).await;
    for is_running in [true, false] {
        if !is_running {
            server.down().await;
        }
        let told = async |words: &[&str]| told(arguments(&server, words)).await;
        let sync = told(&["sync", "--json"]).await;
        assert_eq!(
            (&sync["complete"], &sync["listings"], &sync["details"]["mirrored"]),
            (&true.into(), &30.into(), &30.into())
        );
        let audit = told(&["audit", "--samples", "5", "--json"]).await;
        assert_eq!((&audit["parity"], &audit["samples"], &audit["different"]), (&true.into(), &5.into(), &0.into()));
        let list = told(&["snapshot", "list", "--json"]).await;
        let id = list["snapshots"][0]["id"].as_str().unwrap().to_owned();
        let verified = told(&["snapshot", "verify", "--json"]).await;
        assert_eq!((&verified["intact"], &verified["snapshots"][0]["id"]), (&true.into(), &id.as_str().into()));
        for (word, key) in [("pin", "pinned"), ("unpin", "unpinned"), ("rollback", "served")] {
            let (code, said) = run(&arguments(&server, &["snapshot", word, &older, "--json"])).await;
            assert!(code == 0 && json(&said)[key] == older.as_str(), "{word}: {said}");
        }
        assert_eq!(told(&["snapshot", "release", "--json"]).await["served"], id.as_str());
        if is_running {
            assert_eq!(told(&["status", "--json"]).await["snapshot"]["id"], id.as_str());
        }
    }
}

#[tokio::test]
async fn an_audit_is_a_table_and_a_sync_tells_the_rest() {
    let (_origin, server) = mirrored(20).await;
    let (code, said) = run(&arguments(&server, &["audit", "--samples", "5"])).await;
    let row = |name: &str| said.lines().find(|line| line.starts_with(name)).map(|line| line.split_whitespace().last());
    assert_eq!((code, row("RESULT"), row("different ")), (0, Some(Some("SAMPLES")), Some(Some("0"))), "{said}");
    let slow = origin(300).await;
    slow.set(|switches| switches.latency = Duration::from_millis(200));
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = run(&Setup::mirror_of(&slow).arguments(&["sync"], &dir.path().join("data"))).await;
    assert!(code == 0 && said.contains(", about ") && said.contains(" s left"), "{said}");
}

#[tokio::test]
async fn a_bar_of_nothing_is_empty_and_what_is_told_stands_in_lines_of_its_own() {
    let origin = origin(20).await;
    origin.shutdown().await;
    let dir = tempfile::tempdir().unwrap();
    let words = Setup::mirror_of(&origin).arguments(&["sync"], &dir.path().join("data"));
    let mut sync = OnTerminal::run(&words, &[("NO_COLOR", "1")]);
    wait_until("it warns", || async { sync.shown().contains("the origin fails: ") }).await;
    wait_until("the bar is drawn again", || async {
        sync.shown().rsplit("the origin fails: ").next().unwrap().contains("not known yet")
    })
    .await;
    sync.interrupt();
    let shown = sync.shown();
    assert!(!shown.contains('█') && !shown.contains("0/0"), "{shown:?}");
    for line in shown.lines().filter(|line| line.contains("the origin fails: ")) {
        let line = line.rsplit("\x1b[2K").next().unwrap();
        assert!(!line.contains("not known yet"), "{shown:?}");
    }
}

#[tokio::test]
async fn bundles_tell_scripts_what_became_of_them() {
    let (_origin, server) = mirrored(20).await;
    let (id, files) = (server.snapshot().await, tempfile::tempdir().unwrap());
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (bundle, table) = (path("a.gsb"), path("a.csv"));
    let elsewhere = Setup::offline();
    let told = async |setup: &Setup, data: &std::path::Path, words: &[&str]| {
        told(setup.arguments(&[&["bundle"], words, &["--json"]].concat(), data)).await
    };
    let (here, there) = (server.data_dir(), files.path().join("there"));
    let exported = told(&server.setup, &here, &["export", &bundle]).await;
    assert_eq!((&exported["exported"], &exported["listings"]), (&true.into(), &20.into()));
    let dumped = told(&server.setup, &here, &["export", &table, "--format", "csv"]).await;
    assert_eq!(dumped["bytes"], std::fs::metadata(&table).unwrap().len());
    let verified = told(&elsewhere, &there, &["verify", &bundle]).await;
    assert_eq!((&verified["intact"], &verified["signature"]["state"]), (&true.into(), &"none".into()));
    let inspected = told(&elsewhere, &there, &["inspect", &bundle]).await;
    let imported = told(&elsewhere, &there, &["import", &bundle]).await;
    assert_eq!(
        (&imported["imported"], &imported["served"], &imported["before"]),
        (&true.into(), &true.into(), &Value::Null)
    );
    for snapshot in [&exported["snapshot"], &dumped["snapshot"], &verified["snapshot"], &imported["snapshot"]] {
        assert_eq!(snapshot, id.as_str());
    }
    assert_eq!(inspected["manifest"], verified["manifest"]);
}
