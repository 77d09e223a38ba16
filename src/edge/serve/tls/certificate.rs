//! Certificate chain and key, read from two PEM files and checked before use, and their renewal: when the files are
//! replaced (by certbot ...), new connections get the new certificate within seconds. A broken new file only shows in the
//! log and in `/status`.
//!
//! Contents are compared, not the times of files, so switched links and copies with old times are found, too. Callers:
//! [`crate::server`], at the start and at a reload; [`crate::cli`] before a start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use x509_parser::parse_x509_certificate;

use crate::clock::WallTime;
use crate::origin::trust::read_pem;
use crate::tasks::threads::Periodic;
use crate::telemetry::findings::{Finding, Kind};
use crate::words::remedy;

#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The problem of one file: one line, without its content.
#[derive(Debug, thiserror::Error)]
#[error("\"{}\" {problem}", path.display())]
pub(crate) struct Unusable {
    /// The configuration's key for the file.
    pub key: &'static str,
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("cannot be read: {0}")]
    Unreadable(String),
    #[error("is not PEM: {0}")]
    NotPem(pem::Error),
    #[error("contains no certificate{0}")]
    NoCertificate(&'static str),
    #[error("contains no private key{0}")]
    NoKey(&'static str),
    #[error(
        "contains an encrypted private key, and nobody is asked for its passphrase; decrypt it with `openssl pkey -in \
         ENCRYPTED.pem -out PLAIN.pem`, let only grandstand read PLAIN.pem, and set tls.key to it"
    )]
    EncryptedKey,
    #[error("contains an invalid certificate: {0}")]
    StrangeCertificate(String),
    #[error("contains an unusable private key: {0}")]
    StrangeKey(Error),
    #[error("does not belong to the first certificate in \"{}\"", .0.display())]
    OtherKey(PathBuf),
}

/// The concern about the certificate of an authority. `openssl req -x509` makes one by default.
const AUTHORITY: &str = "the certificate is that of an authority (CA:TRUE): many clients refuse it for a server; make one with \
                         CA:FALSE (openssl req -x509 -addext basicConstraints=critical,CA:FALSE), or have the authority sign one";

#[derive(Debug)]
pub(crate) struct Certificate {
    pub key: Arc<CertifiedKey>,
    /// From when the first certificate is valid.
    pub from: WallTime,
    /// Until when.
    pub until: WallTime,
    is_authority: bool,
}

impl Certificate {
    /// Why clients refuse it at `now`; `None`: they accept it.
    pub(crate) fn concern(&self, now: WallTime) -> Option<String> {
        if now > self.until {
            return Some(format!("the certificate expired at {}: clients refuse it", self.until));
        }
        if now < self.from {
            return Some(format!("the certificate is not valid before {}: clients refuse it", self.from));
        }
        self.is_authority.then(|| AUTHORITY.to_owned())
    }
}

/// The contents of the two files at one instant, or why they cannot be read.
pub(crate) struct Contents {
    cert: Result<Vec<u8>, String>,
    key: Result<Vec<u8>, String>,
}

impl Contents {
    /// A hash of both.
    pub(crate) fn fingerprint(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.cert, &self.key] {
            let (word, bytes) = match part {
                Ok(bytes) => (b'+', bytes.as_slice()),
                Err(why) => (b'-', why.as_bytes()),
            };
            hasher.update(&[word]).update(&(bytes.len() as u64).to_be_bytes()).update(bytes);
        }
        hasher.finalize()
    }
}

impl Files {
    pub(crate) fn certificate(&self, provider: &CryptoProvider) -> Result<Certificate, Vec<Unusable>> {
        self.judge(&self.read(), provider)
    }

    pub(crate) fn read(&self) -> Contents {
        Contents { cert: bytes(&self.cert), key: bytes(&self.key) }
    }

    pub(crate) fn judge(&self, contents: &Contents, provider: &CryptoProvider) -> Result<Certificate, Vec<Unusable>> {
        let cert = |problem| Unusable { key: "tls.cert", path: self.cert.clone(), problem };
        let key = |problem| Unusable { key: "tls.key", path: self.key.clone(), problem };
        let read_chain = contents.cert.as_ref().map_err(|why| Problem::Unreadable(why.clone()));
        let read_key = contents.key.as_ref().map_err(|why| Problem::Unreadable(why.clone()));
        let chain = read_chain.and_then(|bytes| chain(bytes)).map_err(cert);
        let secret = read_key
            .and_then(|bytes| secret(bytes))
            .and_then(|secret| provider.key_provider.load_private_key(secret).map_err(Problem::StrangeKey));
        match (chain, secret.map_err(key)) {
            (Ok((chain, from, until, is_authority)), Ok(secret)) => {
                let certified = CertifiedKey::new(chain, secret);
                match certified.keys_match() {
                    // Some kinds of keys cannot give their public half.
                    Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                        Ok(Certificate { key: Arc::new(certified), from, until, is_authority })
                    }
                    Err(_) => Err(vec![key(Problem::OtherKey(self.cert.clone()))]),
                }
            }
            (chain, secret) => Err(chain.err().into_iter().chain(secret.err()).collect()),
        }
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    read_pem(path).map_err(|error| format!("{error}{}", remedy(path, &error)))
}

/// The chain, from when until when its first certificate is valid, and whether that is an authority's.
type Chain = (Vec<CertificateDer<'static>>, WallTime, WallTime, bool);

fn chain(bytes: &[u8]) -> Result<Chain, Problem> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let chain = chain.map_err(|error| not_pem(bytes, error))?;
    let Some(first) = chain.first() else {
        let hint =
            if secret(bytes).is_ok() { ", but a private key: are tls.cert and tls.key swapped?" } else { hint(bytes) };
        return Err(Problem::NoCertificate(hint));
    };
    let strange = |error: &dyn std::fmt::Display| Problem::StrangeCertificate(error.to_string());
    ParsedCertificate::try_from(first).map_err(|error| strange(&error))?;
    let (_, parsed) = parse_x509_certificate(first).map_err(|error| strange(&error))?;
    let validity = parsed.validity();
    let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let is_authority = parsed.is_ca();
    Ok((chain, WallTime::from_seconds(from), WallTime::from_seconds(until), is_authority))
}

fn secret(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Problem> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        pem::Error::NoItemsFound if !is_encrypted(bytes) => {
            let certificates = <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes)
                .any(|section| matches!(section, Ok((SectionKind::Certificate, _))));
            Problem::NoKey(if certificates { ", but certificates" } else { hint(bytes) })
        }
        error => not_pem(bytes, error),
    })
}

fn not_pem(bytes: &[u8], error: pem::Error) -> Problem {
    if is_encrypted(bytes) { Problem::EncryptedKey } else { Problem::NotPem(error) }
}

/// Whether there is an encrypted key, of PKCS#8 or of the older form (RFC 1421 §4.6.1.1), whose fields look like a
/// broken key.
fn is_encrypted(bytes: &[u8]) -> bool {
    let marks: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];
    marks.iter().any(|mark| memchr::memmem::find(bytes, mark).is_some())
}

/// A hint about a file without PEM sections.
fn hint(bytes: &[u8]) -> &'static str {
    match bytes.first() {
        None => ": it is empty",
        // The tag of a SEQUENCE, which PEM never starts with.
        Some(0x30) => ": it looks like DER, and PEM is needed",
        Some(0xfe | 0xff) => ": it is UTF-16; save it as UTF-8",
        Some(_) => "",
    }
}

const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Current {
    certificate: ArcSwap<Certificate>,
    problem: Mutex<Option<String>>,
}

impl Current {
    pub(crate) fn until(&self) -> WallTime {
        self.certificate.load().until
    }

    /// Everything that is wrong at `now`: with new files, and that the certificate has ended or ends soon.
    pub(crate) fn findings(&self, now: WallTime) -> Vec<Finding> {
        const WEEK: i64 = 7 * 86_400;
        let until = self.until();
        let soon = (0..WEEK).contains(&until.seconds_since(now)).then(|| format!("the certificate ends at {until}"));
        let ends = soon.or_else(|| self.certificate.load().concern(now));
        let files = self.problem.lock().clone().map(|text| (Kind::CertificateFiles, text));
        let found = files.into_iter().chain(ends.map(|text| (Kind::CertificateEnds, text)));
        found.map(|(kind, text)| Finding::new(kind, format!("HTTPS: {text}"))).collect()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certificate.load().key.clone())
    }
}

pub(crate) struct Watched {
    renewal: Arc<Mutex<Renewal>>,
    _thread: Periodic,
}

impl Watched {
    /// Looks at the files now, or at other ones from now on; whether there is a new certificate. It blocks.
    pub(crate) fn look(&self, files: Option<Files>) -> bool {
        // Held while the files are read, so that the thread and an operator look in turns. Order: this lock, then
        // `problem`.
        let mut renewal = self.renewal.lock();
        if let Some(files) = files {
            renewal.files = files;
        }
        let contents = renewal.files.read();
        renewal.look(&contents, true)
    }
}

/// Keeps the served certificate up to date with the files.
pub(crate) struct Renewal {
    files: Files,
    provider: Arc<CryptoProvider>,
    current: Arc<Current>,
    /// The contents that were last accepted or reported.
    known: blake3::Hash,
    /// Contents that were unusable at the first look.
    doubtful: Option<blake3::Hash>,
}

impl Renewal {
    pub(crate) fn new(files: Files, provider: Arc<CryptoProvider>) -> Result<Self, Vec<Unusable>> {
        let contents = files.read();
        let certificate = files.judge(&contents, &provider)?;
        let current = Current { certificate: ArcSwap::from_pointee(certificate), problem: Mutex::default() };
        let known = contents.fingerprint();
        Ok(Self { files, provider, current: Arc::new(current), known, doubtful: None })
    }

    /// The certificate for new connections.
    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.clone()
    }

    /// Starts looking, for as long as [`Watched`] lives. A thread of its own, because reading files blocks.
    pub(crate) fn start(self) -> io::Result<Watched> {
        let renewal = Arc::new(Mutex::new(self));
        let (looked, mut is_first) = (renewal.clone(), true);
        let work = move || {
            // The files have just been read, and the thread works before its first pause.
            if !std::mem::take(&mut is_first) {
                let mut renewal = looked.lock();
                let contents = renewal.files.read();
                renewal.look(&contents, false);
            }
        };
        Ok(Watched { renewal, _thread: Periodic::start("renewal", INTERVAL, work)? })
    }

    /// Takes new and usable contents; whether there are any. `asked`: an operator waits for the verdict.
    fn look(&mut self, contents: &Contents, asked: bool) -> bool {
        let seen = contents.fingerprint();
        let complaint = self.current.problem.lock().is_some();
        if seen == self.known && !(asked && complaint) {
            self.doubtful = None;
            if asked {
                tracing::info!(until = %self.current.until(), "the certificate files have not changed");
            }
            return false;
        }
        let errors = match self.files.judge(contents, &self.provider) {
            Ok(certificate) => {
                let until = certificate.until;
                self.current.certificate.store(Arc::new(certificate));
                *self.current.problem.lock() = None;
                tracing::info!(%until, "the new certificate is in use");
                (self.known, self.doubtful) = (seen, None);
                return true;
            }
            Err(errors) => errors,
        };
        if !asked && self.doubtful != Some(seen) {
            // Perhaps one of the two files is still being replaced.
            self.doubtful = Some(seen);
            return false;
        }
        let errors: Vec<String> = errors.iter().map(|error| format!("{}: {error}", error.key)).collect();
        let told = format!("the new certificate cannot be used; the old one stays: {}", errors.join("; "));
        // Each of several within a minute, which are one finding.
        tracing::warn!(finding = Kind::CertificateFiles.name(), todo = Kind::CertificateFiles.todo(), "HTTPS: {told}");
        *self.current.problem.lock() = Some(told);
        (self.known, self.doubtful) = (seen, None);
        false
    }
}
