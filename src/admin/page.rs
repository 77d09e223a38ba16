//! The operator's page: whether the server is well, and if not, why and what to do; what happened lately; and buttons.
//!
//! It has the same facts as `/status`, and decides nothing: [`gather`] collects the content, [`view`] makes the HTML.
//! The buttons send requests to this listener, so the listener's checks apply to them. Callers: [`super::Admin`].

mod action;
mod advice;
mod chart;
mod charts;
mod facts;
mod gather;
mod limit;
mod model;
mod odd;
mod view;
mod words;

use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::config::AdminConfig;
use crate::telemetry::history::Span;

use super::status::Status;
use super::{Reply, reply};

use action::Writes;

/// What the page may load and do: nothing but what comes from this listener, and no code or style within the document.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The stylesheet.
const STYLE: &str = include_str!("page/page.css");
/// The script.
const SCRIPT: &str = include_str!("page/page.js");
/// The mark.
const MARK: &str = include_str!("../pages/static/mark.svg");

/// The page, or the part of it that changes (`?fragment`).
pub(super) fn answer(status: &Status, config: &AdminConfig, query: Option<&str>) -> Reply {
    let asked = Asked::read(query.unwrap_or_default());
    let writes = match &config.token {
        Some(_) => Writes::Token,
        None if config.accepts_writes() => Writes::Free,
        None => Writes::Refused,
    };
    let model = gather::model(status, writes, asked.span);
    let page = if asked.fragment { view::current(&model) } else { view::document(&model) };
    guarded(reply(StatusCode::OK, "text/html; charset=utf-8", page.into_string()))
}

/// A file that the page needs; `None`: there is no such file.
pub(super) fn asset(path: &str) -> Option<Reply> {
    let (kind, text) = match path {
        "/operator.css" => ("text/css; charset=utf-8", STYLE),
        "/operator.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "/favicon.svg" => ("image/svg+xml", MARK),
        _ => return None,
    };
    Some(guarded(reply(StatusCode::OK, kind, text)))
}

fn guarded(mut reply: Reply) -> Reply {
    let headers = reply.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// Only what changes while the page is open.
    fragment: bool,
    /// How far back the charts go.
    span: Span,
}

impl Asked {
    /// Reads a query; what is not known is ignored.
    fn read(query: &str) -> Self {
        let mut asked = Self { fragment: false, span: Span::Minutes };
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("fragment", _) => asked.fragment = true,
                ("span", "hours") => asked.span = Span::Hours,
                ("span", _) => asked.span = Span::Minutes,
                _ => {}
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_asks_for_a_part_and_a_span() {
        let asked = |fragment, span| Asked { fragment, span };
        for (query, want) in [
            ("", asked(false, Span::Minutes)),
            ("fragment", asked(true, Span::Minutes)),
            ("span=hours&fragment=1", asked(true, Span::Hours)),
            ("span=hours&span=minutes&x", asked(false, Span::Minutes)),
        ] {
            assert_eq!(Asked::read(query), want, "{query}");
        }
    }

    #[test]
    fn the_script_and_the_stylesheet_load_nothing_and_evaluate_nothing() {
        for text in [STYLE, SCRIPT, MARK] {
            for forbidden in ["://", "@import", "eval(", "innerHTML", "Function("] {
                let uses = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!uses.contains(forbidden), "{forbidden}");
            }
        }
    }
}
