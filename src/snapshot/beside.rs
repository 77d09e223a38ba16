//! Two long, independent jobs at once.
//!
//! Callers: the indexes of [`super`].

use std::thread;

/// Runs `one` on a thread of its own while `other` runs here.
pub(super) fn beside<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}
