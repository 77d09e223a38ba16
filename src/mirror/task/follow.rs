//! Amending the list by what a refresh's answers say, instead of reading every page.
//!
//! What comes of it is a candidate only: it is published when the origin confirms it. Callers: [`super::refresh`].

use std::collections::HashSet;
use std::sync::Arc;

use crate::api::listing::Summary;
use crate::api::page::Page;
use crate::api::render::VolatileValues;
use crate::snapshot::content::Content;
use crate::snapshot::dataset::Dataset;

use super::super::amend::{Changes, Hunt, Next};
use super::super::order::Rules;
use super::super::pass;
use super::super::refresh::{self, Answers, Probe};
use super::confirm::Candidate;
use super::{Listed, Mirror, MirrorError, blocking};
use crate::upstream::window::Class;

/// A list of no more pages is read whole: that proves more and costs no more.
const FEW_PAGES: u64 = 3;

/// Pages of the probe's answer that are read.
const MOST_PROBED: u64 = 5;

/// Pages that are looked at to see whether a changed listing stands where it was placed.
const CHECKED: usize = 3;

/// Why the list is not amended, for the log.
type Reason = String;

/// What is amended.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) dataset: &'a Arc<Dataset>,
    /// Envelope fields that differ between pages.
    pub(super) left_out: &'a [String],
    /// The last values of volatile fields.
    pub(super) volatile_values: &'a VolatileValues,
}

impl Mirror {
    /// The base with what has changed in its place.
    ///
    /// The inner error says why every page has to be read instead.
    pub(super) async fn amend(
        &mut self,
        base: Base<'_>,
        answers: &Answers,
    ) -> Result<Result<Candidate, Reason>, MirrorError> {
        let volatile = self.volatile();
        let known = pass::pages(base.dataset.len() as u64);
        let Some((probe, copy)) = &answers.probe else { return Ok(Err("nothing was probed".to_owned())) };
        if known <= FEW_PAGES {
            return Ok(Err("the list is short".to_owned()));
        }
        if !refresh::envelope_agrees(&answers.first, &base.dataset.content, &volatile) {
            return Ok(Err("the envelope has changed".to_owned()));
        }
        let (Ok(first), Ok(mut probed)) =
            (Page::parse(&answers.first.body, &volatile), Page::parse(&copy.body, &volatile))
        else {
            return Ok(Err("an answer cannot be read".to_owned()));
        };
        let probe_pages = pass::pages(probed.total);
        if probe_pages > MOST_PROBED.min(known / 4 + 1) {
            return Ok(Err(format!("{} listings were modified", probed.total)));
        }
        for page in 2..=probe_pages {
            let path = probe.query.with_page(page).path_and_query();
            let Some(more) = self.page(&path, probed.total).await? else {
                return Ok(Err("the probe's answer changed".to_owned()));
            };
            probed.items.extend(more);
        }
        let changes = match Changes::of(base.dataset, probed.items.iter().chain(&first.items), first.total) {
            Ok(changes) => changes,
            Err(reason) => return Ok(Err(reason.to_string())),
        };
        let rules = self.rules_of(base.dataset).await?;
        let sequence = match self.hunt(base.dataset, &changes, &rules, &first).await? {
            Ok(sequence) => sequence,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut volatile_values = base.volatile_values.clone();
        let bodies = answers.taxonomies.each_ref().map(|copy| copy.body.clone());
        let taxonomies = pass::blanked(&bodies, &volatile, &mut volatile_values);
        let content = Content { envelope: base.dataset.content.envelope.clone(), taxonomies, summaries: sequence };
        let dataset = Arc::new(self.index(content).await?);
        // Counts that no longer agree say that something happened that no answer shows.
        if let Some(slug) = newly_doubtful(base.dataset, &dataset) {
            return Ok(Err(format!("the count of {slug} disagrees")));
        }
        let agrees = dataset.find_known(&probe.query).is_ok_and(|found| found.total == probed.total)
            && selects(&dataset, probe, &probed.items);
        if !agrees {
            return Ok(Err("the probe's answer does not follow from the amended list".to_owned()));
        }
        let placed_by: Vec<String> = rules.texts().collect();
        // Each of them found all places, and what obeys a rule does so without what is gone: nothing is learned anew.
        self.rules = Some((dataset.id.clone(), rules));
        tracing::debug!(
            changed = changes.changed.len(),
            gone = changes.gone,
            rules = placed_by.join(", "),
            "the list is updated"
        );
        let (learned, left_out) = (self.learned, base.left_out.to_vec());
        let listed = Listed { dataset, learned, left_out, volatile_values };
        Ok(Ok(Candidate::amended(listed, placed_by, answers.until_ms())))
    }

    /// The rules that explain an order: learned from all of it, unless what was published by them is amended again.
    async fn rules_of(&mut self, dataset: &Arc<Dataset>) -> Result<Arc<Rules>, MirrorError> {
        if let Some((_, rules)) = self.rules.as_ref().filter(|(id, _)| *id == dataset.id) {
            return Ok(rules.clone());
        }
        let (sequence, disproved) = (dataset.clone(), self.disproved_orders.clone());
        let rules = blocking(move || Ok(Rules::learn(&sequence.content.summaries, &disproved))).await?;
        let rules = Arc::new(rules);
        self.rules = Some((dataset.id.clone(), rules.clone()));
        Ok(rules)
    }

    /// Finds what is gone, and looks whether some of what has changed stands where it was placed.
    async fn hunt(
        &self,
        base: &Dataset,
        changes: &Changes,
        rules: &Rules,
        first: &Page,
    ) -> Result<Result<Vec<Summary>, Reason>, MirrorError> {
        let mut hunt = match Hunt::begin(&base.content.summaries, changes, rules) {
            Ok(hunt) => hunt,
            Err(reason) => return Ok(Err(reason.to_string())),
        };
        hunt.see(1, &first.items);
        let mut checked = false;
        loop {
            let pages = match hunt.question() {
                Ok(Next::Ask(page)) => vec![page],
                Ok(Next::Done) if !checked => {
                    checked = true;
                    hunt.pages_of(&changes.changed, CHECKED)
                }
                Ok(Next::Done) => return Ok(Ok(hunt.into_sequence())),
                Err(reason) => return Ok(Err(reason.to_string())),
            };
            for page in pages {
                let Some(items) = self.page(&pass::page_path(page), first.total).await? else {
                    return Ok(Err(format!("page {page} changed")));
                };
                hunt.see(page, &items);
            }
        }
    }

    /// The listings on a page, if it says that there are so many in all.
    async fn page(&self, path: &str, total: u64) -> Result<Option<Vec<Summary>>, MirrorError> {
        let copies = self.crawler.fetch_all(vec![path.to_owned()], Class::Crawl).await?;
        let page = copies.first().and_then(|copy| Page::parse(&copy.body, &self.volatile()).ok());
        Ok(page.filter(|page| page.total == total).map(|page| page.items))
    }
}

/// Whether these listings are what the probe selects from the data set, in whatever order.
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

/// A term that names and counts proved before and do not prove any more.
pub(super) fn newly_doubtful(before: &Dataset, after: &Dataset) -> Option<String> {
    let was: HashSet<_> = before.doubtful().iter().map(|(kind, slug, _)| (*kind, slug.as_str())).collect();
    let news = after.doubtful().iter().find(|(kind, slug, _)| {
        !was.contains(&(*kind, slug.as_str()))
            && before.membership(*kind, slug).is_some_and(|known| known.as_str() == "named")
    });
    news.map(|(_, slug, _)| slug.clone())
}
