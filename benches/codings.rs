//! What keeping costs: codings by effort, on bodies of three sizes, and the reply cache. `cargo bench --bench codings`.
//!
//! `src/data/cache/coded.rs` explains the levels. Sizes are printed beside the names.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use grandstand::api::listing::ListingId;
use grandstand::api::query::Parameters;
use grandstand::data::cache::coded::{Effort, encode};
use grandstand::data::cache::reply::Reply;
use grandstand::data::cache::{Cache, Key};
use grandstand::protocol::coding::Coding;
use sample_origin::{Clock as OriginClock, Origin, Switches, World};

fn origin() -> Origin {
    Origin::within(World::generate(10_000, 1), Switches::default(), OriginClock::system())
}

fn codings(c: &mut Criterion) {
    let origin = origin();
    let get = |target: &str| origin.expected_text(target).1;
    let id = origin.world(World::ids)[3];
    let many = (1..=37).map(|page| get(&format!("/api/listings.json?per_page=100&page={page}")));
    let bodies = [
        ("detail", get(&format!("/api/listings/{id}.json"))),
        ("page of 50", get("/api/listings.json")),
        ("1 MB", many.collect::<String>()),
    ];
    for (name, body) in &bodies {
        let mut group = c.benchmark_group(format!("{name}, {} bytes", body.len()));
        if body.len() > 100_000 {
            group.sample_size(10);
        }
        for coding in Coding::PREFERENCE {
            for effort in [Effort::Quick, Effort::Best] {
                let size = encode(coding, effort, body.as_bytes()).map_or(0, |coded| coded.len());
                let id = BenchmarkId::new(format!("{} {effort:?}", coding.as_str()), format!("{size} bytes"));
                group.bench_function(id, |b| b.iter(|| encode(coding, effort, black_box(body.as_bytes()))));
            }
        }
        group.finish();
    }
}

/// A page of the list by its number.
fn page(number: u64) -> Key {
    let query = Parameters::parse(&format!("sport=golf&state=texas&page={number}"));
    Key::List(query.map(|parsed| parsed.list).unwrap_or_default())
}

fn replies(c: &mut Criterion) {
    let body = origin().expected_text("/api/listings.json").1;
    let reply = Arc::new(Reply::new(body, None, None, 1));
    let mut group = c.benchmark_group("replies");

    let cache = Cache::new(256 << 20);
    for number in 1..=100 {
        cache.keep_reply(page(number), reply.clone());
        cache.keep_reply(Key::Detail(ListingId(number)), reply.clone());
    }
    let (list, detail) = (page(7), Key::Detail(ListingId(7)));
    group.bench_function("hit, list", |b| b.iter(|| cache.reply(black_box(&list))));
    group.bench_function("hit, detail", |b| b.iter(|| cache.reply(black_box(&detail))));
    group.bench_function("miss, list", |b| b.iter(|| cache.reply(black_box(&page(1000)))));
    for coding in [Coding::Identity, Coding::Zstd] {
        let name = format!("variant that is made, {}", coding.as_str());
        group.bench_function(name, |b| b.iter(|| reply.body.variant(black_box(coding)).1.len()));
    }
    // The cost of a query that is never repeated: as it is, and if it were kept.
    for (name, keeps) in [("unique query, at the door", false), ("unique query, kept and evicting", true)] {
        let (cache, mut number) = (Cache::new(1 << 20), 1_000_u64);
        group.bench_function(name, |b| {
            b.iter(|| {
                number += 1;
                let key = page(number);
                let found = cache.reply(&key);
                if keeps {
                    cache.keep_reply(key, reply.clone());
                } else {
                    cache.keep_if_wanted(key, &reply);
                }
                found
            });
        });
    }
    group.finish();
}

criterion_group!(benches, codings, replies);
criterion_main!(benches);
