//! The ledger: a record of the last head in this server's own store, so that a restart continues the chain, and head
//! numbers never fall.
//!
//! It is written before the head: a crash in between leaves a ledger that is ahead of the store, which is harmless. The
//! same transaction marks up to where the chain has the changes of details. Blocks. Callers: [`super`].

use serde::{Deserialize, Serialize};

use super::plan::Chain;
use crate::clock::WallTime;
use crate::fleet::head::{Head, is_ahead};
use crate::store::{States, Store, StoreError};

const LEDGER: &str = "publish/ledger";

/// The JSON of the ledger.
#[derive(Serialize, Deserialize)]
struct LedgerText {
    #[serde(flatten)]
    whose: Whose,
    #[serde(flatten)]
    chain: Chain,
}

/// The object store of a chain, and the key that signed it: a chain does not continue in another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Whose {
    /// The address of the object store.
    pub url: String,
    /// The id of the key that signs; `None`: nothing is signed.
    pub signed_by: Option<String>,
}

/// A head as the text of its file, without a signature.
pub(super) mod head_file {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::fleet::head::Head;

    pub(crate) fn serialize<S: Serializer>(head: &Head, to: S) -> Result<S::Ok, S::Error> {
        let file = head.to_file(None).map_err(S::Error::custom)?;
        to.serialize_str(&String::from_utf8_lossy(&file))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Head, D::Error> {
        Head::read_unverified(String::deserialize(from)?.as_bytes()).map_err(D::Error::custom)
    }
}

/// The last head for an object store, signed with any key.
pub(super) fn last_head(store: &Store, url: &str) -> Option<Head> {
    let text = store.state_json::<LedgerText>(LEDGER).ok().flatten()?;
    (text.whose.url == url).then_some(text.chain.head)
}

/// Removes a ledger whose number is too far ahead of the clock: the publisher then begins again at the clock, with a
/// full bundle. Returns whether there was such a ledger.
///
/// # Errors
/// When the store cannot be read or written.
pub(crate) fn release(store: &Store, clock: WallTime) -> Result<bool, StoreError> {
    let text = store.state_json::<LedgerText>(LEDGER)?;
    let is_due = text.is_some_and(|text| is_ahead(text.chain.head.sequence, clock));
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
pub(super) fn read(store: &Store, whose: &Whose) -> Result<(Option<u64>, Option<Chain>), StoreError> {
    let text = store.state_json::<LedgerText>(LEDGER)?.filter(|text| text.whose.url == whose.url);
    let Some(LedgerText { whose: theirs, chain }) = text else { return Ok((None, None)) };
    let sequence = Some(chain.head.sequence);
    // Without them, altered signatures could not be noticed.
    let signatures = if whose.signed_by.is_some() { chain.head.chain().count() } else { 0 };
    if theirs != *whose || chain.signatures.len() != signatures {
        return Ok((sequence, None));
    }
    // A repaired store does not know which details have changed.
    let is_marked = store.mark(chain.head.end().digest)?.is_some();
    Ok((sequence, is_marked.then_some(chain)))
}

/// Writes the ledger. `place`: with another bundle, the place when its details were listed.
///
/// # Errors
/// When the write fails.
pub(super) fn write(store: &Store, whose: &Whose, chain: &Chain, place: Option<u64>) -> Result<(), StoreError> {
    let mut states = States::default();
    states.put_json(LEDGER, &LedgerText { whose: whose.clone(), chain: chain.clone() })?;
    if place.is_some() {
        states.mark(chain.head.end().digest, place, chain.head.snapshot.clone());
    }
    store.put_states(&states)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::head::{FORMAT, FileHash, NamedBundle, NamedJournal};
    use crate::snapshot::content::SnapshotId;
    use crate::snapshot::meta::Certificate;

    #[test]
    fn a_ledger_is_read_as_it_was_written_also_by_an_earlier_version() {
        let file = FileHash::of(b"x");
        let snapshot = SnapshotId::parse(&"1".repeat(32)).unwrap();
        let head = Head {
            format: FORMAT,
            sequence: 7,
            written_ms: 5,
            confirmed_ms: 4,
            certificate: Certificate::Full,
            snapshot: snapshot.clone(),
            full: NamedBundle::new(None, file.blake3, snapshot, file),
            deltas: Vec::new(),
            journal: NamedJournal::new(file),
        };
        let (content, evidence) = (file.blake3, Some(file.blake3));
        let chain = Chain { head, content, evidence, full_ms: 1, last_ms: 2, signatures: vec![file] };
        let whose = Whose { url: "s3://bucket".to_owned(), signed_by: Some("A".to_owned()) };
        let mut text = serde_json::to_value(LedgerText { whose: whose.clone(), chain: chain.clone() }).unwrap();
        for signatures in [text["signatures"].clone(), json!([[1, file.blake3.to_string()]])] {
            text["signatures"] = signatures;
            let read: LedgerText = serde_json::from_slice(&serde_json::to_vec(&text).unwrap()).unwrap();
            assert_eq!((&read.whose, &read.chain), (&whose, &chain));
        }
    }
}
