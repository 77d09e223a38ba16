//! The dispatcher: finds the next request and hands it the slot. No other request is woken.
//!
//! Whatever affects turns (a request comes, leaves or ends, a pause begins) gives the turns that it allows. A task, the
//! keeper, gives the turns that time alone allows; it lives while a request waits. [`super::state`] decides. Callers:
//! [`super`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::clock::{Clock, Monotonic};

use super::super::window::Class;
use super::queue::Waiting;
use super::state::BudgetState;
use super::{Permit, Spent};

/// How many turns are given under one lock: new requests wait for the lock.
const TURNS_AT_ONCE: usize = 64;
/// The keeper's shortest sleep; clocks and timers differ by less.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

type Call = Result<Permit, Spent>;

pub(super) struct Dispatcher {
    clock: Clock,
    dispatch: Mutex<DispatcherState>,
    /// The keeper's alarm is too late.
    rearmed: Notify,
    /// The keeper is gone although requests wait: its runtime has ended.
    unkept: Notify,
}

/// Everything behind the lock.
pub(super) struct DispatcherState {
    pub(super) state: BudgetState,
    /// How to tell each waiting request.
    calls: HashMap<u64, oneshot::Sender<Call>>,
    /// Results to send once the lock is free: a permit that nobody takes is dropped, and its drop takes the lock.
    said: Vec<Message>,
    is_kept: bool,
    /// What the keeper sleeps until.
    alarm: Option<Monotonic>,
}

/// A result, and how to send it.
type Message = (Option<oneshot::Sender<Call>>, Call);

/// Sends a result; returns a permit nobody takes.
fn say((to, what): Message) -> Option<Permit> {
    let untold = match to {
        Some(to) => to.send(what).err()?,
        None => what,
    };
    untold.ok()
}

impl DispatcherState {
    /// Dismisses the requests that give up before `instant`.
    pub(super) fn dismiss_gone_by(&mut self, instant: Monotonic, now: Monotonic) {
        for ticket in self.state.queue.gone_by(instant) {
            if let Some(waiting) = self.state.queue.remove(ticket) {
                let spent = self.state.gives_up(&waiting, now);
                self.said.push((self.calls.remove(&ticket), Err(spent)));
            }
        }
    }

    /// A place at the end of the queue. A read makes others late if it goes before them, or shows an overload: they are told
    /// at once.
    fn enter(&mut self, waiting: Waiting, told: oneshot::Sender<Call>, now: Monotonic) -> Result<u64, Spent> {
        let is_awaited = waiting.class == Class::Client && waiting.wanted.is_none();
        if let Some(household) = waiting.client.filter(|_| is_awaited) {
            self.state.households.asked(household, now);
        }
        let entered = match self.state.refusal(&waiting, now) {
            Some(spent) => Err(spent),
            None => Ok(self.state.queue.push(waiting)),
        };
        if let Ok(ticket) = entered {
            self.calls.insert(ticket, told);
        }
        // The loop ends: each round removes a request from the queue.
        while is_awaited && let Some((late, spent)) = self.state.late(now) {
            self.state.queue.remove(late);
            self.said.push((self.calls.remove(&late), Err(spent)));
        }
        entered
    }
}

impl Dispatcher {
    /// A dispatcher without a keeper.
    pub(super) fn new(state: BudgetState, clock: Clock) -> Self {
        let dispatch = DispatcherState { state, calls: HashMap::new(), said: Vec::new(), is_kept: false, alarm: None };
        Self { clock, dispatch: Mutex::new(dispatch), rearmed: Notify::new(), unkept: Notify::new() }
    }

    pub(super) const fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn now(&self) -> Monotonic {
        self.clock.now_mono()
    }

    /// Looks at the state, or changes what gives no turn.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut DispatcherState, Monotonic) -> T) -> T {
        let mut dispatch = self.dispatch.lock();
        look(&mut dispatch, self.now())
    }

    /// Changes something, and gives the turns that this allows.
    pub(super) fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut DispatcherState, Monotonic) -> T) -> T {
        let (result, mut said) = self.look(|dispatch, now| {
            let result = change(dispatch, now);
            (result, self.turns(dispatch, now))
        });
        loop {
            let is_all = said.len() < TURNS_AT_ONCE;
            // A request that has just left takes no turn.
            let mut unused: Vec<Permit> = said.into_iter().filter_map(say).collect();
            if is_all && unused.is_empty() {
                return result;
            }
            said = self.look(|dispatch, now| {
                for permit in &mut unused {
                    permit.settle(dispatch, now);
                }
                self.turns(dispatch, now)
            });
        }
    }

    /// Gives turns, and makes the keeper wake in time; returns the results to send.
    fn turns(self: &Arc<Self>, dispatch: &mut DispatcherState, now: Monotonic) -> Vec<Message> {
        while dispatch.said.len() < TURNS_AT_ONCE
            && let Some(chosen) = dispatch.state.chosen(now)
        {
            let permit = Permit::unused(self, dispatch.state.give(chosen, now));
            dispatch.said.push((dispatch.calls.remove(&chosen.1), Ok(permit)));
        }
        if dispatch.is_kept && dispatch.state.queue.len() > 0 {
            let wake = dispatch.state.wake_at(now);
            if wake.is_some_and(|wake| dispatch.alarm.is_none_or(|alarm| wake < alarm)) {
                dispatch.alarm = wake;
                self.rearmed.notify_one();
            }
        }
        std::mem::take(&mut dispatch.said)
    }

    /// Starts the keeper, unless there is one.
    fn keep(self: &Arc<Self>) {
        if !self.look(|dispatch, _| std::mem::replace(&mut dispatch.is_kept, true)) {
            let keeper = Keeper { dispatcher: self.clone(), is_done: false };
            tokio::spawn(keeper.keep());
        }
    }
}

/// Gives the turns that time allows, until nobody waits.
struct Keeper {
    dispatcher: Arc<Dispatcher>,
    is_done: bool,
}

impl Keeper {
    async fn keep(mut self) {
        loop {
            self.dispatcher.change(|_, _| ());
            let nap = self.dispatcher.look(|dispatch, now| {
                // Under the lock: a request that enters later finds no keeper, and starts one.
                dispatch.is_kept = dispatch.state.queue.len() > 0;
                dispatch.alarm = if dispatch.is_kept { dispatch.state.wake_at(now) } else { None };
                dispatch.is_kept.then(|| dispatch.alarm.map(|alarm| alarm.since(now).max(SHORTEST_NAP)))
            });
            // An alarm that was set since the look is not lost: `notify_one` is remembered.
            let rearmed = self.dispatcher.rearmed.notified();
            match nap {
                Some(Some(nap)) => drop(tokio::time::timeout(nap, rearmed).await),
                Some(None) => rearmed.await,
                None => {
                    self.is_done = true;
                    return;
                }
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_done {
            self.dispatcher.look(|dispatch, _| dispatch.is_kept = false);
            // One waiting request is enough: it starts a keeper for all.
            self.dispatcher.unkept.notify_one();
        }
    }
}

/// A place in the queue, left on drop.
pub(super) struct QueuePlace {
    dispatcher: Arc<Dispatcher>,
    ticket: u64,
    call: oneshot::Receiver<Call>,
    /// Whether it has been left.
    is_left: bool,
}

impl QueuePlace {
    /// A place at the end of the queue; or at the front, with its turn.
    pub(super) fn enter(dispatcher: &Arc<Dispatcher>, waiting: Waiting) -> Result<Self, Spent> {
        let (told, call) = oneshot::channel();
        let ticket = dispatcher.change(|dispatch, now| dispatch.enter(waiting, told, now))?;
        Ok(Self { dispatcher: dispatcher.clone(), ticket, call, is_left: false })
    }

    pub(super) const fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Waits for its turn, at most `until`. Fails earlier if a pause begins that ends too late.
    pub(super) async fn turn(mut self, until: Option<Monotonic>) -> Call {
        let told = match self.call.try_recv() {
            Ok(told) => Some(told),
            Err(_) => self.wait(until).await,
        };
        match told {
            Some(told) => {
                self.is_left = true;
                told
            }
            None => match self.give_up() {
                Some(spent) => Err(spent),
                // Its turn came at the same instant.
                None => (&mut self.call).await.unwrap_or_else(|_| Err(Spent::soon())),
            },
        }
    }

    /// Its result; `None` when that takes too long.
    async fn wait(&mut self, until: Option<Monotonic>) -> Option<Call> {
        let left = until.map(|until| until.since(self.dispatcher.now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        let end = left.map(|left| tokio::time::Instant::now() + left);
        loop {
            self.dispatcher.keep();
            let patience = async {
                match end {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                told = &mut self.call => return Some(told.unwrap_or_else(|_| Err(Spent::soon()))),
                () = patience => return None,
                () = self.dispatcher.unkept.notified() => {}
            }
        }
    }

    /// Leaves the queue; `None` when it had left before.
    fn give_up(&mut self) -> Option<Spent> {
        self.is_left = true;
        self.dispatcher.change(|dispatch, now| {
            dispatch.calls.remove(&self.ticket);
            let waiting = dispatch.state.queue.remove(self.ticket)?;
            Some(dispatch.state.gives_up(&waiting, now))
        })
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if !self.is_left {
            self.dispatcher.change(|dispatch, _| {
                dispatch.calls.remove(&self.ticket);
                dispatch.state.queue.remove(self.ticket);
            });
        }
    }
}
