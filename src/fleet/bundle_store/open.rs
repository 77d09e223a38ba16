//! Configuration of the client of an object store: by its address, the environment and the options.
//!
//! The environment has the usual names (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`,
//! `AZURE_STORAGE_ACCOUNT_NAME` ...); an option wins over it. Nothing is connected. Callers: publisher, replica, and
//! `grandstand check`.

use std::sync::Arc;
use std::time::Duration;

use ct_codecs::{Base64, Encoder as _};
use http::HeaderValue;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use url::Position;

use super::client::StoreConnector;
use super::{BundleStore, BundleStoreError, CALL, PACE};
use crate::config::{ObjectStoreUrl, PASSWORD, Proxy, StoreKind, StoreOptions, USERNAME};

/// A pause before each retry of a small call, doubled each time. Longer ones are up to the caller.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const RETRIES: usize = 2;

/// Bodies may take any time; each piece has its own deadline.
const WHOLE: &str = "1d";

/// A builder with its environment, our settings, and the options over them.
macro_rules! build {
    ($builder:ty, $keys:ident, $endpoints:expr, $url:expr, $options:expr, $connector:expr) => {{
        let client = |key| $keys::Client(key);
        let mut builder = <$builder>::from_env()
            .with_url($url.url().as_str())
            .with_retry(retries())
            .with_config(client(ClientConfigKey::Timeout), WHOLE)
            .with_http_connector($connector);
        for (key, value) in $options.iter() {
            let key: $keys = key.parse().map_err(|error| wrong(&error))?;
            builder = builder.with_config(key, value);
        }
        // An endpoint without TLS was written on purpose.
        let is_cleartext = |key: &$keys| builder.get_config_value(key).is_some_and(|url| url.starts_with("http://"));
        if $endpoints.iter().any(is_cleartext) {
            builder = builder.with_config(client(ClientConfigKey::AllowHttp), "true");
        }
        let endpoint = $endpoints.iter().find_map(|key| builder.get_config_value(key));
        (Arc::new(builder.build().map_err(|error| wrong(&error))?) as Arc<dyn ObjectStore>, endpoint)
    }};
}

impl BundleStore {
    pub(crate) fn open(url: &ObjectStoreUrl, options: &StoreOptions, proxy: &Proxy) -> Result<Self, BundleStoreError> {
        let connector = StoreConnector { proxy: proxy.clone(), authorization: basic(options) };
        let (store, endpoint): (Arc<dyn ObjectStore>, _) = match url.kind() {
            StoreKind::S3 => {
                let endpoints = [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint];
                build!(AmazonS3Builder, AmazonS3ConfigKey, endpoints, url, options, connector)
            }
            StoreKind::Gcs => {
                build!(GoogleCloudStorageBuilder, GoogleConfigKey, [GoogleConfigKey::BaseUrl], url, options, connector)
            }
            StoreKind::Azure => {
                build!(MicrosoftAzureBuilder, AzureConfigKey, [AzureConfigKey::Endpoint], url, options, connector)
            }
            StoreKind::File => (Arc::new(LocalFileSystem::new()), None),
            StoreKind::Web => {
                let mut client = ClientOptions::new()
                    .with_config(ClientConfigKey::Timeout, WHOLE)
                    .with_allow_http(url.is_cleartext());
                for (key, value) in options.iter().filter(|(key, _)| ![USERNAME, PASSWORD].contains(key)) {
                    client = client.with_config(key.parse().map_err(|error| wrong(&error))?, value);
                }
                let builder = HttpBuilder::new().with_url(&url.url()[..Position::BeforePath]);
                let builder = builder.with_client_options(client).with_http_connector(connector).with_retry(retries());
                (Arc::new(builder.build().map_err(|error| wrong(&error))?), Some(url.to_string()))
            }
        };
        let prefix = Path::from_url_path(url.url().path()).map_err(|error| wrong(&error.into()))?;
        // Without an endpoint, the provider's own one: all of its names are alike for a list of exceptions.
        let endpoint = endpoint.as_deref().or(match url.kind() {
            StoreKind::S3 => Some("https://s3.amazonaws.com"),
            StoreKind::Gcs => Some("https://storage.googleapis.com"),
            StoreKind::Azure => Some("https://blob.core.windows.net"),
            StoreKind::File | StoreKind::Web => None,
        });
        let proxy = endpoint.and_then(|endpoint| proxy.shown_for(endpoint));
        Ok(Self { store, below: prefix, directory: url.directory(), proxy, period: PACE })
    }
}

/// Basic authentication (RFC 7617) with the user name and the password of the options; `None`: there are none.
fn basic(options: &StoreOptions) -> Option<HeaderValue> {
    let (user, password) = (options.get(USERNAME), options.get(PASSWORD));
    user.or(password)?;
    // Base64 of any text is a header value.
    let pair =
        Base64::encode_to_string(format!("{}:{}", user.unwrap_or_default(), password.unwrap_or_default())).ok()?;
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: Duration::from_secs(2), base: 2.0 };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: CALL }
}

/// The library's messages about options may show their values; its keys are enough.
fn wrong(error: &object_store::Error) -> BundleStoreError {
    let text = match error {
        object_store::Error::Generic { source, .. } => source.to_string(),
        error => error.to_string(),
    };
    let shown = match text.split_once("failed to parse \"").and_then(|(_, rest)| rest.rsplit_once("\" as ")) {
        Some((_, kind)) => format!("the value (not shown) is not a {}", kind.to_lowercase()),
        None => text,
    };
    BundleStoreError::Options(shown)
}
