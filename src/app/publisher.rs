//! The publisher of this server, if the configuration asks for one.
//!
//! Callers: [`super::serve`].

use crate::config::Config;
use crate::fleet::publisher::Publisher;
use crate::fleet::publisher::status::PublishStatus;

use super::core::Core;
use super::error::AppError;
use super::trusted_keys;

/// The publisher; `None`: nothing is written to an object store.
///
/// # Errors
/// When the options of the object store do not make a client, or a trusted key is invalid.
pub(crate) fn of(config: &Config, core: &Core, status: &PublishStatus) -> Result<Option<Publisher>, AppError> {
    let Some((snapshots, details)) = core.snapshots.clone().zip(core.details.clone()) else { return Ok(None) };
    let (others, clock) = (trusted_keys(config)?, core.clock.clone());
    let publisher = Publisher::open(config, others, snapshots, details, clock, status.clone());
    publisher.map_err(|error| AppError::Publish(error.to_string()))
}
