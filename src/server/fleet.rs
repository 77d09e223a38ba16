//! Wiring of a publisher, a replica, or a mirror that needs its first data, to an object store.
//!
//! Callers: [`super::core`], [`super::serve`]; `sync`, which uses [`mirror`].

use crate::clock::Clock;
use crate::config::{Config, PublishConfig};
use crate::data::bundle::signature::{SignatureError, TrustedKeys};
use crate::data::store::DataDir;
use crate::fleet::bundle_store::BundleStore;
use crate::fleet::publisher::Publisher;
use crate::fleet::publisher::status::PublishStatus;
use crate::fleet::replica::status::ReplicaStatus;
use crate::fleet::replica::{FollowState, Follower};
use crate::mirror::commands::Commands;
use crate::mirror::task::Mirror;

use super::core::{Core, Data};
use super::error::AppError;

/// The keys whose bundles are imported; empty: signatures are not required.
pub(crate) fn trusted_keys(config: &Config) -> Result<TrustedKeys, SignatureError> {
    TrustedKeys::parse(config.bundle.trusted_keys.iter().map(String::as_str))
}

/// The publisher; `None`: nothing is written to an object store.
pub(super) fn publisher(config: &Config, core: &Core, status: &PublishStatus) -> Result<Option<Publisher>, AppError> {
    let Some(Data { snapshots, details, .. }) = core.data() else { return Ok(None) };
    let PublishConfig { url, options, proxy, .. } = &config.publish;
    let Some(url) = url else { return Ok(None) };
    let store = BundleStore::open(url, options, proxy)
        .map_err(|error| AppError::ObjectStore { key: "publish.options", why: error.to_string() })?;
    let (others, clock) = (trusted_keys(config)?, core.clock.clone());
    let (url, snapshots, details) = (url.to_string(), snapshots.clone(), details.clone());
    Ok(Some(Publisher::over(store, &url, config, others, snapshots, details, clock, status.clone())))
}

/// The follower of `replica.url`, with commands and a state of its own; `None`: it is not set.
pub(super) fn follower(
    config: &Config,
    data: &Data,
    data_dir: &DataDir,
    clock: &Clock,
) -> Result<Option<Follower>, AppError> {
    let Some(url) = &config.replica.url else { return Ok(None) };
    let store = BundleStore::open(url, &config.replica.options, &config.replica.proxy)
        .map_err(|why| AppError::ObjectStore { key: "replica.options", why: why.to_string() })?;
    let status = ReplicaStatus::default();
    {
        let facts = &mut status.lock().facts;
        (facts.url, facts.proxy) = (Some(url.to_string()), store.proxy.clone());
    }
    Ok(Some(Follower {
        store,
        data_dir: data_dir.path().to_owned(),
        snapshots: data.snapshots.clone(),
        details: data.details.clone(),
        trusted: trusted_keys(config)?,
        clock: clock.clone(),
        status,
        commands: Commands::default(),
        state: FollowState::default(),
    }))
}

/// Mirrors until the process ends; takes the first data from the object store, if there is one.
pub(crate) async fn mirror(mirror: Mirror, seed: Option<Follower>) {
    if let Some(seed) = seed {
        seed.seed().await;
    }
    mirror.run().await;
}
