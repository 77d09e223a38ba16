//! `grandstand bundle export --format`: the bytes that `/dumps/` serves, as a file or on standard output.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{ALL, mirrored};
use crate::harness::{Setup, run};

const FORMATS: [&str; 5] = ["ndjson", "csv", "geojson", "details-ndjson", "details-csv"];

fn arguments(setup: &Setup, data: &Path, words: &[&str]) -> Vec<String> {
    let words: Vec<&str> = ["bundle", "export"].into_iter().chain(words.iter().copied()).collect();
    setup.arguments(&words, data)
}

/// The command's standard output, and nothing else.
fn output(setup: &Setup, data: &Path, words: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grandstand"));
    let output = command.args(arguments(setup, data, words)).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[tokio::test]
async fn an_export_is_what_is_served_beside_a_server_and_without_one() {
    let (_origin, mut server) = mirrored(130).await;
    let mut served = Vec::new();
    for path in ALL {
        served.push(server.ok(path).await.body);
    }
    let (data, files) = (server.data_dir(), tempfile::tempdir().unwrap());
    let setup = server.setup.clone();
    for is_running in [true, false] {
        if !is_running {
            server.down().await;
        }
        for (format, body) in FORMATS.into_iter().zip(&served) {
            let file = files.path().join(format!("{format}-{is_running}"));
            let (code, said) = run(&arguments(&setup, &data, &[file.to_str().unwrap(), "--format", format])).await;
            assert_eq!(code, 0, "{said}");
            assert!(said.contains(&format!("{} bytes", body.len())), "{said}");
            assert!(std::fs::read(&file).unwrap() == *body, "{format}, {is_running}");
            assert!(output(&setup, &data, &["-", "--format", format]) == *body, "{format}, {is_running}");
        }
    }
    assert_eq!(std::fs::read_dir(files.path()).unwrap().count(), 2 * FORMATS.len(), "nothing unfinished is left");
}

#[tokio::test]
async fn what_an_export_cannot_do_is_said_at_once() {
    let (_origin, server) = mirrored(20).await;
    let (data, files) = (server.data_dir(), tempfile::tempdir().unwrap());
    let file = files.path().join("out").to_str().unwrap().to_owned();
    for (words, code, named) in [
        (&[file.as_str(), "--format", "xml"][..], 64, "geojson"),
        (&[&file, "--format", "csv", "--since", "abc"], 64, "--since"),
        (&[&file, "--format", "csv", "--sign", "key"], 64, "--sign"),
        (&["-"], 64, "name a file"),
        (&["/nowhere/out.csv", "--format", "csv"], 1, "/nowhere/out.csv"),
    ] {
        let (ended, said) = run(&arguments(&server.setup, &data, words)).await;
        assert_eq!(ended, code, "{words:?}: {said}");
        assert!(said.contains(named), "{words:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(files.path()).unwrap().count(), 0);
    let empty = Setup::offline().start().await;
    let (code, said) = run(&arguments(&empty.setup, &empty.data_dir(), &[&file, "--format", "csv"])).await;
    assert!(code == 1 && said.contains("no snapshot"), "{said}");
}

#[tokio::test]
async fn a_reader_that_has_had_enough_ends_an_export_without_a_word() {
    let (_origin, mut server) = mirrored(2000).await;
    server.down().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_grandstand"));
    let words = arguments(&server.setup, &server.data_dir(), &["-", "--format", "details-ndjson"]);
    let mut export = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(export.stdout.take());
    let output = export.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(141), "{said}");
    assert!(!said.contains("grandstand:") && !said.contains("panicked"), "{said}");
}
