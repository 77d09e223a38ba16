//! The mirror's life: first crawl, closing pass, refreshes, sweeps, publication.
//!
//! One task decides what is published; the details have a worker of their own. Callers: [`crate::app`] runs it.

mod learn;
mod publish;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rand::RngExt;

use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::clock::{Clock, Monotonic};
use crate::snapshot::dataset::{Dataset, DatasetError};
use crate::snapshot::live::{Live, Published};
use crate::snapshot::membership::Evidence;
use crate::snapshot::version::{Certificate, VersionMeta};
use crate::store::{Store, StoreError};

use super::client::AskError;
use super::commands::Commands;
use super::copies::{Change, CopyError};
use super::crawl::{self, Crawler};
use super::pass::{self, Inconsistent};
use super::refresh::{Answers, Probe, Shape, Verdict, What};
use super::status::{OriginState, OriginStatus};
use super::window::Class;

/// Where the start of an unfinished pass is kept in the store.
const PASS: &str = "pass";

/// How often something that does not settle is tried.
const TRIES: usize = 3;

/// When things happen.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// The time by which a refresh must have happened.
    pub ttl: Duration,
    /// A snapshot that lost more than this share of the listings is held back.
    pub max_shrink: f64,
    /// Newest versions kept.
    pub keep: usize,
}

/// Why a refresh came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// Something could not be fetched or kept.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The pages did not fit together in any try.
    #[error("no consistent list in {TRIES} tries: {0}")]
    Inconsistent(#[from] Inconsistent),
    /// The content cannot be indexed.
    #[error("the origin's data cannot be used: {0}")]
    Dataset(#[from] DatasetError),
    /// The data directory failed.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
}

impl MirrorError {
    const fn state(&self) -> OriginState {
        match self {
            Self::Copy(CopyError::Ask(error)) if error.is_nonsense() => OriginState::Nonsense,
            Self::Inconsistent(_) | Self::Dataset(_) => OriginState::Nonsense,
            Self::Copy(_) | Self::Store(_) => OriginState::CouldNotBeAsked,
        }
    }
}

/// The mirror.
pub struct Mirror {
    crawler: Crawler,
    store: Arc<Store>,
    live: Live,
    status: OriginStatus,
    volatile: Arc<RwLock<VolatileKeys>>,
    commands: Commands,
    rhythm: Rhythm,
    clock: Clock,
    evidence: Evidence,
    accept: bool,
    shape: Shape,
    /// Whether a whole pass was asked for and has not come about yet.
    whole: bool,
    /// Terms that were asked for, and the snapshot that they were asked for.
    asked: (String, HashSet<(TaxonomyKind, String)>),
    /// When a whole pass last tried to settle.
    tried_to_settle: Option<Monotonic>,
}

impl Mirror {
    /// A mirror over a store; `evidence` is what [`super::terms::load`] read back.
    #[expect(clippy::too_many_arguments, reason = "the composition root names each part once")]
    pub fn new(
        crawler: Crawler,
        store: Arc<Store>,
        live: Live,
        volatile: Arc<RwLock<VolatileKeys>>,
        commands: Commands,
        rhythm: Rhythm,
        clock: Clock,
        evidence: Evidence,
    ) -> Self {
        let status = crawler.copies().client().status().clone();
        Self {
            crawler,
            store,
            live,
            status,
            volatile,
            commands,
            rhythm,
            clock,
            evidence,
            accept: false,
            whole: false,
            asked: Default::default(),
            tried_to_settle: None,
            shape: Shape::default(),
        }
    }

    /// Mirrors, for ever.
    pub async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let asked = self.commands.take();
            self.accept |= asked.accept && self.status.picture().held.is_some();
            let whole = asked.pass || self.whole;
            let result = match self.begin_anew(asked.pass).await {
                Ok(()) => self.step(whole).await,
                Err(error) => Err(error),
            };
            self.whole = whole && result.is_err();
            self.status.set_pass(None);
            match result {
                Ok(state) => {
                    failures = 0;
                    self.status.set_disk(None);
                    self.status.set_state(state);
                    self.status.refreshed(self.clock.now_wall());
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(%error, failures, "the origin could not be mirrored; what is published goes on serving");
                    self.status.set_state(error.state());
                    self.status.error(error.to_string(), self.clock.now_wall());
                    if let MirrorError::Store(error) | MirrorError::Copy(CopyError::Store(error)) = &error {
                        self.status.set_disk(Some(error.to_string()));
                    }
                }
            }
            if failures == 0 {
                self.learn().await;
            }
            let pause = self.pause(failures);
            let _ = tokio::time::timeout(pause, self.commands.wait()).await;
        }
    }

    /// One step: the first crawl, a refresh, or a whole pass.
    async fn step(&mut self, whole: bool) -> Result<OriginState, MirrorError> {
        let state = match self.live.current() {
            None => {
                self.status.set_state(OriginState::Crawling);
                self.crawl().await?;
                OriginState::Changed
            }
            Some(published) if whole || self.accept || self.should_settle(&published.meta) => {
                let before = published.dataset.id.clone();
                self.crawl().await?;
                let changed = self.live.current().is_some_and(|now| now.dataset.id != before);
                if changed { OriginState::Changed } else { OriginState::Unchanged }
            }
            Some(published) => self.refresh(&published).await?,
        };
        Ok(state)
    }

    /// How long to wait for the next refresh: it starts early enough to end before `Age` reaches 0.8 x ttl, and not
    /// sooner than 0.4 x ttl after the last one, however old the copies of the origin's CDN are.
    fn pause(&self, failures: u32) -> Duration {
        if failures > 0 {
            let longest = self.rhythm.ttl.min(Duration::from_secs(60));
            let doubled = Duration::from_millis(500) * 2_u32.saturating_pow(failures.min(8));
            return doubled.min(longest).mul_f64(rand::rng().random_range(0.5..1.0));
        }
        let now = self.clock.now_wall();
        let age = self.live.load().as_ref().map_or(0, |published| now.millis_since(published.confirmed()).max(0));
        let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
        self.rhythm.ttl.mul_f64(0.7).saturating_sub(age).max(self.rhythm.ttl.mul_f64(0.4))
    }

    /// A whole pass, published after its first consistent form and certified by a closing pass. It resumes where a
    /// restart interrupted it.
    async fn crawl(&mut self) -> Result<(), MirrorError> {
        let _work = self.crawler.copies().client().budget().crawl_work();
        self.tried_to_settle = Some(self.clock.now_mono());
        let mut inconsistent = None;
        for attempt in 0..TRIES {
            if attempt > 0 {
                self.renew_pass(inconsistent.is_some()).await?;
            }
            let mut pass = self.crawler.pass(Class::Crawl, Some(self.pass_started()?)).await?;
            let assembled = match pass.assemble(&self.volatile()) {
                Ok(assembled) => assembled,
                Err(error) => {
                    tracing::warn!(%error, "the list moved while it was read; reading it again");
                    inconsistent = Some(error);
                    continue;
                }
            };
            inconsistent = None;
            let full = pass.is_full();
            let keeps_certificate = self.live.current().is_some_and(|published| is_settled(&published.meta));
            if !full && !keeps_certificate {
                self.publish(assembled, Certificate::Provisional, pass.until_ms(), Vec::new()).await?;
            }
            if full || self.crawler.close(&mut pass, Class::Crawl).await? {
                let assembled = pass.assemble(&self.volatile())?;
                self.publish(assembled, Certificate::Full, pass.until_ms(), Vec::new()).await?;
                self.status.passed();
                return self.forget_pass();
            }
        }
        if let Some(error) = inconsistent {
            self.renew_pass(true).await?;
            return Err(error.into());
        }
        self.renew_pass(false).await?;
        let pass = self.crawler.pass(Class::Crawl, Some(self.pass_started()?)).await?;
        let assembled = pass.assemble(&self.volatile())?;
        let open = vec!["the list changed during every closing pass".to_owned()];
        self.publish(assembled, Certificate::BestEffort, pass.until_ms(), open).await?;
        self.status.passed();
        self.forget_pass()
    }

    /// A pass that is asked for looks at everything anew, whatever an unfinished one has seen; the first crawl goes on
    /// where it was.
    async fn begin_anew(&self, asked: bool) -> Result<(), MirrorError> {
        if asked && self.live.load().is_some() { self.renew_pass(false).await } else { Ok(()) }
    }

    /// Begins the pass anew; where the copies did not fit together, after those of the origin's CDN may have expired.
    async fn renew_pass(&self, wait: bool) -> Result<(), MirrorError> {
        if wait {
            tokio::time::sleep(self.crawler.lag()).await;
        }
        let now = self.clock.now_wall().as_millis();
        Ok(self.store.put_state(PASS, &now.to_le_bytes())?)
    }

    /// Whether a whole pass is due because what is served was never settled: at once after a provisional publication,
    /// and after a while where three tries did not settle it.
    fn should_settle(&self, meta: &VersionMeta) -> bool {
        let pause = self.rhythm.ttl.max(self.crawler.cache_ttl());
        match meta.certificate {
            Certificate::Full | Certificate::Incremental => false,
            Certificate::Provisional => true,
            Certificate::BestEffort => {
                self.tried_to_settle.is_none_or(|last| self.clock.now_mono().since(last) >= pause)
            }
        }
    }

    /// When the unfinished first pass began, on our clock; begins one when there is none.
    fn pass_started(&self) -> Result<i64, MirrorError> {
        let kept = self.store.state(PASS)?.and_then(|bytes| Some(i64::from_le_bytes(bytes.try_into().ok()?)));
        if let Some(started) = kept {
            return Ok(started);
        }
        let now = self.clock.now_wall().as_millis();
        self.store.put_state(PASS, &now.to_le_bytes())?;
        Ok(now)
    }

    fn forget_pass(&self) -> Result<(), MirrorError> {
        Ok(self.store.remove_state(PASS)?)
    }

    /// Five conditional requests; a pass over the pages only when they show a change.
    async fn refresh(&mut self, published: &Published) -> Result<OriginState, MirrorError> {
        let started = self.clock.now_wall().as_millis();
        let answers = self.ask(&published.dataset, published.meta.confirmed_ms).await?;
        let verdict = answers.judge(&published.dataset, &self.volatile());
        let Verdict::Changed(what) = verdict else {
            self.confirm(published, answers.until_ms()).await?;
            return Ok(OriginState::Unchanged);
        };
        tracing::info!(what = what.as_str(), "the origin has changed");
        let _work = self.crawler.copies().client().budget().crawl_work();
        let mut resumed = started;
        let mut last = Err(None);
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(self.crawler.lag()).await;
            }
            let pass = self.crawler.pass(Class::Crawl, Some(resumed)).await?;
            resumed = self.clock.now_wall().as_millis();
            let assembled = match pass.assemble(&self.volatile()) {
                Ok(assembled) => assembled,
                Err(error) => {
                    tracing::warn!(%error, "the list moved while it was read; reading it again");
                    last = Err(Some(error));
                    continue;
                }
            };
            let dataset = self.index(assembled.content.clone()).await?;
            let again = self.ask(&dataset, pass.until_ms()).await?;
            let verdict = again.judge(&dataset, &self.volatile());
            if verdict == Verdict::Changed(What::ProbeSelection) {
                // Nothing in the answer is news: it is the question that the origin understands otherwise.
                self.shape = self.shape.next();
                tracing::warn!(shape = ?self.shape, "the origin answers the probe otherwise than expected; probing differently");
            }
            let certificate = if pass.is_full() { Certificate::Full } else { Certificate::Incremental };
            match verdict {
                Verdict::Unchanged => {
                    self.publish(assembled, certificate, again.until_ms(), Vec::new()).await?;
                    return Ok(OriginState::Changed);
                }
                Verdict::Changed(What::ProbeSelection | What::Unprobed) => {
                    self.publish(assembled, certificate, pass.until_ms().min(again.until_ms()), Vec::new()).await?;
                    return Ok(OriginState::Changed);
                }
                Verdict::Changed(_) => last = Ok((pass.until_ms(), assembled)),
            }
        }
        match last {
            Ok((until_ms, assembled)) => {
                let open = vec!["the list changed during every pass of a refresh".to_owned()];
                self.publish(assembled, Certificate::BestEffort, until_ms, open).await?;
                Ok(OriginState::Changed)
            }
            Err(Some(error)) => Err(error.into()),
            Err(None) => Ok(OriginState::Unchanged),
        }
    }

    async fn ask(&self, dataset: &Dataset, confirmed_ms: i64) -> Result<Answers, MirrorError> {
        let probe = Probe::of(dataset, confirmed_ms, self.shape);
        // One request first: nothing more is sent to an origin that does not answer it.
        let mut copies = self.crawler.fetch_all(vec![pass::page_path(1)], Class::Refresh, None).await?;
        let mut paths: Vec<String> = TaxonomyKind::ALL.iter().map(|kind| kind.path().to_owned()).collect();
        paths.extend(probe.as_ref().map(|probe| probe.path.clone()));
        copies.extend(self.crawler.fetch_all(paths, Class::Refresh, None).await?);
        let mut take = |path: &str| {
            let at = copies.iter().position(|copy| copy.path == path);
            at.map(|at| copies.swap_remove(at)).ok_or_else(|| AskError::nonsense(path, "no answer was kept"))
        };
        let probe = match probe {
            Some(probe) => Some((probe.clone(), take(&probe.path).map_err(CopyError::from)?)),
            None => None,
        };
        let first = take(&pass::page_path(1)).map_err(CopyError::from)?;
        if probe.iter().any(|(_, copy)| copy.change == Change::New) {
            tracing::debug!("a new probe: its first answer is not conditional");
        }
        Ok(Answers { probe, first, taxonomies: crawl::in_order(copies)? })
    }

    /// The same data, confirmed for a later instant.
    async fn confirm(&self, published: &Published, until_ms: i64) -> Result<(), MirrorError> {
        // What was held back is no longer what the origin has.
        self.status.set_held(None);
        let mut meta = published.meta.clone();
        meta.confirmed_ms = meta.confirmed_ms.max(until_ms);
        if meta.certificate == Certificate::Full && until_ms > published.meta.confirmed_ms {
            meta.certificate = Certificate::Incremental;
        }
        if meta == published.meta {
            return Ok(());
        }
        let (store, version, kept) = (self.store.clone(), published.version, meta.clone());
        blocking(move || store.update_meta(version, &kept)).await?;
        self.live.swap(published.dataset.clone(), meta, published.version);
        Ok(())
    }

    async fn index(&self, content: crate::snapshot::content::Content) -> Result<Dataset, MirrorError> {
        let evidence = self.evidence.clone();
        blocking(move || Ok(Dataset::build(content, &evidence))).await?.map_err(MirrorError::from)
    }

    fn volatile(&self) -> VolatileKeys {
        self.volatile.read().clone()
    }
}

/// Whether a refresh may build on a snapshot.
const fn is_settled(meta: &VersionMeta) -> bool {
    matches!(meta.certificate, Certificate::Full | Certificate::Incremental)
}

/// Runs something that blocks where that does no harm.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, MirrorError> {
    let joined = tokio::task::spawn_blocking(work).await;
    let joined =
        joined.map_err(|error| StoreError::Io { path: "task".into(), source: std::io::Error::other(error) })?;
    Ok(joined?)
}
