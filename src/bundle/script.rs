//! Scripts: the steps from one sequence to another.
//!
//! Two kinds, of ids and of bytes, with one encoding. Callers: `write` makes them, `open` checks them, `apply` runs
//! them.

use std::collections::HashMap;
use std::hash::RandomState;

use super::records::{Reader, Wrong};
use crate::api::listing::{ListingId, Summary};

const INSERT: u32 = u32::MAX;

/// One step. Counts are above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Items of the base.
    Copy { from: u32, count: u32 },
    /// Items as bytes.
    Insert { count: u32, items: &'a [u8] },
}

impl<'a> Step<'a> {
    /// Reads a step whose items have `size` bytes each.
    pub(super) fn read(reader: &mut Reader<'a>, size: usize) -> Result<Self, Wrong> {
        match (reader.u32()?, reader.u32()?) {
            (_, 0) => Err("a step of a script does nothing".to_owned()),
            (INSERT, count) => Ok(Self::Insert { count, items: reader.take((count as usize).saturating_mul(size))? }),
            (from, count) => Ok(Self::Copy { from, count }),
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let (from, count, items): (_, _, &[u8]) = match *self {
            Self::Copy { from, count } => (from, count, &[]),
            Self::Insert { count, items } => (INSERT, count, items),
        };
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(items);
    }

    /// The number of resulting items.
    pub(super) const fn count(&self) -> u32 {
        match self {
            Self::Copy { count, .. } | Self::Insert { count, .. } => *count,
        }
    }

    /// The range of a base of this length that a step copies.
    pub(super) fn range(from: u32, count: u32, base: usize) -> Result<std::ops::Range<usize>, Wrong> {
        let (start, end) = (from as usize, from as usize + count as usize);
        if end <= base { Ok(start..end) } else { Err("a step of a script reaches beyond the base".to_owned()) }
    }
}

/// The steps from the base's order to another, in turn.
pub(super) fn order(base: &[Summary], target: &[Summary], mut put: impl FnMut(Step<'_>)) {
    /// The most ids that one step inserts.
    const MOST: usize = 4096;
    let places: HashMap<ListingId, u32> = base.iter().zip(0..).map(|(summary, place)| (summary.id, place)).collect();
    let mut rest = target;
    while let Some(first) = rest.first() {
        let known = places.get(&first.id).copied();
        let count = match known {
            Some(from) => {
                let pairs = rest.iter().zip(&base[from as usize..]);
                pairs.take_while(|(target, base)| target.id == base.id).count()
            }
            None => rest.iter().take(MOST).take_while(|summary| !places.contains_key(&summary.id)).count(),
        };
        let (run, after) = rest.split_at(count);
        if let Some(from) = known {
            put(Step::Copy { from, count: count as u32 });
        } else {
            let items: Vec<u8> = run.iter().flat_map(|summary| summary.id.0.to_le_bytes()).collect();
            put(Step::Insert { count: count as u32, items: &items });
        }
        rest = after;
    }
}

/// Bytes by which equal places of two texts are found.
const WINDOW: usize = 24;

/// The script from one text to another, both shorter than 2^32 bytes.
pub(super) fn text(base: &str, target: &str) -> Vec<u8> {
    let (base, target) = (base.as_bytes(), target.as_bytes());
    let mut places: HashMap<&[u8], usize, RandomState> = HashMap::new();
    for (n, window) in base.chunks_exact(WINDOW).enumerate() {
        places.entry(window).or_insert(n * WINDOW);
    }
    let mut out = Vec::new();
    // The end of the written target, and the position in the base that continues it.
    let (mut done, mut next) = (0, 0);
    let mut at = 0;
    while let Some(window) = target.get(at..at + WINDOW) {
        let expected = next + (at - done);
        let found = if base.get(expected..expected + WINDOW) == Some(window) {
            Some(expected)
        } else {
            places.get(window).copied()
        };
        let Some(found) = found else {
            at += 1;
            continue;
        };
        let back = common(target[done..at].iter().rev(), base[..found].iter().rev());
        let ahead = common(target[at..].iter(), base[found..].iter());
        insert(&mut out, &target[done..at - back]);
        Step::Copy { from: (found - back) as u32, count: (back + ahead) as u32 }.put(&mut out);
        (done, next) = (at + ahead, found + ahead);
        at = done;
    }
    insert(&mut out, &target[done..]);
    out
}

fn insert(out: &mut Vec<u8>, items: &[u8]) {
    if !items.is_empty() {
        Step::Insert { count: items.len() as u32, items }.put(out);
    }
}

fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(a, b)| a == b).count()
}

/// Runs a script of bytes; the result has at most `most` bytes.
pub(super) fn follow(script: &[u8], base: &str, most: usize) -> Result<String, Wrong> {
    let (mut reader, mut out) = (Reader(script), Vec::new());
    while !reader.0.is_empty() {
        let step = Step::read(&mut reader, 1)?;
        if step.count() as usize > most - out.len() {
            return Err(format!("a script produces more than {most} bytes"));
        }
        match step {
            Step::Copy { from, count } => {
                out.extend_from_slice(&base.as_bytes()[Step::range(from, count, base.len())?]);
            }
            Step::Insert { items, .. } => out.extend_from_slice(items),
        }
    }
    String::from_utf8(out).map_err(|_| "the output of a script is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_script_turns_any_text_into_any_other(
            texts in prop::collection::vec("[ab{}]{0,40}", 1..12),
            picks in prop::collection::vec((0_usize..12, any::<bool>()), 0..12),
        ) {
            let base = texts.concat();
            let target: String =
                picks.iter().map(|(n, other)| if *other { "\u{e9}!" } else { texts[n % texts.len()].as_str() }).collect();
            prop_assert_eq!(follow(&text(&base, &target), &base, target.len()).unwrap(), target.clone());
            if !target.is_empty() {
                prop_assert!(follow(&text(&base, &target), &base, target.len() - 1).is_err());
            }
        }

        #[test]
        fn no_bytes_panic(script in any::<Vec<u8>>(), base in ".{0,40}") {
            let _ = follow(&script, &base, 1 << 16);
        }
    }

    #[test]
    fn a_small_change_makes_a_small_script() {
        let term = |n: u32, count: u32| format!("{{\"slug\":\"s{n}\",\"count\":{count}}},");
        let terms =
            |changed: u32| -> Vec<String> { (0..5000).map(|n| term(n, if n == 2500 { changed } else { n })).collect() };
        let (base, target) = (terms(2500).concat(), terms(12_345).concat());
        assert!(text(&base, &target).len() < 100, "{}", text(&base, &target).len());
        assert_eq!(text(&base, &base).len(), 8);
    }
}
