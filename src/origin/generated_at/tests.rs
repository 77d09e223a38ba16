//! Belief in stamps, and what an answer speaks for.

use super::*;
use crate::origin::status::Progress;
use crate::protocol::freshness::Stamps;

const TTL: Duration = Duration::from_secs(300);
const NOW: i64 = 1_000_000_000;

fn at(seconds: i64) -> WallTime {
    WallTime::from_seconds(seconds)
}

fn same(kept: i64) -> Before {
    Before { stamp: Some(at(kept)), changed: false, counts: true, fetched_ms: 0 }
}

fn changed(kept: i64) -> Before {
    Before { changed: true, ..same(kept) }
}

impl Known {
    fn sees(&mut self, stamp: i64, sent: i64, before: impl Into<Option<Before>>) -> StampUse {
        self.see(at(stamp), [at(sent); 2], before.into(), TTL)
    }
}

#[test]
fn the_first_stamp_is_believed_as_far_as_a_copy_can_be_old() {
    for (age, reading) in [
        (0, StampUse::Used),
        (-3, StampUse::Used),
        (-4, StampUse::Ahead),
        (300, StampUse::Used),
        (630, StampUse::Used),
        (631, StampUse::TooOld),
        (100 * 86_400, StampUse::TooOld),
        (-100 * 86_400, StampUse::Ahead),
    ] {
        assert_eq!(Known::default().sees(NOW - age, NOW, None), reading, "{age} s old");
    }
}

#[test]
fn a_stamp_that_stays_while_the_content_changes_is_never_used_again() {
    let mut known = Known::default();
    let old = NOW - 1000;
    assert_eq!(known.sees(old, NOW, same(old)), StampUse::TooOld);
    assert_eq!(known.sees(old, NOW, changed(old)), StampUse::StandsStill);
    // Neither is the stamp of the next deployment.
    assert_eq!(known.sees(NOW, NOW + 5, changed(old)), StampUse::StandsStill);
    assert_eq!(known.sees(NOW, NOW + 300, same(NOW)), StampUse::StandsStill);
}

#[test]
fn two_contents_of_one_second_are_no_proof_while_both_may_be_copies() {
    let mut known = Known::default();
    assert_eq!(known.sees(NOW - 200, NOW, changed(NOW - 200)), StampUse::Used);
    assert_eq!(known.pulse, StampBehaviour::Unproven);
}

#[test]
fn a_stamp_that_moves_with_the_clock_is_believed_for_a_day() {
    let mut known = Known::default();
    for look in 0..4 {
        let now = NOW + 100 * look;
        assert_eq!(known.sees(now - 250, now, same(now - 350)), StampUse::Used);
    }
    assert_eq!(known.pulse, StampBehaviour::Moves);
    let now = NOW + 10_000;
    assert_eq!(known.sees(NOW, now, changed(NOW + 50)), StampUse::Used, "an old copy");
    assert_eq!(known.sees(NOW, NOW + 86_401, changed(NOW + 50)), StampUse::TooOld);
    assert_eq!(known.sees(NOW, now, changed(NOW)), StampUse::StandsStill, "it moved once, and stopped");
}

#[test]
fn deployments_now_and_then_are_no_movement() {
    let mut known = Known::default();
    let mut kept = NOW - 1000;
    for deployment in 1..9 {
        let now = NOW + 1000 * deployment;
        known.sees(now - 10, now, same(kept));
        kept = now - 10;
        known.sees(kept, now + 200, same(kept));
    }
    assert_eq!(known.pulse, StampBehaviour::Unproven);
    assert_eq!(known.sees(kept, kept + 10_000, same(kept)), StampUse::TooOld);
}

#[test]
fn a_stamp_that_moves_ahead_of_the_date_proves_nothing() {
    let mut known = Known::default();
    for look in 0..9 {
        let now = NOW + 100 * look;
        assert_eq!(known.sees(now + 60, now, same(now - 40)), StampUse::Ahead);
    }
    assert_eq!(known.pulse, StampBehaviour::Unproven);
}

/// An answer that arrives at [`NOW`], with a header that says so.
fn answer(headers: &[(&'static str, &'static str)], date: i64, age: Option<u32>) -> Answer {
    let headers = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)));
    Answer {
        status: 200,
        headers: headers.collect(),
        body: bytes::Bytes::new(),
        stamps: Stamps { date: Some(at(date)), age },
        asked: at(NOW),
        received: at(NOW),
        lag_ms: 0,
        room: Arc::default(),
    }
}

fn body(stamp: i64) -> String {
    format!(r#"{{"generated_at":"{}"}}"#, at(stamp))
}

fn watch() -> StampWatch {
    StampWatch::new(OriginStatus::default(), TTL)
}

fn until(watch: &StampWatch, answer: &Answer, text: Option<&str>) -> i64 {
    watch.date(AnswerClass::Lists, answer, text, None).until_ms / 1000 - NOW
}

#[test]
fn a_doubt_ends_with_the_next_whole_pass_and_a_shorter_one_ends_no_other() {
    let watch = watch();
    let passes = |pass, passes| watch.status.update(|picture| (picture.pass, picture.passes) = (pass, passes));
    let shorter = watch.doubt();
    watch.doubt_no_more(shorter);
    assert_eq!(watch.validate(), [true, true]);
    watch.doubt();
    let shorter = watch.doubt();
    watch.doubt_no_more(shorter);
    assert_eq!(watch.validate(), [false, false]);
    passes(None, 1);
    assert_eq!(watch.validate(), [true, true]);
    // One that had begun may have asked before.
    passes(Some(Progress { done: 1, of: 9 }), 1);
    watch.doubt();
    passes(None, 2);
    assert_eq!(watch.validate(), [false, false]);
    passes(None, 3);
    assert_eq!(watch.validate(), [true, true]);
}

#[test]
fn a_tag_with_two_bodies_is_no_validator_if_validators_were_in_doubt() {
    let watch = watch();
    let same = Some("\"1\"".to_owned());
    let now = Validators { etag: same.clone(), last_modified: None };
    watch.differ([&same, &None], &now);
    assert_eq!(watch.validate(), [true, true]);
    let before = watch.doubt();
    watch.differ([&Some("\"0\"".to_owned()), &None], &now);
    watch.doubt_no_more(before);
    assert_eq!(watch.validate(), [true, true]);
    let before = watch.doubt();
    watch.differ([&same, &None], &now);
    watch.doubt_no_more(before);
    assert_eq!(watch.validate(), [false, true]);
}

#[test]
fn a_cache_that_keeps_the_date_is_as_old_as_one_that_sets_its_own() {
    for date in [NOW - 200, NOW] {
        let watch = watch();
        let aged = answer(&[], date, Some(200));
        assert_eq!(until(&watch, &aged, Some(&body(NOW - 200))), -200);
        assert_eq!(until(&watch, &aged, None), -200, "a 304");
        assert_eq!(watch.status.picture().stamps["lists"], "used");
        assert!(!watch.has_seen_silent_copies());
    }
}

#[test]
fn the_stamp_of_an_origin_that_is_ahead_is_innocent() {
    for lag_ms in [0, -120_000] {
        let watch = watch();
        // Copies of a cache that keeps the origin's date; the origin's clock may not be known yet.
        let ahead = Answer { lag_ms, ..answer(&[], NOW + 20, Some(100)) };
        assert_eq!(until(&watch, &ahead, Some(&body(NOW + 20))), -100, "{lag_ms}");
        assert_eq!(watch.status.picture().stamps["lists"], "used", "{lag_ms}");
    }
}

#[test]
fn once_a_silent_cache_was_seen_an_answer_without_age_confirms_the_time_before_its_copies() {
    let watch = watch();
    let plain = answer(&[], NOW, None);
    assert_eq!(until(&watch, &plain, None), 0, "nobody has seen a cache");
    assert_eq!(until(&watch, &plain, Some(&body(NOW - 100))), -100, "an old copy");
    assert!(watch.has_seen_silent_copies());
    assert_eq!(until(&watch, &plain, None), -300);
    let dated = watch.date(AnswerClass::Details, &plain, Some("{}"), None);
    assert_eq!((dated.until_ms, dated.claimed_ms), ((NOW - 300) * 1000, NOW * 1000), "it claims to be new");
    assert_eq!(until(&watch, &plain, Some(&body(NOW))), 0, "its stamp says so");
    assert_eq!(until(&watch, &answer(&[], NOW, Some(0)), None), 0, "an age says so");
    assert_eq!(until(&watch, &answer(&[("cache-control", "no-store")], NOW, None), None), 0, "no cache has it");
}

#[test]
fn where_caches_say_their_age_an_answer_without_one_is_no_copy() {
    let watch = watch();
    let plain = answer(&[], NOW, None);
    assert!(watch.may_be_silent(&plain), "nobody has seen a cache");
    until(&watch, &answer(&[], NOW, Some(5)), None);
    assert!(!watch.may_be_silent(&plain));
    assert!(watch.may_be_silent(&Answer { received: at(NOW + 3601), ..plain.clone() }), "an hour later");
    watch.saw_silent_copy(AnswerClass::Details);
    assert!(watch.may_be_silent(&plain), "another cache says nothing");
}

#[test]
fn a_cache_may_say_in_its_own_words_that_it_sends_a_copy() {
    for (name, value, is_copy) in [
        ("x-cache", "HIT", true),
        ("x-cache", "Hit from cloudfront", true),
        ("x-cache-status", "UPDATING", true),
        ("cf-cache-status", "STALE", true),
        ("cache-status", "edge; hit; ttl=30", true),
        ("x-cache", "MISS", false),
        ("cf-cache-status", "DYNAMIC", false),
        ("x-served-by", "hit", false),
    ] {
        let watch = watch();
        until(&watch, &answer(&[(name, value)], NOW, None), None);
        assert_eq!(watch.has_seen_silent_copies(), is_copy, "{name}: {value}");
        let with_age = self::watch();
        until(&with_age, &answer(&[(name, value)], NOW, Some(5)), None);
        assert!(!with_age.has_seen_silent_copies(), "{name}: {value}, with its age");
    }
}

#[test]
fn copies_far_older_than_the_configured_time_are_named_with_both() {
    let watch = watch();
    for (date, age) in [(NOW, None), (NOW - 600, None), (NOW, Some(630)), (NOW + 500, Some(0))] {
        until(&watch, &answer(&[], date, age), None);
        assert_eq!(watch.status.picture().old_copy(), None, "{date} {age:?}");
    }
    until(&watch, &answer(&[], NOW, Some(4000)), None);
    until(&watch, &answer(&[], NOW, Some(3000)), None);
    let told = watch.status.picture().findings().remove(0).text;
    assert!(told.contains("4000 s") && told.contains("300 s"), "{told}");
}

#[test]
fn places_are_told_apart() {
    for (path, place) in [
        ("/api/listings.json?per_page=100", AnswerClass::Lists),
        ("/api/cities.json", AnswerClass::Taxonomy(TaxonomyKind::Cities)),
        ("/api/listings/7.json", AnswerClass::Details),
    ] {
        assert_eq!(AnswerClass::of(path), place, "{path}");
        assert!(place.index() < CLASSES);
    }
    assert_eq!(stamp(r#"{"a":1,"generated_at":"2001-09-09T01:46:40Z"}"#), Some(at(NOW)));
    for none in ["[]", "{}", r#"{"generated_at":"soon"}"#, r#"{"generated_at":1}"#, r#"{"a":{"generated_at":"2001"}}"#]
    {
        assert_eq!(stamp(none), None, "{none}");
    }
}
