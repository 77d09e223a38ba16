//! Table of verdicts, and how answers to examples change it. Pure: the time is an argument.
//!
//! Callers: [`super`]; `mirror::examiner` tells what it heard.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::api::odd::{Meaning, Row};
use crate::api::query::ListQuery;
use crate::api::shape::{Shape, TermName};

use super::told::Told;

/// A difference counts after so many tries in a row, even if the origin's list never held still.
const MOST_TRIES: u8 = 10;

/// After so many tries in a row without an answer, a shape has to wait for its turn.
const MOST_UNANSWERED: u8 = 3;

/// So many terms can be in doubt while their shapes are not.
const MOST_TERMS: usize = 64;

/// The bit of the mask that says that terms are in doubt: that of the list's order, which [`Table::doubts_size`] tells.
pub(super) const TERMS: u64 = 1 << 32;

/// Rows that differ from ours for so many tries in a row are no copy of ours that is too old.
const MOST_AGED: u8 = 3;

/// So many examples with different terms confirm a shape that has a part that differs.
const ENOUGH: usize = 3;

/// The longest pause before a difference is asked again, in milliseconds.
const LONGEST_PAUSE: i64 = 600_000;

/// What is in doubt is asked again after so many milliseconds.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// What is known of one shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// Answered as documented; a row of the open cases is read through.
    #[default]
    Unproved,
    /// The origin answered an example as we would.
    Confirmed,
    /// It answered otherwise, once.
    Suspected,
    /// It answered otherwise again, while its list held still.
    Disproved,
}

/// One shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct VerdictEntry {
    pub(crate) state: State,
    /// Whether all differences are of order.
    only_order: bool,
    /// How many examples are done with; it chooses the next one.
    pub(crate) turn: u16,
    pub(crate) asked_ms: i64,
    confirmed_ms: i64,
    /// When it differed first.
    differed_ms: i64,
    /// The path and query whose answer differed.
    pub(crate) again: Option<String>,
    /// When it is asked again; 0: in its turn.
    pub(crate) due_ms: i64,
    /// How often in a row the list moved, or no answer came.
    tries: u8,
    /// How often in a row a row differed from ours.
    aged: u8,
    /// When a disproved shape was answered as expected, once.
    equal_ms: Option<i64>,
    /// The examples that were as expected since a part of the shape differs.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    equals: BTreeSet<String>,
    /// Whether other terms are to be tried: the one of `again` may be the only one that differs.
    pub(crate) is_on_trial: bool,
    /// Of a row: the meanings that its examples allow, the table's first. `None`: it has not been answered.
    allows: Option<Vec<Meaning>>,
}

/// A term whose lists the origin answers otherwise, although it answers those of another one as we do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct DoubtfulTerm {
    /// When it is asked again.
    due_ms: i64,
    /// When it was answered as expected, once.
    equal_ms: Option<i64>,
}

/// What an answer to a term's list says, where another one's differed.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) term: TermName,
    /// Whether its slug is no part of another one's, and it is not the term that differed first: it should hold.
    pub(crate) is_control: bool,
    pub(crate) heard: Heard,
}

/// What an answer to an example says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is an example of a row, and allows these meanings, the table's first.
    Means(Vec<Meaning>),
    /// It is ours. `tells`: with another meaning of the filters it would be another one.
    Equal { tells: bool },
    /// Another total, other listings, or another order of them.
    Differs { only_order: bool },
    /// It has a row that is not as ours: our copy, or theirs, is too old to tell anything.
    Aged,
    /// There was no answer, or one that tells nothing.
    #[default]
    Nothing,
}

/// When something was heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now_ms: i64,
    /// After so many milliseconds an answer is not the same old copy.
    pub(crate) apart_ms: i64,
    /// Whether the origin's list was the same before and after.
    pub(crate) is_still: bool,
}

/// The list without filters, and the sets of filters.
fn all() -> impl Iterator<Item = Shape> {
    [Shape::LIST].into_iter().chain(Shape::of_lists())
}

/// Whether a query leaves the size of its page to the origin.
pub(crate) fn is_bare(path: &str) -> bool {
    !path.contains("per_page=")
}

/// All verdicts on one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Table {
    /// The origin's address; `None`: they came in a bundle.
    pub(crate) origin: Option<String>,
    /// How many requests the first examples took.
    pub(crate) asked: u32,
    /// Whether the first examples are done with.
    pub(crate) is_opened: bool,
    /// When every shape was asked because one differed that had been confirmed.
    widened_ms: i64,
    entries: BTreeMap<Shape, VerdictEntry>,
    terms: BTreeMap<TermName, DoubtfulTerm>,
}

impl Table {
    /// What a bundle tells. `is_opened`: nobody asks more.
    pub(crate) fn of_told(told: &Told, is_opened: bool) -> Self {
        let mut table = Self { is_opened, ..Self::default() };
        let entry = |state, only_order| VerdictEntry { state, only_order, confirmed_ms: 1, ..VerdictEntry::default() };
        for shape in all() {
            let name = shape.name();
            if told.disproved.contains(&name) {
                table.entries.insert(shape, entry(State::Disproved, told.by_order.contains(&name)));
            } else if told.confirmed.contains(&name) {
                table.entries.insert(shape, entry(State::Confirmed, false));
            }
        }
        for row in Row::ALL {
            if let Some(meaning) = told.meanings.get(row.as_str()) {
                let allows = Some(vec![*meaning]);
                table.entries.insert(Shape::of_row(row), VerdictEntry { allows, ..entry(State::Confirmed, false) });
            }
        }
        table.terms = told.terms.iter().map(|term| (term.clone(), DoubtfulTerm::default())).collect();
        table
    }

    /// What a bundle tells of it: what is only suspected, too.
    pub(crate) fn told(&self) -> Told {
        let in_doubt = |shape: &Shape| self.entry(*shape).is_in_doubt();
        let names = |is_told: &dyn Fn(&Shape) -> bool| all().filter(is_told).map(Shape::name).collect();
        Told {
            confirmed: names(&|shape| *shape != Shape::LIST && self.is_confirmed(*shape)),
            disproved: names(&in_doubt),
            by_order: names(&|shape| in_doubt(shape) && self.entry(*shape).only_order),
            meanings: Row::ALL
                .into_iter()
                .filter_map(|row| Some((row.as_str().to_owned(), self.meaning(row)?)))
                .collect(),
            terms: self.terms(),
        }
    }

    /// The terms in doubt.
    pub(crate) fn terms(&self) -> BTreeSet<TermName> {
        self.terms.keys().cloned().collect()
    }

    /// The term in doubt that is asked next, and when.
    pub(crate) fn next_term(&self) -> Option<(i64, &TermName)> {
        self.terms.iter().map(|(term, entry)| (entry.due_ms, term)).min()
    }

    /// Takes in what the lists of several terms of a shape say, of which one differed. If only some do, these are in
    /// doubt in the place of the shape. Without answers it is the shape.
    pub(crate) fn tried(&mut self, shape: Shape, answers: &[Tried], at: Moment) {
        let Moment { now_ms, apart_ms, .. } = at;
        let entry = self.entries.entry(shape).or_default();
        let is_open = |tried: &Tried| matches!(tried.heard, Heard::Nothing | Heard::Aged);
        if answers.iter().any(is_open) && entry.tries < MOST_UNANSWERED {
            (entry.tries, entry.due_ms) = (entry.tries + 1, now_ms + apart_ms);
            return;
        }
        (entry.is_on_trial, entry.due_ms, entry.tries) = (false, 0, 0);
        let is_equal = |one: &&Tried| one.heard == Heard::Equal { tells: true };
        let is_other = |one: &&Tried| matches!(one.heard, Heard::Differs { .. } | Heard::Aged);
        let controls = || answers.iter().filter(|one| one.is_control);
        let (equal, other) = (controls().filter(is_equal).count(), controls().filter(is_other).count());
        // If several controls differ, the cause is the shape, and no term.
        let holds = equal > other && other <= 1;
        let differs = |one: &&Tried| is_other(one) || !(one.is_control || is_equal(one));
        let differing: Vec<&TermName> = answers.iter().filter(differs).map(|tried| &tried.term).collect();
        if !holds || differing.is_empty() || self.terms.len() + differing.len() > MOST_TERMS {
            return;
        }
        (entry.state, entry.confirmed_ms, entry.again) = (State::Confirmed, now_ms, None);
        entry.turn = entry.turn.saturating_add(1);
        let names: Vec<String> = differing.iter().map(ToString::to_string).collect();
        for term in differing {
            self.terms.insert(term.clone(), DoubtfulTerm { due_ms: now_ms + DAY_MS, equal_ms: None });
        }
        // What differed by such a term alone is asked with another one.
        let has_one = |path: &String| path.split(['?', '&']).any(|part| names.iter().any(|name| name == part));
        for entry in self.entries.values_mut().filter(|entry| entry.is_in_doubt()) {
            if entry.again.take_if(|path| has_one(path)).is_some() {
                entry.due_ms = now_ms;
            }
        }
    }

    /// Takes in what the list of a term in doubt says: two equal answers apart end the doubt. `heard`: `None` if there is no
    /// such term any more.
    pub(crate) fn heard_of_term(&mut self, term: &TermName, heard: Option<&Heard>, at: Moment) {
        let Moment { now_ms, apart_ms, .. } = at;
        let Some(entry) = self.terms.get_mut(term) else { return };
        let is_over = heard.is_none() || entry.equal_ms.is_some_and(|equal_ms| now_ms - equal_ms >= apart_ms);
        match heard {
            None | Some(Heard::Equal { tells: true }) if is_over => {
                self.terms.remove(term);
            }
            Some(Heard::Equal { tells: true }) => {
                entry.equal_ms.get_or_insert(now_ms);
                entry.due_ms = now_ms + apart_ms;
            }
            _ => *entry = DoubtfulTerm { due_ms: now_ms + DAY_MS, equal_ms: None },
        }
    }

    /// Forgets everything, unless the verdicts are on this origin.
    pub(crate) fn begin(&mut self, origin: &str) {
        match &self.origin {
            Some(known) if known == origin => {}
            Some(_) => *self = Self { origin: Some(origin.to_owned()), ..Self::default() },
            // What a bundle said counts until the origin itself is asked.
            None => (self.origin, self.is_opened) = (Some(origin.to_owned()), false),
        }
    }

    pub(crate) fn entry(&self, shape: Shape) -> VerdictEntry {
        self.entries.get(&shape).cloned().unwrap_or_default()
    }

    /// What is known of each row, by its name; a row that was not answered is missing.
    pub(super) fn rows(&self) -> BTreeMap<String, String> {
        let told = |row: Row| {
            let told = match (self.meaning(row), self.entry(Shape::of_row(row)).state) {
                (Some(meaning), _) => meaning.told(),
                (None, State::Unproved) => return None,
                (None, _) => "forwarded".to_owned(),
            };
            Some((row.as_str().to_owned(), told))
        };
        Row::ALL.into_iter().filter_map(told).collect()
    }

    /// The meaning by which a row is answered. What the documentation says of the future counts until the origin is asked.
    pub(super) fn answers_by(&self, row: Row) -> Option<Meaning> {
        let is_documented = || row == Row::SinceFuture && self.entry(Shape::of_row(row)).state == State::Unproved;
        self.meaning(row).or_else(|| is_documented().then(|| row.table()))
    }

    /// What a row means, if two examples said so.
    pub(crate) fn meaning(&self, row: Row) -> Option<Meaning> {
        let entry = self.entries.get(&Shape::of_row(row)).filter(|entry| entry.state == State::Confirmed)?;
        entry.allows.as_ref()?.first().copied()
    }

    /// Whether a shape has parts that differ, or may do so.
    pub(crate) fn has_open_part(&self, shape: Shape) -> bool {
        shape.parts().map(|part| self.entry(part)).any(|part| part.is_in_doubt() || part.aged > 0)
    }

    /// The path and query that differed of a part because of which a shape is read through; in each turn of another part.
    pub(crate) fn differed(&self, shape: Shape) -> Option<String> {
        let entry = self.entry(shape);
        let all: Vec<String> = self.doubtful_parts(shape, &entry).filter_map(|part| part.again).collect();
        all.get(usize::from(entry.turn).checked_rem(all.len())?).cloned()
    }

    /// Whether the unfiltered list with this page size is read through, and if so, whether for its order alone. Not with
    /// that of the crawl, nor with the usual one, unless just that differed.
    pub(super) fn doubts_size(&self, per_page: u16) -> Option<bool> {
        let entry = self.entry(Shape::LIST);
        let is_sized = entry.again.as_ref().is_some_and(|path| path.contains("per_page="));
        let is_known = per_page == ListQuery::MAX_PER_PAGE || (is_sized && per_page == ListQuery::DEFAULT_PER_PAGE);
        (entry.is_in_doubt() && !is_known).then_some(entry.only_order)
    }

    /// Whether a shape is confirmed, and was when each part that differs did so already.
    fn is_confirmed(&self, shape: Shape) -> bool {
        let entry = self.entry(shape);
        entry.state == State::Confirmed && self.doubtful_parts(shape, &entry).next().is_none()
    }

    fn doubtful_parts(&self, shape: Shape, entry: &VerdictEntry) -> impl Iterator<Item = VerdictEntry> {
        let known = (entry.state == State::Confirmed).then_some(entry.confirmed_ms);
        let parts = shape.parts().map(|part| self.entry(part)).filter(VerdictEntry::is_in_doubt);
        parts.filter(move |part| known.is_none_or(|known| known <= part.differed_ms))
    }

    /// `None`: a shape is not read through; else whether it is for its order alone.
    fn read_through(&self, shape: Shape) -> Option<bool> {
        let entry = self.entry(shape);
        if entry.is_in_doubt() {
            return Some(entry.only_order);
        }
        self.doubtful_parts(shape, &entry).map(|part| part.only_order).reduce(|one, other| one && other)
    }

    /// The bits of the shapes that are read through, and above them of those whose order alone differs.
    pub(super) fn mask(&self) -> u64 {
        let bits = Shape::of_lists().into_iter().filter_map(|shape| {
            let bit = u64::from(shape.bit());
            self.read_through(shape).map(|only_order| bit | if only_order { bit << 32 } else { 0 })
        });
        let list = self.entry(Shape::LIST).is_in_doubt().then_some(u64::from(Shape::LIST.bit()));
        bits.chain(list).fold(if self.terms.is_empty() { 0 } else { TERMS }, |mask, bits| mask | bits)
    }

    /// The names of the sets of filters in this state. What is suspected is not proved either.
    pub(super) fn names(&self, state: State) -> Vec<String> {
        let is_in = |shape: &Shape, state| self.entries.get(shape).is_some_and(|entry| entry.state == state);
        let is_it = |shape: &Shape| match state {
            State::Confirmed => self.is_confirmed(*shape),
            State::Unproved => !is_in(shape, State::Disproved) && !self.is_confirmed(*shape),
            state => is_in(shape, state),
        };
        // The list without filters is named only if it differs.
        all()
            .filter(|shape| *shape != Shape::LIST || state == State::Disproved)
            .filter(is_it)
            .map(Shape::name)
            .collect()
    }

    /// Suspects a shape by the answer to this path, and has it asked again.
    pub(super) fn suspect(&mut self, shape: Shape, path: String, only_order: bool, due_ms: i64) {
        let entry = self.entries.entry(shape).or_default();
        if !entry.is_in_doubt() {
            let differed_ms = due_ms.max(1);
            *entry = VerdictEntry {
                state: State::Suspected,
                only_order,
                differed_ms,
                due_ms,
                again: Some(path),
                ..entry.clone()
            };
            (entry.tries, entry.aged) = (0, 0);
        }
    }

    /// The size of pages where none is asked for has changed: what differed in a page of the old size is asked again.
    pub(crate) fn page_size_changed(&mut self, now_ms: i64) {
        for entry in self.entries.values_mut().filter(|entry| entry.is_in_doubt()) {
            if entry.again.as_deref().is_some_and(is_bare) {
                entry.due_ms = now_ms;
            }
        }
    }

    /// No example can be made of the data: the shape is done with for now.
    pub(crate) fn pass_over(&mut self, shape: Shape, turns: u16, now_ms: i64) {
        let entry = self.entries.entry(shape).or_default();
        // The next turn may have one.
        (entry.turn, entry.asked_ms, entry.due_ms) = (entry.turn.saturating_add(1).max(turns), now_ms, 0);
    }

    /// Takes in what the answer to `path` says of a shape; returns its state.
    pub(crate) fn heard(&mut self, shape: Shape, path: &str, heard: Heard, at: Moment) -> State {
        let Moment { now_ms, apart_ms, mut is_still } = at;
        // Whatever a row means, it is read through until it is known: no edit does harm.
        is_still |= shape.row().is_some();
        let has_doubtful_part = self.doubtful_parts(shape, &self.entry(shape)).next().is_some();
        let entry = self.entries.entry(shape).or_default();
        let before = entry.state;
        let later = |tries: u8| now_ms + (apart_ms << tries.min(8)).min(LONGEST_PAUSE.max(apart_ms));
        let heard = match heard {
            Heard::Means(these) => entry.means(&these, is_still),
            // Its rows are what the mirror copies.
            Heard::Aged if shape == Shape::LIST && entry.aged + 1 >= MOST_AGED => Heard::Nothing,
            Heard::Aged if entry.state == State::Disproved => Heard::Differs { only_order: entry.only_order },
            Heard::Aged if entry.aged + 1 >= MOST_AGED => Heard::Differs { only_order: false },
            heard => heard,
        };
        if matches!(heard, Heard::Differs { .. }) {
            entry.equals.clear();
        }
        let aged = entry.aged;
        match heard {
            Heard::Means(_) => {}
            // The others go on without it.
            Heard::Nothing if entry.tries + 1 >= MOST_UNANSWERED && !entry.is_in_doubt() => {
                (entry.turn, entry.due_ms) = (entry.turn.saturating_add(1), 0);
            }
            Heard::Nothing if entry.tries + 1 >= MOST_TRIES => {
                (entry.turn, entry.due_ms) = (entry.turn.saturating_add(u16::from(shape.row().is_some())), 0);
            }
            Heard::Nothing => {
                (entry.tries, entry.due_ms) = (entry.tries.saturating_add(1).min(MOST_TRIES), later(entry.tries));
                return entry.state;
            }
            Heard::Aged => {
                // The same again: another example would say nothing about it.
                entry.again.get_or_insert_with(|| path.to_owned());
                (entry.aged, entry.due_ms) = (entry.aged + 1, later(entry.aged));
                return entry.state;
            }
            Heard::Equal { tells } => {
                let before = entry.equal_ms.filter(|_| tells);
                let is_over = entry.state != State::Disproved || before.is_some_and(|at| now_ms - at >= apart_ms);
                if tells && has_doubtful_part {
                    entry.equals.insert(path.to_owned());
                }
                let is_proof = is_over && tells && (!has_doubtful_part || entry.equals.len() >= ENOUGH);
                let state = match (is_over, is_proof, entry.state) {
                    (false, ..) => State::Disproved,
                    (true, true, _) => State::Confirmed,
                    (true, false, State::Suspected | State::Disproved) => State::Unproved,
                    (true, false, state) => state,
                };
                if is_proof {
                    (entry.confirmed_ms, entry.equals) = (now_ms, BTreeSet::new());
                }
                entry.equal_ms = (!is_over && tells).then(|| before.unwrap_or(now_ms));
                entry.due_ms = if entry.equal_ms.is_some() { now_ms + apart_ms } else { 0 };
                if is_over || shape.row().is_some() {
                    (entry.again, entry.turn) = (None, entry.turn.saturating_add(1));
                }
                entry.state = state;
            }
            Heard::Differs { only_order } => match entry.state {
                State::Unproved | State::Confirmed => {
                    self.suspect(shape, path.to_owned(), only_order, now_ms + apart_ms);
                    let entry = self.entries.entry(shape).or_default();
                    // A row that always differs is not awaited once more.
                    (entry.asked_ms, entry.aged) = (now_ms, if aged + 1 >= MOST_AGED { aged } else { 0 });
                    return State::Suspected;
                }
                State::Suspected if !is_still && entry.tries < MOST_TRIES => {
                    (entry.tries, entry.due_ms) = (entry.tries + 1, later(entry.tries));
                    return State::Suspected;
                }
                State::Suspected | State::Disproved => {
                    entry.only_order &= only_order;
                    let is_one_of_five = entry.allows.as_ref().is_some_and(|these| !these.is_empty());
                    let due_ms = if is_one_of_five && before == State::Suspected { now_ms + apart_ms } else { 0 };
                    (entry.state, entry.due_ms, entry.equal_ms) = (State::Disproved, due_ms, None);
                    entry.again = Some(path.to_owned());
                    if shape.only_taxonomy().is_some() {
                        (entry.is_on_trial, entry.due_ms) = (true, now_ms);
                    }
                    // What a row means shows in examples that differ.
                    entry.turn = entry.turn.saturating_add(u16::from(shape.row().is_some()));
                }
            },
        }
        (entry.asked_ms, entry.tries, entry.aged) = (now_ms, 0, 0);
        let state = entry.state;
        let was_confirmed = entry.confirmed_ms > 0;
        if state == State::Disproved && before != state && self.is_opened {
            self.ask_parts(shape, path, now_ms);
            if was_confirmed && !(self.widened_ms..self.widened_ms + DAY_MS).contains(&now_ms) {
                self.widened_ms = now_ms;
                self.ask_all(now_ms);
            }
        }
        state
    }

    /// Has every shape asked: the origin has changed.
    fn ask_all(&mut self, now_ms: i64) {
        for shape in Shape::all() {
            let entry = self.entries.entry(shape).or_default();
            if !entry.is_in_doubt() && entry.due_ms == 0 {
                entry.due_ms = now_ms;
            }
        }
    }

    /// The first examples are done with. What differed in one of them may differ in its parts, too, whose own examples did not
    /// show it.
    pub(crate) fn open(&mut self, now_ms: i64) {
        self.is_opened = true;
        let differed = |shape: &Shape| self.entry(*shape).state == State::Disproved;
        for shape in all().filter(differed).collect::<Vec<_>>() {
            if let Some(path) = self.entry(shape).again {
                self.ask_parts(shape, &path, now_ms);
            }
        }
    }

    /// Has the parts of a shape, and its other forms of the time, asked what differed: one of them may be what has changed.
    fn ask_parts(&mut self, shape: Shape, path: &str, now_ms: i64) {
        let query = ListQuery::of_path(path);
        for part in shape.parts().chain(shape.siblings()) {
            let entry = self.entries.entry(part).or_default();
            if !entry.is_in_doubt() && entry.due_ms == 0 {
                let of_part = query.as_ref().and_then(|query| part.of_query(query));
                (entry.due_ms, entry.again) = (now_ms, of_part.map(|query| query.path_and_query()));
            }
        }
    }
}

impl VerdictEntry {
    /// What an answer to an example of a row says, after those before. The second one that allows the same confirms.
    fn means(&mut self, these: &[Meaning], is_still: bool) -> Heard {
        let known = self.allows.take().filter(|known| !known.is_empty());
        let is_both = |one: &&Meaning| known.as_ref().is_none_or(|known| known.contains(one));
        let both: Vec<Meaning> = these.iter().filter(is_both).copied().collect();
        if !both.is_empty() {
            self.allows = Some(both);
            return Heard::Equal { tells: known.is_some() || self.state == State::Disproved };
        }
        // It has another meaning now, perhaps one of the five, which the next examples show.
        let is_other = self.state == State::Disproved || (self.state == State::Suspected && is_still);
        self.allows = if is_other { Some(these.to_vec()) } else { known };
        Heard::Differs { only_order: false }
    }

    /// Whether it is read through for its own answers.
    pub(crate) const fn is_in_doubt(&self) -> bool {
        matches!(self.state, State::Suspected | State::Disproved)
    }

    /// Whether the first examples wait for its repetition: not where the origin gives no answer.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.tries < MOST_TRIES
    }

    /// Whether a row of the last answer differed from ours, and of the one before, too.
    pub(crate) const fn is_aged_again(&self) -> bool {
        self.aged > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differed_without_a_page_size_is_asked_again_once_that_has_changed() {
        let mut table = Table::default();
        let shape = |path| Shape::of(&ListQuery::of_path(path).unwrap());
        let (bare, sized) = ("/api/listings.json?sport=golf", "/api/listings.json?state=texas&per_page=100");
        for path in [bare, sized] {
            table.suspect(shape(path), path.to_owned(), false, 500);
        }
        table.page_size_changed(90);
        assert_eq!([bare, sized].map(|path| table.entry(shape(path)).due_ms), [90, 500]);
    }
}
