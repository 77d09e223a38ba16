//! A part of a snapshot, as a dump or as what has changed: rendered while it is sent, and never kept.
//!
//! Callers: [`super`] and [`super::changes`] make it, [`crate::serve`] sends it.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::write::Form;
use super::{DumpError, Dumps, DumpsState, strong_tag};
use crate::api::listing::ListingId;
use crate::api::route::DumpKind;
use crate::clock::Monotonic;
use crate::limit::shares::Portion;
use crate::semantics::client_address::household;
use crate::semantics::precondition::EntityTag;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::{Dataset, Unselected};
use crate::snapshot::pointer::Snapshot;
use crate::tasks::{Aborted, blocking};

/// About how much is rendered at once, in bytes, and how many details are read for it.
const PIECE: usize = 64 << 10;
const MOST_DETAILS: usize = 64;

/// A download keeps a replaced snapshot in memory for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The slugs that listings must have, by [`TaxonomyKind::index`](crate::api::taxonomy::TaxonomyKind::index).
pub(crate) type Slugs = [Option<Box<str>>; 3];

/// Why nothing is selected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSelected {
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Unselected(#[from] Unselected),
    /// The journal does not reach back so far, or the details do not.
    #[error("what has changed since {since} is not known")]
    Unknown { since: Box<str>, current: SnapshotId },
    /// For each, four bytes for each changed listing are held until it is sent.
    #[error("the client downloads the changes many times at once")]
    Many,
}

impl From<Aborted> for NotSelected {
    fn from(aborted: Aborted) -> Self {
        Self::Dump(aborted.into())
    }
}

/// The unsent part of some listings.
pub(crate) struct Selected {
    all: Arc<Selection>,
    /// How many listings, and removed ones, were sent; `None`: everything.
    sent: Option<usize>,
    replaced: Option<Monotonic>,
}

/// What is sent.
pub(super) struct Selection {
    pub published: Arc<Snapshot>,
    pub positions: Arc<[u32]>,
    /// Listings that are not in the snapshot any more; they come after the others.
    pub removed: Vec<ListingId>,
    pub form: Form,
    pub has_details: bool,
    pub state: Arc<DumpsState>,
    /// Counts as one of the client's downloads of changes, until it is dropped.
    pub _held: Option<Portion>,
}

/// Some listings, their snapshot, and a strong tag of what is sent.
pub(crate) type Tagged = (Selected, Arc<Snapshot>, EntityTag);

/// The positions for parts of dumps that are being sent. Downloads of the same part of a snapshot share them: many slow
/// clients hold no more memory than one.
#[derive(Default)]
pub(super) struct Selections(Mutex<HashMap<Part, Weak<[u32]>>>);

type Part = (SnapshotId, Slugs);

impl Selections {
    fn of(&self, dataset: &Dataset, slugs: &Slugs) -> Result<Arc<[u32]>, Unselected> {
        let key = (dataset.id.clone(), slugs.clone());
        let mut needed = self.0.lock();
        if let Some(positions) = needed.get(&key).and_then(Weak::upgrade) {
            return Ok(positions);
        }
        let positions: Arc<[u32]> = dataset.select(slugs, None)?.into();
        needed.retain(|_, positions| positions.strong_count() > 0);
        needed.insert(key, Arc::downgrade(&positions));
        Ok(positions)
    }
}

impl Dumps {
    /// The listings of the current snapshot with these slugs, and a strong tag of what is sent.
    pub(crate) async fn select(&self, kind: DumpKind, slugs: Slugs, client: IpAddr) -> Result<Tagged, NotSelected> {
        let state = self.0.clone();
        let household = household(client, state.settings.load().rate_limit.ipv6_prefix);
        // It takes long: the columns of a table are known when all its listings were read. Never closed.
        let turn = state.selecting.take(Some(household), 1).await;
        blocking(move || {
            let _until_done = turn;
            let published = state.current.get().ok_or(DumpError::Nothing)?;
            let dataset = &published.dataset;
            let positions = state.selections.of(dataset, &slugs)?;
            let form = Form::of(kind, dataset, &positions)?;
            let (removed, has_details) = (Vec::new(), kind == DumpKind::Details);
            let all =
                Selection { published: published.clone(), positions, removed, form, has_details, state, _held: None };
            Ok(all.tagged(&format!("{kind:?} {slugs:?}"))?)
        })
        .await
    }
}

impl Selected {
    /// The next piece; `None` at the end. Fails when the snapshot was replaced more than [`PATIENCE`] ago.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let (from, all) = (self.sent?, self.all.clone());
        // A confirmed snapshot is the same one.
        if all.state.current.get().is_none_or(|current| current.dataset.id != all.published.dataset.id) {
            let now = all.state.clock.now_mono();
            if now.since(*self.replaced.get_or_insert(now)) > PATIENCE {
                return Some(Err(io::Error::other("another snapshot was published meanwhile")));
            }
        }
        match blocking(move || all.piece(from)).await {
            Ok((piece, sent)) => {
                self.sent = sent;
                Some(Ok(piece))
            }
            Err(error) => Some(Err(io::Error::other(error))),
        }
    }
}

impl Selection {
    /// All of it. `what`: what was asked for.
    pub(super) fn tagged(self, what: &str) -> Result<Tagged, DumpError> {
        // What changes while it is sent changes the tag of the next answer. Revisions begin anew with each process.
        let revision = self.has_details.then(|| (self.state.process, self.state.details.revision()));
        let of = format!("{what} {} {revision:?} {}", self.published.dataset.id, env!("CARGO_PKG_VERSION"));
        let tag = strong_tag(&blake3::hash(of.as_bytes()).to_hex()[..32])?;
        let published = self.published.clone();
        Ok((Selected { all: Arc::new(self), sent: Some(0), replaced: None }, published, tag))
    }

    /// What comes after so many listings, and how many are sent then.
    fn piece(&self, from: usize) -> Result<(Bytes, Option<usize>), DumpError> {
        let (dataset, mut out) = (&self.published.dataset, Vec::new());
        if from == 0 {
            self.form.begin(dataset, &mut out);
        }
        let most = if self.has_details { MOST_DETAILS } else { usize::MAX };
        let left = self.positions.get(from..).unwrap_or_default();
        let left = &left[..left.len().min(most)];
        let ids = left.iter().filter(|_| self.has_details);
        let ids: Vec<ListingId> = ids.map(|position| dataset.content.summaries[*position as usize].id).collect();
        let mut details = self.has_details.then(|| self.state.details.bodies(&ids));
        let mut sent = from;
        for position in left {
            let detail = details.as_mut().and_then(Iterator::next).transpose()?.flatten();
            self.form.listing(dataset, (*position, sent), detail, &mut out)?;
            sent += 1;
            if out.len() >= PIECE {
                break;
            }
        }
        let gone = sent.checked_sub(self.positions.len()).map(|sent| &self.removed[sent..]);
        for id in gone.unwrap_or_default() {
            if out.len() >= PIECE {
                break;
            }
            self.form.removed(*id, &mut out);
            sent += 1;
        }
        let is_over = sent == self.positions.len() + self.removed.len();
        if is_over {
            self.form.end(dataset, &mut out);
        }
        Ok((out.into(), (!is_over).then_some(sent)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::MOST_CHANGES;
    use super::*;
    use crate::api::hash::ContentHash;
    use crate::api::listing::Summary;
    use crate::api::page::{Envelope, EnvelopeField};
    use crate::cache::Cache;
    use crate::clock::{Clock, FakeClock, WallTime};
    use crate::config::{Config, Settings};
    use crate::mirror::details::Details;
    use crate::snapshot::content::Content;
    use crate::snapshot::dataset::Dataset;
    use crate::snapshot::membership::Evidence;
    use crate::snapshot::meta::SnapshotMeta;
    use crate::snapshot::pointer::SnapshotPointer;
    use crate::snapshots::{Policy, Snapshots};
    use crate::store::{DataDir, States, Store};

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    struct Rig {
        snapshots: Snapshots,
        dumps: Dumps,
        clock: FakeClock,
        _dir: tempfile::TempDir,
    }

    impl Rig {
        fn new() -> Self {
            let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::fake(WallTime::from_seconds(1 << 30)));
            let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
            let settings = Settings::new(Config::default());
            let policy = Policy { settings: settings.clone(), has_origin: true, origins: Vec::new() };
            let snapshots = Snapshots::new(store.clone(), SnapshotPointer::default(), policy, clock.clock());
            snapshots.restore().unwrap();
            let details = Details::open(store, Cache::new(1 << 20), snapshots.newest().clone()).unwrap();
            let dumps = Dumps::new(snapshots.clone(), details, dir.path().to_owned(), settings, clock.clock());
            Self { snapshots, dumps, clock, _dir: dir }
        }

        /// Publishes several pieces of listings.
        fn publish(&self, word: &str) {
            let summary = |id: u64| {
                let raw = Bytes::from(format!(r#"{{"id":{id},"name":"{}"}}"#, word.repeat(PIECE / 64)));
                Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
            };
            let content = Content {
                envelope: Envelope {
                    fields: vec![EnvelopeField::Items],
                    empty_filters: "[]".into(),
                    ..Envelope::default()
                },
                taxonomies: [Arc::from("[]"), Arc::from("[]"), Arc::from("[]")],
                summaries: (1..300).map(summary).collect(),
            };
            let dataset = Arc::new(Dataset::build(content, &Evidence::new()).unwrap());
            let (seen, meta) = (self.snapshots.newest().epoch(), SnapshotMeta::full(1));
            self.snapshots.publish(seen, &dataset, meta, States::default()).unwrap();
        }

        /// A download of everything that has just begun.
        async fn begun(&self) -> Selected {
            let (mut selected, ..) = self.dumps.select(DumpKind::Ndjson, Slugs::default(), CLIENT).await.unwrap();
            assert!(!selected.next().await.unwrap().unwrap().is_empty());
            selected
        }
    }

    #[tokio::test]
    async fn a_replaced_snapshot_is_sent_for_a_minute_and_then_its_downloads_end_visibly() {
        let rig = Rig::new();
        rig.publish("old");
        let (mut quick, mut slow, mut idle) = (rig.begun().await, rig.begun().await, rig.begun().await);
        rig.publish("new");
        let mut sent = 0;
        for _ in 0..2 {
            for selected in [&mut quick, &mut slow] {
                let piece = selected.next().await.unwrap().unwrap();
                assert!(piece.starts_with(b"{\"id\":") && memchr::memmem::find(&piece, b"new").is_none());
            }
            rig.clock.advance(PATIENCE / 3);
        }
        while let Some(piece) = quick.next().await {
            sent += memchr::memchr_iter(b'\n', &piece.unwrap()).count();
        }
        assert!(sent > 100, "the rest of the old one: {sent}");
        rig.clock.advance(PATIENCE / 2);
        assert!(slow.next().await.unwrap().is_err());
        // One that has not been looked at for long has its time from then on.
        assert!(idle.next().await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn the_last_line_of_changes_is_missing_if_the_rest_is() {
        let rig = Rig::new();
        rig.publish("old");
        let first = rig.snapshots.current().get().unwrap().dataset.id.to_string();
        rig.publish("new");
        let (mut selected, ..) = rig.dumps.changes(first.as_str().into(), CLIENT).await.unwrap();
        let mut all = selected.next().await.unwrap().unwrap().to_vec();
        rig.publish("newer");
        assert!(selected.next().await.unwrap().is_ok());
        rig.clock.advance(PATIENCE + Duration::from_secs(1));
        let end = selected.next().await.unwrap();
        assert!(end.is_err() && memchr::memmem::find(&all, b"\"next\"").is_none());
        let (mut selected, ..) = rig.dumps.changes(first.into(), CLIENT).await.unwrap();
        all.clear();
        while let Some(piece) = selected.next().await {
            all.extend_from_slice(&piece.unwrap());
        }
        let lines: Vec<&[u8]> = all.split_inclusive(|byte| *byte == b'\n').collect();
        assert!(lines.len() == 300 && lines[299].starts_with(b"{\"snapshot\":\""), "{}", lines.len());
    }

    #[tokio::test]
    async fn a_client_downloads_changes_a_few_times_at_once_and_others_as_well() {
        let rig = Rig::new();
        rig.publish("old");
        let id = rig.snapshots.current().get().unwrap().dataset.id.to_string();
        let asked = |client| rig.dumps.changes(id.as_str().into(), client);
        let mut begun = Vec::new();
        for _ in 0..MOST_CHANGES {
            begun.push(asked(CLIENT).await.unwrap());
        }
        assert!(matches!(asked(CLIENT).await, Err(NotSelected::Many)));
        assert!(asked(IpAddr::V4(Ipv4Addr::BROADCAST)).await.is_ok());
        begun.pop();
        assert!(asked(CLIENT).await.is_ok());
    }

    #[test]
    fn all_who_download_the_same_part_share_its_positions_and_nobodys_are_kept() {
        let sports = r#"[{"slug":"golf","name":"golf","count":1}]"#;
        let summary = |(id, sport): (u64, &str)| {
            let raw = format!(r#"{{"id":{id},"sport":"{sport}"}}"#);
            Summary { id: ListingId(id), hash: ContentHash::of(raw.as_bytes()), raw: raw.into() }
        };
        let summaries = (1..).zip(["tennis", "golf"]).map(summary).collect();
        let taxonomies = [sports.into(), "[]".into(), "[]".into()];
        let content = Content { envelope: Envelope::default(), taxonomies, summaries };
        let dataset = Dataset::build(content, &Evidence::new()).unwrap();
        let selections = Selections::default();
        let of = |sport: Option<&str>| selections.of(&dataset, &[sport.map(Into::into), None, None]).unwrap();
        let golf = of(Some("golf"));
        assert_eq!(*golf, [1]);
        assert!(Arc::ptr_eq(&golf, &of(Some("golf"))));
        drop(golf);
        assert_eq!(*of(None), [0, 1]);
        assert_eq!(selections.0.lock().len(), 1);
    }
}
