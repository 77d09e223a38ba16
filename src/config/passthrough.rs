//! `[passthrough]`: what is forwarded beyond the known endpoints.
//!
//! Not the matching of requests. Read by `resolve`, acted upon by `api`.

use http::Method;

use super::describe::Toml;
use super::parse::{method, path_prefix};
use super::section::Section;

/// `[passthrough]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassthroughConfig {
    /// Path prefixes that are proxied and cached, each beginning with `/`; empty: none.
    pub paths: Vec<String>,
    /// Methods that are forwarded there. Others than `GET` and `HEAD` pass uncached and invalidate.
    pub methods: Vec<Method>,
}

impl Default for PassthroughConfig {
    fn default() -> Self {
        Self { paths: vec!["/api/".to_owned()], methods: vec![Method::GET, Method::HEAD] }
    }
}

impl PassthroughConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            paths: section.list("paths", "\"/api/\"", default.paths, path_prefix),
            methods: section.list("methods", "\"GET\"", default.methods, method),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("passthrough");
        out.list("paths", &self.paths);
        out.list("methods", &self.methods);
    }
}
