//! The words for each trouble.

use std::path::Path;

use super::*;

fn well() -> Facts<'static> {
    Facts {
        usage: Use::Mirror,
        reasons: &[],
        findings: &[],
        origin: OriginState::Unchanged,
        origin_url: Some("https://origin.test"),
        last_error: Some("an old one"),
        paused_seconds: 0,
        has_data: true,
        rolled_back: None,
        tls_problem: None,
        damage: None,
        parity: Some(100.0),
        alone: None,
    }
}

fn reason(trouble: Trouble, text: &str) -> Reason {
    Reason { trouble, text: text.to_owned() }
}

#[test]
fn a_server_that_is_well_has_no_findings() {
    assert_eq!(advice(&well()), []);
}

#[test]
fn each_finding_says_what_is_wrong_and_what_to_do() {
    let late = [reason(Trouble::Unconfirmed, "data not confirmed for 29 s (limit 3 s)")];
    let empty = [reason(Trouble::NotReady, "no snapshot has been imported yet")];
    let details = [reason(Trouble::Details, "no details can be fetched: it is HTML")];
    let unstored = [reason(Trouble::Unstored, "nothing can be stored: it is private")];
    let held = [reason(Trouble::HeldBack, "a snapshot is held back: it lost half")];
    let down = Facts { origin: OriginState::CouldNotBeAsked, last_error: Some("connection refused"), ..well() };
    for (facts, unhealthy, whats, todo, action) in [
        (
            down.clone(),
            false,
            &["The origin https://origin.test fails", "onnection refused."][..],
            "Nothing is lost yet",
            None,
        ),
        (
            Facts { reasons: &late, ..down.clone() },
            true,
            &["Data not confirmed for 29 s (limit 3 s).", "https://origin.test fails", "onnection refused."],
            "Check that the origin works",
            None,
        ),
        (Facts { reasons: &late, ..well() }, true, &["not confirmed for 29 s (limit 3 s)."], "budget", None),
        (Facts { reasons: &late, usage: Use::Offline, ..well() }, true, &["limit 3 s"], "newer bundle", None),
        (Facts { reasons: &empty, usage: Use::Offline, ..well() }, true, &["No snapshot"], "Import", None),
        (Facts { reasons: &held, ..well() }, true, &["it lost half."], "accept", Some(Remedy::Accept)),
        (Facts { paused_seconds: 7, ..well() }, false, &["for 7 s"], "by itself", None),
        (
            Facts { rolled_back: Some(("aaaa", Some("bbbb"))), ..well() },
            false,
            &["snapshot aaaa", "bbbb, waits"],
            "Release",
            Some(Remedy::Release),
        ),
        (Facts { tls_problem: Some("it expires"), ..well() }, false, &["It expires."], "tls.cert", None),
        (Facts { damage: Some("page 7"), ..well() }, false, &["Page 7."], "the rest again", None),
        (Facts { damage: Some("x"), origin_url: None, ..well() }, false, &["damaged"], "bundle", None),
        (Facts { alone: Some("no Redis"), ..well() }, false, &["by itself. No Redis."], "Check Redis", None),
        (Facts { findings: &details, ..well() }, false, &["it is HTML."], "longer intervals", None),
        (Facts { findings: &unstored, ..well() }, false, &["it is private."], "public", None),
        (Facts { parity: Some(99.5), ..well() }, false, &["0.50 %"], "grandstand audit", None),
    ] {
        let advice = advice(&facts);
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
    let advice = advice(&Facts { reasons: &late, rolled_back: Some(("aaaa", Some("bbbb"))), ..well() });
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
