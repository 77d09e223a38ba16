//! The facts of `GET /status`. Each is one field: [`super::status`] fills it, the console and the command line
//! read it, and the metrics take their values from it.
//!
//! Times are RFC 3339. Words and times are texts, and what another version leaves out has its default, so that the
//! command line can read every server's status. Callers: [`super`], [`crate::cli`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::shape::TermName;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::WallTime;
use crate::config::{AdminConfig, RateLimitConfig};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Membership;
use crate::edge::limit::Limiter;
use crate::edge::shared_limit::SharedLimit;
use crate::fleet::publisher::status::PublishFacts;
use crate::fleet::replica::status::ReplicaFacts;
use crate::mirror::examiner::report::Score;
use crate::origin::budget::BudgetView;
use crate::origin::status::{HeldBack, LastError, OriginState, Progress};
use crate::protocol::excerpt;
use crate::telemetry::Telemetry;
use crate::telemetry::counters::ByLabels;
use crate::telemetry::findings::Raised;

/// Everything in `/status`; absent parts are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StatusFacts {
    /// Of this program.
    pub version: String,
    pub started_at: Option<String>,
    pub uptime_seconds: u64,
    /// Resident memory; `None`: unknown.
    pub memory_bytes: Option<u64>,
    /// A word of [`crate::config::Use`].
    #[serde(rename = "use")]
    pub usage: String,
    /// Whether this is `grandstand demo`, whose data is invented.
    pub demo: bool,
    /// `healthy` or `unhealthy`.
    pub state: String,
    /// Why the server is unhealthy: texts of findings; empty: it is healthy.
    pub reasons: Vec<String>,
    /// Everything that is wrong, what makes the server unhealthy first.
    pub findings: Vec<Raised>,
    /// The address of this server for clients.
    pub public_url: String,
    pub listen: Vec<SocketAddr>,
    /// Its data directory, an absolute path.
    pub data_dir: String,
    pub tls: Option<TlsFacts>,
    pub admin: AdminFacts,
    pub snapshot: Option<SnapshotFacts>,
    pub rollback: Option<RollbackFacts>,
    pub versions: Option<usize>,
    /// Listings in the current snapshot.
    pub listings: Option<u64>,
    pub details: Option<DetailFacts>,
    pub confirmed_at: Option<String>,
    /// Since `confirmed_at`; `None`: no data, or it is dated in the future.
    pub age_seconds: Option<u32>,
    /// Whether the data is dated in the future.
    pub unconfirmed: bool,
    /// Within which a refresh must happen; `None`: nothing is refreshed.
    pub ttl_seconds: Option<u64>,
    /// The age above which the server is unhealthy; `None`: at no age.
    pub unhealthy_after_seconds: Option<u64>,
    pub origin: OriginFacts,
    /// By taxonomy: `sport`, `state`, `city`.
    pub terms: Option<BTreeMap<String, TermFacts>>,
    /// Fields that change although the data does not.
    pub volatile: Option<Vec<String>>,
    /// Fields of the envelope that differed between pages.
    pub left_out: Option<Vec<String>>,
    /// Shapes of queries that the origin answers as this server does; `None`: not all were asked yet.
    pub confirmed: Option<Vec<String>>,
    /// Those that it answers otherwise.
    pub disproved: Option<Vec<String>>,
    /// Those of which neither is known.
    pub unproved: Option<Vec<String>>,
    /// What the rows of the open cases mean at the origin, by name; one that is not known is missing.
    pub open_cases: Option<BTreeMap<String, String>>,
    /// A snapshot that is not published because it lost too much.
    pub held: Option<HeldBack>,
    pub parity: Option<ParityFacts>,
    pub rate_limit: LimitFacts,
    pub connections: ConnectionFacts,
    /// Answers since the start, by group, and `not_modified` for those with status 304.
    pub answers: BTreeMap<String, u64>,
    /// Share of answers that needed no request to the origin, 0 to 1.
    pub hit_ratio: Option<f64>,
    pub cache: CacheFacts,
    pub reload: Option<ReloadFacts>,
    pub publish: Option<PublishFacts>,
    pub last_error: Option<LastError>,
    pub replica: Option<ReplicaFacts>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AdminFacts {
    /// Who may give commands: `free` (everybody), `token` or `refused` (nobody).
    pub writes: String,
    pub listen: Option<SocketAddr>,
}

/// The public HTTPS listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TlsFacts {
    pub listen: Vec<SocketAddr>,
    pub valid_until: Option<String>,
}

/// The current snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SnapshotFacts {
    pub id: String,
    /// A word of [`crate::data::snapshot::meta::Certificate`].
    pub certificate: String,
    /// What is not proven, in sentences.
    pub open_points: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RollbackFacts {
    pub served: String,
    pub newest: Option<String>,
    /// Whether the newest snapshot is another one.
    pub waiting: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DetailFacts {
    pub mirrored: u64,
    /// As new as their summaries.
    pub current: u64,
    pub of: u64,
    /// `all` or `on-demand`.
    pub wanted: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OriginFacts {
    pub url: Option<String>,
    /// The proxy on the way to it, without user name and password; `None`: none.
    pub proxy: Option<String>,
    /// A word of [`crate::origin::status::OriginState`].
    pub state: String,
    pub budget: Option<BudgetFacts>,
    pub refreshed_at: Option<String>,
    /// Until the next refresh is due; 0: it is due, or it runs; `None`: none is planned.
    pub next_refresh_seconds: Option<u64>,
    /// Until everything is mirrored; `None`: unknown, also while nothing advances or the end moves to later.
    pub eta_seconds: Option<u64>,
    pub pass: Option<Progress>,
    /// Whole passes that were completed.
    pub passes: u64,
    /// Failures in a row.
    pub failures: u32,
    /// For how long it has failed, also between two tries; `None`: it answers.
    pub failing_seconds: Option<u64>,
    /// Requests sent since the start, by class.
    pub requests: BTreeMap<String, u64>,
    /// The use of `generated_at`, by kind of answer.
    pub stamps: BTreeMap<String, String>,
}

impl OriginFacts {
    /// The state of an origin that fails; `None`: it does not.
    pub(crate) fn failing(&self) -> Option<OriginState> {
        [OriginState::CouldNotBeAsked, OriginState::Nonsense].into_iter().find(|state| state.as_str() == self.state)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BudgetFacts {
    /// `None`: no limit.
    pub limit: Option<usize>,
    /// `None` without a limit.
    pub free: Option<usize>,
    pub paused_seconds: u64,
    /// The part of it that the origin asked for.
    pub asked_seconds: u64,
    /// Requests that wait for a slot.
    pub waiting: usize,
}

/// How the members of one taxonomy's terms are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TermFacts {
    pub named: usize,
    pub listed: usize,
    pub doubtful: usize,
    /// The first doubtful ones.
    pub in_doubt: Vec<String>,
}

/// The running score of the audits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ParityFacts {
    pub percent: f64,
    pub compared: usize,
    pub differences: Vec<String>,
    pub last_at: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LimitFacts {
    /// `local`, or `shared` while the fleet counts together.
    pub store: String,
    /// Why it is not shared although it should be.
    pub why: Option<String>,
    /// Of one client; `None`: no limit.
    pub requests_per_minute: Option<u32>,
    pub clients: usize,
    /// The Redis that counts for the fleet, without its password; `None`: none is configured, as for the fields below.
    pub url: Option<String>,
    /// Since when this process counts by itself.
    pub alone_since: Option<String>,
    /// By `store` (Redis), `memory` (an earlier refusal by Redis) and `process` (this process alone).
    pub decisions: Option<BTreeMap<String, u64>>,
    /// How often Redis became unusable.
    pub lost: Option<u64>,
    /// Decisions of this process that it reported to Redis later.
    pub replayed: Option<u64>,
    /// Decisions of this process that it could not report because there were too many.
    pub forgotten: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ConnectionFacts {
    pub open: i64,
    /// Idle ones that were closed to make room.
    pub evicted: u64,
    /// By limit.
    pub refused: BTreeMap<String, u64>,
    /// Closed because of the PROXY protocol, by reason.
    pub headers_refused: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CacheFacts {
    pub bytes: u64,
    pub entries: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReloadFacts {
    pub at: Option<String>,
    pub ok: bool,
    /// The changed keys that are in effect now.
    pub applied: Vec<String>,
    /// The changed keys that take effect at the next start.
    pub needs_restart: Vec<String>,
    /// Every mistake in the configuration; then nothing has changed.
    pub errors: Vec<String>,
}

impl StatusFacts {
    pub(crate) const HEALTHY: &str = "healthy";
    pub(crate) const UNHEALTHY: &str = "unhealthy";

    pub(crate) fn is_healthy(&self) -> bool {
        self.state == Self::HEALTHY
    }

    /// The JSON of `/status`. Texts from outside are cut, and their control characters escaped.
    pub(crate) fn json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        excerpt::shorten_all(&mut value);
        value
    }
}

impl AdminFacts {
    pub(super) fn of(config: &AdminConfig) -> Self {
        let writes = match config.secret() {
            Some(_) => "token",
            None if config.accepts_writes() => "free",
            None => "refused",
        };
        Self { writes: writes.to_owned(), listen: Some(config.listen) }
    }
}

impl BudgetFacts {
    pub(crate) fn of(view: &BudgetView) -> Self {
        Self {
            limit: view.limit,
            free: view.limit.map(|_| view.free),
            paused_seconds: view.paused.as_secs(),
            asked_seconds: view.asked.as_secs(),
            waiting: view.waiting,
        }
    }
}

impl DetailFacts {
    /// How many should be stored before a client asks.
    pub(crate) fn in_advance(&self) -> u64 {
        if self.wanted.as_deref() == Some("all") { self.of } else { 0 }
    }
}

impl TermFacts {
    /// By taxonomy.
    /// `doubtful`: those that the origin answers otherwise.
    pub(super) fn of(dataset: &Dataset, doubtful: &BTreeSet<TermName>) -> BTreeMap<String, Self> {
        const MOST_NAMED: usize = 20;
        let of_kind = |kind: TaxonomyKind| {
            let mut facts = Self::default();
            for (slug, membership) in dataset.memberships(kind) {
                let is_doubtful = !doubtful.is_empty() && doubtful.contains(&TermName { kind, slug: slug.into() });
                match if is_doubtful { &Membership::Doubtful } else { membership } {
                    Membership::Named(_) => facts.named += 1,
                    Membership::Listed(..) => facts.listed += 1,
                    Membership::Doubtful => {
                        facts.doubtful += 1;
                        if facts.in_doubt.len() < MOST_NAMED {
                            facts.in_doubt.push(slug.to_owned());
                        }
                    }
                }
            }
            (kind.parameter().to_owned(), facts)
        };
        TaxonomyKind::ALL.map(of_kind).into()
    }
}

impl ParityFacts {
    /// `None` before anything was compared.
    pub(super) fn of(score: &Score) -> Option<Self> {
        Some(Self {
            percent: score.percent()?,
            compared: score.compared(),
            differences: score.differences(),
            last_at: score.last_at().and_then(WallTime::rfc3339),
        })
    }
}

impl LimitFacts {
    pub(super) fn of(config: &RateLimitConfig, limiter: &Limiter, shared: Option<&SharedLimit>) -> Self {
        let why = shared.and_then(SharedLimit::why_local);
        let decisions = |shared: &SharedLimit| {
            shared.counters.decisions().into_iter().map(|(by, count)| (by.to_owned(), count)).collect()
        };
        Self {
            store: if shared.is_some() && why.is_none() { "shared" } else { "local" }.to_owned(),
            why,
            requests_per_minute: config.requests_per_minute.map(NonZeroU32::get),
            clients: limiter.windows(),
            url: shared.map(|shared| shared.store().to_string()),
            alone_since: shared.and_then(SharedLimit::alone_since).and_then(WallTime::rfc3339),
            decisions: shared.map(decisions),
            lost: shared.map(|shared| shared.counters.lost.load(Relaxed)),
            replayed: shared.map(|shared| shared.counters.replayed.load(Relaxed)),
            forgotten: shared.map(SharedLimit::forgotten),
        }
    }
}

impl ConnectionFacts {
    pub(super) fn of(telemetry: &Telemetry) -> Self {
        let by_word = |counters: &ByLabels<&'static str>| {
            counters.counts().into_iter().map(|(word, count)| (word.to_owned(), count)).collect()
        };
        Self {
            open: telemetry.connections.open(),
            evicted: telemetry.connections.evictions(),
            refused: by_word(&telemetry.connections.refused),
            headers_refused: by_word(&telemetry.headers_refused),
        }
    }
}
