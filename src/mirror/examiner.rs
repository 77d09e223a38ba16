//! Finds out whether we may answer for the origin: it asks an example of each shape of a query, and two of each open case
//! ([`mod@open`]), and compares.
//!
//! We answer for the origin what it answered an example of as we would; what it has not been asked yet we answer as
//! documented. The shape of a query is the set of its filters and the form of its time. An example is made of the data so
//! that each of its filters excludes something ([`mod@example`]). In an answer the rows come first: one that is not as
//! ours says that a copy is too old, and the example is asked again. If all rows are ours, listings, order and total
//! decide ([`mod@compare`]). A difference counts if it comes again and the mirror was confirmed for a later instant with the
//! same data, so that no edit explains it. From the first difference on, the shape is read through, and so is every shape
//! that has its filters and more, until it is confirmed itself. An open case is read through until two examples with
//! different values allow the same one of five meanings; by that it is answered. The verdicts ([`crate::snapshot::verdicts`]) are the
//! origin's, so they outlive snapshots and travel in bundles. All shapes are asked after the first list, before the
//! details; then a few examples an hour ([`mod@schedule`]). Callers: [`crate::app`] runs it, [`crate::audit`] compares.

mod answer;
pub(crate) mod compare;
mod example;
pub(crate) mod instants;
mod open;
mod schedule;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;

use crate::api::form::FormSeen;
use crate::api::query::{ListQuery, Parameters};
use crate::api::shape::Shape;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::Monotonic;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::meta::Certificate;
use crate::snapshot::pointer::Snapshot;
use crate::snapshot::verdicts::table::{Heard, Moment, State};
use crate::store::VERDICTS;
use crate::tasks::{Aborted, blocking};
use crate::upstream::client::Asker;
use crate::upstream::window::Class;

use super::MirrorContext;
use answer::Answered;
use compare::{Agreement, agreement};
use example::Example;
use open::OpenCase;
use schedule::{AT_ONCE, Step};

/// The longest sleep: the wall clock may jump meanwhile, and something may be published.
const TICK: Duration = Duration::from_secs(5);

/// How often is looked whether there is a list.
const A_SECOND: Duration = Duration::from_secs(1);

/// The shortest pause between two passes because of rows that differ.
pub(crate) const PASS_PAUSE: Duration = Duration::from_secs(600);

/// How much later an instant of the origin must be to be surely later, in milliseconds: `Date` and `Age` count whole
/// seconds, so that each of two instants is known to a second only.
const SURELY_LATER: i64 = 2000;

/// After so many failures in a row the origin is taken to be down.
pub(crate) const MOST_FAILURES: u32 = 3;

/// The examiner.
pub struct Examiner {
    shared: MirrorContext,
    /// When an example of the hour was asked, in milliseconds of our clock.
    last_ms: i64,
    /// When a row that differed asked for a whole pass.
    passed: Option<Monotonic>,
}

/// What is asked.
enum Asked {
    Query(Example),
    Open(OpenCase),
}

/// An answer that was compared.
struct Compared {
    shape: Shape,
    path: String,
    heard: Heard,
    /// The data that it was compared with.
    of: SnapshotId,
    /// For which instant of the origin's time it is sure.
    at_ms: i64,
    /// Whether it came without `Age`, so that it may be an old copy of a CDN.
    may_be_old: bool,
    /// What it shows of the form of lists.
    form: FormSeen,
}

impl Examiner {
    /// An examiner of the origin.
    pub fn new(shared: MirrorContext) -> Self {
        let last_ms = shared.clock.now_wall().as_millis();
        Self { shared, last_ms, passed: None }
    }

    /// Asks until the process ends.
    pub async fn run(mut self) {
        let base = self.shared.copies.client.base().to_string();
        self.shared.verdicts.change(|table| table.begin(&base));
        loop {
            let wait = self.step().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the origin could not be examined");
                Some(TICK)
            });
            if let Some(wait) = wait {
                let _ = tokio::time::timeout(wait.min(TICK), self.shared.verdicts.wait()).await;
            }
        }
    }

    /// Does what is due; returns how long nothing is.
    async fn step(&mut self) -> Result<Option<Duration>, Aborted> {
        let per_hour = self.shared.settings.load().mirror.examine_per_hour;
        self.shared.verdicts.ignore(per_hour == 0);
        let Some(newest) = self.shared.newest.get().filter(|_| per_hour > 0) else { return Ok(Some(A_SECOND)) };
        // A better list follows soon, the origin has another list by now, or it answers nobody.
        let picture = self.shared.copies.client.status().picture();
        let is_failing = picture.health.failures() >= MOST_FAILURES;
        if newest.meta.certificate == Certificate::Provisional || picture.held.is_some() || is_failing {
            return Ok(Some(A_SECOND));
        }
        let now_ms = self.shared.clock.now_wall().as_millis();
        match schedule::next(
            &self.shared.verdicts.table(),
            &self.shared.verdicts.noted(),
            now_ms,
            self.last_ms,
            per_hour,
        ) {
            Step::Ask { shapes, first } => {
                if !first {
                    self.last_ms = now_ms;
                }
                self.ask(&newest, shapes, first).await?;
                Ok(None)
            }
            Step::Opened => {
                self.shared.verdicts.change(|table| table.is_opened = true);
                self.keep().await?;
                Ok(None)
            }
            Step::Wait(wait) => Ok(Some(wait)),
        }
    }

    /// Asks an example of each shape, and takes in what the answers say.
    async fn ask(&mut self, newest: &Arc<Snapshot>, shapes: Vec<Shape>, first: bool) -> Result<(), Aborted> {
        let table = self.shared.verdicts.table();
        let mut examples = Vec::new();
        for shape in shapes {
            let (entry, of) = (table.entry(shape), newest.clone());
            let noted = if first { None } else { self.shared.verdicts.take_noted(shape) };
            let make = move || {
                if let Some(row) = shape.row() {
                    return OpenCase::of(&of.dataset, row, entry.turn, &of.meta.form).map(Asked::Open);
                }
                let again = entry.again.as_deref().and_then(query_of);
                let again = again.map(|query| Example::again(&of.dataset, query));
                let noted = || Example::noted(&of.dataset, noted?);
                again.or_else(noted).or_else(|| Example::of(&of.dataset, shape, entry.turn)).map(Asked::Query)
            };
            if let Some(example) = blocking(move || Ok::<_, Aborted>(make())).await? {
                examples.push((shape, example));
            } else {
                let (turns, now_ms) = (example::turns(shape), self.shared.clock.now_wall().as_millis());
                self.shared.verdicts.change(|table| table.pass_over(shape, turns, now_ms));
            }
        }
        // Kept before they are sent: whatever happens then, they count.
        self.shared.verdicts.change(|table| table.asked = table.asked.saturating_add(examples.len() as u32));
        self.keep().await?;
        let class = if first { Class::Crawl } else { Class::Background };
        let work = first.then(|| self.shared.copies.client.budget().crawl_work());
        let asked = futures_util::stream::iter(examples).map(|(shape, asked)| self.compared(shape, asked, class));
        let compared: Vec<Compared> = asked.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
        drop(work);
        let is_repeated = |one: &&Compared| {
            matches!(one.heard, Heard::Differs { .. }) && table.entry(one.shape).state == State::Suspected
        };
        let mut form = newest.meta.form.clone();
        let has_form = compared.iter().filter(|one| form.learn(&one.form)).map(|one| one.at_ms).max();
        let still_since = compared.iter().filter(is_repeated).map(|one| one.at_ms).max().max(has_form);
        let still = match still_since {
            Some(at_ms) if confirmed_since(&self.shared, at_ms).await => self.shared.newest.get(),
            _ => None,
        };
        // What is held back is another list.
        let still = still.filter(|_| self.shared.copies.client.status().picture().held.is_none());
        // Where a refresh finds the same data, the field differs under a filter, and not since a moment ago.
        if has_form.is_some() && still.as_ref().is_some_and(|still| still.dataset.id == newest.dataset.id) {
            self.shared.commands.form(form.clone());
            // What comes next is learned beside it.
            let is_taken = async || {
                while self.shared.newest.get().is_some_and(|newest| newest.meta.form != form) {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            let _ = tokio::time::timeout(TICK, is_taken()).await;
        }
        for one in compared {
            let is_still = still.as_ref().is_some_and(|still| still.dataset.id == one.of);
            self.hear(one, is_still);
        }
        self.keep().await
    }

    /// Asks an example, and compares the answer with the newest snapshot.
    async fn compared(&self, shape: Shape, asked: Asked, class: Class) -> Option<Compared> {
        let path = match &asked {
            Asked::Query(example) => example.query.path_and_query(),
            Asked::Open(case) => case.path.clone(),
        };
        let Some(answered) = answer::ask(&self.shared, &path, Asker::mirror(class)).await else {
            let (of, at_ms, form) = (self.shared.newest.get()?.dataset.id.clone(), i64::MIN, FormSeen::default());
            return Some(Compared { shape, path, heard: Heard::Nothing, of, at_ms, may_be_old: false, form });
        };
        let (at_ms, may_be_old, of) = (answered.at_ms, answered.may_be_old, answered.newest.dataset.id.clone());
        let volatile = self.shared.copies.volatile();
        let compare = move || match asked {
            Asked::Query(example) => of_query(example, &answered, &volatile),
            Asked::Open(case) => (of_case(&case, &answered), FormSeen::default()),
        };
        let (heard, form) = blocking(move || Ok::<_, Aborted>(compare())).await.ok()?;
        // Its listings are what the mirror copies.
        let heard = if shape == Shape::LIST && matches!(heard, Heard::Differs { .. }) { Heard::Nothing } else { heard };
        tracing::debug!(path, ?heard, "asked an example");
        Some(Compared { shape, path, heard, of, at_ms, may_be_old, form })
    }

    /// Takes in what an answer says.
    fn hear(&mut self, one: Compared, is_still: bool) {
        let Compared { shape, path, heard, may_be_old, .. } = one;
        let copies = &self.shared.copies;
        let apart = copies.lag().max(if may_be_old { copies.cache_ttl() } else { Duration::ZERO });
        let apart_ms = i64::try_from(apart.as_millis()).unwrap_or(i64::MAX);
        let at = Moment { now_ms: self.shared.clock.now_wall().as_millis(), apart_ms, is_still };
        let (before, after) = self.shared.verdicts.change(|table| {
            let before = table.entry(shape);
            table.heard(shape, &path, heard.clone(), at);
            (before, table.entry(shape))
        });
        let (shape, row) = (shape.name(), shape.row());
        match (before.state, after.state) {
            (before, after) if before == after => {}
            (_, State::Disproved) if row.is_some() => {
                tracing::info!(shape, path, "an open case has another meaning at the origin: it is read through");
            }
            (_, State::Disproved) => {
                tracing::warn!(
                    shape,
                    path,
                    "the origin answers such queries otherwise: they are read through from now on"
                );
            }
            (_, State::Confirmed) if row.is_some() => {
                tracing::debug!(shape, "the meaning of an open case is found");
            }
            (State::Disproved, _) => tracing::info!(shape, "the origin answers such queries as we do again"),
            (_, State::Suspected) => {
                tracing::info!(shape, path, "the origin answered an example otherwise; it is asked again");
            }
            _ => {}
        }
        if heard == Heard::Aged {
            let now = self.shared.clock.now_mono();
            // What a refresh does not show, a pass does.
            if after.is_aged_again() && self.passed.is_none_or(|last| now.since(last) >= PASS_PAUSE) {
                self.passed = Some(now);
                self.shared.commands.pass();
            } else {
                self.shared.commands.refresh();
            }
        }
    }

    async fn keep(&self) -> Result<(), Aborted> {
        let (store, table) = (self.shared.store.clone(), self.shared.verdicts.table());
        if let Err(error) = blocking(move || store.put_json(VERDICTS, &table)).await {
            tracing::warn!(%error, "what the origin answers could not be stored");
        }
        Ok(())
    }
}

/// An example of a set of filters; `None`: the data has none.
pub(crate) fn example_of(dataset: &Dataset, shape: Shape, turn: u16) -> Option<ListQuery> {
    Some(Example::of(dataset, shape, turn)?.query)
}

/// What the answer to a query says of its shape, and of the form of lists.
fn of_query(example: Example, answered: &Answered, volatile: &VolatileKeys) -> (Heard, FormSeen) {
    let Answered { newest, is_old, .. } = answered;
    let Example { query, tells } = example;
    let differs = |only_order| if *is_old { Heard::Aged } else { Heard::Differs { only_order } };
    let Some((text, page)) = &answered.page else { return (differs(false), FormSeen::default()) };
    let is_bare = !query.path_and_query().contains("per_page=");
    let size = page.per_page.unwrap_or(page.items.len() as u64);
    let size = u16::try_from(size).ok().filter(|size| is_bare && *size > 0);
    let envelope = &newest.dataset.content.envelope;
    let query = ListQuery { per_page: size.unwrap_or(query.per_page), ..query }.within(envelope.largest_page);
    let agreement = agreement(&newest.dataset, &query, page.total, &page.items);
    let is_ours = matches!(agreement, Some(Agreement::Whole | Agreement::ButOrder));
    let form = is_ours.then(|| {
        let is_ignored = |key: &str| volatile.contains(key) || newest.meta.left_out.iter().any(|out| out == key);
        FormSeen::of(text, page, (&query, is_bare), envelope, is_ignored)
    });
    let heard = match agreement {
        Some(Agreement::Whole) => Heard::Equal { tells },
        Some(Agreement::Aged) => Heard::Aged,
        Some(Agreement::ButOrder) => differs(true),
        Some(Agreement::None) => differs(false),
        None => Heard::Nothing,
    };
    (heard, form.unwrap_or_default())
}

/// What the answer to an open case says of its row.
fn of_case(case: &OpenCase, answered: &Answered) -> Heard {
    let Answered { newest, refused, page, is_old, .. } = answered;
    let Some((_, page)) = page.as_ref().filter(|_| refused.is_none()) else {
        return Heard::Means(refused.iter().copied().collect());
    };
    let list = (page.total, &page.items[..], page.per_page);
    match case.allowed(&newest.dataset, newest.meta.form.page_size, list) {
        None => Heard::Aged,
        Some(these) if these.is_empty() && *is_old => Heard::Aged,
        Some(these) => Heard::Means(these),
    }
}

/// The query of a path.
fn query_of(path: &str) -> Option<ListQuery> {
    Some(Parameters::parse(path.split_once('?')?.1).ok()?.list)
}

/// Waits until the mirror is confirmed for a later instant than `at_ms`, or holds a snapshot back; `false`: it took too
/// long.
pub(crate) async fn confirmed_since(shared: &MirrorContext, at_ms: i64) -> bool {
    let cache_ttl = shared.copies.client.stamps().cache_ttl();
    let patience = cache_ttl + Duration::from_secs(60);
    // An old copy of the origin's CDN confirms nothing; then it asks again a little later.
    let again = (cache_ttl / 4).clamp(Duration::from_millis(1100), Duration::from_secs(30));
    let began = shared.clock.now_mono();
    let mut asked: Option<Monotonic> = None;
    loop {
        let is_later = |published: &Snapshot| published.meta.confirmed_ms >= at_ms + SURELY_LATER;
        if shared.newest.get().as_deref().is_some_and(is_later) {
            return true;
        }
        let (now, picture) = (shared.clock.now_mono(), shared.copies.client.status().picture());
        if picture.held.is_some() {
            return true;
        }
        if picture.health.failures() >= MOST_FAILURES || now.since(began) >= patience {
            return false;
        }
        if asked.is_none_or(|last| now.since(last) >= again) {
            asked = Some(now);
            shared.commands.refresh();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests;
