//! Promises of bundles, from the outside: see `FORMAT.md`.

mod damage;
mod fixture;
mod hostile;
mod round_trip;
mod size;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Cursor;

use bytes::Bytes;

use super::manifest::Base;
use super::{Bundle, BundleError, Counts, Detail, Export, FORMAT, LEVEL, WriteError, Written, write};
use crate::api::form::ListForm;
use crate::api::hash::ContentHash;
use crate::api::listing::{DetailState, ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::{Evidence, ListedTerm};
use crate::data::snapshot::meta::{Certificate, SnapshotMeta};
use crate::data::snapshot::verdicts::told::Told;

/// What is bundled.
#[derive(Clone, Debug)]
struct World {
    content: Content,
    meta: SnapshotMeta,
    evidence: Evidence,
    verdicts: Option<Told>,
    details: BTreeMap<ListingId, Detail>,
}

impl World {
    fn of(ids: impl IntoIterator<Item = u64>) -> Self {
        let fields = vec![
            EnvelopeField::Carried { key: "license".to_owned(), value: "\"CC BY 4.0\"".to_owned() },
            EnvelopeField::Carried { key: "attribution".to_owned(), value: r#"{"name":"Venues"}"#.to_owned() },
            EnvelopeField::GeneratedAt,
            EnvelopeField::Volatile { key: "request_id".to_owned() },
            EnvelopeField::Items,
        ];
        let taxonomy = |name: &str| -> std::sync::Arc<str> { format!(r#"{{"{name}":[{{"slug":"a"}}]}}"#).into() };
        let summaries: Vec<Summary> = ids.into_iter().map(|id| summary(id, 1)).collect();
        let details = summaries.iter().filter(|summary| summary.id.0 % 4 != 3).map(|summary| detail(summary.id.0, 1));
        let details = details.collect();
        let mut volatile = VolatileKeys::default();
        volatile.insert("request_id");
        let evidence = ListedTerm {
            ids: vec![ListingId(3), ListingId(9)],
            fingerprint: [7; 16],
            snapshot: "0123456789abcdef0123456789abcdef".to_owned(),
        };
        Self {
            content: Content {
                envelope: Envelope { fields, empty_filters: "[]".to_owned(), ..Envelope::default() },
                taxonomies: [taxonomy("sports"), taxonomy("states"), taxonomy("cities")],
                summaries,
            },
            meta: SnapshotMeta {
                certificate: Certificate::Incremental,
                confirmed_ms: 1_795_000_000_123,
                claimed_ms: None,
                published_ms: 1_795_000_001_000,
                volatile,
                volatile_values: BTreeMap::from([("list request_id".to_owned(), "\"x\"".to_owned())]),
                left_out: vec!["next".to_owned()],
                open_points: vec!["page 3".to_owned()],
                form: ListForm::default(),
                origin: Some("https://venues.example".to_owned()),
            },
            evidence: BTreeMap::from([((TaxonomyKind::Cities, "springfield".to_owned()), evidence)]),
            verdicts: None,
            details,
        }
    }

    fn counts(details: &BTreeMap<ListingId, Detail>) -> Counts {
        let gone = details.values().filter(|detail| detail.state == DetailState::Gone).count() as u64;
        Counts { present: details.len() as u64 - gone, gone }
    }

    fn export<'a>(&'a self, base: Option<&'a Self>, details: &BTreeMap<ListingId, Detail>) -> Export<'a> {
        Export {
            content: &self.content,
            meta: &self.meta,
            evidence: Some(&self.evidence),
            verdicts: self.verdicts.as_ref(),
            base: base.map(|base| &base.content),
            follows: None,
            coverage: Self::counts(&self.details),
            details: Self::counts(details),
            level: LEVEL,
        }
    }

    fn full(&self) -> Vec<u8> {
        self.bundle(None).0
    }

    /// Evidence as a data set has it: for its own snapshot.
    fn with_evidence_of_its_own(mut self) -> Self {
        let id = self.content.id();
        self.evidence.values_mut().for_each(|listed| listed.snapshot = id.to_string());
        self
    }

    /// A bundle, of what differs from a base if there is one.
    fn bundle(&self, base: Option<&Self>) -> (Vec<u8>, Written) {
        self.written(base, Some(&self.evidence))
    }

    /// A delta for a holder of the base who has the evidence.
    fn bundle_that_keeps_evidence(&self, base: &Self) -> Vec<u8> {
        self.written(Some(base), None).0
    }

    fn written(&self, base: Option<&Self>, evidence: Option<&Evidence>) -> (Vec<u8>, Written) {
        let mut details = self.details.clone();
        if let Some(base) = base {
            details.retain(|id, detail| base.details.get(id) != Some(detail));
        }
        let mut out = Vec::new();
        let export = Export { evidence, ..self.export(base, &details) };
        let written = write(&mut out, &export, details.into_iter().map(Ok::<_, Infallible>)).unwrap();
        assert_eq!(written.bytes, out.len() as u64);
        (out, written)
    }
}

fn summary(id: u64, edition: u32) -> Summary {
    let raw = format!(r#"{{"id":{id},"name":"Venue {id}","edition":{edition},"city":"Springfield"}}"#);
    Summary { id: ListingId(id), hash: ContentHash::of(raw.as_bytes()), raw: raw.into() }
}

fn detail(id: u64, edition: u32) -> (ListingId, Detail) {
    let gone = id % 5 == 4;
    let text = format!(r#"{{"generated_at":"{edition}","id":{id},"edition":{edition},"about":"Springfield"}}"#);
    let detail = Detail {
        state: if gone { DetailState::Gone } else { DetailState::Present },
        body: if gone { Bytes::new() } else { text.into() },
        current: !id.is_multiple_of(3),
        etag: id.is_multiple_of(2).then(|| format!("\"{id}-{edition}\"")),
        last_modified: id.is_multiple_of(7).then(|| "Sat, 21 Nov 2026 20:25:20 GMT".to_owned()),
    };
    (ListingId(id), detail)
}

fn open(bytes: &[u8]) -> Result<Bundle, BundleError> {
    Bundle::open(Cursor::new(bytes), &mut |_, _| {})
}

fn details_of(bundle: &Bundle, bytes: &[u8]) -> Result<BTreeMap<ListingId, Detail>, BundleError> {
    bundle.details(Cursor::new(bytes)).collect()
}
