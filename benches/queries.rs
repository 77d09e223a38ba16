//! Queries that nobody asked before: finding, rendering and linking a page for each kind of the mix, over ten thousand
//! and a million made-up listings; and making the index. `cargo bench --bench queries`; nothing else with
//! `-- --profile-time 1`.
//!
//! `QUERIES_COUNT=10000 valgrind --tool=callgrind --toggle-collect='*answer_all*' target/release/deps/queries-*` counts
//! the instructions of 1,000 queries of the mix instead: divide by 1,000.

#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so at once")]

#[path = "queries/made_up.rs"]
mod made_up;

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use grandstand::api::form::ListForm;
use grandstand::api::links;
use grandstand::api::query::Parameters;
use grandstand::api::render::{Frame, ListPage, VolatileValues};
use grandstand::data::snapshot::dataset::Dataset;
use grandstand::data::snapshot::membership::Evidence;

use made_up::{CITIES, Dice, SPORTS, STATES, content, resident};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PUBLIC: &str = "https://mirror.example";
const KINDS: [&str; 5] = ["sport and state", "city", "state, any page", "sport, modified since", "any page"];

fn named(dice: &mut Dice, id: u64) -> String {
    format!("Riverside {} Park {id}", dice.below(100))
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
    let page = ListPage { frame, envelope_hash: dataset.envelope_hash, query: &query, total, items: found.items };
    let link = links::list(Some("https://creativecommons.org/licenses/by/4.0/"), (&query, 50), total, PUBLIC, None);
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

fn queries(c: &mut Criterion) {
    if let Some(listings) = std::env::var("QUERIES_COUNT").ok().and_then(|count| count.parse().ok()) {
        let dataset = Dataset::build(content(listings, true, named), &Evidence::new()).unwrap();
        let frame = Frame::new(&dataset.content.envelope, "\"now\"", &VolatileValues::new(), ListForm::default());
        println!("{} bytes", answer_all(&dataset, &frame, &mix(&mut Dice(7), listings)) / 1000);
        std::process::exit(0);
    }
    for (listings, newest_first) in [(10_000, true), (1_000_000, true), (1_000_000, false)] {
        let order = if newest_first { "newest first" } else { "in no order" };
        let mut group = c.benchmark_group(format!("{listings} listings {order}"));
        group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        let content = content(listings, newest_first, named);
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
        let frame = Frame::new(&dataset.content.envelope, "\"now\"", &VolatileValues::new(), ListForm::default());
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
