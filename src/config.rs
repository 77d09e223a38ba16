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
//! section, and a commented line in `config/*.toml`.

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
mod mirror;
mod origin;
mod parse;
mod passthrough;
mod rate_limit;
mod raw;
mod resolve;
mod secret;
mod section;
mod tls;
mod units;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use address::BaseUrl;
pub use admin::AdminConfig;
pub use bundle::{BundleConfig, TrustedKey};
pub use cache::CacheConfig;
pub use client_ip::ClientIpConfig;
pub use errors::{ConfigErrors, Finding, Place};
pub use limits::LimitsConfig;
pub use log::{LogConfig, LogFormat, LogLevel};
pub use mirror::{Details, MirrorConfig};
pub use origin::OriginConfig;
pub use passthrough::PassthroughConfig;
pub use rate_limit::{RateLimitConfig, RateLimitOverride};
pub use secret::{Secret, StoreUrl};
pub use tls::TlsConfig;

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
    /// Loads the configuration: `sets` over `env` over `file` over the defaults.
    ///
    /// `file`: the path after `--config`; `None` means that no file is read, not even one in the working
    /// directory. `env`: the whole environment, of which `GRANDSTAND__SECTION__KEY` is taken.
    /// `sets`: the arguments of `--set`, each `dotted.key=value`, the last of equals wins.
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
        let text = file.map(layers::read_file).transpose()?;
        resolve::resolve(layers::merge(file.zip(text.as_deref()), env, sets)?)
    }

    /// Loads the configuration from TOML text alone: no file, no environment.
    ///
    /// # Errors
    ///
    /// As [`Config::load`].
    pub fn from_text(text: &str) -> Result<Loaded, ConfigErrors> {
        let file = Some((Path::new("configuration"), text));
        resolve::resolve(layers::merge(file, std::iter::empty(), &[])?)
    }

    /// The configuration of a process that listens on these public sockets, the first of `listen` first: a `public_url`
    /// that nobody named becomes the address of that one, with its real port.
    #[must_use]
    pub fn listening_on(mut self, public: &[SocketAddr]) -> Self {
        if let Some(first) = public.first().filter(|_| !self.public_url_is_set) {
            self.public_url = BaseUrl::of_listener(*first);
        }
        self
    }

    /// Which of the three uses this configuration asks for.
    pub fn usage(&self) -> Use {
        match (&self.origin.url, self.mirror.enabled) {
            (None, _) => Use::Offline,
            (Some(_), true) => Use::Mirror,
            (Some(_), false) => Use::Shield,
        }
    }

    /// Checks that nothing is asked for that this version cannot do: a listener that would silently be missing, or a
    /// limit that would silently be another, is worse than none.
    ///
    /// # Errors
    ///
    /// One finding for each such key.
    pub fn check_supported(&self) -> Result<(), ConfigErrors> {
        let asked = [
            ("rate_limit.store", self.rate_limit.store.is_some(), "a shared limit is not there yet"),
            ("client_ip.proxy_protocol", self.client_ip.proxy_protocol, "the PROXY protocol is not understood yet"),
        ];
        let findings = asked.into_iter().filter(|(_, asked, _)| *asked);
        ConfigErrors::none_or(findings.map(|(key, _, problem)| Finding::new(Place::Default, key, problem)).collect())
    }

    /// Checks that the file which the configuration names can be opened: `origin.ca_file`. Not `tls.cert` and `tls.key`:
    /// those are judged by whoever serves with them, so that `status` runs for users who may not read the private key.
    ///
    /// # Errors
    ///
    /// One finding for each file that cannot be opened.
    pub fn check_files(&self) -> Result<(), ConfigErrors> {
        let named = [("origin.ca_file", self.origin.ca_file.as_deref())];
        let findings: Vec<Finding> = named
            .into_iter()
            .filter_map(|(key, path)| {
                let path = path?;
                let error = std::fs::File::open(path).err()?;
                let problem = format!("{:?} cannot be opened: {error}", path.display().to_string());
                Some(Finding::new(Place::Default, key, problem))
            })
            .collect();
        ConfigErrors::none_or(findings)
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
            limits: LimitsConfig::default(),
        }
    }
}
