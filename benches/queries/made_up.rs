//! Made-up listings for benches of the data set and of the search.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use grandstand::api::hash::ContentHash;
use grandstand::api::json;
use grandstand::api::listing::{ListingId, Summary};
use grandstand::api::page::Envelope;
use grandstand::api::taxonomy::VolatileKeys;
use grandstand::data::snapshot::content::Content;

pub const SPORTS: u64 = 16;
pub const STATES: u64 = 51;
pub const CITIES: u64 = 355;

/// Numbers that look random and are the same in every run.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 += 1;
        xxhash_rust::xxh3::xxh3_64(&self.0.to_le_bytes()) % end
    }

    /// Small numbers much more often than large ones, as sports and places are.
    pub fn skewed(&mut self, end: u64) -> u64 {
        self.below(end).min(self.below(end)).min(self.below(end))
    }
}

/// Listings with names that `name` makes up from their ids.
pub fn content(listings: u64, newest_first: bool, name: impl Fn(&mut Dice, u64) -> String) -> Content {
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
                r#"{{"id":{id},"name":"{}","url":"https://venues.example/state-{state}/riverside-park-{id}","city":"City {city}","state":"State {state}","sport":"sport-{sport}","lat":{}.{:06},"lng":-{}.{:06},"rating":{}.{},"review_count":{},"modified":"{modified}"}}"#,
                name(&mut dice, id),
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

/// The resident memory of this process in bytes.
pub fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
