//! Reading every page, batch by batch and round by round, until the pages are one state of the origin.
//!
//! What was fetched is in the store, so that a restart goes on where it was. A round reads what is missing or not proven
//! yet; between rounds the origin's CDN has time to let its old copies go. Callers: [`super`].

mod back;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::api::listing::Summary;
use crate::api::page::Page;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::version::Certificate;

use super::super::copies::{Copies, CopyError};
use super::super::crawl::Fetched;
use super::super::pass::{self, Assembled, Inconsistent, Pass};
use super::super::plan::{Purpose, is_settled};
use super::super::refresh::Shape;
use super::confirm::Candidate;
use super::follow::newly_doubtful;
use super::{Doing, Listed, Mirror, MirrorError, Next, TRIES, blocking};
use crate::upstream::client::AskError;
use crate::upstream::status::{OriginState, Progress};
use crate::upstream::window::Class;

/// Where the start of an unfinished reading is kept in the store.
const STARTED: &str = "pass";

/// Requests before it is looked at what else is to be done.
const BATCH: usize = 12;

/// Copies looked at in one piece when it is found out what is missing.
const GLANCE: u64 = 4096;

/// A reading of every page.
pub(super) struct Reading {
    purpose: Purpose,
    /// What was fetched since then counts, in milliseconds of our clock.
    started_ms: i64,
    /// What is confirmed for an earlier instant is not enough: what is published is known to be newer.
    floor_ms: i64,
    /// What this round has to look at, beside what is missing.
    todo: VecDeque<String>,
    /// What failed in this round, and is tried again after all the rest.
    failed: Vec<String>,
    /// The page at which it is looked on for what is missing.
    cursor: u64,
    /// Pages beyond this one hold nothing, whatever the total says.
    cut: Option<u64>,
    round: u32,
    done: u64,
    /// What was published when it began.
    before: Option<SnapshotId>,
}

impl Reading {
    pub(super) const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// How many pages there are to be read.
    fn pages(&self, copies: &Copies) -> Result<u64, MirrorError> {
        Ok(page_count(copies)?.min(self.cut.unwrap_or(u64::MAX)))
    }

    /// Requests of this reading, as far as known.
    fn of(&self) -> u64 {
        self.done + (self.todo.len() + self.failed.len()) as u64
    }

    fn next_round(&mut self, todo: Vec<String>) {
        (self.todo, self.failed, self.cursor, self.cut) = (todo.into(), Vec::new(), 1, None);
        self.round += 1;
    }
}

impl Mirror {
    /// Begins to read every page; what was fetched since `started_ms` need not be fetched again. Without it, an
    /// unfinished reading goes on where a restart interrupted it, and one that is asked for begins anew.
    pub(super) fn begin_reading(&mut self, purpose: Purpose, started_ms: Option<i64>) -> Result<(), MirrorError> {
        let started_ms = match (started_ms, purpose) {
            (Some(started), _) => started,
            (None, Purpose::Follow) => self.clock.now_wall().as_millis(),
            (None, Purpose::Certify) => self.started(self.asked)?,
        };
        if purpose == Purpose::Certify {
            self.asked = false;
            self.tried = Some(self.clock.now_mono());
        }
        if self.live.load().is_none() {
            self.status.set_state(OriginState::Crawling);
        }
        self.status.set_pass(Some(Progress { done: 0, of: 0 }));
        let floor_ms = self.live.load().as_ref().map_or(i64::MIN, |published| published.meta.confirmed_ms);
        let reading = Reading {
            purpose,
            started_ms,
            floor_ms: floor_ms.min(self.clock.now_wall().as_millis()),
            todo: VecDeque::new(),
            failed: Vec::new(),
            cursor: 1,
            cut: None,
            round: 0,
            done: 0,
            before: self.live.load().as_ref().map(|published| published.dataset.id.clone()),
        };
        self.begin(Doing::Reading(Box::new(reading)), Duration::ZERO);
        Ok(())
    }

    /// When the unfinished reading began; begins one when there is none, or when it shall be `anew`.
    fn started(&self, anew: bool) -> Result<i64, MirrorError> {
        let now = self.clock.now_wall().as_millis();
        let kept = self.store.state(STARTED)?.and_then(|bytes| Some(i64::from_le_bytes(bytes.try_into().ok()?)));
        // What was fetched before the last publication is older than that, and a start in the future is from a clock that
        // was set back since.
        let published = self.live.load().as_ref().map(|live| (live.meta.published_ms, live.meta.certificate));
        let oldest = published.filter(|(_, certificate)| *certificate != Certificate::Provisional);
        let oldest = oldest.map_or(i64::MIN, |(published_ms, _)| published_ms);
        if let Some(started) = kept.filter(|started| !anew && (oldest..=now).contains(started)) {
            return Ok(started);
        }
        self.store.put_state(STARTED, &now.to_le_bytes())?;
        Ok(now)
    }

    /// One batch; when nothing is left to be fetched, the verdict.
    pub(super) async fn read_on(&mut self, reading: &mut Reading) -> Result<Next, MirrorError> {
        let copies = self.crawler.copies();
        let now_ms = self.clock.now_wall().as_millis();
        // The clock may have been set back: what is fetched from now on must count.
        reading.started_ms = reading.started_ms.min(now_ms);
        if reading.todo.is_empty() {
            let missing = missing(copies, reading)?;
            reading.failed.retain(|path| !missing.contains(path));
            reading.todo = missing.into();
            if reading.todo.is_empty() && reading.cursor == u64::MAX {
                if reading.failed.is_empty() {
                    return self.judge(reading).await;
                }
                reading.todo = std::mem::take(&mut reading.failed).into();
            }
        }
        let batch: Vec<String> = reading.todo.drain(..reading.todo.len().min(BATCH)).collect();
        let Fetched { copies: fetched, failed, error } = self.crawler.fetch(batch, Class::Crawl).await;
        reading.done += fetched.len() as u64;
        // What failed waits for all the rest.
        reading.failed.extend(failed);
        if let Some(error) = error.filter(|error| fetched.is_empty() || matches!(error, CopyError::Store(_))) {
            return Err(error.into());
        }
        // A list that claims more than it has is found out before much is asked for.
        let pages: Vec<_> = fetched.iter().filter_map(|copy| Some((pass::page_of(&copy.path)?, copy))).collect();
        if pages.len() == BATCH {
            let mut listings = 0;
            for (_, copy) in &pages {
                listings += parse(copies, &copy.path, &copy.body)?.items.len();
            }
            if listings == 0 {
                reading.cut = pages.iter().map(|(page, _)| page.saturating_sub(1).max(1)).min();
                reading.todo.clear();
                let cut = reading.cut.unwrap_or(u64::MAX);
                reading.failed.retain(|path| pass::page_of(path).is_none_or(|page| page <= cut));
            }
        }
        let of = reading.of();
        let of = if reading.round == 0 { of.max(expected(copies)?) } else { of };
        self.status.set_pass(Some(Progress { done: reading.done, of }));
        Ok(Next::Again(Duration::ZERO))
    }

    /// Everything is fetched: is it one state of the origin, and how sure are we of it?
    async fn judge(&mut self, reading: &mut Reading) -> Result<Next, MirrorError> {
        let copies = self.crawler.copies();
        let pages = reading.pages(copies)?;
        let (store, volatile, live) = (self.store.clone(), self.volatile(), self.live.current());
        let read = blocking(move || {
            let known = |item: &Summary| {
                let known = live.as_ref()?.dataset.summary(item.id)?;
                (known.hash == item.hash).then(|| known.clone())
            };
            back::read(&store, pages, &volatile, known)
        });
        let (pass, assembled) = match read.await? {
            Ok(read) => read,
            Err(lost) => {
                tracing::warn!(path = lost, "a stored copy is missing; it is fetched again");
                reading.cursor = 1;
                return Ok(Next::Again(Duration::ZERO));
            }
        };
        let proven = pass.is_full() && (pass.until_ms() >= reading.floor_ms || self.held_still(&assembled));
        let assembled = match assembled {
            Ok(assembled) => assembled,
            Err(error) => return self.does_not_fit(reading, &pass, error),
        };
        if proven {
            self.publish_assembled(assembled, Certificate::Full, pass.until_ms(), Vec::new()).await?;
            return self.settled(reading);
        }
        let mut unproven = pass.unproven();
        if unproven.is_empty() {
            unproven = pass::paths(pages).collect();
        }
        if reading.purpose == Purpose::Follow {
            let Assembled { content, left_out, volatile_values } = assembled;
            let dataset = Arc::new(self.index(content).await?);
            if let Some(reason) = self.is_suspect(&dataset).filter(|_| reading.round < TRIES) {
                // Pages of different instants can add up by chance; only proof helps then.
                tracing::debug!(reason, "every page is read again");
                reading.next_round(unproven);
                return Ok(Next::Again(self.crawler.lag()));
            }
            let listed = Listed { dataset, learned: self.learned, left_out, volatile_values };
            let candidate = Candidate::read(listed, pass.until_ms());
            return Ok(Next::Instead(Doing::Confirming(Box::new(candidate)), self.until_proof()?));
        }
        let serves_settled = self.live.load().as_ref().is_some_and(|now| is_settled(now.meta.certificate));
        if reading.round >= TRIES {
            if !serves_settled || self.is_news(&assembled) {
                let open = vec!["the list changed during every closing pass".to_owned()];
                self.publish_assembled(assembled, Certificate::BestEffort, pass.until_ms(), open).await?;
            }
            return self.settled(reading);
        }
        // What is known to be newer is not replaced by what is merely consistent.
        if !serves_settled && (pass.until_ms() >= reading.floor_ms || !self.is_news(&assembled)) {
            self.publish_assembled(assembled, Certificate::Provisional, pass.until_ms(), Vec::new()).await?;
        }
        reading.next_round(unproven);
        self.status.set_pass(Some(Progress { done: reading.done, of: reading.of() }));
        Ok(Next::Again(self.crawler.lag()))
    }

    /// Why what was read may be of more than one instant, although it adds up.
    fn is_suspect(&self, dataset: &Dataset) -> Option<String> {
        if self.shape == Shape::None {
            return Some("the origin does not answer the probe".to_owned());
        }
        if self.crawler.copies().saw_aged() {
            return Some("the origin's CDN returns old copies".to_owned());
        }
        let served = self.live.current()?;
        newly_doubtful(&served.dataset, dataset).map(|slug| format!("the count of {slug} disagrees"))
    }

    /// Whether what was read is what is published: then an older confirmation takes nothing back.
    fn held_still(&self, assembled: &Result<Assembled, Inconsistent>) -> bool {
        let live = self.live.load();
        let (Some(live), Ok(assembled)) = (live.as_ref(), assembled) else { return false };
        live.dataset.id == assembled.content.id()
    }

    /// Whether what was read is other than what is published, so that publishing it says something.
    fn is_news(&self, assembled: &Assembled) -> bool {
        self.live.load().as_ref().is_none_or(|live| live.dataset.id != assembled.content.id())
    }

    /// The pages are no state of the origin: the list moved while it was read.
    fn does_not_fit(&mut self, reading: &mut Reading, pass: &Pass, error: Inconsistent) -> Result<Next, MirrorError> {
        tracing::warn!(%error, round = reading.round, "the list changed while it was read; reading it again");
        let mut again = pass.unproven();
        if again.is_empty() || reading.round >= TRIES {
            // Each copy fits one instant, and still they do not fit together: all of it again.
            again = Vec::new();
            reading.started_ms = self.clock.now_wall().as_millis();
            if reading.purpose == Purpose::Certify {
                self.store.put_state(STARTED, &reading.started_ms.to_le_bytes())?;
            }
        }
        if reading.round >= TRIES {
            (reading.round, reading.done) = (0, 0);
            reading.next_round(again);
            return Err(error.into());
        }
        reading.next_round(again);
        // What is looked at again must not be what was just looked at.
        if reading.todo.is_empty() {
            reading.started_ms = reading.started_ms.max(self.clock.now_wall().as_millis());
        }
        Ok(Next::Again(self.crawler.lag()))
    }

    fn settled(&mut self, reading: &Reading) -> Result<Next, MirrorError> {
        let now = self.live.load().as_ref().map(|published| published.dataset.id.clone());
        self.status.set_state(if now == reading.before { OriginState::Unchanged } else { OriginState::Changed });
        self.unsettled = 0;
        self.status.passed();
        self.store.remove_state(STARTED)?;
        self.looked();
        Ok(Next::Done)
    }
}

/// The next paths that were not fetched since the reading began: the first page alone, then the others and the
/// taxonomies, some at a time. The cursor stands at its end when nothing is missing.
fn missing(copies: &Copies, reading: &mut Reading) -> Result<Vec<String>, MirrorError> {
    let mut missing = Vec::new();
    if reading.cursor == 1 {
        let first = pass::page_path(1);
        if !copies.is_recent(&first, reading.started_ms)? {
            return Ok(vec![first]);
        }
    }
    let pages = reading.pages(copies)?;
    let end = reading.cursor.saturating_add(GLANCE);
    while reading.cursor <= pages && reading.cursor < end && missing.len() < BATCH {
        let path = pass::page_path(reading.cursor);
        if !copies.is_recent(&path, reading.started_ms)? {
            missing.push(path);
        }
        reading.cursor += 1;
    }
    if reading.cursor > pages && missing.is_empty() {
        for kind in TaxonomyKind::ALL {
            if !copies.is_recent(kind.path(), reading.started_ms)? {
                missing.push(kind.path().to_owned());
            }
        }
        if missing.is_empty() {
            reading.cursor = u64::MAX;
        }
    }
    Ok(missing)
}

fn parse(copies: &Copies, path: &str, body: &Bytes) -> Result<Page, MirrorError> {
    let page = Page::parse(body, &copies.volatile());
    Ok(page.map_err(|error| CopyError::from(AskError::nonsense(path, error)))?)
}

/// How many pages there are, by the first one.
fn page_count(copies: &Copies) -> Result<u64, MirrorError> {
    let first = pass::page_path(1);
    let Some((_, body)) = copies.span(&first)? else { return Ok(1) };
    let total = parse(copies, &first, &body)?.total;
    let pages = pass::pages(total);
    if pages > pass::MOST_PAGES {
        // Stored by an older version: without it the page is asked for again.
        copies.forget(&first)?;
        let absurd = AskError::nonsense(&first, format!("a total of {total} listings"));
        return Err(CopyError::from(absurd).into());
    }
    Ok(pages)
}

/// Requests of a first round, as far as known.
fn expected(copies: &Copies) -> Result<u64, MirrorError> {
    Ok(page_count(copies)? + TaxonomyKind::ALL.len() as u64)
}
