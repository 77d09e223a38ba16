//! Blocking and shared work: on a thread that may block, or once for all who ask for the same; or done at once.
//!
//! Callers: every room that reads the disk, computes for long, or shares a fetch.

pub(crate) mod fair;
pub(crate) mod single_flight;
pub(crate) mod threads;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long work waits for a thread that may block.
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long work without a thread is reported.
const TOLD: Duration = Duration::from_secs(60);

/// How much work got no thread lately, and when the last of it gave up. The threads are the process's.
static REFUSED: Mutex<Option<(u64, Instant)>> = Mutex::new(None);

/// How much work got no thread, until a minute has passed without any; 0: all got one.
pub(crate) fn refused() -> u64 {
    let mut refused = REFUSED.lock();
    refused.take_if(|(_, at)| at.elapsed() >= TOLD);
    refused.map_or(0, |(count, _)| count)
}

fn refuse() -> Aborted {
    let mut refused = REFUSED.lock();
    refused.take_if(|(_, at)| at.elapsed() >= TOLD);
    *refused = Some((refused.map_or(0, |(count, _)| count) + 1, Instant::now()));
    Aborted::NoThread
}

/// The work ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum Aborted {
    /// It panicked, or the program ends.
    #[error("internal error: the task was aborted ({0})")]
    Lost(#[from] tokio::task::JoinError),
    /// It has not begun, and never will.
    #[error("no thread was free for {} seconds; see whether the disk answers", PATIENCE.as_secs())]
    NoThread,
}

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

/// Runs work to its end on a thread that may block, even if the caller leaves. Work that gets no thread in time is dropped.
pub(crate) async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Aborted> + Send + 'static,
{
    let waiting = Arc::new(Mutex::new(Some(threads::logging_here(work))));
    let next = waiting.clone();
    let mut running = tokio::task::spawn_blocking(move || {
        // Taken once, here or by the caller that gives up: work that was dropped never begins.
        let work = next.lock().take();
        work.map_or_else(|| Err(Aborted::NoThread.into()), |work| work())
    });
    let done = match tokio::time::timeout(PATIENCE, &mut running).await {
        Ok(done) => done,
        // Tokio would hold the work, and all that it has taken, until there is a thread.
        Err(_elapsed) if waiting.lock().take().is_some() => return Err(refuse().into()),
        // It has begun, and a thread cannot be stopped: the caller waits for its end, however long that takes.
        Err(_elapsed) => running.await,
    };
    done.unwrap_or_else(|lost| Err(Aborted::Lost(lost).into()))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn work_that_gets_no_thread_is_given_up_and_work_that_has_one_is_not() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let ((go, may_go), (begins, begun)) = (channel::<()>(), tokio::sync::oneshot::channel());
            let first = tokio::spawn(blocking(move || {
                begins.send(()).unwrap();
                may_go.recv().map_err(io::Error::other)
            }));
            begun.await.unwrap();
            let held = Arc::new(());
            let second = tokio::spawn({
                let held = held.clone();
                blocking(move || {
                    drop(held);
                    Ok::<_, io::Error>(())
                })
            });
            while Arc::strong_count(&held) < 2 {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
            tokio::time::advance(2 * PATIENCE).await;
            let refused = second.await.unwrap().unwrap_err();
            assert!(refused.to_string().contains("no thread was free"), "{refused}");
            assert_eq!(Arc::strong_count(&held), 1, "what it holds is free");
            assert_eq!(super::refused(), 1);
            tokio::time::advance(TOLD).await;
            assert_eq!(super::refused(), 0, "it is over");
            assert!(!first.is_finished());
            go.send(()).unwrap();
            first.await.unwrap().unwrap();
            blocking(|| Ok::<_, io::Error>(())).await.unwrap();
        });
    }
}
