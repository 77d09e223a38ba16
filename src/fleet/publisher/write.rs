//! Carries out a step: exports a bundle, signs it, sends it, and writes the head.
//!
//! It writes objects, then the ledger, then the head. Callers: [`super`].

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::error::PublishError;
use super::ledger::{self, Ledger};
use super::plan::{self, Chain, SignatureFile, Step, Why};
use super::status::Kind;
use super::{Publisher, settle};
use crate::bundle::signature::Signer;
use crate::fleet::head::{Head, NamedBundle, NamedJournal};
use crate::fleet::keys::{Digest, Key};
use crate::fleet::place::Condition;
use crate::snapshot::pointer::Snapshot;
use crate::snapshots::chain::{ChainEnd, Link, lacks_base};
use crate::store::nameless;
use crate::tasks::blocking;

/// A bundle in a file without a name.
pub(super) struct Made {
    pub file: File,
    pub named: NamedBundle,
    /// Its `.minisig`.
    pub signature: Option<String>,
    pub link: Link,
}

impl Publisher {
    /// Carries out a step.
    pub(super) async fn act(
        &mut self,
        step: Step,
        served: &Arc<Snapshot>,
        journal: &Arc<Vec<u8>>,
    ) -> Result<(), PublishError> {
        let revision = self.details.as_ref().map(crate::mirror::details::Details::revision);
        let made = match step {
            Step::Nothing | Step::Later(_) | Step::Head => None,
            Step::Delta => Some(self.delta(served).await?),
            Step::Full(why) => Some(self.full(served, why).await?),
        };
        if let Some(made) = &made {
            self.send(made).await?;
        }
        let now_ms = self.clock.now_wall().as_millis();
        let named_journal =
            NamedJournal { bytes: journal.len() as u64, blake3: blake3::hash(journal.as_slice()).into() };
        let before = self.ledger.as_ref().map(|ledger| &ledger.chain);
        let is_anew = made.as_ref().is_some_and(|made| made.named.base.is_none());
        if is_anew || before.is_none_or(|chain| chain.head.journal != named_journal) {
            let key = Key::Journal(named_journal.key());
            self.place.write(&key, Bytes::from(journal.as_ref().clone()), Condition::Always).await?;
        }
        let stored = self.stored_head().map(|head| head.sequence);
        let sequence = plan::next_sequence(stored, self.sequence, now_ms);
        let Some((_, offer, _)) = &self.offered else { return Ok(()) };
        let said = (sequence, now_ms, &**served, named_journal);
        let chain = match (&made, before) {
            (Some(made), before) => grown(before, made, offer.content, said),
            (None, Some(before)) => {
                let head = head(before.head.full.clone(), before.head.deltas.clone(), said);
                Chain { head, ..before.clone() }
            }
            (None, None) => return Ok(()),
        };
        let end = made.as_ref().map(|made| made.link.end.clone());
        self.record(&chain, end.as_ref()).await;
        self.sequence = Some(sequence);
        let known = self.ledger.take().and_then(|ledger| ledger.end);
        self.ledger = Some(Ledger { chain: chain.clone(), end: end.or(known) });
        if made.is_some() {
            self.is_broken = false;
            self.seen_details = revision;
            self.snapshots.keep_for_chain(Some(chain.head.snapshot.clone()));
        }
        self.put_head(&chain).await?;
        self.status.wrote(Kind::Head, 0);
        self.status.is_at(sequence);
        Ok(())
    }

    /// A delta, or a full bundle in its place.
    async fn delta(&self, served: &Arc<Snapshot>) -> Result<Made, PublishError> {
        let ledger = self.ledger.as_ref();
        let base = ledger.and_then(|ledger| Some((ledger.end.clone()?, ledger.chain.head.clone())));
        let Some((end, head)) = base else { return self.full(served, Why::First).await };
        match self.make(served, Some((end, head.end().digest))).await {
            Ok(made) if plan::takes_delta(&head, made.named.bytes) => Ok(made),
            Ok(_too_large) => self.full(served, Why::Size).await,
            Err(PublishError::Export(error)) if lacks_base(&error) => self.full(served, Why::NoBase).await,
            Err(error) => Err(error),
        }
    }

    async fn full(&self, served: &Arc<Snapshot>, why: Why) -> Result<Made, PublishError> {
        tracing::info!(url = self.settings.url, snapshot = %served.dataset.id, why = why.as_str(), "publishing a full bundle");
        self.make(served, None).await
    }

    /// Exports a bundle into a file, hashes and signs it.
    async fn make(&self, served: &Arc<Snapshot>, base: Option<(ChainEnd, Digest)>) -> Result<Made, PublishError> {
        let (snapshots, served) = (self.snapshots.clone(), served.clone());
        let (signer, data_dir) = (self.signer.clone(), self.settings.data_dir.clone());
        let details = self.details.clone();
        blocking(move || {
            settle(details.as_ref());
            let mut file = nameless::create(&data_dir, nameless::BUNDLE)?;
            let link = snapshots.export_link(&mut file, &served, base.as_ref().map(|(end, _)| end))?;
            let mut hasher = blake3::Hasher::new();
            file.rewind()?;
            hasher.update_reader(&file)?;
            file.rewind()?;
            let sign = |signer: &Signer| signer.sign(&file, &comment(&served));
            let signature = signer.as_deref().map(sign).transpose()?;
            file.rewind()?;
            let named = NamedBundle {
                base: base.map(|(_, digest)| digest),
                digest: Digest::new(*link.written.digest.as_bytes()),
                snapshot: served.dataset.id.clone(),
                bytes: link.written.bytes,
                blake3: hasher.finalize().into(),
            };
            Ok(Made { file, named, signature, link })
        })
        .await
    }

    /// Sends a bundle and its signature.
    async fn send(&self, made: &Made) -> Result<(), PublishError> {
        let key = made.named.key();
        let file = made.file.try_clone()?;
        self.place.write_file(&Key::Bundle(key.clone()), file, made.named.bytes).await?;
        if let Some(signature) = &made.signature {
            let text = Bytes::from(signature.clone().into_bytes());
            self.place.write(&Key::Signature(key), text, Condition::Always).await?;
        }
        let kind = if made.named.base.is_some() { Kind::Delta } else { Kind::Full };
        self.status.wrote(kind, made.named.bytes);
        Ok(())
    }

    /// Writes the ledger. Without it a restart begins a new chain, so a full disk does not stop the publisher.
    async fn record(&self, chain: &Chain, end: Option<&ChainEnd>) {
        let (store, whose, chain, end) = (self.store().clone(), self.whose.clone(), chain.clone(), end.cloned());
        let written =
            blocking(move || Ok::<_, PublishError>(ledger::write(&store, &whose, &chain, end.as_ref())?)).await;
        if let Err(error) = written {
            tracing::warn!(%error, "the record of what is in the object store could not be written; after a restart a full bundle is written");
        }
    }
}

/// The text of a head: its number, when it is written, the data and the journal.
type Said<'a> = (u64, i64, &'a Snapshot, NamedJournal);

fn head(full: NamedBundle, deltas: Vec<NamedBundle>, (sequence, written_ms, served, journal): Said<'_>) -> Head {
    Head {
        sequence,
        written_ms,
        confirmed_ms: served.meta.confirmed_ms,
        certificate: served.meta.certificate,
        snapshot: served.dataset.id.clone(),
        full,
        deltas,
        journal,
    }
}

/// The chain with a bundle more, or a new one.
fn grown(before: Option<&Chain>, made: &Made, content: Digest, said: Said<'_>) -> Chain {
    let now_ms = said.1;
    let named = made.named.clone();
    let signature = made.signature.as_deref().map(SignatureFile::of);
    match before {
        Some(before) if named.base.is_some() => {
            let deltas = before.head.deltas.iter().cloned().chain([named]).collect();
            Chain {
                head: head(before.head.full.clone(), deltas, said),
                content,
                full_ms: before.full_ms,
                last_ms: now_ms,
                signatures: before.signatures.iter().copied().chain(signature).collect(),
            }
        }
        _ => {
            let head = head(named, Vec::new(), said);
            Chain { head, content, full_ms: now_ms, last_ms: now_ms, signatures: signature.into_iter().collect() }
        }
    }
}

/// The signed comment of a bundle.
fn comment(served: &Snapshot) -> String {
    format!("grandstand snapshot {}, confirmed at {}", served.dataset.id, served.confirmed())
}

/// Opens the key that signs.
///
/// # Errors
/// When it or its password cannot be read, or the password is wrong.
pub(super) fn open_key(key: &Path, password_file: Option<&Path>) -> Result<Signer, PublishError> {
    const LONGEST: u64 = 4096;
    let mut needs_password = false;
    let opened = Signer::open(key, || {
        let Some(path) = password_file else {
            needs_password = true;
            return Ok(String::new());
        };
        let mut line = String::new();
        BufReader::new(File::open(path)?.take(LONGEST)).read_line(&mut line)?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    });
    if needs_password { Err(PublishError::NoPassword) } else { Ok(opened?) }
}
