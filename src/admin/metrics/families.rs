//! Writes metrics that are read on request, after those of the registry.
//!
//! Each is in the table ([`crate::telemetry::table`]). Callers: [`super::gauges`], [`super::process`].

use std::fmt::{Display, Write as _};

use crate::telemetry::table::Metric;
use crate::telemetry::timing::{BOUNDS, Histogram};

/// Families in the text format of OpenMetrics.
pub(super) struct Families(String);

impl Families {
    /// Families that follow those of a text.
    pub(super) fn after(text: String) -> Self {
        Self(text)
    }

    /// All of them, without the mark of the end.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    /// A value that goes up and down.
    pub(super) fn gauge(&mut self, metric: Metric, value: impl Display) {
        self.head(metric);
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{} {value}", metric.name);
    }

    /// A fact, 0 or 1.
    pub(super) fn flag(&mut self, metric: Metric, holds: bool) {
        self.gauge(metric, u8::from(holds));
    }

    /// A gauge that is always 1, with the value of its label.
    pub(super) fn info(&mut self, metric: Metric, value: &str) {
        self.head(metric);
        let _ = writeln!(self.0, "{}{{{}=\"{value}\"}} 1", metric.name, label(metric));
    }

    /// A value that only rises; its sample has `_total` after the name.
    pub(super) fn counter(&mut self, metric: Metric, value: impl Display) {
        self.head(metric);
        let _ = writeln!(self.0, "{}_total {value}", metric.name);
    }

    /// Counters by the metric's label. Values of labels are our own words, which need no escapes.
    pub(super) fn counters<'a, V: Display>(&mut self, metric: Metric, values: impl IntoIterator<Item = (&'a str, V)>) {
        self.head(metric);
        for (of, value) in values {
            let _ = writeln!(self.0, "{}_total{{{}=\"{of}\"}} {value}", metric.name, label(metric));
        }
    }

    /// Times by route and outcome.
    pub(super) fn histograms(&mut self, metric: Metric, values: &[Histogram]) {
        self.head(metric);
        let name = metric.name;
        for Histogram { route, outcome, at_most, sum } in values {
            let labels = format!("route=\"{}\",outcome=\"{}\"", route.as_str(), outcome.as_str());
            let bounds = BOUNDS.iter().map(|(written, _)| *written).chain(["+Inf"]);
            for (bound, count) in bounds.zip(at_most) {
                let _ = writeln!(self.0, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let all = at_most.last().copied().unwrap_or_default();
            let _ = writeln!(self.0, "{name}_sum{{{labels}}} {}", sum.as_secs_f64());
            let _ = writeln!(self.0, "{name}_count{{{labels}}} {all}");
        }
    }

    fn head(&mut self, Metric { name, kind, help, .. }: Metric) {
        let _ = write!(self.0, "# HELP {name} {help}.\n# TYPE {name} {}\n", kind.as_str());
    }
}

/// The only label of a metric.
fn label(metric: Metric) -> &'static str {
    metric.labels.first().copied().unwrap_or_default()
}
