//! The content of the operator's page: plain values for the templates.
//!
//! Callers: [`super::gather`] fills it in, [`super::view`] shows it.

use crate::clock::WallTime;
use crate::config::Use;
use crate::telemetry::history::Span;

use super::action::{Action, Writes};
use super::advice::Finding;
use super::chart::Chart;

pub(super) struct Model {
    /// How this process is used.
    pub usage: Use,
    pub now: WallTime,
    /// Empty: all is well.
    pub findings: Vec<Finding>,
    pub state: State,
    /// The most important numbers.
    pub tiles: Vec<Tile>,
    /// The charts, and what their left end is called.
    pub charts: (Vec<Chart>, &'static str),
    pub span: Span,
    /// The origin; `None` offline.
    pub origin: Option<Origin>,
    /// The current snapshot; empty without data.
    pub data: Vec<Line>,
    /// The kept snapshots; `None` in shield use.
    pub snapshots: Option<SnapshotList>,
    /// The comparison with the origin; `None` without one.
    pub parity: Option<Parity>,
    /// How odd requests are answered; `None` in shield use.
    pub odd: Option<OddRequests>,
    /// The limit of the fleet; empty: this process counts for itself.
    pub limit: Vec<Line>,
    /// The last warnings and errors, the newest first.
    pub notes: Vec<Row>,
    /// Listeners, certificate of the HTTPS listener, cache.
    pub server: Vec<Line>,
    pub facts: Vec<(String, String)>,
    pub writes: Writes,
}

/// How the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is wrong.
    Well,
    /// It is healthy, and something is wrong or waits for the operator.
    Attention,
    /// The first copy is being made without trouble.
    Starting,
    /// `/status` is 503.
    Unwell,
}

/// One number with its name and a remark.
pub(super) struct Tile {
    pub name: &'static str,
    pub value: String,
    pub note: String,
}

/// One line of a description: a name and its text.
pub(super) struct Line {
    pub name: &'static str,
    pub value: String,
    /// More, one paragraph each.
    pub more: Vec<String>,
}

impl Line {
    pub(super) fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into(), more: Vec::new() }
    }

    pub(super) fn with(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.more.extend(more);
        self
    }
}

/// How far something is.
pub(super) struct Bar {
    pub name: &'static str,
    pub done: u64,
    pub of: u64,
}

/// The origin and the use of its budget.
pub(super) struct Origin {
    pub lines: Vec<Line>,
    pub bars: Vec<Bar>,
    /// When the copy is complete, about; `None`: it is, or nobody knows.
    pub eta: Option<String>,
    /// Requests since the start, by purpose.
    pub spent: Vec<(&'static str, u64)>,
    /// Commands to the mirror; empty in shield use.
    pub actions: Vec<Action>,
}

/// One kept snapshot.
pub(super) struct SnapshotRow {
    pub id: String,
    pub listings: u64,
    pub certificate: &'static str,
    pub confirmed: String,
    pub published: String,
    /// Its roles: current, newest ...
    pub marks: Vec<&'static str>,
    pub actions: Vec<Action>,
}

/// The kept snapshots.
pub(super) struct SnapshotList {
    pub shown: Vec<SnapshotRow>,
    /// How many more are kept.
    pub more: usize,
    /// During a rollback.
    pub release: Option<Action>,
    /// The snapshot held back: why, and how to publish it.
    pub held: Option<(String, Action)>,
}

/// The comparison with the origin.
pub(super) struct Parity {
    pub lines: Vec<Line>,
    /// What differs, the newest last.
    pub differences: Vec<String>,
    pub action: Action,
}

/// How requests are answered that the documentation of the API leaves open.
pub(super) struct OddRequests {
    pub lines: Vec<Line>,
    /// One row for each case; empty until something is learned.
    pub cases: Vec<OddCase>,
}

/// How one kind of odd request is answered.
pub(super) struct OddCase {
    pub request: &'static str,
    pub example: &'static str,
    pub answer: String,
    /// Why the answer is ours; `None`: it is the origin's.
    pub why: Option<String>,
}

/// One warning or error.
pub(super) struct Row {
    pub is_error: bool,
    pub at: String,
    pub count: u64,
    pub text: String,
    pub todo: &'static str,
}
