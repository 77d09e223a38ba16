//! Reads the objects of our chain (bundles, signatures and journal) back, and compares them with the lengths and hashes
//! of what was written: a store may have lost bytes, or somebody may have written to it.
//!
//! An object is read once after it was written, once after a start, and whenever the store shows it as another version.
//! Reading runs in a task of its own, and the publisher goes on meanwhile. Each object has its deadline, and the first
//! one that cannot be read ends the round. Callers: [`super::tidy`].

use std::collections::HashMap;

use tokio::task::JoinHandle;

use super::plan::Chain;
use crate::fleet::keys::{Digest, Key};
use crate::fleet::place::{Place, PlaceError};

/// An object that is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub key: Key,
    /// Its version in the list; `None`: the store shows none.
    pub tag: Option<String>,
    /// The length of what was written.
    pub bytes: u64,
    /// The hash of what was written.
    pub blake3: Digest,
}

impl Doubt {
    /// Whether a chain still has this object, with the same hash.
    fn is_of(&self, own: &Chain) -> bool {
        own.objects().any(|(key, _, blake3)| (&key, blake3) == (&self.key, self.blake3))
    }
}

/// The result of reading an object: whether it is what was written, or why it could not be read.
type Verdict = (Doubt, Result<bool, PlaceError>);

/// The objects that were read, and those that are being read.
#[derive(Debug, Default)]
pub(super) struct ReadBack {
    /// By object, the version that was read and found equal to what was written.
    good: HashMap<Key, Option<String>>,
    reading: Option<JoinHandle<Vec<Verdict>>>,
}

impl ReadBack {
    /// Which objects need no reading now.
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
                let found = place.matches(&doubt.key, doubt.bytes, &doubt.blake3).await;
                let is_read = found.is_ok();
                verdicts.push((doubt, found));
                // The others would fail as well, most likely, and each takes its time.
                if !is_read {
                    break;
                }
            }
            verdicts
        }));
    }

    /// Whether [`ReadBack::judge`] has something to say.
    pub(super) fn is_done(&self) -> bool {
        self.reading.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Forgets everything: the objects are written again.
    pub(super) fn begin_anew(&mut self) {
        self.good.clear();
        if let Some(reading) = self.reading.take() {
            reading.abort();
        }
    }

    /// Whether every object of a chain was read back, in some version, and found equal to what was written.
    pub(super) fn has_all_of(&self, own: &Chain) -> bool {
        own.objects().all(|(key, ..)| self.good.contains_key(&key))
    }

    /// The objects of this chain that turned out not to be what was written. What cannot be read now is read another
    /// time.
    pub(super) async fn judge(&mut self, own: &Chain) -> Vec<Key> {
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
                Ok(true) if doubt.is_of(own) => drop(self.good.insert(doubt.key, doubt.tag)),
                Ok(false) if doubt.is_of(own) => {
                    self.good.remove(&doubt.key);
                    bad.push(doubt.key);
                }
                // The chain has moved on.
                Ok(_) => {}
                Err(error) => tracing::warn!(key = %doubt.key, %error, "an object cannot be read back"),
            }
        }
        self.good.retain(|key, _| own.head.names(key));
        bad
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::plan::SignatureFile;
    use super::*;
    use crate::config::Config;
    use crate::fleet::head::{Head, NamedBundle, NamedJournal};
    use crate::fleet::place::Condition;
    use crate::snapshot::content::SnapshotId;
    use crate::snapshot::meta::Certificate;

    const TEXTS: [&str; 3] = ["journal", "signature", "bundle"];

    /// A chain of one bundle, whose objects have these texts.
    fn chain() -> Chain {
        let [journal, signature, bundle] = TEXTS.map(|text| (text.len() as u64, blake3::hash(text.as_bytes()).into()));
        let snapshot = SnapshotId::parse(&format!("{:032x}", 1)).unwrap();
        let full = NamedBundle {
            base: None,
            digest: Digest::new([1; 32]),
            snapshot: snapshot.clone(),
            bytes: bundle.0,
            blake3: bundle.1,
        };
        let head = Head {
            sequence: 1,
            written_ms: 0,
            confirmed_ms: 0,
            certificate: Certificate::Full,
            snapshot,
            full,
            deltas: Vec::new(),
            journal: NamedJournal { bytes: journal.0, blake3: journal.1 },
        };
        let signatures = vec![SignatureFile { bytes: signature.0, blake3: signature.1 }];
        Chain { head, content: Digest::new([0; 32]), full_ms: 0, last_ms: 0, signatures }
    }

    fn doubts(own: &Chain) -> Vec<Doubt> {
        own.objects().map(|(key, bytes, blake3)| Doubt { key, tag: None, bytes, blake3 }).collect()
    }

    async fn judged(reads: &mut ReadBack, place: &Place, own: &Chain) -> Vec<Key> {
        reads.begin(place, doubts(own));
        while !reads.is_done() {
            tokio::task::yield_now().await;
        }
        reads.judge(own).await
    }

    #[tokio::test]
    async fn every_object_is_compared_and_the_first_that_cannot_be_read_ends_the_round() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[publish]\nurl = \"file://{}\"", dir.path().display());
        let config = Config::from_text(&text).unwrap().config.publish;
        let place = Place::open(&config.url.unwrap(), &config.options).unwrap();
        let own = chain();
        let keys: Vec<Key> = own.objects().map(|(key, ..)| key).collect();
        for (key, text) in keys.iter().zip(TEXTS) {
            place.write(key, Bytes::from_static(text.as_bytes()), Condition::Always).await.unwrap();
        }
        let mut reads = ReadBack::default();
        assert_eq!(judged(&mut reads, &place, &own).await, []);
        assert!(reads.has_all_of(&own));
        for (key, text) in keys.iter().zip(TEXTS) {
            place.write(key, Bytes::from_static(b"altered"), Condition::Always).await.unwrap();
            assert_eq!(judged(&mut reads, &place, &own).await, std::slice::from_ref(key));
            assert!(!reads.has_all_of(&own));
            place.write(key, Bytes::from_static(text.as_bytes()), Condition::Always).await.unwrap();
        }
        reads.begin_anew();
        // A link to itself cannot be read.
        let second = dir.path().join(keys[1].to_string());
        std::fs::remove_file(&second).unwrap();
        std::os::unix::fs::symlink(&second, &second).unwrap();
        assert_eq!(judged(&mut reads, &place, &own).await, [], "it is not known to be altered");
        assert_eq!(reads.good().keys().collect::<Vec<_>>(), [&keys[0]], "the third one was not read");
    }
}
