//! Builds the shared limit, if it is configured.
//!
//! Callers: [`super::reload`].

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Settings;
use crate::limit::Limiter;
use crate::shared_limit::SharedLimit;

/// The limiter of `rate_limit.store`, not connected yet; `None`: it is not set.
pub(super) fn shared(settings: &Settings, limiter: &Arc<Limiter>, clock: &Clock) -> Option<Arc<SharedLimit>> {
    let store = settings.load().rate_limit.store.clone()?;
    Some(Arc::new(SharedLimit::new(limiter.clone(), store, settings.clone(), clock.clone())))
}
