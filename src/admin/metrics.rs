//! `GET /metrics`: every counter and gauge, in the text format that the client asks for.
//!
//! [`table`] says which there are. Callers: [`super::Admin`].

pub mod table;

use std::fmt::Write as _;

use http::header::{ACCEPT, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::telemetry::timing::{BOUNDS, Histogram};

use super::status::Status;
use super::{Reply, reply};

use table::{Kind, Metric, Samples, Scrape};

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    OpenMetrics,
}

impl Format {
    /// OpenMetrics if the client prefers it, otherwise text, which every reader knows.
    fn wanted(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        let (mut openmetrics, mut plain) = (0.0_f32, None);
        for member in lines.flat_map(|line| line.split(',')) {
            let mut parts = member.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut version) = (1.0_f32, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.to_ascii_lowercase().as_str() {
                    "q" => weight = value.parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim_matches('"')),
                    _ => {}
                }
            }
            match (media.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => {
                    openmetrics = openmetrics.max(weight);
                }
                ("text/plain", None | Some("0.0.4")) => {
                    plain = Some(plain.map_or(weight, |best: f32| best.max(weight)));
                }
                _ => {}
            }
        }
        if openmetrics > 0.0 && openmetrics >= plain.unwrap_or(0.0) { Self::OpenMetrics } else { Self::Text }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Every metric.
pub(super) fn answer(status: &Status, headers: &HeaderMap) -> Reply {
    let (format, scrape) = (Format::wanted(headers), Scrape::of(status));
    let mut text = String::with_capacity(32 << 10);
    for metric in table::ALL {
        family(&mut text, metric, &(metric.read)(&scrape), format);
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    let mut response = reply(StatusCode::OK, format.content_type(), text);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// Writes a metric; nothing if it has no samples.
fn family(text: &mut String, metric: &Metric, samples: &Samples, format: Format) {
    let Metric { name, kind, help, .. } = metric;
    if matches!(samples, Samples::Absent) || matches!(samples, Samples::Labelled(values) if values.is_empty()) {
        return;
    }
    let total = if *kind == Kind::Counter { "_total" } else { "" };
    // In the older format, a counter's family has the name of its samples.
    let of_family = if format == Format::Text { total } else { "" };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP {name}{of_family} {help}.\n# TYPE {name}{of_family} {}", kind.as_str());
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
    fn openmetrics_is_sent_to_those_who_ask_for_it() {
        // Prometheus 2.42 and 3.5.
        let old = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                   text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let new = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                   application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                   text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (old, Format::OpenMetrics),
            (new, Format::OpenMetrics),
            ("APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.1", Format::OpenMetrics),
            ("application/openmetrics-text, text/plain", Format::OpenMetrics),
            ("", Format::Text),
            ("*/*", Format::Text),
            ("application/*", Format::Text),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Text),
            ("text/plain;version=0.0.4;q=0.5, application/openmetrics-text;q=0.4", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=much", Format::Text),
            ("application/openmetrics-text;version=2.0.0", Format::Text),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(Format::wanted(&headers), format, "{accept}");
        }
        assert_eq!(Format::wanted(&HeaderMap::new()), Format::Text);
    }

    #[test]
    fn a_counter_is_named_as_its_samples_are_in_the_older_format() {
        let metric = |kind| Metric {
            name: "a_seconds",
            kind,
            unit: "seconds",
            labels: &["b"],
            help: "Time",
            read: |_| Samples::Absent,
        };
        let by = || Samples::Labelled(vec![(vec!["c".to_owned()], 1)]);
        for (kind, samples, format, want) in [
            (
                Kind::Counter,
                by(),
                Format::Text,
                "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total{b=\"c\"} 1\n",
            ),
            (
                Kind::Counter,
                by(),
                Format::OpenMetrics,
                "# HELP a_seconds Time.\n# TYPE a_seconds counter\na_seconds_total{b=\"c\"} 1\n",
            ),
            (
                Kind::Gauge,
                Samples::One(2.5),
                Format::Text,
                "# HELP a_seconds Time.\n# TYPE a_seconds gauge\na_seconds 2.5\n",
            ),
            (
                Kind::Gauge,
                Samples::One(2.0),
                Format::OpenMetrics,
                "# HELP a_seconds Time.\n# TYPE a_seconds gauge\na_seconds 2\n",
            ),
            (Kind::Gauge, Samples::Absent, Format::Text, ""),
            (Kind::Counter, Samples::Labelled(Vec::new()), Format::Text, ""),
        ] {
            let mut text = String::new();
            family(&mut text, &metric(kind), &samples, format);
            assert_eq!(text, want);
        }
    }
}
