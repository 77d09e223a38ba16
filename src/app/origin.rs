//! The way to the origin: one client, and the caching proxy over it.
//!
//! Callers: [`super::core`].

use std::num::NonZeroU32;
use std::sync::Arc;

use url::Url;

use crate::api::links::Rewrite;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::config::{Config, Settings};
use crate::proxy::{Proxy, ProxyConfig};
use crate::store::DataDir;
use crate::upstream::budget::Budget;
use crate::upstream::client::{ClientConfig, ClientError, OriginClient};
use crate::upstream::forward::Forwarder;
use crate::upstream::status::OriginStatus;
use crate::upstream::wire::Wire;

use super::reload::{bound, longest_pause};

/// The way to the origin.
pub struct Origin {
    /// The polite client.
    pub client: OriginClient,
    /// Reads for clients.
    pub proxy: Proxy,
}

/// The client of one origin, with the budget whose ledger is in `data_dir`.
///
/// # Errors
/// When the CA file or the TLS library is unusable.
pub(crate) fn client(
    config: &Config,
    base: Url,
    data_dir: &DataDir,
    status: OriginStatus,
    clock: &Clock,
) -> Result<(OriginClient, Wire), ClientError> {
    let path = data_dir.path().join("budget");
    let limit = config.origin.requests_per_minute.map(NonZeroU32::get).map(|limit| limit as usize);
    let budget = Budget::open(limit, Some(&path), clock.clone());
    let client = ClientConfig {
        base,
        timeout: config.origin.timeout,
        max_body: config.origin.max_body.min(crate::store::MAX_BODY as u64),
        longest_pause: longest_pause(config),
    };
    let wire = Wire::new(client.timeout, &config.origin.user_agent, config.origin.ca_file.as_deref())?;
    let client = OriginClient::over(Arc::new(wire.clone()), client, budget, status, clock.clone());
    let client = client.with_cache_ttl(config.origin.cache_ttl);
    bound(&client, config);
    Ok((client, wire))
}

impl Origin {
    /// A proxy over `client`. `names`: other addresses under which clients and the origin name resources.
    pub fn new(
        config: &Config,
        settings: &Settings,
        (client, wire): (OriginClient, Wire),
        names: impl Iterator<Item = Url>,
        cache: &Cache,
        rewrite: &Rewrite,
        clock: &Clock,
    ) -> Self {
        let bases = std::iter::once(client.base().clone()).chain(names).collect();
        let bounds = ProxyConfig {
            wait: config.origin.wait,
            settings: settings.clone(),
            max_body: config.origin.max_body,
            allowed: config.passthrough.request_headers.clone(),
            bases,
            rewrite: rewrite.clone(),
            public_url: config.public_url.as_str().to_owned(),
        };
        let upstream = Forwarder::new(client.clone(), wire, clock.clone());
        let proxy = Proxy::new(upstream, cache.clone(), bounds, clock.clone());
        Self { client, proxy }
    }
}
