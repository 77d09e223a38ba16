//! Troubles of the origin beside its answers: each kind with its facts, and as a finding.
//!
//! Callers: [`super`] keeps them, [`crate::mirror`] and [`crate::origin`] fill them in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::WallTime;
use crate::protocol::excerpt;
use crate::telemetry::findings::{Finding, Kind};

/// A snapshot that is not published because it lost too much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldBack {
    pub snapshot: String,
    pub listings: u64,
    /// The listings of the newest snapshot.
    pub serving: u64,
    pub reason: String,
    /// How many listings of the newest snapshot it lacks, by sport and by state.
    pub sports: BTreeMap<String, u64>,
    pub states: BTreeMap<String, u64>,
    /// The first of them.
    pub vanishing: Vec<Vanishing>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vanishing {
    pub id: u64,
    pub name: String,
}

impl HeldBack {
    pub(super) fn finding(&self) -> Finding {
        let most = |of: &BTreeMap<String, u64>| {
            let mut all: Vec<_> = of.iter().collect();
            all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let more = if all.len() > MOST_TOLD { ", ..." } else { "" };
            let told = all
                .iter()
                .take(MOST_TOLD)
                .map(|(name, count)| format!("{} {count}", excerpt::escaped(name)))
                .collect::<Vec<_>>();
            told.join(", ") + more
        };
        let Self { reason, sports, states, .. } = self;
        let whose = format!("by sport: {}; by state: {}", most(sports), most(states));
        Finding::new(Kind::HeldBack, format!("a snapshot is held back: {reason} ({whose})"))
    }
}

/// How many sports and states a sentence names.
const MOST_TOLD: usize = 5;

/// A copy of a cache in front of the origin that is far older than `origin.cache_ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldCopy {
    pub age_seconds: u64,
    pub cache_ttl_seconds: u64,
}

impl OldCopy {
    pub(super) fn finding(self) -> Finding {
        let Self { age_seconds, cache_ttl_seconds } = self;
        let text = format!(
            "a cache in front of the origin sent a copy {age_seconds} s old, but origin.cache_ttl is \
             {cache_ttl_seconds} s: changes are seen late"
        );
        Finding::new(Kind::CopiesOld, text)
    }
}

/// A wait for old copies of the origin's CDN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiesWait {
    pub until: WallTime,
    /// Whether it belongs to a first copy, and is no longer than that takes.
    pub is_expected: bool,
}
