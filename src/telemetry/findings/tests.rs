use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::*;

const INTRODUCTION: &str = "\
<!-- Generated from src/telemetry/findings.rs by a test. Do not edit: change the table, then run
     GRANDSTAND_GOLDEN=write cargo test --locked --lib findings_page -->

# Findings

Everything that can be wrong has one name, which `grandstand status`, `/status`, the [console](operate.md#the-console), the log and
`grandstand_finding{name}` show, with what to do. An unhealthy one ends as soon as it is right again; any other is shown for
a minute more, as `no longer`.
";

const GROUPS: [(Weight, &str); 3] = [
    (Weight::Yes, "Unhealthy"),
    (Weight::Old, "Unhealthy once the data is too old, or there is none, and this is why"),
    (Weight::No, "Not unhealthy"),
];

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (weight, title) in GROUPS {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n## {title}\n");
        for kind in Kind::ALL.iter().filter(|kind| kind.weight() == weight) {
            let _ = writeln!(page, "* **`{}`**:{}\\\n  {}", kind.name(), kind.when(), kind.todo());
        }
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
        assert!(plain && kind.when().ends_with('.') && kind.todo().ends_with('.'), "{kind:?}");
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
        assert_eq!(raised(&findings, &clock, &[]), stays, "{kind:?}");
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
    let old = Finding::new(Kind::CopiesOld, "old copies");
    for (there, want) in [
        (vec![], vec![("data not confirmed for 9 s", true)]),
        (vec![alone.clone()], vec![("alone", false), ("data not confirmed for 9 s", true)]),
        (vec![alone, fails.clone()], vec![("data not confirmed for 9 s: the origin fails", true), ("alone", false)]),
        (vec![old.clone()], vec![("data not confirmed for 9 s: old copies", true)]),
        (
            vec![old.clone(), fails.clone()],
            vec![("data not confirmed for 9 s: the origin fails", true), ("old copies", false)],
        ),
        (vec![fails.clone(), full], vec![("no room", true), ("the origin fails", false)]),
    ] {
        let mut all = there;
        blame(&mut all, lack(), &[]);
        let told: Vec<(&str, bool)> = all.iter().map(|one| (&*one.text, one.unhealthy)).collect();
        assert_eq!(told, want);
    }
    // What has just begun is not why.
    let mut all = vec![fails, old];
    blame(&mut all, lack(), &[Kind::OriginFails, Kind::CopiesOld]);
    let told: Vec<(&str, bool)> = all.iter().map(|one| (&*one.text, one.unhealthy)).collect();
    assert_eq!(told, [("the origin fails", false), ("old copies", false), ("data not confirmed for 9 s", true)]);
}

#[test]
fn what_is_over_says_so_until_it_is_gone() {
    let (findings, hands) = (Findings::default(), Clock::fake(WallTime::from_seconds(1_000)));
    let clock = hands.clock();
    let failed = || vec![Finding::new(Kind::ReloadFailed, "the reload failed")];
    let told = |now: Vec<Finding>| {
        let all = findings.look(&clock, || now);
        all.into_iter().map(|one| (one.text, one.todo)).collect::<Vec<_>>()
    };
    assert_eq!(told(failed())[0].0, "the reload failed");
    for _ in 0..2 {
        assert_eq!(told(vec![]), [("no longer: the reload failed".to_owned(), OVER.to_owned())]);
        hands.advance(Duration::from_secs(30));
    }
    assert_eq!(told(vec![]), []);
    told(failed());
    let certificate = || vec![Finding::new(Kind::CertificateEnds, "the certificate ends")];
    let texts = told(certificate()).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    assert_eq!(texts, ["the certificate ends", "no longer: the reload failed"], "what is over comes last");
    assert_eq!(told(failed())[0], ("the reload failed".to_owned(), Kind::ReloadFailed.todo().to_owned()));
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_cause_is_logged_once_and_so_is_the_end() {
    let (written, findings, hands) =
        (Written::default(), Findings::default(), Clock::fake(WallTime::from_seconds(1_000)));
    let (writer, clock) = (written.clone(), hands.clock());
    // With a single log, a line that another test meets first is looked up in that thread, which has none, and stays off.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(log, || {
        let fails = |text: &str, cause| Finding::new(Kind::OriginFails, text).because(cause);
        let serious = |finding| Finding { unhealthy: true, ..finding };
        for round in 0..20 {
            for now in [
                vec![fails(&format!("status 500 for {round} s"), "status")],
                vec![fails(&format!("timeout for {round} s"), "timeout")],
                vec![serious(fails("old data: timeout", "timeout"))],
            ] {
                findings.look(&clock, || now);
                hands.advance(Duration::from_secs(1));
            }
        }
        findings.look(&clock, Vec::new);
    });
    let text = String::from_utf8(written.0.lock().clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("origin-fails")).collect();
    let wanted =
        [("WARN", "status 500 for 0 s"), ("WARN", "timeout for 0 s"), ("ERROR", "old data"), ("INFO", "no longer: ")];
    assert_eq!(lines.len(), wanted.len(), "{text}");
    for (line, (level, said)) in lines.iter().zip(wanted) {
        assert!(line.contains(level) && line.contains(said), "{line}");
    }
}
