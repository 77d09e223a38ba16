//! The manifest: the description at the start of a bundle.
//!
//! Callers: `write` makes it, `open` checks it against the rest, `bundle inspect` shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::form::ListForm;
use crate::api::hash::Digest;
use crate::api::json;
use crate::api::listing::DetailState;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::WallTime;
use crate::data::snapshot::content::{Content, SnapshotId};
use crate::data::snapshot::meta::{Certificate, SnapshotMeta};
use crate::data::snapshot::verdicts::told::Told;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Details that the origin sent.
    pub present: u64,
    /// Details that the origin answered with 404 or 410.
    pub gone: u64,
}

impl Counts {
    pub(super) const fn add(&mut self, state: DetailState) {
        match state {
            DetailState::Present => self.present += 1,
            DetailState::Gone => self.gone += 1,
        }
    }

    /// Both together.
    pub const fn all(self) -> u64 {
        self.present.saturating_add(self.gone)
    }
}

/// The base of a delta, and the size of the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    pub snapshot: SnapshotId,
    pub listings: u64,
    /// Listings that the base does not have.
    pub added: u64,
    /// Listings whose summaries differ.
    pub changed: u64,
    /// Listings that only the base has.
    pub removed: u64,
    /// In a chain: the digest of the bundle before. Without it, the same change twice would have the same digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name and version of the program that wrote it.
    pub program: String,
    pub snapshot: SnapshotId,
    pub listings: u64,
    /// The base of a delta; `None`: a full bundle.
    pub base: Option<Base>,
    /// How sure the writer was.
    pub certificate: Certificate,
    /// The instant for which the data is confirmed; milliseconds since the epoch.
    pub confirmed_ms: i64,
    /// Details that the writer has of the snapshot.
    pub coverage: Counts,
    /// Details in this file.
    pub details: Counts,
    /// The address with which the origin's `api_url`s begin.
    pub origin: Option<String>,
    /// The envelope's `license`, for people.
    pub license: Option<String>,
    /// The envelope's `attribution`, for people.
    pub attribution: Option<String>,
    /// As [`SnapshotMeta::volatile`].
    pub volatile: VolatileKeys,
    /// As [`SnapshotMeta::volatile_values`].
    pub volatile_values: BTreeMap<String, String>,
    /// As [`SnapshotMeta::left_out`].
    pub left_out: Vec<String>,
    /// As [`SnapshotMeta::open_points`].
    pub open_points: Vec<String>,
    /// What formats before 5 say of the origin's filters; it is skipped.
    #[serde(default, skip_serializing)]
    pub disproved: Option<Vec<String>>,
    /// What queries mean at the origin; absent before format 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdicts: Option<Told>,
    /// As [`SnapshotMeta::form`], if it is not as documented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<ListForm>,
    /// Whether the evidence is that of the base, and not in the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_evidence: bool,
}

impl Manifest {
    /// The certificate's record, as of a publication here; milliseconds since the epoch.
    pub fn meta(&self, published_ms: i64) -> SnapshotMeta {
        SnapshotMeta {
            certificate: self.certificate,
            confirmed_ms: self.confirmed_ms,
            claimed_ms: None,
            published_ms,
            volatile: self.volatile.clone(),
            volatile_values: self.volatile_values.clone(),
            left_out: self.left_out.clone(),
            open_points: self.open_points.clone(),
            form: self.form.clone().unwrap_or_default(),
            origin: self.origin.clone(),
        }
    }

    pub(crate) fn told(&self) -> Told {
        self.verdicts.clone().unwrap_or_default()
    }

    pub const fn kind(&self) -> &'static str {
        if self.base.is_some() { "delta" } else { "full" }
    }

    pub(super) fn read(raw: &[u8]) -> Result<Self, String> {
        let manifest: Self = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
        manifest.check().map(|()| manifest)
    }

    /// Checks the manifest alone, not against the rest.
    pub(super) fn check(&self) -> Result<(), String> {
        const MOST_VOLATILE: usize = 64;
        let ids = [Some(&self.snapshot), self.base.as_ref().map(|base| &base.snapshot)];
        if let Some(wrong) = ids.into_iter().flatten().find(|given| SnapshotId::parse(given.as_str()).is_none()) {
            return Err(format!("{:?} is not a snapshot id", wrong.as_str()));
        }
        if u32::try_from(self.listings).is_err() {
            return Err(format!("{} listings are more than there can be", self.listings));
        }
        if !self.volatile.contains("generated_at") || self.volatile.iter().count() > MOST_VOLATILE {
            return Err("the volatile fields are not those of a snapshot".to_owned());
        }
        if !WallTime::from_millis(self.confirmed_ms).is_plausible() {
            return Err(format!("confirmed_ms is {}, which is no instant", self.confirmed_ms));
        }
        self.verdicts.as_ref().map_or(Ok(()), Told::check)?;
        self.form.as_ref().map_or(Ok(()), ListForm::check)?;
        for (name, value) in &self.volatile_values {
            json::check(value).map_err(|error| format!("the value of {name:?} is not JSON: {error}"))?;
        }
        let (here, all) = (self.details, self.coverage);
        if here.present > all.present || here.gone > all.gone || all.all() > self.listings {
            return Err("there are more details than it covers".to_owned());
        }
        match &self.base {
            None if here != all => Err("a full bundle has all details that it covers".to_owned()),
            None if self.keeps_evidence => Err("a full bundle has no base whose evidence it could keep".to_owned()),
            // Each is below 2^33, so that no sum overflows.
            Some(base) if [base.listings, base.added, base.changed, base.removed].iter().any(|n| *n >= 1 << 32) => {
                Err("the base has more listings than there can be".to_owned())
            }
            Some(base)
                if self.listings + base.removed != base.listings + base.added
                    || base.changed + base.added > self.listings =>
            {
                Err("the numbers of added, changed and removed listings do not add up".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// A carried field of the envelope for people: a string's text, or the JSON of anything else.
pub(super) fn told(content: &Content, key: &str) -> Option<String> {
    let text = content.envelope.carried(key)?;
    Some(json::string(text).map_or_else(|| text.to_owned(), std::borrow::Cow::into_owned))
}
