//! `[passthrough]`: forwarding of unknown paths.
//!
//! Not the matching of requests. Callers: `resolve` reads it, `answer` and `proxy` act on it.

use http::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE};
use http::{HeaderName, Method};

use crate::semantics::caching::{Allowed, is_never_onward};

use super::describe::Toml;
use super::parse::{expected, header_name, method, path_prefix};
use super::raw::Node;
use super::section::Section;

/// `[passthrough]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassthroughConfig {
    /// Path prefixes that are proxied and cached, each beginning with `/`; empty: none.
    pub paths: Vec<String>,
    /// Methods that are forwarded there. Methods other than `GET` and `HEAD` are not cached and invalidate.
    pub methods: Vec<Method>,
    /// The fields of a client's GET and HEAD that are forwarded there. Other methods carry all.
    pub request_headers: Allowed,
}

impl Default for PassthroughConfig {
    fn default() -> Self {
        let request_headers = Allowed::Only(vec![ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE]);
        Self { paths: vec!["/api/".to_owned()], methods: vec![Method::GET, Method::HEAD], request_headers }
    }
}

impl PassthroughConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            paths: section.list("paths", "\"/api/\"", default.paths, path_prefix),
            methods: section.list("methods", "\"GET\"", default.methods, method),
            request_headers: allowed(section, default.request_headers),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("passthrough");
        out.list("paths", &self.paths);
        out.list("methods", &self.methods);
        let names: Vec<String> = match &self.request_headers {
            Allowed::All => vec![ALL.to_owned()],
            Allowed::Only(names) => names.iter().map(capitalised).collect(),
        };
        out.list("request_headers", &names);
    }
}

/// Stands for all fields.
const ALL: &str = "*";

/// Reads a list of fields; one that is `"*"` allows all.
fn allowed(section: &mut Section<'_>, default: Allowed) -> Allowed {
    let Allowed::Only(names) = &default else { return default };
    let names = names.iter().cloned().map(Some).collect();
    let read = section.list("request_headers", "\"Accept\"", names, request_header);
    read.into_iter().collect::<Option<Vec<_>>>().map_or(Allowed::All, Allowed::Only)
}

/// A field that may reach the origin; `None`: all.
fn request_header(node: &Node) -> Result<Option<HeaderName>, String> {
    if node.as_text() == Some(ALL) {
        return Ok(None);
    }
    let name = header_name(node)?;
    if is_never_onward(&name) {
        return expected(
            node,
            "a header that may be forwarded (Host, Forwarded, X-Forwarded-* ... never are; Via always is)",
        );
    }
    Ok(Some(name))
}

/// A name in its usual spelling: `Accept-Language`.
fn capitalised(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    words.collect::<Vec<_>>().join("-")
}
