//! The snapshots' promises, on a real store.

mod checkpoints;
mod imports;

use bytes::Bytes;

use imports::import;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::config::Config;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;
use crate::data::store::{Arriving, DataDir, DetailMeta, DetailRecord, DetailState};

const HAS_ORIGIN: bool = true;

struct Rig {
    snapshots: Snapshots,
    dir: tempfile::TempDir,
}

impl Rig {
    fn new(keep: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { snapshots: open(dir.path(), keep, HAS_ORIGIN), dir }
    }

    fn reopen(self, keep: u32, has_origin: bool) -> Self {
        let Self { snapshots, dir } = self;
        drop(snapshots);
        Self { snapshots: open(dir.path(), keep, has_origin), dir }
    }

    /// Publishes these listings as the mirror does, and returns their snapshot's id.
    fn publish(&self, ids: &[u64], at_ms: i64) -> String {
        let dataset = Arc::new(Dataset::build(content(ids), &Evidence::new()).unwrap());
        self.snapshots.publish(self.snapshots.newest().epoch(), &dataset, meta(at_ms), States::default()).unwrap();
        dataset.id.to_string()
    }

    fn served(&self) -> String {
        self.snapshots.current().get().unwrap().dataset.id.to_string()
    }

    fn newest(&self) -> String {
        self.snapshots.newest().get().unwrap().dataset.id.to_string()
    }

    fn kept(&self) -> Vec<String> {
        self.snapshots.view().kept.iter().map(|kept| kept.id.to_string()).collect()
    }
}

fn open(path: &std::path::Path, keep: u32, has_origin: bool) -> Snapshots {
    let store = Arc::new(Store::open(&DataDir::open(path).unwrap()).unwrap());
    let mut config = Config::default();
    (config.mirror.keep, config.mirror.keep_daily) = (keep, 0);
    let policy =
        Policy { settings: Settings::new(config), has_origin, origins: vec!["https://alias.example/".to_owned()] };
    let snapshots = Snapshots::new(store, SnapshotPointer::default(), policy, Clock::system());
    snapshots.restore().unwrap();
    snapshots
}

fn content(ids: &[u64]) -> Content {
    let summary = |id: &u64| {
        let raw = Bytes::from(format!(r#"{{"id":{id},"name":"v{id}","modified":"2026-01-01T00:00:00Z"}}"#));
        Summary { id: ListingId(*id), hash: ContentHash::of(&raw), raw }
    };
    Content {
        envelope: Envelope { fields: vec![EnvelopeField::Items], empty_filters: "[]".into(), ..Envelope::default() },
        taxonomies: [Arc::from("[]"), Arc::from("[]"), Arc::from("[]")],
        summaries: ids.iter().map(summary).collect(),
    }
}

fn meta(at_ms: i64) -> SnapshotMeta {
    SnapshotMeta::full(at_ms)
}

/// Whoever sees a switch in the list of snapshots sees it everywhere from then on.
#[test]
fn the_list_of_snapshots_is_never_ahead_of_what_is_served() {
    let rig = Rig::new(3);
    rig.publish(&[1], 1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (2..300_u32).for_each(|n| drop(rig.publish(&[1, n.into()], n.into()))));
        while !writer.is_finished() {
            let listed = rig.snapshots.view().kept.first().map(|kept| kept.seq);
            let (newest, current) = (rig.snapshots.newest().get(), rig.snapshots.current().get());
            assert!(listed <= newest.map(|newest| newest.seq), "the newest");
            assert!(listed <= current.map(|current| current.seq), "the one that is served");
        }
    });
}

#[test]
fn a_rollback_is_served_until_it_is_released_and_newer_snapshots_wait() {
    let rig = Rig::new(9);
    let (one, two) = (rig.publish(&[1, 2], 1), rig.publish(&[2, 3], 2));
    assert_eq!(rig.snapshots.rollback(&one).unwrap().newest.unwrap().as_str(), two);
    assert_eq!((rig.served(), rig.newest()), (one.clone(), two.clone()));
    let three = rig.publish(&[3, 4, 5], 3);
    assert_eq!((rig.served(), rig.newest()), (one.clone(), three.clone()));
    let rolled_back = rig.snapshots.rolled_back().unwrap();
    assert_eq!((rolled_back.served.as_str(), rolled_back.newest.unwrap().as_str()), (one.as_str(), three.as_str()));

    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!((rig.served(), rig.newest()), (one.clone(), three.clone()), "over a restart");
    assert_eq!(rig.snapshots.release().unwrap().as_str(), three);
    assert!(matches!(rig.snapshots.release(), Err(SnapshotsError::NotRolledBack)));
    assert!(rig.snapshots.rolled_back().is_none());
    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!((rig.served(), rig.newest()), (three.clone(), three.clone()));

    // What clients saw, one after the other.
    let journal = rig.snapshots.journal();
    let ids: Vec<_> = journal.entries().map(|entry| (entry.from.to_string(), entry.to.to_string())).collect();
    assert_eq!(ids, [(one.clone(), two.clone()), (two, one.clone()), (one.clone(), three.clone())]);
    let changes = journal.since(&one, &three).unwrap();
    assert_eq!(changes.added, [3, 4, 5].map(ListingId));
    assert_eq!(changes.removed, [1, 2].map(ListingId));
}

#[test]
fn what_was_served_until_now_is_not_read_to_be_served_again() {
    let rig = Rig::new(5);
    let first = rig.publish(&[1, 2], 1_000);
    let was = rig.snapshots.current().get().unwrap();
    rig.publish(&[1, 2, 3], 2_000);
    assert!(Arc::ptr_eq(&rig.snapshots.load(&first).unwrap(), &was));
    rig.snapshots.rollback(&first).unwrap();
    assert!(Arc::ptr_eq(&rig.snapshots.current().get().unwrap().dataset, &was.dataset));
}

#[test]
fn rolling_back_to_what_is_served_holds_it() {
    let rig = Rig::new(9);
    let one = rig.publish(&[1], 1);
    rig.snapshots.rollback(&one).unwrap();
    let two = rig.publish(&[2], 2);
    assert_eq!((rig.served(), rig.newest()), (one.clone(), two));
    let error = rig.snapshots.rollback("none").unwrap_err();
    assert!(error.to_string().contains(&one), "{error}");
    assert_eq!(rig.served(), one);
    // The origin goes back to it.
    assert_eq!(rig.publish(&[1], 3), one, "equal data has equal ids");
    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!(rig.snapshots.rolled_back().unwrap().newest.unwrap().as_str(), one);
    assert_eq!(rig.snapshots.release().unwrap().as_str(), one);
    assert_eq!((rig.publish(&[3], 4), rig.newest()), (rig.served(), rig.served()));
}

#[test]
fn snapshots_go_but_for_pins_what_is_served_the_newest_and_bases_of_exports() {
    let rig = Rig::new(2);
    let ids: Vec<String> = (1..=7).map(|n| rig.publish(&[n], n.cast_signed())).collect();
    rig.snapshots.pin(&ids[0]).unwrap();
    let exported = |rig: &Rig, id: &str| {
        rig.snapshots.remember_export(&SnapshotId::parse(id).unwrap(), None, None).unwrap();
    };
    exported(&rig, &ids[1]);
    rig.snapshots.rollback(&ids[2]).unwrap();
    rig.snapshots.tidy().unwrap();
    let newest_first = |places: &[usize]| places.iter().map(|place| ids[*place].clone()).collect::<Vec<_>>();
    assert_eq!(rig.kept(), newest_first(&[6, 5, 2, 1, 0]));
    assert!(matches!(rig.snapshots.pin(&ids[3]), Err(SnapshotsError::Unknown(_))));
    assert!(matches!(rig.snapshots.load(&ids[3]), Err(SnapshotsError::Unknown(_))));
    assert_eq!(rig.snapshots.load(&ids[1]).unwrap().dataset.id.as_str(), ids[1]);

    let rig = rig.reopen(2, HAS_ORIGIN);
    rig.snapshots.release().unwrap();
    rig.snapshots.unpin(&ids[0]).unwrap();
    for id in [&ids[6], &ids[5], &ids[6], &ids[2], &ids[5]] {
        exported(&rig, id);
    }
    rig.snapshots.tidy().unwrap();
    assert_eq!(rig.kept(), newest_first(&[6, 5, 2]), "the last three exports are of these");
    assert!(rig.snapshots.unpin(&ids[0]).is_err());
}

#[test]
fn where_a_change_is_lost_those_before_it_go() {
    let rig = Rig::new(9);
    let ids: Vec<String> = (1..=5).map(|n| rig.publish(&[n, n + 1], n.cast_signed())).collect();
    let names = |rig: &Rig| -> Vec<String> {
        let states = rig.snapshots.store().states_of(changes::JOURNAL).unwrap();
        states.into_iter().map(|(name, _)| name).collect()
    };
    let before = names(&rig);
    assert_eq!(before.len(), 4);
    rig.snapshots.store().put_state(&before[1], b"nothing that was written").unwrap();
    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!(names(&rig), before[2..]);
    let journal = rig.snapshots.journal();
    assert_eq!(journal.entries().map(|entry| entry.from.to_string()).collect::<Vec<_>>(), ids[2..4]);
    rig.publish(&[9], 9);
    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!(rig.snapshots.journal().entries().count(), 3);
}

#[test]
fn a_heal_keeps_what_is_remembered_of_snapshots() {
    let rig = Rig::new(9);
    let ids: Vec<String> = (1..=3).map(|n| rig.publish(&[n, n + 1], n.cast_signed())).collect();
    rig.snapshots.pin(&ids[0]).unwrap();
    rig.snapshots.rollback(&ids[1]).unwrap();
    // Lost, as with a damaged page.
    for name in ["versions/pins", "versions/rollback"] {
        rig.snapshots.store().remove_state(name).unwrap();
    }
    rig.snapshots.heal().unwrap();
    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!((rig.served(), rig.newest()), (ids[1].clone(), ids[2].clone()));
    assert!(rig.snapshots.find(&ids[0]).is_ok() && rig.snapshots.view().pins.contains(&ids[0]));
    assert_eq!(rig.snapshots.journal().entries().count(), 3);
}

#[test]
fn of_snapshots_with_the_same_content_one_counts() {
    let rig = Rig::new(3).reopen(3, !HAS_ORIGIN);
    let put = |id: u64, at_ms| import(&rig.snapshots, &[id], at_ms, &[]).unwrap().snapshot.to_string();
    let (one, two, three) = (put(1, 1), put(2, 2), put(3, 3));
    for at_ms in 4..9_i64 {
        put(2 + at_ms.cast_unsigned() % 2, at_ms);
        rig.snapshots.tidy().unwrap();
        let mut kept = rig.kept();
        kept.sort();
        let mut expected = vec![one.clone(), two.clone(), three.clone()];
        expected.sort();
        assert_eq!(kept, expected, "{at_ms}");
    }
}

#[test]
fn what_is_being_exported_stays_until_somebody_has_it() {
    let rig = Rig::new(1);
    let one = rig.publish(&[1], 1);
    let hold = export::Hold::on(&rig.snapshots, rig.snapshots.current().get().unwrap().seq);
    let two = rig.publish(&[2], 2);
    rig.snapshots.tidy().unwrap();
    assert_eq!(rig.kept(), [two.clone(), one.clone()]);
    // Also when another with the same content has come and gone.
    let again = rig.publish(&[1], 3);
    assert_eq!(again, one);
    let four = rig.publish(&[4], 4);
    rig.snapshots.tidy().unwrap();
    assert!(rig.kept().contains(&one), "{:?}", rig.kept());
    drop(hold);
    rig.snapshots.tidy().unwrap();
    assert_eq!(rig.kept(), [four]);
}

#[test]
fn every_kept_snapshot_can_be_verified() {
    let rig = Rig::new(9);
    let ids = [rig.publish(&[1, 2], 1), rig.publish(&[2, 3], 2)];
    let verified = rig.snapshots.verify_all().unwrap();
    let told: Vec<_> = verified.iter().map(|(kept, damage)| (kept.id.to_string(), damage.clone())).collect();
    assert_eq!(told, ids.map(|id| (id, None)).into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_stamp_from_the_future_confirms_once_the_clock_has_passed_it() {
    let rig = Rig::new(5).reopen(5, !HAS_ORIGIN);
    let stamp = Clock::system().now_wall().plus_seconds(3600);
    import(&rig.snapshots, &[1, 2], stamp.as_millis(), &[]).unwrap();
    let rig = rig.reopen(5, !HAS_ORIGIN);
    let served = rig.snapshots.current().get().unwrap();
    assert!(served.confirmed() < stamp && served.claimed() == stamp);
    assert_eq!(served.confirmed_header.as_ref().unwrap().to_str().ok(), stamp.http_date().as_deref());
    for (after, age) in [(-3600, None), (-60, None), (0, Some(0)), (10, Some(10))] {
        assert_eq!(served.age_seconds(stamp.plus_seconds(after)), age, "{after}");
        assert_eq!(served.is_unconfirmed(stamp.plus_seconds(after)), age.is_none());
    }
}

#[test]
fn a_stamp_from_the_future_confirms_nothing() {
    let ttl = Duration::from_secs(300);
    let now = WallTime::from_seconds(1_000_000);
    let meta = |confirmed: i64, published: i64| SnapshotMeta {
        published_ms: published * 1000,
        ..SnapshotMeta::full(confirmed * 1000)
    };
    for (confirmed, published, age) in
        [(999_990, 999_000, 10), (1_000_003, 999_000, 0), (1_003_600, 999_000, 1000), (1_003_600, 1_003_500, 901)]
    {
        let believed = believable(&meta(confirmed, published), now, ttl);
        assert_eq!(now.seconds_since(WallTime::from_millis(believed)), age, "{confirmed} {published}");
    }
}
