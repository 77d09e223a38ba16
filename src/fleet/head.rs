//! The head: the one object of an object store that changes. It names the bundles and the journal that belong together.
//!
//! Reads, checks, writes, signs and verifies it; see *The head* in [the format](super). It transfers nothing. Pure.
//! Callers: publisher and replica.

use std::io::Cursor;

use serde::{Deserialize, Serialize};

use super::keys::{BundleKey, Digest, Key, ShortDigest};
use crate::bundle::signature::{KeyId, MAX_SIGNATURE, Signature, SignatureError, Signer, TrustedKeys};
use crate::clock::WallTime;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::meta::Certificate;

/// The longest file, in bytes.
pub(crate) const MOST_BYTES: u64 = 256 << 10;
/// The most deltas that one head names.
pub(crate) const MOST_DELTAS: usize = 64;
/// The largest number of a head: every reader of JSON takes it exactly.
pub(crate) const MOST_NUMBER: u64 = (1 << 53) - 1;

const FORMAT: u64 = 1;
/// 9999-12-31T23:59:59.999Z.
const LAST_MS: i64 = 253_402_300_799_999;

/// Why a file is not a head, or not an accepted one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadError {
    /// It has not the form of a head.
    #[error("the head cannot be read: {0}")]
    Malformed(String),
    /// Another format.
    #[error("the head has format {0}, which this version does not know; update this program")]
    Format(u64),
    /// The required signature is missing.
    #[error("the head is not signed, but bundle.trusted_keys requires a signature")]
    Unsigned,
    /// The signature is not accepted.
    #[error("the head: {0}")]
    Signature(#[from] SignatureError),
    /// Whoever believed this number could take no later head for as long.
    #[error(
        "the number of the head ({sequence}) is more than a day ahead of this machine's clock ({clock}, {} ms since 1970); \
         set the clock that is wrong, this machine's or the publisher's",
        clock.as_millis()
    )]
    Ahead {
        sequence: u64,
        /// This machine's.
        clock: WallTime,
    },
}

/// Whether a number cannot come from a clock that agrees with ours within a day.
pub(crate) fn is_ahead(sequence: u64, clock: WallTime) -> bool {
    const DAY_MS: u64 = 86_400_000;
    sequence > u64::try_from(clock.as_millis()).unwrap_or(0).saturating_add(DAY_MS)
}

/// A bundle that a head names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedBundle {
    /// The digest of the bundle before it in the chain; `None`: a full bundle.
    pub base: Option<Digest>,
    /// The bundle's digest.
    pub digest: Digest,
    /// The snapshot that it leads to.
    pub snapshot: SnapshotId,
    /// The length of the file.
    pub bytes: u64,
    /// The hash of the file.
    pub blake3: Digest,
}

impl NamedBundle {
    /// Its name in the object store.
    pub(crate) fn key(&self) -> BundleKey {
        match &self.base {
            None => BundleKey::Full(self.snapshot.clone(), self.digest.short()),
            Some(base) => BundleKey::Delta(base.short(), self.digest.short()),
        }
    }
}

/// The journal that a head names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedJournal {
    /// The length of the file.
    pub bytes: u64,
    /// The hash of the file.
    pub blake3: Digest,
}

impl NamedJournal {
    /// Its name in the object store.
    pub(crate) fn key(&self) -> ShortDigest {
        self.blake3.short()
    }
}

/// A head, checked: its chain is without gaps, and its keys are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Rises with each head.
    pub sequence: u64,
    /// When it was written, by the publisher's clock; milliseconds since the epoch.
    pub written_ms: i64,
    /// The instant for which the data is confirmed; milliseconds since the epoch.
    pub confirmed_ms: i64,
    /// How sure the publisher is.
    pub certificate: Certificate,
    /// The snapshot at the end of the chain.
    pub snapshot: SnapshotId,
    /// The full bundle.
    pub full: NamedBundle,
    /// The deltas after it, in order.
    pub deltas: Vec<NamedBundle>,
    pub journal: NamedJournal,
}

impl Head {
    /// The bundles in order, the full one first.
    pub(crate) fn chain(&self) -> impl DoubleEndedIterator<Item = &NamedBundle> + Clone {
        std::iter::once(&self.full).chain(&self.deltas)
    }

    /// The last bundle of the chain.
    pub(crate) fn end(&self) -> &NamedBundle {
        self.deltas.last().unwrap_or(&self.full)
    }

    /// The bundles that a reader needs who has followed the chain to the bundle with this digest; `None`: it does not
    /// stand on this chain, and needs all.
    pub(crate) fn after(&self, digest: &Digest) -> Option<&[NamedBundle]> {
        self.chain().position(|bundle| bundle.digest == *digest).map(|at| &self.deltas[at..])
    }

    /// Whether the head names an object; signatures belong to their bundles.
    pub(crate) fn names(&self, key: &Key) -> bool {
        match key {
            Key::Head => true,
            Key::Journal(digest) => self.journal.key() == *digest,
            Key::Bundle(key) | Key::Signature(key) => self.chain().any(|bundle| bundle.key() == *key),
        }
    }

    /// The text of the head, which is signed.
    pub(crate) fn text(&self) -> String {
        let entry = |bundle: &NamedBundle| Entry {
            key: bundle.key().to_string(),
            bytes: bundle.bytes,
            blake3: bundle.blake3.to_string(),
            digest: bundle.digest.to_string(),
            snapshot: bundle.snapshot.to_string(),
            base_digest: bundle.base.map(|base| base.to_string()),
        };
        let journal = JournalEntry {
            key: Key::Journal(self.journal.key()).to_string(),
            bytes: self.journal.bytes,
            blake3: self.journal.blake3.to_string(),
        };
        let inner = HeadText {
            format: FORMAT,
            sequence: self.sequence,
            written_ms: self.written_ms,
            confirmed_ms: self.confirmed_ms,
            certificate: self.certificate,
            snapshot: self.snapshot.to_string(),
            full: entry(&self.full),
            deltas: self.deltas.iter().map(entry).collect(),
            journal,
        };
        // Numbers and texts always have a JSON form.
        serde_json::to_string(&inner).unwrap_or_default()
    }

    /// The file: the text, signed by `signer` if there is one.
    ///
    /// # Errors
    /// When signing fails.
    pub(crate) fn to_file(&self, signer: Option<&Signer>) -> Result<Vec<u8>, SignatureError> {
        let text = self.text();
        let comment = format!("grandstand head {}, snapshot {}", self.sequence, self.snapshot);
        let signature = signer.map(|signer| signer.sign(text.as_bytes(), &comment)).transpose()?;
        let outer = Outer { head: text, signature };
        Ok(serde_json::to_vec(&outer).unwrap_or_default())
    }

    /// Reads a file without regard to its signature and its number. Only for the ledger, on our own disk.
    ///
    /// # Errors
    /// When it is no head.
    pub(crate) fn read_unverified(file: &[u8]) -> Result<Self, HeadError> {
        Self::read_text(&outer(file)?.head)
    }

    /// Reads a file. With trusted keys, one of them must have signed it; returns that key. Nothing in the text is
    /// believed before.
    ///
    /// # Errors
    /// When it is no head, no trusted key signed it, or its number is too far ahead of the clock.
    pub(crate) fn read(
        file: &[u8],
        trusted: &TrustedKeys,
        clock: WallTime,
    ) -> Result<(Self, Option<KeyId>), HeadError> {
        let Outer { head, signature } = outer(file)?;
        let mut signed_by = None;
        if !trusted.is_empty() {
            let signature = Signature::parse(signature.ok_or(HeadError::Unsigned)?.as_bytes())?;
            signature.check_key(trusted)?;
            signed_by = Some(signature.verify(Cursor::new(head.as_bytes()), trusted)?.key);
        }
        let head = Self::read_text(&head)?;
        if is_ahead(head.sequence, clock) {
            return Err(HeadError::Ahead { sequence: head.sequence, clock });
        }
        Ok((head, signed_by))
    }

    fn read_text(text: &str) -> Result<Self, HeadError> {
        // Before all else, so that a newer format gets the right message.
        let Format { format } = parse(text.as_bytes())?;
        if format != FORMAT {
            return Err(HeadError::Format(format));
        }
        let inner: HeadText = parse(text.as_bytes())?;
        inner.checked().map_err(HeadError::Malformed)
    }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, HeadError> {
    // The library reads an array as the fields in order, too.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(HeadError::Malformed("it is not a JSON object".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| HeadError::Malformed(error.to_string()))
}

fn outer(file: &[u8]) -> Result<Outer, HeadError> {
    if file.len() as u64 > MOST_BYTES {
        return Err(HeadError::Malformed(format!("it has {} bytes; at most {MOST_BYTES} are read", file.len())));
    }
    let outer: Outer = parse(file)?;
    match &outer.signature {
        Some(signature) if signature.len() as u64 > MAX_SIGNATURE => {
            Err(HeadError::Malformed("its signature is too long".to_owned()))
        }
        _ => Ok(outer),
    }
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outer {
    head: String,
    /// Must be there, if only as null.
    #[serde(deserialize_with = "Option::deserialize")]
    signature: Option<String>,
}

/// The format number alone.
#[derive(Deserialize)]
struct Format {
    format: u64,
}

/// The text.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadText {
    format: u64,
    sequence: u64,
    written_ms: i64,
    confirmed_ms: i64,
    certificate: Certificate,
    snapshot: String,
    full: Entry,
    deltas: Vec<Entry>,
    journal: JournalEntry,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    bytes: u64,
    blake3: String,
    digest: String,
    snapshot: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_digest: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalEntry {
    key: String,
    bytes: u64,
    blake3: String,
}

impl HeadText {
    fn checked(self) -> Result<Head, String> {
        if self.sequence > MOST_NUMBER {
            return Err(format!("sequence {} is beyond 2^53 - 1", self.sequence));
        }
        for (name, at_ms) in [("written_ms", self.written_ms), ("confirmed_ms", self.confirmed_ms)] {
            if !(-LAST_MS..=LAST_MS).contains(&at_ms) {
                return Err(format!("{name} is {at_ms}, which is no instant"));
            }
        }
        if self.deltas.len() > MOST_DELTAS {
            return Err(format!("it names {} deltas; at most {MOST_DELTAS} are read", self.deltas.len()));
        }
        let snapshot = snapshot(&self.snapshot)?;
        let full = self.full.checked()?;
        if full.base.is_some() {
            return Err("the full bundle has a base_digest".to_owned());
        }
        let (mut deltas, mut before): (Vec<NamedBundle>, Digest) = (Vec::new(), full.digest);
        for entry in self.deltas {
            let delta = entry.checked()?;
            if delta.base != Some(before) {
                return Err(format!("delta {} does not follow {before}", delta.digest));
            }
            if delta.digest == full.digest || deltas.iter().any(|other| other.digest == delta.digest) {
                return Err(format!("it names {} twice", delta.digest));
            }
            before = delta.digest;
            deltas.push(delta);
        }
        let JournalEntry { key, bytes, blake3 } = self.journal;
        let journal = NamedJournal { bytes: length(bytes)?, blake3: digest(&blake3)? };
        expect_key(&key, &Key::Journal(journal.key()))?;
        let (sequence, written_ms, confirmed_ms) = (self.sequence, self.written_ms, self.confirmed_ms);
        let certificate = self.certificate;
        let head = Head { sequence, written_ms, confirmed_ms, certificate, snapshot, full, deltas, journal };
        if head.end().snapshot != head.snapshot {
            return Err(format!(
                "its chain ends with {}, not with its snapshot {}",
                head.end().snapshot,
                head.snapshot
            ));
        }
        Ok(head)
    }
}

impl Entry {
    fn checked(self) -> Result<NamedBundle, String> {
        let named = NamedBundle {
            base: self.base_digest.as_deref().map(digest).transpose()?,
            digest: digest(&self.digest)?,
            snapshot: snapshot(&self.snapshot)?,
            bytes: length(self.bytes)?,
            blake3: digest(&self.blake3)?,
        };
        expect_key(&self.key, &named.key().into())?;
        Ok(named)
    }
}

fn expect_key(found: &str, expected: &Key) -> Result<(), String> {
    if found == expected.to_string() { Ok(()) } else { Err(format!("the key {found:?} must be {expected}")) }
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| format!("{text:?} is not a hash of 64 hexadecimal digits"))
}

fn snapshot(text: &str) -> Result<SnapshotId, String> {
    SnapshotId::parse(text).ok_or_else(|| format!("{text:?} is not a snapshot id"))
}

fn length(bytes: u64) -> Result<u64, String> {
    if (1..=MOST_NUMBER).contains(&bytes) { Ok(bytes) } else { Err(format!("{bytes} is not the length of a file")) }
}

#[cfg(test)]
mod tests;
