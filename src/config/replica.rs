//! `[replica]`: the object store that a replica follows, or that a mirror takes its first data from.
//!
//! Nothing is opened here. Callers: `resolve` reads and checks it, `fleet` acts on it.

use std::time::Duration;

use super::Config;
use super::describe::Toml;
use super::object_store::{ObjectStoreUrl, StoreOptions, for_reading};
use super::section::{Reader, Section};
use super::units::{DAY, duration, duration_text};

/// `[replica]`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// The store. `None`: none is followed.
    pub url: Option<ObjectStoreUrl>,
    /// How often the head is read; 100 ms to 1 d.
    pub poll: Duration,
    /// `[replica.options]`: credentials and settings of the store.
    pub options: StoreOptions,
}

impl Default for ReplicaConfig {
    fn default() -> Self {
        Self { url: None, poll: Duration::from_secs(10), options: StoreOptions::default() }
    }
}

impl ReplicaConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let url = section.optional("url", for_reading);
        let options = section.section("options", |options| StoreOptions::read(options, url.as_ref()));
        let poll = section.field("poll", default.poll, duration(Duration::from_millis(100)..=DAY));
        Self { url, poll, options }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("replica");
        match &self.url {
            Some(url) => out.pair("url", url.to_string()),
            None => out.absent("url", "absent: no object store is followed"),
        }
        out.pair("poll", duration_text(self.poll));
        self.options.write(out);
    }
}

/// The rules that concern other keys, too.
pub(super) fn check(config: &Config, reader: &mut Reader) {
    let Some(url) = &config.replica.url else { return };
    if url.is_cleartext() && config.bundle.trusted_keys.is_empty() {
        let problem = format!(
            "\"{url}\" is read without TLS, so anybody on the way could change the data: use https, or set \
             bundle.trusted_keys and sign what is published"
        );
        reader.fail("replica.url", problem);
    }
    if config.publish.url.as_ref() == Some(url) {
        let problem = format!("\"{url}\" is publish.url, too: a server that follows itself gets nothing new");
        reader.fail("replica.url", problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Use;

    const KEY: &str = "RWAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn the_use_follows_from_the_addresses() {
        let origin = "origin.url = \"https://api.example\"\n";
        let replica = "replica.url = \"https://store.example/fleet\"\n";
        for (text, usage) in [
            (String::new(), Use::Offline),
            (replica.to_owned(), Use::Replica),
            (format!("mirror.enabled = false\n{replica}"), Use::Replica),
            (origin.to_owned(), Use::Mirror),
            (format!("{origin}{replica}"), Use::Mirror),
            (format!("mirror.enabled = false\n{origin}{replica}"), Use::Shield),
        ] {
            assert_eq!(Config::from_text(&text).unwrap().config.usage(), usage, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let (http, file) = ("replica.url = \"http://store.example/fleet\"", "replica.url = \"file:///srv/fleet\"");
        for (text, said) in [
            (http.to_owned(), "read without TLS"),
            (format!("{file}\npublish.url = \"file:///srv/fleet/\""), "is publish.url, too"),
            ("replica.url = \"ftp://store.example\"".to_owned(), "is not an address of the form"),
            (format!("{file}\nreplica.poll = \"10ms\""), "replica.poll"),
        ] {
            let errors = Config::from_text(&text).unwrap_err().to_string();
            assert!(errors.contains("replica.") && errors.contains(said), "{text}: {errors}");
        }
        for text in [
            format!("{http}\nbundle.trusted_keys = [\"{KEY}\"]"),
            format!("{file}\npublish.url = \"file:///srv/other\""),
            format!("{file}\norigin.url = \"https://a.example\""),
        ] {
            assert!(Config::from_text(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let text = "[replica]\nurl = \"s3://bucket/fleet\"\n[replica.options]\naws_secret_access_key = \"hunter2\"";
        let config = Config::from_text(text).unwrap().config;
        let shown = format!("{}{config:?}", config.describe());
        assert!(!shown.contains("hunter2") && shown.contains("aws_secret_access_key"), "{shown}");
    }
}
