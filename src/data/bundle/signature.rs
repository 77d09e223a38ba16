//! Signatures of bundles: detached, as the `minisign` tool writes and verifies them; and opening a bundle file, if its
//! signature suffices.
//!
//! It signs and verifies any file. A bundle is read once to verify it and its signature; nothing of it is used before both
//! are judged, and the signature is judged first.
//!
//! Only the prehashed form is accepted: see the end of [the format](super). Callers: [`crate::fleet`], [`crate::cli`],
//! [`crate::server::admin`], [`crate::server`].

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Seek};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use ct_codecs::{Base64, Decoder};
use minisign::{SecretKey, SecretKeyBox};
use minisign_verify::{PublicKey, StreamVerifier};

use super::{Bundle, BundleError, Progress, check_beginning};
use crate::config::files;
use crate::data::snapshot::dataset::Dataset;
use crate::words::remedy;

/// The name of a bundle from there, which has no signature.
pub(crate) const INPUT: &str = "standard input";

/// The longest signature in bytes, with its comments.
pub(crate) const MAX_SIGNATURE: u64 = 16 << 10;

/// The length of a signature with its algorithm and the id of its key, in bytes.
const SIGNATURE_LEN: usize = 74;
/// The algorithms: of a signature over the hash of the file, and of one over the file. Keys name the second.
const PREHASHED: &[u8] = b"ED";
const LEGACY: &[u8] = b"Ed";

/// How an encrypted secret key begins, and a plain one.
const ENCRYPTED: &str = "RWRTY0Iy";
const PLAIN: &str = "RWQAAEIy";

/// Why something is not signed, or a signature is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    #[error("{}: {source}{}", path.display(), remedy(path, source))]
    Io { path: PathBuf, source: io::Error },
    /// The file or the password cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("{0:?} is not a minisign public key")]
    NotAKey(String),
    #[error("{} is not a minisign secret key", .0.display())]
    NotASecretKey(PathBuf),
    #[error("wrong password for the key {}", .0.display())]
    WrongPassword(PathBuf),
    #[error("not a minisign signature: {0}")]
    NotASignature(String),
    /// The signature is in the old form, over the file itself.
    #[error(
        "the signature has minisign's old format, which is not accepted; sign again with minisign 0.10 or newer, or with -H"
    )]
    Legacy,
    #[error(
        "signed with the key {found}, which is not trusted; trusted keys: {}. To trust it, add its public key to \
         bundle.trusted_keys",
        trusted.join(", ")
    )]
    Untrusted {
        found: KeyId,
        /// The ids of the trusted keys.
        trusted: Vec<String>,
    },
    #[error(
        "the signature by the key {0} does not match: the bundle or the signature was altered; copy both again, and if this \
         stays, do not use them"
    )]
    Wrong(KeyId),
    #[error("signing failed: {0}")]
    Failed(String),
}

/// The id of a key, shown as the tool does: without leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(u64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}", self.0)
    }
}

impl KeyId {
    fn of(keynum: &[u8]) -> Self {
        Self(keynum.try_into().map_or(0, u64::from_le_bytes))
    }
}

/// The file that holds the signature of a bundle: `FILE.minisig`.
pub(crate) fn path_of(bundle: &Path) -> PathBuf {
    let mut path = bundle.as_os_str().to_owned();
    path.push(".minisig");
    path.into()
}

/// The text of the signature beside a bundle; `None` if there is none.
pub(crate) fn text_beside(bundle: &Path) -> Result<Option<Vec<u8>>, SignatureError> {
    let path = path_of(bundle);
    let mut text = Vec::new();
    let read = files::open(&path).and_then(|file| file.take(MAX_SIGNATURE + 1).read_to_end(&mut text));
    match read {
        Ok(_) if text.len() as u64 > MAX_SIGNATURE => Err(SignatureError::NotASignature("it is too long".to_owned())),
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SignatureError::Io { path, source }),
    }
}

/// A well-formed signature, not verified.
pub struct Signature {
    key: KeyId,
    text: minisign_verify::Signature,
}

impl Signature {
    /// Reads the signature of a bundle; `None`: there is none.
    pub(crate) fn beside(bundle: &Path) -> Result<Option<Self>, SignatureError> {
        text_beside(bundle)?.map(|text| Self::parse(&text)).transpose()
    }

    pub fn parse(text: &[u8]) -> Result<Self, SignatureError> {
        let wrong = |why: &str| SignatureError::NotASignature(why.to_owned());
        if text.len() as u64 > MAX_SIGNATURE {
            return Err(wrong("it is too long"));
        }
        let text = std::str::from_utf8(text).map_err(|_| wrong("it is not text"))?;
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let [untrusted, signature, comment, own, rest @ ..] = lines.as_slice() else {
            return Err(wrong("it does not have four lines"));
        };
        if rest.iter().any(|line| !line.is_empty()) {
            return Err(wrong("it does not have four lines"));
        }
        let bytes = Base64::decode_to_vec(signature, None).ok().filter(|bytes| bytes.len() == SIGNATURE_LEN);
        let bytes = bytes.ok_or_else(|| wrong("it has the wrong length"))?;
        match &bytes[..2] {
            PREHASHED => {}
            LEGACY => return Err(SignatureError::Legacy),
            _ => return Err(wrong("its algorithm is not known")),
        }
        let text = minisign_verify::Signature::decode(&[*untrusted, signature, comment, own].join("\n"));
        let text = text.map_err(|error| wrong(&error.to_string()))?;
        Ok(Self { key: KeyId::of(&bytes[2..10]), text })
    }

    /// The id of its key, not verified.
    pub(crate) const fn key(&self) -> KeyId {
        self.key
    }

    /// Checks that its key id is that of a trusted key. Needs no file yet.
    pub(crate) fn check_key(&self, trusted: &TrustedKeys) -> Result<(), SignatureError> {
        let found = self.key();
        let is_trusted = trusted.of(found).next().is_some();
        if is_trusted { Ok(()) } else { Err(SignatureError::Untrusted { found, trusted: trusted.ids() }) }
    }

    /// Verifies that a trusted key signed the file, which is read once.
    pub(crate) fn verify(&self, file: impl Read, trusted: &TrustedKeys) -> Result<Signed, SignatureError> {
        Verifying::of(file, self, trusted).finish(self, trusted)
    }
}

/// A file that is hashed while it is read, for its signature.
struct Verifying<'a, R> {
    file: R,
    /// One for each trusted key with the id of the signature: more than one only if somebody made them so.
    verifiers: Vec<StreamVerifier<'a>>,
}

impl<'a, R: Read> Verifying<'a, R> {
    fn of(file: R, signature: &'a Signature, trusted: &'a TrustedKeys) -> Self {
        let verifiers = trusted.of(signature.key).filter_map(|known| known.verify_stream(&signature.text).ok());
        Self { file, verifiers: verifiers.collect() }
    }

    /// Reads the rest, and judges the signature.
    fn finish(mut self, signature: &Signature, trusted: &TrustedKeys) -> Result<Signed, SignatureError> {
        io::copy(&mut self, &mut io::sink())?;
        signature.check_key(trusted)?;
        if self.verifiers.iter_mut().any(|verifier| verifier.finalize().is_ok()) {
            return Ok(Signed { key: signature.key, comment: signature.text.trusted_comment().to_owned() });
        }
        Err(SignatureError::Wrong(signature.key))
    }
}

impl<R: Read> Read for Verifying<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.verifiers.iter_mut().for_each(|verifier| verifier.update(&buffer[..read]));
        Ok(read)
    }
}

/// Only before the first byte is read.
impl<R: Seek> Seek for Verifying<'_, R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub key: KeyId,
    pub comment: String,
}

/// The keys whose signatures are accepted.
#[derive(Clone, Default)]
pub struct TrustedKeys(Vec<(KeyId, PublicKey)>);

impl TrustedKeys {
    /// Reads keys in their written form: 56 characters of base64 that begin with `RW`.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, SignatureError> {
        let key = |line: &'a str| {
            let bytes = Base64::decode_to_vec(line, None).ok().filter(|bytes| bytes.starts_with(LEGACY));
            let key = PublicKey::from_base64(line).ok().zip(bytes);
            key.map(|(key, bytes)| (KeyId::of(&bytes[2..10]), key))
                .ok_or_else(|| SignatureError::NotAKey(line.to_owned()))
        };
        lines.into_iter().map(key).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is no key: signatures are not required.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These keys, and the one of `signer`.
    pub(crate) fn and(&self, signer: &Signer) -> Result<Self, SignatureError> {
        let own = Self::parse([signer.public()?.to_base64().as_str()])?;
        Ok(Self(self.0.iter().cloned().chain(own.0).collect()))
    }

    /// The keys with this id: more than one only if somebody made them so.
    fn of(&self, id: KeyId) -> impl Iterator<Item = &PublicKey> {
        self.0.iter().filter(move |(known, _)| *known == id).map(|(_, key)| key)
    }

    fn ids(&self) -> Vec<String> {
        self.0.iter().map(|(id, _)| id.to_string()).collect()
    }
}

impl fmt::Debug for TrustedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

/// A secret key, ready to sign. It is never printed.
pub struct Signer(SecretKey);

impl Signer {
    /// Reads a secret key file of the `minisign` tool. `password` is asked only if the key is encrypted; decryption
    /// takes about a GiB of memory and some seconds.
    pub(crate) fn open(path: &Path, password: impl FnOnce() -> io::Result<String>) -> Result<Self, SignatureError> {
        let not_a_key = || SignatureError::NotASecretKey(path.to_owned());
        let (key, is_encrypted) = Self::read(path)?;
        if is_encrypted {
            return key.into_secret_key(Some(password()?)).map(Self).map_err(|error| match error.kind() {
                minisign::ErrorKind::Verify => SignatureError::WrongPassword(path.to_owned()),
                _ => not_a_key(),
            });
        }
        let key = key.clone().into_unencrypted_secret_key().ok().or_else(|| without_checksum(&key.into_string()));
        key.map(Self).ok_or_else(not_a_key)
    }

    /// Whether the key of a file needs a password.
    pub(crate) fn needs_password(path: &Path) -> Result<bool, SignatureError> {
        match Self::read(path)? {
            (_, true) => Ok(true),
            (_, false) => Self::open(path, || Ok(String::new())).map(|_| false),
        }
    }

    /// A secret key file, and whether the key is encrypted.
    fn read(path: &Path) -> Result<(SecretKeyBox, bool), SignatureError> {
        const LONGEST: u64 = 4096;
        let mut text = String::new();
        let read = files::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
        read.map_err(|source| SignatureError::Io { path: path.to_owned(), source })?;
        let key = text.lines().nth(1).unwrap_or_default();
        let is_encrypted = key.starts_with(ENCRYPTED);
        if !is_encrypted && !key.starts_with(PLAIN) {
            return Err(SignatureError::NotASecretKey(path.to_owned()));
        }
        Ok((SecretKeyBox::from(text), is_encrypted))
    }

    pub(crate) fn key(&self) -> KeyId {
        KeyId::of(self.0.keynum())
    }

    fn public(&self) -> Result<minisign::PublicKey, SignatureError> {
        minisign::PublicKey::from_secret_key(&self.0).map_err(|error| SignatureError::Failed(error.to_string()))
    }

    /// Signs a file, which is read once; returns the text of the signature. `comment` is signed, too, and has one line.
    pub(crate) fn sign(&self, file: impl Read, comment: &str) -> Result<String, SignatureError> {
        if comment.contains(['\r', '\n']) || comment.trim() != comment || comment.len() > 8000 {
            return Err(SignatureError::Failed(format!("{comment:?} is not a one-line comment")));
        }
        let untrusted = format!("signature of a grandstand bundle by the key {}", self.key());
        // Verifying with the public key reveals a damaged secret key.
        let public = self.public()?;
        let signature = minisign::sign(Some(&public), &self.0, BufReader::new(file), Some(comment), Some(&untrusted));
        signature.map(|signature| signature.to_string()).map_err(|error| SignatureError::Failed(error.to_string()))
    }
}

/// A key without a password: the tool writes 32 zeros instead of the checksum that the library requires.
fn without_checksum(text: &str) -> Option<SecretKey> {
    const LEN: usize = 158;
    let key = Base64::decode_to_vec(text.lines().nth(1)?, None).ok()?;
    let zeros = key.len() == LEN && key.ends_with(&[0; 32]);
    zeros.then(|| SecretKey::from_bytes(&key).ok()).flatten()
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.key())
    }
}

/// Asks for a password: at the terminal if there is one, else one line of standard input.
pub(crate) fn ask_password(prompt: &str) -> io::Result<String> {
    if io::stdin().is_terminal() {
        return rpassword::prompt_password(prompt);
    }
    let mut line = String::new();
    if io::stdin().lock().take(4096).read_line(&mut line)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the key needs a password, but standard input is empty",
        ));
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("{} has {length} bytes; a bundle may have {most}", path.display())]
    TooLarge { path: PathBuf, length: u64, most: u64 },
    #[error(
        "{} is not signed, but bundle.trusted_keys requires a signature: {} is missing; copy it beside the bundle",
        .0.display(), path_of(.0).display()
    )]
    Unsigned(PathBuf),
    #[error(
        "a bundle on {INPUT} has no signature, but bundle.trusted_keys requires one: save it to a file, beside its .minisig"
    )]
    UnsignedInput,
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// What is known of a signature before its file is read.
pub(crate) enum Claim {
    /// None is required.
    Free(Voucher),
    /// It is to be verified. Its key is trusted.
    Signed(Signature),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// There is no signature, and none is required.
    Nobody,
    /// The signature names this key; it was not verified, because no key is trusted.
    Unverified(KeyId),
    /// The signature cannot be read, and none is required.
    Unreadable(String),
    /// A trusted key signed it.
    Signed(Signed),
}

impl Voucher {
    /// The trusted key that signed; `None`: no signature was verified.
    pub(crate) const fn signed_by(&self) -> Option<KeyId> {
        match self {
            Self::Signed(signed) => Some(signed.key),
            Self::Nobody | Self::Unverified(_) | Self::Unreadable(_) => None,
        }
    }
}

/// A bundle that may be used.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file, for [`Bundle::details`].
    pub file: File,
    pub bundle: Bundle,
    pub voucher: Voucher,
}

/// Opens a bundle beside data in memory (see [`Bundle::open_beside`]), and verifies its signature, in one pass. `progress`
/// gets bytes.
pub(crate) fn open(
    file: File,
    claim: Claim,
    trusted: &TrustedKeys,
    known: Option<&Dataset>,
    progress: Progress<'_>,
) -> Result<Opened, TrustError> {
    let (bundle, voucher) = read(&file, claim, trusted, known, progress);
    // The signature comes first: what a stranger has altered may look like anything.
    let voucher = voucher?;
    Ok(Opened { bundle: bundle?, voucher, file })
}

/// The same, whatever comes of one of the two.
pub(crate) fn read(
    file: &File,
    claim: Claim,
    trusted: &TrustedKeys,
    known: Option<&Dataset>,
    progress: Progress<'_>,
) -> (Result<Bundle, BundleError>, Result<Voucher, TrustError>) {
    match claim {
        Claim::Free(voucher) => (Bundle::open_beside(file, known, progress), Ok(voucher)),
        Claim::Signed(signature) => {
            let mut verifying = Verifying::of(file, &signature, trusted);
            let bundle = Bundle::open_beside(&mut verifying, known, progress);
            let signed = verifying.finish(&signature, trusted);
            (bundle, signed.map(Voucher::Signed).map_err(TrustError::from))
        }
    }
}

/// Opens a file of at most `most` bytes for reading, more than once.
pub(crate) fn open_file(path: &Path, most: u64) -> Result<File, TrustError> {
    let opened = files::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    match opened.map_err(|source| SignatureError::Io { path: path.to_owned(), source })? {
        (length, _) if length > most => Err(TrustError::TooLarge { path: path.to_owned(), length, most }),
        (_, file) => Ok(file),
    }
}

/// Looks at the signature beside a file. `path`: the name of the file, or [`INPUT`]. Refuses a file that is no bundle by its
/// first bytes, and, if any key is trusted, an unsigned bundle and one of another key.
pub(crate) fn claim(path: &Path, file: &File, trusted: &TrustedKeys) -> Result<Claim, TrustError> {
    let mut start = [0; 16];
    let length = file.read_at(&mut start, 0).map_err(BundleError::from)?;
    check_beginning(&start[..length])?;
    Ok(match (Signature::beside(path), trusted.is_empty()) {
        (Ok(None), true) => Claim::Free(Voucher::Nobody),
        (Ok(None), false) if path == Path::new(INPUT) => return Err(TrustError::UnsignedInput),
        (Ok(None), false) => return Err(TrustError::Unsigned(path.to_owned())),
        (Ok(Some(signature)), true) => Claim::Free(Voucher::Unverified(signature.key())),
        (Ok(Some(signature)), false) => {
            signature.check_key(trusted)?;
            Claim::Signed(signature)
        }
        (Err(error), true) => Claim::Free(Voucher::Unreadable(error.to_string())),
        (Err(error), false) => return Err(error.into()),
    })
}

#[cfg(test)]
mod tests;
