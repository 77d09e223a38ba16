//! The same job on many items, on all cores.
//!
//! Callers: [`super::publish`], [`super::load`], [`super::verify`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::fault::{self, Fault};

/// Runs `job` for `0..count` on at least two threads, each with a worker of its own, and returns the results in order.
///
/// # Errors
/// The first error of a job or of making a worker; the other threads stop then.
pub(super) fn run<W, T: Send>(
    count: usize,
    worker: impl Fn() -> Result<W, Fault> + Sync,
    job: impl Fn(&mut W, usize) -> Result<T, Fault> + Sync,
) -> Result<Vec<T>, Fault> {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, 8).min(count.max(1));
    let run_worker = || {
        let outcome = (|| {
            let mut worker = worker()?;
            let mut done = Vec::new();
            loop {
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= count {
                    return Ok(done);
                }
                done.push((item, job(&mut worker, item)?));
            }
        })();
        if outcome.is_err() {
            next.store(count, Ordering::Relaxed);
        }
        outcome
    };
    let parts: Vec<Result<Vec<(usize, T)>, Fault>> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(|| fault::guarded(run_worker))).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| Err(Fault::Panicked("a worker panicked".to_owned()))))
            .collect()
    });
    let mut results: Vec<Option<T>> = Vec::new();
    results.resize_with(count, || None);
    for part in parts {
        for (item, result) in part? {
            results[item] = Some(result);
        }
    }
    Ok(results.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    #[test]
    fn results_keep_their_order_and_an_error_stops() {
        let squares = run(1000, || Ok(()), |(), n| Ok(n * n)).unwrap();
        assert!(squares.iter().enumerate().all(|(n, square)| *square == n * n) && squares.len() == 1000);
        let fail = |(): &mut (), n| if n == 7 { Err(StoreError::NoSuchSnapshot(7).into()) } else { Ok(n) };
        assert!(matches!(run(1000, || Ok(()), fail), Err(Fault::Store(StoreError::NoSuchSnapshot(7)))));
        assert!(run(0, || Ok(()), |(), n| Ok(n)).unwrap().is_empty());
    }
}
