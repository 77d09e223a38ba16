//! The ledger: a record of the last head in this server's data directory, so that a restart continues the chain, and head
//! numbers never fall.
//!
//! It is written before the head: a crash in between leaves a ledger that is ahead of the object store, which is harmless.
//! It also says up to where the chain has the changes of details. A file of its own: heads are written after each refresh.
//! Blocks. Callers: [`super`].

use serde::{Deserialize, Serialize};

use super::plan::Chain;
use crate::clock::WallTime;
use crate::data::store::{MarkAt, States, Store, StoreError};
use crate::fleet::head::{Head, is_ahead};

const LEDGER: &str = "published";

#[derive(Serialize, Deserialize)]
struct LedgerText {
    #[serde(flatten)]
    whose: ChainOwner,
    #[serde(flatten)]
    chain: Chain,
}

/// The object store of a chain, and the key that signed it: a chain does not continue in another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChainOwner {
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

fn text(store: &Store) -> Result<Option<LedgerText>, StoreError> {
    Ok(store.beside(LEDGER)?.and_then(|json| {
        let read = serde_json::from_slice(&json);
        read.inspect_err(|error| tracing::warn!(%error, "the record of what is in the object store cannot be read"))
            .ok()
    }))
}

/// The last head for an object store, signed with any key.
pub(super) fn last_head(store: &Store, url: &str) -> Option<Head> {
    let text = text(store).ok().flatten()?;
    (text.whose.url == url).then_some(text.chain.head)
}

/// Removes a ledger whose number is too far ahead of the clock: the publisher then begins again at the clock, with a
/// full bundle. Returns whether there was such a ledger.
pub(crate) fn release(store: &Store, clock: WallTime) -> Result<bool, StoreError> {
    let text = text(store)?;
    let is_due = text.is_some_and(|text| is_ahead(text.chain.head.sequence, clock));
    if is_due {
        store.remove_beside(LEDGER)?;
    }
    Ok(is_due)
}

/// Reads the ledger: the highest number of a head ever used for this object store, and the chain if it can be
/// continued.
pub(super) fn read(store: &Store, whose: &ChainOwner) -> Result<(Option<u64>, Option<Chain>), StoreError> {
    let text = text(store)?.filter(|text| text.whose.url == whose.url);
    let Some(LedgerText { whose: theirs, chain }) = text else { return Ok((None, None)) };
    let sequence = Some(chain.head.sequence);
    // Without them, altered signatures could not be noticed.
    let signatures = if whose.signed_by.is_some() { chain.head.chain().count() } else { 0 };
    if theirs != *whose || chain.signatures.len() != signatures {
        return Ok((sequence, None));
    }
    mark(store, &chain)?;
    Ok((sequence, Some(chain)))
}

pub(super) fn write(store: &Store, whose: &ChainOwner, chain: &Chain) -> Result<(), StoreError> {
    let text = LedgerText { whose: whose.clone(), chain: chain.clone() };
    let json = serde_json::to_vec(&text);
    // Before the mark, which a crash may undo: `read` makes it again from the ledger.
    store.put_beside(LEDGER, json.map_err(|error| StoreError::Refused(error.to_string()))?)?;
    mark(store, chain)
}

/// Marks the end of the chain for copies elsewhere, with the next transaction: the ledger has it until then. If the data
/// file was repaired since, or replaced by an older copy, it is not known what such a copy lacks: nothing is marked.
fn mark(store: &Store, chain: &Chain) -> Result<(), StoreError> {
    let mut states = States::default();
    states.mark(chain.head.end().digest, MarkAt::Place(chain.position), chain.head.snapshot.clone());
    store.put_states_soon(&states)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::api::hash::ContentHash;
    use crate::api::listing::{DetailState, ListingId};
    use crate::data::store::{ChangePosition, DataDir, DetailMeta, DetailRecord};
    use crate::fleet::head::FileHash;
    use crate::fleet::tests::head;

    fn chain(position: Option<ChangePosition>) -> Chain {
        let (head, file) = (head(7, 1, 1), FileHash::of(b"x"));
        let (content, evidence) = (file.blake3, Some(file.blake3));
        Chain { head, content, evidence, position, full_ms: 1, last_ms: 2, signatures: vec![file] }
    }

    fn whose(url: &str) -> ChainOwner {
        ChainOwner { url: url.to_owned(), signed_by: Some("A".to_owned()) }
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written_also_by_an_earlier_version() {
        let (file, chain, whose) = (FileHash::of(b"x"), chain(None), whose("s3://bucket"));
        let mut text = serde_json::to_value(LedgerText { whose: whose.clone(), chain: chain.clone() }).unwrap();
        for signatures in [text["signatures"].clone(), json!([[1, file.blake3.to_string()]])] {
            text["signatures"] = signatures;
            let read: LedgerText = serde_json::from_slice(&serde_json::to_vec(&text).unwrap()).unwrap();
            assert_eq!((&read.whose, &read.chain), (&whose, &chain));
        }
    }

    #[test]
    fn a_restart_continues_the_chain_and_knows_which_details_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(&DataDir::open(dir.path()).unwrap()).unwrap();
        let store = open();
        let meta = DetailMeta {
            state: DetailState::Present,
            etag: None,
            last_modified: None,
            origin_time_ms: 1,
            fetched_ms: 1,
            summary_hash: ContentHash::default(),
            hash: ContentHash::default(),
        };
        store.put_details(&[(ListingId(1), DetailRecord { meta, body: "{}".into() })]).unwrap();
        let (ours, chain) = (whose("s3://bucket"), chain(store.epoch_place().unwrap()));
        assert_eq!(read(&store, &ours).unwrap(), (None, None));
        write(&store, &ours, &chain).unwrap();
        drop(store);

        let store = open();
        assert_eq!(read(&store, &ours).unwrap(), (Some(7), Some(chain.clone())));
        assert!(store.knows_place(chain.position.unwrap()).unwrap());
        let mark = store.mark(chain.head.end().digest).unwrap().unwrap();
        assert_eq!((mark.place, &mark.snapshot), (chain.position, &chain.head.snapshot));
        store.heal(None).unwrap();
        for _ in 0..2 {
            assert_eq!(read(&store, &ours).unwrap(), (Some(7), Some(chain.clone())));
            write(&store, &ours, &chain).unwrap();
        }
        assert_eq!(store.mark(chain.head.end().digest).unwrap(), None, "its places are others now");
        let other_key = ChainOwner { signed_by: Some("B".to_owned()), ..ours.clone() };
        assert_eq!(read(&store, &other_key).unwrap(), (Some(7), None));
        assert_eq!(read(&store, &whose("s3://other")).unwrap(), (None, None));

        let file = dir.path().join(LEDGER);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file, damaged).unwrap();
            assert_eq!(read(&store, &ours).unwrap(), (None, None), "{at}");
        }
        fs::write(&file, &whole).unwrap();
        assert!(!release(&store, WallTime::from_seconds(0)).unwrap());
        let ahead = Chain { head: Head { sequence: 1 << 50, ..chain.head.clone() }, ..chain };
        write(&store, &ours, &ahead).unwrap();
        assert!(release(&store, WallTime::from_seconds(0)).unwrap() && !file.exists());
    }
}
