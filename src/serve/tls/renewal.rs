//! The certificate of handshakes, and its renewal: when the files are replaced (by certbot ...), new connections get
//! the new certificate within seconds. A broken new file only shows in the log and in `/status`.
//!
//! Contents are compared, not the times of files, so switched links and copies with old times are found, too.
//! [`super::certificate`] decides what is usable. Callers: [`crate::app`], at the start and at a reload.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::clock::{Clock, WallTime};

use super::certificate::{Certificate, Contents, Files, Unusable};

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

/// A certificate whose files are watched; cheap to clone.
#[derive(Clone)]
pub(crate) struct Watched(Arc<Mutex<Renewal>>);

impl Watched {
    /// Looks at the files now, or at other ones from now on; whether there is a new certificate. It blocks.
    pub(crate) fn look(&self, files: Option<Files>) -> bool {
        let mut renewal = self.0.lock();
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
    ///
    /// # Errors
    /// All problems.
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

    /// Starts looking, for as long as the process lives. A thread of its own, because reading files blocks.
    pub(crate) fn start(self) -> Watched {
        let watched = Watched(Arc::new(Mutex::new(self)));
        let renewal = watched.0.clone();
        let work = move || {
            loop {
                renewal.lock().mind_the_date();
                std::thread::sleep(INTERVAL);
                let mut renewal = renewal.lock();
                let contents = renewal.files.read();
                renewal.look(&contents, false);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("renewal".into()).spawn(work) {
            tracing::error!(%error, "a thread could not be started, so a new certificate is loaded only at the next start");
        }
        watched
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
