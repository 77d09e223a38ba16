//! The search index over ten thousand and a million made-up listings: making it, its memory, and searches by kind.
//! `cargo bench --bench search`; nothing else with `-- --profile-time 1`.

#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so at once")]

#[path = "queries/made_up.rs"]
mod made_up;

use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use grandstand::api::query::search::SearchQuery;
use grandstand::data::snapshot::dataset::Dataset;
use grandstand::data::snapshot::membership::Evidence;
use grandstand::edge::search::index::SearchIndex;

use made_up::{Dice, content, resident};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// So many different words have the names of a hundred listings.
const WORDS_OF_A_HUNDRED: u64 = 20;

const KINDS: [&str; 15] = [
    "two words",
    "a word",
    "a typing error",
    "three letters",
    "one letter",
    "eight letters alone",
    "a word in a state",
    "near, 50 km",
    "near, 500 km",
    "near, everywhere",
    "a box",
    "a word near",
    "two words, facets",
    "all, facets",
    "no listing has all words",
];

/// A word of two to four syllables.
fn word(number: u64) -> String {
    const SYLLABLES: [&str; 24] = [
        "ba", "cor", "dan", "el", "fri", "gol", "ham", "in", "jo", "ker", "lin", "mon", "nor", "os", "par", "que",
        "ri", "sto", "ta", "ul", "ver", "wes", "yor", "zen",
    ];
    let mut rest = number + 24;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(SYLLABLES[(rest % 24) as usize]);
        rest /= 24;
    }
    word
}

fn query(kind: usize, dice: &mut Dice, words: u64) -> String {
    let mut any = || word(dice.skewed(words));
    match kind {
        0 => format!("q={}+park", any()),
        1 => format!("q={}", any()),
        2 => {
            let mut wrong = any();
            wrong.replace_range(2..3, "x");
            format!("q={wrong}")
        }
        3 => format!("q={}", &any()[..3]),
        4 => format!("q={}", &any()[..1]),
        5 => "q=b+c+d+e+f+g+h+i".to_owned(),
        6 => format!("q={}&state=state-{}", any(), dice.skewed(51)),
        7..=9 => {
            let (lat, lng) = (25 + dice.below(24), 70 + dice.below(50));
            format!("near={lat},-{lng}&radius={}", [50, 500, 20_000][kind - 7])
        }
        10 => "bbox=-107,26,-94,37".to_owned(),
        11 => format!("q={}&near=30.27,-97.74&radius=500", any()),
        12 => format!("q={}+park&facets=1", any()),
        13 => "bbox=-180,-90,180,90&facets=1".to_owned(),
        _ => format!("q={}+{}+{}+{}", any(), any(), any(), any()),
    }
}

fn searches(c: &mut Criterion) {
    for listings in [10_000, 1_000_000] {
        let mut group = c.benchmark_group(format!("{listings} listings"));
        group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
        let words = listings / 100 * WORDS_OF_A_HUNDRED;
        let before = resident();
        let content = content(listings, true, |dice, _| {
            let kind = ["Park", "Golf Course", "Arena", "Field"][dice.below(4) as usize];
            format!("{} {} {kind}", word(dice.skewed(words)), word(dice.skewed(words)))
        });
        let dataset = Dataset::build(content, &Evidence::new()).unwrap();
        let snapshot = resident().saturating_sub(before);
        let (before, began) = (resident(), Instant::now());
        let index = SearchIndex::of(&dataset).unwrap();
        let took = began.elapsed();
        println!(
            "{listings} listings: made in {took:.0?}; {} more bytes resident per listing, beside {} of the snapshot",
            resident().saturating_sub(before) / listings,
            snapshot / listings,
        );
        let mut dice = Dice(7);
        for (kind, name) in KINDS.into_iter().enumerate() {
            let queries: Vec<SearchQuery> =
                (0..100).map(|_| SearchQuery::parse(&query(kind, &mut dice, words)).unwrap()).collect();
            let short = queries.iter().filter(|query| index.find_short(&dataset, query).is_some()).count();
            println!("{name}: {short} of 100 are short");
            let mut next = queries.iter().cycle();
            group.bench_function(name, |b| {
                b.iter(|| {
                    let query = next.next().unwrap();
                    index.find(&dataset, query).unwrap().total
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, searches);
criterion_main!(benches);
