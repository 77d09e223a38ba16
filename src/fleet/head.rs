//! The head: the one object of an object store that changes. It names the bundles and the journal that belong together.
//!
//! Reads, checks, writes, signs and verifies it; see *The head* in [the format](super). It transfers nothing. Pure.
//! Callers: publisher and replica.

use serde::{Deserialize, Serialize};

use super::keys::ObjectKey;
use crate::api::hash::Digest;
use crate::clock::WallTime;
use crate::data::bundle::signature::{KeyId, MAX_SIGNATURE, Signature, SignatureError, Signer, TrustedKeys};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::meta::Certificate;

/// The longest file, in bytes.
pub(crate) const MOST_BYTES: u64 = 256 << 10;
/// The most deltas that one head names.
pub(crate) const MOST_DELTAS: usize = 64;
/// The largest number of a head: every reader of JSON takes it exactly.
pub(crate) const MOST_NUMBER: u64 = (1 << 53) - 1;

pub(crate) const FORMAT: u64 = 1;

#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    #[error("the head cannot be read: {0}")]
    Malformed(String),
    #[error("the head has format {0}, which this version does not know; update this program")]
    Format(u64),
    #[error(
        "the head is not signed, but bundle.trusted_keys requires a signature (on a publisher, publish.sign_key does)"
    )]
    Unsigned,
    #[error("the head: {0}")]
    Signature(#[from] SignatureError),
    /// Whoever believed this number could take no later head for as long.
    #[error(
        "the number of the head ({sequence}) is more than a day ahead of this machine's clock ({clock}, {} ms since 1970); \
         set the clock that is wrong, this machine's or the publisher's",
        clock.as_millis()
    )]
    Ahead { sequence: u64, clock: WallTime },
}

/// Whether a number cannot come from a clock that agrees with ours within a day.
pub(crate) fn is_ahead(sequence: u64, clock: WallTime) -> bool {
    const DAY_MS: u64 = 86_400_000;
    sequence > u64::try_from(clock.as_millis()).unwrap_or(0).saturating_add(DAY_MS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHash {
    pub bytes: u64,
    pub blake3: Digest,
}

impl FileHash {
    pub(crate) fn of(file: &[u8]) -> Self {
        Self { bytes: file.len() as u64, blake3: blake3::hash(file).into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedBundle {
    /// Its name in the object store, which follows from the rest: see [`NamedBundle::key`].
    key: String,
    pub bytes: u64,
    pub blake3: Digest,
    pub digest: Digest,
    /// The snapshot that it leads to.
    pub snapshot: SnapshotId,
    /// The digest of the bundle before it in the chain; `None`: a full bundle.
    #[serde(default, rename = "base_digest", skip_serializing_if = "Option::is_none")]
    pub base: Option<Digest>,
}

impl NamedBundle {
    pub(crate) fn new(base: Option<Digest>, digest: Digest, snapshot: SnapshotId, file: FileHash) -> Self {
        let mut named = Self { key: String::new(), bytes: file.bytes, blake3: file.blake3, digest, snapshot, base };
        named.key = named.key().to_string();
        named
    }

    pub(crate) fn key(&self) -> ObjectKey {
        match &self.base {
            None => ObjectKey::Full(self.snapshot.clone(), self.digest.short()),
            Some(base) => ObjectKey::Delta(base.short(), self.digest.short()),
        }
    }

    fn check(&self) -> Result<(), String> {
        check_snapshot(&self.snapshot)?;
        check_file(self.bytes, &self.key, &self.key())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedJournal {
    /// Its name in the object store, which follows from the hash.
    key: String,
    pub bytes: u64,
    pub blake3: Digest,
}

impl NamedJournal {
    pub(crate) fn new(FileHash { bytes, blake3 }: FileHash) -> Self {
        Self { key: ObjectKey::Journal(blake3.short()).to_string(), bytes, blake3 }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::Journal(self.blake3.short())
    }
}

/// A head, checked: its chain is without gaps, and its keys are ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub format: u64,
    /// Rises with each head.
    pub sequence: u64,
    /// When it was written, by the publisher's clock; milliseconds since the epoch.
    pub written_ms: i64,
    /// The instant for which the data is confirmed; milliseconds since the epoch.
    pub confirmed_ms: i64,
    pub certificate: Certificate,
    /// The snapshot at the end of the chain.
    pub snapshot: SnapshotId,
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

    pub(crate) fn end(&self) -> &NamedBundle {
        self.deltas.last().unwrap_or(&self.full)
    }

    /// The bundles that a reader needs who has followed the chain to the bundle with this digest; `None`: it does not
    /// stand on this chain, and needs all.
    pub(crate) fn after(&self, digest: &Digest) -> Option<&[NamedBundle]> {
        self.chain().position(|bundle| bundle.digest == *digest).map(|at| &self.deltas[at..])
    }

    /// Whether the head names an object; signatures belong to their bundles.
    pub(crate) fn names(&self, key: &ObjectKey) -> bool {
        match key {
            ObjectKey::Head => true,
            ObjectKey::Journal(_) => self.journal.key() == *key,
            ObjectKey::Signature(bundle) => self.names(bundle),
            ObjectKey::Full(..) | ObjectKey::Delta(..) => self.chain().any(|bundle| bundle.key() == *key),
        }
    }

    /// The text of the head, which is signed.
    pub(crate) fn text(&self) -> String {
        // Numbers and texts always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The file: the text, signed by `signer` if there is one.
    pub fn to_file(&self, signer: Option<&Signer>) -> Result<Vec<u8>, SignatureError> {
        let text = self.text();
        let comment = format!("grandstand head {}, snapshot {}", self.sequence, self.snapshot);
        let signature = signer.map(|signer| signer.sign(text.as_bytes(), &comment)).transpose()?;
        let outer = Outer { head: text, signature };
        Ok(serde_json::to_vec(&outer).unwrap_or_default())
    }

    /// Reads a file without regard to its signature and its number. Only for the ledger, on our own disk.
    pub fn read_unverified(file: &[u8]) -> Result<Self, HeadError> {
        Self::read_text(&outer(file)?.head)
    }

    /// Reads a file. With trusted keys, one of them must have signed it; returns that key. Nothing in the text is
    /// believed before.
    pub fn read(file: &[u8], trusted: &TrustedKeys, clock: WallTime) -> Result<(Self, Option<KeyId>), HeadError> {
        let Outer { head, signature } = outer(file)?;
        let mut signed_by = None;
        if !trusted.is_empty() {
            let signature = Signature::parse(signature.ok_or(HeadError::Unsigned)?.as_bytes())?;
            signed_by = Some(signature.verify(head.as_bytes(), trusted)?.key);
        }
        let head = Self::read_text(&head)?;
        if is_ahead(head.sequence, clock) {
            return Err(HeadError::Ahead { sequence: head.sequence, clock });
        }
        Ok((head, signed_by))
    }

    fn read_text(text: &str) -> Result<Self, HeadError> {
        #[derive(Deserialize)]
        struct FormatNumber {
            format: u64,
        }
        // Before all else, so that a newer format gets the right message.
        let FormatNumber { format } = parse(text.as_bytes())?;
        if format != FORMAT {
            return Err(HeadError::Format(format));
        }
        let head: Self = parse(text.as_bytes())?;
        head.check().map(|()| head).map_err(HeadError::Malformed)
    }

    fn check(&self) -> Result<(), String> {
        if self.sequence > MOST_NUMBER {
            return Err(format!("sequence {} is beyond 2^53 - 1", self.sequence));
        }
        for (name, at_ms) in [("written_ms", self.written_ms), ("confirmed_ms", self.confirmed_ms)] {
            if !WallTime::from_millis(at_ms).is_plausible() {
                return Err(format!("{name} is {at_ms}, which is no instant"));
            }
        }
        if self.deltas.len() > MOST_DELTAS {
            return Err(format!("it names {} deltas; at most {MOST_DELTAS} are read", self.deltas.len()));
        }
        check_snapshot(&self.snapshot)?;
        self.full.check()?;
        if self.full.base.is_some() {
            return Err("the full bundle has a base_digest".to_owned());
        }
        for (at, (before, delta)) in self.chain().zip(&self.deltas).enumerate() {
            delta.check()?;
            if delta.base != Some(before.digest) {
                return Err(format!("delta {} does not follow {}", delta.digest, before.digest));
            }
            if self.chain().take(at + 1).any(|other| other.digest == delta.digest) {
                return Err(format!("it names {} twice", delta.digest));
            }
        }
        check_file(self.journal.bytes, &self.journal.key, &self.journal.key())?;
        let end = &self.end().snapshot;
        if *end != self.snapshot {
            return Err(format!("its chain ends with {end}, not with its snapshot {}", self.snapshot));
        }
        Ok(())
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

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outer {
    head: String,
    /// Must be there, if only as null.
    #[serde(deserialize_with = "Option::deserialize")]
    signature: Option<String>,
}

/// A length, and a name that must be the one that follows from the rest.
fn check_file(bytes: u64, key: &str, expected: &ObjectKey) -> Result<(), String> {
    if !(1..=MOST_NUMBER).contains(&bytes) {
        return Err(format!("{bytes} is not the length of a file"));
    }
    if key == expected.to_string() { Ok(()) } else { Err(format!("the key {key:?} must be {expected}")) }
}

fn check_snapshot(id: &SnapshotId) -> Result<(), String> {
    let text = id.as_str();
    SnapshotId::parse(text).map(drop).ok_or_else(|| format!("{text:?} is not a snapshot id"))
}

#[cfg(test)]
mod tests;
