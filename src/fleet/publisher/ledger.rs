//! The ledger: a record of the last head in this server's own store, so that a restart continues the chain, and head
//! numbers never fall.
//!
//! It is written before the head: a crash in between leaves a ledger that is ahead of the store, which is harmless. The
//! details that the chain carries lie beside it, in the same transaction. Blocks. Callers: [`super`].

use serde::{Deserialize, Serialize};

use super::plan::{Chain, SignatureFile};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::clock::WallTime;
use crate::fleet::head::{Head, is_ahead};
use crate::fleet::keys::Digest;
use crate::snapshot::content::SnapshotId;
use crate::snapshots::chain::{ChainEnd, ExportedDetail};
use crate::store::{States, Store, StoreError};

const LEDGER: &str = "publish/ledger";
const DETAILS: &str = "publish/details";
/// Bytes of one detail: id and hash.
const DETAIL_BYTES: usize = 24;

/// What the ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ledger {
    pub chain: Chain,
    /// The data of a replica at the end of the chain; `None`: not known any more, so the chain cannot be continued.
    pub end: Option<ChainEnd>,
}

/// The JSON of the ledger.
#[derive(Serialize, Deserialize)]
struct Written {
    /// The object store: a chain does not continue in another one.
    url: String,
    /// The key that signed the chain; `None`: it is not signed.
    signed_by: Option<String>,
    /// The file of the head, without a signature.
    head: String,
    content: String,
    full_ms: i64,
    last_ms: i64,
    /// Length and hash of the signature of each bundle.
    #[serde(default)]
    signatures: Vec<(u64, String)>,
}

/// The object store of a chain, and the key that signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    /// The address of the object store.
    pub url: String,
    /// The id of the key that signs.
    pub signed_by: Option<String>,
}

/// The snapshot at the end of the chain in an object store, signed with any key.
pub(super) fn end_of(store: &Store, url: &str) -> Option<SnapshotId> {
    head_of(store, url).map(|head| head.snapshot)
}

/// The highest number of a head ever used for an object store, with any key.
pub(super) fn sequence(store: &Store, url: &str) -> Option<u64> {
    head_of(store, url).map(|head| head.sequence)
}

fn head_of(store: &Store, url: &str) -> Option<Head> {
    let written = store.state_json::<Written>(LEDGER).ok().flatten().filter(|written| written.url == url)?;
    Head::read_unverified(written.head.as_bytes()).ok()
}

/// Removes a ledger whose number is too far ahead of the clock: the publisher then begins again at the clock, with a
/// full bundle. Returns whether there was such a ledger.
///
/// # Errors
/// When the store cannot be read or written.
pub(crate) fn release(store: &Store, clock: WallTime) -> Result<bool, StoreError> {
    let written = store.state_json::<Written>(LEDGER)?;
    let head = written.and_then(|written| Head::read_unverified(written.head.as_bytes()).ok());
    let is_due = head.is_some_and(|head| is_ahead(head.sequence, clock));
    if is_due {
        store.remove_state(LEDGER)?;
    }
    Ok(is_due)
}

/// Reads the ledger: the highest number of a head ever used for this object store, and the chain if it can be
/// continued.
///
/// # Errors
/// When the store cannot be read.
pub(super) fn read(store: &Store, whose: &Whose) -> Result<(Option<u64>, Option<Ledger>), StoreError> {
    let Some(written) = store.state_json::<Written>(LEDGER)?.filter(|written| written.url == whose.url) else {
        return Ok((None, None));
    };
    let Ok(head) = Head::read_unverified(written.head.as_bytes()) else { return Ok((None, None)) };
    let sequence = head.sequence;
    let Some(content) = Digest::parse(&written.content).filter(|_| written.signed_by == whose.signed_by) else {
        return Ok((Some(sequence), None));
    };
    let end = store.state(DETAILS)?.and_then(|bytes| details(&bytes, &head.end().digest));
    let end = end.map(|details| ChainEnd { snapshot: head.snapshot.clone(), details });
    let signature = |(bytes, hash): &(u64, String)| Some(SignatureFile { bytes: *bytes, blake3: Digest::parse(hash)? });
    let signatures: Option<Vec<SignatureFile>> = written.signatures.iter().map(signature).collect();
    let bundles = if whose.signed_by.is_some() { head.chain().count() } else { 0 };
    // Without them, altered signatures could not be noticed.
    let Some(signatures) = signatures.filter(|signatures| signatures.len() == bundles) else {
        return Ok((Some(sequence), None));
    };
    let chain = Chain { head, content, full_ms: written.full_ms, last_ms: written.last_ms, signatures };
    Ok((Some(sequence), Some(Ledger { chain, end })))
}

/// Writes the ledger; with `end`, also the details of a new end of the chain.
///
/// # Errors
/// When the write fails.
pub(super) fn write(store: &Store, whose: &Whose, chain: &Chain, end: Option<&ChainEnd>) -> Result<(), StoreError> {
    let head = chain.head.to_file(None).unwrap_or_default();
    let written = Written {
        url: whose.url.clone(),
        signed_by: whose.signed_by.clone(),
        head: String::from_utf8(head).unwrap_or_default(),
        content: chain.content.to_string(),
        full_ms: chain.full_ms,
        last_ms: chain.last_ms,
        signatures: chain.signatures.iter().map(|one| (one.bytes, one.blake3.to_string())).collect(),
    };
    let mut states = States::default();
    states.put_json(LEDGER, &written)?;
    if let Some(end) = end {
        let mut bytes = chain.head.end().digest.as_bytes().to_vec();
        bytes.reserve(end.details.len() * DETAIL_BYTES);
        for detail in &end.details {
            bytes.extend_from_slice(&detail.id.0.to_le_bytes());
            bytes.extend_from_slice(&detail.hash.to_bytes());
        }
        states.put(DETAILS, bytes)?;
    }
    store.put_states(&states)
}

/// The details, if they belong to the bundle with this digest.
fn details(bytes: &[u8], digest: &Digest) -> Option<Vec<ExportedDetail>> {
    let (of, rest) = bytes.split_first_chunk::<32>()?;
    let (entries, rest) = rest.as_chunks::<DETAIL_BYTES>();
    let read = |entry: &[u8; DETAIL_BYTES]| {
        let (id, hash) = entry.split_at(8);
        let id = ListingId(u64::from_le_bytes(id.try_into().ok()?));
        Some(ExportedDetail { id, hash: ContentHash::from_bytes(hash.try_into().ok()?) })
    };
    if of == digest.as_bytes() && rest.is_empty() { entries.iter().map(read).collect() } else { None }
}
