//! The publisher of this server, if the configuration asks for one.
//!
//! Callers: [`super::serve`].

use crate::config::Config;
use crate::fleet::place::Place;
use crate::fleet::publisher::status::PublishStatus;
use crate::fleet::publisher::{Publisher, Settings};

use super::core::Core;
use super::error::AppError;
use super::trusted_keys;

/// The publisher; `None`: nothing is written to an object store.
///
/// # Errors
/// When the options of the object store do not make a client.
pub(crate) fn of(config: &Config, core: &Core, status: &PublishStatus) -> Result<Option<Publisher>, AppError> {
    let publish = &config.publish;
    let (Some(url), Some(snapshots)) = (&publish.url, &core.snapshots) else { return Ok(None) };
    let place = Place::open(url, &publish.options).map_err(|error| AppError::Publish(error.to_string()))?;
    let settings = Settings {
        url: url.to_string(),
        sign_key: publish.sign_key.clone(),
        sign_password_file: publish.sign_password_file.clone(),
        trusted: trusted_keys(config)?,
        full_every: publish.full_every,
        keep: publish.keep,
        data_dir: config.data_dir.clone(),
    };
    let details = core.details.clone();
    Ok(Some(Publisher::new(settings, place, snapshots.clone(), details, core.clock.clone(), status.clone())))
}
