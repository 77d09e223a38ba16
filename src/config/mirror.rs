//! `[mirror]`: crawl, sweep and retention.
//!
//! Not the schedule itself. Callers: `resolve` reads it, `mirror` and `snapshots` act on it.

use std::time::Duration;

use super::describe::Toml;
use super::parse::{boolean, choice, share, whole};
use super::section::Section;
use super::units::{DAY, duration, duration_text};

/// Which details are fetched ahead of being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Details {
    /// The details of all listings.
    All,
    /// A detail is fetched when a client requests it.
    OnDemand,
}

impl Details {
    /// The word for it in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::OnDemand => "on-demand",
        }
    }
}

/// How requests are answered that the documentation leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edges {
    /// As the origin answers them, once that is learned.
    Origin,
    /// As our own documentation says.
    Own,
}

impl Edges {
    /// The word for it in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::Own => "own",
        }
    }
}

/// `[mirror]`, resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct MirrorConfig {
    /// Whether the origin is crawled. `false`: a shield. Ignored offline.
    pub enabled: bool,
    /// Which details are fetched ahead.
    pub details: Details,
    /// How often everything is revalidated even when nothing looks changed; 100 ms to 365 d.
    pub sweep_every: Duration,
    /// Each detail is revalidated at least this often; 100 ms to 365 d.
    pub verify_details_every: Duration,
    /// How requests are answered that the documentation leaves open.
    pub edges: Edges,
    /// Background samples that compare mirror and origin, per hour; 0 (none) to 3600.
    pub audit_per_hour: u32,
    /// A snapshot that lost more than this share of the listings is held back; 0 to 1.
    pub max_shrink: f64,
    /// How many of the newest snapshots are kept; 1 to 1000.
    pub keep: u32,
    /// For how many days the last snapshot of the day is kept; 0 to 3660.
    pub keep_daily: u32,
    /// How far back `/changes.json` answers; 0 to 3650 d.
    pub changes_for: Duration,
}

impl Default for MirrorConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            details: Details::All,
            sweep_every: Duration::from_secs(6 * 3600),
            verify_details_every: 7 * DAY,
            edges: Edges::Origin,
            audit_per_hour: 6,
            max_shrink: 0.2,
            keep: 5,
            keep_daily: 7,
            changes_for: 30 * DAY,
        }
    }
}

impl MirrorConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        const DETAILS: [(&str, Details); 2] = [("all", Details::All), ("on-demand", Details::OnDemand)];
        const EDGES: [(&str, Edges); 2] = [("origin", Edges::Origin), ("own", Edges::Own)];
        let default = Self::default();
        let interval = || duration(Duration::from_millis(100)..=365 * DAY);
        Self {
            enabled: section.field("enabled", default.enabled, boolean),
            details: section.field("details", default.details, choice(&DETAILS)),
            sweep_every: section.field("sweep_every", default.sweep_every, interval()),
            verify_details_every: section.field("verify_details_every", default.verify_details_every, interval()),
            edges: section.field("edges", default.edges, choice(&EDGES)),
            audit_per_hour: section.field("audit_per_hour", default.audit_per_hour, whole("samples", 0..=3600)),
            max_shrink: section.field("max_shrink", default.max_shrink, share),
            keep: section.field("keep", default.keep, whole("snapshots", 1..=1000)),
            keep_daily: section.field("keep_daily", default.keep_daily, whole("days", 0..=3660)),
            changes_for: section.field("changes_for", default.changes_for, duration(Duration::ZERO..=3650 * DAY)),
        }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.table("mirror");
        out.pair("enabled", self.enabled);
        out.pair("details", self.details.as_str());
        out.pair("sweep_every", duration_text(self.sweep_every));
        out.pair("verify_details_every", duration_text(self.verify_details_every));
        out.pair("edges", self.edges.as_str());
        out.pair("audit_per_hour", self.audit_per_hour);
        out.pair("max_shrink", self.max_shrink);
        out.pair("keep", self.keep);
        out.pair("keep_daily", self.keep_daily);
        out.pair("changes_for", duration_text(self.changes_for));
    }
}
