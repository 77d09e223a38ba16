//! The ladder of the cache: what to do about a GET or HEAD, given the stored answer and the origin's state.
//!
//! One decision for known endpoints and other paths. Pure: it asks [`Facts`] one by one, only as far as needed, and
//! does nothing itself. Callers: [`super`].

use crate::semantics::caching::{Reuse, ValidationReason};

/// What the decision depends on. A fact is asked for only if the facts before it do not decide.
pub(super) trait Facts {
    type Kept;
    /// Why a resource is paused.
    type Failure;
    /// The cached answer that the request could use, and how; `None` without one.
    fn kept(&self) -> Option<(Self::Kept, Reuse)>;
    /// Whether the cached answer may be served when the origin fails, the resource is paused, or the budget is spent.
    fn stands_in(&self) -> bool;
    /// Whether the budget has a slot for a client now.
    fn has_room(&self) -> bool;
    /// Whether the request forbids to ask the origin (`only-if-cached`).
    fn only_if_cached(&self) -> bool;
    /// Whether the answer is for this client alone. Then the fetch is not shared, and a pause of the resource does not
    /// apply.
    fn is_alone(&self) -> bool;
    /// The failure that pauses the resource.
    fn resting(&self) -> Option<Self::Failure>;
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<K, E> {
    /// The cached answer is served.
    Serve(K),
    /// The cached answer is served, and revalidated in the background.
    ServeWhileRevalidating(K),
    /// The cached answer is served, and revalidated as soon as the budget has room.
    StandIn(K),
    /// No cached answer may be served, and the request forbids asking the origin (`only-if-cached`).
    Nothing,
    /// The resource is paused: the client gets the cached answer if that may stand in, otherwise the failure.
    Rest(E),
    /// The origin is asked.
    Fetch {
        /// Why the cached answer cannot be used; `None` without one.
        why: Option<ValidationReason>,
        /// Whether the fetch is for this client alone; else all who ask share it.
        alone: bool,
    },
}

pub(super) fn next<F: Facts>(facts: &F) -> Step<F::Kept, F::Failure> {
    let why = match facts.kept() {
        Some((kept, Reuse::Fresh { .. } | Reuse::Stale { .. })) => return Step::Serve(kept),
        Some((kept, Reuse::WhileRevalidating { .. })) => return Step::ServeWhileRevalidating(kept),
        // A client with a stale answer at hand does not wait for the budget.
        Some((kept, Reuse::Validate(_))) if facts.stands_in() && !facts.has_room() => return Step::StandIn(kept),
        Some((_, Reuse::Validate(why))) => Some(why),
        None => None,
    };
    if facts.only_if_cached() {
        return Step::Nothing;
    }
    let alone = facts.is_alone();
    match if alone { None } else { facts.resting() } {
        Some(failure) => Step::Rest(failure),
        None => Step::Fetch { why, alone },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

    impl Facts for Case {
        type Kept = ();
        type Failure = ();
        fn kept(&self) -> Option<((), Reuse)> {
            self.kept.map(|reuse| ((), reuse))
        }
        fn stands_in(&self) -> bool {
            self.stands_in
        }
        fn has_room(&self) -> bool {
            self.has_room
        }
        fn only_if_cached(&self) -> bool {
            self.only_if_cached
        }
        fn is_alone(&self) -> bool {
            self.alone
        }
        fn resting(&self) -> Option<()> {
            self.resting.then_some(())
        }
    }

    const NOTHING: Case =
        Case { kept: None, stands_in: false, has_room: true, only_if_cached: false, alone: false, resting: false };

    #[test]
    fn each_rung_of_the_ladder() {
        let span = Duration::from_secs(1);
        let kept = |reuse| Case { kept: Some(reuse), ..NOTHING };
        let stale = Case { stands_in: true, ..kept(Reuse::Validate(ValidationReason::Stale)) };
        let fetch = |why, alone| Step::Fetch { why, alone };
        for (case, step) in [
            (kept(Reuse::Fresh { left: span }), Step::Serve(())),
            (kept(Reuse::Stale { stale_for: span }), Step::Serve(())),
            (Case { resting: true, ..kept(Reuse::Fresh { left: span }) }, Step::Serve(())),
            (kept(Reuse::WhileRevalidating { stale_for: span }), Step::ServeWhileRevalidating(())),
            (stale, fetch(Some(ValidationReason::Stale), false)),
            (Case { has_room: false, ..stale }, Step::StandIn(())),
            (Case { has_room: false, stands_in: false, ..stale }, fetch(Some(ValidationReason::Stale), false)),
            (Case { resting: true, ..stale }, Step::Rest(())),
            (Case { resting: true, alone: true, ..stale }, fetch(Some(ValidationReason::Stale), true)),
            (Case { only_if_cached: true, ..stale }, Step::Nothing),
            (kept(Reuse::Validate(ValidationReason::Request)), fetch(Some(ValidationReason::Request), false)),
            (NOTHING, fetch(None, false)),
            (Case { has_room: false, ..NOTHING }, fetch(None, false)),
            (Case { alone: true, ..NOTHING }, fetch(None, true)),
            (Case { resting: true, ..NOTHING }, Step::Rest(())),
            (Case { only_if_cached: true, resting: true, ..NOTHING }, Step::Nothing),
        ] {
            assert_eq!(next(&case), step);
        }
    }
}
