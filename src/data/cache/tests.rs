//! Contents of the cache: what enters it, stays in it, and leaves it.

use super::*;
use crate::protocol::caching::{Exchange, Freshness, ResponseDirectives, Selecting, Vary};
use coded::Coded;
use http::{HeaderMap, StatusCode};

fn answer(body: &'static str) -> Arc<Stored> {
    let now = crate::clock::WallTime::from_millis(0);
    let (fields, exchange) = (HeaderMap::new(), Exchange { asked: now, received: now });
    Arc::new(Stored {
        status: StatusCode::OK,
        terms: Freshness::of(StatusCode::OK, &fields, &ResponseDirectives::of(&fields), exchange, None),
        selecting: Selecting::of(&Vary::NOTHING, &fields),
        language: None,
        fields,
        body: Arc::new(Coded::new(body)),
        link: None,
        etag: None,
        last_modified: None,
        arrived: crate::clock::Monotonic::from_seconds(0),
    })
}

fn shown(cache: &Cache, key: &Key) -> Vec<u8> {
    cache.stored(key).unwrap().iter().next().unwrap().body.identity().to_vec()
}

#[test]
fn an_answer_never_replaces_one_that_was_asked_for_later() {
    let (cache, key) = (Cache::new(1 << 20), Key::origin("/a"));
    let (early, late) = (cache.asking(&key), cache.asking(&key));
    assert!(cache.keep_stored(&key, &answer("late"), &late));
    assert!(!cache.keep_stored(&key, &answer("early"), &early));
    assert_eq!(shown(&cache, &key), b"late");
    assert!(cache.keep_stored(&key, &answer("later"), &cache.asking(&key)));
    assert_eq!(shown(&cache, &key), b"later");
}

#[test]
fn a_purge_hits_no_other_answer_on_its_way() {
    let cache = Cache::new(1 << 20);
    let keys: Vec<Key> = (0..200).map(|number| Key::origin(format!("/{number}"))).collect();
    let asked: Vec<_> = keys.iter().map(|key| cache.asking(key)).collect();
    for key in keys.iter().step_by(7) {
        cache.purge(key);
    }
    for number in 200..10_000 {
        cache.purge(&Key::origin(format!("/{number}")));
    }
    let keeps = |key: &Key, asked: &Asking| cache.keep_stored(key, &answer("kept"), asked);
    let kept: Vec<bool> = keys.iter().zip(&asked).map(|(key, asked)| keeps(key, asked)).collect();
    assert!(kept.iter().enumerate().all(|(number, is_kept)| *is_kept == (number % 7 != 0)));
    assert!(keeps(&keys[7], &cache.asking(&keys[7])), "it was asked after the purge");
    cache.purge_all();
    assert!(!keys.iter().zip(&asked).any(|(key, asked)| keeps(key, asked)));
}

#[test]
fn a_confirmation_counts_only_for_what_is_still_kept() {
    let (cache, key) = (Cache::new(1 << 20), Key::origin("/a"));
    let (first, second) = (answer("first"), answer("second"));
    assert!(cache.keep_stored(&key, &first, &cache.asking(&key)));
    let confirmed = answer("first, confirmed");
    assert!(cache.keep_confirmed(&key, &first, &confirmed, &cache.asking(&key)));
    let asked = cache.asking(&key);
    assert!(cache.keep_stored(&key, &second, &cache.asking(&key)));
    assert!(!cache.keep_confirmed(&key, &confirmed, &answer("too late"), &asked));
    assert!(!cache.keep_confirmed(&key, &confirmed, &answer("too late"), &cache.asking(&key)));
    assert_eq!(shown(&cache, &key), b"second");
    cache.purge(&key);
    assert!(!cache.keep_confirmed(&key, &second, &answer("gone"), &cache.asking(&key)));
    assert!(cache.stored(&key).is_none());
}

/// A page, as rendered in an epoch.
fn rendered(text: &str, epoch: u64) -> Reply {
    Reply::new(text.repeat(100), None, None, epoch)
}

fn page(number: u64) -> Key {
    Key::List(ListQuery { page: number, ..ListQuery::default() })
}

#[test]
fn what_is_asked_for_once_is_not_kept_and_what_is_asked_for_again_is() {
    let cache = Cache::new(1 << 20);
    let reply = Arc::new(rendered("page", 1));
    assert!(!cache.keep_if_wanted(page(1), &reply));
    assert_eq!(cache.size(), (0, 0));
    assert!(cache.keep_if_wanted(page(1), &reply));
    assert_eq!(cache.size().1, 1);
    assert!(Arc::ptr_eq(&cache.reply(&page(1)).unwrap(), &reply));
    assert_eq!(cache.outcomes()[..2], [("passing", 1), ("kept", 1)]);
}

#[test]
fn a_flood_of_queries_that_nobody_repeats_leaves_the_hot_set_alone() {
    // Room for some 200 replies; without the door the flood would fill it many times over.
    let cache = Cache::new(1 << 18);
    let hot = Arc::new(rendered("hot", 1));
    for number in (1..=50).chain(1..=50) {
        cache.keep_if_wanted(page(number), &hot);
    }
    assert_eq!(cache.size().1, 50);
    let passing = Arc::new(rendered("passing", 1));
    for number in 1_000..51_000 {
        cache.keep_if_wanted(page(number), &passing);
    }
    let (_, entries) = cache.size();
    assert!((50..60).contains(&entries), "{entries}");
    assert!((1..=50).all(|number| cache.reply(&page(number)).is_some()));
}

#[test]
fn a_flood_of_queries_that_come_twice_displaces_little_of_what_all_use() {
    let cache = Cache::new(1 << 18);
    let (hot, passing) = (Arc::new(rendered("hot", 1)), Arc::new(rendered("passing", 1)));
    let asked = |key: Key, reply: &Arc<Reply>| {
        let is_kept = cache.reply(&key).is_some();
        if !is_kept {
            cache.keep_if_wanted(key, reply);
        }
        is_kept
    };
    let (mut hits, mut misses) = (0, 0);
    for number in 1..=20_000 {
        // Each of fifty hot ones comes once for twenty-five of the flood.
        let is_hit = asked(page(number % 50), &hot);
        for _ in 0..2 {
            asked(page(1_000 + number / 2), &passing);
        }
        if number > 1_000 {
            (hits, misses) = (hits + u64::from(is_hit), misses + u64::from(!is_hit));
        }
    }
    assert!(misses < hits / 50, "{misses} misses, {hits} hits");
}

#[test]
fn a_reply_that_shows_the_same_in_the_next_epoch_stays() {
    let (cache, key) = (Cache::new(1 << 20), page(1));
    let kept = Arc::new(rendered("same", 1));
    cache.keep_reply(key.clone(), kept.clone());
    let renewed = cache.renew_reply(key.clone(), kept.clone(), rendered("same", 2));
    assert!(Arc::ptr_eq(&renewed, &kept), "with all its codings");
    assert_eq!(kept.epoch(), 2);
    assert!(Arc::ptr_eq(&cache.reply(&key).unwrap(), &kept));
}

#[test]
fn a_reply_that_shows_something_else_is_replaced_by_who_answers_from_the_newer_snapshot() {
    let (cache, key) = (Cache::new(1 << 20), page(1));
    let kept = Arc::new(rendered("old", 2));
    cache.keep_reply(key.clone(), kept.clone());
    let late = cache.renew_reply(key.clone(), kept.clone(), rendered("older", 1));
    assert_eq!(late.epoch(), 1, "who answers from the older snapshot answers with that");
    assert!(Arc::ptr_eq(&cache.reply(&key).unwrap(), &kept), "and keeps nothing");
    let renewed = cache.renew_reply(key.clone(), kept, rendered("new", 3));
    assert!(Arc::ptr_eq(&cache.reply(&key).unwrap(), &renewed));
    assert_eq!(cache.outcomes()[1..], [("kept", 1), ("confirmed", 0), ("renewed", 1)]);
}

#[test]
fn the_epochs_of_a_reply_do_not_go_back() {
    let reply = rendered("detail", 1);
    reply.confirm(3);
    reply.confirm(2);
    assert_eq!(reply.epoch(), 3, "epochs do not go back");
}

#[test]
fn a_path_is_purged_however_it_is_spelled() {
    for (target, path, is_at) in [
        ("/api/x?y=1", "/api/x", true),
        ("/%61pi/x", "/api/x", true),
        ("/api/%78?y", "/api/x", true),
        ("/api/x", "/api/%78", true),
        ("/api/caf%c3%a9", "/api/caf%C3%A9", true),
        ("/api/x%3Fy", "/api/x", false),
        ("/api/x/", "/api/x", false),
        ("/api/x", "/api/y", false),
        ("/api/%zz", "/api/%zz", true),
    ] {
        assert_eq!(Key::origin(target).is_at(path.as_bytes()), is_at, "{target} {path}");
    }
}

#[test]
fn a_document_is_kept_from_its_second_request_on_and_replaced_by_newer_ones_only() {
    use crate::data::cache::reply::{Confinement, Lifetime, ReplyKind};
    let (cache, key) = (Cache::new(1 << 20), Key::Document(WantedDocument::Asset("a".into())));
    let kind = ReplyKind {
        content_type: "text/plain",
        confinement: Confinement::None,
        lifetime: Lifetime::Revalidated,
        varies_by_accept: false,
    };
    let made = |body: &'static str, epoch| Rendered::new(kind, body, "1", epoch);
    let shown = |document: &Rendered| document.variant(crate::protocol::coding::Coding::Identity).1;
    let epoch = |cache: &Cache| cache.rendered(&key).map(|document| document.epoch());

    cache.keep_rendered(key.clone(), None, made("one", 1));
    assert_eq!(epoch(&cache), None);
    let kept = cache.keep_rendered(key.clone(), None, made("one", 1));
    assert_eq!(epoch(&cache), Some(1));
    let same = cache.keep_rendered(key.clone(), Some(&kept), made("one", 2));
    assert!(Arc::ptr_eq(&same, &kept), "with the codings that it has");
    assert_eq!(epoch(&cache), Some(2));
    let old = cache.keep_rendered(key.clone(), Some(&kept), made("zero", 1));
    assert_eq!((&*shown(&old), epoch(&cache)), (&b"zero"[..], Some(2)), "who reads the older one gets it");
    cache.keep_rendered(key.clone(), Some(&kept), made("three", 3));
    assert_eq!(shown(&cache.rendered(&key).unwrap()), "three");
    let large = Key::Document(WantedDocument::Asset("large".into()));
    for _ in 0..3 {
        cache.keep_rendered(large.clone(), None, Rendered::new(kind, vec![0; 1 << 20], "1", 1));
    }
    assert!(cache.rendered(&large).is_none(), "it would push out all others");
}
