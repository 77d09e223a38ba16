//! Sizes of bundles, with texts as an origin sends them.

use std::time::Instant;

use http::{HeaderMap, Method};
use http_body_util::BodyExt;

use super::*;
use crate::api::page::Page;
use sample_origin::{Clock, Origin, Switches, World as Venues};

async fn ask(origin: &Origin, target: &str) -> Bytes {
    let answer = origin.ask(&Method::GET, target, &HeaderMap::new()).await.unwrap();
    assert_eq!(answer.status(), 200, "{target}");
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// A world of the origin's as a mirror has it.
async fn mirrored(venues: &Venues) -> World {
    let clock = Clock::of_runtime(1_795_000_000_000);
    let origin = Origin::within(venues.clone(), Switches::default(), clock);
    let mut world = World::of([]);
    world.evidence.clear();
    let volatile = VolatileKeys::default();
    for page in 1.. {
        let page = Page::parse(&ask(&origin, &format!("/api/listings.json?per_page=100&page={page}")).await, &volatile);
        let page = page.unwrap();
        if page.items.is_empty() {
            break;
        }
        world.content.envelope = page.envelope;
        world.content.summaries.extend(page.items);
    }
    for kind in TaxonomyKind::ALL {
        let text = ask(&origin, kind.path()).await;
        world.content.taxonomies[kind.index()] = volatile.blank(std::str::from_utf8(&text).unwrap()).0.into();
    }
    for summary in &world.content.summaries {
        let body = ask(&origin, &format!("/api/listings/{}.json", summary.id)).await;
        let etag = Some(format!("W/\"{}\"", ContentHash::of(&body)));
        let detail = Detail { state: DetailState::Present, body, current: true, etag, last_modified: None };
        world.details.insert(summary.id, detail);
    }
    world
}

#[tokio::test]
async fn five_changes_in_seven_hundred_listings_are_at_most_a_twentieth_of_the_whole() {
    let mut venues = Venues::generate(700, 1);
    let old = mirrored(&venues).await;
    let ids = venues.ids();
    for n in [3, 120, 333, 500, 690] {
        assert!(venues.touch(ids[n]));
    }
    let new = mirrored(&venues).await;
    let (full, delta) = (new.full(), new.bundle(Some(&old)).0);
    let bundle = open(&delta).unwrap();
    assert_eq!(bundle.manifest().base.as_ref().unwrap().changed, 5);
    assert_eq!(bundle.manifest().details.all(), 5);
    assert_eq!(bundle.content_over(Some(&old.content)).unwrap(), new.content);
    println!("full {}, delta {}", full.len(), delta.len());
    assert!(delta.len() * 20 <= full.len(), "{} of {} bytes", delta.len(), full.len());
}

/// `cargo test --lib levels_of_compression -- --ignored --nocapture` shows what `part::LEVEL` was chosen by.
#[tokio::test]
#[ignore = "it measures"]
async fn levels_of_compression() {
    let world = mirrored(&Venues::generate(5_000, 1)).await;
    for level in [1, 3, 6, 9, 12, 15, 19] {
        let began = Instant::now();
        let (mut out, details) = (Vec::new(), world.details.clone().into_iter().map(Ok::<_, Infallible>));
        let export = Export { level, ..world.export(None, &world.details) };
        write(&mut out, &export, details).unwrap();
        println!("level {level}: {} bytes in {} ms", out.len(), began.elapsed().as_millis());
    }
}
