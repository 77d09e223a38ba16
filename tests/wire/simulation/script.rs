//! One run: a random origin, a mirror, and thousands of seconds in which both are disturbed.
//!
//! Everything is drawn from the seed and happens in virtual time, so that a seed repeats its run. Callers: the test and
//! the bench of this name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use grandstand::clock::{Clock, FakeClock, WallTime};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use sample_origin::{Origin, World};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::check::Checker;
use super::history::History;
use super::rig::{Ground, Rig};
use super::scene::Scene;

/// 2026-11-20T12:00:00Z, when every run begins.
pub const BEGIN: WallTime = WallTime::from_seconds(1_795_176_000);
/// Requests of the origin's log that a failure shows.
const TAIL: usize = 40;

/// How a run went well.
#[derive(Debug, Default)]
pub struct Account {
    /// Publications by certificate, and queries compared.
    pub counts: BTreeMap<&'static str, u64>,
    /// Edits of the origin's world.
    pub edits: u64,
    /// Requests that the origin saw.
    pub requests: u64,
    /// Virtual seconds.
    pub seconds: u64,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counts, edits, requests, seconds } = self;
        write!(f, "{edits} edits, {requests} requests, {seconds} virtual seconds, {counts:?}")
    }
}

/// How a run failed.
#[derive(Debug)]
pub struct Failure {
    scene: Scene,
    step: usize,
    at: Duration,
    what: String,
    served: String,
    story: Vec<String>,
    log: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {} failed in step {} after {:.3} s: {}",
            self.scene.seed,
            self.step,
            self.at.as_secs_f64(),
            self.what
        )?;
        writeln!(f, "served: {}", self.served)?;
        writeln!(f, "{:?}", self.scene)?;
        for line in self.story.iter().chain(&self.log) {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// Runs one seed: so many steps, with at most so many listings at the start.
pub fn run(seed: u64, steps: usize, listings: usize) -> Result<Account, Box<Failure>> {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let dir = tempfile::Builder::new().prefix("grandstand-simulation").tempdir_in(parent).unwrap();
    in_virtual_time(async { Run::new(seed, listings, dir.path()).play(steps).await })
}

/// Runs something on a clock that jumps over every wait.
pub fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        // One: blocking work is done in order.
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(work)
}

struct Run {
    scene: Scene,
    dice: SmallRng,
    ground: Ground,
    hand: FakeClock,
    /// The origin's clock, which never jumps.
    clock: Clock,
    history: Arc<Mutex<History>>,
    checker: Arc<Mutex<Checker>>,
    broken: Arc<Mutex<Option<String>>>,
    rig: Option<(Rig, JoinHandle<()>)>,
    lives: u64,
    step: usize,
    edits: u64,
    story: Vec<String>,
}

impl Run {
    fn new(seed: u64, listings: usize, dir: &Path) -> Self {
        let (scene, dice) = Scene::draw(seed, listings);
        let (clock, _) = Clock::of_runtime(BEGIN);
        let (own, hand) = Clock::of_runtime(BEGIN);
        let world = World::generate(scene.listings, seed);
        let ids = world.ids();
        let origin = Arc::new(Origin::within(
            world,
            scene.switches.clone(),
            sample_origin::Clock::of_runtime(clock.now_wall().as_millis()),
        ));
        let mut history = History::default();
        history.record(&origin, clock.now_wall().as_millis(), &ids, &[]);
        let history = Arc::new(Mutex::new(history));
        let own_dice = SmallRng::seed_from_u64(!seed);
        let checker = Checker::new(history.clone(), clock.clone(), scene.jumps, own_dice);
        Self {
            ground: Ground::new(origin, own, dir),
            scene,
            dice,
            hand,
            clock,
            history,
            checker: Arc::new(Mutex::new(checker)),
            broken: Arc::default(),
            rig: None,
            lives: 0,
            step: 0,
            edits: 0,
            story: Vec::new(),
        }
    }

    async fn play(mut self, steps: usize) -> Result<Account, Box<Failure>> {
        match self.all(steps).await {
            Ok(()) => Ok(Account {
                counts: std::mem::take(&mut self.checker.lock().counts),
                edits: self.edits,
                requests: self.ground.origin.count(),
                seconds: self.clock.now_mono().as_nanos() / 1_000_000_000,
            }),
            Err(what) => Err(Box::new(self.failure(what))),
        }
    }

    async fn all(&mut self, steps: usize) -> Result<(), String> {
        self.begin();
        for step in 0..steps {
            self.step = step;
            self.act().await;
            let span = match self.dice.random_range(0..100) {
                0..40 => self.dice.random_range(100..5_000),
                40..80 => self.dice.random_range(5_000..120_000),
                80..95 => self.dice.random_range(120_000..600_000),
                _ => self.dice.random_range(600_000..2_400_000),
            };
            sleep(Duration::from_millis(span)).await;
            self.sound()?;
        }
        self.quiet().await
    }

    /// What must hold at any time beside what each publication promises.
    fn sound(&mut self) -> Result<(), String> {
        if let Some(what) = self.broken.lock().take() {
            return Err(what);
        }
        let (rig, watcher) = self.rig.as_ref().unwrap();
        if !rig.is_alive() || watcher.is_finished() {
            return Err("a task of the mirror has ended".to_owned());
        }
        let ids = self.ground.origin.world(World::ids);
        let some: Vec<u64> = ids.sample(&mut self.dice, 30).copied().collect();
        self.checker.lock().details(&rig.details, &some)?;
        let (origin, most) = (&self.ground.origin, self.scene.budget.unwrap_or(usize::MAX));
        if origin.refused() > 0 || origin.busiest_minute() > most {
            return Err(format!("{} arrivals in 60 s, {} refused", origin.busiest_minute(), origin.refused()));
        }
        Ok(())
    }

    /// The end: nothing changes or fails any more. The mirror must settle, and be right.
    async fn quiet(&mut self) -> Result<(), String> {
        self.ground.origin.set(|switches| switches.faults.clear());
        self.tell("all is quiet");
        let (scene, began) = (self.scene.clone(), tokio::time::Instant::now());
        let listings = self.ground.origin.world(World::len);
        let until = |span: Duration| tokio::time::sleep_until(began + span);
        until(scene.settled_after(listings)).await;
        self.sound()?;
        let newest = self.rig.as_ref().unwrap().0.newest.clone();
        self.checker.lock().settled(newest.get().as_deref(), false).map_err(|what| format!("not settled: {what}"))?;
        until(scene.details_follow_after(listings)).await;
        self.sound()?;
        let details = self.rig.as_ref().unwrap().0.details.clone();
        let follow = self.checker.lock().details_follow(newest.get().as_deref(), &details);
        follow.map_err(|what| format!("details are behind: {what}"))?;
        until(scene.swept_after(listings)).await;
        self.sound()?;
        self.checker.lock().settled(newest.get().as_deref(), true).map_err(|what| format!("after a sweep: {what}"))?;
        until(scene.details_after(listings)).await;
        self.sound()?;
        let details = &self.rig.as_ref().unwrap().0.details;
        let checker = self.checker.lock();
        checker.settled(newest.get().as_deref(), true).map_err(|what| format!("after the details: {what}"))?;
        checker.details_current(details)
    }

    /// Something happens.
    async fn act(&mut self) {
        match self.dice.random_range(0..100) {
            0..45 => {
                let most = *[1, 3, 30].choose(&mut self.dice).unwrap();
                let edits = self.dice.random_range(1..=most);
                self.edit(edits);
            }
            45..60 => {
                // While a pass, a refresh or anything else is going on.
                let commands = &self.rig.as_ref().unwrap().0.commands;
                if self.dice.random_bool(0.5) {
                    commands.pass();
                } else {
                    commands.refresh();
                }
                for _ in 0..self.dice.random_range(1..12) {
                    sleep(Duration::from_millis(self.dice.random_range(1..4_000))).await;
                    self.edit(1);
                }
            }
            60..75 => {
                let fault = Scene::fault(&mut self.dice);
                self.tell(&format!("{fault:?}"));
                self.ground.origin.set(|switches| switches.faults.push(fault));
            }
            75..88 => {
                self.tell("no more faults");
                self.ground.origin.set(|switches| switches.faults.clear());
            }
            88..91 => {
                self.tell("the CDN is purged");
                self.ground.origin.purge_cdn();
            }
            91..94 => self.rig.as_ref().unwrap().0.commands.pass(),
            94..97 => {
                self.tell("aborted and built anew");
                let (rig, watcher) = self.rig.take().unwrap();
                watcher.abort();
                rig.abort().await;
                if self.dice.random_bool(0.5) {
                    sleep(Duration::from_secs(self.dice.random_range(1..900))).await;
                }
                self.begin();
            }
            _ if self.scene.jumps => {
                let millis = self.dice.random_range(-600_000..600_000);
                self.tell(&format!("the mirror's clock jumps by {millis} ms"));
                self.hand.jump(millis);
            }
            _ => {}
        }
    }

    /// Starts a mirror, and a checker of all its publications.
    fn begin(&mut self) {
        self.lives += 1;
        let rig = Rig::start(&self.scene, &self.ground, self.lives);
        let (newest, mut swaps) = (rig.newest.clone(), rig.newest.watch());
        let (checker, broken) = (self.checker.clone(), self.broken.clone());
        let watcher = tokio::spawn(async move {
            loop {
                swaps.borrow_and_update();
                if let Some(published) = newest.get()
                    && let Err(what) = checker.lock().publication(&published)
                {
                    let (certificate, confirmed) = (published.meta.certificate.as_str(), published.confirmed());
                    let what = format!("{certificate} snapshot {} confirmed {confirmed}: {what}", published.dataset.id);
                    broken.lock().get_or_insert(what);
                }
                if swaps.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        });
        self.rig = Some((rig, watcher));
    }

    /// So many edits at this instant.
    fn edit(&mut self, edits: usize) {
        let (mut changed, mut replaced) = (Vec::new(), Vec::new());
        let mut told = Vec::new();
        for _ in 0..edits {
            let dice = &mut self.dice;
            let ids = self.ground.origin.world(World::ids);
            let (Some(&id), Some(&other)) = (ids.choose(dice), ids.choose(dice)) else { return };
            let kind = dice.random_range(0..100);
            let number = self.edits;
            told.push(self.ground.origin.edit(|world| match kind {
                0..35 => {
                    world.touch(id);
                    changed.push(id);
                    format!("touch {id}")
                }
                35..50 => {
                    world.silent_change(id);
                    changed.push(id);
                    format!("silently change {id}")
                }
                50..62 => {
                    let new = world.insert_like(id, &format!("New {number}")).unwrap();
                    changed.push(new);
                    format!("insert {new}")
                }
                62..74 if ids.len() > 20 => {
                    world.remove(id);
                    format!("remove {id}")
                }
                74..82 => {
                    let (_, state, city) = world.slugs_of(other).map(|(a, b, c)| (a, b, c.to_owned())).unwrap();
                    world.relocate(id, &city, Some(&state));
                    changed.push(id);
                    format!("relocate {id} to {city}")
                }
                82..88 => {
                    let sport = world.slugs_of(other).unwrap().0;
                    world.change_sport(id, sport);
                    changed.push(id);
                    format!("{id} becomes {sport}")
                }
                88..94 => {
                    world.change_detail(id);
                    changed.push(id);
                    format!("change the detail of {id}")
                }
                _ => {
                    // One for another: only an id changes.
                    let stamp = world.venue(id).unwrap().modified;
                    let new = world.insert_like(id, &format!("Instead {number}")).unwrap();
                    world.alter(new, |venue| venue.modified = stamp);
                    world.remove(id);
                    changed.push(new);
                    replaced.extend([id, new]);
                    format!("replace {id} by {new}")
                }
            }));
            self.edits += 1;
        }
        self.tell(&told.join(", "));
        let now = self.clock.now_wall().as_millis();
        self.history.lock().record(&self.ground.origin, now, &changed, &replaced);
    }

    fn tell(&mut self, what: &str) {
        let at = self.clock.now_wall();
        self.story.push(format!("{at} {what}"));
    }

    fn failure(&self, what: String) -> Failure {
        let at = Duration::from_nanos(self.clock.now_mono().as_nanos());
        let log = self.ground.origin.log();
        let (last, now) = (log.last().map(|seen| seen.at), self.clock.now_wall());
        let shown = log.iter().rev().take(TAIL).rev().map(|seen| {
            let conditional = if seen.conditional { " conditional" } else { "" };
            format!(
                "{:.3} s before the last: {} {}{conditional}",
                last.map_or(0.0, |last| (last - seen.at).as_secs_f64()),
                seen.path_and_query,
                seen.status
            )
        });
        let served = self.rig.as_ref().and_then(|(rig, _)| rig.newest.get());
        let served = served.map_or_else(
            || "nothing".to_owned(),
            |served| {
                let (certificate, listings) = (served.meta.certificate.as_str(), served.dataset.len());
                format!("{certificate}, {listings} listings, confirmed {} (it is {now})", served.confirmed())
            },
        );
        let story = self.story.iter().rev().take(TAIL).rev().cloned().collect();
        Failure { scene: self.scene.clone(), step: self.step, at, what, served, story, log: shown.collect() }
    }
}
