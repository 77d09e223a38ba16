//! The bounds of a client that a reload changes.
//!
//! Callers: [`super`].

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::upstream::room::Room;

/// Room for bodies, and the longest pause.
pub(super) struct Bounds(ArcSwap<CurrentBounds>);

struct CurrentBounds {
    room: Room,
    bytes: u64,
    longest_pause: Duration,
}

impl Bounds {
    pub(super) fn new(bytes: u64, max_body: u64, longest_pause: Duration) -> Self {
        Self(ArcSwap::from_pointee(CurrentBounds { room: Room::new(bytes, max_body), bytes, longest_pause }))
    }

    /// Bodies that are under way keep the room that they have: until they end, old and new room add up.
    pub(super) fn set(&self, bytes: u64, max_body: u64, longest_pause: Duration) {
        let now = self.0.load();
        let room = if now.bytes == bytes { now.room.clone() } else { Room::new(bytes, max_body) };
        self.0.store(Arc::new(CurrentBounds { room, bytes, longest_pause }));
    }

    pub(super) fn room(&self) -> Room {
        self.0.load().room.clone()
    }

    pub(super) fn longest_pause(&self) -> Duration {
        self.0.load().longest_pause
    }
}
