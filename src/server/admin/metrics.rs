//! `GET /metrics`: every counter and gauge, in the text format of Prometheus.
//!
//! [`table`] says which there are. Callers: [`super::Admin`].

pub mod table;

use std::fmt::Write as _;

use http::StatusCode;

use crate::telemetry::timing::{BOUNDS, Histogram};

use super::status::Status;
use super::{Reply, reply};

use table::{Kind, Metric, Samples, Scrape};

/// Every metric, in the text format of Prometheus, version 0.0.4.
pub(super) fn answer(status: &Status) -> Reply {
    let scrape = Scrape::of(status);
    let mut text = String::with_capacity(32 << 10);
    for metric in table::ALL {
        family(&mut text, metric, &(metric.read)(&scrape));
    }
    reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

/// Writes a metric; nothing if it has no samples.
fn family(text: &mut String, metric: &Metric, samples: &Samples) {
    let Metric { name, kind, help, .. } = metric;
    if matches!(samples, Samples::Absent) || matches!(samples, Samples::Labelled(values) if values.is_empty()) {
        return;
    }
    let total = if *kind == Kind::Counter { "_total" } else { "" };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP {name}{total} {help}.\n# TYPE {name}{total} {}", kind.as_str());
    match samples {
        Samples::Absent => {}
        Samples::One(value) => drop(writeln!(text, "{name}{total} {value}")),
        Samples::Labelled(values) => {
            for (of, value) in values {
                let pairs = metric.labels.iter().zip(of).map(|(label, of)| format!("{label}=\"{of}\""));
                let _ = writeln!(text, "{name}{total}{{{}}} {value}", pairs.collect::<Vec<_>>().join(","));
            }
        }
        Samples::Times(histograms) => histograms.iter().for_each(|times| histogram(text, metric, times)),
    }
}

fn histogram(text: &mut String, metric: &Metric, Histogram { labels, at_most, sum }: &Histogram) {
    let (name, pairs) = (metric.name, metric.labels.iter().zip(labels));
    let labels = pairs.map(|(label, of)| format!("{label}=\"{of}\"")).collect::<Vec<_>>().join(",");
    let bounds = BOUNDS.iter().map(|(written, _)| *written).chain(["+Inf"]);
    for (bound, count) in bounds.zip(at_most) {
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    let all = at_most.last().copied().unwrap_or_default();
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {all}", sum.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_named_as_its_samples_are() {
        let metric = |kind| Metric {
            name: "a_seconds",
            kind,
            unit: "seconds",
            labels: &["b"],
            help: "Time",
            read: |_| Samples::Absent,
        };
        let by = || Samples::Labelled(vec![(vec!["c".to_owned()], 1)]);
        let counter = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total{b=\"c\"} 1\n";
        let gauge = "# HELP a_seconds Time.\n# TYPE a_seconds gauge\na_seconds 2.5\n";
        for (kind, samples, want) in [
            (Kind::Counter, by(), counter),
            (Kind::Gauge, Samples::One(2.5), gauge),
            (Kind::Gauge, Samples::Absent, ""),
            (Kind::Counter, Samples::Labelled(Vec::new()), ""),
        ] {
            let mut text = String::new();
            family(&mut text, &metric(kind), &samples);
            assert_eq!(text, want);
        }
    }
}
