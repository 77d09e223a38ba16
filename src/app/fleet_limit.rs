//! The limit of a fleet, from the configuration.
//!
//! Callers: [`super::serve`].

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Config;
use crate::limit::Limiter;
use crate::shared_limit::{SharedLimit, StoreConfig};

/// The limiter of `rate_limit.store`, not connected yet; `None`: it is not set.
pub(super) fn shared(config: &Config, limiter: &Arc<Limiter>, clock: &Clock) -> Option<Arc<SharedLimit>> {
    let limits = &config.rate_limit;
    let store = StoreConfig {
        url: limits.store.clone()?,
        password_file: limits.store_password_file.clone(),
        timeout: limits.store_timeout,
    };
    Some(Arc::new(SharedLimit::new(limiter.clone(), store, clock.clone())))
}
