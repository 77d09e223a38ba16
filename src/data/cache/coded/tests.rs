//! Codings of a body: which it gets, and when a better one replaces them.

use std::io::Read;

use futures_util::FutureExt as _;
use proptest::prelude::*;

use super::*;

const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

fn decoded(coding: Coding, body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    match coding {
        Coding::Identity => text.extend_from_slice(body),
        Coding::Gzip => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut text).unwrap()),
        Coding::Brotli => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut text).unwrap()),
        Coding::Zstd => text = zstd::stream::decode_all(body).unwrap(),
    }
    text
}

/// JSON in which quick and good codings differ.
fn listings(count: usize) -> String {
    let item = |n: usize| format!(r#"{{"id":{n},"name":"Venue {}","lat":{}.{}}}"#, n * 7919 % 1009, n % 90, n * 31337);
    format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
}

/// Bytes that no coding makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn recoded(recoder: &Recoder, count: u64) {
    let began = std::time::Instant::now();
    while recoder.counts().0 < count {
        assert!(began.elapsed().as_secs() < 20, "{:?}", recoder.counts());
        std::thread::yield_now();
    }
}

#[test]
fn small_bodies_stay_as_they_are() {
    let coded = Coded::new("{}");
    assert_eq!(coded.variant(Coding::Gzip).0, Coding::Identity);
    assert_eq!(coded.weight(), 2);
}

#[test]
fn what_does_not_shrink_stays_as_it_is() {
    for length in [300, 5000] {
        let coded = Coded::new(noise(length));
        for coding in ALL {
            for _ in 0..2 {
                let (really, shown) = coded.variant(coding);
                assert_eq!((really, shown.len()), (Coding::Identity, length), "{coding:?}");
            }
        }
    }
}

#[test]
fn a_hot_body_that_is_kept_gets_a_better_coding_of_the_same_bytes() {
    let (body, recoder) = (listings(300), Recoder::start());
    let coded = Coded::new(body.clone());
    coded.kept(&recoder);
    for (number, coding) in (1..).zip(ALL) {
        let quick = coded.variant(coding).1;
        assert_eq!(coded.variant(coding).1, quick, "made once");
        assert_eq!(recoder.counts().0, number - 1, "not hot yet");
        assert_eq!(decoded(coding, &quick), body.as_bytes());
        let _ = coded.variant(coding);
        recoded(&recoder, number);
        let best = coded.variant(coding).1;
        // Where nothing is gained, as brotli does not with so regular a body, the quick one stays.
        assert!(best.len() < quick.len() || coding == Coding::Brotli, "{coding:?}: {} {}", best.len(), quick.len());
        assert_eq!(decoded(coding, &best), body.as_bytes());
        assert_eq!(coded.variant(coding).1.len(), best.len());
    }
    for coding in ALL {
        (0..20).for_each(|_| drop(coded.variant(coding)));
    }
    assert_eq!(recoder.counts(), (3, 0), "each once");
}

#[test]
fn what_is_not_kept_is_not_worth_a_better_coding() {
    let (coded, recoder) = (Coded::new(listings(50)), Recoder::start());
    (0..20).for_each(|_| drop(coded.variant(Coding::Zstd)));
    assert_eq!(recoder.counts(), (0, 0));
    coded.kept(&recoder);
    let _ = coded.variant(Coding::Zstd);
    recoded(&recoder, 1);
}

#[test]
fn the_successor_of_a_hot_body_is_hot_from_the_start() {
    let recoder = Recoder::start();
    let old = Coded::new(listings(50));
    old.kept(&recoder);
    (0..3).for_each(|_| drop(old.variant(Coding::Gzip)));
    recoded(&recoder, 1);
    let _ = old.variant(Coding::Zstd);
    let new = Coded::new(listings(51));
    new.succeed(&old);
    new.kept(&recoder);
    let quick = new.variant(Coding::Gzip).1;
    recoded(&recoder, 2);
    assert!(new.variant(Coding::Gzip).1.len() < quick.len());
    assert_eq!(decoded(Coding::Gzip, &new.variant(Coding::Gzip).1), listings(51).as_bytes());
    // The other coding was asked for once, and has not earned that.
    let _ = new.variant(Coding::Zstd);
    let _ = new.variant(Coding::Zstd);
    assert_eq!(recoder.counts().0, 2);
}

#[test]
fn threads_that_ask_at_once_get_one_variant_and_pay_for_one() {
    let (body, recoder) = (listings(100), Recoder::start());
    for _ in 0..20 {
        let coded = Coded::new(body.clone());
        coded.kept(&recoder);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for coding in ALL {
                        assert_eq!(decoded(coding, &coded.variant(coding).1), body.as_bytes());
                    }
                });
            }
        });
        let room = || coded.codings.as_ref().unwrap().room.load(Ordering::Relaxed);
        let began = std::time::Instant::now();
        let used = || ALL.map(|coding| coded.variant(coding).1.len()).iter().sum::<usize>();
        while room() + used() != room_beside(body.len()) {
            assert!(began.elapsed().as_secs() < 20, "{} + {} of {}", room(), used(), room_beside(body.len()));
        }
    }
}

#[tokio::test]
async fn a_large_body_is_compressed_elsewhere_and_once_for_all() {
    let body = listings(10_000);
    assert!(body.len() > LARGE);
    let coded = Coded::new(body.clone());
    let codings = coded.codings.as_ref().unwrap();
    // On a runtime of one thread the waiting tasks run only while nobody compresses on it.
    let beats = std::sync::atomic::AtomicUsize::new(0);
    let prepared = async {
        tokio::join!(coded.prepare(Coding::Gzip), coded.prepare(Coding::Gzip), coded.prepare(Coding::Brotli));
    };
    let heart = async {
        loop {
            beats.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    };
    tokio::select! { () = prepared => {}, () = heart => {} }
    assert!(beats.load(Ordering::Relaxed) > 10);
    assert!(!codings.lacks(Coding::Gzip) && !codings.lacks(Coding::Brotli) && codings.lacks(Coding::Zstd));
    assert_eq!(decoded(Coding::Gzip, &coded.variant(Coding::Gzip).1), body.as_bytes());
    let small = Coded::new(listings(20));
    small.prepare(Coding::Gzip).await;
    assert!(small.codings.as_ref().unwrap().lacks(Coding::Gzip), "small ones are made when they are shown");
}

#[tokio::test]
async fn few_large_bodies_are_compressed_at_once() {
    let coded = Coded::new(listings(10_000));
    let others = [AT_ONCE.acquire().await, AT_ONCE.acquire().await];
    let mut waiting = std::pin::pin!(coded.prepare(Coding::Gzip));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(coded.codings.as_ref().unwrap().lacks(Coding::Gzip));
    drop(others);
    waiting.await;
    assert!(!coded.codings.as_ref().unwrap().lacks(Coding::Gzip));
}

#[test]
fn a_coding_that_found_no_room_for_an_instant_is_made_at_the_next_request() {
    let coded = Coded::new(listings(100));
    let room = &coded.codings.as_ref().unwrap().room;
    // As while somebody else makes one that will not be needed.
    let taken = room.swap(0, Ordering::Relaxed);
    assert_eq!(coded.variant(Coding::Gzip).0, Coding::Identity);
    room.store(taken, Ordering::Relaxed);
    assert_eq!(coded.variant(Coding::Gzip).0, Coding::Gzip);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_coding_of_any_body_decodes_to_it(body in prop::collection::vec(any::<u8>(), 0..3000), times in 1_usize..60) {
        let body = body.repeat(times);
        for coding in ALL {
            for effort in [Effort::Quick, Effort::Best] {
                prop_assert_eq!(&decoded(coding, &encode(coding, effort, &body).unwrap()), &body);
            }
        }
    }

    #[test]
    fn no_body_weighs_more_than_it_says(length in 0_usize..4000, noisy in 0_usize..4000) {
        let body = [listings(length / 30).into_bytes(), noise(noisy)].concat();
        let coded = Coded::new(body.clone());
        let kept = |coding| match coded.variant(coding) {
            (Coding::Identity, _) => 0,
            (_, shown) => shown.len(),
        };
        prop_assert!(body.len() + ALL.map(kept).iter().sum::<usize>() <= coded.weight());
    }
}
