//! Configuration, resolved into types that cannot be wrong.
//!
//! The file, the environment and `--set` become one tree in which every value remembers its [`ValueSource`]
//! (`sources`). Every key is declared once (`keys`), and the declared keys are read from that tree (`reader`). Every
//! mistake is collected, so that one run of `grandstand check` shows them all.
//!
//! Not here: acting on the configuration ([`crate::server`] does), reading certificates, opening sockets. Callers: the
//! command line, at the start and at each reload; other rooms read [`Settings`].

pub(crate) mod address;
mod checks;
mod declaration;
mod errors;
pub(crate) mod files;
mod keys;
mod object_store;
mod proxy;
mod reader;
mod reload;
pub(crate) mod rhythm;
mod secret;
mod sources;
mod tiles;
mod units;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use crate::words::{named, remedy};
pub(crate) use address::BaseUrl;
use declaration::{DeclaresKeys as _, written};
pub(crate) use errors::{ConfigErrors, ConfigIssue, ValueSource};
pub use keys::Config;
pub(crate) use keys::{
    AdminConfig, Details, LogConfig, LogFormat, LogLevel, MirrorConfig, OriginConfig, PublishConfig, RateLimitConfig,
    TlsConfig,
};
pub(crate) use object_store::{ObjectStoreUrl, PASSWORD, StoreKind, StoreOptions, UNSUPPORTED, USERNAME};
pub use proxy::Proxy;
pub(crate) use proxy::proxy_name;
pub use reload::Settings;
pub(crate) use reload::{KeyChanges, UNCHANGED, merge, refusal};
pub(crate) use secret::{RedisUrl, Secret};
pub(crate) use units::parse_duration;
use values::Written;

/// A configuration, and its legal but suspicious values.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<ConfigIssue>,
}

/// A configuration, valid or not, with all findings.
#[derive(Debug)]
pub struct Examined {
    /// The configuration; keys with a mistake have their defaults.
    pub config: Config,
    pub warnings: Vec<ConfigIssue>,
    errors: Vec<ConfigIssue>,
    /// Every key, with the place of its value.
    places: BTreeMap<String, Option<ValueSource>>,
}

impl Examined {
    pub fn is_set(&self, key: &str) -> bool {
        self.places.get(key).is_some_and(Option::is_some)
    }

    pub fn fail(&mut self, key: &str, problem: &impl ToString) {
        let place = self.places.get(key).cloned().flatten().unwrap_or(ValueSource::Default);
        self.errors.push(ConfigIssue::new(place, key, problem.to_string()));
    }

    /// Takes out all mistakes, if they are about other keys than `needed`. A file with a line that is not TOML may have
    /// set these keys there, so one of them must be known, unless `is_known` is true.
    pub fn excuse(&mut self, needed: &[&str], is_known: bool) -> Vec<ConfigIssue> {
        let is_known = is_known || needed.iter().any(|key| self.is_set(key));
        let matters = |error: &ConfigIssue| match error.source() {
            ValueSource::Set | ValueSource::File { line: 0, .. } => true,
            ValueSource::File { .. } if error.key().is_empty() => !is_known,
            _ => needed.contains(&error.key()),
        };
        if self.errors.iter().any(matters) { Vec::new() } else { std::mem::take(&mut self.errors) }
    }

    /// Checks that the files that the configuration names can be opened. Not `tls.cert` and `tls.key`, which only the
    /// server checks: `status` must run for users who cannot read the private key.
    pub fn check_files(&mut self) {
        for key in Config::own_declarations().iter().filter(|key| key.about.values.is_file) {
            if let Written::Value(toml::Value::String(path)) = (key.write)(&self.config)
                && let Err(error) = files::open(path.as_ref())
            {
                self.fail(
                    &key.about.path(),
                    &format!("\"{path}\" cannot be opened: {error}{}", remedy(path.as_ref(), &error)),
                );
            }
        }
    }

    /// Checks that the origin is not one of our own listeners. Only for commands that listen.
    pub fn check_loops(&mut self) {
        let Some(url) = &self.config.origin.url else { return };
        if let Some((key, listener)) = checks::own_listener(url, self.config.listeners()) {
            let problem = format!(
                "\"{url}\" is this server's own listener {listener} ({key}), so it would ask itself; set the address of the API to mirror"
            );
            self.fail("origin.url", &problem);
        }
    }

    pub fn finish(self) -> Result<Loaded, ConfigErrors> {
        let Self { config, warnings, errors, .. } = self;
        ConfigErrors::none_or(errors).map(|()| Loaded { config, warnings })
    }
}

named! {
    /// The four uses of grandstand, chosen by the configuration.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Use, as_str {
        /// Crawls the origin into a local snapshot and answers from it.
        Mirror = "mirror",
        /// Crawls nothing: a caching reverse proxy in front of the origin.
        Shield = "shield",
        /// Has no origin: answers from an imported bundle, and makes no outgoing connection unless `publish.url` or
        /// `rate_limit.store` is set.
        Offline = "offline",
        /// Has no origin: follows the bundles that a publisher writes to an object store.
        Replica = "replica",
    }
}

impl Use {
    pub const fn has_origin(self) -> bool {
        matches!(self, Self::Mirror | Self::Shield)
    }

    /// Whether the data is confirmed from time to time, by an origin or by a publisher.
    pub const fn is_confirmed(self) -> bool {
        matches!(self, Self::Mirror | Self::Replica)
    }
}

impl Config {
    /// Reads the configuration: `sets` over `env` over `file` over the defaults.
    ///
    /// `file`: the path after `--config`; `None` means that no file is read, not even one in the working directory.
    /// `env`: the whole environment, of which only `GRANDSTAND__SECTION__KEY` is used. `sets`: the arguments of
    /// `--set`, each `dotted.key=value`; the last one for a key wins.
    pub fn examine(file: Option<&Path>, env: impl Iterator<Item = (String, String)>, sets: &[String]) -> Examined {
        let mut examined =
            checks::resolve(sources::merge(file.map(|path| (path, sources::read_file(path))), env, sets));
        let is_of_file = |place: &ValueSource| matches!(place, ValueSource::File { .. });
        examined.config.file_has_keys = examined.places.values().flatten().any(is_of_file);
        examined
    }

    /// The same, without mistakes.
    pub fn load(
        file: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Loaded, ConfigErrors> {
        Self::examine(file, env, sets).finish()
    }

    /// Checks that a reload can read this file again.
    pub(crate) fn expect_lasting(file: Option<&Path>) -> Result<(), ConfigErrors> {
        file.map_or(Ok(()), sources::expect_lasting)
    }

    /// The configuration with the bound addresses, `public` in the order of `listen`: with real ports, also in a
    /// default `public_url`. `tls`: those of the HTTPS listener, if there is one.
    #[must_use]
    pub fn listening_on(mut self, public: Vec<SocketAddr>, tls: Vec<SocketAddr>, admin: SocketAddr) -> Self {
        if let Some(https) = &mut self.tls {
            https.listen = tls;
        }
        if let Some(first) = public.first().filter(|_| !self.public_url_is_set) {
            self.public_url = BaseUrl::of_listener(*first);
        }
        Self { listen: public, admin: AdminConfig { listen: admin, ..self.admin }, ..self }
    }

    fn listeners(&self) -> Vec<(&'static str, SocketAddr)> {
        let public = self.listen.iter().map(|address| ("listen", *address));
        let tls = self.tls.iter().flat_map(|tls| &tls.listen).map(|address| ("tls.listen", *address));
        public.chain(tls).chain([("admin.listen", self.admin.listen)]).collect()
    }

    /// The effective configuration as TOML, every key in the order of [`keys`].
    ///
    /// It loads again to an equal configuration. Comments stand in the place of `admin.token`, a `rate_limit.store` with
    /// a password, and options of object stores.
    pub fn describe(&self) -> String {
        written(self, &Self::own_declarations())
    }

    pub fn keys() -> Vec<String> {
        Self::own_declarations().iter().map(|key| key.about.path()).collect()
    }

    /// Which of the four uses this configuration asks for.
    pub fn usage(&self) -> Use {
        match (&self.origin.url, self.mirror.enabled, &self.replica.url) {
            (None, _, None) => Use::Offline,
            (None, _, Some(_)) => Use::Replica,
            (Some(_), true, _) => Use::Mirror,
            (Some(_), false, _) => Use::Shield,
        }
    }
}
