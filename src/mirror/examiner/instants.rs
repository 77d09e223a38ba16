//! Questions about `modified_since` at the very second of listings: which of them the origin counts as modified after it,
//! for times in whole seconds may hide fractions. Asked when a client's query needs it.
//!
//! One request without filters tells it for all queries and clients ([`crate::data::snapshot::seconds`]). Where no slot
//! is free, the query is answered with all listings of that second. Callers: [`crate::edge::answer`].

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Monotonic;
use crate::data::cache::Key;
use crate::data::cache::recent::Recent;
use crate::data::snapshot::seconds::WrittenInstant;
use crate::mirror::MirrorContext;
use crate::origin::client::Asker;
use crate::tasks::single_flight::{Role, SingleFlight};
use crate::tasks::{Aborted, blocking};

use super::answer::{self, Answered};
use super::compare::are_ours;

/// How long a client waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// An instant is not asked about again for so long.
const AGAIN: Duration = Duration::from_secs(10);

/// So many instants are remembered that were asked about of late.
const MOST: usize = 1024;

/// How long an instant is not over, in milliseconds: `Date` counts seconds.
const A_SECOND_MS: i64 = 1000;

/// Asks about instants; cheap to clone.
#[derive(Clone)]
pub(crate) struct Instants(Arc<InstantsState>);

struct InstantsState {
    shared: MirrorContext,
    flights: SingleFlight<WrittenInstant, ()>,
    asked: Recent<Monotonic>,
}

impl Instants {
    pub(crate) fn new(shared: MirrorContext) -> Self {
        Self(Arc::new(InstantsState { shared, flights: SingleFlight::default(), asked: Recent::new(MOST) }))
    }

    /// Asks about an instant of the data, if that costs nobody a request: once for all who wait. Returns when the answer is
    /// there, or after two seconds. `asker`: the client.
    pub(crate) async fn learn(&self, instant: WrittenInstant, asker: Asker) {
        let inner = &*self.0;
        let waiter = match inner.flights.join(&instant) {
            Role::Waiter(waiter) => waiter,
            Role::Leader(leader, waiter) => {
                let (budget, now) = (inner.shared.copies.client.budget(), inner.shared.clock.now_mono());
                let name = [&instant.at.to_le_bytes()[..], &[instant.form as u8]].concat();
                let is_new = || inner.asked.mark(&Key::origin(name), now, AGAIN);
                if !budget.has_room() || !is_new() {
                    return leader.end(());
                }
                let this = self.clone();
                // What is learned does not depend on the client that asked.
                tokio::spawn(async move {
                    ask(&this.0.shared, instant, Asker { patience: Some(Duration::ZERO), ..asker }).await;
                    leader.end(());
                });
                waiter
            }
        };
        let _ = tokio::time::timeout(PATIENCE, waiter.landed()).await;
    }
}

/// Asks the origin which listings of an instant it counts, and learns it.
pub(super) async fn ask(shared: &MirrorContext, instant: WrittenInstant, asker: Asker) {
    let Some(newest) = shared.newest.get() else { return };
    let form = newest.meta.form.clone();
    let query = blocking(move || Ok::<_, Aborted>(newest.dataset.query_about(instant))).await;
    let Some(query) = query.ok().flatten() else { return };
    let path = form.path_of(&query);
    let Ok(answered) = answer::ask(shared, &path, asker).await else { return };
    let Answered { newest, page: Some((_, page)), at_ms, is_old, may_be_old, .. } = answered else { return };
    // What changes within the second is not in an answer of the same second, nor in an old copy.
    let age = if may_be_old { shared.copies.cache_ttl() } else { Duration::ZERO };
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    if is_old || at_ms.saturating_sub(age_ms) < instant.at.div_euclid(1_000_000) + A_SECOND_MS {
        return;
    }
    let verdicts = shared.verdicts.clone();
    let learned = blocking(move || {
        if !are_ours(&newest.dataset, &page.items) {
            return Ok::<_, Aborted>(None);
        }
        let ids: Vec<_> = page.items.iter().map(|item| item.id).collect();
        Ok(Some(verdicts.seconds().learn(&newest.dataset, &query, page.total, &ids)))
    });
    match learned.await {
        Ok(Some(learned)) => tracing::debug!(path, learned, "asked about an instant"),
        // A copy of ours is too old.
        Ok(None) => shared.commands.refresh(),
        Err(error) => tracing::warn!(%error, "an instant could not be learned"),
    }
}
