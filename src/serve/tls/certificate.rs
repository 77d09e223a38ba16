//! A certificate chain and its key, read from two PEM files and checked before use, and their renewal: when the files are
//! replaced (by certbot ...), new connections get the new certificate within seconds. A broken new file only shows in the
//! log and in `/status`.
//!
//! Contents are compared, not the times of files, so switched links and copies with old times are found, too. Callers:
//! [`crate::app`], at the start and at a reload; [`crate::cli`] before a start.

use std::io::{self, Read as _};
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

use crate::clock::{Clock, WallTime};
use crate::tasks::threads::Periodic;
use crate::words::remedy;

/// No chain and no key comes near this many bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Where certificate chain and key are.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// The chain, the server's own certificate first.
    pub cert: PathBuf,
    /// The key of the first certificate.
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
    #[error("contains an invalid certificate: {0}")]
    StrangeCertificate(String),
    #[error("contains an unusable private key: {0}")]
    StrangeKey(Error),
    #[error("does not belong to the first certificate in \"{}\"", .0.display())]
    OtherKey(PathBuf),
}

/// A chain and its key, fit to be served.
#[derive(Debug)]
pub(crate) struct Certificate {
    /// The certificate for handshakes.
    pub key: Arc<CertifiedKey>,
    /// From when the first certificate is valid.
    pub from: WallTime,
    /// Until when.
    pub until: WallTime,
}

impl Certificate {
    /// Why clients refuse it at `now`; `None`: they accept it.
    pub(crate) fn concern(&self, now: WallTime) -> Option<String> {
        if now > self.until {
            return Some(format!("the certificate expired at {}: clients refuse it", self.until));
        }
        (now < self.from).then(|| format!("the certificate is not valid before {}: clients refuse it", self.from))
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
    /// Reads and checks both files.
    pub(crate) fn certificate(&self, provider: &CryptoProvider) -> Result<Certificate, Vec<Unusable>> {
        self.judge(&self.read(), provider)
    }

    /// Reads both files.
    pub(crate) fn read(&self) -> Contents {
        Contents { cert: bytes(&self.cert), key: bytes(&self.key) }
    }

    /// Checks the contents.
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
            (Ok((chain, from, until)), Ok(secret)) => {
                let certified = CertifiedKey::new(chain, secret);
                match certified.keys_match() {
                    // Some kinds of keys cannot give their public half.
                    Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                        Ok(Certificate { key: Arc::new(certified), from, until })
                    }
                    Err(_) => Err(vec![key(Problem::OtherKey(self.cert.clone()))]),
                }
            }
            (chain, secret) => Err(chain.err().into_iter().chain(secret.err()).collect()),
        }
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error: std::io::Error| format!("{error}{}", remedy(path, &error)))
}

/// The chain, and from when until when its first certificate is valid.
type Chain = (Vec<CertificateDer<'static>>, WallTime, WallTime);

fn chain(bytes: &[u8]) -> Result<Chain, Problem> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let chain = chain.map_err(Problem::NotPem)?;
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
    Ok((chain, WallTime::from_seconds(from), WallTime::from_seconds(until)))
}

fn secret(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Problem> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        pem::Error::NoItemsFound if is_encrypted(bytes) => {
            Problem::NoKey(" that can be read without a passphrase: store it unencrypted, readable for grandstand only")
        }
        pem::Error::NoItemsFound => {
            let certificates = <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes)
                .any(|section| matches!(section, Ok((SectionKind::Certificate, _))));
            Problem::NoKey(if certificates { ", but certificates" } else { hint(bytes) })
        }
        error => Problem::NotPem(error),
    })
}

fn is_encrypted(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"-----BEGIN ENCRYPTED PRIVATE KEY").is_some()
}

/// A hint about a file without PEM sections.
fn hint(bytes: &[u8]) -> &'static str {
    match bytes.first() {
        None => ": it is empty",
        // The tag of a SEQUENCE, which PEM never starts with.
        Some(0x30) => ": it looks like DER, and PEM is needed",
        Some(_) => "",
    }
}

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(10);

/// The certificate that is served.
#[derive(Debug)]
pub(crate) struct Current {
    certificate: ArcSwap<Certificate>,
    problem: Mutex<Option<String>>,
}

impl Current {
    /// The end of its validity.
    pub(crate) fn until(&self) -> WallTime {
        self.certificate.load().until
    }

    /// The problem at `now`, with the files or the certificate in use.
    pub(crate) fn problem(&self, now: WallTime) -> Option<String> {
        self.problem.lock().clone().or_else(|| self.certificate.load().concern(now))
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certificate.load().key.clone())
    }
}

/// A certificate whose files are watched.
pub(crate) struct Watched {
    renewal: Arc<Mutex<Renewal>>,
    _thread: Periodic,
}

impl Watched {
    /// Looks at the files now, or at other ones from now on; whether there is a new certificate. It blocks.
    pub(crate) fn look(&self, files: Option<Files>) -> bool {
        let mut renewal = self.renewal.lock();
        if let Some(files) = files {
            renewal.files = files;
        }
        let contents = renewal.files.read();
        let look = renewal.look(&contents, true);
        if look == Look::Unchanged {
            tracing::info!(until = %renewal.current.until(), "the certificate files have not changed");
        }
        look == Look::Renewed
    }
}

/// Keeps the served certificate up to date with the files.
pub(crate) struct Renewal {
    files: Files,
    provider: Arc<CryptoProvider>,
    current: Arc<Current>,
    clock: Clock,
    /// The contents that were last accepted or reported.
    known: blake3::Hash,
    /// Contents that were unusable at the first look.
    doubtful: Option<blake3::Hash>,
    warned: bool,
}

/// The result of a look.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Unchanged,
    Renewed,
    /// Perhaps one of the two files is still being replaced.
    Doubtful,
    Broken,
}

impl Renewal {
    /// Reads the files for the first time.
    pub(crate) fn new(files: Files, provider: Arc<CryptoProvider>, clock: Clock) -> Result<Self, Vec<Unusable>> {
        let contents = files.read();
        let certificate = files.judge(&contents, &provider)?;
        let current = Current { certificate: ArcSwap::from_pointee(certificate), problem: Mutex::default() };
        let known = contents.fingerprint();
        // At the start, the caller reports problems.
        let warned = current.problem(clock.now_wall()).is_some();
        Ok(Self { files, provider, current: Arc::new(current), clock, known, doubtful: None, warned })
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
            let mut renewal = looked.lock();
            if !std::mem::take(&mut is_first) {
                let contents = renewal.files.read();
                renewal.look(&contents, false);
            }
            renewal.mind_the_date();
        };
        Ok(Watched { renewal, _thread: Periodic::start("renewal", INTERVAL, work)? })
    }

    /// Takes new and usable contents. `asked`: an operator waits for the verdict.
    fn look(&mut self, contents: &Contents, asked: bool) -> Look {
        let seen = contents.fingerprint();
        let complaint = self.current.problem.lock().is_some();
        if seen == self.known && !(asked && complaint) {
            self.doubtful = None;
            return Look::Unchanged;
        }
        let errors = match self.files.judge(contents, &self.provider) {
            Ok(certificate) => {
                let until = certificate.until;
                self.current.certificate.store(Arc::new(certificate));
                *self.current.problem.lock() = None;
                tracing::info!(%until, "the certificate was renewed");
                (self.known, self.doubtful, self.warned) = (seen, None, false);
                return Look::Renewed;
            }
            Err(errors) => errors,
        };
        if !asked && self.doubtful != Some(seen) {
            self.doubtful = Some(seen);
            return Look::Doubtful;
        }
        let errors: Vec<String> = errors.iter().map(|error| format!("{}: {error}", error.key)).collect();
        let told = format!("the new certificate cannot be used; the old one stays: {}", errors.join("; "));
        *self.current.problem.lock() = Some(told.clone());
        tracing::error!("{told}");
        (self.known, self.doubtful) = (seen, None);
        Look::Broken
    }

    /// Warns once that clients refuse the certificate.
    fn mind_the_date(&mut self) {
        let concern = self.current.certificate.load().concern(self.clock.now_wall());
        if let Some(concern) = &concern
            && !self.warned
        {
            tracing::warn!("{concern}");
        }
        self.warned = concern.is_some();
    }
}
