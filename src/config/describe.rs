//! Writes the effective configuration as TOML for `grandstand check`, and key by key for a reload.
//!
//! The TOML can be loaded again and gives the same configuration, except secrets, which become comments. Callers: each
//! section writes its own keys.

use std::collections::BTreeMap;

use toml::Value;

use super::Config;
use super::units::duration_text;

/// Every value by its dotted key; several for an array of tables, none for an absent key. Secrets are hashed.
pub(super) type Values = BTreeMap<String, Vec<String>>;

/// TOML text in the making.
#[derive(Default)]
pub(super) struct Toml {
    text: String,
    table: String,
    /// Whether the table is an element of an array: its keys count as one.
    is_element: bool,
    values: Values,
}

impl Toml {
    pub(super) fn table(&mut self, name: &str) {
        self.line(&format!("\n[{name}]"));
        (self.table, self.is_element) = (name.to_owned(), false);
    }

    /// A `[[table]]` of an array.
    pub(super) fn element(&mut self, name: &str) {
        self.line(&format!("[[{name}]]"));
        (self.table, self.is_element) = (name.to_owned(), true);
    }

    pub(super) fn pair(&mut self, key: &str, value: impl Into<Value>) {
        let line = format!("{key} = {}", value.into());
        self.line(&line);
        self.note(key, line);
    }

    /// A key whose value is not shown, and what is shown in its place.
    pub(super) fn secret(&mut self, key: &str, value: &str, shown: &str) {
        self.absent(key, shown);
        self.note(key, blake3::hash(value.as_bytes()).to_hex().to_string());
    }

    fn note(&mut self, key: &str, value: String) {
        let key = match (self.table.as_str(), self.is_element) {
            ("", _) => key.to_owned(),
            (table, true) => table.to_owned(),
            (table, false) => format!("{table}.{key}"),
        };
        self.values.entry(key).or_default().push(value);
    }

    pub(super) fn list<T: ToString>(&mut self, key: &str, items: impl IntoIterator<Item = T>) {
        let items = items.into_iter().map(|item| Value::String(item.to_string()));
        self.pair(key, Value::Array(items.collect()));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A key without a value, and why.
    pub(super) fn absent(&mut self, key: &str, why: &str) {
        self.line(&format!("# {key}: {why}"));
    }
}

impl Config {
    /// The effective configuration as TOML, every key in the order of the manual.
    ///
    /// Loads again to an equal configuration; `admin.token`, a `rate_limit.store` with a password and the
    /// options of object stores are left out, with a comment in their place.
    pub fn describe(&self) -> String {
        self.written().text
    }

    /// The effective configuration key by key, to compare it with another one.
    pub(super) fn values(&self) -> Values {
        self.written().values
    }

    fn written(&self) -> Toml {
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
        self.publish.write(&mut out);
        self.replica.write(&mut out);
        out
    }
}
