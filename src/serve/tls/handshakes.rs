//! Limits TLS handshakes at once, in all and per household, so that one client cannot block the others.
//!
//! Further ones wait; the caller sets deadlines. Callers: [`super`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// The room.
pub(super) struct Handshakes {
    all: Semaphore,
    /// Of one household.
    share: usize,
    households: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl Handshakes {
    /// Room for `all`, and for `share` of each household.
    pub(super) fn new(all: usize, share: usize) -> Self {
        Self { all: Semaphore::new(all), share, households: Mutex::default() }
    }

    /// Waits for room, first in the household's share; `None`: a proxy, without a share.
    ///
    /// # Errors
    /// Never: the room is not closed.
    pub(super) async fn enter(&self, household: Option<IpAddr>) -> Result<Handshake<'_>, AcquireError> {
        let visit = household.map(|household| self.visit(household));
        let share = match &visit {
            Some(visit) => Some(visit.share.clone().acquire_owned().await?),
            None => None,
        };
        let place = self.all.acquire().await?;
        Ok(Handshake { _place: place, _share: share, _visit: visit })
    }

    fn visit(&self, household: IpAddr) -> Visit<'_> {
        let mut households = self.households.lock();
        let share = households.entry(household).or_insert_with(|| Arc::new(Semaphore::new(self.share)));
        Visit { handshakes: self, household, share: share.clone() }
    }
}

/// A place in the room, until it is dropped. The fields are dropped in this order.
pub(super) struct Handshake<'a> {
    _place: SemaphorePermit<'a>,
    _share: Option<tokio::sync::OwnedSemaphorePermit>,
    _visit: Option<Visit<'a>>,
}

/// A handshake of a household that has a place or waits for one.
struct Visit<'a> {
    handshakes: &'a Handshakes,
    household: IpAddr,
    share: Arc<Semaphore>,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut households = self.handshakes.households.lock();
        // Two references, the map's and this one: no other handshake of the household, and none can start while the map
        // is locked.
        if Arc::strong_count(&self.share) == 2 {
            households.remove(&self.household);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt as _;

    use super::*;

    const ONE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    const OTHER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

    #[test]
    fn a_household_fills_its_share_and_no_more() {
        let room = Handshakes::new(4, 2);
        let (first, _second) = (room.enter(ONE).now_or_never().unwrap(), room.enter(ONE).now_or_never().unwrap());
        let mut third = Box::pin(room.enter(ONE));
        assert!(third.as_mut().now_or_never().is_none(), "it waits for its own");
        let _others = [OTHER, None].map(|household| room.enter(household).now_or_never().unwrap());
        assert!(room.enter(None).now_or_never().is_none(), "the room is full");
        drop(first);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn whoever_speaks_for_many_has_all_of_the_room() {
        let room = Handshakes::new(4, 2);
        let places: Vec<_> = (0..4).map(|_| room.enter(None).now_or_never().unwrap()).collect();
        assert!(room.enter(ONE).now_or_never().is_none());
        drop(places);
        assert!(room.enter(ONE).now_or_never().is_some());
    }

    #[test]
    fn nothing_is_remembered_of_those_who_have_gone() {
        let room = Handshakes::new(4, 1);
        let place = room.enter(ONE).now_or_never().unwrap();
        let mut waiting = Box::pin(room.enter(ONE));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        assert_eq!(room.households.lock().len(), 1);
        drop(place);
        assert_eq!(room.households.lock().len(), 0);
    }
}
