//! The rules and the page as the table of alarms has them, and each alarm with the series of real servers: one case that
//! raises it, and one that does not.
//!
//! Callers: [`super`].

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::alarms::{ALARMS, Alarm};
use super::{check_query, labels, of_sample, promtool, repository};

const RULES: &str = "config/prometheus/grandstand.rules.yml";
const PAGE: &str = "docs/metrics.md";

/// The head of the rules.
const HEAD: &str = "\
# Alert rules for grandstand, generated from tests/wire/monitoring/alarms.rs by a test. In prometheus.yml:
#
#   rule_files: [/etc/prometheus/grandstand.rules.yml]
#   scrape_configs:
#     - job_name: grandstand
#       static_configs: [{targets: [\"127.0.0.1:9090\"]}]
#
# docs/metrics.md says what to look at first.
groups:
  - name: grandstand
    rules:
";

/// The lines around the table on the page.
const BEGIN: &str =
    "<!-- Generated from tests/wire/monitoring/alarms.rs by a test. Do not edit: change the table there, then run
     GRANDSTAND_GOLDEN=write cargo test --locked --test wire alarms -->\n";
const END: &str = "\n<!-- The end of the generated table. -->\n";

fn rules() -> String {
    let mut text = HEAD.to_owned();
    for (at, Alarm { name, expr, minutes, severity, summary, todo, .. }) in ALARMS.iter().enumerate() {
        let gap = if at > 0 { "\n" } else { "" };
        let waits = if *minutes > 0 { format!("        for: {minutes}m\n") } else { String::new() };
        let [summary, todo] = [format!("{{{{ $labels.instance }}}} {summary}"), (*todo).to_owned()].map(Value::from);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{gap}      - alert: Grandstand{name}\n        expr: {expr}\n{waits}        labels: {{severity: {severity}}}\n\
             \x20       annotations:\n          summary: {summary}\n          description: {todo}\n"
        );
    }
    text
}

fn table() -> String {
    let mut text = format!("{BEGIN}\n| alarm | is raised when | first look |\n|---|---|---|\n");
    for Alarm { name, expr, minutes, todo, .. } in ALARMS {
        let time = match minutes {
            0 => String::new(),
            1440 => " for a day".to_owned(),
            _ => format!(" for {minutes} minutes"),
        };
        let _ = writeln!(text, "| `Grandstand{name}` | `{expr}`{time} | {todo} |");
    }
    text + END
}

/// The file is as it should be, or is written.
fn is_current(path: &Path, wanted: &str) {
    if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(path, wanted).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    let todo = "GRANDSTAND_GOLDEN=write cargo test --locked --test wire alarms";
    assert!(stored == wanted, "{} is out of date: {todo}", path.display());
}

#[test]
fn the_rules_and_the_page_have_the_alarms_of_the_table() {
    let (rules_path, page_path) = (repository(RULES), repository(PAGE));
    is_current(&rules_path, &rules());
    let page = std::fs::read_to_string(&page_path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    is_current(&page_path, &format!("{before}{}{after}", table()));
    promtool(&["check", "rules", "grandstand.rules.yml"], rules_path.parent().unwrap());
    for Alarm { name, expr, summary, todo, .. } in ALARMS {
        check_query(expr);
        assert!(!expr.contains(": ") && !expr.contains(" #") && !expr.contains('|'), "{name}: YAML, or Markdown");
        assert!(todo.ends_with(['.', '?']) && !summary.ends_with('.'), "{name}");
    }
    let reserve = std::fs::read_to_string(repository("src/server/sockets.rs")).unwrap();
    assert!(reserve.contains("RESERVE: std::ops::RangeInclusive<u64> = 128..=1024;"), "FilesRunOut has these numbers");
}

/// The first real series with this name and these labels.
fn real<'a>(scrapes: &'a [String], wanted: &str) -> Option<&'a str> {
    let name = |series: &str| series.split('{').next().unwrap_or_default().to_owned();
    let pairs = |series: &str| -> BTreeSet<String> {
        let inner = series.split_once('{').map_or("", |(_, rest)| rest.trim_end_matches('}'));
        inner.split(',').filter(|pair| !pair.is_empty()).map(str::to_owned).collect()
    };
    let all = scrapes.iter().flat_map(|scrape| scrape.lines()).filter(|line| !line.starts_with('#'));
    let mut series = all.filter_map(|line| Some(line.rsplit_once(' ')?.0));
    series.find(|series| name(series) == name(wanted) && pairs(wanted).is_subset(&pairs(series)))
}

/// With the labels that Prometheus adds.
fn scraped(series: &str) -> String {
    let (name, inner) = series.split_once('{').unwrap_or((series, "}"));
    let comma = if labels(series).is_empty() { "" } else { "," };
    format!("{name}{{job=\"grandstand\",instance=\"a\"{comma}{inner}")
}

/// A test of `promtool`: the alarms that fire at each of these minutes. No alarm: none is pending, either.
fn case(name: &str, series: &[(String, &str)], minutes: u32, firing: &[(u32, &[&str])]) -> Value {
    let inputs =
        series.iter().map(|(series, values)| json!({"series": series, "values": format!("{values}x{minutes}")}));
    let looks = firing.iter().map(|(minute, names)| {
        let samples =
            names.iter().map(|name| json!({"labels": format!("{{alertname=\"Grandstand{name}\"}}"), "value": 1}));
        let state = if names.is_empty() && *minute == minutes { "" } else { "{alertstate=\"firing\"}" };
        json!({
            "expr": format!("count by (alertname) (ALERTS{state})"),
            "eval_time": format!("{minute}m"),
            "exp_samples": samples.collect::<Vec<_>>(),
        })
    });
    json!({
        "name": name,
        "interval": "1m",
        "input_series": inputs.collect::<Vec<_>>(),
        "promql_expr_test": looks.collect::<Vec<_>>(),
    })
}

/// Each alarm is raised after its time by its series, alone, and is not raised by other values of them. `scrapes` are
/// those of real servers, the first of one that is well: it raises nothing.
pub(super) fn each_alarm_is_raised_by_its_series_alone(scrapes: &[String]) {
    let mut tests = Vec::new();
    for Alarm { name, minutes, cases, .. } in ALARMS {
        let series =
            |of: fn(&(&'static str, &'static str, &'static str)) -> &'static str| -> Vec<(String, &'static str)> {
                let found = |wanted: &str| match wanted {
                    // Prometheus makes it itself.
                    "up" => wanted.to_owned(),
                    _ => real(scrapes, wanted).unwrap_or_else(|| panic!("{name}: no server has {wanted}")).to_owned(),
                };
                cases.iter().map(|case| (scraped(&found(case.0)), of(case))).collect()
            };
        let end = minutes + 20;
        let early: &[&str] = if *minutes > 0 { &[] } else { &[name] };
        let firing: &[(u32, &[&str])] =
            &[(minutes.saturating_sub(1).max(12 * u32::from(*minutes == 0)), early), (end, &[name])];
        tests.push(case(&format!("{name} is raised"), &series(|case| case.1), end, firing));
        tests.push(case(&format!("{name} is not raised"), &series(|case| case.2), end, &[(end, &[])]));
    }
    let well = scrapes[0].lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    // A finding of the first seconds stays for a minute.
    let calm = |series: &str, value| if series.starts_with("grandstand_finding{") { "0" } else { value };
    let mut well: Vec<(String, &str)> = well.map(|(series, value)| (scraped(series), calm(series, value))).collect();
    well.push((scraped("up"), "1"));
    tests.push(case("a server that is well raises nothing", &well, 90, &[(90, &[])]));
    let named: BTreeSet<&str> =
        ALARMS.iter().flat_map(|alarm| check_query(alarm.expr)).map(|metric| metric.name).collect();
    let is_there = |metric: &str| {
        scrapes.iter().flat_map(|scrape| scrape.lines()).any(|line| {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            of_sample(name).is_some_and(|(found, _)| found.name == metric)
        })
    };
    let missing: Vec<&&str> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no server has {missing:?}");
    let dir = tempfile::tempdir().unwrap();
    let file = json!({"rule_files": [repository(RULES)], "evaluation_interval": "1m", "tests": tests});
    std::fs::write(dir.path().join("test.json"), file.to_string()).unwrap();
    promtool(&["test", "rules", "test.json"], dir.path());
}
