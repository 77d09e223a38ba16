//! Checks of the objects in the object store, from time to time: old ones are removed, those in use are written again before
//! other publishers take them for old, and those that are lost or altered are noticed.
//!
//! The objects of our chain (bundles, signatures and journal) are read back and compared with the lengths and hashes of
//! what was written: a store may have lost bytes, or somebody may have written to it. An object is read once after it was
//! written, once after a start, and whenever the store shows it as another version. Reading runs in a task of its own, and
//! the publisher goes on meanwhile. Each object has its deadline. A round ends when a few objects could not be read; the
//! next round reads those last, so that no altered object hides behind them. Callers: [`super`].

use std::collections::{HashMap, HashSet};
use std::io::Seek as _;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::Publisher;
use super::plan::{Chain, FULL_EVERY_MS};
use super::status::PublishError;
use crate::data::store::nameless;
use crate::fleet::bundle_store::{BundleStore, BundleStoreError, Listed};
use crate::fleet::head::{FileHash, Head};
use crate::fleet::keys::ObjectKey;
use crate::protocol::excerpt::Excerpt;
use crate::tasks::blocking;

/// The pause between two checks: a part of `publish.keep`, within these bounds.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(600);
const PART: u32 = 16;

/// A round ends when so many objects could not be read: the others would fail as well, most likely, and each takes its
/// time.
const MOST_FAILURES: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chores {
    /// Objects of our chain that other publishers may remove soon, because they are old.
    pub renew: Vec<ObjectKey>,
    /// Old objects that no head names.
    pub remove: Vec<ObjectKey>,
    /// Objects of our chain that are missing, or have another length.
    pub lost: Vec<ObjectKey>,
    /// Objects of our chain whose present version was not read back yet.
    pub doubts: Vec<Doubt>,
}

/// Decides. `own`: our chain; `stored`: the head in the object store, read just before; `good`: the versions of objects
/// that were read back. Objects' ages are measured at the head's last write, by the object store's clock. So objects
/// look younger, and none is removed too early.
pub(super) fn chores(
    listed: &[Listed],
    own: &Chain,
    stored: &Head,
    good: &HashMap<ObjectKey, Option<String>>,
    keep_ms: i64,
) -> Chores {
    let Some(now_ms) = listed.iter().find(|object| object.key == ObjectKey::Head).map(|head| head.modified_ms) else {
        return Chores::default();
    };
    let age = |object: &Listed| now_ms.saturating_sub(object.modified_ms);
    let by_key: HashMap<&ObjectKey, &Listed> = listed.iter().map(|object| (&object.key, object)).collect();
    let mut chores = Chores::default();
    for (key, file) in own.objects() {
        let Some(object) = by_key.get(&key).filter(|object| object.bytes == file.bytes) else {
            chores.lost.push(key);
            continue;
        };
        if good.get(&key) != Some(&object.tag) {
            chores.doubts.push(Doubt { key: key.clone(), tag: object.tag.clone(), file });
        }
        if age(object) > keep_ms / 2 {
            chores.renew.push(key);
        }
    }
    let own = &own.head;
    let needed = |key: &ObjectKey| own.names(key) || stored.names(key);
    chores.remove = listed
        .iter()
        .filter(|object| age(object) > keep_ms && !needed(&object.key))
        .map(|object| object.key.clone())
        .collect();
    chores
}

/// An object that is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub key: ObjectKey,
    /// Its version in the list; `None`: the store shows none.
    pub tag: Option<String>,
    /// What was written.
    pub file: FileHash,
}

impl Doubt {
    /// Whether a chain still has this object, with the same hash.
    fn is_of(&self, own: &Chain) -> bool {
        own.objects().any(|(key, file)| (&key, file) == (&self.key, self.file))
    }
}

/// The result of reading an object: whether it is what was written, or why it could not be read.
type ReadResult = (Doubt, Result<bool, BundleStoreError>);

#[derive(Debug, Default)]
pub(super) struct Checks {
    /// Whether the object store has lost an object of the chain.
    pub is_broken: bool,
    /// How many checks have found a bad object since the last one that found none.
    broken: u32,
    pub at: Option<Instant>,
    pub read_back: ReadBack,
}

/// The objects that were read, and those that are being read.
#[derive(Debug, Default)]
pub(super) struct ReadBack {
    /// By object, the version that was read and found equal to what was written: it needs no reading now.
    pub good: HashMap<ObjectKey, Option<String>>,
    /// The objects that could not be read when they were last tried.
    unread: HashSet<ObjectKey>,
    reading: Option<JoinHandle<Vec<ReadResult>>>,
}

impl ReadBack {
    /// Begins to read, unless it is reading already.
    pub(super) fn begin(&mut self, store: &BundleStore, mut doubts: Vec<Doubt>) {
        if self.reading.is_some() || doubts.is_empty() {
            return;
        }
        doubts.sort_by_key(|doubt| self.unread.contains(&doubt.key));
        let store = store.clone();
        self.reading = Some(tokio::spawn(async move {
            let (mut verdicts, mut failures) = (Vec::new(), 0);
            for doubt in doubts {
                let found = store.matches(&doubt.key, doubt.file, None).await;
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
        own.objects().all(|(key, _)| self.good.contains_key(&key))
    }

    /// The objects of this chain that turned out not to be what was written. What cannot be read now is read another
    /// time.
    pub(super) async fn judge(&mut self, own: &Chain) -> Vec<ObjectKey> {
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

/// The pause before the next check, after so many in a row that have found a bad object.
fn pause(keep: Duration, broken_checks: u32) -> Duration {
    let every = (keep / PART).clamp(SHORTEST, LONGEST);
    // An object store that alters whatever it gets must not cost a full bundle with each check. But an object that is
    // half of `keep` old must be written again before it is old enough for other publishers to remove it.
    let most = Duration::from_millis(FULL_EVERY_MS.unsigned_abs()).min(keep / 2).max(every);
    every.saturating_mul(1 << broken_checks.min(8)).min(most)
}

impl Publisher {
    /// Says in `/status` that the objects could not be checked, until a check succeeds.
    pub(super) fn unchecked(&self, error: &PublishError) {
        let url = &self.whose.url;
        let why = format!("{url}: the objects could not be checked, or old ones not removed: {error}");
        self.status.lock().broken = Some(Excerpt(why).to_string());
    }

    /// Whether it is time to check the objects.
    pub(super) fn is_time_to_tidy(&self) -> bool {
        let pause = pause(self.settings.keep, self.checks.broken);
        self.chain.is_some() && self.checks.at.is_none_or(|at| at.elapsed() >= pause)
    }

    /// Lists the objects, writes some again and removes others. If the chain has lost an object, the plan gets to know
    /// it.
    pub(super) async fn tidy(&mut self) -> Result<(), PublishError> {
        // A failed check counts, too: the next one waits as long.
        self.checks.at = Some(Instant::now());
        let listed = self.store.list().await?;
        // Just before anything is removed.
        let stored = self.look().await?;
        let (Some(own), Some(stored)) = (&self.chain, stored.head()) else { return Ok(()) };
        let keep_ms = i64::try_from(self.settings.keep.as_millis()).unwrap_or(i64::MAX);
        let found = chores(&listed, own, stored, &self.checks.read_back.good, keep_ms);
        self.breaks(&found.lost);
        if found.lost.is_empty() && found.doubts.is_empty() {
            self.is_whole();
        }
        if found.lost.is_empty() {
            for key in &found.renew {
                if !self.renew(key).await? {
                    self.breaks(std::slice::from_ref(key));
                }
            }
            // Else everything is written again first.
            if !self.checks.is_broken {
                self.checks.read_back.begin(&self.store, found.doubts);
            }
        }
        for key in &found.remove {
            self.store.delete(key).await?;
        }
        if !found.remove.is_empty() {
            tracing::info!(url = self.whose.url, objects = found.remove.len(), "old objects were removed");
        }
        let keep = self.settings.keep;
        let store = self.store.clone();
        blocking(move || Ok::<_, PublishError>(store.sweep(keep)?)).await
    }

    /// Notes which objects that were read back are not what the head names.
    pub(super) async fn judge(&mut self) {
        let Some(own) = &self.chain else { return };
        let bad = self.checks.read_back.judge(own).await;
        if bad.is_empty() && self.checks.read_back.has_all_of(own) {
            self.is_whole();
        }
        self.breaks(&bad);
    }

    /// Every object was found as it was written.
    fn is_whole(&mut self) {
        if !self.checks.is_broken {
            self.checks.broken = 0;
            self.status.lock().broken = None;
        }
    }

    /// Notes objects of the chain that are lost. A full bundle follows.
    fn breaks(&mut self, lost: &[ObjectKey]) {
        for key in lost {
            tracing::warn!(
                url = self.whose.url,
                %key,
                "an object in the object store is missing, or is not what was written; everything is written again"
            );
        }
        let Some(first) = lost.first() else { return };
        self.checks.read_back.begin_anew();
        let url = &self.whose.url;
        self.status.lock().lacks(self.clock.now_mono());
        self.status.lock().broken = Some(format!(
            "{url}: the object {first} was missing or altered; everything is written again, and then read back"
        ));
        if !self.checks.is_broken {
            self.checks.is_broken = true;
            self.checks.broken += 1;
        }
    }

    /// Writes an object again as it is, so that its age is zero. `false`: it is not what the head says.
    async fn renew(&self, key: &ObjectKey) -> Result<bool, PublishError> {
        let Some(own) = &self.chain else { return Ok(true) };
        let Some((_, known)) = own.objects().find(|(own, _)| own == key) else { return Ok(true) };
        let data_dir = self.data_dir.clone();
        let mut file = blocking(move || Ok::<_, PublishError>(nameless(&data_dir)?)).await?;
        if !self.store.matches::<PublishError>(key, known, Some(file.try_clone()?)).await? {
            return Ok(false);
        }
        file.rewind()?;
        self.store.write_file(key, file, known.bytes).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
