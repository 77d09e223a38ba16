//! The configuration: what the operator says, resolved into types that cannot be wrong.
//!
//! Two stages. *Raw* (`raw`, `layers`): the file, the environment and `--set` become one tree in
//! which every value remembers its [`Place`]. *Resolved* (`resolve`, `section`): each section reads its keys from
//! that tree into a documented struct, and every mistake is collected, so that one run of
//! `grandstand check` shows them all.
//!
//! Not here: acting on the configuration (`app` does), reading certificates, opening sockets. Called by
//! the command line, once, before anything else starts.
//!
//! To add a key: give it a field, a default, a line in `read` and a line in `write` in the file of its
//! section, a row in `reference/keys.rs`, and a commented line in `config/*.toml`.

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
mod origin;
mod pages;
mod parse;
mod passthrough;
mod rate_limit;
mod raw;
#[cfg(test)]
mod reference;
mod resolve;
mod secret;
mod section;
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
pub(crate) use log::{LogConfig, LogFormat, LogLevel};
pub(crate) use mirror::{Details, MirrorConfig};
pub(crate) use origin::OriginConfig;
pub(crate) use pages::PagesConfig;
pub(crate) use passthrough::PassthroughConfig;
pub(crate) use rate_limit::RateLimitConfig;
pub(crate) use secret::Secret;
pub(crate) use tls::TlsConfig;

/// The whole configuration, checked and with every default filled in.
///
/// `Debug` shows neither `admin.token` nor the password of `rate_limit.store`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Public addresses, cleartext HTTP; at least one, no two alike. Port 0: the system chooses.
    pub listen: Vec<SocketAddr>,
    /// What `api_url` and `Link` targets start with. Where the operator names none, the first of `listen`; its port is 0
    /// then until [`Config::listening_on`] knows it.
    pub public_url: BaseUrl,
    /// Whether the operator named a `public_url`.
    pub public_url_is_set: bool,
    /// Where the snapshot and the sync state live. A relative path is relative to the working directory.
    pub data_dir: PathBuf,
    /// Freshness that clients are promised, and the time by which a refresh must have happened; 100 ms to 24 h.
    pub ttl: Duration,
    /// How long a stop waits for requests in flight; 0 to 1 h.
    pub drain: Duration,
    /// `[origin]`: where the data comes from.
    pub origin: OriginConfig,
    /// `[mirror]`: what is kept of it.
    pub mirror: MirrorConfig,
    /// `[rate_limit]`: how much one client may ask.
    pub rate_limit: RateLimitConfig,
    /// `[client_ip]`: who counts as one client.
    pub client_ip: ClientIpConfig,
    /// `[cache]`: answers kept in memory.
    pub cache: CacheConfig,
    /// `[bundle]`: which bundles are believed.
    pub bundle: BundleConfig,
    /// `[passthrough]`: what is forwarded beyond the known endpoints.
    pub passthrough: PassthroughConfig,
    /// `[admin]`: the listener for operators.
    pub admin: AdminConfig,
    /// `[tls]`: the public HTTPS listener. `None`: there is none.
    pub tls: Option<TlsConfig>,
    /// `[log]`: form and detail of the log.
    pub log: LogConfig,
    /// `[pages]`: the pages for people.
    pub pages: PagesConfig,
    /// `[limits]`: what clients and the origin can make this process hold.
    pub limits: LimitsConfig,
}

/// A configuration and what is legal in it but probably not meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Things to tell the operator; empty when nothing stands out.
    pub warnings: Vec<Finding>,
}

/// A configuration, right or wrong, with everything that was found in it.
#[derive(Debug)]
pub struct Examined {
    /// The configuration; keys with a mistake have their defaults.
    pub config: Config,
    /// Things to tell the operator.
    pub warnings: Vec<Finding>,
    errors: Vec<Finding>,
    /// Every key that there is, with the place of its value.
    places: BTreeMap<String, Option<Place>>,
}

impl Examined {
    /// Whether anybody set this key.
    pub fn is_set(&self, key: &str) -> bool {
        self.places.get(key).is_some_and(Option::is_some)
    }

    /// Adds a mistake in the value of a key, for those who put it to use.
    pub fn fail(&mut self, key: &str, problem: &impl ToString) {
        let place = self.places.get(key).cloned().flatten().unwrap_or(Place::Default);
        self.errors.push(Finding::new(place, key, problem.to_string()));
    }

    /// Checks that nothing is asked for that this version cannot do: a listener that would silently be missing, or a
    /// limit that would silently be another, is worse than none.
    pub fn check_supported(&mut self) {
        if self.config.rate_limit.store.is_some() {
            self.fail("rate_limit.store", &"a shared limit is not there yet");
        }
        if self.config.client_ip.proxy_protocol {
            self.fail("client_ip.proxy_protocol", &"the PROXY protocol is not understood yet");
        }
    }

    /// Checks that the file which the configuration names can be opened: `origin.ca_file`. Not `tls.cert` and `tls.key`:
    /// those are judged by whoever serves with them, so that `status` runs for users who may not read the private key.
    pub fn check_files(&mut self) {
        let Some(path) = &self.config.origin.ca_file else { return };
        if let Err(error) = std::fs::File::open(path) {
            let problem = format!("\"{}\" cannot be opened: {error}", path.display());
            self.fail("origin.ca_file", &problem);
        }
    }

    /// Checks that the origin is none of our own listeners: the server would ask itself. For those who listen. A name that
    /// cannot be resolved now is no mistake.
    pub fn check_loops(&mut self) {
        let Some(url) = &self.config.origin.url else { return };
        let found = loops::own_listener(url, self.config.listeners().into_iter(), loops::resolve, loops::is_local);
        if let Some((key, listener)) = found {
            let problem = format!(
                "\"{url}\" leads to this server's own listener {listener} ({key}), so that it would ask itself; set the \
                 address of the API that is mirrored"
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

/// The three uses of grandstand, told apart by configuration alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// Crawls the origin into a local snapshot and answers from it.
    Mirror,
    /// Crawls nothing: a caching reverse proxy in front of the origin.
    Shield,
    /// Has no origin: answers from an imported bundle and makes no outgoing connection.
    Offline,
}

impl Use {
    /// The word for it in logs, metrics and `/status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mirror => "mirror",
            Self::Shield => "shield",
            Self::Offline => "offline",
        }
    }
}

impl Config {
    /// Reads the configuration: `sets` over `env` over `file` over the defaults.
    ///
    /// `file`: the path after `--config`; `None` means that no file is read, not even one in the working
    /// directory. `env`: the whole environment, of which `GRANDSTAND__SECTION__KEY` is taken.
    /// `sets`: the arguments of `--set`, each `dotted.key=value`, the last of equals wins.
    pub fn examine(file: Option<&Path>, env: impl Iterator<Item = (String, String)>, sets: &[String]) -> Examined {
        resolve::resolve(layers::merge(file.map(|path| (path, layers::read_file(path))), env, sets))
    }

    /// The same, of which only one without mistakes is of use.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, at once: a file that cannot be read or is not TOML, unknown keys, wrong
    /// types, values out of bounds, keys that contradict each other.
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

    /// The configuration of a process that has bound these addresses, `public` in the order of `listen`: with real ports,
    /// also in a `public_url` that nobody named.
    #[must_use]
    pub fn listening_on(mut self, public: Vec<SocketAddr>, admin: SocketAddr) -> Self {
        if let Some(first) = public.first().filter(|_| !self.public_url_is_set) {
            self.public_url = BaseUrl::of_listener(*first);
        }
        Self { listen: public, admin: AdminConfig { listen: admin, ..self.admin }, ..self }
    }

    /// Every address that is listened on, with its key.
    fn listeners(&self) -> Vec<(&'static str, SocketAddr)> {
        let public = self.listen.iter().map(|address| ("listen", *address));
        let tls = self.tls.iter().flat_map(|tls| &tls.listen).map(|address| ("tls.listen", *address));
        public.chain(tls).chain([("admin.listen", self.admin.listen)]).collect()
    }

    /// Which of the three uses this configuration asks for.
    pub fn usage(&self) -> Use {
        match (&self.origin.url, self.mirror.enabled) {
            (None, _) => Use::Offline,
            (Some(_), true) => Use::Mirror,
            (Some(_), false) => Use::Shield,
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
            pages: PagesConfig::default(),
            limits: LimitsConfig::default(),
        }
    }
}
