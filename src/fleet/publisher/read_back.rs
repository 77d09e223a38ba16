//! Reads the objects that the head names (bundles and journal) back, and compares them with its lengths and hashes: a
//! store may have lost bytes, or somebody may have written to it.
//!
//! An object is read once after it was written, once after a start, and whenever the store shows it as another version.
//! Reading runs in a task of its own, and the publisher goes on meanwhile. Callers: [`super::tidy`].

use std::collections::HashMap;

use tokio::task::JoinHandle;

use crate::fleet::head::Head;
use crate::fleet::keys::{Digest, Key};
use crate::fleet::place::{Place, PlaceError};

/// An object that is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub key: Key,
    /// Its version in the list; `None`: the store shows none.
    pub tag: Option<String>,
    /// The length that the head names.
    pub bytes: u64,
    /// The hash that the head names.
    pub blake3: Digest,
}

impl Doubt {
    /// Whether a head still names this object, with the same hash.
    fn is_of(&self, head: &Head) -> bool {
        let bundle = head.chain().any(|bundle| Key::Bundle(bundle.key()) == self.key && bundle.blake3 == self.blake3);
        bundle || (Key::Journal(head.journal.key()) == self.key && head.journal.blake3 == self.blake3)
    }
}

/// The result of reading an object: whether it is what the head names, or why it could not be read.
type Verdict = (Doubt, Result<bool, PlaceError>);

/// The objects that were read, and those that are being read.
#[derive(Debug, Default)]
pub(super) struct ReadBack {
    /// By object, the version that was read and found equal to what the head names.
    good: HashMap<Key, Option<String>>,
    reading: Option<JoinHandle<Vec<Verdict>>>,
}

impl ReadBack {
    /// By object, the version that was read and found equal to what the head names.
    pub(super) const fn good(&self) -> &HashMap<Key, Option<String>> {
        &self.good
    }

    /// Begins to read, unless it is reading already.
    pub(super) fn begin(&mut self, place: &Place, doubts: Vec<Doubt>) {
        if self.reading.is_some() || doubts.is_empty() {
            return;
        }
        let place = place.clone();
        self.reading = Some(tokio::spawn(async move {
            let mut verdicts = Vec::new();
            for doubt in doubts {
                let found = is_same(&place, &doubt).await;
                verdicts.push((doubt, found));
            }
            verdicts
        }));
    }

    /// Whether [`ReadBack::judge`] has something to say.
    pub(super) fn is_done(&self) -> bool {
        self.reading.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// The objects of this head that turned out not to be what it names. What cannot be read now is read another time.
    pub(super) async fn judge(&mut self, own: &Head) -> Vec<Key> {
        let Some(reading) = self.reading.take_if(|reading| reading.is_finished()) else { return Vec::new() };
        let verdicts = match reading.await {
            Ok(verdicts) => verdicts,
            Err(error) => {
                tracing::error!(%error, "internal error: reading objects back was aborted");
                return Vec::new();
            }
        };
        let mut bad = Vec::new();
        for (doubt, found) in verdicts {
            match found {
                Ok(true) => drop(self.good.insert(doubt.key, doubt.tag)),
                Ok(false) if doubt.is_of(own) => bad.push(doubt.key),
                Ok(false) => {}
                Err(error) => tracing::warn!(key = %doubt.key, %error, "an object cannot be read back"),
            }
        }
        self.good.retain(|key, _| own.names(key));
        bad
    }
}

/// Whether an object is what the head names.
async fn is_same(place: &Place, doubt: &Doubt) -> Result<bool, PlaceError> {
    let mut download = match place.download(&doubt.key, 0).await {
        Err(PlaceError::Missing(_)) => return Ok(false),
        download => download?,
    };
    let (mut hasher, mut read) = (blake3::Hasher::new(), 0_u64);
    while let Some(piece) = download.next().await? {
        read += piece.len() as u64;
        if read > doubt.bytes {
            return Ok(false);
        }
        hasher.update(&piece);
    }
    Ok(read == doubt.bytes && doubt.blake3 == hasher.finalize().into())
}
