//! Standard output, standard error and standard input that are closed, full or a pipe.

use std::fs::File;
use std::process::{Command, Stdio};

use super::{arguments, json};
use crate::harness::{Setup, mirrored, wait_until};

/// A pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// Runs a command to its end: exit code, standard output and standard error, as far as they are not given.
async fn run_with(words: Vec<String>, [input, out, err]: [Stdio; 3]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grandstand"));
    command.args(words).stdin(input).stdout(out).stderr(err);
    let ended = tokio::task::spawn_blocking(move || command.spawn().unwrap().wait_with_output().unwrap());
    let output = ended.await.unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code().unwrap_or(-1), out, err)
}

#[tokio::test]
async fn a_closed_output_ends_a_command_quietly_and_a_full_one_with_a_line() {
    let (_origin, mut server) = mirrored(20).await;
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (bundle, table) = (path("a.gsb"), path("a.csv"));
    let (code, _, said) =
        run_with(arguments(&server, &["bundle", "export", &bundle]), [Stdio::null(), Stdio::null(), Stdio::piped()])
            .await;
    assert_eq!(code, 0, "{said}");
    let id = server.snapshot().await;
    for is_running in [true, false] {
        if !is_running {
            server.down().await;
        }
        let mut commands: Vec<Vec<&str>> = vec![
            vec!["check"],
            vec!["sync"],
            vec!["sync", "--json"],
            vec!["audit", "--samples", "2"],
            vec!["snapshot", "list"],
            vec!["snapshot", "list", "--json"],
            vec!["snapshot", "verify"],
            vec!["snapshot", "pin", &id],
            vec!["snapshot", "unpin", &id],
            vec!["bundle", "verify", &bundle],
            vec!["bundle", "inspect", &bundle],
            vec!["bundle", "export", &bundle],
            vec!["bundle", "export", &table, "--format", "csv"],
            vec!["bundle", "export", "-", "--format", "ndjson"],
        ];
        if is_running {
            commands.extend([vec!["status"], vec!["status", "--json"], vec!["status", "--watch"]]);
        } else {
            // A mirror that runs looks at its origin after each import, and then takes nothing older.
            commands.push(vec!["bundle", "import", &bundle]);
        }
        for words in &commands {
            // A dump that is cut is no success.
            let own = if words.contains(&"-") { 141 } else { 0 };
            let words = arguments(&server, words);
            let (code, _, said) = run_with(words.clone(), [Stdio::null(), closed(), Stdio::piped()]).await;
            assert!(
                code == own && !said.contains("grandstand: ") && !said.contains("panicked"),
                "{words:?}: {code} {said}"
            );
            let (code, _, said) = run_with(words.clone(), [Stdio::null(), full(), Stdio::piped()]).await;
            let told: Vec<&str> = said.lines().filter(|line| line.starts_with("grandstand: ")).collect();
            assert!(code == 1 && told.len() == 1 && !said.contains("panicked"), "{words:?}: {code} {said}");
            assert!(
                told[0].contains("standard output cannot be written: No space left on device"),
                "{words:?}: {said}"
            );
            if !words.contains(&"--watch".to_owned()) {
                let (code, ..) = run_with(words.clone(), [Stdio::null(), Stdio::null(), full()]).await;
                assert_eq!(code, 0, "nobody misses the lines on standard error: {words:?}");
            }
        }
    }
    for words in [&["--help"][..], &["--version"], &["help", "sync"], &["man"], &["completions", "bash"]] {
        for (out, own) in [(closed(), 0), (full(), 1)] {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            let (code, _, said) = run_with(words, [Stdio::null(), out, Stdio::piped()]).await;
            assert!(code == own && said.lines().count() == usize::from(own == 1), "{code} {said}");
        }
    }
    for (words, own) in [(&["serve", "--nothing"][..], 64), (&["check", "--set", "ttl=soon"], 64)] {
        for err in [closed(), full()] {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(run_with(words, [Stdio::null(), Stdio::null(), err]).await.0, own);
        }
    }
}

#[tokio::test]
async fn a_server_outlives_a_log_that_cannot_be_written() {
    let origin = crate::harness::origin(20).await;
    for format in ["text", "json"] {
        let setup =
            Setup::mirror_of(&origin).set("log.level", "debug").set("log.format", format).set("log.access", "true");
        let server = setup.under(&["bash", "-c", r#"exec "$0" "$@" 2> /dev/full"#]).start().await;
        server.settled(&origin).await;
        server.ok("/api/listings.json").await;
        server.process.signal("HUP");
        wait_until("it has reloaded", || async { server.status().await["reload"]["ok"] == true }).await;
        server.process.signal("TERM");
        let (code, said) = server.process.end().await;
        assert_eq!(code, 0, "{said}");
    }
}

#[tokio::test]
async fn a_bundle_is_read_from_standard_input() {
    let (_origin, server) = mirrored(20).await;
    let files = tempfile::tempdir().unwrap();
    let (bundle, there) = (files.path().join("a.gsb"), files.path().join("there"));
    let exported = arguments(&server, &["bundle", "export", bundle.to_str().unwrap()]);
    assert_eq!(run_with(exported, [Stdio::null(), Stdio::null(), Stdio::null()]).await.0, 0);
    let offline = Setup::offline();
    let given = async |setup: &Setup, words: &[&str], bytes: &[u8]| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let bytes = bytes.to_vec();
        // A command that has seen enough closes it.
        std::thread::spawn(move || drop(std::io::Write::write_all(&mut writer, &bytes)));
        run_with(setup.arguments(words, &there), [reader.into(), Stdio::piped(), Stdio::piped()]).await
    };
    let whole = std::fs::read(&bundle).unwrap();
    let (code, out, said) = given(&offline, &["bundle", "verify", "-"], &whole).await;
    assert!(code == 0 && out.starts_with("standard input: intact, snapshot "), "{out}{said}");
    let (code, out, said) = given(&offline, &["bundle", "inspect", "-", "--json"], &whole).await;
    assert!(code == 0 && json(&out)["manifest"]["listings"] == 20, "{out}{said}");
    for (setup, bytes, named) in [
        (&offline, &whole[..whole.len() / 2], "standard input"),
        (&offline, &[][..], "standard input"),
        (
            &offline
                .clone()
                .set("bundle.trusted_keys", r#"["RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"]"#),
            &whole,
            "has no signature",
        ),
    ] {
        for action in ["verify", "import"] {
            let (code, _, said) = given(setup, &["bundle", action, "-"], bytes).await;
            assert!(code == 1 && said.contains(named), "{action}: {code} {said}");
        }
    }
    assert!(!there.exists(), "nothing was imported");
    let (code, out, said) = given(&offline, &["bundle", "import", "-", "--json"], &whole).await;
    assert!(code == 0 && json(&out)["imported"] == true, "{out}{said}");
}
