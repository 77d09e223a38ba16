//! Model tests of the limiter against one that remembers everything, and the cases that have a name.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::Ipv4Addr;

const SECOND: u64 = 1_000_000_000;

fn limiter(quota: u32, max_clients: usize, overrides: &[(&str, u32)]) -> Limiter {
    let overrides = overrides.iter().map(|&(network, quota)| (network.parse().expect("a network"), quota)).collect();
    Limiter::new(&LimitConfig { requests_per_minute: quota, ipv6_prefix: 64, max_clients, overrides })
}

fn client(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 | number))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn at(nanos: u64) -> Monotonic {
    Monotonic::from_nanos(nanos)
}

/// The promise, word for word: all admissions of a client, counted anew each time.
#[derive(Default)]
struct Model(HashMap<u32, Vec<u64>>);

impl Model {
    fn live(&self, client: u32, now: u64) -> Vec<u64> {
        let all = self.0.get(&client).into_iter().flatten();
        all.copied().filter(|&time| now - time < 60 * SECOND).collect()
    }

    fn admit(&mut self, client: u32, quota: u32, now: u64) -> Decision {
        let mut live = self.live(client, now);
        let full = live.len() >= quota as usize;
        if !full {
            self.0.entry(client).or_default().push(now);
            live.push(now);
        }
        let seconds = |time: Option<&u64>| time.map_or(0, |time| (time + 60 * SECOND - now).div_ceil(SECOND)) as u32;
        if full {
            let seconds = seconds(live.get(live.len() - quota as usize));
            Decision::Refused { quota, retry_after_seconds: seconds }
        } else {
            Decision::Admitted { quota, remaining: quota - live.len() as u32, reset_seconds: seconds(live.first()) }
        }
    }
}

/// Steps of time that meet the window's edge from both sides, and everything between.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(0),
        1 => Just(1),
        2 => Just(10 * SECOND),
        1 => Just(10 * SECOND - 1),
        1 => Just(10 * SECOND + 1),
        1 => Just(60 * SECOND),
        1 => Just(60 * SECOND - 1),
        1 => Just(300 * SECOND),
        4 => 0..20 * SECOND,
    ]
}

proptest! {
    #[test]
    fn it_decides_as_the_model_does(quota in 1_u32..12, steps in prop::collection::vec((0_u32..3, step()), 1..200)) {
        let (limiter, mut model, mut now) = (limiter(quota, 10, &[]), Model::default(), 0);
        for (number, step) in steps {
            now += step;
            prop_assert_eq!(limiter.admit(client(number), at(now)), model.admit(number, quota, now));
            limiter.table.lock().check();
        }
        prop_assert_eq!(limiter.evicted(), 0);
    }

    #[test]
    fn a_newcomer_takes_the_place_of_a_window_with_the_fewest_live_admissions(
        steps in prop::collection::vec((0_u32..8, 0_u64..12), 1..150),
    ) {
        let (quota, most) = (5, 3);
        let (limiter, mut model, mut now) = (limiter(quota, most, &[]), Model::default(), 0);
        for (number, step) in steps {
            // Further apart than a tick of the wheel, so that all that left has left the ranks.
            now += 10_000_000 + step * SECOND;
            let before = limiter.evicted();
            let lives: HashMap<u32, usize> =
                (0..8).map(|other| (other, model.live(other, now).len())).filter(|&(_, live)| live > 0).collect();
            let known = lives.contains_key(&number);
            prop_assert_eq!(limiter.admit(client(number), at(now)), model.admit(number, quota, now));
            limiter.table.lock().check();
            prop_assert_eq!(limiter.evicted() - before, u64::from(!known && lives.len() == most));
            if limiter.evicted() > before {
                let gone: Vec<u32> = lives.keys().copied().filter(|&other| {
                    let Decision::Admitted { remaining, .. } = limiter.peek(client(other), at(now)) else { return false };
                    remaining == quota
                }).collect();
                prop_assert_eq!(gone.len(), 1);
                prop_assert_eq!(lives.get(&gone[0]), lives.values().min());
                model.0.remove(&gone[0]);
            }
        }
    }
}

#[test]
fn of_61_requests_in_60_seconds_exactly_60_pass_at_every_phase() {
    for offset in (0..60 * SECOND).step_by(271_828_183) {
        let limiter = limiter(60, 10, &[]);
        let start = 1000 * SECOND + offset;
        let passed =
            (0..61).filter(|n| limiter.admit(client(1), at(start + n * (60 * SECOND / 61))).is_admitted()).count();
        assert_eq!(passed, 60, "offset {offset}");
    }
}

#[test]
fn an_admission_counts_until_just_before_60_seconds_have_passed() {
    let limiter = limiter(1, 10, &[]);
    assert!(limiter.admit(client(1), at(5)).is_admitted());
    let last = limiter.admit(client(1), at(60 * SECOND + 4));
    assert_eq!(last, Decision::Refused { quota: 1, retry_after_seconds: 1 });
    assert!(limiter.admit(client(1), at(60 * SECOND + 5)).is_admitted());
}

#[test]
fn retry_after_is_sufficient_and_minimal() {
    for first in [0, 1, SECOND / 2, SECOND - 1, 17 * SECOND + 3] {
        for asked in [0, 1, SECOND / 3, 58 * SECOND, 59 * SECOND + 1, 60 * SECOND - 1] {
            let limiter = limiter(2, 10, &[]);
            limiter.admit(client(1), at(first));
            limiter.admit(client(1), at(first));
            let now = first + asked;
            let decision = limiter.admit(client(1), at(now));
            let seconds = u64::from(decision.retry_after_seconds().expect("refused"));
            assert!(seconds >= 1);
            assert!(seconds == 1 || !limiter.admit(client(1), at(now + (seconds - 1) * SECOND)).is_admitted());
            assert!(limiter.admit(client(1), at(now + seconds * SECOND)).is_admitted(), "{first} {asked} {seconds}");
        }
    }
}

#[test]
fn refused_requests_and_peeks_do_not_count() {
    let limiter = limiter(2, 10, &[]);
    assert_eq!(limiter.peek(client(1), at(0)), Decision::Admitted { quota: 2, remaining: 2, reset_seconds: 0 });
    limiter.admit(client(1), at(0));
    limiter.admit(client(1), at(SECOND));
    for n in 2..59 {
        assert!(!limiter.admit(client(1), at(n * SECOND)).is_admitted());
    }
    assert_eq!(
        limiter.peek(client(1), at(59 * SECOND)),
        Decision::Admitted { quota: 2, remaining: 0, reset_seconds: 1 }
    );
    assert_eq!(
        limiter.admit(client(1), at(60 * SECOND)),
        Decision::Admitted { quota: 2, remaining: 0, reset_seconds: 1 }
    );
    assert_eq!(limiter.admit(client(1), at(60 * SECOND)), Decision::Refused { quota: 2, retry_after_seconds: 1 });
}

#[test]
fn a_reading_of_the_clock_that_arrives_late_does_not_turn_time_back() {
    let limiter = limiter(2, 10, &[]);
    limiter.admit(client(1), at(100 * SECOND));
    let late = limiter.admit(client(2), at(99 * SECOND));
    assert_eq!(late, Decision::Admitted { quota: 2, remaining: 1, reset_seconds: 60 });
    assert!(limiter.admit(client(2), at(159 * SECOND + 1)).is_admitted());
    assert!(!limiter.admit(client(2), at(159 * SECOND + 2)).is_admitted());
}

#[test]
fn ipv6_clients_are_networks_and_mapped_addresses_are_ipv4() {
    let limiter = limiter(1, 10, &[]);
    assert!(limiter.admit(ip("2001:db8:1:2::1"), at(0)).is_admitted());
    assert!(!limiter.admit(ip("2001:db8:1:2:ffff:ffff:ffff:ffff"), at(0)).is_admitted());
    assert!(limiter.admit(ip("2001:db8:1:3::1"), at(0)).is_admitted());
    assert!(limiter.admit(ip("192.0.2.1"), at(0)).is_admitted());
    assert!(!limiter.admit(ip("::ffff:192.0.2.1"), at(0)).is_admitted());
    assert!(limiter.admit(ip("192.0.2.2"), at(0)).is_admitted());
}

#[test]
fn the_most_specific_override_wins_and_each_address_has_its_own_window() {
    let overrides = [("10.0.0.0/8", 3), ("10.1.0.0/16", 0), ("::ffff:10.2.0.0/112", 2), ("::/0", 4), ("10.0.0.0/8", 9)];
    let limiter = limiter(1, 100, &overrides);
    for (address, quota) in [
        ("10.9.9.9", Some(3)),
        ("::ffff:10.9.9.8", Some(3)),
        ("10.1.2.3", None),
        ("10.2.0.1", Some(2)),
        ("11.0.0.1", Some(1)),
        ("2001:db8::1", Some(4)),
    ] {
        assert_eq!(limiter.admit(ip(address), at(0)).quota(), quota, "{address}");
    }
    let admitted = |address: &str| (0..9).filter(|_| limiter.admit(ip(address), at(1)).is_admitted()).count();
    assert_eq!((admitted("10.7.0.1"), admitted("10.7.0.2"), admitted("10.1.0.1")), (3, 3, 9));
}

#[test]
fn an_override_narrower_than_a_client_is_a_client_of_its_own() {
    let limiter = limiter(1, 100, &[("2001:db8::/80", 2), ("2001:db8::1/128", 0)]);
    let admitted = |address: &str| (0..9).filter(|_| limiter.admit(ip(address), at(0)).is_admitted()).count();
    assert_eq!((admitted("2001:db8::1"), admitted("2001:db8::2"), admitted("2001:db8::3")), (9, 2, 0));
    assert_eq!((admitted("2001:db8::1:0:0:1"), admitted("2001:db8::2:0:0:1")), (1, 0));
}

#[test]
fn a_quota_of_zero_is_no_limit_but_overrides_still_hold() {
    let limiter = limiter(0, 10, &[("10.0.0.7/32", 1)]);
    assert!((0..1000).all(|_| limiter.admit(client(1), at(0)) == Decision::Unlimited));
    assert!(limiter.admit(client(7), at(0)).is_admitted());
    assert!(!limiter.admit(client(7), at(0)).is_admitted());
    assert_eq!(limiter.windows(), 1);
}

#[test]
fn a_heavy_client_keeps_its_window_through_a_flood_of_addresses() {
    let limiter = limiter(60, 1000, &[]);
    for n in 0..60 {
        assert!(limiter.admit(ip("192.0.2.1"), at(n)).is_admitted());
    }
    for number in 0..1_000_000 {
        assert!(limiter.admit(client(number), at(60 + u64::from(number))).is_admitted());
    }
    assert_eq!(limiter.windows(), 1000);
    assert_eq!(limiter.evicted(), 1_000_000 - 999);
    assert!(!limiter.admit(ip("192.0.2.1"), at(SECOND)).is_admitted());
    // Of the flood the last are remembered.
    assert_eq!(limiter.peek(client(999_999), at(SECOND)).quota(), Some(60));
    assert!(matches!(limiter.peek(client(999_999), at(SECOND)), Decision::Admitted { remaining: 59, .. }));
    limiter.table.lock().check();
}

#[test]
fn idle_windows_make_room_first_and_are_not_counted() {
    let limiter = limiter(60, 100, &[]);
    for number in 0..100 {
        limiter.admit(client(number), at(0));
        limiter.admit(client(number), at(1));
    }
    limiter.admit(client(0), at(59 * SECOND));
    for number in 100..199 {
        assert!(limiter.admit(client(number), at(61 * SECOND)).is_admitted());
    }
    assert_eq!((limiter.windows(), limiter.evicted()), (100, 0));
    assert!(matches!(limiter.peek(client(0), at(61 * SECOND)), Decision::Admitted { remaining: 59, .. }));
    limiter.admit(client(200), at(61 * SECOND));
    assert_eq!((limiter.windows(), limiter.evicted()), (100, 1));
}

#[test]
fn idle_windows_are_dropped_by_and_by() {
    let limiter = limiter(60, 10_000, &[]);
    for number in 0..10_000 {
        limiter.admit(client(number), at(u64::from(number)));
    }
    for n in 0..5000 {
        limiter.admit(client(1), at(3600 * SECOND + n));
    }
    assert_eq!((limiter.windows(), limiter.evicted()), (1, 0));
    limiter.table.lock().check();
}

#[test]
fn a_ring_grows_with_use_and_keeps_its_order() {
    for quota in [1, 3, 4, 5, 60, 4096, 100_000_000] {
        let limiter = limiter(quota, 10, &[]);
        let mut model = Model::default();
        let gap = 61 * SECOND / u64::from(quota + 1);
        for n in 0..u64::from(quota.min(300)) * 3 {
            assert_eq!(limiter.admit(client(1), at(n * gap)), model.admit(1, quota, n * gap), "quota {quota}, {n}");
        }
    }
}

#[test]
fn threads_share_one_quota() {
    let limiter = limiter(60, 10, &[]);
    let passed: usize = std::thread::scope(|scope| {
        let admit = || (0..100).filter(|&n| limiter.admit(client(1), at(n)).is_admitted()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(admit)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(passed, 60);
}

fn config(quota: u32) -> LimitConfig {
    LimitConfig { requests_per_minute: quota, ..LimitConfig::default() }
}

proptest! {
    #[test]
    fn another_quota_counts_what_was_admitted_before(
        steps in prop::collection::vec((0_u32..3, step(), prop_oneof![Just(1_u32), Just(2), Just(5), Just(60)]), 1..200)
    ) {
        let (limiter, mut model, mut now) = (limiter(5, 100, &[]), Model::default(), SECOND);
        for (number, later, quota) in steps {
            now += later;
            limiter.set_quotas(&config(quota));
            prop_assert_eq!(limiter.admit(client(number), at(now)), model.admit(number, quota, now));
            limiter.table.lock().check();
        }
    }
}

/// A note of an admission that the fleet's window decided.
#[test]
fn after_a_lowered_quota_a_refused_note_waits_for_all_that_must_leave() {
    let limiter = limiter(5, 100, &[]);
    for second in 0..5 {
        assert!(limiter.admit(client(1), at(second * SECOND)).is_admitted());
    }
    limiter.set_quotas(&config(2));
    let noted = limiter.note(limiter.client_of(client(1)), at(5 * SECOND), at(5 * SECOND));
    assert_eq!(noted, Err(limiter.admit(client(1), at(5 * SECOND))));
    assert_eq!(noted, Err(Decision::Refused { quota: 2, retry_after_seconds: 58 }));
}

#[test]
fn a_client_keeps_its_window_when_its_quota_becomes_large_and_small_again() {
    let limiter = limiter(5, 100, &[]);
    for second in 0..3 {
        assert!(limiter.admit(client(1), at(second * SECOND)).is_admitted());
    }
    limiter.set_quotas(&config(100_000));
    for _ in 0..200 {
        assert!(limiter.admit(client(1), at(3 * SECOND)).is_admitted());
    }
    let Decision::Admitted { remaining, reset_seconds, .. } = limiter.peek(client(1), at(3 * SECOND)) else { panic!() };
    assert_eq!((remaining, reset_seconds), (100_000 - 203, 57));
    limiter.set_quotas(&config(5));
    let refused = limiter.admit(client(1), at(4 * SECOND));
    assert_eq!(refused, Decision::Refused { quota: 5, retry_after_seconds: 59 }, "all but four of 203 must leave");
    limiter.set_quotas(&config(0));
    assert_eq!(limiter.admit(client(1), at(4 * SECOND)), Decision::Unlimited);
    limiter.set_quotas(&config(5));
    let admitted = limiter.admit(client(1), at(63 * SECOND));
    assert_eq!(admitted, Decision::Admitted { quota: 5, remaining: 4, reset_seconds: 60 }, "all have left");
}
