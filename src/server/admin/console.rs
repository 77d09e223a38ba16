//! Operator's console: static files that draw `/status` and `/history.json` in a browser.
//!
//! They decide and know nothing that these two do not say. Their buttons send requests to this listener, so its checks
//! apply to them. Callers: [`super::Admin`].

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::data::cache::reply::{Confinement, Lifetime, Rendered, ReplyKind};
use crate::protocol::coding::{self, Coding};
use crate::protocol::precondition::{self, Precondition};

use super::{Reply, error, reply};

/// What the console may load and do: only what comes from this listener, and no code or style within the document.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, media type, content. `src/edge/pages/vendored/README.md` says where uPlot comes from.
const FILES: [(&str, &str, &str); 9] = [
    ("/", "text/html; charset=utf-8", include_str!("console/console.html")),
    (
        "/console.css",
        "text/css; charset=utf-8",
        concat!(include_str!("../../edge/pages/vendored/uPlot.min.css"), "\n", include_str!("console/console.css")),
    ),
    ("/console.js", SCRIPT, include_str!("console/console.js")),
    ("/actions.js", SCRIPT, include_str!("console/actions.js")),
    ("/charts.js", SCRIPT, include_str!("console/charts.js")),
    ("/dom.js", SCRIPT, include_str!("console/dom.js")),
    ("/words.js", SCRIPT, include_str!("console/words.js")),
    ("/uplot.js", SCRIPT, include_str!("../../edge/pages/vendored/uPlot.iife.min.js")),
    ("/favicon.svg", "image/svg+xml", include_str!("../../edge/pages/static/mark.svg")),
];

/// The files, each compressed once.
pub(crate) struct Console([Rendered; FILES.len()]);

impl Default for Console {
    fn default() -> Self {
        Self(FILES.map(|(_, content_type, text)| {
            let (confinement, lifetime) = (Confinement::Page, Lifetime::Revalidated);
            let kind = ReplyKind { content_type, confinement, lifetime, varies_by_accept: false };
            Rendered::new(kind, Bytes::from_static(text.as_bytes()), env!("CARGO_PKG_VERSION"), 0)
        }))
    }
}

pub(super) fn has(path: &str) -> bool {
    FILES.iter().any(|(known, ..)| *known == path)
}

impl Console {
    /// The file at a path; `None`: there is none.
    pub(super) fn answer(&self, path: &str, headers: &HeaderMap) -> Option<Reply> {
        let file = FILES.iter().position(|(known, ..)| *known == path).and_then(|at| self.0.get(at))?;
        let wanted = coding::negotiate(headers, &Coding::PREFERENCE);
        let (coding, variant, tag) = file.variant(wanted);
        let mut answer = match precondition::evaluate(&Method::GET, headers, tag) {
            Precondition::Proceed => reply(StatusCode::OK, file.kind.content_type, variant),
            Precondition::NotModified => {
                let mut answer = Reply::default();
                *answer.status_mut() = StatusCode::NOT_MODIFIED;
                answer
            }
            Precondition::Failed => {
                return Some(error(StatusCode::PRECONDITION_FAILED, "the file has another entity tag"));
            }
        };
        let fields = answer.headers_mut();
        if coding != Coding::Identity {
            fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
        }
        for (name, value) in [
            (header::CACHE_CONTROL, "no-cache"),
            (header::VARY, "Accept-Encoding"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ] {
            fields.insert(name, HeaderValue::from_static(value));
        }
        fields.extend(tag.map(|tag| (header::ETAG, tag.to_header_value())));
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_load_nothing_from_elsewhere_and_evaluate_nothing() {
        for (path, _, text) in FILES {
            let own = text.replace("http://www.w3.org/2000/svg", "").replace("https://github.com/leeoniya/uPlot", "");
            for forbidden in ["://", "@import", "eval(", "innerHTML", "Function("] {
                assert!(!own.contains(forbidden), "{path}: {forbidden}");
            }
        }
    }
}
