//! `[publish]`: the object store that this instance writes what it serves to.
//!
//! Nothing is opened here. Callers: `resolve` reads it, `fleet` acts on it.

use std::path::PathBuf;
use std::time::Duration;

use super::describe::Toml;
use super::object_store::{ObjectStoreUrl, StoreOptions, for_writing};
use super::parse::path;
use super::section::Section;
use super::units::{DAY, duration, duration_text};

/// `[publish]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishConfig {
    /// The store. `None`: nothing is published.
    pub url: Option<ObjectStoreUrl>,
    /// The secret key of the `minisign` tool that signs everything. `None`: nothing is signed.
    pub sign_key: Option<PathBuf>,
    /// The file whose first line is the password of that key. `None`: the key has no password.
    pub sign_password_file: Option<PathBuf>,
    /// A new full bundle at least this often; 1 s to 365 d.
    pub full_every: Duration,
    /// The age at which objects that no head names are removed; 1 m to 3650 d.
    pub keep: Duration,
    /// `[publish.options]`: credentials and settings of the store.
    pub options: StoreOptions,
}

impl Default for PublishConfig {
    fn default() -> Self {
        Self {
            url: None,
            sign_key: None,
            sign_password_file: None,
            full_every: 7 * DAY,
            keep: 7 * DAY,
            options: StoreOptions::default(),
        }
    }
}

impl PublishConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let url = section.optional("url", for_writing);
        let options = section.section("options", |options| StoreOptions::read(options, url.as_ref()));
        let config = Self {
            url,
            sign_key: section.optional("sign_key", path),
            sign_password_file: section.optional("sign_password_file", path),
            full_every: section.field("full_every", default.full_every, duration(Duration::from_secs(1)..=365 * DAY)),
            keep: section.field("keep", default.keep, duration(Duration::from_secs(60)..=3650 * DAY)),
            options,
        };
        if config.sign_password_file.is_some() && config.sign_key.is_none() {
            section.fail("sign_password_file", "is set, but sign_key is not: name the key that the password is for");
        }
        config
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("publish");
        let file = |out: &mut Toml, key: &str, file: &Option<PathBuf>, why: &str| match file {
            Some(path) => out.pair(key, path.to_string_lossy().as_ref()),
            None => out.absent(key, why),
        };
        match &self.url {
            Some(url) => out.pair("url", url.to_string()),
            None => out.absent("url", "absent: nothing is published"),
        }
        file(out, "sign_key", &self.sign_key, "absent: nothing is signed");
        file(out, "sign_password_file", &self.sign_password_file, "absent: the key has no password");
        out.pair("full_every", duration_text(self.full_every));
        out.pair("keep", duration_text(self.keep));
        self.options.write(out);
    }
}
