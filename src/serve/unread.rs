//! Bounds the answers that wait for a slow HTTP/2 client, in bytes: for each connection and for each household.
//!
//! A stream takes room before its answer is made, so a stream without room holds no answer. The bytes of the answer carry
//! the room: it is free again when the HTTP/2 code drops them. Callers: [`super::connections`] has the rooms,
//! [`super::http2`] and [`super::public`] take them.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::write::{PIECE, STREAMS};

/// The unit, in bytes.
const UNIT: usize = 1024;
/// For one connection: a piece of each stream.
pub(super) const OF_CONNECTION: usize = STREAMS as usize * PIECE;
/// For all connections of one household.
const OF_HOUSEHOLD: usize = 4 * OF_CONNECTION;
/// For an answer whose length is not known yet: nearly every answer is shorter.
const EXPECTED: usize = 256 << 10;

const fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

/// The room that all connections of a household share.
#[derive(Clone, Debug)]
pub(super) struct HouseholdRoom(Arc<Semaphore>);

impl Default for HouseholdRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(units(OF_HOUSEHOLD))))
    }
}

/// The room of one connection.
#[derive(Debug)]
pub(super) struct Room {
    connection: Arc<Semaphore>,
    household: HouseholdRoom,
}

impl Room {
    pub(super) fn new(household: HouseholdRoom) -> Self {
        Self { connection: Arc::new(Semaphore::new(units(OF_CONNECTION))), household }
    }

    /// How many bytes of answers wait, or are expected.
    pub(super) fn held(&self) -> usize {
        OF_CONNECTION.saturating_sub(self.connection.available_permits() * UNIT)
    }

    /// Waits until there is room for one more answer.
    pub(super) async fn enter(&self) -> Unread {
        let mut parts = [None, None];
        for (part, room) in parts.iter_mut().zip([&self.connection, &self.household.0]) {
            // Never closed.
            *part = room.clone().acquire_many_owned(units(EXPECTED) as u32).await.ok();
        }
        Unread(parts)
    }
}

/// The room of one answer, until it is dropped.
#[derive(Debug)]
pub(super) struct Unread([Option<OwnedSemaphorePermit>; 2]);

impl Unread {
    /// The answer has so many bytes. A longer one than expected gets what room there is: it is made already.
    pub(super) fn resize(&mut self, bytes: usize) {
        for part in self.0.iter_mut().flatten() {
            let (has, needs) = (part.num_permits(), units(bytes));
            if needs < has {
                drop(part.split(has - needs));
            } else {
                let room = part.semaphore().clone();
                let more = (needs - has).min(room.available_permits());
                if let Some(more) = u32::try_from(more).ok().and_then(|more| room.try_acquire_many_owned(more).ok()) {
                    part.merge(more);
                }
            }
        }
    }
}

/// These bytes, which keep `room` until they are dropped.
pub(super) fn carried(bytes: Bytes, room: impl Send + 'static) -> Bytes {
    if bytes.is_empty() { bytes } else { Bytes::from_owner(Carried { bytes, _room: room }) }
}

struct Carried<R> {
    bytes: Bytes,
    _room: R,
}

impl<R> AsRef<[u8]> for Carried<R> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
