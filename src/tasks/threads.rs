//! Threads of a server: each logs where the server logs, and a periodic one ends with its owner.
//!
//! A process that runs one server has one log. A test runs several servers, and each has a log of its own, which its
//! threads and runtimes inherit from the thread that starts them. Callers: every room that starts a thread.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle, scope};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Dispatch;

thread_local! {
    static LOG: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
}

/// From now on this thread, and the threads and runtimes that it starts, log there, not to the log of the process.
pub(crate) fn log_to(log: &Dispatch) {
    LOG.with_borrow_mut(|own| *own = Some(log.clone()));
    // For the whole life of the thread.
    std::mem::forget(tracing::dispatcher::set_default(log));
}

/// The log of this thread; `None`: that of the process.
fn own_log() -> Option<Dispatch> {
    LOG.with_borrow(Clone::clone)
}

/// Work that logs where this thread does, on whichever thread it is done.
pub(crate) fn logging_here<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let log = own_log();
    move || {
        log.iter().for_each(log_to);
        work()
    }
}

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(logging_here(work))
}

/// Runs `one` on a thread of its own while `other` runs here, or after it if the system gives no thread.
pub(crate) fn beside<A: Send, B>(one: impl Fn() -> A + Sync, other: impl FnOnce() -> B) -> (A, B) {
    scope(|scope| {
        let thread = Builder::new().spawn_scoped(scope, &one);
        let other = other();
        let joined = thread.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (joined.unwrap_or_else(|_refused| one()), other)
    })
}

/// Runs `work` on so many threads, this one among them, or on as many as the system gives.
pub(crate) fn together(threads: usize, work: &(impl Fn() + Sync)) {
    scope(|scope| {
        (1..threads).for_each(|_| drop(Builder::new().spawn_scoped(scope, work)));
        work();
    });
}

/// How many of `needed` threads the system would give this process now.
pub(crate) fn available(needed: usize) -> usize {
    let gate = Mutex::new(());
    // Held until the last one is started: they are counted while all of them exist.
    let closed = gate.lock();
    scope(|scope| {
        let starts = |_: &usize| Builder::new().spawn_scoped(scope, || drop(gate.lock())).is_ok();
        let started = (0..needed).take_while(starts).count();
        drop(closed);
        started
    })
}

// For each runtime. A mirror has up to 13 (3 listeners, commands, 8 tasks, orders): 832 threads at most.
/// The most threads of a runtime that may block. They last as long as the runtime.
const BLOCKING: usize = 64;

/// A runtime with all of tokio's drivers, and a thread that may block: if the system refuses more of them, work waits.
pub(crate) fn runtime(name: &str, threads: usize) -> io::Result<tokio::runtime::Runtime> {
    let log = own_log();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(threads)
        .max_blocking_threads(BLOCKING)
        // A thread that ended might not be given again.
        .thread_keep_alive(Duration::MAX)
        .thread_name(name)
        .on_thread_start(move || log.iter().for_each(log_to))
        .build()?;
    // Without any, tokio panics.
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

/// Work that a thread of its own does periodically, until this is dropped.
#[derive(Debug)]
pub(crate) struct Periodic {
    /// Dropped first: the thread sees it.
    stop: Option<SyncSender<()>>,
    // A receiver is not `Sync`; nobody waits for this lock.
    ended: Mutex<Receiver<()>>,
}

impl Periodic {
    /// How long a stop waits for the work in hand.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// Starts a thread that works, then pauses for `every`, and so on.
    pub(crate) fn start(name: &str, every: Duration, mut work: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = sync_channel::<()>(0);
        let (end, ended) = sync_channel(1);
        spawn(name, move || {
            loop {
                work();
                if !matches!(stopped.recv_timeout(every), Err(RecvTimeoutError::Timeout)) {
                    break;
                }
            }
            // What the work holds is given back before the owner hears of the end.
            drop(work);
            // The owner may have lost its patience.
            let _gone = end.send(());
        })?;
        Ok(Self { stop: Some(stop), ended: Mutex::new(ended) })
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        self.stop = None;
        // An error: the work has panicked, and its thread has ended.
        let _ended = self.ended.get_mut().recv_timeout(Self::PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn periodic_work_has_ended_and_holds_nothing_once_its_owner_is_dropped() {
        let (count, (told, looked)) = (Arc::new(AtomicUsize::new(0)), sync_channel(8));
        let counted = count.clone();
        let periodic = Periodic::start("test", Duration::from_millis(1), move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let _full = told.try_send(());
        })
        .unwrap();
        (0..3).for_each(|_| looked.recv().unwrap());
        drop(periodic);
        assert_eq!(Arc::strong_count(&count), 1);
        // Without a pause: a long one does not hold the owner up.
        let began = std::time::Instant::now();
        drop(Periodic::start("test", Duration::from_secs(3600), || ()).unwrap());
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
