//! Deltas: the steps from a base to another snapshot, and how they are made, read and run.
//!
//! Two kinds of scripts, of ids and of bytes, with one encoding. A delta is applied in memory, and the result must be the
//! snapshot that the bundle names. Callers: `write` makes scripts, `open` checks them, imports apply them.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;
use std::ops::Range;
use std::sync::Arc;

use super::parts::UnpackedPart;
use super::records::Records;
use super::{BundleError, MAX_TEXT};
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;
use crate::data::snapshot::content::{Content, SnapshotId};

const INSERT: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptStep<'a> {
    /// A range of the base, not empty.
    Copy(Range<usize>),
    /// So many items as bytes, above 0.
    Insert(u32, &'a [u8]),
}

impl<'a> ScriptStep<'a> {
    /// Reads a step whose items have `size` bytes each, for a base with so many items.
    pub(super) fn read(records: &mut Records<'a>, size: usize, base: usize) -> Result<Self, BundleError> {
        match (records.u32()?, records.u32()?) {
            (_, 0) => Err(records.malformed("a step of a script does nothing")),
            (INSERT, count) => Ok(Self::Insert(count, records.take((count as usize).saturating_mul(size))?)),
            (from, count) => {
                let range = from as usize..from as usize + count as usize;
                if range.end > base {
                    return Err(records.malformed("a step of a script reaches beyond the base"));
                }
                Ok(Self::Copy(range))
            }
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let (from, count, items): (_, _, &[u8]) = match self {
            Self::Copy(range) => (range.start as u32, range.len() as u32, &[]),
            Self::Insert(count, items) => (INSERT, *count, items),
        };
        out.extend_from_slice(&from.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(items);
    }
}

/// The steps from the base's order to another, in turn.
pub(super) fn order(base: &[Summary], target: &[Summary], mut put: impl FnMut(ScriptStep<'_>)) {
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
            put(ScriptStep::Copy(from as usize..from as usize + count));
        } else {
            let items: Vec<u8> = run.iter().flat_map(|summary| summary.id.0.to_le_bytes()).collect();
            put(ScriptStep::Insert(count as u32, &items));
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
        ScriptStep::Copy(found - back..found + ahead).put(&mut out);
        (done, next) = (at + ahead, found + ahead);
        at = done;
    }
    insert(&mut out, &target[done..]);
    out
}

fn insert(out: &mut Vec<u8>, items: &[u8]) {
    if !items.is_empty() {
        ScriptStep::Insert(items.len() as u32, items).put(out);
    }
}

fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(a, b)| a == b).count()
}

/// Runs a script of bytes; the result has at most `most` bytes.
fn follow(mut script: Records<'_>, base: &str, most: usize) -> Result<String, BundleError> {
    let mut out = Vec::new();
    while !script.rest.is_empty() {
        let items = match ScriptStep::read(&mut script, 1, base.len())? {
            ScriptStep::Copy(range) => &base.as_bytes()[range],
            ScriptStep::Insert(_, items) => items,
        };
        if items.len() > most - out.len() {
            return Err(script.malformed(format!("a script produces more than {most} bytes")));
        }
        out.extend_from_slice(items);
    }
    String::from_utf8(out).map_err(|_| script.malformed("the output of a script is not UTF-8"))
}

/// The change from the base's content to the bundle's.
#[derive(Debug)]
pub(super) struct Delta {
    pub base: SnapshotId,
    pub envelope: Envelope,
    pub taxonomies: [UnpackedPart; 3],
    pub order: Vec<UnpackedPart>,
    pub summaries: Vec<Summary>,
}

/// The error for a delta that leads somewhere else than to its snapshot.
pub(super) fn lead_astray(manifest: &impl ToString, found: &impl ToString) -> BundleError {
    BundleError::disagrees("comes of the base", manifest, found)
}

impl Delta {
    /// The result of the delta, not checked.
    pub(super) fn content(&self, base: &Content) -> Result<Content, BundleError> {
        let mut taxonomies: [Arc<str>; 3] = Default::default();
        for (n, part) in self.taxonomies.iter().enumerate() {
            taxonomies[n] = follow(part.records(0), &base.taxonomies[n], MAX_TEXT)?.into();
        }
        Ok(Content { envelope: self.envelope.clone(), taxonomies, summaries: self.summaries(&base.summaries)? })
    }

    fn summaries(&self, base: &[Summary]) -> Result<Vec<Summary>, BundleError> {
        let wrong = |found: String| lead_astray(&"its listings", &found);
        let mut new: HashMap<ListingId, &Summary> =
            self.summaries.iter().map(|summary| (summary.id, summary)).collect();
        let (mut summaries, mut seen) = (Vec::new(), HashSet::new());
        let mut place = |id: ListingId, kept: Option<&Summary>| -> Result<(), BundleError> {
            if !seen.insert(id) {
                return Err(wrong(format!("listing {id} twice")));
            }
            let summary = new.remove(&id).or(kept).ok_or_else(|| wrong(format!("no summary of listing {id}")))?;
            summaries.push(summary.clone());
            Ok(())
        };
        for script in &self.order {
            let mut script = script.records(0);
            while !script.rest.is_empty() {
                match ScriptStep::read(&mut script, 8, base.len())? {
                    ScriptStep::Copy(range) => {
                        base[range].iter().try_for_each(|summary| place(summary.id, Some(summary)))?;
                    }
                    ScriptStep::Insert(_, ids) => {
                        let (ids, _) = ids.as_chunks::<8>();
                        ids.iter().try_for_each(|id| place(ListingId(u64::from_le_bytes(*id)), None))?;
                    }
                }
            }
        }
        match new.keys().min() {
            None => Ok(summaries),
            Some(id) => Err(wrong(format!("a summary of listing {id}, which is in no place"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::part::{PartKind, PartPosition};
    use super::*;

    /// Runs a script that is a part of its own.
    fn follow(script: &[u8], base: &str, most: usize) -> Result<String, BundleError> {
        let at = PartPosition { part: 3, kind: PartKind::Taxonomy, offset: 0 };
        super::follow(Records { rest: script, of: at }, base, most)
    }

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
