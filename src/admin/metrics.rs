//! `GET /metrics`: every counter and gauge, in the text format that the client asks for.
//!
//! Everything is written once, as OpenMetrics; the older format of Prometheus is made of that text. Callers:
//! [`super::Admin`].

mod families;
mod gauges;
mod process;
mod publish;

use http::header::{ACCEPT, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use prometheus_client::registry::Registry;

use super::status::Status;
use super::{Reply, error, reply};

use families::Families;

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
pub(super) fn answer(status: &Status, registry: &Registry, headers: &HeaderMap) -> Reply {
    let format = Format::wanted(headers);
    let mut text = String::new();
    status.telemetry.settle();
    if prometheus_client::encoding::text::encode_registry(&mut text, registry).is_err() {
        return error(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written");
    }
    let mut families = Families::after(text);
    gauges::write(status, &mut families);
    process::write(&mut families);
    publish::write(status, &mut families);
    let text = families.into_text();
    let mut response = match format {
        Format::OpenMetrics => reply(StatusCode::OK, format.content_type(), text + "# EOF\n"),
        Format::Text => reply(StatusCode::OK, format.content_type(), classic(&text)),
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// OpenMetrics as version 0.0.4: a counter's family has the name of its samples, with `_total`, and there are no units.
fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 1024);
    // The help comes before the type, and both need the family's name.
    let mut help: Option<(&str, &str)> = None;
    let mut push = |parts: &[&str]| {
        text.extend(parts.iter().copied().chain(["\n"]));
    };
    for line in openmetrics.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            help = told.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|told| told.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, told)) = help.take().filter(|(helped, _)| *helped == name) {
                push(&["# HELP ", name, suffix, " ", told]);
            }
            push(&["# TYPE ", name, suffix, " ", kind]);
        } else if !line.starts_with("# UNIT ") {
            push(&[line]);
        }
    }
    text
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
        let text = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total{b=\"# \"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 2\n# TYPE d unknown\nd 3\n# HELP e Spread.\n# TYPE e histogram\n\
                    e_bucket{le=\"+Inf\"} 4\n";
        let want = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total{b=\"# \"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 2\n# TYPE d untyped\nd 3\n# HELP e Spread.\n# TYPE e histogram\n\
                    e_bucket{le=\"+Inf\"} 4\n";
        assert_eq!(classic(text), want);
    }
}
