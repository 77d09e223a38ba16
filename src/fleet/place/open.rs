//! Makes the client of an object store from its address, the environment and the options.
//!
//! The environment has the usual names (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`,
//! `AZURE_STORAGE_ACCOUNT_NAME` ...); an option wins over it. Nothing is connected. Callers: publisher, replica, and
//! `grandstand check`.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{HttpClient, HttpConnector, ReqwestConnector};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use url::Position;

use super::{CALL, PACE, Place, PlaceError};
use crate::config::{ObjectStoreUrl, StoreKind, StoreOptions};

const USER_AGENT: &str = concat!("grandstand/", env!("CARGO_PKG_VERSION"));

/// A pause before each retry of a small call, doubled each time. Longer ones are up to the caller.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const RETRIES: usize = 2;

/// Bodies may take any time; each piece has its own deadline.
const WHOLE: &str = "1 day";

/// A builder with its environment, our settings, and the options over them.
macro_rules! build {
    ($builder:ty, $keys:ident, $endpoints:expr, $url:expr, $options:expr) => {{
        let client = |key| $keys::Client(key);
        let mut builder = <$builder>::from_env()
            .with_url($url.url().as_str())
            .with_retry(retries())
            .with_config(client(ClientConfigKey::Timeout), WHOLE)
            .with_config(client(ClientConfigKey::UserAgent), USER_AGENT)
            .with_http_connector(SameHost);
        for (key, value) in $options.iter() {
            let key: $keys = key.parse().map_err(|error| wrong(&error))?;
            builder = builder.with_config(key, value);
        }
        // An endpoint without TLS was written on purpose.
        let is_cleartext = |key: &$keys| builder.get_config_value(key).is_some_and(|url| url.starts_with("http://"));
        if $endpoints.iter().any(is_cleartext) {
            builder = builder.with_config(client(ClientConfigKey::AllowHttp), "true");
        }
        Arc::new(builder.build().map_err(|error| wrong(&error))?) as Arc<dyn ObjectStore>
    }};
}

impl Place {
    /// The place at an address.
    ///
    /// # Errors
    /// When the options or the environment do not make a client.
    pub(crate) fn open(url: &ObjectStoreUrl, options: &StoreOptions) -> Result<Self, PlaceError> {
        // The client takes the process's cryptography, which is the one of the rest of this program. An error means that
        // it is set already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store: Arc<dyn ObjectStore> = match url.kind() {
            StoreKind::S3 => {
                let endpoints = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
                build!(AmazonS3Builder, AmazonS3ConfigKey, endpoints, url, options)
            }
            StoreKind::Gcs => {
                build!(GoogleCloudStorageBuilder, GoogleConfigKey, [GoogleConfigKey::BaseUrl], url, options)
            }
            StoreKind::Azure => {
                build!(MicrosoftAzureBuilder, AzureConfigKey, [AzureConfigKey::Endpoint], url, options)
            }
            StoreKind::File => Arc::new(LocalFileSystem::new().with_fsync(true)),
            StoreKind::Web => {
                let mut client = ClientOptions::new()
                    .with_config(ClientConfigKey::Timeout, WHOLE)
                    .with_config(ClientConfigKey::UserAgent, USER_AGENT)
                    .with_allow_http(url.is_cleartext());
                for (key, value) in options.iter() {
                    client = client.with_config(key.parse().map_err(|error| wrong(&error))?, value);
                }
                let builder = HttpBuilder::new().with_url(&url.url()[..Position::BeforePath]);
                let builder = builder.with_client_options(client).with_http_connector(SameHost).with_retry(retries());
                Arc::new(builder.build().map_err(|error| wrong(&error))?)
            }
        };
        let prefix = Path::from_url_path(url.url().path()).map_err(|error| wrong(&error))?;
        Ok(Self { store, prefix, directory: url.directory(), period: PACE })
    }
}

type Set<T> = fn(reqwest::ClientBuilder, T) -> reqwest::ClientBuilder;
type Switch = fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder;

/// Makes clients that follow redirects only to the same scheme, host and port. The library's own connector has no such
/// setting, so this one reads the library's options.
#[derive(Debug)]
struct SameHost;

impl HttpConnector for SameHost {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        use ClientConfigKey as K;
        // It finds values that are not valid.
        drop(ReqwestConnector::default().connect(options)?);
        let generic = |source| object_store::Error::Generic { store: "HTTP client", source };
        let text = |key| options.get_config_value(&key);
        let is_on = |key| text(key).is_some_and(|value| value == "true");
        let time = |key| text(key).and_then(|value| humantime::parse_duration(&value).ok());
        let number = |key| text(key).and_then(|value| value.parse::<u32>().ok());
        let mut builder = reqwest::ClientBuilder::new()
            .redirect(reqwest::redirect::Policy::custom(follow))
            .user_agent(text(K::UserAgent).unwrap_or_else(|| USER_AGENT.to_owned()))
            .https_only(!is_on(K::AllowHttp))
            .danger_accept_invalid_certs(is_on(K::AllowInvalidCertificates))
            .http2_keep_alive_while_idle(is_on(K::Http2KeepAliveWhileIdle))
            .http2_keep_alive_interval(time(K::Http2KeepAliveInterval))
            .http2_max_frame_size(number(K::Http2MaxFrameSize));
        if let Some(url) = text(K::ProxyUrl) {
            let proxy = reqwest::Proxy::all(url).map_err(|error| generic(error.into()))?;
            let excludes = text(K::ProxyExcludes).and_then(|hosts| reqwest::NoProxy::from_string(&hosts));
            builder = builder.proxy(proxy.no_proxy(excludes));
            if let Some(pem) = text(K::ProxyCaCertificate) {
                let certificate = reqwest::Certificate::from_pem(pem.as_bytes());
                builder = builder.tls_certs_merge([certificate.map_err(|error| generic(error.into()))?]);
            }
        }
        let times: [(K, Set<Duration>); 5] = [
            (K::Timeout, |builder, time| builder.timeout(time)),
            (K::ConnectTimeout, |builder, time| builder.connect_timeout(time)),
            (K::ReadTimeout, |builder, time| builder.read_timeout(time)),
            (K::PoolIdleTimeout, |builder, time| builder.pool_idle_timeout(time)),
            (K::Http2KeepAliveTimeout, |builder, time| builder.http2_keep_alive_timeout(time)),
        ];
        for (key, set) in times {
            if let Some(time) = time(key) {
                builder = set(builder, time);
            }
        }
        if let Some(most) = number(K::PoolMaxIdlePerHost) {
            builder = builder.pool_max_idle_per_host(usize::try_from(most).unwrap_or(usize::MAX));
        }
        let switches: [(K, Switch); 3] = [
            (K::NoSystemCertificates, |builder| builder.tls_certs_only([])),
            (K::Http1Only, reqwest::ClientBuilder::http1_only),
            (K::Http2Only, reqwest::ClientBuilder::http2_prior_knowledge),
        ];
        for (key, set) in switches {
            if is_on(key) {
                builder = set(builder);
            }
        }
        builder.build().map(HttpClient::new).map_err(|error| generic(error.into()))
    }
}

/// The most redirects of one request.
const MOST_REDIRECTS: usize = 10;

fn follow(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    let of = |url: &url::Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    let Some(first) = attempt.previous().first() else { return attempt.stop() };
    if of(first) != of(attempt.url()) {
        let to = attempt.url()[..Position::BeforePath].to_owned();
        return attempt
            .error(format!("it redirects to {to}; only redirects to the same scheme, host and port are followed"));
    }
    if attempt.previous().len() > MOST_REDIRECTS {
        return attempt.error(format!("it redirects more than {MOST_REDIRECTS} times"));
    }
    attempt.follow()
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: Duration::from_secs(2), base: 2.0 };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: CALL }
}

/// The library's messages about options may show their values; its keys are enough.
fn wrong(error: &impl std::fmt::Display) -> PlaceError {
    let text = error.to_string();
    let shown = match text.split_once("failed to parse \"").and_then(|(_, rest)| rest.rsplit_once("\" as ")) {
        Some((_, kind)) => format!("the value (not shown) is not a {}", kind.to_lowercase()),
        None => text,
    };
    PlaceError::Options(shown)
}
