//! Open connections: limited in all and per household. When all are taken, the one that is idle longest is closed, and a
//! new one waits until it is. A connection counts until its value is dropped, which is after its descriptor.
//!
//! A connection is idle while the server waits for its client: between requests, before the first, in a handshake. This
//! module only decides; its callers close connections. It also counts requests in flight, for which a shutdown waits.
//! [`crate::edge::limit::backlog`] bounds what is held for clients.
//! Callers: [`super`], the modules beside this one, [`crate::server::admin::front`], [`crate::server`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout};

use crate::clock::Monotonic;
use crate::edge::limit::backlog::{AllRooms, Backlog, Quota};
use crate::protocol::client_address::household;
use crate::telemetry::counters::ConnectionCounters;
use crate::telemetry::throttle::LogThrottle;

// One look at all connections, under the lock, pays for so many that are closed.
/// How many of the longest idle connections one scan remembers.
const REMEMBERED: usize = 64;

/// How long a new connection waits until the one that leaves for it is closed: a request may have come on that one.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);
/// How long it waits for any.
const ROOM_WITHIN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub(crate) struct MostConnections {
    /// The listener's name, for people.
    pub name: &'static str,
    pub all: usize,
    /// Of one household.
    pub each: usize,
    /// How many leading bits of an IPv6 address make a household.
    pub ipv6_prefix: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Its household has reached this limit.
    Household(usize),
    /// All connections are busy.
    All,
}

impl Full {
    pub(crate) const WORDS: [&str; 2] = [Self::Household(0).as_str(), Self::All.as_str()];

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
    counters: ConnectionCounters,
    closing: AtomicBool,
    closes: Notify,
    table: Mutex<SeatTable>,
}

#[derive(Default)]
struct SeatTable {
    seats: Slab<Arc<Seat>>,
    households: HashMap<IpAddr, Household>,
    unread: AllRooms,
    /// The longest idle connections at the last scan, the longest last. They stay the longest idle ones while they are
    /// idle.
    oldest: Vec<(u64, usize)>,
    /// For warnings that all connections are taken.
    throttle: LogThrottle,
}

struct Household {
    connections: usize,
    unread: Arc<Quota>,
}

struct Seat {
    /// Since when it has been idle, in nanoseconds; counts while it is not busy.
    since: AtomicU64,
    /// Its requests in flight.
    busy: AtomicUsize,
    /// Whether a request has come on it.
    asked: AtomicBool,
    leave: Notify,
    // Relaxed everywhere: read and written under the lock of the table only.
    /// Whether it leaves for another one, and is closed.
    leaves: AtomicBool,
    closed: Notify,
}

impl Seat {
    /// Since when it is idle; `None`: busy.
    fn idle_since(&self) -> Option<u64> {
        (self.busy.load(Ordering::Acquire) == 0).then(|| self.since.load(Ordering::Acquire))
    }

    /// The same; `None` also: it leaves.
    fn stays_idle_since(&self) -> Option<u64> {
        self.idle_since().filter(|_| !self.leaves.load(Ordering::Relaxed))
    }
}

impl Connections {
    /// None yet.
    pub(crate) fn new(room: MostConnections, counters: ConnectionCounters) -> Self {
        Self(Arc::new(ConnectionsState {
            room: ArcSwap::from_pointee(room),
            start: Instant::now(),
            counters,
            closing: AtomicBool::new(false),
            closes: Notify::new(),
            table: Mutex::default(),
        }))
    }

    /// Admits a connection, which may close another one and waits for its end. `peer`: its household; `None` for a proxy.
    pub(crate) async fn admit(&self, peer: Option<IpAddr>) -> Result<Connection, Full> {
        let (counters, household) = (&self.0.counters, self.household(peer));
        let deadline = Instant::now() + ROOM_WITHIN;
        let admitted = loop {
            match self.seat(household) {
                // Another idle one may leave sooner.
                Ok(Err(leaves)) if Instant::now() < deadline => {
                    // `notify_one` leaves a permit, so an end before this line is not missed. Another new connection
                    // may take the place: the loop looks again.
                    let _closed = timeout(CLOSES_WITHIN, leaves.closed.notified()).await;
                }
                Ok(Err(_stays)) => break Err(Full::All),
                Ok(Ok(connection)) => break Ok(connection),
                Err(full) => break Err(full),
            }
        };
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
        for _ in room.all..table.seats.len() {
            if table.evict().is_some() {
                inner.counters.evicted();
            }
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.0.table.lock().seats.len()
    }

    pub(crate) fn household(&self, peer: Option<IpAddr>) -> Option<IpAddr> {
        peer.map(|peer| household(peer, self.0.room.load().ipv6_prefix))
    }

    /// A place for a connection, or another one that leaves for it.
    fn seat(&self, household: Option<IpAddr>) -> Result<Result<Connection, Arc<Seat>>, Full> {
        let inner = &*self.0;
        // Before the lock: a connection that arrives during a reload may be measured by the old limits.
        let room = **inner.room.load();
        let now = inner.nanoseconds(Instant::now());
        let mut table = inner.table.lock();
        let mine = household.and_then(|household| table.households.get(&household));
        if mine.is_some_and(|mine| mine.connections >= room.each) {
            return Err(Full::Household(room.each));
        }
        if table.seats.len() >= room.all {
            if table.throttle.count(Monotonic::from_seconds(now / 1_000_000_000)).is_some() {
                let (listeners, most) = (room.name, room.all);
                tracing::warn!(
                    listeners,
                    most,
                    "all connections are in use; each new one closes the one that is idle longest"
                );
            }
            let leaves = table.evict().ok_or(Full::All)?;
            inner.counters.evicted();
            return Ok(Err(leaves));
        }
        let (busy, asked, leaves) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let seat =
            Arc::new(Seat { since: now.into(), busy, asked, leave: Notify::new(), leaves, closed: Notify::new() });
        let backlog = Arc::new(Backlog::of(household.map(|household| table.one_more_of(household))));
        let place = table.seats.insert(seat.clone());
        drop(table);
        Ok(Ok(Connection { connections: self.clone(), seat, place, household, backlog }))
    }

    /// The server stops: from now on each answer over HTTP/1 says that its connection ends, and connections of HTTP/2 that
    /// are open say it now.
    pub(crate) fn wind_down(&self) {
        self.0.closing.store(true, Ordering::Release);
        self.0.closes.notify_waiters();
    }

    /// Connections that have been idle for so long since their last request close. One that has had none may be in a
    /// handshake, for twice as long.
    pub(crate) fn close_idle(&self, longer: Duration) {
        let now = self.0.nanoseconds(Instant::now());
        let is_idle = |seat: &Seat| {
            let longer = if seat.asked.load(Ordering::Relaxed) { longer } else { longer * 2 };
            seat.idle_since().is_some_and(|since| u128::from(now.saturating_sub(since)) >= longer.as_nanos())
        };
        let table = self.0.table.lock();
        let idle = table.seats.iter().filter(|(_, seat)| is_idle(seat));
        idle.for_each(|(_, seat)| seat.leave.notify_one());
    }

    /// Idle connections close, and busy ones after their last answer.
    pub(crate) fn close(&self) {
        for (_, seat) in &self.0.table.lock().seats {
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
    /// Counts a connection for its household. Returns the room of the household.
    fn one_more_of(&mut self, household: IpAddr) -> Arc<Quota> {
        let new = || Household { connections: 0, unread: Arc::new(Quota::of_household(&self.unread)) };
        let household = self.households.entry(household).or_insert_with(new);
        household.connections += 1;
        household.unread.clone()
    }

    /// Tells the longest idle connection to leave; `None`: none is idle.
    fn evict(&mut self) -> Option<Arc<Seat>> {
        if let Some(seat) = self.evict_remembered() {
            return Some(seat);
        }
        let idle = self.seats.iter().filter_map(|(place, seat)| Some((seat.stays_idle_since()?, place)));
        let mut idle: Vec<_> = idle.collect();
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
            if let Some(seat) = self.seats.get(place).filter(|seat| seat.stays_idle_since() == Some(since)) {
                seat.leaves.store(true, Ordering::Relaxed);
                seat.leave.notify_one();
                return Some(seat.clone());
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
    backlog: Arc<Backlog>,
}

impl Connection {
    /// From now on the connection counts for this household; `None`: for no household. To be called once.
    pub(crate) fn stand_for(&mut self, household: Option<IpAddr>) -> Result<(), Full> {
        let Some(household) = household else { return Ok(()) };
        let inner = &*self.connections.0;
        let each = inner.room.load().each;
        // Looked up and counted under one lock: no two connections of a household pass its limit together.
        let mut table = inner.table.lock();
        if table.households.get(&household).is_some_and(|mine| mine.connections >= each) {
            inner.counters.refused.add(Full::Household(each).as_str(), 1);
            return Err(Full::Household(each));
        }
        self.backlog = Arc::new(Backlog::of(Some(table.one_more_of(household))));
        self.household = Some(household);
        Ok(())
    }

    pub(crate) fn set_idle(&self, now: Instant) {
        // In front of `busy`: a reader that sees the connection idle also sees since when.
        self.seat.since.store(self.connections.0.nanoseconds(now), Ordering::Release);
        self.seat.busy.store(0, Ordering::Release);
    }

    /// It is busy: it is not closed for others.
    pub(crate) fn set_busy(&self) {
        self.seat.asked.store(true, Ordering::Relaxed);
        self.seat.busy.store(1, Ordering::Release);
    }

    /// One of its streams is busy, until the value is dropped. Not for connections that are [set busy](Self::set_busy).
    pub(crate) fn stream(self: &Arc<Self>) -> Stream {
        self.seat.asked.store(true, Ordering::Relaxed);
        self.seat.busy.fetch_add(1, Ordering::AcqRel);
        Stream(self.clone())
    }

    pub(crate) fn streams(&self) -> usize {
        self.seat.busy.load(Ordering::Acquire)
    }

    /// When the last of its streams ended; `None`: one is busy.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        Some(self.connections.0.start + Duration::from_nanos(self.seat.idle_since()?))
    }

    /// Whether it counts for no household.
    pub(crate) fn is_of_proxy(&self) -> bool {
        self.household.is_none()
    }

    /// What is held for its client.
    pub(crate) fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    /// Whether the server stops: the next answer is the last.
    pub(crate) fn is_closing(&self) -> bool {
        self.connections.0.closing.load(Ordering::Acquire)
    }

    /// Ends when the server begins to stop. One that has begun to stop before is not seen.
    pub(crate) fn closes(&self) -> Notified<'_> {
        self.connections.0.closes.notified()
    }

    /// Ends when the connection must close: for another one, or because the server stops.
    pub(crate) fn told_to_leave(&self) -> Notified<'_> {
        self.seat.leave.notified()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.0.counters.closed();
        let mut table = self.connections.0.table.lock();
        table.seats.remove(self.place);
        // The place is free by now, under the same lock: the connection that waits for it looks there.
        self.seat.closed.notify_one();
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

/// Requests in flight; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<AtomicUsize>);

impl InFlight {
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
