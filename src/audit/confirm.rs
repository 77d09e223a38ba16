//! Whether a difference lasts: compares again once the mirror is confirmed for a later instant.
//!
//! It draws no samples and repairs nothing. Callers: [`super::Auditor`].

use std::time::Duration;

use crate::clock::Monotonic;

use super::sample::Sample;
use super::score::Outcome;
use super::{Auditor, Look, MOST_FAILURES, Suspect};

/// How often a difference is compared again while the origin keeps changing.
const ROUNDS: usize = 3;
/// How much later an instant of the origin must be to be surely later, in milliseconds: `Date` and `Age` count whole
/// seconds, so that each of two instants is known to a second only.
const SURELY_LATER: i64 = 2000;

impl Auditor {
    /// Compares again after a refresh, until the answers are equal or proved different.
    pub(super) async fn confirm(&self, mut suspects: Vec<Suspect>, settled: impl Fn()) -> Vec<(Sample, Outcome)> {
        let mut outcomes = Vec::with_capacity(suspects.len());
        for _ in 0..ROUNDS {
            let at_ms = suspects.iter().map(|suspect| suspect.theirs.at_ms).max().unwrap_or(0);
            if !self.refreshed_since(at_ms).await {
                let reason = "the mirror could not be refreshed to compare again";
                let undecided = suspects.into_iter();
                outcomes.extend(undecided.map(|s| (s.sample, Outcome::Undecided(reason.to_owned()))));
                return outcomes;
            }
            let mut open = Vec::new();
            for Suspect { sample, theirs } in suspects {
                match self.try_look(&sample, Some(&theirs)).await {
                    Ok(Look::Suspect(theirs)) => open.push(Suspect { sample, theirs }),
                    Ok(Look::Settled(outcome)) => {
                        outcomes.push((sample, outcome));
                        settled();
                    }
                    // The difference was seen, even if it cannot be compared any more.
                    Err(reason) => {
                        outcomes.push((sample, Outcome::Undecided(reason)));
                        settled();
                    }
                }
            }
            if open.is_empty() {
                return outcomes;
            }
            suspects = open;
        }
        let reason = "the origin kept changing during the comparison";
        outcomes.extend(suspects.into_iter().map(|s| (s.sample, Outcome::Undecided(reason.to_owned()))));
        outcomes
    }

    /// Waits until the mirror is confirmed for a later instant, or holds a snapshot back; `false`: it took too long.
    async fn refreshed_since(&self, at_ms: i64) -> bool {
        let patience = self.cache_ttl + Duration::from_secs(60);
        // An old copy of the origin's CDN confirms nothing; then it asks again a little later.
        let again = (self.cache_ttl / 4).clamp(Duration::from_millis(1100), Duration::from_secs(30));
        let began = self.clock.now_mono();
        let mut asked: Option<Monotonic> = None;
        loop {
            if self.newest.load().as_ref().is_some_and(|published| published.meta.confirmed_ms >= at_ms + SURELY_LATER)
            {
                return true;
            }
            let (now, picture) = (self.clock.now_mono(), self.client.status().picture());
            if picture.held.is_some() {
                return true;
            }
            if picture.health.failures() >= MOST_FAILURES || now.since(began) >= patience {
                return false;
            }
            if asked.is_none_or(|last| now.since(last) >= again) {
                asked = Some(now);
                self.commands.refresh();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
