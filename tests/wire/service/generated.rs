//! Completions and manual pages: one for every shell, one for every command.

use std::process::Command;

use tempfile::TempDir;

use crate::harness::run;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test]
async fn there_are_completions_for_every_shell() {
    let dir = TempDir::new().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (code, script) = run(&words(&["completions", shell])).await;
        assert_eq!(code, 0, "{shell}: {script}");
        for word in ["rollback", "allow-older", "completions"] {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
        // The scripts of the other two complete no values.
        let completes_values = !["elvish", "powershell"].contains(&shell);
        assert_eq!(script.contains("origin.requests_per_minute="), completes_values, "{shell}");
        let path = dir.path().join(shell);
        std::fs::write(&path, script).unwrap();
        if shell == "bash" {
            for (typed, word, before, completed) in [
                ("snapshot ro", "ro", "snapshot", "rollback\n"),
                ("serve --set mirror.k", "mirror.k", "--set", "mirror.keep=\n"),
            ] {
                let last = typed.split(' ').count();
                let asked = format!(
                    "COMP_WORDS=(grandstand {typed}); COMP_CWORD={last}; _grandstand grandstand {word} {before}; echo ${{COMPREPLY[@]}}"
                );
                let script = format!("source {}; {asked}", path.display());
                let answer = Command::new("bash").args(["-c", &script]).output().unwrap();
                assert_eq!(String::from_utf8_lossy(&answer.stdout), completed, "{answer:?}");
            }
        }
    }
    assert_eq!(run(&words(&["completions", "ksh"])).await.0, 64);
}

/// The commands that a help names.
fn named(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let first = list.filter(|line| !line.starts_with("    ")).filter_map(|line| line.split_whitespace().next());
    first.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[tokio::test]
async fn there_is_a_manual_page_for_every_command() {
    let mut expected = vec!["grandstand".to_owned()];
    for name in named(&run(&words(&["--help"])).await.1) {
        for inner in named(&run(&words(&[&name, "--help"])).await.1) {
            expected.push(format!("grandstand-{name}-{inner}"));
        }
        expected.push(format!("grandstand-{name}"));
    }
    expected.sort();
    assert!(expected.len() > 20, "{expected:?}");
    let dir = TempDir::new().unwrap();
    let pages = dir.path().join("pages");
    assert_eq!(run(&words(&["man", pages.to_str().unwrap()])).await.0, 0);
    let mut found = Vec::new();
    for page in std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&page).unwrap();
        for heading in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
            assert!(text.contains(heading), "{}: {text}", page.display());
        }
        assert_eq!(page.extension().unwrap(), "1");
        found.push(page.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    found.sort();
    assert_eq!(found, expected);
    let (code, all) = run(&words(&["man"])).await;
    assert_eq!((code, all.lines().filter(|line| line.starts_with(".TH ")).count()), (0, expected.len()));
    let (code, said) = run(&words(&["man", "/dev/null/pages"])).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("/dev/null/pages: "), "{said}");
}
