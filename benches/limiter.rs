//! The limiter's decision: one address, ten thousand, and a million - the last once with room for all of them and once
//! with the default room, where nearly every decision evicts. `cargo bench --bench limiter`.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{Criterion, criterion_group, criterion_main};
use grandstand::clock::Monotonic;
use grandstand::edge::limit::{LimitConfig, Limiter};

/// Requests per second that the made-up clock lets arrive.
const RATE: u64 = 100_000;

fn decision(c: &mut Criterion) {
    let mut group = c.benchmark_group("limiter");
    for (name, addresses, quota, max_clients) in [
        ("1 address, mostly refused", 1, 60, 200_000),
        ("1 address, quota of 100 million", 1, 100_000_000, 200_000),
        ("10k addresses", 10_000, 60, 200_000),
        ("10k addresses, admitted", 10_000, 4096, 200_000),
        ("1M addresses, room for all", 1_000_000, 60, 1 << 21),
        ("1M addresses, room for 200k", 1_000_000, 60, 200_000),
    ] {
        let config = LimitConfig { requests_per_minute: quota, max_clients, ..LimitConfig::default() };
        let limiter = Limiter::new(&config);
        let mut count = 0_u64;
        let mut next = || {
            count += 1;
            // An order without locality, each address in turn.
            let number = count.wrapping_mul(0x9E37_79B1) % addresses;
            let address = IpAddr::V4(Ipv4Addr::from_bits(number as u32));
            limiter.admit(black_box(address), Monotonic::from_nanos(count * (1_000_000_000 / RATE)))
        };
        for _ in 0..addresses * 2 {
            next();
        }
        group.bench_function(name, |b| b.iter(&mut next));
    }
    group.finish();
}

criterion_group!(benches, decision);
criterion_main!(benches);
