//! Connects a publisher, a replica, or a mirror that needs its first data, to an object store.
//!
//! Callers: [`super::core`], [`super::serve`]; `sync`, which uses [`mirror`].

use pingora::server::Server;
use pingora::services::background::background_service;

use crate::config::Config;
use crate::fleet::place::Place;
use crate::fleet::publisher::Publisher;
use crate::fleet::publisher::status::PublishStatus;
use crate::fleet::replica::{FollowState, Follower};
use crate::mirror::commands::Commands;
use crate::mirror::task::Mirror;

use super::core::Core;
use super::error::AppError;
use super::{Task, trusted_keys};

/// The publisher; `None`: nothing is written to an object store.
///
/// # Errors
/// When the options of the object store do not make a client, or a trusted key is invalid.
pub(super) fn publisher(config: &Config, core: &Core, status: &PublishStatus) -> Result<Option<Publisher>, AppError> {
    let Some((snapshots, details)) = core.snapshots.clone().zip(core.details.clone()) else { return Ok(None) };
    let (others, clock) = (trusted_keys(config)?, core.clock.clone());
    let publisher = Publisher::open(config, others, snapshots, details, clock, status.clone());
    publisher.map_err(|error| AppError::Publish(error.to_string()))
}

/// The follower of `replica.url`; `None`: it is not set.
///
/// # Errors
/// When its options do not make a client, or a trusted key is invalid.
pub(super) fn follower(config: &Config, core: &Core) -> Result<Option<Follower>, AppError> {
    let (Some(url), Some(snapshots)) = (&config.replica.url, &core.snapshots) else { return Ok(None) };
    let place = Place::open(url, &config.replica.options, &config.replica.proxy)
        .map_err(|why| AppError::Place { key: "replica.options", why: why.to_string() })?;
    let facts = &mut core.replica.lock().facts;
    (facts.url, facts.proxy) = (Some(url.to_string()), place.proxy.clone());
    Ok(Some(Follower {
        place,
        data_dir: core.data_dir.path().to_owned(),
        most: config.bundle.max_size,
        snapshots: snapshots.clone(),
        details: core.details.clone(),
        trusted: trusted_keys(config)?,
        clock: core.clock.clone(),
        status: core.replica.clone(),
        // Commands to a mirror are not for the one that seeds it.
        commands: if config.origin.url.is_some() { Commands::default() } else { core.commands.clone() },
        state: FollowState::default(),
    }))
}

/// Adds the services that keep the data current: a mirror, or the follower of an object store.
pub(super) fn keep_current(server: &mut Server, core: &mut Core) {
    match (core.mirror.take(), core.follower.take()) {
        (Some(own), seed) => {
            server.add_service(background_service("mirror", Task::new(mirror(own, seed))));
        }
        (None, Some(follower)) => {
            server.add_service(background_service("replica", Task::new(follower.run(core.settings.clone()))));
        }
        (None, None) => {}
    }
}

/// Mirrors until the process ends; takes the first data from the object store, if there is one.
pub(crate) async fn mirror(mirror: Mirror, seed: Option<Follower>) {
    if let Some(seed) = seed {
        seed.seed().await;
    }
    mirror.run().await;
}
