//! Work that others wait for: on a thread that may block, or once for all who ask for the same.
//!
//! Callers: every room that reads the disk, computes for long, or shares a fetch.

pub(crate) mod single_flight;

/// The work ended without a result: it panicked, or the program ends.
#[derive(Debug, thiserror::Error)]
#[error("internal error: the task was aborted ({0})")]
pub struct Aborted(#[from] tokio::task::JoinError);

impl From<Aborted> for std::io::Error {
    fn from(aborted: Aborted) -> Self {
        Self::other(aborted)
    }
}

/// Runs work to its end on a thread that may block, even if the caller leaves.
///
/// # Errors
/// Those of the work, and [`Aborted`].
pub(crate) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Aborted> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|lost| Err(Aborted(lost).into()))
}
