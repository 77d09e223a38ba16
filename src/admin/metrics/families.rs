//! Writes metrics that are read on request, after those of the registry.
//!
//! Callers: [`super::gauges`], [`super::process`].

use std::fmt::{Display, Write as _};

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
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "gauge");
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{name} {value}");
    }

    /// A fact: a gauge that is always 1, with a label.
    pub(super) fn fact(&mut self, name: &str, help: &str, label: &str, value: &str) {
        self.head(name, help, "gauge");
        let _ = writeln!(self.0, "{name}{{{label}=\"{value}\"}} 1");
    }

    /// A value that only rises; its sample has `_total` after the name.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "counter");
        let _ = writeln!(self.0, "{name}_total {value}");
    }

    /// Counters with one label. Values of labels are our own words, which need no escapes.
    pub(super) fn counters<'a, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.head(name, help, "counter");
        for (of, value) in values {
            let _ = writeln!(self.0, "{name}_total{{{label}=\"{of}\"}} {value}");
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = write!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}\n");
    }
}
