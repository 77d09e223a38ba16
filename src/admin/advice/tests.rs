//! The words for each trouble.

use std::path::Path;

use super::*;
use crate::admin::facts::{BudgetFacts, LimitFacts, OriginFacts, ParityFacts, SnapshotFacts, TlsFacts};
use crate::upstream::status::{LastError, OriginState};

fn well() -> StatusFacts {
    StatusFacts {
        snapshot: Some(SnapshotFacts::default()),
        last_error: Some(error("an old one")),
        parity: Some(ParityFacts { percent: 100.0, ..ParityFacts::default() }),
        origin: OriginFacts { url: Some("https://origin.test".to_owned()), ..OriginFacts::default() },
        ..StatusFacts::default()
    }
}

fn error(message: &str) -> LastError {
    LastError { message: message.to_owned(), ..LastError::default() }
}

fn rolled_back() -> StatusFacts {
    let (served, newest) = ("aaaa".to_owned(), Some("bbbb".to_owned()));
    StatusFacts { rollback: Some(RollbackFacts { served, newest, waiting: true }), ..well() }
}

fn reason(trouble: Trouble, text: &str) -> Reason {
    Reason { trouble, text: text.to_owned() }
}

#[test]
fn a_server_that_is_well_has_no_findings() {
    assert_eq!(advice(Use::Mirror, &well(), &[], &[]), []);
}

#[test]
fn each_finding_says_what_is_wrong_and_what_to_do() {
    let late = [reason(Trouble::Unconfirmed, "data not confirmed for 29 s (limit 3 s)")];
    let empty = [reason(Trouble::NotReady, "no snapshot has been imported yet")];
    let fails = [reason(Trouble::Origin, "The origin https://origin.test fails. The last error: Connection refused.")];
    let details = [reason(Trouble::Details, "no details can be fetched: it is HTML")];
    let unstored = [reason(Trouble::Unstored, "nothing can be stored: it is private")];
    let held = [reason(Trouble::HeldBack, "a snapshot is held back: it lost half")];
    let down = || {
        let state = OriginState::CouldNotBeAsked.as_str().to_owned();
        let origin = OriginFacts { state, ..well().origin };
        StatusFacts { origin, last_error: Some(error("connection refused")), ..well() }
    };
    let none: &[Reason] = &[];
    let paused = Some(BudgetFacts { paused_seconds: 7, ..BudgetFacts::default() });
    let damaged = |damage: &str| StatusFacts { damage: Some(damage.to_owned()), ..well() };
    let tls = Some(TlsFacts { problem: Some("it expires".to_owned()), ..TlsFacts::default() });
    let rate_limit = LimitFacts { why: Some("no Redis".to_owned()), ..LimitFacts::default() };
    let parity = Some(ParityFacts { percent: 99.5, ..ParityFacts::default() });
    let (mirror, offline) = (Use::Mirror, Use::Offline);
    for (usage, facts, reasons, findings, unhealthy, whats, todo, action) in vec![
        (
            mirror,
            down(),
            none,
            &fails[..],
            false,
            &["The origin https://origin.test fails", "onnection refused."][..],
            "Nothing is lost yet",
            None,
        ),
        (
            mirror,
            down(),
            &late,
            none,
            true,
            &["Data not confirmed for 29 s (limit 3 s).", "https://origin.test fails", "onnection refused."],
            "Check that the origin works",
            None,
        ),
        (mirror, well(), &late, none, true, &["not confirmed for 29 s (limit 3 s)."], "budget", None),
        (offline, well(), &late, none, true, &["limit 3 s"], "newer bundle", None),
        (offline, well(), &empty, none, true, &["No snapshot"], "Import", None),
        (mirror, well(), &held, none, true, &["it lost half."], "accept", Some(Remedy::Accept)),
        (
            mirror,
            StatusFacts { origin: OriginFacts { budget: paused, ..OriginFacts::default() }, ..well() },
            none,
            none,
            false,
            &["for 7 s"],
            "by itself",
            None,
        ),
        (mirror, rolled_back(), none, none, false, &["snapshot aaaa", "bbbb, waits"], "Release", Some(Remedy::Release)),
        (mirror, StatusFacts { tls, ..well() }, none, none, false, &["It expires."], "tls.cert", None),
        (mirror, damaged("page 7"), none, none, false, &["Page 7."], "the rest again", None),
        (
            mirror,
            StatusFacts { origin: OriginFacts::default(), ..damaged("x") },
            none,
            none,
            false,
            &["damaged"],
            "bundle",
            None,
        ),
        (
            mirror,
            StatusFacts { rate_limit, ..well() },
            none,
            none,
            false,
            &["by itself. No Redis."],
            "Check Redis",
            None,
        ),
        (mirror, well(), none, &details, false, &["it is HTML."], "longer intervals", None),
        (mirror, well(), none, &unstored, false, &["it is private."], "public", None),
        (mirror, StatusFacts { parity, ..well() }, none, none, false, &["0.50 %"], "grandstand audit", None),
    ] {
        let advice = advice(usage, &facts, reasons, findings);
        let [one] = &advice[..] else { panic!("{advice:?}") };
        assert_eq!(one.unhealthy, unhealthy, "{one:?}");
        assert!(whats.iter().all(|what| one.what.contains(what)), "{one:?}");
        assert!(one.todo.contains(todo), "{one:?}");
        assert_eq!(one.action, action, "{one:?}");
    }
}

#[test]
fn data_that_grows_old_during_a_rollback_does_so_because_of_it() {
    let late = [reason(Trouble::Unconfirmed, "data not confirmed for 29 s (limit 3 s)")];
    let advice = advice(Use::Mirror, &rolled_back(), &late, &[]);
    assert!(advice[0].what.contains("A rollback is in effect") && advice[0].todo.contains("Release"), "{advice:?}");
    assert_eq!(advice[1].action, Some(Remedy::Release));
}

#[test]
fn every_module_that_warns_has_an_advice() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let (mut paths, mut warning) = (vec![root.to_owned()], 0);
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") || path.to_string_lossy().contains("test") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("\n#[cfg(test)]").next().unwrap();
        if !(code.contains("tracing::warn!") || code.contains("tracing::error!")) {
            continue;
        }
        warning += 1;
        let module = path.strip_prefix(root).unwrap().with_extension("").to_string_lossy().replace('/', "::");
        assert!(ADVICE.iter().any(|(prefix, _)| module.starts_with(prefix)), "{module} has no advice");
    }
    assert!(warning > 15, "{warning}");
    assert!(about_module("grandstand::upstream::client").contains("origin"));
    assert!(about_module("somewhere::else").contains("log"));
}

#[test]
fn nothing_is_to_be_done_about_what_somebody_asked_for() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let files = ["snapshots.rs", "mirror/task/publish.rs", "fleet/replica.rs"].map(|name| root.join(name));
    let code: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for text in ASKED_FOR {
        assert!(code.contains(&format!("\"{text}")), "nothing warns of it: {text}");
        assert_eq!(about(text, "grandstand::snapshots"), None, "{text}");
    }
    assert!(about("the snapshot of the rollback is lost", "grandstand::snapshots").unwrap().contains("disk"));
}
