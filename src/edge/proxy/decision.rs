//! Cache decision: what to do about a GET or HEAD, given the stored answer and the origin's state.
//!
//! One decision for known endpoints and other paths. Pure: it asks for [`Facts`] one by one, only as far as needed, and
//! does nothing itself. Callers: [`super`].

use crate::protocol::caching::Reuse;

/// What the decision depends on. What is a function is asked for only if what comes before does not decide.
pub(super) struct Facts<K, A, B, C> {
    /// The cached answer that the request could use, and how; `None` without one.
    pub kept: Option<(K, Reuse)>,
    /// Whether the cached answer may be served when the origin fails, the resource is paused, or the budget is spent,
    /// and the budget has no slot for a client now.
    pub must_stand_in: A,
    /// Whether the request forbids to ask the origin (`only-if-cached`).
    pub only_if_cached: bool,
    /// Whether the answer is for this client alone. Then the fetch is not shared, and a pause of the resource does not
    /// apply.
    pub is_alone: B,
    /// The failure that pauses the resource.
    pub resting: C,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<K, E> {
    Serve(K),
    /// The cached answer is served, and revalidated in the background.
    ServeWhileRevalidating(K),
    /// The cached answer is served, and revalidated as soon as the budget has room.
    StandIn(K),
    /// No cached answer may be served, and the request forbids asking the origin (`only-if-cached`).
    Nothing,
    /// The resource is paused: the client gets the cached answer if that may stand in, otherwise the failure.
    Rest(E),
    Fetch {
        /// Why the cached answer cannot be used; `None` without one.
        why: Option<Reuse>,
        /// Whether the fetch is for this client alone; else all who ask share it.
        alone: bool,
    },
}

impl<K, E, A: FnOnce() -> bool, B: FnOnce() -> bool, C: FnOnce() -> Option<E>> Facts<K, A, B, C> {
    pub(super) fn next(self) -> Step<K, E> {
        let why = match self.kept {
            Some((kept, Reuse::Use)) => return Step::Serve(kept),
            Some((kept, Reuse::WhileRevalidating)) => return Step::ServeWhileRevalidating(kept),
            // A client with a stale answer at hand does not wait for the budget.
            // DEVIATION: stale although the origin has not failed, but has no slot (RFC 9111 §4.2.4).
            Some((kept, _)) if (self.must_stand_in)() => return Step::StandIn(kept),
            Some((_, why)) => Some(why),
            None => None,
        };
        if self.only_if_cached {
            return Step::Nothing;
        }
        let alone = (self.is_alone)();
        match if alone { None } else { (self.resting)() } {
            Some(failure) => Step::Rest(failure),
            None => Step::Fetch { why, alone },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    #[expect(clippy::struct_excessive_bools, reason = "one for each question")]
    struct Case {
        kept: Option<Reuse>,
        stands_in: bool,
        has_room: bool,
        only_if_cached: bool,
        alone: bool,
        resting: bool,
    }

    fn next(case: Case) -> Step<(), ()> {
        Facts {
            kept: case.kept.map(|reuse| ((), reuse)),
            must_stand_in: || case.stands_in && !case.has_room,
            only_if_cached: case.only_if_cached,
            is_alone: || case.alone,
            resting: || case.resting.then_some(()),
        }
        .next()
    }

    const NOTHING: Case =
        Case { kept: None, stands_in: false, has_room: true, only_if_cached: false, alone: false, resting: false };

    #[test]
    fn each_rung_of_the_ladder() {
        let kept = |reuse| Case { kept: Some(reuse), ..NOTHING };
        let stale = Case { stands_in: true, ..kept(Reuse::Validate) };
        let fetch = |why, alone| Step::Fetch { why, alone };
        for (case, step) in [
            (kept(Reuse::Use), Step::Serve(())),
            (Case { resting: true, ..kept(Reuse::Use) }, Step::Serve(())),
            (kept(Reuse::WhileRevalidating), Step::ServeWhileRevalidating(())),
            (stale, fetch(Some(Reuse::Validate), false)),
            (Case { has_room: false, ..stale }, Step::StandIn(())),
            (Case { has_room: false, stands_in: false, ..stale }, fetch(Some(Reuse::Validate), false)),
            (Case { resting: true, ..stale }, Step::Rest(())),
            (Case { resting: true, alone: true, ..stale }, fetch(Some(Reuse::Validate), true)),
            (Case { only_if_cached: true, ..stale }, Step::Nothing),
            (kept(Reuse::Requested), fetch(Some(Reuse::Requested), false)),
            (NOTHING, fetch(None, false)),
            (Case { has_room: false, ..NOTHING }, fetch(None, false)),
            (Case { alone: true, ..NOTHING }, fetch(None, true)),
            (Case { resting: true, ..NOTHING }, Step::Rest(())),
            (Case { only_if_cached: true, resting: true, ..NOTHING }, Step::Nothing),
        ] {
            assert_eq!(next(case), step);
        }
    }
}
