//! Reads that share one fetch: each client is judged by its own place in the queue, not by that of the client that
//! began the fetch.
//!
//! Callers: [`super`], [`super::dispatch`].

use super::super::window::Class;
use super::Spent;
use super::demand::Demand;
use super::dispatch::DispatcherState;
use super::queue::Waiting;
use super::state::MOST_WANTED;
use crate::clock::Monotonic;

impl DispatcherState {
    /// Judges a client whose shared fetch got no slot as if it asked now. `None`: it would be promised a slot.
    pub(super) fn judge(&mut self, waiting: Waiting, now: Monotonic) -> Option<Spent> {
        let is_over = waiting.until.is_some_and(|until| until <= now);
        let refused = self.state.judge(waiting, now);
        // It cannot wait any more, so a slot that is free now does not help.
        refused.or_else(|| is_over.then(Spent::soon))
    }

    /// A client waits for a background fetch: the fetch takes the client's place in the queue, if that brings a slot in
    /// time, and leaves the queue when the client's patience ends. `Some`: it does not bring one, and this is what the
    /// client is told; the fetch keeps its place.
    pub(super) fn take_over(&mut self, demand: &Demand, waiting: Waiting, now: Monotonic) -> Option<Spent> {
        // Without a ticket, the fetch has its slot, or another client waits for it.
        let ticket = self.state.queue.wanted_for(demand)?;
        if self.state.has_no_place(&waiting) {
            self.state.count_refusal(now);
            return Some(self.state.told_of(demand, now));
        }
        let before = self.state.queue.remove(ticket)?;
        let client = waiting.client;
        self.state.queue.take_over(ticket, waiting);
        if self.promise(ticket, client, now).is_some() {
            self.state.queue.put(ticket, before);
            return Some(self.state.told_of(demand, now));
        }
        // It is awaited now: clients that come later join it.
        demand.sent();
        None
    }

    /// Makes room for a read that more households were refused than another one that waits.
    pub(super) fn make_room_for(&mut self, waiting: &Waiting, now: Monotonic) {
        let Some(demand) = waiting.demand.as_ref().filter(|demand| demand.is_refused()) else { return };
        if self.state.queue.wanted() >= MOST_WANTED
            && let Some((least, votes)) = self.state.queue.least_refused()
            && votes < demand.votes()
        {
            let spent = self.state.spent(Class::Client, now);
            self.dismiss(least, spent);
        }
    }
}
