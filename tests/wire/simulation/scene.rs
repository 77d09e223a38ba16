//! The scene of one run: the origin's dialect and the mirror's settings, drawn from a seed.
//!
//! Callers: `script`.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use sample_origin::{
    ApiUrlStyle, Cdn, CopyHeader, Edges, EmptyFilters, EtagStyle, FaultRule, Generated, GeneratedAt, ItemOrder,
    Switches, TaxonomyShape, TermFields,
};

use super::script::BEGIN;
use crate::origin_faults::Fault;

/// One run's scene.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The seed of everything.
    pub seed: u64,
    /// Listings at the start.
    pub listings: usize,
    /// The origin's dialect.
    pub switches: Switches,
    /// How old the copies of the origin's CDN can be.
    pub cache_ttl: Duration,
    /// By when a refresh must have happened.
    pub ttl: Duration,
    /// Requests in any 60 s; `None`: any number.
    pub budget: Option<usize>,
    /// The sweep's rhythm.
    pub sweep_every: Duration,
    /// The detail cycle.
    pub verify_every: Duration,
    /// Whether the mirror's wall clock may jump.
    pub jumps: bool,
    /// Examples of queries that are asked, an hour.
    pub examples: u32,
}

impl Scene {
    /// Draws one; `most` listings at most.
    pub fn draw(seed: u64, most: usize) -> (Self, SmallRng) {
        let mut dice = SmallRng::seed_from_u64(seed);
        let orders =
            [ItemOrder::ById, ItemOrder::ByModifiedDesc, ItemOrder::ByName, ItemOrder::Arbitrary(dice.random())];
        let tags = [EtagStyle::Strong, EtagStyle::Weak, EtagStyle::WithGeneratedAt, EtagStyle::None];
        let budget = dice.random_bool(0.5).then_some(60);
        let max_age = Duration::from_secs(dice.random_range(60..=300));
        let nodes = *[0, 1, 3].choose(&mut dice).unwrap();
        let copy_header = copy_header(seed);
        let is_silent = matches!(copy_header, CopyHeader::Silent { .. });
        // Nodes that disagree and say nothing would take anybody's data back.
        let nodes = if is_silent { nodes.min(1) } else { nodes };
        let (order, tag) = (*orders.choose(&mut dice).unwrap(), *tags.choose(&mut dice).unwrap());
        // It sends copies older than `cache_ttl`, and only their bodies tell how old.
        let is_updating = matches!(copy_header, CopyHeader::Silent { updating: true, .. });
        let etags = if is_updating && nodes > 0 { EtagStyle::None } else { tag };
        let cdn = (nodes > 0).then_some(Cdn { max_age, nodes });
        let generated = if is_silent && nodes > 0 { Generated::default() } else { generated(seed) };
        let switches = Switches {
            order,
            etags,
            request_id: dice.random_bool(0.3),
            gzip: dice.random_bool(0.5),
            taxonomy_shape: *[TaxonomyShape::Object, TaxonomyShape::Array, TaxonomyShape::Nested]
                .choose(&mut dice)
                .unwrap(),
            field_names: *[TermFields::NameCount, TermFields::TitleListingsCount, TermFields::LabelTotal]
                .choose(&mut dice)
                .unwrap(),
            empty_filters: *[EmptyFilters::Object, EmptyFilters::Array].choose(&mut dice).unwrap(),
            api_url: if dice.random_bool(0.2) { ApiUrlStyle::EscapedSlashes } else { ApiUrlStyle::Absolute },
            latency: Duration::from_millis(dice.random_range(1..=250)),
            jitter_ms: (1, dice.random_range(1..=100)),
            refuse_61st: budget.map(|most| most as u32),
            cdn,
            generated,
            copy_header,
            edges: Edges::named(Edges::NAMES[seed as usize % Edges::NAMES.len()]).unwrap(),
            ..Switches::default()
        };
        let scene = Self {
            seed,
            listings: dice.random_range(150..=most),
            switches,
            cache_ttl: if nodes > 0 { max_age } else { Duration::from_secs(dice.random_range(1..=60)) },
            ttl: Duration::from_secs(dice.random_range(120..=300)),
            budget,
            sweep_every: Duration::from_secs(dice.random_range(20..=60) * 60),
            verify_every: Duration::from_secs(3600),
            jumps: dice.random_bool(0.25),
            examples: 6,
        };
        (scene, dice)
    }

    /// A fault that lasts for a while.
    pub fn fault(dice: &mut SmallRng) -> FaultRule {
        let fault = match dice.random_range(0..8) {
            0 => Fault::Status(500),
            1 => Fault::Status(503),
            2 => Fault::Reset,
            3 => Fault::Truncated,
            4 => Fault::HtmlWith200,
            5 => Fault::Hang,
            6 => Fault::TooManyRequests(Some(dice.random_range(1..30))),
            _ => Fault::TooManyRequests(None),
        };
        let share = *[0.1, 0.5, 1.0].choose(dice).unwrap();
        let place = *["", "", "/api/listings.json", "/api/listings.json?page=2", "/api/cities"].choose(dice).unwrap();
        FaultRule { path_prefix: place.to_owned(), ..FaultRule::share(share, fault) }
    }

    /// The longest that a whole pass and its consequences take without trouble: every page and taxonomy twice, as many
    /// terms again, at the pace that the budget leaves (or one request per latency).
    pub fn pass_time(&self, listings: usize) -> Duration {
        let pages = listings.div_ceil(100) as u32;
        self.pace() * (2 * (pages + 3) + 60)
    }

    /// The longest from one request to the next when there is work.
    pub fn pace(&self) -> Duration {
        if self.budget.is_some() { Duration::from_secs(2) } else { Duration::from_millis(500) }
    }

    /// By when a mirror of a quiet, healthy origin has settled: `3 x (ttl + cache_ttl)` for a pass that must begin
    /// again, three passes, and the longest pauses that failures can have left behind.
    pub fn settled_after(&self, listings: usize) -> Duration {
        3 * (self.ttl + self.cache_ttl) + 3 * self.pass_time(listings) + Duration::from_secs(120)
    }

    /// By when each detail is as new as its summary: the longest pause of a detail that failed often, and twice the
    /// lifetime of a copy that was asked for at the last moment.
    pub fn details_follow_after(&self, listings: usize) -> Duration {
        let pauses = Duration::from_secs(3600) + 2 * self.cache_ttl + Duration::from_secs(10);
        self.settled_after(listings) + pauses + 2 * self.pace() * listings as u32
    }

    /// By when a sweep has also found what no refresh can see: its interval, its tenth of the budget, and the pass.
    pub fn swept_after(&self, listings: usize) -> Duration {
        let pages = listings.div_ceil(100) as u32;
        self.sweep_every + self.pace() * 10 * pages + self.cache_ttl + self.settled_after(listings)
    }

    /// By when every detail is current, also those whose summary shows nothing: two cycles (the first may have met an
    /// old copy), each at a tenth of the budget, and the longest pause of a detail that failed often.
    pub fn details_after(&self, listings: usize) -> Duration {
        2 * (self.verify_every + Duration::from_secs(10) * listings as u32) + Duration::from_secs(3600)
    }
}

/// What the CDN's copies say, drawn apart as well.
fn copy_header(seed: u64) -> CopyHeader {
    use CopyHeader::{OriginDate, OwnDate, Silent};
    let mut dice = SmallRng::seed_from_u64(seed ^ 0x63_64_6e);
    let silent = Silent { updating: dice.random_bool(0.5), says_so: true };
    *[OwnDate, OriginDate, silent].choose(&mut dice).unwrap()
}

/// What `generated_at` says, drawn apart, so that the rest of a seed's scene stays as it was.
fn generated(seed: u64) -> Generated {
    let mut dice = SmallRng::seed_from_u64(seed ^ 0x67_65_6e);
    let mut says = |usual| match dice.random_range(0..10) {
        // From long before the run, or from just before it: a deployment of the day.
        0..3 => GeneratedAt::StandsStill(BEGIN.as_seconds() - 100 * 86_400),
        3 => GeneratedAt::StandsStill(BEGIN.as_seconds() - 60),
        4..6 => GeneratedAt::Ahead(dice.random_range(4..=7200)),
        6 => GeneratedAt::Now,
        7 => GeneratedAt::Absent,
        _ => usual,
    };
    let usual = Generated::default();
    Generated { lists: says(usual.lists), taxonomies: says(usual.taxonomies), details: says(usual.details) }
}
