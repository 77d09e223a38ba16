//! Reads the objects of our chain (bundles, signatures and journal) back, and compares them with the lengths and hashes
//! of what was written: a store may have lost bytes, or somebody may have written to it.
//!
//! An object is read once after it was written, once after a start, and whenever the store shows it as another version.
//! Reading runs in a task of its own, and the publisher goes on meanwhile. Each object has its deadline. A round ends
//! when a few objects could not be read; the next round reads those last, so that no altered object hides behind them.
//! Callers: [`super::tidy`].

use std::collections::{HashMap, HashSet};

use tokio::task::JoinHandle;

use super::plan::Chain;
use crate::fleet::keys::{Digest, Key};
use crate::fleet::place::{Place, PlaceError};

/// A round ends when so many objects could not be read: the others would fail as well, most likely, and each takes its
/// time.
const MOST_FAILURES: usize = 3;

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
    /// The objects that could not be read when they were last tried.
    unread: HashSet<Key>,
    reading: Option<JoinHandle<Vec<Verdict>>>,
}

impl ReadBack {
    /// Which objects need no reading now.
    pub(super) const fn good(&self) -> &HashMap<Key, Option<String>> {
        &self.good
    }

    /// Begins to read, unless it is reading already.
    pub(super) fn begin(&mut self, place: &Place, mut doubts: Vec<Doubt>) {
        if self.reading.is_some() || doubts.is_empty() {
            return;
        }
        doubts.sort_by_key(|doubt| self.unread.contains(&doubt.key));
        let place = place.clone();
        self.reading = Some(tokio::spawn(async move {
            let (mut verdicts, mut failures) = (Vec::new(), 0);
            for doubt in doubts {
                let found = place.matches(&doubt.key, doubt.bytes, &doubt.blake3).await;
                failures += usize::from(found.is_err());
                verdicts.push((doubt, found));
                if failures >= MOST_FAILURES {
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
        self.unread.clear();
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
            self.unread.remove(&doubt.key);
            match found {
                Ok(true) if doubt.is_of(own) => drop(self.good.insert(doubt.key, doubt.tag)),
                Ok(false) if doubt.is_of(own) => {
                    self.good.remove(&doubt.key);
                    bad.push(doubt.key);
                }
                // The chain has moved on.
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(key = %doubt.key, %error, "an object cannot be read back");
                    self.unread.insert(doubt.key);
                }
            }
        }
        self.good.retain(|key, _| own.head.names(key));
        self.unread.retain(|key| own.head.names(key));
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

    /// A chain of a full bundle and so many deltas. Its objects are a journal, a signature and the bundles; they have
    /// these texts.
    fn chain(deltas: u8) -> Chain {
        let [journal, signature, bundle] = TEXTS.map(|text| (text.len() as u64, blake3::hash(text.as_bytes()).into()));
        let snapshot = SnapshotId::parse(&format!("{:032x}", 1)).unwrap();
        let named = |base: Option<u8>, n: u8| NamedBundle {
            base: base.map(|base| Digest::new([base; 32])),
            digest: Digest::new([n; 32]),
            snapshot: snapshot.clone(),
            bytes: bundle.0,
            blake3: bundle.1,
        };
        let head = Head {
            sequence: 1,
            written_ms: 0,
            confirmed_ms: 0,
            certificate: Certificate::Full,
            snapshot: snapshot.clone(),
            full: named(None, 1),
            deltas: (1..=deltas).map(|base| named(Some(base), base + 1)).collect(),
            journal: NamedJournal { bytes: journal.0, blake3: journal.1 },
        };
        let signatures = vec![SignatureFile { bytes: signature.0, blake3: signature.1 }];
        Chain { head, content: Digest::new([0; 32]), full_ms: 0, last_ms: 0, signatures }
    }

    /// An object store in a directory.
    struct Directory {
        dir: tempfile::TempDir,
        place: Place,
    }

    impl Directory {
        /// It has the objects of a chain; their keys.
        async fn with(own: &Chain) -> (Self, Vec<Key>) {
            let dir = tempfile::tempdir().unwrap();
            let text = format!("[publish]\nurl = \"file://{}\"", dir.path().display());
            let config = Config::from_text(&text).unwrap().config.publish;
            let place = Place::open(&config.url.unwrap(), &config.options).unwrap();
            let this = Self { dir, place };
            let keys: Vec<Key> = own.objects().map(|(key, ..)| key).collect();
            let last = std::iter::repeat(TEXTS[2]);
            for (key, text) in keys.iter().zip(TEXTS.into_iter().chain(last)) {
                this.write(key, text).await;
            }
            (this, keys)
        }

        async fn write(&self, key: &Key, text: &'static str) {
            let text = Bytes::from_static(text.as_bytes());
            self.place.write(key, text, Condition::Always).await.unwrap();
        }

        /// From now on this object cannot be read: it is a link to itself.
        fn break_off(&self, key: &Key) {
            let path = self.dir.path().join(key.to_string());
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&path, &path).unwrap();
        }

        /// Reads the objects of a chain back.
        async fn judged(&self, reads: &mut ReadBack, own: &Chain) -> Vec<Key> {
            let doubts = own.objects().map(|(key, bytes, blake3)| Doubt { key, tag: None, bytes, blake3 });
            reads.begin(&self.place, doubts.collect());
            while !reads.is_done() {
                tokio::task::yield_now().await;
            }
            reads.judge(own).await
        }
    }

    #[tokio::test]
    async fn every_object_is_compared_also_behind_one_that_cannot_be_read() {
        let own = chain(0);
        let (store, keys) = Directory::with(&own).await;
        let mut reads = ReadBack::default();
        assert_eq!(store.judged(&mut reads, &own).await, []);
        assert!(reads.has_all_of(&own));
        for (key, text) in keys.iter().zip(TEXTS) {
            store.write(key, "altered").await;
            assert_eq!(store.judged(&mut reads, &own).await, std::slice::from_ref(key));
            assert!(!reads.has_all_of(&own));
            store.write(key, text).await;
        }
        reads.begin_anew();
        store.break_off(&keys[1]);
        assert_eq!(store.judged(&mut reads, &own).await, [], "it is not known to be altered");
        assert!(reads.good().contains_key(&keys[0]) && reads.good().contains_key(&keys[2]));
        assert!(!reads.has_all_of(&own));
        store.write(&keys[2], "altered").await;
        assert_eq!(store.judged(&mut reads, &own).await, [keys[2].clone()]);
    }

    #[tokio::test]
    async fn a_round_ends_after_a_few_failures_and_the_next_one_begins_with_the_other_objects() {
        let own = chain(2);
        let (store, keys) = Directory::with(&own).await;
        let (last, others) = keys.split_last().unwrap();
        assert_eq!(others.len(), MOST_FAILURES + 1);
        for key in others {
            store.break_off(key);
        }
        store.write(last, "altered").await;
        let mut reads = ReadBack::default();
        assert_eq!(store.judged(&mut reads, &own).await, [], "the round has ended before the altered object");
        assert_eq!(store.judged(&mut reads, &own).await, std::slice::from_ref(last));
    }
}
