//! Gives a mirror with an empty disk its first data from an object store, once. After that it asks its origin, as any
//! mirror.
//!
//! If the object store fails, the mirror crawls instead. Callers: [`crate::app`], before the mirror runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use url::Url;

use super::{FollowError, Follower};
use crate::snapshots::follow::{Stand, Took};

/// Tries before the mirror crawls instead.
const TRIES: u32 = 3;
/// The pause between them.
const PAUSE: Duration = Duration::from_secs(2);

impl Follower {
    /// Imports the data of the object store, if nothing is stored here yet.
    pub(crate) async fn seed(mut self) {
        const CRAWLS: &str = "the object store gave no first data; everything is fetched from the origin";
        if self.snapshots.newest().load().is_some() {
            return;
        }
        for left in (0..TRIES).rev() {
            match self.seed_once().await {
                Ok(()) => tracing::info!("the first data came from the object store; the origin confirms it now"),
                Err(error @ (FollowError::NoHead | FollowError::Head(_) | FollowError::Foreign(_))) => {
                    tracing::warn!(%error, "{CRAWLS}");
                }
                Err(error) if left > 0 => {
                    tracing::warn!(%error, left, "the first data could not be fetched from the object store; trying again");
                    sleep(PAUSE).await;
                    continue;
                }
                Err(error) => tracing::warn!(%error, "{CRAWLS}"),
            }
            break;
        }
        self.fetcher.tidy(&[]);
    }

    async fn seed_once(&mut self) -> Result<(), FollowError> {
        let head = self.look().await?;
        let chain: Vec<_> = head.chain().collect();
        self.fetcher.tidy(&chain.iter().map(|named| named.blake3).collect::<Vec<_>>());
        let (steps, failure) = self.fetch_all(&head, &chain).await;
        match failure {
            // The origin knows the rest.
            Some(FollowError::Bad(error)) if !steps.is_empty() => {
                tracing::warn!(
                    error,
                    "the newest data in the object store cannot be taken; the mirror takes the data before it"
                );
            }
            Some(error) => return Err(error),
            None => {}
        }
        let theirs = steps.last().and_then(|last| last.bundle.manifest().origin.clone());
        if let Some(theirs) = theirs.filter(|theirs| !self.is_ours(theirs)) {
            return Err(FollowError::Foreign(theirs));
        }
        let journal = if steps.len() == chain.len() { self.journal(&head, &chain).await } else { None };
        let (usable, steps) = (steps.len(), Arc::new(steps));
        self.import(&head, &Stand::default(), &steps, usable, Took::Seed, journal).await
    }

    /// Whether an address is the origin's, or an alias of it.
    fn is_ours(&self, address: &str) -> bool {
        let url = Url::parse(address).ok();
        let is_it = |own: &String| own == address || Url::parse(own).ok() == url;
        self.snapshots.policy().origins.iter().any(is_it)
    }
}
