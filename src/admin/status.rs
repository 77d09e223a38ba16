//! The contents of `/status` and `/readyz`.
//!
//! Callers: [`super::Admin`], [`super::history`], `metrics`.

mod publish;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::taxonomy::TaxonomyKind;
use crate::audit::job::Audits;
use crate::cache::Cache;
use crate::clock::{Clock, WallTime};
use crate::config::{Settings, Use};
use crate::fleet::publisher::status::PublishStatus;
use crate::fleet::replica::status::ReplicaStatus;
use crate::limit::Limiter;
use crate::mirror::details::{Covered, Details};
use crate::mirror::pass::PAGE_SIZE;
use crate::semantics::excerpt;
use crate::serve::tls::renewal::Current;
use crate::shared_limit::SharedLimit;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::membership::Membership;
use crate::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::snapshots::Snapshots;
use crate::store::Store;
use crate::telemetry::Telemetry;
use crate::telemetry::access::InEffect;
use crate::telemetry::history::History;
use crate::telemetry::recent::Recent;
use crate::upstream::budget::Budget;
use crate::upstream::eta;
use crate::upstream::status::{OriginState, OriginStatus, Picture, Progress};
use crate::words::counted;

use super::advice::{self, Advice, RecentNote};
use super::health::{self, Facts, Reason};
use super::reload::Reloads;
use super::replica::ReplicaReading;

/// The public HTTPS listener.
pub(crate) struct TlsStatus {
    /// Its addresses.
    pub listen: Vec<SocketAddr>,
    /// The certificate for new connections.
    pub certificate: Arc<Current>,
}

/// The state at one instant, as values.
pub(super) struct Reading {
    /// The instant.
    pub now: WallTime,
    /// The data that clients get.
    pub published: Option<Arc<Snapshot>>,
    /// What is known of the origin.
    pub picture: Picture,
    /// The origin's state, as last seen.
    pub state: OriginState,
    /// Seconds since the data was confirmed; `None` without data, or while its date is in the future.
    pub age: Option<u32>,
    /// Whether its date is in the future.
    pub unconfirmed: bool,
    /// What is wrong with the disk.
    pub disk: Option<String>,
    /// Why this is unhealthy; empty: it is not.
    pub reasons: Vec<Reason>,
    /// What should be mended although it is healthy.
    pub findings: Vec<Reason>,
    /// The details, and how many listings there are.
    pub details: Option<(Covered, usize)>,
    /// See `Status::eta_seconds`.
    pub eta_seconds: Option<u64>,
    /// The state of a replica; `None` in other uses.
    pub replica: Option<ReplicaReading>,
}

/// The state that `/status` shows.
pub(crate) struct Status {
    /// How this process is used.
    pub usage: Use,
    /// The public addresses.
    pub listen: Vec<SocketAddr>,
    /// The public HTTPS listener, if any.
    pub tls: Option<TlsStatus>,
    /// The current snapshot.
    pub current: SnapshotPointer,
    /// The origin's health; `None` offline.
    pub origin: Option<OriginStatus>,
    /// The origin's budget; `None` offline.
    pub budget: Option<Budget>,
    /// The details; `None` in shield use.
    pub details: Option<Details>,
    /// The audits; `None` without a mirror.
    pub audits: Option<Audits>,
    /// The store; `None` in shield use.
    pub store: Option<Arc<Store>>,
    /// The kept snapshots; `None` in shield use.
    pub snapshots: Option<Snapshots>,
    pub cache: Cache,
    /// The counters.
    pub telemetry: Telemetry,
    pub limiter: Arc<Limiter>,
    /// The limit of the fleet; `None`: this process counts by itself.
    pub shared: Option<Arc<SharedLimit>>,
    /// `ttl`: the time by which a refresh must have happened.
    pub settings: Settings,
    /// How the last reload ended.
    pub reloads: Reloads,
    /// `bundle.max_age`; `None`: any age.
    pub max_age: Option<Duration>,
    pub clock: Clock,
    /// The origin's address; `None` offline.
    pub origin_url: Option<String>,
    /// The access log, if any.
    pub access: InEffect,
    /// Samples of the last hours.
    pub history: History,
    /// The last warnings and errors.
    pub recent: Recent,
    /// The publisher; `None`: nothing is written to an object store.
    pub publish: Option<PublishStatus>,
    /// The object store that a replica follows; `None` in other uses.
    pub replica: Option<ReplicaStatus>,
}

impl TlsStatus {
    fn describe(&self, now: WallTime) -> Value {
        let (until, problem) = (self.certificate.until().rfc3339(), self.certificate.problem(now));
        json!({ "listen": self.listen, "valid_until": until, "problem": problem })
    }
}

impl Status {
    /// Whether requests can be answered.
    ///
    /// # Errors
    /// With the reason when they are not.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if self.usage == Use::Shield || self.current.load().is_some() {
            return Ok(());
        }
        let picture = self.origin.as_ref().map(OriginStatus::picture).unwrap_or_default();
        let why = match (self.usage, picture.pass) {
            (Use::Replica, _) => {
                self.replica.as_ref().map_or_else(String::new, |replica| replica.picture().not_ready())
            }
            (Use::Offline, _) => "no snapshot has been imported yet".to_owned(),
            (_, Some(Progress { of: 0, .. })) => "the first crawl waits for the first page of the list".to_owned(),
            (_, Some(pass)) => {
                format!("the first crawl is running: {} of {} done", pass.done, counted(pass.of, "request"))
            }
            (_, None) => "the first crawl has not begun".to_owned(),
        };
        Err(match picture.last_error.as_ref().filter(|_| picture.is_failing()) {
            Some(error) => format!("{why}. The last error: {}", error.message),
            None => why,
        })
    }

    /// The time by which a refresh must have happened.
    pub(super) fn ttl(&self) -> Duration {
        self.settings.load().ttl
    }

    /// Whether a snapshot is held back.
    pub(crate) fn holds_back(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.picture().held.is_some())
    }

    /// Whether the server is healthy, and the JSON of `/status`.
    pub(crate) fn describe(&self) -> (bool, Value) {
        self.describe_reading(&self.read())
    }

    /// Everything that is decided or counted at one instant.
    pub(super) fn read(&self) -> Reading {
        let instants = self.clock.now();
        let now = instants.wall;
        let published = self.current.get();
        let picture = self.origin.as_ref().map(OriginStatus::picture).unwrap_or_default();
        let state = if self.usage.has_origin() { picture.state } else { OriginState::Offline };
        let age = published.as_ref().and_then(|published| published.age_seconds(instants));
        // A stamp from the future confirms nothing.
        let unconfirmed = published.as_ref().is_some_and(|published| published.is_unconfirmed(now));
        let disk = self.store.as_ref().and_then(|store| store.trouble()).or_else(|| picture.disk.clone());
        let replica = self.replica.as_ref().map(|replica| {
            let oldest = health::oldest(self.usage, self.ttl(), self.max_age).unwrap_or_else(|| self.ttl());
            ReplicaReading::of(&replica.picture(), now, self.clock.now_mono(), oldest)
        });
        let facts = Facts {
            usage: self.usage,
            not_ready: self.ready().err(),
            age: age.or(unconfirmed.then_some(0)),
            unconfirmed,
            ttl: self.ttl(),
            max_age: self.max_age,
            held: picture.held.as_ref().map(|held| held.reason.as_str()),
            disk: disk.as_deref(),
            replica: replica.as_ref().and_then(|replica| replica.why.as_deref()),
            details: picture.details.as_ref(),
            unstored: picture.unstored,
            old_copy: picture.old_copy,
        };
        let (reasons, findings) = (health::reasons(&facts), health::findings(&facts));
        let details = published.as_ref().zip(self.details.as_ref());
        let details =
            details.map(|(published, details)| (details.covered(&published.dataset), published.dataset.len()));
        let eta_seconds = self.eta_seconds(&picture, details);
        Reading {
            now,
            published,
            picture,
            state,
            age,
            unconfirmed,
            disk,
            reasons,
            findings,
            details,
            eta_seconds,
            replica,
        }
    }

    /// Whether all is well at an instant, and everything as JSON.
    pub(super) fn describe_reading(&self, reading: &Reading) -> (bool, Value) {
        let Reading { now, published, picture, state, age, unconfirmed, disk, .. } = reading;
        let Reading { reasons, findings, details, eta_seconds, replica, .. } = reading;
        let healthy = reasons.is_empty();
        let wanted = self.details.as_ref().and_then(Details::all_wanted);
        let wanted = wanted.map(|all| if all { "all" } else { "on-demand" });
        let mut value = json!({
            "use": self.usage.as_str(),
            "state": if healthy { "healthy" } else { "unhealthy" },
            "reasons": reasons.iter().map(|reason| &reason.text).collect::<Vec<_>>(),
            "findings": findings.iter().map(|finding| &finding.text).collect::<Vec<_>>(),
            "listen": self.listen,
            "tls": self.tls.as_ref().map(|tls| tls.describe(*now)),
            "snapshot": published.as_ref().map(|published| json!({
                "id": published.dataset.id.as_str(),
                "certificate": published.meta.certificate.as_str(),
                "open_points": published.meta.open_points,
            })),
            "rollback": self.snapshots.as_ref().and_then(Snapshots::rolled_back).map(|rollback| json!({
                "served": rollback.served,
                "newest": rollback.newest,
                "waiting": rollback.newest.as_ref() != Some(&rollback.served),
            })),
            "versions": self.snapshots.as_ref().map(|snapshots| snapshots.kept().len()),
            "listings": published.as_ref().map(|published| published.dataset.len()),
            "details": details.map(|(covered, of)| json!({
                "mirrored": covered.mirrored,
                "current": covered.current,
                "of": of,
                "wanted": wanted,
            })),
            "confirmed_at": published.as_ref().and_then(|published| published.claimed().rfc3339()),
            "age_seconds": age,
            "unconfirmed": unconfirmed,
            "origin": {
                "state": state.as_str(),
                "budget": self.budget_json(),
                "eta_seconds": eta_seconds,
                "pass": picture.pass,
                "passes": picture.passes,
                "failures": picture.health.failures(),
                "requests": picture.sent,
                "stamps": picture.stamps,
            },
            "terms": published.as_ref().map(|published| terms(published)),
            "volatile": published.as_ref().map(|published| published.meta.volatile.iter().collect::<Vec<_>>()),
            "left_out": published.as_ref().map(|published| published.meta.left_out.clone()),
            "disproved": published.as_ref().and_then(|published| published.meta.disproved.clone()),
            "unproved": published.as_ref().map(|published| published.meta.unproved().collect::<Vec<_>>()),
            "held": picture.held,
            "parity": self.audits.as_ref().map_or(Value::Null, parity),
            "rate_limit": self.rate_limit(),
            "hit_ratio": self.telemetry.hit_ratio(),
            "cache": { "bytes": self.cache.size().0, "entries": self.cache.size().1 },
            "reload": self.reloads.describe(),
            "disk": disk,
            "publish": self.publish.as_ref().map(|publish| publish::describe(&publish.view(), &self.clock)),
            "edges": self.snapshots.as_ref().map(|snapshots| super::edges::describe(snapshots.edges())),
            "last_error": picture.last_error,
            "replica": replica,
            "advice": self.advice(reading),
            "recent": self.recent.notes().iter().map(RecentNote::of).collect::<Vec<_>>(),
        });
        // It may contain texts from outside.
        excerpt::cut_all(&mut value);
        (healthy, value)
    }

    /// What is wrong, and what to do about it.
    fn advice(&self, reading: &Reading) -> Vec<Advice> {
        let budget = self.budget.as_ref().map(Budget::view);
        let tls = self.tls.as_ref().and_then(|tls| tls.certificate.problem(reading.now));
        let damage = self.store.as_ref().and_then(|store| store.damage());
        let rolled_back = self.snapshots.as_ref().and_then(Snapshots::rolled_back);
        let alone = self.shared.as_ref().and_then(|shared| shared.why_local());
        advice::advice(&advice::Facts {
            usage: self.usage,
            reasons: &reading.reasons,
            findings: &reading.findings,
            origin: reading.state,
            origin_url: self.origin_url.as_deref(),
            last_error: reading.picture.last_error.as_ref().map(|error| error.message.as_str()),
            paused_seconds: budget.map_or(0, |budget| budget.paused.as_secs()),
            has_data: reading.published.is_some(),
            rolled_back: rolled_back
                .as_ref()
                .map(|rolled_back| (rolled_back.served.as_str(), rolled_back.newest.as_ref().map(SnapshotId::as_str))),
            tls_problem: tls.as_deref(),
            damage: damage.as_deref(),
            parity: self.audits.as_ref().and_then(|audits| audits.score().percent()),
            alone: alone.as_deref(),
        })
    }

    /// Where clients are counted, and why not in Redis although it is configured.
    fn rate_limit(&self) -> Value {
        let why = self.shared.as_ref().and_then(|shared| shared.why_local());
        let store = if self.shared.is_some() && why.is_none() { "shared" } else { "local" };
        json!({ "store": store, "why": why })
    }

    fn budget_json(&self) -> Value {
        self.budget.as_ref().map_or(Value::Null, |budget| {
            let view = budget.view();
            json!({
                "limit": view.limit,
                "free": view.limit.map(|_| view.free),
                "paused_seconds": view.paused.as_secs(),
                "waiting": view.waiting,
            })
        })
    }

    /// Seconds until everything is mirrored: the rest of a pass, the closing round of a first one, and the details if
    /// all are wanted. `None`: unknown, also while nothing advances.
    fn eta_seconds(&self, picture: &Picture, details: Option<(Covered, usize)>) -> Option<u64> {
        let pass = picture.pass.map(|pass| (pass.of.saturating_sub(pass.done), pass.of));
        let (left, missing) = match (pass, details) {
            // The first page is not here yet.
            (Some((_, 0)) | None, None) => return None,
            (Some((left, of)), None) => (left + of, of.saturating_mul(PAGE_SIZE)),
            (pass, Some((covered, of))) => {
                (pass.map_or(0, |(left, _)| left), of.saturating_sub(covered.current) as u64)
            }
        };
        let all = self.details.as_ref().and_then(Details::all_wanted) == Some(true);
        let stuck = picture.details.as_ref().filter(|_| all && missing > 0);
        let stuck = stuck.is_some_and(|trouble| trouble.all || trouble.failing as u64 >= missing);
        // Without a pass, the state is that of the last refresh, however long ago.
        let fails = if pass.is_some() { picture.is_failing() } else { picture.health.failures() > 0 };
        if stuck || (fails && (left > 0 || missing > 0)) {
            return None;
        }
        let left = if all { left.saturating_add(missing) } else { left };
        eta::seconds(left, self.budget.as_ref()?.view().limit, picture.pace.per_second(Instant::now()))
    }
}

/// The running score of the audits; `null` before anything was compared.
fn parity(audits: &Audits) -> Value {
    let score = audits.score();
    score.percent().map_or(Value::Null, |percent| {
        json!({
            "percent": percent,
            "compared": score.compared(),
            "differences": score.differences(),
            "properties": score.properties(),
            "last_at": score.last_at().and_then(WallTime::rfc3339),
        })
    })
}

/// How many terms are certain, and how.
fn terms(published: &Snapshot) -> Value {
    let mut counts = serde_json::Map::new();
    for kind in TaxonomyKind::ALL {
        let of = |word: &str| published.dataset.memberships(kind).filter(|(_, known)| known.as_str() == word).count();
        let doubtful: Vec<&str> = published
            .dataset
            .memberships(kind)
            .filter(|(_, known)| **known == Membership::Doubtful)
            .map(|(slug, _)| slug)
            .take(20)
            .collect();
        let value =
            json!({ "named": of("named"), "listed": of("listed"), "doubtful": of("doubtful"), "in_doubt": doubtful });
        counts.insert(kind.parameter().to_owned(), value);
    }
    Value::Object(counts)
}
