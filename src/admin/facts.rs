//! The facts of `GET /status`. Each is one field: [`super::status`] fills it, the console and the command line
//! read it, and the metrics take their values from it.
//!
//! Times are RFC 3339. Words and times are texts, and what another version leaves out has its default, so that the
//! command line can read every server's status. Callers: [`super`], [`crate::cli`].

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::semantics::excerpt;
use crate::upstream::status::{Held, LastError, Progress};

use super::advice::{Advice, RecentNote};

/// Everything in `/status`; absent parts are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StatusFacts {
    /// Of this program.
    pub version: String,
    /// A word of [`crate::config::Use`].
    #[serde(rename = "use")]
    pub usage: String,
    /// `healthy` or `unhealthy`.
    pub state: String,
    /// Why the server is unhealthy, in sentences; empty: it is healthy.
    pub reasons: Vec<String>,
    /// What should be mended although it is healthy, in sentences.
    pub findings: Vec<String>,
    pub listen: Vec<SocketAddr>,
    pub tls: Option<TlsFacts>,
    pub snapshot: Option<SnapshotFacts>,
    pub rollback: Option<RollbackFacts>,
    /// How many snapshots are kept.
    pub versions: Option<usize>,
    /// Listings in the current snapshot.
    pub listings: Option<u64>,
    pub details: Option<DetailFacts>,
    pub confirmed_at: Option<String>,
    /// Since `confirmed_at`; `None`: no data, or it is dated in the future.
    pub age_seconds: Option<u32>,
    /// Whether the data is dated in the future.
    pub unconfirmed: bool,
    pub origin: OriginFacts,
    /// By taxonomy: `sport`, `state`, `city`.
    pub terms: Option<BTreeMap<String, TermFacts>>,
    /// Fields that change although the data does not.
    pub volatile: Option<Vec<String>>,
    /// Fields of the envelope that differed between pages.
    pub left_out: Option<Vec<String>>,
    /// What the origin was found not to do; `None`: not checked.
    pub disproved: Option<Vec<String>>,
    /// What the data does not show the origin to do.
    pub unproved: Option<Vec<String>>,
    /// A snapshot that is not published because it lost too much.
    pub held: Option<Held>,
    pub parity: Option<ParityFacts>,
    pub rate_limit: LimitFacts,
    /// Share of answers that needed no request to the origin, 0 to 1.
    pub hit_ratio: Option<f64>,
    pub cache: CacheFacts,
    pub reload: Option<ReloadFacts>,
    /// What is wrong with the disk.
    pub disk: Option<String>,
    pub publish: Option<PublishFacts>,
    pub edges: Option<EdgeFacts>,
    pub last_error: Option<LastError>,
    pub replica: Option<ReplicaFacts>,
    /// What is wrong, or should be mended, with what to do; what makes the server unhealthy first.
    pub advice: Vec<Advice>,
    /// The last warnings and errors of the log, the newest first.
    pub recent: Vec<RecentNote>,
}

/// The public HTTPS listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TlsFacts {
    pub listen: Vec<SocketAddr>,
    pub valid_until: Option<String>,
    /// What is wrong with the certificate.
    pub problem: Option<String>,
}

/// The current snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SnapshotFacts {
    pub id: String,
    /// A word of [`crate::snapshot::meta::Certificate`].
    pub certificate: String,
    /// What is not proven, in sentences.
    pub open_points: Vec<String>,
}

/// The rollback that is in effect.
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
    /// As new as their summaries; `None`: a server of an earlier version does not say.
    pub current: Option<u64>,
    pub of: u64,
    /// `all` or `on-demand`.
    pub wanted: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OriginFacts {
    /// A word of [`crate::upstream::status::OriginState`].
    pub state: String,
    pub budget: Option<BudgetFacts>,
    /// Until everything is mirrored; `None`: unknown, also while nothing advances.
    pub eta_seconds: Option<u64>,
    /// The running pass.
    pub pass: Option<Progress>,
    /// Whole passes that were completed.
    pub passes: u64,
    /// Failures in a row.
    pub failures: u32,
    /// Requests sent since the start, by class.
    pub requests: BTreeMap<String, u64>,
    /// The use of `generated_at`, by kind of answer.
    pub stamps: BTreeMap<String, String>,
}

/// The origin's budget for one minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BudgetFacts {
    /// `None`: no limit.
    pub limit: Option<usize>,
    /// `None` without a limit.
    pub free: Option<usize>,
    pub paused_seconds: u64,
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
    /// What the origin does in a way of its own where this server's way is documented.
    pub properties: Vec<String>,
    pub last_at: Option<String>,
}

/// The rate limit for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LimitFacts {
    /// `local`, or `shared` while the fleet counts together.
    pub store: String,
    /// Why it is not shared although it should be.
    pub why: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CacheFacts {
    pub bytes: u64,
    pub entries: u64,
}

/// How a reload ended.
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

/// The publisher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PublishFacts {
    /// The number of the last head in the object store.
    pub sequence: Option<u64>,
    pub last_success: Option<String>,
    /// For how long the object store has not been known to have everything.
    pub behind_seconds: u64,
    pub why: Option<String>,
}

/// The store that a replica follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicaFacts {
    /// The highest head that was taken.
    pub sequence: Option<u64>,
    /// When the store last answered.
    pub last_poll: Option<String>,
    /// For how long something is missing that the store has, or the store is not known; 0: nothing is missing.
    pub behind_seconds: Option<u64>,
    /// Why the data is not the newest.
    pub why: Option<String>,
}

/// How odd requests are answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EdgeFacts {
    /// A word of [`crate::snapshot::edges::State`].
    pub state: String,
    /// What was learned, by case.
    pub cases: BTreeMap<String, String>,
    /// The cases that are answered in this server's own way.
    pub own: Vec<String>,
    /// Requests to the origin about the cases.
    pub probes: u32,
    pub probed_at: Option<String>,
}

impl StatusFacts {
    pub(crate) const HEALTHY: &str = "healthy";
    pub(crate) const UNHEALTHY: &str = "unhealthy";

    pub(crate) fn is_healthy(&self) -> bool {
        self.state == Self::HEALTHY
    }

    /// The JSON of `/status`. Texts from outside are cut.
    pub(crate) fn json(&self) -> Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        excerpt::cut_all(&mut value);
        value
    }
}

impl DetailFacts {
    /// How many are as new as their summaries, as far as the server says.
    pub(crate) fn current(&self) -> u64 {
        self.current.unwrap_or(self.mirrored)
    }

    /// How many should be stored before a client asks.
    pub(crate) fn in_advance(&self) -> u64 {
        if self.wanted.as_deref() == Some("all") { self.of } else { 0 }
    }
}
