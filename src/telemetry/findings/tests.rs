use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::*;

const INTRODUCTION: &str = "\
<!-- Generated from src/telemetry/findings.rs by a test. Do not edit: change the table, then run
     GRANDSTAND_GOLDEN=write cargo test --locked --lib findings_page -->

# Findings

Everything that can be wrong has one name. `/status`, the [console](operate.md#the-admin-listener), `grandstand status` and the
log name what is raised, with what to do; `grandstand_finding{name}` in [the metrics](metrics.md) is 1 while it is. A finding that
makes the server unhealthy ends as soon as it is right again, any other one a minute later.

*Unhealthy*: `yes`, `no`, or `old`: once the data is too old, or there is none, and this is why.

| finding | unhealthy | when | what to do |
|---|---|---|---|
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for kind in Kind::ALL {
        let unhealthy = match kind.weight() {
            Weight::No => "no",
            Weight::Yes => "yes",
            Weight::Old => "old",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{}` | {unhealthy} | {} | {} |", kind.name(), kind.when(), kind.todo());
    }
    page
}

#[test]
fn the_findings_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/findings.md");
    if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(&path, page()).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(stored, page(), "out of date: GRANDSTAND_GOLDEN=write cargo test --locked --lib findings_page");
}

#[test]
fn names_are_unique_and_every_text_is_whole() {
    let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
    for kind in Kind::ALL {
        let plain = kind.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        assert!(plain && !kind.when().ends_with('.') && kind.todo().ends_with('.'), "{kind:?}");
        assert!(![kind.when(), kind.todo()].concat().contains(['|', '\n']), "{kind:?}");
    }
}

/// Names that are raised, and whether each is unhealthy.
fn raised(findings: &Findings, clock: &Clock, now: &[Finding]) -> Vec<(String, bool)> {
    findings.look(clock, || now.to_vec()).into_iter().map(|one| (one.name, one.unhealthy)).collect()
}

#[test]
fn each_is_raised_at_once_and_none_flaps() {
    for kind in Kind::ALL {
        let (findings, hands) = (Findings::default(), Clock::fake(WallTime::from_seconds(1_000)));
        let clock = hands.clock();
        let (one, name) = (Finding::new(*kind, "wrong"), kind.name().to_owned());
        let is_unhealthy = one.unhealthy;
        assert_eq!(raised(&findings, &clock, &[]), []);
        let first = findings.look(&clock, || vec![one.clone()]);
        assert_eq!(first[0].since, WallTime::from_seconds(1_000).rfc3339(), "{kind:?}");
        hands.advance(Duration::from_secs(30));
        let again = findings.look(&clock, || vec![Finding::new(*kind, "worse")]);
        assert_eq!((again[0].since.clone(), &*again[0].text), (first[0].since.clone(), "worse"), "{kind:?}");
        let stays = if is_unhealthy { vec![] } else { vec![(name.clone(), false)] };
        hands.advance(Duration::from_secs(59));
        assert_eq!(raised(&findings, &clock, &[]), stays, "{kind:?}");
        hands.advance(Duration::from_secs(1));
        assert_eq!(raised(&findings, &clock, &[]), [], "{kind:?}");
        assert_eq!(raised(&findings, &clock, &[one]), [(name, is_unhealthy)], "{kind:?}");
    }
}

#[test]
fn of_one_kind_there_is_one_and_the_unhealthy_come_first() {
    let (findings, clock) = (Findings::default(), Clock::system());
    let full = |path| Finding::new(Kind::DiskFull, path);
    let now = [Finding::new(Kind::RolledBack, "r"), full("a"), full("b"), Finding::new(Kind::NoData, "n")];
    let names: Vec<(String, bool)> = raised(&findings, &clock, &now);
    let want = [("disk-full", true), ("no-data", true), ("rolled-back", false)];
    assert_eq!(names, want.map(|(name, unhealthy)| (name.to_owned(), unhealthy)));
}

#[test]
fn old_data_is_said_by_its_cause() {
    let lack = || Finding::new(Kind::Unconfirmed, "data not confirmed for 9 s");
    let fails = Finding::new(Kind::OriginFails, "the origin fails");
    let full = Finding::new(Kind::DiskFull, "no room");
    let alone = Finding::new(Kind::LimitAlone, "alone");
    for (there, want) in [
        (vec![], vec![("data not confirmed for 9 s", true)]),
        (vec![alone.clone()], vec![("alone", false), ("data not confirmed for 9 s", true)]),
        (vec![alone, fails.clone()], vec![("data not confirmed for 9 s: the origin fails", true), ("alone", false)]),
        (vec![fails, full], vec![("no room", true), ("the origin fails", false)]),
    ] {
        let mut all = there;
        blame(&mut all, lack());
        let told: Vec<(&str, bool)> = all.iter().map(|one| (&*one.text, one.unhealthy)).collect();
        assert_eq!(told, want);
    }
}
