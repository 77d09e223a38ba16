//! Examiner: finds out whether we may answer for the origin. It asks an example of each shape of a query, and two of each
//! open case ([`mod@open`]), the second beside a filter, and compares.
//!
//! We answer for the origin what it answered an example of as we would; what it has not been asked yet we answer as
//! documented. The shape of a query is the set of its filters and the form of its time. An example is made of the data so
//! that each of its filters excludes something ([`mod@example`]). In an answer the rows come first: one that is not as
//! ours says that a copy is too old, and the example is asked again. If all rows are ours, listings, order and total
//! decide ([`mod@compare`]). A difference counts if it comes again and the mirror was confirmed for a later instant with the
//! same data, so that no edit explains it. From the first difference on, the shape is read through, and so is every shape
//! that has its filters and more, until three examples of it with the page size and the time that differed are as ours. Of the
//! unfiltered list it is every page size but that of the crawl. Where the list of one term differs and that of another one
//! does not, it is the term that is read through, and not the shape. An open case is read through until two examples with
//! different values allow the same one of five meanings; by that it is answered. The verdicts
//! ([`crate::data::snapshot::verdicts`]) are the origin's, so they outlive snapshots and travel in bundles. All shapes
//! are asked after the first list, before the details; then a few examples an hour ([`mod@schedule`]). In every other
//! turn it compares a sample of the ordinary requests; an audit compares many ([`mod@audit`]). Callers:
//! [`crate::server`] runs it, [`crate::server::admin`] asks for audits.

mod answer;
mod asked;
mod audit;
mod compare;
pub(crate) mod difference;
mod example;
pub(crate) mod instants;
mod open;
pub mod report;
mod sample;
mod schedule;
mod terms;
mod times;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;

use crate::api::query::ListQuery;
use crate::api::shape::{Shape, TermName};
use crate::clock::Monotonic;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::meta::Certificate;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::verdicts::table::{Heard, Moment, State, Tried};
use crate::data::store::VERDICTS;
use crate::origin::client::Asker;
use crate::origin::window::Class;
use crate::tasks::{Aborted, blocking};

use super::MirrorContext;
use asked::{Asked, Said};
use example::Example;
use open::OpenCase;
use report::{Audits, Outcome};
use schedule::{AT_ONCE, HOUR_MS, Step};

/// The longest sleep: the wall clock may jump meanwhile, and something may be published.
const TICK: Duration = Duration::from_secs(5);

/// How often is looked whether there is a list.
const A_SECOND: Duration = Duration::from_secs(1);

/// The shortest pause between two passes because of rows that differ.
const PASS_PAUSE: Duration = Duration::from_secs(600);

/// How long a request in the background waits for the budget.
const PATIENCE: Duration = Duration::from_secs(600);

/// How much later an instant of the origin must be to be surely later, in milliseconds: `Date` and `Age` count whole
/// seconds, so that each of two instants is known to a second only.
const SURELY_LATER: i64 = 2000;

/// After so many failures in a row the origin is taken to be down.
const MOST_FAILURES: u32 = 3;

pub struct Examiner {
    shared: MirrorContext,
    audits: Audits,
    /// Whether it asks for nothing but these.
    audits_only: bool,
    /// Counts ordinary samples, from a number at random.
    turn: usize,
    /// When an example of the hour was asked, in milliseconds of our clock.
    last_ms: i64,
    /// When a sample of the hour was compared.
    sampled_ms: i64,
    /// Whether that was a list that shows a change.
    was_change: bool,
    /// When a row that differed asked for a whole pass.
    passed: Option<Monotonic>,
}

/// Why nothing can be asked: no thread is free.
const BUSY: &str = "this server is too busy";

#[derive(Default)]
struct Compared {
    path: String,
    said: Said,
    /// Its status and its text; none where it cannot be read.
    status: Option<u16>,
    text: String,
    /// The data that it was compared with; `None`: there was no answer.
    of: Option<SnapshotId>,
    /// For which instant of the origin's time it is sure.
    at_ms: i64,
    /// Whether it came without `Age`, so that it may be an old copy of a CDN.
    may_be_old: bool,
}

impl Examiner {
    /// An examiner of the origin that makes the audits that are asked for.
    pub fn new(shared: MirrorContext, audits: Audits) -> Self {
        let last_ms = shared.clock.now_wall().as_millis();
        let turn = rand::random_range(0..1 << 20);
        Self { shared, audits, audits_only: false, turn, last_ms, sampled_ms: last_ms, was_change: false, passed: None }
    }

    /// Has it make audits, and nothing else.
    pub(crate) const fn audits_only(&mut self) {
        self.audits_only = true;
    }

    pub async fn run(mut self) {
        let base = self.shared.copies.client.base().to_string();
        self.shared.verdicts.change(|table| table.begin(&base));
        let audits = self.audits.clone();
        let _ended = audits.ended_when_dropped();
        loop {
            let wait = self.step_or_warn().await.unwrap_or_default();
            tokio::select! {
                biased;
                () = audits.wait() => self.audit().await,
                () = tokio::time::sleep(wait.min(TICK)) => {}
            }
        }
    }

    async fn step_or_warn(&mut self) -> Option<Duration> {
        self.step().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the origin could not be examined");
            Some(TICK)
        })
    }

    /// Does what is due; returns how long nothing is.
    async fn step(&mut self) -> Result<Option<Duration>, Aborted> {
        let per_hour = self.shared.settings.load().mirror.examine_per_hour;
        self.shared.verdicts.ignore(per_hour == 0);
        let asks = per_hour > 0 && !self.audits_only;
        let Some(newest) = self.shared.newest.get().filter(|_| asks) else { return Ok(Some(A_SECOND)) };
        // A better list follows soon, the origin has another list by now, or it answers nobody.
        let picture = self.shared.copies.client.status().picture();
        if newest.meta.certificate == Certificate::Provisional || picture.held.is_some() || picture.is_down() {
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
            }
            Step::AskTerm(term) => self.ask_term(&newest, term).await?,
            Step::Opened => {
                self.shared.verdicts.change(|table| table.open(now_ms));
                self.keep().await?;
            }
            Step::Wait(wait) => {
                // Every other request of the hour is one of the ordinary ones.
                let gap_ms = 2 * HOUR_MS / i64::from(per_hour);
                let sample_ms = self.sampled_ms.min(now_ms) + gap_ms - now_ms;
                if sample_ms > 0 {
                    return Ok(Some(wait.min(Duration::from_millis(sample_ms.unsigned_abs()))));
                }
                self.sampled_ms = now_ms;
                // What filters select may lag behind a change, as where an index of the origin is made at night.
                let change = if self.was_change { None } else { self.shared.verdicts.take_change() };
                self.was_change = change.is_some();
                match change {
                    Some(shape) => self.ask(&newest, vec![shape], false).await?,
                    None => self.sample().await,
                }
            }
        }
        Ok(None)
    }

    /// Asks an example of each shape, and takes in what the answers say.
    async fn ask(&mut self, newest: &Arc<Snapshot>, shapes: Vec<Shape>, first: bool) -> Result<(), Aborted> {
        let table = self.shared.verdicts.table();
        let class = if first { Class::Crawl } else { Class::Background };
        let mut examples = Vec::new();
        for shape in shapes {
            let (entry, of, doubtful) = (table.entry(shape), newest.clone(), table.terms());
            if entry.is_on_trial {
                self.try_terms(&of, shape, entry.again.as_deref(), class).await?;
                continue;
            }
            let is_free = !first && entry.again.is_none();
            let noted = if is_free { self.shared.verdicts.take_noted(shape) } else { None };
            let differed = table.differed(shape);
            let now_ms = self.shared.clock.now_wall().as_millis();
            let beside = shape.row().and_then(|row| open::beside(row, entry.turn));
            let beside = beside.filter(|beside| !table.entry(*beside).is_in_doubt());
            let make = move || {
                let now = now_ms.saturating_mul(1_000_000);
                if let Some(row) = shape.row() {
                    let filtered = beside.and_then(|shape| Example::of(&of.dataset, shape, 0, &doubtful, now));
                    let filtered = filtered.map(|example| example.query);
                    let (turn, form) = (entry.turn, &of.meta.form);
                    return OpenCase::of(&of.dataset, (row, turn), form, filtered, now_ms).map(Asked::Open);
                }
                let again = entry.again.as_deref().and_then(ListQuery::of_path);
                let again = again.map(|query| Example::again(&of.dataset, query));
                let noted = || Example::noted(&of.dataset, noted?);
                let differed = differed.filter(|_| again.is_none()).as_deref().and_then(ListQuery::of_path);
                let example =
                    again.or_else(noted).or_else(|| Example::of(&of.dataset, shape, entry.turn, &doubtful, now))?;
                Some(Asked::Query(match differed {
                    Some(differed) => example.like(&of.dataset, &differed),
                    None => example,
                }))
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
        let work = first.then(|| self.shared.copies.client.budget().crawl_work());
        self.learn_seconds(&examples, class).await?;
        let asked = futures_util::stream::iter(examples)
            .map(async |(shape, asked)| (shape, self.compared(asked, asker(class), None).await));
        let compared: Vec<(Shape, Compared)> = asked.buffer_unordered(AT_ONCE).collect().await;
        drop(work);
        let is_repeated = |(shape, one): &&(Shape, Compared)| {
            let is_other = matches!(one.said.heard, Heard::Differs { .. } | Heard::Aged);
            is_other && table.entry(*shape).state == State::Suspected
        };
        let mut form = newest.meta.form.clone();
        let has_form = compared.iter().filter(|(_, one)| form.learn(&one.said.form)).map(|(_, one)| one.at_ms).max();
        let still_since = compared.iter().filter(is_repeated).map(|(_, one)| one.at_ms).max().max(has_form);
        let still = match still_since {
            Some(at_ms) => self.confirmed_since(at_ms).await.ok(),
            None => None,
        };
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
            if form.page_size != newest.meta.form.page_size {
                let now_ms = self.shared.clock.now_wall().as_millis();
                self.shared.verdicts.change(|table| table.page_size_changed(now_ms));
            }
        }
        let still = still.map(|still| still.dataset.id.clone());
        for (shape, one) in compared {
            let is_aged_again = self.hear(shape, &one, still.is_some() && still == one.of);
            // What a refresh does not show, a pass does. What neither of them shows is in doubt.
            let is_aged = one.said.heard == Heard::Aged && !table.entry(shape).is_in_doubt();
            if is_aged && !(is_aged_again && self.pass_now_and_then()) {
                self.shared.commands.refresh();
            }
            let is_ours = shape.row().is_none() && !table.entry(shape).is_in_doubt();
            if is_ours && matches!(one.said.heard, Heard::Equal { .. }) {
                self.audits.count(&one.path, &Outcome::Equal, self.shared.clock.now_wall());
            }
        }
        self.keep().await
    }

    /// Asks for the lists of other terms of a shape, where that of one differed.
    async fn try_terms(
        &self,
        newest: &Arc<Snapshot>,
        shape: Shape,
        differed: Option<&str>,
        class: Class,
    ) -> Result<(), Aborted> {
        let term = differed.and_then(ListQuery::of_path).and_then(|query| TermName::all_of(&query).next());
        let (of, doubtful) = (newest.clone(), self.shared.verdicts.terms());
        let make = move || term.and_then(|term| Example::on_trial(&of.dataset, &term, &doubtful)).unwrap_or_default();
        let trial = blocking(move || Ok::<_, Aborted>(make())).await?;
        self.shared.verdicts.change(|table| table.asked = table.asked.saturating_add(trial.len() as u32));
        self.keep().await?;
        let asked = futures_util::stream::iter(trial).map(async |(term, is_control, example)| {
            let compared = self.compared(Asked::Query(example), asker(class), None).await;
            Tried { term, is_control, heard: compared.said.heard }
        });
        let tried: Vec<Tried> = asked.buffer_unordered(AT_ONCE).collect().await;
        let at = self.moment(true, false);
        self.shared.verdicts.change(|table| table.tried(shape, &tried, at));
        let terms = self.shared.verdicts.terms();
        for Tried { term, .. } in tried.iter().filter(|tried| terms.contains(&tried.term)) {
            tracing::warn!(%term, "the origin answers queries with this term otherwise: they are forwarded from now on");
        }
        self.keep().await
    }

    /// Asks for the list of a term in doubt.
    async fn ask_term(&self, newest: &Arc<Snapshot>, term: TermName) -> Result<(), Aborted> {
        let query = ListQuery::largest_pages().with_term(term.kind, &term.slug);
        let heard = if newest.dataset.membership(term.kind, &term.slug).is_some() {
            let asked = Asked::Query(Example { query, tells: true });
            Some(self.compared(asked, asker(Class::Background), None).await.said.heard)
        } else {
            None
        };
        let at = self.moment(true, false);
        self.shared.verdicts.change(|table| table.heard_of_term(&term, heard.as_ref(), at));
        if !self.shared.verdicts.terms().contains(&term) {
            tracing::info!(%term, "the origin answers queries with this term as this server does, again");
        }
        self.keep().await
    }

    /// Now. `may_be_old`: an answer may be an old copy of a CDN.
    fn moment(&self, may_be_old: bool, is_still: bool) -> Moment {
        let copies = &self.shared.copies;
        let apart = copies.lag().max(if may_be_old { copies.cache_ttl() } else { Duration::ZERO });
        let apart_ms = i64::try_from(apart.as_millis()).unwrap_or(i64::MAX);
        Moment { now_ms: self.shared.clock.now_wall().as_millis(), apart_ms, is_still }
    }

    /// Asks, and compares the answer with the newest snapshot. `before`: an earlier answer to the same.
    async fn compared(&self, asked: Asked, asker: Asker, before: Option<&Compared>) -> Compared {
        let path = asked.to_string();
        let unheard = |path, why: String| Compared { path, said: Said::nothing(why), ..Compared::default() };
        let answered = match answer::ask(&self.shared, &path, asker).await {
            Ok(answered) => answered,
            Err(why) => return unheard(path, why),
        };
        let mut volatile = self.shared.copies.volatile();
        if let (None, Some(before), Some(text)) = (asked.shape(), before, &answered.text) {
            // A field in which even two answers of the origin differ, and nothing else does, means nothing.
            for key in volatile.learn(&before.text, text).into_iter().flatten() {
                volatile.insert(&key);
            }
        }
        let (details, verdicts) = (self.shared.details.clone(), self.shared.verdicts.clone());
        let compare = move || {
            let said = asked.judge(&answered, &details, &volatile, verdicts.seconds());
            Ok::<_, Aborted>((said, answered))
        };
        let Ok((said, answered)) = blocking(compare).await else { return unheard(path, BUSY.to_owned()) };
        tracing::debug!(path, heard = ?said.heard, "asked an example");
        Compared {
            path,
            said,
            status: answered.status,
            text: answered.text.unwrap_or_default(),
            of: Some(answered.newest.dataset.id.clone()),
            at_ms: answered.at_ms,
            may_be_old: answered.may_be_old,
        }
    }

    /// Asks what the origin counts of the instants of examples with terms, where listings hide that.
    async fn learn_seconds(&self, examples: &[(Shape, Asked)], class: Class) -> Result<(), Aborted> {
        let queries = examples.iter().filter_map(|(_, asked)| match asked {
            Asked::Query(example) => Some(example.query.clone()),
            _ => None,
        });
        let queries: Vec<ListQuery> = queries.collect();
        let (Some(newest), verdicts) = (self.shared.newest.get(), self.shared.verdicts.clone()) else { return Ok(()) };
        let unlearned = move || {
            let unlearned = queries.iter().filter_map(|query| verdicts.seconds().unlearned(&newest.dataset, query));
            Ok::<_, Aborted>(unlearned.collect::<BTreeSet<_>>())
        };
        for instant in blocking(unlearned).await? {
            let is_asked = self.shared.verdicts.change(|table| {
                let has_room = table.is_opened || table.asked < schedule::MOST_OPENING;
                table.asked = table.asked.saturating_add(u32::from(has_room));
                has_room
            });
            if is_asked {
                instants::ask(&self.shared, instant, asker(class)).await;
            }
        }
        Ok(())
    }

    /// Takes in what an answer says; `true`: a row differed, and did so before.
    fn hear(&self, shape: Shape, one: &Compared, is_still: bool) -> bool {
        let Compared { path, said: Said { heard, .. }, may_be_old, .. } = one;
        let at = self.moment(*may_be_old, is_still);
        let (before, after) = self.shared.verdicts.change(|table| {
            let before = table.entry(shape);
            table.heard(shape, path, heard.clone(), at);
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
            (State::Disproved, _) => tracing::info!(shape, "the origin answers such queries as we do again"),
            (_, State::Suspected) => {
                tracing::info!(shape, path, "the origin answered an example otherwise; it is asked again");
            }
            _ => {}
        }
        after.is_aged_again()
    }

    /// The newest snapshot, once the mirror is confirmed for a later instant than `at_ms`. The error says why nothing can
    /// be compared with it.
    async fn confirmed_since(&self, at_ms: i64) -> Result<Arc<Snapshot>, &'static str> {
        let cache_ttl = self.shared.copies.client.stamps().cache_ttl();
        let patience = cache_ttl + Duration::from_secs(60);
        // An old copy of the origin's CDN confirms nothing; then it asks again a little later.
        let again = (cache_ttl / 4).clamp(Duration::from_millis(1100), Duration::from_secs(30));
        let began = self.shared.clock.now_mono();
        let mut asked: Option<Monotonic> = None;
        loop {
            let (now, picture) = (self.shared.clock.now_mono(), self.shared.copies.client.status().picture());
            if picture.held.is_some() {
                return Err("a snapshot is held back");
            }
            let newest = self.shared.newest.get();
            if let Some(newest) = newest.filter(|newest| newest.meta.confirmed_ms >= at_ms + SURELY_LATER) {
                return Ok(newest);
            }
            if picture.health.failures() >= MOST_FAILURES || now.since(began) >= patience {
                return Err("the mirror could not be refreshed to compare again");
            }
            if asked.is_none_or(|last| now.since(last) >= again) {
                asked = Some(now);
                self.shared.commands.refresh();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether the origin's list is another one than clients get.
    fn holds_back(&self) -> bool {
        self.shared.copies.client.status().picture().held.is_some()
    }

    /// Has everything read again, unless that was not long ago.
    fn pass_now_and_then(&mut self) -> bool {
        let now = self.shared.clock.now_mono();
        let is_time = self.passed.is_none_or(|last| now.since(last) >= PASS_PAUSE);
        if is_time {
            self.passed = Some(now);
            self.shared.commands.pass();
        }
        is_time
    }

    async fn keep(&self) -> Result<(), Aborted> {
        let (store, table) = (self.shared.store.clone(), self.shared.verdicts.table());
        if let Err(error) = blocking(move || store.put_json(VERDICTS, &table)).await {
            tracing::warn!(%error, "what the origin answers could not be stored");
        }
        Ok(())
    }
}

/// What is not asked before the details waits so long for the budget, or for the end of a pause.
fn asker(class: Class) -> Asker {
    let patience = if class == Class::Background { Some(PATIENCE) } else { None };
    Asker { patience, ..Asker::mirror(class) }
}

#[cfg(test)]
mod tests;
