//! Which configuration a command reads, and that it says so; `grandstand check` for people and for scripts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Process, status_in, wait_until};

async fn run_under(under: &[&str], words: &[&str], dir: &Path) -> (i32, String) {
    let [under, words] = [under, words].map(|words| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
    Process::spawn_under(&under, &words, dir).end().await
}

#[tokio::test]
async fn the_file_is_named_or_found_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = format!("data_dir = {:?}\n", dir.join("data"));
    for (name, ttl) in [("grandstand.toml", "2m"), ("b.toml", "3m"), ("c.toml", "4m")] {
        std::fs::write(
            dir.join(name),
            format!("{data}ttl = \"{ttl}\"\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"),
        )
        .unwrap();
    }
    let of_environment = &["env", "GRANDSTAND_CONFIG=b.toml"][..];
    for (under, words, file, ttl) in [
        (&[][..], &["check"][..], "grandstand.toml", "2m"),
        (&["env", "GRANDSTAND_CONFIG="], &["check"], "grandstand.toml", "2m"),
        (of_environment, &["check"], "b.toml", "3m"),
        (of_environment, &["check", "-c", "c.toml"], "c.toml", "4m"),
        (of_environment, &["check", "c.toml"], "c.toml", "4m"),
        (&[], &["check", "--config", "c.toml"], "c.toml", "4m"),
    ] {
        let (code, said) = run_under(under, words, dir).await;
        assert!(code == 0 && said.contains(&format!("# file: {file}\n")), "{words:?}: {said}");
        assert!(said.contains(&format!("ttl = \"{ttl}\"")), "{words:?}: {said}");
        assert!(!said.contains("is not read"), "{said}");
    }
    let (code, said) = run_under(&[], &["check", "--set", "ttl=5m"], Path::new("/")).await;
    assert!(code == 0 && said.contains("# file: none; defaults, environment and --set alone\n"), "{said}");
    let (code, said) = run_under(&[], &["check", "b.toml", "-c", "c.toml"], dir).await;
    assert!(code == 64 && said.contains("cannot be used with"), "{said}");

    // What somebody else can have written is not read unless it is named.
    std::fs::set_permissions(dir.join("grandstand.toml"), std::fs::Permissions::from_mode(0o666)).unwrap();
    let (code, said) = run_under(&[], &["check"], dir).await;
    assert!(code == 0 && said.contains("grandstand.toml is not read: every user can write to it; name it"), "{said}");
    assert!(said.contains("# file: none"), "{said}");
    std::fs::set_permissions(dir.join("grandstand.toml"), std::fs::Permissions::from_mode(0o644)).unwrap();

    let mut server = Process::spawn_in(&["serve".to_owned()], dir);
    wait_until("it serves", || async { status_in(&dir.join("data")).await.is_some() }).await;
    let said = server.said();
    assert!(said.lines().next().is_some_and(|line| line.contains("configuration path=grandstand.toml")), "{said}");
    let (code, said) = run_under(&[], &["snapshot", "list"], dir).await;
    assert!(code == 0 && said.contains("configuration: grandstand.toml\n"), "{said}");
    let (code, said) = run_under(of_environment, &["snapshot", "list"], dir).await;
    assert!(code == 0 && !said.contains("configuration: "), "{said}");
    server.kill();

    std::fs::remove_file(dir.join("grandstand.toml")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("grandstand.toml")).status().unwrap().success());
    let (code, said) = run_under(&[], &["check"], dir).await;
    assert!(code == 0 && said.contains("grandstand.toml is not read: it is not a regular file; name it"), "{said}");
}

#[tokio::test]
async fn a_check_neither_waits_for_a_fifo_nor_reads_a_device_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("fifo")).status().unwrap().success());
    let listens = ["--set", "tls.listen=127.0.0.1:0"];
    for (words, why) in [
        (&["--config", "fifo"][..], "fifo: cannot be read: this is a FIFO, and nobody writes to it"),
        (&["--config", "/dev/zero"], "/dev/zero: cannot be read: it has more than 4 MiB"),
        (&["--set", "admin.token_file=fifo"], "admin.token_file: fifo: this is a FIFO"),
        (&["--set", "origin.ca_file=fifo"], "origin.ca_file: \"fifo\" cannot be opened: this is a FIFO"),
        (&["--set", "publish.sign_key=fifo", "--set", "publish.url=file:///none"], "publish.sign_key: \"fifo\" cannot"),
        (
            &["--set", "tls.cert=fifo", "--set", "tls.key=/dev/zero", listens[0], listens[1]],
            "tls.cert: \"fifo\" cannot",
        ),
    ] {
        let words: Vec<&str> = ["check"].iter().chain(words).copied().collect();
        let checked = tokio::time::timeout(Duration::from_secs(20), run_under(&[], &words, dir));
        let (code, said) = checked.await.unwrap_or_else(|_| panic!("{words:?} waits"));
        assert!(code == 64 && said.contains(why), "{words:?}: {said}");
    }
    let script = r#"echo 'ttl = "7m"' | "$0" "$@""#;
    let (code, said) = run_under(&["bash", "-c", script], &["check", "--config", "/dev/stdin"], dir).await;
    assert!(code == 0 && said.contains("ttl = \"7m\""), "{said}");
}

#[tokio::test]
async fn a_check_for_scripts_has_the_values_or_each_mistake_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.toml");
    let check = async |text: &str| {
        std::fs::write(&file, text).unwrap();
        let (code, said) = run_under(&[], &["check", "--json", file.to_str().unwrap()], dir.path()).await;
        (code, serde_json::from_str::<Value>(&said).unwrap_or_else(|why| panic!("{why}: {said}")))
    };
    let (code, told) = check("ttl = \"2m\"\nadmin.token = \"a-secret-of-some-length\"\n").await;
    assert_eq!((code, &told["ok"], &told["use"]), (0, &true.into(), &"offline".into()), "{told}");
    assert_eq!((&told["values"]["ttl"], &told["file"]), (&"2m".into(), &file.to_str().into()), "{told}");
    assert!(!told.to_string().contains("a-secret"), "{told}");
    let (code, told) = check("ttl = \"soon\"\nlisten = 5\nttll = 1\n").await;
    assert_eq!((code, &told["ok"]), (64, &false.into()), "{told}");
    let errors = told["errors"].as_array().unwrap();
    let keys: Vec<&str> = errors.iter().map(|error| error["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["ttl", "listen", "ttll"], "{told}");
    assert_eq!(errors[1]["place"], format!("{}:2", file.display()), "{told}");
}
