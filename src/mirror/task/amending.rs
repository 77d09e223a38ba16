//! Amends a list by the answers of a refresh, instead of reading every page.
//!
//! The result is a candidate: it is published once the origin confirms it. Callers: [`super::refresh`].

use std::collections::HashSet;
use std::sync::Arc;

use crate::api::listing::Summary;
use crate::api::page::Page;
use crate::api::render::VolatileValues;
use crate::snapshot::content::Content;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::pointer::Snapshot;
use crate::upstream::window::Class;

use super::super::amend::{Changes, GiveUp, Hunt, Wanted};
use super::super::copies::CopyError;
use super::super::crawl::Crawler;
use super::super::order::Rules;
use super::super::pass;
use super::super::refresh::{self, Answers, Probe};
use super::MirrorError;
use super::candidate::{Candidate, IndexedList};
use super::known_order::KnownOrder;
use super::term_evidence::TermEvidence;

/// A list of no more pages is read whole: that proves more and costs no more.
const FEW_PAGES: u64 = 3;

/// Pages of the probe's answer that are read.
const MOST_PROBED: u64 = 5;

/// Pages that are read to check where changed listings stand.
const CHECKED: usize = 3;

/// What is amended: the newest snapshot, or a candidate that has changed again.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) dataset: &'a Arc<Dataset>,
    /// Envelope fields that differ between pages.
    pub(super) left_out: &'a [String],
    /// The last values of volatile fields.
    pub(super) volatile_values: &'a VolatileValues,
}

/// Why a list is not amended.
pub(super) enum NotAmended {
    /// Every page has to be read instead; why, for the log.
    Doubtful(String),
    /// The step has failed.
    Failed(MirrorError),
}

impl From<GiveUp> for NotAmended {
    fn from(reason: GiveUp) -> Self {
        doubtful(reason.to_string())
    }
}

impl From<MirrorError> for NotAmended {
    fn from(error: MirrorError) -> Self {
        Self::Failed(error)
    }
}

impl From<CopyError> for NotAmended {
    fn from(error: CopyError) -> Self {
        Self::Failed(error.into())
    }
}

fn doubtful(reason: impl Into<String>) -> NotAmended {
    NotAmended::Doubtful(reason.into())
}

/// Inputs to amend.
pub(super) struct Amending<'a> {
    pub(super) crawler: &'a Crawler,
    pub(super) order: &'a mut KnownOrder,
    pub(super) terms: &'a TermEvidence,
    pub(super) newest: Option<Arc<Snapshot>>,
}

impl Amending<'_> {
    /// The base with its changes placed.
    pub(super) async fn amend(self, base: Base<'_>, answers: &Answers) -> Result<Candidate, NotAmended> {
        let volatile = self.crawler.copies().volatile();
        let known = pass::pages(base.dataset.len() as u64);
        let Some((probe, copy)) = &answers.probe else { return Err(doubtful("nothing was probed")) };
        if known <= FEW_PAGES {
            return Err(doubtful("the list is short"));
        }
        if !refresh::envelope_agrees(&answers.first, &base.dataset.content, &volatile) {
            return Err(doubtful("the envelope has changed"));
        }
        let (Ok(first), Ok(mut probed)) =
            (Page::parse(&answers.first.body, &volatile), Page::parse(&copy.body, &volatile))
        else {
            return Err(doubtful("an answer cannot be read"));
        };
        let probe_pages = pass::pages(probed.total);
        if probe_pages > MOST_PROBED.min(known / 4 + 1) {
            return Err(doubtful(format!("{} listings were modified", probed.total)));
        }
        for page in 2..=probe_pages {
            let path = probe.query.with_page(page).path_and_query();
            let more = page_of(self.crawler, &path, probed.total).await?;
            probed.items.extend(more.ok_or_else(|| doubtful("the probe's answer changed"))?);
        }
        let changes = Changes::of(base.dataset, probed.items.iter().chain(&first.items), first.total)?;
        let rules = self.order.rules(base.dataset).await?;
        let summaries = hunt(self.crawler, base.dataset, &changes, &rules, &first).await?;
        let mut volatile_values = base.volatile_values.clone();
        let bodies = answers.taxonomies.each_ref().map(|copy| copy.body.clone());
        let taxonomies = pass::blanked(&bodies, &volatile, &mut volatile_values);
        let content = Content { envelope: base.dataset.content.envelope.clone(), taxonomies, summaries };
        let list = self.terms.index(content, self.newest).await?;
        // Counts that disagree now reveal a change that no answer shows.
        if let Some(slug) = newly_doubtful(base.dataset, &list.dataset) {
            return Err(doubtful(format!("the count of {slug} disagrees")));
        }
        let agrees = list.dataset.find_known(&probe.query).is_ok_and(|found| found.total == probed.total)
            && selects(&list.dataset, probe, &probed.items);
        if !agrees {
            return Err(doubtful("the probe's answer does not follow from the amended list"));
        }
        let placed_by: Vec<String> = rules.texts().collect();
        // The rules found all places, and a sequence still obeys them after deletions: nothing to learn.
        self.order.explains(list.dataset.id.clone(), rules);
        tracing::debug!(
            changed = changes.changed.len(),
            gone = changes.gone,
            rules = placed_by.join(", "),
            "the list is updated"
        );
        let indexed = IndexedList { list, left_out: base.left_out.to_vec(), volatile_values };
        Ok(Candidate::amended(indexed, placed_by, answers.until_ms()))
    }
}

/// Finds deleted listings, and checks for some changed ones that they stand where placed.
async fn hunt(
    crawler: &Crawler,
    base: &Dataset,
    changes: &Changes,
    rules: &Rules,
    first: &Page,
) -> Result<Vec<Summary>, NotAmended> {
    let mut hunt = Hunt::begin(&base.content.summaries, changes, rules)?;
    hunt.see(1, &first.items);
    let mut checked = false;
    loop {
        let pages = match hunt.question()? {
            Wanted::Page(page) => vec![page],
            Wanted::Nothing if !checked => {
                checked = true;
                hunt.pages_of(&changes.changed, CHECKED)
            }
            Wanted::Nothing => return Ok(hunt.into_sequence()),
        };
        for page in pages {
            let items = page_of(crawler, &pass::page_path(page), first.total).await?;
            hunt.see(page, &items.ok_or_else(|| doubtful(format!("page {page} changed")))?);
        }
    }
}

/// The listings of a page, if it states this total.
async fn page_of(crawler: &Crawler, path: &str, total: u64) -> Result<Option<Vec<Summary>>, CopyError> {
    let copies = crawler.fetch_all(vec![path.to_owned()], Class::Crawl).await?;
    let page = copies.first().and_then(|copy| Page::parse(&copy.body, &crawler.copies().volatile()).ok());
    Ok(page.filter(|page| page.total == total).map(|page| page.items))
}

/// Whether these listings are what the probe selects from the data set, in any order.
fn selects(dataset: &Dataset, probe: &Probe, probed: &[Summary]) -> bool {
    let mut own = Vec::with_capacity(probed.len());
    for page in 1.. {
        let Ok(found) = dataset.find_known(&probe.query.with_page(page)) else { return false };
        if found.items.is_empty() || own.len() > probed.len() {
            break;
        }
        own.extend(found.items);
    }
    refresh::same_set(probed, &own)
}

/// A term that names and counts no longer prove.
pub(super) fn newly_doubtful(before: &Dataset, after: &Dataset) -> Option<String> {
    let was: HashSet<_> = before.doubtful().iter().map(|(kind, slug, _)| (*kind, slug.as_str())).collect();
    let news = after.doubtful().iter().find(|(kind, slug, _)| {
        !was.contains(&(*kind, slug.as_str()))
            && before.membership(*kind, slug).is_some_and(|known| known.as_str() == "named")
    });
    news.map(|(_, slug, _)| slug.clone())
}
