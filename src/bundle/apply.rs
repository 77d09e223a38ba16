//! Applies a delta to its base, in memory. The result must be the snapshot that the bundle names.
//!
//! Callers: imports.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::MAX_TEXT;
use super::error::BundleError;
use super::open::{Bundle, Carried, Delta};
use super::records::Reader;
use super::script::{self, Step};
use crate::api::listing::{ListingId, Summary};
use crate::snapshot::content::{Content, SnapshotId};

impl Bundle {
    /// The bundle's content: its own if it is full (the base is ignored), else the result of the delta.
    ///
    /// # Errors
    /// When this is not the delta's base, or the result is not its snapshot.
    pub fn apply(&self, base: &Content) -> Result<Content, BundleError> {
        let delta = match &self.carried {
            Carried::Full(content) => return Ok(content.clone()),
            Carried::Delta(delta) => delta,
        };
        let (needed, given) = (delta.base.snapshot.clone(), base.id());
        if needed != given {
            return Err(BundleError::WrongBase { needed, given });
        }
        let content = delta.content(base)?;
        let found = content.id();
        if found == self.manifest().snapshot {
            self.check_details(&content).map(|()| content)
        } else {
            Err(lead_astray(&self.manifest().snapshot, &found))
        }
    }

    /// The bundle's content, with the base of a delta if there is one.
    ///
    /// # Errors
    /// As for [`Bundle::apply`], and when a delta has no base.
    pub fn content_over(&self, base: Option<&Content>) -> Result<Content, BundleError> {
        match (&self.carried, base) {
            (Carried::Full(content), _) => Ok(content.clone()),
            (Carried::Delta(_), Some(base)) => self.apply(base),
            (Carried::Delta(delta), None) => Err(BundleError::NeedsBase { needed: delta.base.snapshot.clone() }),
        }
    }

    fn check_details(&self, content: &Content) -> Result<(), BundleError> {
        let ids: HashSet<ListingId> = content.summaries.iter().map(|summary| summary.id).collect();
        match self.detail_hashes().iter().find(|detail| !ids.contains(&detail.id)) {
            None => Ok(()),
            Some(detail) => Err(lead_astray(&"only details of its listings", &format!("one of listing {}", detail.id))),
        }
    }
}

fn lead_astray(manifest: &impl ToString, found: &impl ToString) -> BundleError {
    BundleError::Disagrees { what: "comes of the base", manifest: manifest.to_string(), found: found.to_string() }
}

impl Delta {
    fn content(&self, base: &Content) -> Result<Content, BundleError> {
        let mut taxonomies: [Arc<str>; 3] = Default::default();
        for (n, part) in self.taxonomies.iter().enumerate() {
            let text = script::follow(&part.raw, &base.taxonomies[n], MAX_TEXT);
            taxonomies[n] = text.map_err(|wrong| part.malformed(wrong))?.into();
        }
        let summaries = self.summaries(&base.summaries).map_err(|wrong| lead_astray(&"its listings", &wrong))?;
        Ok(Content { envelope: self.envelope.clone(), taxonomies, summaries })
    }

    fn summaries(&self, base: &[Summary]) -> Result<Vec<Summary>, String> {
        let mut new: HashMap<ListingId, &Summary> =
            self.summaries.iter().map(|summary| (summary.id, summary)).collect();
        let (mut summaries, mut seen) = (Vec::new(), HashSet::new());
        let mut place = |id: ListingId, kept: Option<&Summary>| -> Result<(), String> {
            if !seen.insert(id) {
                return Err(format!("listing {id} twice"));
            }
            let summary = new.remove(&id).or(kept).ok_or_else(|| format!("no summary of listing {id}"))?;
            summaries.push(summary.clone());
            Ok(())
        };
        for script in &self.order {
            let mut reader = Reader(script);
            while !reader.0.is_empty() {
                match Step::read(&mut reader, 8)? {
                    Step::Copy { from, count } => {
                        for summary in &base[Step::range(from, count, base.len())?] {
                            place(summary.id, Some(summary))?;
                        }
                    }
                    Step::Insert { items, .. } => {
                        let mut ids = Reader(items);
                        while !ids.0.is_empty() {
                            place(ListingId(ids.u64()?), None)?;
                        }
                    }
                }
            }
        }
        match new.keys().min() {
            None => Ok(summaries),
            Some(id) => Err(format!("a summary of listing {id}, which is in no place")),
        }
    }
}

/// The id of a base, for messages.
impl Bundle {
    /// The base of a delta; `None`: it is full.
    pub const fn base(&self) -> Option<&SnapshotId> {
        match &self.carried {
            Carried::Full(_) => None,
            Carried::Delta(delta) => Some(&delta.base.snapshot),
        }
    }
}
