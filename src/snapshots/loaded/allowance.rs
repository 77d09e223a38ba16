//! The number of loads that a household may cause: some at once, then one at a time.
//!
//! A load takes all cores for a time that grows with the list; without this limit each request of one client could
//! cause one. Only loads count, not requests answered from memory or by another request's load. Pure. Callers:
//! [`super`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Loads at once.
const AT_ONCE: u32 = 10;
/// Then one more after each such time.
const EVERY: Duration = Duration::from_secs(6);
/// The most households, of a few dozen bytes each.
const MOST: usize = 4096;

/// When each household has all its loads back; absent: now.
#[derive(Debug, Default)]
pub(super) struct Allowances(HashMap<IpAddr, Instant>);

impl Allowances {
    /// Counts a load.
    ///
    /// # Errors
    /// With the time until the household may cause one, if it may not now; then nothing is counted.
    pub(super) fn take(&mut self, household: IpAddr, now: Instant) -> Result<(), Duration> {
        let back = self.0.get(&household).copied().filter(|back| *back > now).unwrap_or(now);
        let too_early = back.duration_since(now).checked_sub(EVERY * (AT_ONCE - 1)).filter(|wait| !wait.is_zero());
        if let Some(wait) = too_early {
            return Err(wait);
        }
        if self.0.len() >= MOST && !self.0.contains_key(&household) {
            self.make_room(now);
        }
        self.0.insert(household, back + EVERY);
        Ok(())
    }

    /// Removes households that have all their loads back; if there is none, the one that has them back first.
    fn make_room(&mut self, now: Instant) {
        self.0.retain(|_, back| *back > now);
        if self.0.len() >= MOST
            && let Some(first) = self.0.iter().min_by_key(|(_, back)| **back).map(|(household, _)| *household)
        {
            self.0.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn household(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn a_household_has_some_loads_at_once_and_one_more_every_few_seconds() {
        let (mut allowances, now) = (Allowances::default(), Instant::now());
        for _ in 0..AT_ONCE {
            assert_eq!(allowances.take(household(1), now), Ok(()));
        }
        assert_eq!(allowances.take(household(1), now), Err(EVERY));
        assert_eq!(allowances.take(household(2), now), Ok(()), "another one has its own");
        let almost = now + Duration::from_millis(4500);
        assert_eq!(allowances.take(household(1), almost), Err(Duration::from_millis(1500)));
        assert_eq!(allowances.take(household(1), now + EVERY), Ok(()));
        assert_eq!(allowances.take(household(1), now + EVERY), Err(EVERY));
        let later = now + EVERY * (AT_ONCE + 1);
        for _ in 0..AT_ONCE {
            assert_eq!(allowances.take(household(1), later), Ok(()));
        }
        assert!(allowances.take(household(1), later).is_err(), "no more than that is saved up");
    }

    #[test]
    fn as_many_households_as_there_can_be_take_bounded_memory() {
        let (mut allowances, now) = (Allowances::default(), Instant::now());
        for _ in 0..AT_ONCE {
            assert_eq!(allowances.take(household(0), now), Ok(()));
        }
        for number in 1..2 * MOST as u32 {
            assert_eq!(allowances.take(household(number), now), Ok(()));
        }
        assert_eq!(allowances.0.len(), MOST);
        assert!(allowances.take(household(0), now).is_err(), "the one that caused most is remembered longest");
        assert_eq!(allowances.take(household(0), now + EVERY * AT_ONCE), Ok(()));
        assert_eq!(allowances.take(household(1 << 20), now + EVERY * AT_ONCE), Ok(()));
        assert_eq!(allowances.0.len(), 2, "those that have everything back are forgotten");
    }
}
