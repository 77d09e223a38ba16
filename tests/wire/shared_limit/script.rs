//! The scripts inside a real redis-server, against a model that counts everything anew. Only the time is the test's.

use std::sync::atomic::{AtomicU64, Ordering};

use grandstand::edge::shared_limit::{ADMIT, REPLAY};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::Connection;

use crate::harness::redis::Redis;

const SECOND: u64 = 1_000_000;

/// One client's window, word for word.
#[derive(Debug, Default)]
struct Model(Vec<(u64, u64)>);

impl Model {
    /// Lets time come to `now`; the instant that counts.
    fn at(&mut self, now: u64) -> u64 {
        let last = self.0.iter().map(|(_, stamp)| *stamp).max().unwrap_or(0);
        let now = if last > now + SECOND {
            self.0.iter_mut().for_each(|(_, stamp)| *stamp = stamp.saturating_sub(last - now));
            now
        } else {
            now.max(last)
        };
        self.0.retain(|(_, stamp)| stamp + 60 * SECOND > now);
        self.0.sort_by_key(|(_, stamp)| *stamp);
        now
    }

    /// Admitted, counted, time until the oldest leaves or the next is admitted, the instant.
    fn decide(&mut self, quota: usize, id: Option<u64>, now: u64) -> (i64, i64, i64, i64) {
        let now = self.at(now);
        let admitted = self.0.len() < quota;
        let nth = if admitted { 0 } else { self.0.len() - quota };
        if let Some(id) = id.filter(|id| admitted && self.0.iter().all(|(known, _)| known != id)) {
            self.0.push((id, now));
        }
        let leaves = self.0.get(nth).map_or(0, |(_, stamp)| stamp + 60 * SECOND - now);
        (i64::from(admitted), signed(self.0.len() as u64), signed(leaves), signed(now))
    }

    fn replay(&mut self, told: &[(u64, i64)], now: u64) -> i64 {
        let now = self.at(now);
        let mut added = 0;
        for &(id, age) in told {
            let known = self.0.iter().any(|(other, _)| *other == id);
            if age < 0 {
                self.0.retain(|(other, _)| *other != id);
            } else if (age as u64) < 60 * SECOND && !known {
                self.0.push((id, now - age as u64));
                added += 1;
            }
        }
        added
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Decide(usize, Option<u64>),
    Replay(Vec<(u64, i64)>),
}

/// Steps of time that meet the edges of the window from both sides; sometimes the clock is set.
fn passing() -> impl Strategy<Value = i64> {
    let second = signed(SECOND);
    prop_oneof![
        6 => 0..second,
        3 => Just(0),
        4 => Just(20 * second),
        2 => Just(20 * second - 1),
        2 => Just(20 * second + 1),
        1 => Just(-1),
        1 => Just(-second),
        1 => Just(-second - 1),
        1 => -100 * second..100 * second,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let age =
        prop_oneof![Just(-1_i64), 0..signed(70 * SECOND), Just(signed(60 * SECOND)), Just(signed(60 * SECOND) - 1)];
    prop_oneof![
        8 => (1_usize..6, prop::option::weighted(0.9, 0_u64..40)).prop_map(|(quota, id)| Step::Decide(quota, id)),
        1 => prop::collection::vec((0_u64..40, age), 1..6).prop_map(Step::Replay),
    ]
}

/// A script with the time as an argument.
struct Script {
    digest: String,
}

impl Script {
    fn load(connection: &mut Connection, text: &str) -> Self {
        let timeless = text.replace("redis.call('TIME')", "{KEYS[2], KEYS[3]}");
        assert_ne!(timeless, text);
        let digest = redis::cmd("SCRIPT").arg("LOAD").arg(timeless).query(connection).unwrap();
        Self { digest }
    }

    fn at(&self, key: &str, now: u64) -> redis::Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.digest).arg(3).arg(key).arg(now / SECOND).arg(now % SECOND);
        command
    }
}

static KEYS: AtomicU64 = AtomicU64::new(0);

#[tokio::test]
async fn the_scripts_decide_as_a_model_that_counts_everything_anew() {
    let redis = Redis::start().await;
    let mut connection = redis.connect().unwrap();
    let (admit, replay) = (Script::load(&mut connection, ADMIT), Script::load(&mut connection, REPLAY));
    let connection = std::cell::RefCell::new(connection);
    let steps = prop::collection::vec((passing(), step()), 1..80);
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&steps, |steps| {
        let connection = &mut *connection.borrow_mut();
        let key = format!("key {}", KEYS.fetch_add(1, Ordering::Relaxed));
        let (mut model, mut now) = (Model::default(), 1_700_000_000 * SECOND);
        for (passes, step) in steps {
            now = now.checked_add_signed(passes).unwrap();
            match step {
                Step::Decide(quota, id) => {
                    let member = id.map_or(String::new(), |id| id.to_string());
                    let got: (i64, i64, i64, i64) =
                        admit.at(&key, now).arg(quota).arg(member).query(connection).unwrap();
                    prop_assert_eq!(got, model.decide(quota, id, now));
                }
                Step::Replay(told) => {
                    let mut command = replay.at(&key, now);
                    for (id, age) in &told {
                        command.arg(id.to_string()).arg(*age);
                    }
                    let got: i64 = command.query(connection).unwrap();
                    prop_assert_eq!(got, model.replay(&told, now));
                }
            }
        }
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
}

#[tokio::test]
async fn no_sixty_seconds_hold_more_than_the_quota_and_nobody_is_refused_otherwise() {
    let redis = Redis::start().await;
    let mut connection = redis.connect().unwrap();
    let admit = Script::load(&mut connection, ADMIT);
    let connection = std::cell::RefCell::new(connection);
    let steps = prop::collection::vec(prop_oneof![0..15 * SECOND, Just(0), Just(30 * SECOND)], 1..120);
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&(1_usize..8, steps), |(quota, steps)| {
        let connection = &mut *connection.borrow_mut();
        let key = format!("key {}", KEYS.fetch_add(1, Ordering::Relaxed));
        let (mut stamps, mut now) = (Vec::<u64>::new(), 1_700_000_000 * SECOND);
        for (id, passes) in steps.into_iter().enumerate() {
            now += passes;
            let counted = stamps.iter().filter(|&&stamp| stamp + 60 * SECOND > now).count();
            let (admitted, ..): (i64, i64, i64, i64) =
                admit.at(&key, now).arg(quota).arg(id).query(connection).unwrap();
            prop_assert_eq!(admitted == 1, counted < quota);
            if admitted == 1 {
                stamps.push(now);
            }
        }
        for (older, newer) in stamps.iter().zip(stamps.iter().skip(quota)) {
            prop_assert!(newer - older >= 60 * SECOND);
        }
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
}
