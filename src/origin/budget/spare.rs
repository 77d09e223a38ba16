//! Spare slots: for forwarded open cases ([`crate::api::odd`]), whose bytes a client chose and which nothing else may wait
//! for. How many each household gets, and whether there are any. Pure: time is an argument.
//!
//! Callers: [`super::state`].

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::clock::Monotonic;
use crate::telemetry::findings::{Finding, Kind};

use super::super::window::SPAN;

/// How many such requests one household has in a minute.
const MOST_OF_ONE: usize = 2;

/// How many are remembered, where no limit is lower.
const MOST: usize = 4096;

/// For how long there are none after refusals, and how long a refusal counts.
const ENDED_FOR: Duration = Duration::from_secs(3600);

/// What became of such requests lately.
#[derive(Debug, Default)]
pub(super) struct Spare {
    sent: VecDeque<(Monotonic, Option<IpAddr>)>,
    /// When the origin last refused one for a reason that is about us.
    refused: Option<Monotonic>,
    /// Until when there are none, and the status that ended them.
    ended: Option<(Monotonic, u16)>,
}

impl Spare {
    /// Whether a household may have one more now, of at most `most` for all; else how long it has to wait. `None`: it counts
    /// for none.
    pub(super) fn may(&mut self, household: Option<IpAddr>, most: usize, now: Monotonic) -> Result<(), Duration> {
        if let Some((until, _)) = self.ended.filter(|(until, _)| now < *until) {
            return Err(until.since(now));
        }
        while self.sent.front().is_some_and(|(at, _)| at.plus(SPAN) <= now) {
            self.sent.pop_front();
        }
        let wait = |first: Option<&(Monotonic, Option<IpAddr>)>| first.map(|(at, _)| at.plus(SPAN).since(now));
        let mut of_one = self.sent.iter().filter(|(_, of)| *of == household);
        let first = of_one.next();
        if household.is_some() && of_one.nth(MOST_OF_ONE - 2).is_some() {
            return Err(wait(first).unwrap_or_default());
        }
        if self.sent.len() >= most.min(MOST) {
            return Err(wait(self.sent.front()).unwrap_or_default());
        }
        Ok(())
    }

    pub(super) fn sent(&mut self, household: Option<IpAddr>, now: Monotonic) {
        self.sent.push_back((now, household));
    }

    /// The origin refused one with a status that is about us: a second one ends them, so that it does not ban us.
    pub(super) fn refused(&mut self, status: u16, now: Monotonic) {
        let before = self.refused.replace(now);
        if before.is_some_and(|before| now < before.plus(ENDED_FOR)) {
            (self.refused, self.ended) = (None, Some((now.plus(ENDED_FOR), status)));
        }
    }

    pub(super) fn finding(&self, now: Monotonic) -> Option<Finding> {
        let (_, status) = self.ended.filter(|(until, _)| now < *until)?;
        let text = format!(
            "the origin refused open cases that clients asked for, last with {status}: for an hour it gets none"
        );
        Some(Finding::new(Kind::OpenCasesEnded, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_household_has_two_in_any_minute_and_all_together_have_no_more_than_their_share() {
        let (mut spare, at) = (Spare::default(), Monotonic::from_seconds);
        let mut take = |of: u8, seconds: u64| {
            let may = spare.may(Some(address(of)), 3, at(seconds));
            may.map(|()| spare.sent(Some(address(of)), at(seconds))).map_err(|wait| wait.as_secs())
        };
        assert_eq!([take(1, 100), take(1, 110)], [Ok(()); 2]);
        assert_eq!(take(1, 120), Err(40));
        assert_eq!(take(2, 120), Ok(()));
        assert_eq!(take(3, 121), Err(39), "all together");
        assert_eq!(take(1, 159), Err(1));
        assert_eq!([take(1, 161), take(3, 171)], [Ok(()); 2]);
    }

    #[test]
    fn two_refusals_within_an_hour_end_them_for_an_hour() {
        let (mut spare, at) = (Spare::default(), Monotonic::from_seconds);
        spare.refused(403, at(100));
        assert_eq!(spare.may(Some(address(1)), 6, at(101)), Ok(()));
        spare.refused(403, at(3800));
        assert_eq!(spare.may(Some(address(1)), 6, at(3801)), Ok(()), "the first one was too long ago");
        spare.refused(429, at(3900));
        assert_eq!(spare.may(Some(address(1)), 6, at(3900)), Err(ENDED_FOR));
        assert!(spare.finding(at(7499)).is_some_and(|finding| finding.text.contains("429")));
        assert_eq!((spare.may(Some(address(1)), 6, at(7500)), spare.finding(at(7500))), (Ok(()), None));
    }
}
