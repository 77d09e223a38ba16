//! Verdicts as they travel in bundles: names of shapes and terms.
//!
//! Callers: [`super::table`] makes them, and is made of them; [`crate::data::bundle`] writes and reads them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::api::odd::Meaning;
use crate::api::shape::TermName;

/// What a bundle tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    pub(super) confirmed: Vec<String>,
    pub(super) disproved: Vec<String>,
    /// Those of `disproved` that differ in order alone.
    pub(super) by_order: Vec<String>,
    /// What the confirmed rows of open cases mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) meanings: BTreeMap<String, Meaning>,
    /// Values of filters that are in doubt although their shape is not: `sport=golf`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) terms: BTreeSet<TermName>,
}

impl Told {
    /// A list has no more names: there are fewer shapes.
    const MOST: usize = 256;

    pub(crate) fn check(&self) -> Result<(), String> {
        let most = [&self.confirmed, &self.disproved, &self.by_order].map(Vec::len).into_iter().max();
        if most > Some(Self::MOST) || self.meanings.len().max(self.terms.len()) > Self::MOST {
            return Err("there are too many verdicts".to_owned());
        }
        match self.meanings.iter().find(|(_, meaning)| !meaning.is_valid()) {
            Some((row, meaning)) => Err(format!("an open case ({row}) has no such meaning: {meaning:?}")),
            None => Ok(()),
        }
    }
}
