//! Downloads: beside publications, and beside each other.

use std::net::Ipv4Addr;

use super::super::MOST_DOWNLOADS;
use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::Summary;
use crate::api::page::{Envelope, EnvelopeField};
use crate::clock::{Clock, FakeClock, WallTime};
use crate::config::{Config, Settings};
use crate::data::cache::Cache;
use crate::data::details::Details;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::snapshots::{Policy, Snapshots};
use crate::data::store::{DataDir, States, Store};
use crate::edge::search::Searches;

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
        let searches = Searches::new(snapshots.current().clone(), settings.clone());
        let dumps = Dumps::new(snapshots.clone(), details, searches, settings, clock.clock());
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

    async fn begun(&self) -> Download {
        let chosen = self.dumps.choose(DumpKind::Ndjson, FileQuery::default(), CLIENT).await.unwrap();
        let mut selected = chosen.open(Coding::Identity, None).await.unwrap();
        assert!(!selected.next().await.unwrap().unwrap().is_empty());
        selected
    }
}

#[tokio::test]
async fn tables_of_details_hold_up_no_other_file() {
    let rig = Rig::new();
    rig.publish("word");
    let mut tables = Vec::new();
    for last in 2..4 {
        let other = Some(IpAddr::from([127, 0, 0, last]));
        tables.push(rig.dumps.0.opening_details.take(other, 1).await.unwrap());
    }
    let table = rig.dumps.choose(DumpKind::DetailsCsv, FileQuery::default(), CLIENT).await.unwrap();
    let mut opening = Box::pin(table.open(Coding::Identity, None));
    assert!(futures_util::poll!(opening.as_mut()).is_pending(), "it waits for its turn");
    rig.begun().await;
    drop(tables);
    assert!(opening.await.is_ok());
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
    for _ in 0..MOST_DOWNLOADS {
        begun.push(asked(CLIENT).await.unwrap());
    }
    assert!(matches!(asked(CLIENT).await, Err(NotSelected::Many)));
    assert!(asked(IpAddr::V4(Ipv4Addr::BROADCAST)).await.is_ok());
    begun.pop();
    assert!(asked(CLIENT).await.is_ok());
}

#[tokio::test]
async fn whoever_downloads_the_same_is_sent_the_same_pieces_and_others_are_not() {
    let rig = Rig::new();
    rig.publish("old");
    let first = async |query: &str| {
        let query = FileQuery::parse(query, true).unwrap();
        let chosen = rig.dumps.choose(DumpKind::Csv, query, CLIENT).await.unwrap();
        let tag = chosen.tag(Coding::Identity).unwrap();
        let mut selected = chosen.open(Coding::Identity, None).await.unwrap();
        (tag, selected.next().await.unwrap().unwrap())
    };
    let (one, same, other) = (first("").await, first("").await, first("bom=1").await);
    assert!(one.0 == same.0 && one.1.as_ptr() == same.1.as_ptr());
    assert!(one.0 != other.0 && other.1.starts_with(b"\xef\xbb\xbf"));
    rig.publish("new");
    assert!(first("").await.0 != one.0);
}

#[tokio::test]
async fn so_many_downloads_are_sent_in_a_coding_and_the_tag_says_in_which() {
    let rig = Rig::new();
    rig.publish("old");
    let chosen = || rig.dumps.choose(DumpKind::Ndjson, FileQuery::default(), CLIENT);
    let mut held = Vec::new();
    for _ in 0..super::super::MOST_CODED_OF_ONE {
        held.push(chosen().await.unwrap().may_code().unwrap());
    }
    let one = chosen().await.unwrap();
    assert!(one.may_code().is_none());
    held.pop();
    let portion = one.may_code();
    assert!(portion.is_some());
    assert_ne!(one.tag(Coding::Zstd).unwrap(), one.tag(Coding::Identity).unwrap());
    let mut all = Vec::new();
    let mut coded = one.open(Coding::Zstd, portion).await.unwrap();
    while let Some(piece) = coded.next().await {
        all.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(zstd::decode_all(&all[..]).unwrap().split(|byte| *byte == b'\n').count(), 300);
}
