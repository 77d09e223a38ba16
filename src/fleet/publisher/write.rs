//! Execution of a plan: exports a bundle, signs it, sends it, and reads and writes the head.
//!
//! It writes objects, then the ledger, then the head. The head is read before each decision, and written with a condition
//! if the object store can do that. Callers: [`super`].

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::ledger;
use super::plan::{self, Chain, NextWrite, Stored};
use super::status::{ObjectKind, PublishError};
use super::{HeadOwner, Publisher};
use crate::clock::{Monotonic, WallTime};
use crate::config::files;
use crate::data::bundle::signature::Signer;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshots::export::{Exported, Unsent, lacks_base};
use crate::data::store::nameless;
use crate::fleet::bundle_store::{BundleStoreError, PutMode, UpdateVersion, impossible};
use crate::fleet::head::{self, FileHash, Head, HeadError, NamedBundle};
use crate::fleet::keys::ObjectKey;
use crate::protocol::excerpt::Excerpt;
use crate::tasks::blocking;
use crate::telemetry::findings::{Finding, Kind};

/// A bundle in a file without a name.
pub(super) struct Made {
    pub file: File,
    pub named: NamedBundle,
    /// Its `.minisig`.
    pub signature: Option<String>,
    pub link: Exported,
}

#[derive(Clone, Debug)]
pub(super) enum InStore {
    Missing,
    /// There is one; `None`: it cannot be read, or is not believed.
    Head(Option<Box<Head>>, UpdateVersion),
}

impl InStore {
    /// The head, if it can be read.
    pub(super) fn head(&self) -> Option<&Head> {
        match self {
            Self::Head(head, _) => head.as_deref(),
            Self::Missing => None,
        }
    }

    /// The same as the plan sees it, beside our chain.
    pub(super) fn compared(&self, own: Option<&Chain>) -> Stored {
        match self {
            Self::Missing => Stored::Missing,
            Self::Head(Some(head), _) if own.is_some_and(|own| own.head == **head) => Stored::Own,
            Self::Head(..) => Stored::Other,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    sequence: u64,
    written_ms: i64,
    seen: Monotonic,
}

/// How old the head of another publisher is when this one goes on.
const YIELDS: Duration = Duration::from_secs(600);

impl Rival {
    const fn of(head: &Head, seen: Monotonic) -> Self {
        Self { sequence: head.sequence, written_ms: head.written_ms, seen }
    }

    /// Whether its head is [`YIELDS`] old, by its own words or by our clock.
    fn is_silent(&self, mono: Monotonic, wall: WallTime) -> bool {
        let age = wall.as_millis().saturating_sub(self.written_ms);
        age >= YIELDS.as_millis() as i64 || mono.since(self.seen) >= YIELDS
    }
}

impl Publisher {
    /// Carries out a step, over the head that was found.
    pub(super) async fn act(
        &mut self,
        step: NextWrite,
        served: &Arc<Snapshot>,
        found: &InStore,
    ) -> Result<(), PublishError> {
        // Before the export: a detail that arrives meanwhile counts as unsent.
        let revision = self.details.revision();
        let made = match step {
            NextWrite::Nothing | NextWrite::Head => None,
            NextWrite::Delta => Some(self.delta(served).await?),
            NextWrite::Full(why) => Some(self.full(served, why).await?),
        };
        if let Some(made) = &made {
            // Objects, ledger, head: after a crash between, no head names an object that is not there, and no number comes
            // twice.
            self.send(made).await?;
        }
        let Some((_, offer, journal)) = &self.offered else { return Ok(()) };
        let now_ms = self.clock.now_wall().as_millis();
        let before = self.chain.as_ref();
        let sequence = plan::next_sequence(found.head().map(|head| head.sequence), self.sequence, now_ms);
        let signature = |made: &Made| made.signature.as_ref().map(|text| FileHash::of(text.as_bytes()));
        let bundle = made.as_ref().map(|made| (made.named.clone(), signature(made), made.link.place));
        let Some(chain) = Chain::with(before, bundle, offer, sequence, now_ms) else { return Ok(()) };
        let is_anew = made.as_ref().is_some_and(|made| made.named.base.is_none());
        if is_anew || before.is_none_or(|before| before.head.journal != chain.head.journal) {
            self.store.write(&chain.head.journal.key(), journal.clone(), PutMode::Overwrite).await?;
        }
        let is_longer = made.is_some();
        if is_longer {
            // Before the ledger: the next link builds on what the ledger says.
            self.snapshots.keep_for_chain(Some((chain.head.snapshot.clone(), chain.head.end().digest)));
        }
        let details = made.as_ref().map(|made| made.link.written.manifest.coverage.all());
        self.record(&chain).await;
        // The chain keeps its snapshot from now on.
        drop(made);
        self.sequence = Some(sequence);
        if is_longer {
            self.checks.is_broken = false;
            self.unsent = Some((revision, Unsent::Nothing));
        }
        // Also if the head does not arrive: the next look finds another head, and the plan writes this one again.
        self.chain = Some(chain.clone());
        self.put_head(&chain.head, found).await?;
        self.status.lock().wrote(ObjectKind::Head, 0);
        let mut status = self.status.lock();
        status.facts.sequence = Some(sequence);
        status.details = details.or(status.details);
        Ok(())
    }

    /// A delta, or a full bundle in its place.
    async fn delta(&self, served: &Arc<Snapshot>) -> Result<Made, PublishError> {
        let Some(chain) = &self.chain else { return self.full(served, plan::FIRST).await };
        let Chain { head, evidence, .. } = chain;
        let keeps_evidence = self.offered.as_ref().is_some_and(|(_, offer, _)| Some(offer.evidence) == *evidence);
        match self.make(served, Some(chain), keeps_evidence).await {
            Ok(made) if plan::takes_delta(head, made.named.bytes) => Ok(made),
            Ok(_too_large) => self.full(served, "the deltas would be more than half of the full bundle").await,
            Err(PublishError::Export(error)) if lacks_base(&error) => {
                self.full(served, "what a delta would build on is not known any more").await
            }
            Err(error) => Err(error),
        }
    }

    async fn full(&self, served: &Arc<Snapshot>, why: &str) -> Result<Made, PublishError> {
        tracing::info!(url = self.whose.url, snapshot = %served.dataset.id, why, "publishing a full bundle");
        self.make(served, None, false).await
    }

    /// Exports a bundle into a file, hashes and signs it.
    async fn make(
        &self,
        served: &Arc<Snapshot>,
        base: Option<&Chain>,
        keeps_evidence: bool,
    ) -> Result<Made, PublishError> {
        let (snapshots, served) = (self.snapshots.clone(), served.clone());
        let (signer, data_dir) = (self.signer.clone(), self.data_dir.clone());
        let details = self.details.clone();
        let base = base.map(|Chain { head, position, .. }| (head.snapshot.clone(), head.end().digest, *position));
        blocking(move || {
            // So that they can be exported. Failures of the disk are reported elsewhere.
            details.flush();
            let mut file = nameless(&data_dir)?;
            let count = |dataset: &Dataset| details.counts(dataset);
            let after = base.as_ref().map(|(snapshot, digest, position)| (snapshot, *digest, *position));
            let link = snapshots.export_link(&mut file, &served, after, keeps_evidence, &count)?;
            let mut hasher = blake3::Hasher::new();
            file.rewind()?;
            hasher.update_reader(&file)?;
            file.rewind()?;
            let sign = |signer: &Signer| signer.sign(&file, &comment(&served));
            let signature = signer.as_deref().map(sign).transpose()?;
            file.rewind()?;
            let hash = FileHash { bytes: link.written.bytes, blake3: hasher.finalize().into() };
            let snapshot = served.dataset.id.clone();
            let named = NamedBundle::new(base.map(|(_, digest, _)| digest), link.written.digest, snapshot, hash);
            Ok(Made { file, named, signature, link })
        })
        .await
    }

    async fn send(&self, made: &Made) -> Result<(), PublishError> {
        let key = made.named.key();
        let file = made.file.try_clone()?;
        self.store.write_file(&key, file, made.named.bytes).await?;
        if let Some(signature) = &made.signature {
            let text = Bytes::from(signature.clone().into_bytes());
            self.store.write(&key.signature(), text, PutMode::Overwrite).await?;
        }
        let kind = if made.named.base.is_some() { ObjectKind::Delta } else { ObjectKind::Full };
        self.status.lock().wrote(kind, made.named.bytes);
        Ok(())
    }

    /// Writes the ledger. Without it a restart begins a new chain, so a full disk does not stop the publisher.
    async fn record(&self, chain: &Chain) {
        let (store, whose, chain) = (self.snapshots.store().clone(), self.whose.clone(), chain.clone());
        let write = move || ledger::write(&store, &whose, &chain);
        let written = blocking(move || write().map_err(PublishError::from)).await;
        if let Err(error) = written {
            tracing::warn!(%error, "the record of what is in the object store could not be written; after a restart a full bundle is written");
        }
    }

    /// Reads the head, each time as a whole: whoever alters it may keep what tells its versions apart.
    pub(super) async fn look(&self) -> Result<InStore, PublishError> {
        match self.store.read(&ObjectKey::Head, head::MOST_BYTES, None).await {
            Ok(None) | Err(BundleStoreError::Missing(_)) => Ok(InStore::Missing),
            Ok(Some((file, version))) => {
                let head = match Head::read(&file, &self.trusted, self.clock.now_wall()) {
                    Ok((head, _key)) => Some(Box::new(head)),
                    Err(error @ HeadError::Format(_)) => return Err(PublishError::Newer(error.to_string())),
                    Err(error) => {
                        self.disbelieve(&error.to_string());
                        None
                    }
                };
                Ok(InStore::Head(head, version))
            }
            Err(error) => match &error {
                BundleStoreError::TooLarge { version, .. } => {
                    self.disbelieve(&error.to_string());
                    Ok(InStore::Head(None, version.clone()))
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Compares the head that was found with ours. A later one of another publisher that came after ours was there: two
    /// write to one prefix, and this one has lost, until that head is [`YIELDS`] old. Whoever wrote it may be gone
    /// then, and may have removed what our chain had.
    pub(super) fn compare(&mut self, found: &InStore) {
        let (mono, wall) = (self.clock.now_mono(), self.clock.now_wall());
        let lost = match (self.standing, &self.chain, found.head()) {
            (HeadOwner::There, Some(own), Some(found)) => {
                (*found != own.head && found.sequence >= own.head.sequence).then(|| Rival::of(found, mono))
            }
            (HeadOwner::New | HeadOwner::There, ..) => None,
            (HeadOwner::Lost(rival), _, Some(found)) if found.sequence > rival.sequence => Some(Rival::of(found, mono)),
            (HeadOwner::Lost(rival), ..) => Some(rival),
        };
        match lost {
            Some(rival) if !rival.is_silent(mono, wall) => self.standing = HeadOwner::Lost(rival),
            Some(_) => (self.chain, self.standing) = (None, HeadOwner::New),
            None => {}
        }
        self.status.lock().rival = match self.standing {
            HeadOwner::Lost(rival) => Some(rival.sequence),
            HeadOwner::New | HeadOwner::There => None,
        };
    }

    /// Says that the head in the object store is not believed. The plan replaces it.
    fn disbelieve(&self, why: &str) {
        self.status.lock().lacks(self.clock.now_mono());
        let url = &self.whose.url;
        let why = Excerpt(format!("{url}: head.json is not believed and is replaced: {why}"));
        // It is over before anybody looks.
        tracing::warn!("{why}");
        self.status.lock().failed("head", Finding::new(Kind::PublishFails, why));
    }

    /// Writes the head over the one that was found. Fails with a conflict when another publisher has written since.
    async fn put_head(&mut self, head: &Head, found: &InStore) -> Result<(), PublishError> {
        let (signer, signed) = (self.signer.clone(), head.clone());
        let file = blocking(move || Ok::<_, PublishError>(signed.to_file(signer.as_deref())?)).await?;
        let file = Bytes::from(file);
        let mut is_written = false;
        if self.has_conditions.is_none() {
            // The condition can only hold where it is ignored: then this is the write, too.
            match self.put(&file, impossible()).await {
                Ok(()) => (self.has_conditions, is_written) = (Some(false), true),
                Err(BundleStoreError::Changed(_) | BundleStoreError::Missing(_)) => self.has_conditions = Some(true),
                Err(BundleStoreError::Unsupported(_) | BundleStoreError::Failed(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !is_written {
            let mode = match found {
                _ if self.has_conditions != Some(true) => PutMode::Overwrite,
                InStore::Head(_, version) => PutMode::Update(version.clone()),
                InStore::Missing => PutMode::Create,
            };
            self.put(&file, mode).await?;
        }
        let has_conditions = *self.has_conditions.get_or_insert(false);
        // Of a directory everybody knows it.
        self.status.lock().has_no_conditions = !has_conditions && !self.store.is_directory();
        Ok(())
    }

    async fn put(&self, file: &Bytes, mode: PutMode) -> Result<(), BundleStoreError> {
        let written = match self.store.write(&ObjectKey::Head, file.clone(), mode.clone()).await {
            // It replaces conditionally and does not create conditionally.
            Err(BundleStoreError::Unsupported(_)) if mode == PutMode::Create => {
                self.store.write(&ObjectKey::Head, file.clone(), PutMode::Overwrite).await
            }
            written => written,
        };
        written.map(drop)
    }
}

/// The signed comment of a bundle.
fn comment(served: &Snapshot) -> String {
    format!("grandstand snapshot {}, confirmed at {}", served.dataset.id, served.confirmed())
}

pub(super) fn open_key(key: &Path, password_file: Option<&Path>) -> Result<Signer, PublishError> {
    const LONGEST: u64 = 4096;
    let mut needs_password = false;
    let opened = Signer::open(key, || {
        let Some(path) = password_file else {
            needs_password = true;
            // Before a try that costs.
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let mut line = String::new();
        BufReader::new(files::open(path)?.take(LONGEST)).read_line(&mut line)?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    });
    if needs_password { Err(PublishError::NoPassword) } else { Ok(opened?) }
}
