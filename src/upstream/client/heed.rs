//! What answers and failures mean for later requests: applies the one health policy.
//!
//! [`crate::upstream::health`] decides what a failure says. Callers: [`super`], [`crate::upstream::forward`],
//! [`crate::proxy`].

use std::time::Duration;

use crate::clock::backoff::doubled;
use crate::upstream::asker::Asker;
use crate::upstream::error::AskError;
use crate::upstream::health::{FEW, Verdict, Witness};
use crate::upstream::window::Class;

use super::OriginClient;

impl OriginClient {
    /// The origin gave an answer.
    pub fn succeeded(&self) {
        self.status.succeeded();
        self.budget.try_gently(None);
        if self.told.answered() {
            tracing::info!("the origin answers again");
        }
    }

    /// Whose request this is. `is_ours`: as in [`Witness`].
    pub fn witness(&self, asker: &Asker, is_ours: bool) -> Witness {
        let alone = asker.client.filter(|_| !asker.was_well);
        Witness { class: asker.class, household: alone.map(|client| self.budget.household(client)), is_ours }
    }

    /// Pauses the origin for as long as it asks, or longer and longer, with jitter, while nothing works.
    ///
    /// A failure of only one resource, one household or one odd request never stops the rest
    /// ([`crate::upstream::health`]). Failures of requests that were on the wire together count once.
    pub fn failed(&self, error: &AskError, witness: Witness) {
        /// A hanging try delays the next one by at least this.
        const SPACING: Duration = Duration::from_secs(1);
        // A spent budget is nobody's failure.
        if matches!(error, AskError::Spent(_)) {
            return;
        }
        let paused = !self.budget.view().paused.is_zero();
        let Verdict { outage, asked, .. } = self.status.failed(error, witness, paused, self.clock.now_wall());
        let own = outage.map(|failures| {
            // Its return shows within seconds, and the tries until then leave most of the budget.
            let longest = self.bounds.longest_pause().min(Duration::from_secs(4));
            let pause = doubled(Duration::from_millis(500), failures.saturating_sub(FEW), longest);
            self.budget.try_gently(Some(pause.max(SPACING)));
            pause + self.jittered(pause / 4)
        });
        let asked = asked.map(|asked| asked.unwrap_or_else(|| self.bounds.longest_pause()));
        // `Retry-After: 0` asks for no pause.
        let span = asked.max(own).filter(|span| !span.is_zero());
        self.tell(error, witness.class, span);
        if let Some(span) = span {
            self.budget.pause(span);
        }
    }

    /// An answer to a request of this class came and is not usable.
    pub fn unusable(&self, error: &AskError, class: Class) {
        self.status.error(error, self.clock.now_wall());
        self.tell(error, class, None);
    }

    fn tell(&self, error: &AskError, class: Class, pause: Option<Duration>) {
        let now = self.clock.now_mono();
        if let Some(span) = pause {
            if let Some(failures) = self.told.left_alone(now) {
                let pause_seconds = span.as_secs_f32();
                tracing::warn!(%error, failures, pause_seconds, "requests to the origin are paused");
            }
        } else if class == Class::Client
            && let Some(failures) = self.told.failed(now)
        {
            tracing::warn!(%error, failures, "the origin gave no usable answer to a client's request");
        }
    }
}
