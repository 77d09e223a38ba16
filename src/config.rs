//! The configuration, resolved into types that cannot be wrong.
//!
//! Two stages. *Raw* (`raw`, `layers`): the file, the environment and `--set` become one tree in which every value
//! remembers its [`Place`]. *Resolved* (`resolve`, `section`): each section reads its keys from that tree into a
//! documented struct, and every mistake is collected, so that one run of `grandstand check` shows them all.
//!
//! Not here: acting on the configuration (`app` does), reading certificates, opening sockets.
//!
//! To add a key: give it a field, a default, a line in `read` and a line in `write` in the file of its section, a row
//! in `reference/keys.rs`, its name in `reference/live.rs`, and a commented line in `config/*.toml`. A key that a
//! reload changes has its line in `reload.rs`, too. Callers: the command line, at the start and at each reload; other
//! rooms read [`Settings`].

mod address;
mod admin;
mod bundle;
mod cache;
mod client_ip;
mod describe;
mod errors;
mod layers;
mod limits;
mod log;
mod loops;
mod mirror;
mod object_store;
mod origin;
mod pages;
mod parse;
mod passthrough;
mod publish;
mod rate_limit;
mod raw;
#[cfg(test)]
mod reference;
mod reload;
mod replica;
mod resolve;
mod secret;
mod section;
mod settings;
mod tls;
mod units;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use address::BaseUrl;
pub(crate) use admin::AdminConfig;
pub(crate) use bundle::{BundleConfig, TrustedKey};
pub(crate) use cache::CacheConfig;
pub(crate) use client_ip::ClientIpConfig;
pub(crate) use errors::{ConfigErrors, Finding, Place};
pub(crate) use limits::LimitsConfig;
pub(crate) use log::{AccessConfig, LogConfig, LogFormat, LogLevel};
pub(crate) use mirror::{Details, Edges, MirrorConfig};
pub(crate) use object_store::{ObjectStoreUrl, StoreKind, StoreOptions};
pub(crate) use origin::OriginConfig;
pub(crate) use pages::PagesConfig;
pub(crate) use passthrough::PassthroughConfig;
pub(crate) use publish::PublishConfig;
pub(crate) use rate_limit::RateLimitConfig;
pub(crate) use reload::{Changes, merge};
pub(crate) use replica::ReplicaConfig;
pub(crate) use secret::{Secret, StoreUrl};
pub use settings::Settings;
pub(crate) use tls::TlsConfig;

/// The whole configuration, checked and with every default filled in.
///
/// `Debug` shows neither `admin.token` nor the password of `rate_limit.store`, nor options of object stores.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Public addresses, cleartext HTTP; at least one, no two alike. Port 0: the system chooses.
    pub listen: Vec<SocketAddr>,
    /// The start of `api_url` and `Link` targets. By default the first of `listen`; a port 0 stays until
    /// [`Config::listening_on`] knows the real one.
    pub public_url: BaseUrl,
    /// Whether the operator named a `public_url`.
    pub public_url_is_set: bool,
    /// The directory of the snapshots and of the ledger. A relative path starts at the working directory.
    pub data_dir: PathBuf,
    /// How long clients may cache, and the time within which a refresh must happen; 100 ms to 24 h.
    pub ttl: Duration,
    /// How long a stop waits for requests in flight; 0 to 1 h.
    pub drain: Duration,
    /// `[origin]`: where the data comes from.
    pub origin: OriginConfig,
    /// `[mirror]`: the copy of the origin.
    pub mirror: MirrorConfig,
    /// `[rate_limit]`: the limit for one client.
    pub rate_limit: RateLimitConfig,
    /// `[client_ip]`: the address of a client.
    pub client_ip: ClientIpConfig,
    /// `[cache]`: answers kept in memory.
    pub cache: CacheConfig,
    /// `[bundle]`: which bundles are believed.
    pub bundle: BundleConfig,
    /// `[passthrough]`: forwarding of unknown paths.
    pub passthrough: PassthroughConfig,
    /// `[admin]`: the listener for operators.
    pub admin: AdminConfig,
    /// `[tls]`: the public HTTPS listener, if any.
    pub tls: Option<TlsConfig>,
    /// `[log]`: form and detail of the log.
    pub log: LogConfig,
    /// The access log, also in `[log]`.
    pub access: AccessConfig,
    /// `[pages]`: the pages for people.
    pub pages: PagesConfig,
    /// `[limits]`: bounds on connections and memory.
    pub limits: LimitsConfig,
    /// `[publish]`: the object store that replicas follow.
    pub publish: PublishConfig,
    /// `[replica]`: the store that is followed.
    pub replica: ReplicaConfig,
}

/// The upper bound of `drain`.
pub(crate) const MOST_DRAIN: Duration = Duration::from_secs(3600);

/// A configuration, and its legal but suspicious values.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// Warnings for the operator.
    pub warnings: Vec<Finding>,
}

/// A configuration, valid or not, with all findings.
#[derive(Debug)]
pub struct Examined {
    /// The configuration; keys with a mistake have their defaults.
    pub config: Config,
    /// Warnings for the operator.
    pub warnings: Vec<Finding>,
    errors: Vec<Finding>,
    /// Every key, with the place of its value.
    places: BTreeMap<String, Option<Place>>,
}

impl Examined {
    /// Whether this key was set.
    pub fn is_set(&self, key: &str) -> bool {
        self.places.get(key).is_some_and(Option::is_some)
    }

    /// Adds a mistake in the value of a key.
    pub fn fail(&mut self, key: &str, problem: &impl ToString) {
        let place = self.places.get(key).cloned().flatten().unwrap_or(Place::Default);
        self.errors.push(Finding::new(place, key, problem.to_string()));
    }

    /// Checks that the files that the configuration names can be opened. Not `tls.cert` and `tls.key`, which only the
    /// server checks: `status` must run for users who cannot read the private key.
    pub fn check_files(&mut self) {
        let (publish, limit) = (&self.config.publish, &self.config.rate_limit);
        let files = [
            ("origin.ca_file", &self.config.origin.ca_file),
            ("publish.sign_key", &publish.sign_key),
            ("publish.sign_password_file", &publish.sign_password_file),
            ("rate_limit.store_password_file", &limit.store_password_file),
        ];
        let unreadable = files.into_iter().filter_map(|(key, path)| {
            let path = path.as_ref()?;
            let error = std::fs::File::open(path).err()?;
            Some((key, format!("\"{}\" cannot be opened: {error}", path.display())))
        });
        for (key, problem) in unreadable.collect::<Vec<_>>() {
            self.fail(key, &problem);
        }
    }

    /// Checks that the origin is not one of our own listeners. Only for commands that listen. A name that cannot be
    /// resolved now is accepted.
    pub fn check_loops(&mut self) {
        let Some(url) = &self.config.origin.url else { return };
        let found = loops::own_listener(url, self.config.listeners().into_iter(), loops::resolve, loops::is_local);
        if let Some((key, listener)) = found {
            let problem = format!(
                "\"{url}\" is this server's own listener {listener} ({key}), so it would ask itself; set the address of the API to mirror"
            );
            self.fail("origin.url", &problem);
        }
    }

    /// The configuration, if it has no mistakes.
    ///
    /// # Errors
    /// With every mistake.
    pub fn finish(self) -> Result<Loaded, ConfigErrors> {
        let Self { config, warnings, errors, .. } = self;
        ConfigErrors::none_or(errors).map(|()| Loaded { config, warnings })
    }
}

/// The four uses of grandstand, chosen by the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// Crawls the origin into a local snapshot and answers from it.
    Mirror,
    /// Crawls nothing: a caching reverse proxy in front of the origin.
    Shield,
    /// Has no origin: answers from an imported bundle, and makes no outgoing connection unless `publish.url` or
    /// `rate_limit.store` is set.
    Offline,
    /// Has no origin: follows the bundles that a publisher writes to an object store.
    Replica,
}

impl Use {
    /// The word for it in logs, metrics and `/status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mirror => "mirror",
            Self::Shield => "shield",
            Self::Offline => "offline",
            Self::Replica => "replica",
        }
    }
}

impl Use {
    /// Whether an origin is asked.
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
        resolve::resolve(layers::merge(file.map(|path| (path, layers::read_file(path))), env, sets))
    }

    /// The same, without mistakes.
    ///
    /// # Errors
    ///
    /// All mistakes at once: a file that cannot be read or is not TOML, unknown keys, wrong types, values out of
    /// bounds, keys that contradict each other.
    pub fn load(
        file: Option<&Path>,
        env: impl Iterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Loaded, ConfigErrors> {
        Self::examine(file, env, sets).finish()
    }

    /// Loads the configuration from TOML text alone: no file, no environment.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn from_text(text: &str) -> Result<Loaded, ConfigErrors> {
        let file = Some((Path::new("configuration"), Ok(text.to_owned())));
        resolve::resolve(layers::merge(file, std::iter::empty(), &[])).finish()
    }

    /// The configuration with the bound addresses, `public` in the order of `listen`: with real ports, also in a
    /// default `public_url`.
    #[must_use]
    pub fn listening_on(mut self, public: Vec<SocketAddr>, admin: SocketAddr) -> Self {
        if let Some(first) = public.first().filter(|_| !self.public_url_is_set) {
            self.public_url = BaseUrl::of_listener(*first);
        }
        Self { listen: public, admin: AdminConfig { listen: admin, ..self.admin }, ..self }
    }

    /// Every listener's address, with its key.
    fn listeners(&self) -> Vec<(&'static str, SocketAddr)> {
        let public = self.listen.iter().map(|address| ("listen", *address));
        let tls = self.tls.iter().flat_map(|tls| &tls.listen).map(|address| ("tls.listen", *address));
        public.chain(tls).chain([("admin.listen", self.admin.listen)]).collect()
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

impl Default for Config {
    /// The defaults: offline, on loopback.
    fn default() -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 8080));
        Self {
            listen: vec![listen],
            public_url: BaseUrl::of_listener(listen),
            public_url_is_set: false,
            data_dir: PathBuf::from("grandstand-data"),
            ttl: Duration::from_secs(5 * 60),
            drain: Duration::from_secs(5),
            origin: OriginConfig::default(),
            mirror: MirrorConfig::default(),
            rate_limit: RateLimitConfig::default(),
            client_ip: ClientIpConfig::default(),
            cache: CacheConfig::default(),
            bundle: BundleConfig::default(),
            passthrough: PassthroughConfig::default(),
            admin: AdminConfig::default(),
            tls: None,
            log: LogConfig::default(),
            access: AccessConfig::default(),
            pages: PagesConfig::default(),
            limits: LimitsConfig::default(),
            publish: PublishConfig::default(),
            replica: ReplicaConfig::default(),
        }
    }
}
