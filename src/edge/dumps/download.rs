//! Downloads: listings of a snapshot as a file, all or what a search finds, rendered while sent and never kept.
//!
//! Clients that download the same file at about the same time are sent the same pieces, which are kept in memory for a
//! little while, so that many downloads cost hardly more than one, and a slow one delays nobody. Callers: [`super`] and
//! [`super::changes`] make it, [`crate::edge::answer`] and [`crate::server::admin`] send it.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;

use super::coded::Encoder;
use super::write::{RowForm, Rows};
use super::{DumpError, Dumps, DumpsState, name_of, tag_of};
use crate::api::listing::ListingId;
use crate::api::query::file::FileQuery;
use crate::api::query::search::SearchQuery;
use crate::api::route::DumpKind;
use crate::clock::Monotonic;
use crate::config::Use;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Unselected;
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::search::NotSearched;
use crate::protocol::coding::Coding;
use crate::protocol::precondition::EntityTag;
use crate::tasks::fair::{FairPermit, FairSemaphore};
use crate::tasks::{Aborted, blocking};

/// About how much is rendered at once, in bytes, and how many details are read for it.
const PIECE: usize = 64 << 10;
const MOST_DETAILS: usize = 64;

/// A download keeps a replaced snapshot in memory for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a download waits until it may begin.
const TURN: Duration = Duration::from_secs(30);

/// Why nothing is selected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSelected {
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Unselected(#[from] Unselected),
    #[error(transparent)]
    Searched(NotSearched),
    /// A client that saves a file does not see that a word was left out.
    #[error("no venue has the word {0:?}")]
    Ignored(Box<str>),
    /// The journal does not reach back so far, or the details do not.
    #[error("what has changed since {since} is not known")]
    Unknown { since: Box<str>, current: SnapshotId },
    /// For each, four bytes for each listing are held until it is sent.
    #[error("the client has many downloads at once")]
    Many,
    #[error("other downloads are being made")]
    Busy,
}

impl From<Aborted> for NotSelected {
    fn from(aborted: Aborted) -> Self {
        Self::Dump(aborted.into())
    }
}

impl From<NotSearched> for NotSelected {
    fn from(why: NotSearched) -> Self {
        match why {
            NotSearched::Unselected(why) => why.into(),
            NotSearched::Aborted(why) => why.into(),
            why => Self::Searched(why),
        }
    }
}

pub(crate) struct Chosen {
    pub published: Arc<Snapshot>,
    kind: DumpKind,
    rows: Rows,
    bom: bool,
    name: u128,
    /// Whether no detail may still arrive.
    is_strong: bool,
    dumps: Dumps,
    household: IpAddr,
}

/// The unsent part of a file.
pub(crate) struct Download {
    state: Arc<DumpsState>,
    all: Arc<Selection>,
    /// How many rows, and removed ones, were sent; `None`: everything.
    sent: Option<usize>,
    replaced: Option<Monotonic>,
    encoder: Option<Encoder>,
    household: IpAddr,
    /// It counts as one of the client's downloads, and as one in a coding, until it is dropped.
    _held: [Option<FairPermit>; 2],
}

pub(super) struct Selection {
    pub published: Arc<Snapshot>,
    pub rows: Rows,
    /// Listings that are not in the snapshot any more; they come after the others.
    pub removed: Vec<ListingId>,
    pub form: RowForm,
    pub has_details: bool,
    /// The name of the file, under which its pieces are shared; `None`: nobody else asks for it.
    pub name: Option<u128>,
}

/// A piece, and how many rows are sent with it; `None`: it is the last one.
pub(super) type Piece = (Bytes, Option<usize>);

impl Dumps {
    /// The listings of the current snapshot that a query selects.
    pub(crate) async fn choose(&self, kind: DumpKind, query: FileQuery, client: IpAddr) -> Result<Chosen, NotSelected> {
        let household = self.0.settings.household(client);
        let current = self.0.current.get().ok_or(DumpError::Nothing)?;
        let asked = format!("{kind:?} {} {}", query.bom, query.text());
        let is_searched = |search: &SearchQuery| search.own_filters().next().is_some();
        let (published, found) = match query.search.as_ref().filter(|search| is_searched(search)) {
            None => (current, None),
            Some(search) => {
                let (hits, published) = self.0.searches.find_all(current, search, client).await?;
                if let Some(word) = hits.ignored.into_iter().next() {
                    return Err(NotSelected::Ignored(word));
                }
                (published, Some(hits.positions))
            }
        };
        let dumps = self.clone();
        let turn = turn(&self.0.opening, household).await?;
        blocking(move || {
            let _until_done = turn;
            let (state, dataset, has_details) = (&dumps.0, &published.dataset, kind.has_details());
            let rows = match (found, &query.search) {
                (Some(positions), _) => Rows::These(positions.into()),
                (None, Some(search)) => Rows::These(dataset.select(&search.list.slugs, None)?.into()),
                (None, None) => Rows::All(dataset.len() as u32),
            };
            // What changes while it is sent changes the tag of the next answer.
            let edition = if has_details {
                state.details.edition(state.process).map_err(DumpError::from)?
            } else {
                String::new()
            };
            // Where details are followed, one may change while it is sent.
            let is_strong = !has_details || state.settings.load().usage() == Use::Offline;
            let (id, evidence) = (&dataset.id, dataset.evidence_print());
            let name = name_of(&format!("{asked} {id} {evidence} {edition} {}", env!("CARGO_PKG_VERSION")));
            let published = published.clone();
            Ok(Chosen { published, kind, rows, bom: query.bom, name, is_strong, dumps, household })
        })
        .await
    }
}

impl Chosen {
    pub(crate) fn tag(&self, coding: Coding) -> io::Result<EntityTag> {
        tag_of(self.name ^ coding as u128, self.is_strong)
    }

    /// What lets it be sent in a coding; `None`: too many are.
    pub(crate) fn may_code(&self) -> Option<FairPermit> {
        self.dumps.0.coding.try_take(Some(self.household), 1)
    }

    pub(crate) async fn open(self, coding: Coding, coded: Option<FairPermit>) -> Result<Download, NotSelected> {
        let Self { published, kind, rows, bom, name, dumps, household, .. } = self;
        let state = dumps.0.clone();
        let download = turn(&state.downloads, household).await?;
        let opening = if kind == DumpKind::DetailsCsv { &state.opening_details } else { &state.opening };
        let turn = turn(opening, household).await?;
        blocking(move || {
            let _until_done = turn;
            // Not held while the columns are made: two that open a file at once may both make them, and the later ones
            // are shared.
            let opened = state.opened.lock().get(&name).and_then(Weak::upgrade);
            let all = if let Some(all) = opened {
                all
            } else {
                let (dataset, details) = (&published.dataset, &state.details);
                let form = RowForm::of(kind, dataset, &rows, details, bom)?;
                let (removed, has_details) = (Vec::new(), kind.has_details());
                let all = Selection { published, rows, removed, form, has_details, name: Some(name) };
                let all = Arc::new(all);
                let mut opened = state.opened.lock();
                opened.retain(|_, all| all.strong_count() > 0);
                opened.insert(name, Arc::downgrade(&all));
                all
            };
            let encoder = Encoder::of(coding).map_err(DumpError::from)?;
            Ok(Download { encoder, ..Download::of(all, state, household, [Some(download), coded]) })
        })
        .await
    }
}

async fn turn(shares: &FairSemaphore, household: IpAddr) -> Result<FairPermit, NotSelected> {
    let turn = tokio::time::timeout(TURN, shares.take(Some(household), 1)).await;
    turn.ok().and_then(Result::ok).ok_or(NotSelected::Busy)
}

impl Download {
    pub(super) fn of(
        all: Arc<Selection>,
        state: Arc<DumpsState>,
        household: IpAddr,
        held: [Option<FairPermit>; 2],
    ) -> Self {
        Self { state, all, sent: Some(0), replaced: None, encoder: None, household, _held: held }
    }

    /// The next piece; `None` at the end. Fails when the snapshot was replaced more than [`PATIENCE`] ago.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let (from, all, state) = (self.sent?, self.all.clone(), self.state.clone());
            // A confirmed snapshot is the same one.
            if state.current.get().is_none_or(|current| current.dataset.id != all.published.dataset.id) {
                let now = state.clock.now_mono();
                if now.since(*self.replaced.get_or_insert(now)) > PATIENCE {
                    return Some(Err(io::Error::other("another snapshot was published meanwhile")));
                }
            }
            let turn = match all.kept(&state, from) {
                Some(_) => None,
                None => Some(state.rendering.take(Some(self.household), 1).await),
            };
            let mut encoder = self.encoder.take();
            let made = blocking(move || {
                let _until_done = turn;
                let (piece, sent) = all.shared_piece(&state, from)?;
                let coded = match &mut encoder {
                    None => piece,
                    Some(encoder) => encoder.put(&piece, sent.is_none())?,
                };
                Ok::<_, DumpError>((coded, sent, encoder))
            });
            match made.await {
                Ok((piece, sent, encoder)) => {
                    (self.sent, self.encoder) = (sent, encoder);
                    if !piece.is_empty() {
                        return Some(Ok(piece));
                    }
                }
                Err(error) => {
                    self.sent = None;
                    return Some(Err(io::Error::other(error)));
                }
            }
        }
    }
}

impl DumpsState {
    /// Another text whenever a detail changes.
    pub(super) fn edition(&self) -> Result<String, DumpError> {
        Ok(self.details.edition(self.process)?)
    }
}

impl Selection {
    fn kept(&self, state: &DumpsState, from: usize) -> Option<Piece> {
        state.pieces.get(&(self.name?, from))
    }

    /// What comes after so many rows; made once for all who want it now.
    fn shared_piece(&self, state: &DumpsState, from: usize) -> Result<Piece, DumpError> {
        match self.name {
            None => self.piece(state, from),
            Some(name) => {
                state.pieces.try_get_with((name, from), || self.piece(state, from)).map_err(DumpError::Shared)
            }
        }
    }

    fn piece(&self, state: &DumpsState, from: usize) -> Result<Piece, DumpError> {
        let (dataset, mut out) = (&self.published.dataset, Vec::new());
        if from == 0 {
            self.form.begin(dataset, &mut out);
        }
        let most = if self.has_details { MOST_DETAILS } else { usize::MAX };
        let left = from..self.rows.len().min(from.saturating_add(most));
        let ids = left.clone().filter(|_| self.has_details);
        let ids: Vec<ListingId> =
            ids.map(|row| dataset.content.summaries[self.rows.position(row) as usize].id).collect();
        let mut details = state.details.bodies(&ids);
        let mut sent = from;
        for row in left {
            let detail = details.next().transpose()?.flatten();
            self.form.listing(dataset, (self.rows.position(row), sent), detail, &mut out)?;
            sent += 1;
            if out.len() >= PIECE {
                break;
            }
        }
        let gone = sent.checked_sub(self.rows.len()).map(|sent| &self.removed[sent..]);
        for id in gone.unwrap_or_default() {
            if out.len() >= PIECE {
                break;
            }
            self.form.removed(*id, &mut out);
            sent += 1;
        }
        let is_over = sent == self.rows.len() + self.removed.len();
        if is_over {
            self.form.end(dataset, &mut out);
        }
        Ok((out.into(), (!is_over).then_some(sent)))
    }
}

#[cfg(test)]
mod tests;
