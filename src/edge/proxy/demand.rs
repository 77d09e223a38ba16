//! Background demand: fetches that no client waits for, of resources that clients get stale, or were refused under
//! overload.
//!
//! Such a fetch begins when it has its slot; until then it is in nobody's way, and a client that asks may begin one of its
//! own. [`crate::origin::budget`] gives the turns: to what most households want. Callers: [`super`], [`super::coalesce`].

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;

use crate::tasks::single_flight::Role;

use super::Proxy;
use super::fetch::Fetch;
use super::request::{Flight, flight};

/// The resources that wait for a slot, with the ticket of each in the budget's queue. The queue is bounded.
pub(super) type WantedFlights = Mutex<HashMap<Flight, u64>>;

impl Proxy {
    /// Fetches a resource when it has a slot. Further calls until then say that more clients want it.
    pub(super) fn want(&self, mut fetch: Fetch, selectable: &HeaderMap, is_refused: bool) {
        let (inner, budget) = (&*self.0, self.0.upstream.origin().budget());
        let (client, flight) = (fetch.question.client, flight(&fetch.key, &fetch.names, selectable));
        if inner.flights.is_running(&flight) {
            return;
        }
        // Held until the ticket is there: one of two clients at once votes. The queue's lock is taken inside, never outside.
        let mut wanted = inner.wanted.lock();
        if let Some(ticket) = wanted.get(&flight) {
            budget.vote(*ticket, client);
            return;
        }
        // What a client chose the bytes of never waits.
        let place = if fetch.question.is_spare() {
            None
        } else {
            let Some(place) = budget.want(client, is_refused) else { return };
            wanted.insert(flight.clone(), place.ticket());
            Some(place)
        };
        drop(wanted);
        let (this, selectable) = (self.clone(), selectable.clone());
        tokio::spawn(async move {
            let inner = &*this.0;
            if let Some(place) = place {
                let turn = place.turn().await;
                inner.wanted.lock().remove(&flight);
                let Ok(permit) = turn else { return };
                fetch.asker.slot = Some(Arc::new(Mutex::new(Some(permit))));
            }
            // A client may have begun to fetch it meanwhile, or has done so; or it was purged.
            let Role::Leader(ticket, _) = inner.flights.join(&flight) else { return };
            let known = fetch.question.is_known();
            let is_here = this.landed_meanwhile(known, &fetch.key, &selectable, fetch.kept.as_ref()).is_some();
            if !is_here && !this.varies_by_more(&mut fetch, &selectable) {
                // Its result lies in the cache, or is reported by a client that waits for it.
                let _ = this.fetch(fetch, Some(ticket), None).await;
            }
        });
    }
}
