//! Writes the effective configuration as TOML, for `grandstand check`.
//!
//! The output can be loaded again and gives the same configuration, except secrets, which become comments. Callers:
//! each section writes its own keys.

use toml::Value;

use super::Config;
use super::units::duration_text;

/// TOML text in the making.
#[derive(Default)]
pub(super) struct Toml(String);

impl Toml {
    pub(super) fn table(&mut self, name: &str) {
        self.line(&format!("\n[{name}]"));
    }

    /// A `[[table]]` of an array.
    pub(super) fn element(&mut self, name: &str) {
        self.line(&format!("[[{name}]]"));
    }

    pub(super) fn pair(&mut self, key: &str, value: impl Into<Value>) {
        self.line(&format!("{key} = {}", value.into()));
    }

    pub(super) fn list<T: ToString>(&mut self, key: &str, items: impl IntoIterator<Item = T>) {
        let items = items.into_iter().map(|item| Value::String(item.to_string()));
        self.pair(key, Value::Array(items.collect()));
    }

    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// A key without a value, and why.
    pub(super) fn absent(&mut self, key: &str, why: &str) {
        self.line(&format!("# {key}: {why}"));
    }
}

impl Config {
    /// The effective configuration as TOML, every key in the order of the manual.
    ///
    /// Loads again to an equal configuration; `admin.token` and a `rate_limit.store` with a password are
    /// left out, with a comment in their place.
    pub fn describe(&self) -> String {
        let mut out = Toml::default();
        out.list("listen", &self.listen);
        if self.public_url_is_set || self.public_url.port() != 0 {
            out.pair("public_url", self.public_url.as_str());
        } else {
            out.absent("public_url", "absent: the first listener, with the port that the system chooses");
        }
        out.pair("data_dir", self.data_dir.to_string_lossy().as_ref());
        out.pair("ttl", duration_text(self.ttl));
        out.pair("drain", duration_text(self.drain));
        self.origin.write(&mut out);
        self.mirror.write(&mut out);
        self.rate_limit.write(&mut out);
        self.client_ip.write(&mut out);
        self.cache.write(&mut out);
        self.bundle.write(&mut out);
        self.passthrough.write(&mut out);
        self.admin.write(&mut out);
        if let Some(tls) = &self.tls {
            tls.write(&mut out);
        }
        self.log.write(&mut out);
        self.access.write(&mut out);
        self.pages.write(&mut out);
        self.limits.write(&mut out);
        out.0
    }
}
