//! Imports: what is newer, which origin it comes from, and what an import that breaks off leaves.

use super::*;
use crate::data::snapshot::verdicts::told::Told;
use crate::data::snapshots::import::{Plan, Trust};

pub(super) fn detail(id: u64, text: &str) -> (ListingId, DetailRecord) {
    let body = Bytes::from(text.to_owned());
    let meta = DetailMeta {
        state: DetailState::Present,
        etag: None,
        last_modified: None,
        origin_time_ms: 1,
        fetched_ms: 1,
        summary_hash: ContentHash::default(),
        hash: ContentHash::of(&body),
    };
    (ListingId(id), DetailRecord { meta, body })
}

/// An import of a later state.
pub(super) fn import(
    snapshots: &Snapshots,
    ids: &[u64],
    at_ms: i64,
    details: &[(u64, &str)],
) -> Result<Imported, SnapshotsError> {
    import_with(snapshots, ids, meta(at_ms), details, false)
}

fn along<'a>(details: &'a Arriving<'a>) -> WrittenAlong<'a> {
    WrittenAlong { rewrites: true, details: Some(details), details_bytes: 100, ..WrittenAlong::default() }
}

fn plan(ids: &[u64], meta: SnapshotMeta) -> Plan {
    Plan { content: content(ids), meta, evidence: Evidence::new(), told: Told::default() }
}

fn import_with(
    snapshots: &Snapshots,
    ids: &[u64],
    meta: SnapshotMeta,
    details: &[(u64, &str)],
    allow_older: bool,
) -> Result<Imported, SnapshotsError> {
    let stream = || -> Result<crate::data::store::DetailStream<'_>, StoreError> {
        Ok(Box::new(details.iter().map(|(id, text)| Ok(detail(*id, text)))))
    };
    let details = Arriving { stream: &stream, stays: &|_, _, _| false };
    snapshots.replace(plan(ids, meta), along(&details), Feed::Own, &Trust::Operator { allow_older }, &|| {})
}

#[test]
fn an_import_is_the_newest_with_its_details_and_never_takes_an_origins_data_back() {
    let rig = Rig::new(9);
    let mirrored = rig.publish(&[1, 2], 100);
    let seen = rig.snapshots.newest().epoch();
    let error = import(&rig.snapshots, &[9], 99, &[]).unwrap_err();
    assert!(matches!(&error, SnapshotsError::Refused(why) if why.contains("but the mirror already has")), "{error}");
    assert_eq!(rig.served(), mirrored);
    let imported = import(&rig.snapshots, &[1, 9], 200, &[(9, "{}")]).unwrap();
    assert_eq!(
        (imported.before.unwrap().as_str(), imported.is_served, imported.is_older),
        (mirrored.as_str(), true, false)
    );
    assert_eq!(rig.snapshots.store().detail(ListingId(9)).unwrap().unwrap().body, "{}");
    let next = Arc::new(Dataset::build(content(&[4]), &Evidence::new()).unwrap());
    assert!(matches!(rig.snapshots.publish(seen, &next, meta(300), States::default()), Err(SnapshotsError::Moved)));
    assert!(matches!(rig.snapshots.renew(seen, meta(300)), Err(SnapshotsError::Moved)));

    // Without an origin it is the operator who says what is served.
    let rig = rig.reopen(9, !HAS_ORIGIN);
    let error = import(&rig.snapshots, &[7], 50, &[]).unwrap_err();
    assert!(matches!(&error, SnapshotsError::Refused(why) if why.contains("--allow-older")), "{error}");
    let older = import_with(&rig.snapshots, &[7], meta(50), &[], true).unwrap();
    assert!(older.is_older && older.is_served);
    assert_eq!(rig.served(), older.snapshot.as_str());
    rig.snapshots.rollback(&mirrored).unwrap();
    assert!(!import(&rig.snapshots, &[8], 400, &[]).unwrap().is_served);
    assert_eq!(rig.served(), mirrored);
}

#[test]
fn what_is_imported_is_compared_with_the_latest_that_ever_was() {
    let now = Clock::system().now_wall().as_millis();
    let rig = Rig::new(1).reopen(1, !HAS_ORIGIN);
    let refused = |rig: &Rig, at_ms| {
        let served = rig.served();
        let error = import(&rig.snapshots, &[7], at_ms, &[]).unwrap_err();
        assert!(matches!(&error, SnapshotsError::Refused(why) if why.contains("--allow-older")), "{error}");
        assert_eq!(rig.served(), served);
    };
    import(&rig.snapshots, &[1], 100, &[]).unwrap();
    import(&rig.snapshots, &[2], 100, &[]).unwrap();
    refused(&rig, 99);
    // The record outlives the snapshot, and restarts.
    import(&rig.snapshots, &[3], 200, &[]).unwrap();
    let rig = rig.reopen(1, !HAS_ORIGIN);
    refused(&rig, 199);
    assert!(import_with(&rig.snapshots, &[4], meta(150), &[], true).unwrap().is_older);
    refused(&rig, 199);
    import(&rig.snapshots, &[5], 200, &[]).unwrap();
    // What claims to be of tomorrow counts as now: what is of now is refused no longer than until then.
    import(&rig.snapshots, &[6], now + 86_400_000, &[]).unwrap();
    refused(&rig, now - 1);
    import(&rig.snapshots, &[8], Clock::system().now_wall().as_millis(), &[]).unwrap();
    import(&rig.snapshots, &[9], now + 86_400_000, &[]).unwrap();
    // Where the record is lost, the kept snapshots count as imported if there is no origin.
    rig.snapshots.store().remove_state("import/highest").unwrap();
    refused(&rig, 300);
}

#[test]
fn an_import_from_the_future_counts_as_old_as_can_be_known_and_is_kept_as_it_says() {
    let rig = Rig::new(9).reopen(9, !HAS_ORIGIN);
    let now = || Clock::system().now_wall().as_millis();
    let ahead = now() + 3_600_000;
    import(&rig.snapshots, &[1, 2], ahead, &[]).unwrap();
    for current in [rig.snapshots.current(), rig.snapshots.newest()] {
        assert!(current.get().unwrap().meta.confirmed_ms <= now());
    }
    let rig = rig.reopen(9, !HAS_ORIGIN);
    assert!(rig.snapshots.current().get().unwrap().meta.confirmed_ms <= now());
    assert_eq!(rig.snapshots.view().kept[0].meta.confirmed_ms, ahead);
    // Nor does it when it is served again later.
    let id = rig.served();
    import(&rig.snapshots, &[3], now(), &[]).unwrap();
    let rig = rig.reopen(9, !HAS_ORIGIN);
    rig.snapshots.rollback(&id).unwrap();
    assert_eq!(rig.served(), id);
    assert!(rig.snapshots.current().get().unwrap().meta.confirmed_ms <= now());
}

#[test]
fn instants_that_no_clock_shows_are_imported_and_confirm_nothing() {
    for at_ms in [i64::MIN, -1, i64::MAX] {
        let rig = Rig::new(9).reopen(9, !HAS_ORIGIN);
        import(&rig.snapshots, &[1], at_ms, &[]).unwrap();
        let rig = rig.reopen(9, !HAS_ORIGIN);
        let (served, now) = (rig.snapshots.current().get().unwrap(), Clock::system().now_wall());
        assert!(served.confirmed() <= now, "{at_ms}: {}", served.confirmed());
        assert!(served.age_seconds(now).is_none_or(|age| at_ms > 0 || age > 1_000_000), "{at_ms}");
        import(&rig.snapshots, &[2], now.as_millis(), &[]).unwrap();
    }
}

#[test]
fn another_origins_data_is_imported_where_there_is_none_yet() {
    let rig = Rig::new(9);
    let from = |ids: &[u64], at_ms: i64, origin: &str| {
        let origin = Some(origin.to_owned());
        import_with(&rig.snapshots, ids, SnapshotMeta { origin, ..meta(at_ms) }, &[], false)
    };
    let told = from(&[1], 100, "https://one.example").unwrap().foreign.unwrap();
    assert!(told.contains("https://one.example") && told.contains("https://alias.example"), "{told}");
    assert!(from(&[2], 200, "https://one.example/").unwrap().foreign.is_some());
    assert_eq!(from(&[3], 300, "https://alias.example").unwrap().foreign, None);
    let error = from(&[4], 400, "https://two.example").unwrap_err();
    assert!(matches!(&error, SnapshotsError::Refused(why) if why.contains("origin.aliases")), "{error}");
    let told = from(&[4], 400, &format!("https://two.example\n\u{1b}[2J{}", "x".repeat(9000))).unwrap_err().to_string();
    assert!(told.len() < 2000 && !told.contains(char::is_control), "{told}");
    assert_eq!(rig.snapshots.view().kept.len(), 3);
}

#[test]
fn an_import_that_breaks_off_changes_nothing() {
    let rig = Rig::new(9);
    let one = rig.publish(&[1], 1);
    let broken = || -> Result<crate::data::store::DetailStream<'_>, StoreError> {
        let damaged = Err(StoreError::Damaged("a bundle that was exchanged".into()));
        Ok(Box::new([Ok(detail(1, "{\"new\":1}")), damaged].into_iter()))
    };
    let details = Arriving { stream: &broken, stays: &|_, _, _| false };
    let trust = Trust::Operator { allow_older: false };
    let broken = rig.snapshots.replace(plan(&[1, 2], meta(2)), along(&details), Feed::Own, &trust, &|| {});
    assert!(broken.is_err());
    assert_eq!((rig.served(), rig.newest(), rig.kept().len()), (one.clone(), one.clone(), 1));
    assert!(rig.snapshots.store().detail(ListingId(1)).unwrap().is_none());
    let rig = rig.reopen(9, HAS_ORIGIN);
    assert_eq!((rig.served(), rig.snapshots.journal().len()), (one, 0));
}
