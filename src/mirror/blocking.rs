//! Runs disk work away from the threads that serve clients.
//!
//! Callers: [`super::copies`], [`super::details`], [`super::task`].

use crate::store::StoreError;

/// Runs `work` to its end on a blocking thread, even if the caller leaves.
///
/// # Errors
/// Those of `work`, and a store error if it panicked.
pub(super) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|error| StoreError::Io { path: "task".into(), source: std::io::Error::other(error) })?
}
