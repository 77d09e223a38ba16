//! The open connections: limited in all and per household. When all are taken, the one that is idle longest is closed.
//!
//! A connection is idle while the server waits for its client: between requests, before the first, in a handshake. This
//! module only decides; its callers close connections. It also counts requests in flight, for which a shutdown waits, and
//! bounds the answers that wait for a slow HTTP/2 client, in bytes, for each connection and for each household: a stream
//! takes room before its answer is made, and the bytes of the answer carry the room until the HTTP/2 code drops them.
//! Callers: [`super`], the modules beside this one, [`crate::admin::front`], [`crate::app`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::semantics::client_address::household;
use crate::telemetry::counters::ConnectionCounters;

use super::write::{PIECE, STREAMS};

/// How many of the longest idle connections one scan remembers.
const REMEMBERED: usize = 64;

/// The pause between two warnings that all connections are taken, in nanoseconds.
const TOLD_EVERY: u64 = 60_000_000_000;

/// How many may be connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MostConnections {
    /// The listener's name, for people.
    pub name: &'static str,
    /// In all.
    pub all: usize,
    /// Of one household.
    pub each: usize,
    /// How many leading bits of an IPv6 address make a household.
    pub ipv6_prefix: u8,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Its household has reached this limit.
    Household(usize),
    /// All connections are busy.
    All,
}

impl Full {
    /// Every word.
    pub(crate) const WORDS: [&str; 2] = [Self::Household(0).as_str(), Self::All.as_str()];

    /// The word for logs and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Household(_) => "client",
            Self::All => "all",
        }
    }

    /// The limit of the household, if that is the reason.
    pub(crate) const fn most(self) -> Option<usize> {
        if let Self::Household(most) = self { Some(most) } else { None }
    }
}

/// The connections; cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<ConnectionsState>);

struct ConnectionsState {
    room: ArcSwap<MostConnections>,
    /// The start of the count of idle times.
    start: Instant,
    /// Whether the server is stopping.
    closing: AtomicBool,
    counters: ConnectionCounters,
    table: Mutex<SeatTable>,
}

#[derive(Default)]
struct SeatTable {
    seats: Vec<Option<Arc<Seat>>>,
    free: Vec<usize>,
    households: HashMap<IpAddr, Household>,
    /// The longest idle connections at the last scan, the longest last. They stay the longest idle ones while they are
    /// idle.
    oldest: Vec<(u64, usize)>,
    /// The last warning that all connections are taken.
    told: Option<u64>,
}

#[derive(Default)]
struct Household {
    connections: usize,
    unread: HouseholdRoom,
}

/// One connection.
struct Seat {
    /// Since when it has been idle, in nanoseconds; counts while it is not busy.
    since: AtomicU64,
    /// Its requests in flight.
    busy: AtomicUsize,
    /// It must close.
    leave: Notify,
}

impl Seat {
    /// Since when it is idle; `None`: busy.
    fn idle_since(&self) -> Option<u64> {
        (self.busy.load(Ordering::Acquire) == 0).then(|| self.since.load(Ordering::Acquire))
    }
}

impl Connections {
    /// None yet.
    pub(crate) fn new(room: MostConnections, counters: ConnectionCounters) -> Self {
        Self(Arc::new(ConnectionsState {
            room: ArcSwap::from_pointee(room),
            start: Instant::now(),
            closing: AtomicBool::new(false),
            counters,
            table: Mutex::default(),
        }))
    }

    /// Admits a connection, which may close another one. `peer`: its household; `None` for a proxy.
    pub(crate) fn admit(&self, peer: Option<IpAddr>) -> Result<Connection, Full> {
        let counters = &self.0.counters;
        let admitted = self.seat(self.household(peer));
        match &admitted {
            Ok(_) => counters.opened(),
            Err(full) => counters.refused.add(full.as_str(), 1),
        }
        admitted
    }

    /// Changes the limits. Idle connections beyond them close, the longest idle ones first; busy ones stay.
    pub(crate) fn set_room(&self, room: MostConnections) {
        let inner = &*self.0;
        inner.room.store(Arc::new(room));
        let mut table = inner.table.lock();
        while table.open() > room.all
            && let Some(seat) = table.evict()
        {
            seat.leave.notify_one();
            inner.counters.evicted();
        }
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.0.table.lock().open()
    }

    pub(crate) fn household(&self, peer: Option<IpAddr>) -> Option<IpAddr> {
        peer.map(|peer| household(peer, self.0.room.load().ipv6_prefix))
    }

    fn seat(&self, household: Option<IpAddr>) -> Result<Connection, Full> {
        let inner = &*self.0;
        let room = **inner.room.load();
        let now = inner.nanoseconds(Instant::now());
        let mut table = inner.table.lock();
        let mine = household.and_then(|household| table.households.get(&household));
        if mine.is_some_and(|mine| mine.connections >= room.each) {
            return Err(Full::Household(room.each));
        }
        if table.open() >= room.all {
            if table.told.is_none_or(|told| now.saturating_sub(told) >= TOLD_EVERY) {
                table.told = Some(now);
                let (listeners, most) = (room.name, room.all);
                tracing::warn!(
                    listeners,
                    most,
                    "all connections are in use; each new one closes the one that is idle longest"
                );
            }
            table.evict().ok_or(Full::All)?.leave.notify_one();
            inner.counters.evicted();
        }
        let seat = Arc::new(Seat { since: now.into(), busy: AtomicUsize::new(0), leave: Notify::new() });
        let unread = household.map(|household| table.one_more_of(household));
        let place = table.seat(&seat);
        drop(table);
        Ok(Connection { connections: self.clone(), seat, place, household, unread, taken: AtomicU64::new(0) })
    }

    /// The server stops: idle connections close, and busy ones after their last answer.
    pub(crate) fn close(&self) {
        self.0.closing.store(true, Ordering::Release);
        for seat in self.0.table.lock().seats.iter().flatten() {
            seat.leave.notify_one();
        }
    }
}

impl ConnectionsState {
    fn nanoseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl SeatTable {
    fn open(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    /// Counts a connection for its household. Returns the room for its unread answers.
    fn one_more_of(&mut self, household: IpAddr) -> UnreadRoom {
        let household = self.households.entry(household).or_default();
        household.connections += 1;
        UnreadRoom::new(household.unread.clone())
    }

    fn seat(&mut self, seat: &Arc<Seat>) -> usize {
        let seat = Some(seat.clone());
        if let Some(place) = self.free.pop() {
            self.seats[place] = seat;
            place
        } else {
            self.seats.push(seat);
            self.seats.len() - 1
        }
    }

    /// Removes the longest idle connection; `None`: none is idle.
    fn evict(&mut self) -> Option<Arc<Seat>> {
        if let Some(seat) = self.evict_remembered() {
            return Some(seat);
        }
        let idle = self.seats.iter().enumerate();
        let mut idle: Vec<_> = idle.filter_map(|(place, seat)| Some((seat.as_ref()?.idle_since()?, place))).collect();
        if idle.len() > REMEMBERED {
            idle.select_nth_unstable(REMEMBERED - 1);
            idle.truncate(REMEMBERED);
        }
        idle.sort_unstable_by(|one, other| other.cmp(one));
        self.oldest = idle;
        self.evict_remembered()
    }

    fn evict_remembered(&mut self) -> Option<Arc<Seat>> {
        while let Some((since, place)) = self.oldest.pop() {
            // Two that became idle in the same nanosecond are interchangeable.
            if self.seats[place].as_ref().is_some_and(|seat| seat.idle_since() == Some(since)) {
                self.free.push(place);
                return self.seats[place].take();
            }
        }
        None
    }
}

/// An admitted connection, until it is dropped.
pub(crate) struct Connection {
    connections: Connections,
    seat: Arc<Seat>,
    place: usize,
    household: Option<IpAddr>,
    /// Bounds the answers that wait on an HTTP/2 connection; `None` for a proxy, whose many clients share it.
    unread: Option<UnreadRoom>,
    /// How many bytes the client has taken. Only HTTP/2 counts them.
    taken: AtomicU64,
}

impl Connection {
    /// From now on the connection counts for this household; `None`: for no household. To be called once.
    pub(crate) fn stand_for(&mut self, household: Option<IpAddr>) -> Result<(), Full> {
        let Some(household) = household else { return Ok(()) };
        let inner = &*self.connections.0;
        let each = inner.room.load().each;
        let mut table = inner.table.lock();
        if table.households.get(&household).is_some_and(|mine| mine.connections >= each) {
            inner.counters.refused.add(Full::Household(each).as_str(), 1);
            return Err(Full::Household(each));
        }
        self.unread = Some(table.one_more_of(household));
        self.household = Some(household);
        Ok(())
    }

    /// It is idle from now on.
    pub(crate) fn set_idle(&self, now: Instant) {
        self.seat.since.store(self.connections.0.nanoseconds(now), Ordering::Release);
        self.seat.busy.store(0, Ordering::Release);
    }

    /// It is busy: it is not closed for others.
    pub(crate) fn set_busy(&self) {
        self.seat.busy.store(1, Ordering::Release);
    }

    /// One of its streams is busy, until the value is dropped. Not for connections that are [set busy](Self::set_busy).
    pub(crate) fn stream(self: &Arc<Self>) -> Stream {
        self.seat.busy.fetch_add(1, Ordering::AcqRel);
        Stream(self.clone())
    }

    /// The number of its busy streams.
    pub(crate) fn streams(&self) -> usize {
        self.seat.busy.load(Ordering::Acquire)
    }

    /// When the last of its streams ended; `None`: one is busy.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        Some(self.connections.0.start + Duration::from_nanos(self.seat.idle_since()?))
    }

    /// The client has taken so many more bytes of its answers.
    pub(crate) fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many bytes of its answers the client has taken, on a connection with streams.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits for room for one more answer, on a connection with streams; `None` for a proxy, which needs none.
    pub(super) async fn room(&self) -> Option<Unread> {
        Some(self.unread.as_ref()?.enter().await)
    }

    /// How many bytes of its answers wait for the client, on a connection with streams; 0 for a proxy.
    pub(crate) fn unread(&self) -> usize {
        self.unread.as_ref().map_or(0, UnreadRoom::held)
    }

    /// Ends when the connection must close: for another one, or because the server stops.
    pub(crate) fn told_to_leave(&self) -> Notified<'_> {
        self.seat.leave.notified()
    }

    /// Whether the server stops.
    pub(crate) fn is_closing(&self) -> bool {
        self.connections.0.closing.load(Ordering::Acquire)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.0.counters.closed();
        let mut table = self.connections.0.table.lock();
        // Another one may have taken its place.
        if table.seats[self.place].as_ref().is_some_and(|seat| Arc::ptr_eq(seat, &self.seat)) {
            table.seats[self.place] = None;
            table.free.push(self.place);
        }
        if let Some(household) = self.household
            && let Some(mine) = table.households.get_mut(&household)
        {
            mine.connections -= 1;
            if mine.connections == 0 {
                table.households.remove(&household);
            }
        }
    }
}

/// A busy stream of a connection.
pub(crate) struct Stream(Arc<Connection>);

impl Stream {
    /// Its connection.
    pub(crate) fn connection(&self) -> &Connection {
        &self.0
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let seat = &self.0.seat;
        // In front of the count: with the last stream the connection is idle from then on. Of two that seem not to be the
        // last, one may be.
        let note = || seat.since.store(self.0.connections.0.nanoseconds(Instant::now()), Ordering::Release);
        let seems_last = seat.busy.load(Ordering::Acquire) == 1;
        if seems_last {
            note();
        }
        if seat.busy.fetch_sub(1, Ordering::AcqRel) == 1 && !seems_last {
            note();
        }
    }
}

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
struct HouseholdRoom(Arc<Semaphore>);

impl Default for HouseholdRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(units(OF_HOUSEHOLD))))
    }
}

/// The room of one connection.
#[derive(Debug)]
struct UnreadRoom {
    connection: Arc<Semaphore>,
    household: HouseholdRoom,
}

impl UnreadRoom {
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
            // Cheaper than to wait for nothing. Never closed.
            *part = match room.clone().try_acquire_many_owned(units(EXPECTED) as u32) {
                Ok(room) => Some(room),
                Err(_) => room.clone().acquire_many_owned(units(EXPECTED) as u32).await.ok(),
            };
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

/// Requests in flight; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Their number.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// One more, until the value is dropped.
    pub(crate) fn enter(&self) -> Busy<&AtomicUsize> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Busy(&self.0)
    }

    /// The same, for something that lasts: answers that a client has not taken yet.
    pub(super) fn enter_for_long(&self) -> Busy<Arc<AtomicUsize>> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Busy(self.0.clone())
    }
}

/// What is in flight, until it is dropped.
pub(crate) struct Busy<C: Deref<Target = AtomicUsize>>(C);

impl<C: Deref<Target = AtomicUsize>> Drop for Busy<C> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
