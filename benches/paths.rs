//! The steps of every request: route and path, query, coding, preconditions, the whole admission, `Cache-Status`, and
//! the head of the answer. `cargo bench --bench paths`; under a minute.
//!
//! Not here: the limiter (`limiter`), looking up answers and rendering them.

#![allow(clippy::unwrap_used, reason = "a bench")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use grandstand::api::form::ListForm;
use grandstand::api::page::Envelope;
use grandstand::api::query::Parameters;
use grandstand::api::route::Route;
use grandstand::api::taxonomy::VolatileKeys;
use grandstand::clock::{Clock, Monotonic, WallTime};
use grandstand::data::cache::reply::Reply;
use grandstand::data::snapshot::content::Content;
use grandstand::data::snapshot::dataset::Dataset;
use grandstand::data::snapshot::membership::Evidence;
use grandstand::data::snapshot::meta::{Certificate, SnapshotMeta};
use grandstand::data::snapshot::pointer::SnapshotPointer;
use grandstand::edge::answer::admit::{Rules, View, admit};
use grandstand::edge::answer::compose::{Asked, ConstantHeaders, FromSnapshot};
use grandstand::edge::answer::write::Persistence;
use grandstand::edge::limit::{LimitConfig, Limiter};
use grandstand::protocol::cache_status::CacheOutcome;
use grandstand::protocol::client_address::ClientIpConfig;
use grandstand::protocol::coding::{self, Coding};
use grandstand::protocol::freshness::CacheControl;
use grandstand::protocol::hops::Pseudonym;
use grandstand::protocol::precondition::EntityTag;
use grandstand::protocol::{precondition, target};
use http::{HeaderMap, Method, Version};

const QUERY: &str = "sport=basketball&state=california&page=3&modified_since=2026-08-30T12%3A23%3A56Z";
const BROWSER: &str = "gzip, deflate, br, zstd";
const TAG: &str = "W/\"4f2a9d1c6b3e8f70-1\"";

fn headers(more: &[(&'static str, &str)]) -> HeaderMap {
    let usual = [("host", "mirror.test"), ("user-agent", "bench/1.0"), ("accept", "*/*")];
    let fields = usual.iter().chain(more);
    fields.map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn rules() -> Rules {
    let limit = LimitConfig { requests_per_minute: 100_000_000, ..LimitConfig::default() };
    Rules {
        client_ip: ClientIpConfig::default(),
        limiter: Arc::new(Limiter::new(&limit)),
        shared: None,
        pages: None,
        base_path: None,
        passthrough_paths: vec!["/api/".to_owned()],
        passthrough_methods: vec![Method::GET, Method::HEAD],
        name: Some(Pseudonym::of(1)),
        dumps: true,
    }
}

fn words(c: &mut Criterion) {
    let mut group = c.benchmark_group("paths");
    for target in ["/api/listings.json", "/api/listings/123456.json", "/api/%6Cistings.json"] {
        group.bench_function(format!("route of {target}"), |b| {
            b.iter(|| Route::of(&target::normalise(black_box(target.as_bytes())).unwrap()));
        });
    }
    for (name, query) in [("nothing", ""), ("a page", "page=2"), ("all filters", QUERY)] {
        group.bench_function(format!("query, {name}"), |b| b.iter(|| Parameters::parse(black_box(query))));
    }
    for (name, accepted) in [("nothing", None), ("as browsers ask", Some(BROWSER)), ("weights", Some("br;q=0.5, gzip"))]
    {
        let headers = headers(&accepted.map(|accepted| ("accept-encoding", accepted)).into_iter().collect::<Vec<_>>());
        group.bench_function(format!("negotiate, {name}"), |b| {
            b.iter(|| coding::negotiate(black_box(&headers), &Coding::PREFERENCE));
        });
    }
    let current = EntityTag::parse(TAG.as_bytes()).unwrap();
    for (name, fields) in [("none", vec![]), ("If-None-Match, the same", vec![("if-none-match", TAG)])] {
        let headers = headers(&fields);
        group.bench_function(format!("precondition, {name}"), |b| {
            b.iter(|| precondition::evaluate(&Method::GET, black_box(&headers), Some(&current)));
        });
    }
    let hit = CacheOutcome::Hit { ttl: Some(240) };
    group.bench_function("Cache-Status of a hit", |b| b.iter(|| black_box(hit).to_header_value()));
    group.finish();
}

fn admission(c: &mut Criterion) {
    let mut group = c.benchmark_group("admit");
    let rules = rules();
    let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let headers = headers(&[("accept-encoding", BROWSER)]);
    let mut now = 0;
    for (name, target) in [
        ("detail", "/api/listings/123456.json".to_owned()),
        ("list", "/api/listings.json".to_owned()),
        ("list, all filters", format!("/api/listings.json?{QUERY}")),
    ] {
        let view = View {
            method: &Method::GET,
            target: target.as_bytes(),
            headers: &headers,
            peer,
            has_body: false,
            version: Version::HTTP_11,
        };
        group.bench_function(name, |b| {
            b.iter(|| {
                now += 10_000;
                admit(black_box(&view), &rules, Monotonic::from_nanos(now))
            });
        });
    }
    group.finish();
}

/// An empty snapshot: heads do not depend on its content.
fn live(confirmed: WallTime) -> SnapshotPointer {
    let taxonomy: Arc<str> = r#"{"total":0,"items":[]}"#.into();
    let envelope = Envelope::of(&[], &VolatileKeys::default()).unwrap();
    let content = Content { envelope, taxonomies: [taxonomy.clone(), taxonomy.clone(), taxonomy], summaries: vec![] };
    let meta = SnapshotMeta {
        certificate: Certificate::Full,
        confirmed_ms: confirmed.as_millis(),
        claimed_ms: None,
        published_ms: confirmed.as_millis(),
        volatile: VolatileKeys::default(),
        volatile_values: BTreeMap::new(),
        left_out: Vec::new(),
        open_points: Vec::new(),
        form: ListForm::default(),
        origin: None,
    };
    let live = SnapshotPointer::default();
    live.swap(Arc::new(Dataset::build(content, &Evidence::new()).unwrap()), meta, 1);
    live
}

fn heads(c: &mut Criterion) {
    let mut group = c.benchmark_group("head");
    let now = Clock::system().now_wall();
    let published = live(now).get().unwrap();
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let lifetime = CacheControl { ttl: minutes(5), stale_while_revalidate: minutes(1), stale_if_error: minutes(1440) };
    let constant_headers = ConstantHeaders::new(lifetime, true, &[Method::GET, Method::HEAD]);
    let limiter = rules().limiter;
    let limit = limiter.admit(IpAddr::V4(Ipv4Addr::LOCALHOST), Monotonic::from_nanos(1));
    let link = "<http://mirror.test/api/listings.json?page=2>; rel=\"next\"".parse().unwrap();
    let tag = EntityTag::parse(TAG.as_bytes()).unwrap();
    let reply = Arc::new(Reply::new("{\"items\":[0]}".repeat(1000), Some(tag), Some(link), 1));
    for (name, fields, coding) in [
        ("identity", vec![], Coding::Identity),
        ("gzip", vec![], Coding::Gzip),
        ("304", vec![("if-none-match", TAG)], Coding::Identity),
    ] {
        let headers = headers(&fields);
        let conditional = !headers.is_empty();
        let asked = Asked { coding, conditional, ..Asked::of(&Method::GET, &headers, limit, now.into()) };
        let found = || FromSnapshot {
            reply: Arc::clone(&reply),
            published: Arc::clone(&published),
            forwarded: None,
            pinned: false,
            is_provisional: false,
        };
        let mut buffer = Vec::new();
        group.bench_function(name, |b| {
            b.iter(|| {
                let answer = constant_headers.snapshot(black_box(asked), found());
                constant_headers.http1(&answer, Persistence::KeepAlive, &mut buffer);
                buffer.len()
            });
        });
        group.bench_function(format!("{name}, for HTTP/2"), |b| {
            b.iter(|| constant_headers.http2(&constant_headers.snapshot(black_box(asked), found())));
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    targets = words, admission, heads
}
criterion_main!(benches);
