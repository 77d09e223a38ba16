//! What each household has taken of the window, so that none takes what the others need.
//!
//! While others ask, too, a household takes a further slot only if more than a third of what it has is free. So a burst gets
//! three quarters of an empty window, and the next burst three quarters of the rest. A household that is alone may take
//! all. Pure: time is an argument.
//!
//! Callers: [`super::state`].

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use crate::clock::Monotonic;

use super::super::window::SPAN;

/// How many slots a household may have for each that stays free.
const FOR_EACH_FREE: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Households {
    /// Slots taken in the last minute, at most as many as the window has.
    taken: VecDeque<(Monotonic, IpAddr)>,
    /// How many of these each household has.
    many: HashMap<IpAddr, usize>,
    /// The last two that asked, and when; the latest is the first.
    asked: [Option<(Monotonic, IpAddr)>; 2],
}

impl Households {
    pub(super) fn asked(&mut self, household: IpAddr, now: Monotonic) {
        let [latest, other] = &mut self.asked;
        if latest.is_some_and(|(_, latest)| latest != household) {
            *other = *latest;
        }
        *latest = Some((now, household));
    }

    pub(super) fn took(&mut self, household: IpAddr, now: Monotonic) {
        self.taken.push_back((now, household));
        *self.many.entry(household).or_default() += 1;
    }

    /// Forgets what no longer counts.
    pub(super) fn expire(&mut self, now: Monotonic) {
        while let Some((_, first)) = self.taken.front().copied().filter(|(at, _)| at.plus(SPAN) <= now) {
            self.taken.pop_front();
            if let Some(many) = self.many.get_mut(&first) {
                *many -= 1;
                if *many == 0 {
                    self.many.remove(&first);
                }
            }
        }
    }

    /// How many slots must stay free when a household takes one, because others may need them.
    pub(super) fn kept_from(&self, household: IpAddr, now: Monotonic) -> usize {
        let is_other = |(at, other): &(Monotonic, IpAddr)| *other != household && now < at.plus(SPAN);
        if self.asked.iter().flatten().any(is_other) {
            self.many.get(&household).copied().unwrap_or(0) / FOR_EACH_FREE
        } else {
            0
        }
    }

    /// When time alone makes it keep less.
    pub(super) fn next_change(&self, now: Monotonic) -> Option<Monotonic> {
        let all = self.taken.front().into_iter().chain(self.asked.iter().flatten());
        all.map(|(at, _)| at.plus(SPAN)).filter(|until| *until > now).min()
    }
}
