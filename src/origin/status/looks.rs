//! Whether the origin's answers about one resource hold still: they differ at each look, or two bodies take turns.
//!
//! Pure. Callers: [`super`].

use crate::api::hash::ContentHash;
use crate::telemetry::findings::{Finding, Kind};
use crate::words::counted;

/// So many looks in a row show that answers differ at each.
const MANY_UNSTEADY: u32 = 3;

/// So many bodies in a row that were sent before show that answers change back and forth, until so many looks in a row show
/// no other body.
const MANY_RETURNS: u32 = 2;
const MANY_STEADY: u32 = 4;

/// Looks at one resource.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    /// Of the last body, and of the one that it replaced.
    hashes: [Option<ContentHash>; 2],
    /// How many in a row showed the last body again.
    steady: u32,
    /// How many other bodies in a row were the one that was replaced.
    returns: u32,
    /// How many in a row showed another body although nothing was modified.
    in_row: u32,
    /// How many listings had other values at the last of these.
    listings: u64,
}

impl Looks {
    /// `hash`, `differs`: as in [`super::OriginStatus::looked`].
    pub(super) fn saw(&mut self, hash: Option<ContentHash>, differs: Option<u64>) {
        let [last, before] = self.hashes;
        if hash.is_none() || hash == last {
            (self.steady, self.in_row) = (self.steady.saturating_add(1), 0);
            return;
        }
        let is_back = hash == before;
        self.returns = if is_back { self.returns.saturating_add(1) } else { 0 };
        (self.hashes, self.steady) = ([hash, last], 0);
        match differs {
            _ if is_back => self.in_row = 0,
            Some(listings) => (self.in_row, self.listings) = (self.in_row.saturating_add(1), listings),
            None => {}
        }
    }

    /// Whether two bodies take turns.
    pub(super) const fn take_turns(&self) -> bool {
        self.returns >= MANY_RETURNS && self.steady < MANY_STEADY
    }

    /// Whether the bodies differ at each look although nothing is modified.
    pub(super) fn unsteady(&self, path: &str) -> Option<Finding> {
        (self.in_row >= MANY_UNSTEADY).then(|| {
            let (cause, how) = match self.listings {
                0 => ("bytes", "in bytes, not in values".to_owned()),
                many => ("values", format!("{}, whose `modified` stands, in values", counted(many, "listing"))),
            };
            let text = format!("the origin's answers to {path} differ at each look ({how})");
            Finding::new(Kind::AnswersUnsteady, text).because(cause)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_take_turns_after_two_returns_until_four_looks_show_no_other() {
        let mut looks = Looks::default();
        let [one, other, third] = [b"1", b"2", b"3"].map(|text| Some(ContentHash::of(text)));
        for (nth, (hash, told)) in [
            (one, false),
            (other, false),
            (one, false),
            (other, true),
            (other, true),
            (None, true),
            (other, true),
            (one, true),
            (one, true),
            (None, true),
            (one, true),
            (one, false),
            (other, true),
            // Something new is a change like another.
            (third, false),
            (other, false),
        ]
        .into_iter()
        .enumerate()
        {
            looks.saw(hash, Some(1));
            assert_eq!(looks.take_turns(), told, "{nth}");
            assert_eq!(looks.unsteady("/"), None, "{nth}: what comes back is not new at each look");
        }
    }
}
