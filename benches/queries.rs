//! Queries that nobody asked before: finding, rendering and linking a page for each kind of the mix, over ten thousand
//! and a million made-up listings; and making the index. `cargo bench --bench queries`; nothing else with
//! `-- --profile-time 1`.
//!
//! `QUERIES_COUNT=10000 valgrind --tool=callgrind --toggle-collect='*answer_all*' target/release/deps/queries-*` counts
//! the instructions of 1,000 queries of the mix instead: divide by 1,000.

#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so at once")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use grandstand::api::hash::ContentHash;
use grandstand::api::json;
use grandstand::api::links;
use grandstand::api::listing::{ListingId, Summary};
use grandstand::api::page::Envelope;
use grandstand::api::query::Parameters;
use grandstand::api::render::{Frame, ListPage, VolatileValues};
use grandstand::api::taxonomy::VolatileKeys;
use grandstand::snapshot::content::Content;
use grandstand::snapshot::dataset::Dataset;
use grandstand::snapshot::membership::Evidence;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SPORTS: u64 = 16;
const STATES: u64 = 51;
const CITIES: u64 = 355;
const PUBLIC: &str = "https://mirror.example";
const KINDS: [&str; 5] = ["sport and state", "city", "state, any page", "sport, modified since", "any page"];

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 += 1;
        xxhash_rust::xxh3::xxh3_64(&self.0.to_le_bytes()) % end
    }

    /// Small numbers much more often than large ones, as sports and places are.
    fn skewed(&mut self, end: u64) -> u64 {
        self.below(end).min(self.below(end)).min(self.below(end))
    }
}

fn content(listings: u64, newest_first: bool) -> Content {
    let mut dice = Dice(1);
    let mut counts = [vec![0; SPORTS as usize], vec![0; STATES as usize], vec![0; CITIES as usize]];
    let mut rows: Vec<(u64, Summary)> = (0..listings)
        .map(|id| {
            let city = dice.skewed(CITIES);
            let (sport, state) = (dice.skewed(SPORTS), city % STATES);
            for (counts, value) in counts.iter_mut().zip([sport, state, city]) {
                counts[value as usize] += 1;
            }
            let seconds = dice.below(300_000_000);
            let modified = jiff::Timestamp::from_second(1_500_000_000 + seconds.cast_signed()).unwrap();
            let raw = Bytes::from(format!(
                r#"{{"id":{id},"name":"Riverside {} Park {id}","url":"https://venues.example/state-{state}/riverside-park-{id}","city":"City {city}","state":"State {state}","sport":"sport-{sport}","lat":{}.{:06},"lng":-{}.{:06},"rating":{}.{},"review_count":{},"modified":"{modified}"}}"#,
                dice.below(100),
                25 + dice.below(24),
                dice.below(1_000_000),
                70 + dice.below(50),
                dice.below(1_000_000),
                1 + dice.below(4),
                dice.below(10),
                dice.below(3000),
            ));
            (seconds, Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw })
        })
        .collect();
    if newest_first {
        rows.sort_by_key(|(seconds, _)| std::cmp::Reverse(*seconds));
    }
    let taxonomies = [("sport", "sport"), ("State", "state"), ("City", "city")].into_iter().zip(&counts);
    let taxonomies = taxonomies.map(|((name, slug), counts)| {
        let mut text = String::from("[");
        for (term, count) in counts.iter().enumerate() {
            let comma = if term > 0 { "," } else { "" };
            write!(text, r#"{comma}{{"slug":"{slug}-{term}","name":"{name} {term}","count":{count}}}"#).unwrap();
        }
        Arc::from(text + "]")
    });
    let taxonomies: Vec<Arc<str>> = taxonomies.collect();
    let envelope = r#"{"@context":"https://schema.org","license":"https://creativecommons.org/licenses/by/4.0/","attribution":"Synthetic data","docs":"https://venues.example/api/docs","generated_at":"","@type":"ItemList","page":1,"per_page":50,"total":0,"total_pages":0,"filters":{},"items":[]}"#;
    let envelope = Envelope::of(&json::fields(envelope).unwrap(), &VolatileKeys::default()).unwrap();
    let summaries = rows.into_iter().map(|(_, summary)| summary).collect();
    Content { envelope, taxonomies: taxonomies.try_into().unwrap(), summaries }
}

/// Queries of one kind, none twice in a row.
fn query(kind: usize, dice: &mut Dice, listings: u64) -> String {
    match kind {
        0 => format!("sport=sport-{}&state=state-{}", dice.skewed(SPORTS), dice.skewed(STATES)),
        1 => format!("city=city-{}", dice.skewed(CITIES)),
        2 => format!("state=state-{}&page={}", dice.skewed(STATES), 1 + dice.below((listings / 50 / STATES).max(1))),
        3 => {
            let since = jiff::Timestamp::from_second(1_500_000_000 + dice.below(300_000_000).cast_signed()).unwrap();
            format!("sport=sport-{}&modified_since={since}", dice.skewed(SPORTS))
        }
        _ => format!("page={}", 1 + dice.below(listings / 50)),
    }
}

/// One answer, from the query's text to everything that is sent.
fn answer(dataset: &Dataset, frame: &Frame, text: &str) -> usize {
    let query = Parameters::parse(text).unwrap().list;
    let found = dataset.find(&query).unwrap();
    let total = found.total;
    let page =
        ListPage { frame, envelope_hash: dataset.envelope_hash, query: &query, total, items: found.items, shown: None };
    let link = links::list(Some("https://creativecommons.org/licenses/by/4.0/"), &query, total, PUBLIC, None);
    let tag = page.tag().to_header();
    Bytes::from(page.body()).len() + link.map_or(0, |link| link.len()) + tag.len()
}

#[inline(never)]
fn answer_all(dataset: &Dataset, frame: &Frame, queries: &[String]) -> usize {
    queries.iter().map(|text| answer(dataset, frame, black_box(text))).sum()
}

/// As many of each kind as the mix has.
fn mix(dice: &mut Dice, listings: u64) -> Vec<String> {
    (0..1000).map(|n| query([0, 0, 0, 0, 1, 1, 2, 2, 3, 4][n % 10], dice, listings)).collect()
}

/// The resident memory of this process in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn queries(c: &mut Criterion) {
    if let Some(listings) = std::env::var("QUERIES_COUNT").ok().and_then(|count| count.parse().ok()) {
        let dataset = Dataset::build(content(listings, true), &Evidence::new()).unwrap();
        let frame = Frame::new(&dataset.content.envelope, "\"now\"", &VolatileValues::new());
        println!("{} bytes", answer_all(&dataset, &frame, &mix(&mut Dice(7), listings)) / 1000);
        std::process::exit(0);
    }
    for (listings, newest_first) in [(10_000, true), (1_000_000, true), (1_000_000, false)] {
        let order = if newest_first { "newest first" } else { "in no order" };
        let mut group = c.benchmark_group(format!("{listings} listings {order}"));
        group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        let content = content(listings, newest_first);
        let (before, began) = (resident(), Instant::now());
        let dataset = Dataset::build(content.clone(), &Evidence::new()).unwrap();
        let text = content.summaries.iter().map(|summary| summary.raw.len()).sum::<usize>();
        println!(
            "{listings} listings {order}: indexed in {:.0?}, about {} bytes per listing for the index, {} for the summaries",
            began.elapsed(),
            resident().saturating_sub(before) / listings,
            (text + size_of_val(&*content.summaries)) as u64 / listings,
        );
        if listings < 100_000 {
            group.bench_function("index", |b| {
                b.iter_batched(
                    || content.clone(),
                    |content| Dataset::build(content, &Evidence::new()).unwrap(),
                    BatchSize::LargeInput,
                );
            });
        }
        drop(content);
        let frame = Frame::new(&dataset.content.envelope, "\"now\"", &VolatileValues::new());
        let mut dice = Dice(7);
        group.throughput(Throughput::Elements(1));
        for (kind, name) in KINDS.into_iter().enumerate().filter(|(kind, _)| newest_first || *kind == 3) {
            let texts: Vec<String> = (0..1000).map(|_| query(kind, &mut dice, listings)).collect();
            let mut next = texts.iter().cycle();
            group.bench_function(name, |b| b.iter(|| answer(&dataset, &frame, next.next().unwrap())));
        }
        let texts = mix(&mut dice, listings);
        let mut next = texts.iter().cycle();
        group.bench_function("the mix", |b| b.iter(|| answer(&dataset, &frame, next.next().unwrap())));
        group.finish();
    }
}

criterion_group!(benches, queries);
criterion_main!(benches);
