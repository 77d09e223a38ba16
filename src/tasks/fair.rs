//! Fair semaphore: room for all clients, of which each household has at most a share.
//!
//! A household that takes nothing is not remembered. Callers: [`crate::origin::body_memory`], [`crate::edge::serve::tls`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// The room; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FairSemaphore(Arc<Households>);

#[derive(Debug)]
struct Households {
    all: Arc<Semaphore>,
    share: usize,
    taking: Mutex<HashMap<IpAddr, Weak<Share>>>,
}

/// The share of one household that takes or waits for units.
#[derive(Debug)]
struct Share {
    units: Arc<Semaphore>,
    household: IpAddr,
    households: Arc<Households>,
}

/// Units of the room, until they are dropped.
#[derive(Debug)]
pub(crate) struct FairPermit {
    all: OwnedSemaphorePermit,
    own: Option<(OwnedSemaphorePermit, Arc<Share>)>,
}

impl FairSemaphore {
    /// Room for `all` units, of which each household may have `share`.
    pub(crate) fn new(all: usize, share: usize) -> Self {
        let all = Arc::new(Semaphore::new(all.min(Semaphore::MAX_PERMITS)));
        Self(Arc::new(Households { all, share: share.min(Semaphore::MAX_PERMITS), taking: Mutex::default() }))
    }

    /// Waits for units, first in the household's share; `None`: many clients, without a share. Never fails: the room is
    /// not closed.
    pub(crate) async fn take(&self, household: Option<IpAddr>, units: u32) -> Result<FairPermit, AcquireError> {
        let own = match household.map(|household| self.share_of(household)) {
            Some(share) => Some((share.units.clone().acquire_many_owned(units).await?, share)),
            None => None,
        };
        // The share first: a household that has used it up waits without a unit of the room.
        Ok(FairPermit { all: self.0.all.clone().acquire_many_owned(units).await?, own })
    }

    pub(crate) fn try_take(&self, household: Option<IpAddr>, units: u32) -> Option<FairPermit> {
        let own = match household.map(|household| self.share_of(household)) {
            Some(share) => Some((share.units.clone().try_acquire_many_owned(units).ok()?, share)),
            None => None,
        };
        Some(FairPermit { all: self.0.all.clone().try_acquire_many_owned(units).ok()?, own })
    }

    fn share_of(&self, household: IpAddr) -> Arc<Share> {
        // No `Share` may be dropped under this lock, which its `drop` takes.
        let mut taking = self.0.taking.lock();
        if let Some(share) = taking.get(&household).and_then(Weak::upgrade) {
            return share;
        }
        let units = Arc::new(Semaphore::new(self.0.share));
        let share = Arc::new(Share { units, household, households: self.0.clone() });
        taking.insert(household, Arc::downgrade(&share));
        share
    }
}

/// Room for all clients, whose last quarter is for those who have little of it: a few that hold much leave room to others.
#[derive(Clone, Debug)]
pub(crate) struct TieredSemaphore {
    most: FairSemaphore,
    rest: FairSemaphore,
}

impl TieredSemaphore {
    /// Room for `all` units, of which each household may have `share`, but of the last quarter an eighth.
    pub(crate) fn new(all: usize, share: usize) -> Self {
        let rest = all / 4;
        let little = (rest / 8).max(1);
        let most = FairSemaphore::new(all - rest, share.saturating_sub(little).max(1));
        Self { most, rest: FairSemaphore::new(rest, little) }
    }

    /// Waits for a unit; as [`FairSemaphore::take`].
    pub(crate) async fn take(&self, household: Option<IpAddr>) -> Result<FairPermit, AcquireError> {
        // Cancel-safe: who leaves loses its place in the queue, and no unit.
        tokio::select! {
            biased;
            taken = self.most.take(household, 1) => taken,
            taken = self.rest.take(household, 1) => taken,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taking = self.households.taking.lock();
        // Another one may have taken its place.
        if taking.get(&self.household).is_some_and(|share| share.strong_count() == 0) {
            taking.remove(&self.household);
        }
    }
}

impl FairPermit {
    /// Adds units of the same room and household.
    pub(crate) fn merge(&mut self, more: Self) {
        self.all.merge(more.all);
        if let (Some((own, _)), Some((more, _))) = (&mut self.own, more.own) {
            own.merge(more);
        }
    }

    pub(crate) fn give_back(&mut self, units: usize) {
        drop(self.all.split(units));
        drop(self.own.as_mut().and_then(|(own, _)| own.split(units)));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    impl FairSemaphore {
        pub(crate) fn free(&self) -> usize {
            self.0.all.available_permits()
        }
    }

    const ONE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    const OTHER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

    #[test]
    fn a_household_fills_its_share_and_no_more() {
        let room = FairSemaphore::new(4, 2);
        let (first, _second) = (room.try_take(ONE, 1).unwrap(), room.take(ONE, 1).now_or_never().unwrap());
        let mut third = Box::pin(room.take(ONE, 1));
        assert!(third.as_mut().now_or_never().is_none(), "it waits for its own");
        let _others = [OTHER, None].map(|household| room.try_take(household, 1).unwrap());
        assert!(room.take(None, 1).now_or_never().is_none(), "the room is full");
        drop(first);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn whoever_speaks_for_many_has_all_of_the_room() {
        let room = FairSemaphore::new(4, 2);
        let all = room.try_take(None, 4).unwrap();
        assert!(room.try_take(ONE, 1).is_none() && room.take(ONE, 1).now_or_never().is_none());
        drop(all);
        assert!(room.take(ONE, 1).now_or_never().is_some());
    }

    #[test]
    fn units_are_given_back_to_the_room_and_to_the_household() {
        let room = FairSemaphore::new(8, 4);
        let mut portion = room.try_take(ONE, 1).unwrap();
        portion.merge(room.try_take(ONE, 3).unwrap());
        assert!(room.try_take(ONE, 1).is_none());
        portion.give_back(3);
        assert_eq!(room.free(), 7);
        assert!(room.try_take(ONE, 4).is_none());
        assert!(room.try_take(ONE, 3).is_some());
    }

    #[test]
    fn nothing_is_remembered_of_households_that_take_nothing() {
        let room = FairSemaphore::new(4, 1);
        let portion = room.take(ONE, 1).now_or_never().unwrap();
        let mut waiting = Box::pin(room.take(ONE, 1));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        assert!(room.try_take(ONE, 1).is_none());
        assert_eq!(room.0.taking.lock().len(), 1);
        drop(portion);
        assert_eq!(room.0.taking.lock().len(), 0);
    }

    #[tokio::test]
    async fn the_last_quarter_is_for_those_who_have_little() {
        let room = TieredSemaphore::new(64, 32);
        let household = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let take = async |last| tokio::time::timeout(Duration::from_millis(1), room.take(household(last))).await.ok();
        let mut held = Vec::new();
        for last in [1, 2] {
            for _ in 0..64 {
                held.extend(take(last).await);
            }
        }
        assert_eq!(held.len(), 48 + 2 + 2, "two took all that is for everybody, and their share of the rest");
        held.extend(take(3).await);
        held.extend(take(3).await);
        assert_eq!(held.len(), 54, "others have a place each");
        assert!(take(3).await.is_none());
        held.clear();
        assert!(take(3).await.is_some());
    }
}
