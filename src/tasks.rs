//! Work that others wait for: on a thread that may block, or once for all who ask for the same; or that is done at once.
//!
//! Callers: every room that reads the disk, computes for long, or shares a fetch.

pub(crate) mod single_flight;
pub(crate) mod threads;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// The work ended without a result: it panicked, or the program ends.
#[derive(Debug, thiserror::Error)]
#[error("internal error: the task was aborted ({0})")]
pub struct Aborted(#[from] tokio::task::JoinError);

impl From<Aborted> for std::io::Error {
    fn from(aborted: Aborted) -> Self {
        Self::other(aborted)
    }
}

/// The result of `work`, if it is there without waiting. Otherwise the caller may go on waiting for it.
pub(crate) async fn at_once<F: Future + Unpin>(work: &mut F) -> Option<F::Output> {
    poll_fn(|cx| match Pin::new(&mut *work).poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Runs work to its end on a thread that may block, even if the caller leaves.
pub(crate) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Aborted> + Send + 'static,
{
    tokio::task::spawn_blocking(threads::logging_here(work)).await.unwrap_or_else(|lost| Err(Aborted(lost).into()))
}
