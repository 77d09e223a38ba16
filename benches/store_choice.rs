//! The choice of the durable store: redb as [`grandstand::data::store`] uses it, or immutable packs of blocks with a
//! pointer file and an append-only log of details (`store_choice/packs.rs`, only as much as the measurement needs).
//!
//! `cargo bench --bench store_choice` prints a Markdown table for 1,000,000 listings; `LISTINGS=50000` measures fewer.
//! Without `--bench` (`cargo test --benches`) a small one only proves that it runs. Results: `benches/runs/`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement stops at the first failure")]

#[path = "store_choice/packs.rs"]
mod packs;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use grandstand::api::form::ListForm;
use grandstand::api::hash::ContentHash;
use grandstand::api::listing::{ListingId, Summary};
use grandstand::api::page::{Envelope, EnvelopeField};
use grandstand::api::taxonomy::VolatileKeys;
use grandstand::data::snapshot::content::Content;
use grandstand::data::snapshot::meta::{Certificate, SnapshotMeta};
use grandstand::data::store::{DataDir, DetailMeta, DetailRecord, DetailState, Store};
use packs::Packs;

const ROLE: &str = "GRANDSTAND_STORE_CHOICE_ROLE";
const DIR: &str = "GRANDSTAND_STORE_CHOICE_DIR";
/// Details per group commit.
const GROUP: u64 = 100;

/// What both candidates do.
trait Candidate: Sized {
    const NAME: &'static str;
    fn open(dir: &Path) -> Self;
    fn publish(&mut self, content: &Content);
    fn load(&self) -> Content;
    fn put_details(&mut self, details: &[(ListingId, DetailRecord)]);
    /// How many details there are, counted by reading what is known of each.
    fn details(&self) -> usize;
    /// Keeps only the current version.
    fn collect(&mut self);
}

struct Redb(Store);

impl Candidate for Redb {
    const NAME: &'static str = "redb";

    fn open(dir: &Path) -> Self {
        Self(Store::open(&DataDir::open(dir).unwrap()).unwrap())
    }

    fn publish(&mut self, content: &Content) {
        self.0.publish(content, &meta()).unwrap();
    }

    fn load(&self) -> Content {
        let (record, _) = self.0.current().unwrap().unwrap();
        self.0.load(&record).unwrap()
    }

    fn put_details(&mut self, details: &[(ListingId, DetailRecord)]) {
        self.0.put_details(details).unwrap();
    }

    fn details(&self) -> usize {
        self.0.detail_index(|meta| meta).unwrap().len()
    }

    fn collect(&mut self) {
        self.0.collect_garbage(&[]).unwrap();
    }
}

impl Candidate for Packs {
    const NAME: &'static str = "packs";

    fn open(dir: &Path) -> Self {
        Self::open(dir)
    }

    fn publish(&mut self, content: &Content) {
        Self::publish(self, content);
    }

    fn load(&self) -> Content {
        Self::load(self)
    }

    fn put_details(&mut self, details: &[(ListingId, DetailRecord)]) {
        Self::put_details(self, details);
    }

    fn details(&self) -> usize {
        Self::details(self)
    }

    fn collect(&mut self) {
        Self::collect(self);
    }
}

fn meta() -> SnapshotMeta {
    SnapshotMeta {
        certificate: Certificate::Full,
        confirmed_ms: 0,
        claimed_ms: None,
        published_ms: 0,
        volatile: VolatileKeys::default(),
        volatile_values: [].into(),
        left_out: vec![],
        open_points: vec![],
        form: ListForm::default(),
        origin: None,
    }
}

/// Numbers that look random and are the same in every run.
fn scramble(n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
}

fn summary(id: u64, revision: u64) -> Summary {
    const WORDS: [&str; 8] = ["Riverside", "Memorial", "Oak", "Summit", "Lakeview", "County", "Veterans", "Harbor"];
    const SPORTS: [&str; 5] = ["golf", "tennis", "pickleball", "soccer", "swimming"];
    let noise = scramble(id);
    let word = |shift: u32| WORDS[(noise >> shift) as usize % WORDS.len()];
    let sport = SPORTS[noise as usize % SPORTS.len()];
    let raw = Bytes::from(format!(
        r#"{{"id":{id},"name":"{} {} {sport} center","slug":"{}-{id}","sport":"{sport}","city":"{} {}","state":"State {}","lat":{}.{:06},"lng":-{}.{:06},"rating":{}.{},"modified":"2024-{:02}-{:02}T{:02}:{:02}:00Z","url":"https:\/\/venues.example\/{sport}\/{id}","r":{revision}}}"#,
        word(3),
        word(9),
        word(3),
        word(15),
        noise >> 40 & 255,
        noise >> 20 & 31,
        noise >> 8 & 63,
        noise % 999_983,
        noise >> 11 & 127,
        noise % 999_979,
        noise & 3,
        noise >> 4 & 7,
        1 + noise % 12,
        1 + noise % 28,
        noise % 24,
        noise % 60,
    ));
    Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
}

fn content(listings: u64) -> Content {
    let mut order: Vec<u64> = (0..listings).map(|n| n * 3 + 1).collect();
    order.sort_by_key(|id| scramble(*id));
    Content {
        envelope: Envelope {
            fields: vec![EnvelopeField::Page, EnvelopeField::Items],
            empty_filters: "{}".into(),
            ..Envelope::default()
        },
        taxonomies: ["[]".into(), "[]".into(), "[]".into()],
        summaries: order.into_iter().map(|id| summary(id, 0)).collect(),
    }
}

fn details(ids: std::ops::Range<u64>, revision: u64) -> Vec<(ListingId, DetailRecord)> {
    let detail = |n: u64| {
        // Details arrive newest first, so their ids come in no order.
        let id = scramble(n) % 3_000_000 * 131_072 + n;
        let hours = (0..10).map(|day| format!(r#"{{"day":{day},"open":{}}}"#, scramble(n * 10 + day)));
        let hours = hours.collect::<Vec<_>>().join(",");
        let body = format!(r#"{{"summary":{},"revision":{revision},"hours":[{hours}]}}{:>250}"#, id, scramble(id));
        let body = Bytes::from(body);
        let hash = ContentHash::of(&body);
        let meta = DetailMeta {
            state: DetailState::Present,
            etag: Some(format!("\"{hash}\"")),
            last_modified: None,
            origin_time_ms: 1,
            fetched_ms: 2,
            summary_hash: hash,
            hash,
        };
        (ListingId(id), DetailRecord { meta, body })
    };
    ids.map(detail).collect()
}

fn size(path: &Path) -> u64 {
    std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = run();
    (value, start.elapsed())
}

fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Runs this program again in another role.
fn child<C: Candidate>(role: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .env(ROLE, format!("{} {role}", C::NAME))
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Opens, loads the snapshot and reads what is known of the details, each time in a new process after `before`: the
/// medians of these three in milliseconds, and of the peak memory in kB.
fn start<C: Candidate>(dir: &Path, before: impl Fn()) -> [f64; 4] {
    const TIMES: usize = 7;
    let mut runs: [Vec<f64>; 4] = Default::default();
    for _ in 0..TIMES {
        before();
        let mut child = child::<C>("start", dir);
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        runs.iter_mut().zip(text.split_whitespace()).for_each(|(run, number)| run.push(number.parse().unwrap()));
    }
    runs.map(|mut run| {
        run.sort_by(f64::total_cmp);
        run[TIMES / 2]
    })
}

/// Kills a process that commits details.
fn kill_a_writer<C: Candidate>(dir: &Path) {
    let mut writer = child::<C>("write", dir);
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    for _ in 0..10 {
        lines.next().unwrap().unwrap();
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}

fn play<C: Candidate>(role: &str, dir: &Path) {
    if role == "start" {
        let (candidate, opened) = timed(|| C::open(dir));
        let (content, loaded) = timed(|| candidate.load());
        let (details, known) = timed(|| candidate.details());
        assert!(!content.summaries.is_empty() && details > 0);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")).unwrap_or("0");
        let [opened, loaded, known] = [opened, loaded, known].map(|time| time.as_secs_f64() * 1e3);
        println!("{opened} {loaded} {known} {}", peak.trim());
    } else {
        let mut candidate = C::open(dir);
        for revision in 1.. {
            candidate.put_details(&details(0..GROUP, revision));
            println!("committed {revision}");
            std::io::stdout().flush().unwrap();
        }
    }
}

/// One column of the table.
fn measure<C: Candidate>(listings: u64, dir: &Path) -> Vec<(&'static str, String)> {
    let mut content = content(listings);
    let mut rows = Vec::new();
    let mut candidate = C::open(dir);
    let ((), full) = timed(|| candidate.publish(&content));
    rows.push(("publish, everything new", ms(full)));
    rows.push(("size after everything new", mb(size(dir))));

    let mut times = Vec::new();
    for n in 0..20 {
        let at = (scramble(n) % listings) as usize;
        content.summaries[at] = summary(content.summaries[at].id.0, n + 1);
        let changed = content.summaries.remove(at);
        content.summaries.insert(0, changed);
        times.push(timed(|| candidate.publish(&content)).1);
    }
    times.sort();
    rows.push(("publish, 1 listing changed and moved to the front (median of 20)", ms(times[10])));
    let ((), collected) = timed(|| candidate.collect());
    rows.push(("drop the 20 older versions", ms(collected)));
    rows.push(("size after dropping them", mb(size(dir))));

    let mut times = Vec::new();
    let total = listings / 10;
    for group in 0..total / GROUP {
        let details = details(group * GROUP..(group + 1) * GROUP, 0);
        times.push(timed(|| candidate.put_details(&details)).1);
    }
    times.sort();
    rows.push(("commit of 100 details of 1 kB, median", ms(times[times.len() / 2])));
    rows.push(("commit of 100 details of 1 kB, 99th percentile", ms(times[times.len() * 99 / 100])));
    rows.push(("size with 1 detail per 10 listings", mb(size(dir))));
    drop(candidate);

    let [open, load, known, peak] = start::<C>(dir, || {});
    rows.push(("start after a clean stop: open (this and the next rows: median of 7)", format!("{open:.1} ms")));
    rows.push(("start after a clean stop: load the snapshot", format!("{load:.1} ms")));
    rows.push(("start after a clean stop: what is known of the details", format!("{known:.1} ms")));
    rows.push(("start after a clean stop: peak memory", mb(peak as u64 * 1024)));
    let [open, load, known, _] = start::<C>(dir, || kill_a_writer::<C>(dir));
    rows.push(("start after kill -9: open", format!("{open:.1} ms")));
    rows.push(("start after kill -9: load the snapshot", format!("{load:.1} ms")));
    rows.push(("start after kill -9: what is known of the details", format!("{known:.1} ms")));
    let loaded = C::open(dir).load();
    assert!(loaded == content, "what was published comes back");
    rows
}

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
        return match role.split_once(' ').unwrap() {
            ("redb", role) => play::<Redb>(role, &dir),
            (_, role) => play::<Packs>(role, &dir),
        };
    }
    let asked = std::env::var("LISTINGS").ok().map(|text| text.parse().unwrap());
    let whole = if std::env::args().any(|arg| arg == "--bench") { 1_000_000 } else { 5_000 };
    let listings = asked.unwrap_or(whole);
    let temp =
        tempfile::tempdir_in(std::env::var_os("SCRATCH").map_or_else(std::env::temp_dir, PathBuf::from)).unwrap();
    let dir = |name: &str| {
        let dir = temp.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        dir
    };
    let redb = measure::<Redb>(listings, &dir("redb"));
    let packs = measure::<Packs>(listings, &dir("packs"));
    println!("| {listings} listings | redb | packs |\n|---|---:|---:|");
    for ((name, redb), (_, packs)) in redb.into_iter().zip(packs) {
        println!("| {name} | {redb} | {packs} |");
    }
}
