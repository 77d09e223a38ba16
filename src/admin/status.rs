//! The state of the server: the contents of `/status` and `/readyz`, and one line for service managers.
//!
//! Callers: [`super::Admin`], [`super::history`], `metrics`, [`crate::app`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::api::edges::Case;
use crate::api::edges::lesson::Lesson;
use crate::api::taxonomy::TaxonomyKind;
use crate::audit::job::Audits;
use crate::cache::Cache;
use crate::clock::{Clock, WallTime};
use crate::config::{Settings, Use};
use crate::fleet::publisher::status::{PublishStatus, View as Publishing};
use crate::fleet::replica::status::{Picture as Following, ReplicaStatus};
use crate::limit::Limiter;
use crate::mirror::details::{Covered, Details};
use crate::mirror::pass::PAGE_SIZE;
use crate::serve::tls::renewal::Current;
use crate::shared_limit::SharedLimit;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::edges::Edges;
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
use super::facts::{
    BudgetFacts, CacheFacts, DetailFacts, EdgeFacts, LimitFacts, OriginFacts, ParityFacts, PublishFacts, ReplicaFacts,
    RollbackFacts, SnapshotFacts, StatusFacts, TermFacts, TlsFacts,
};
use super::health::{self, Facts, Reason};
use super::reload::Reloads;

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
    pub replica: Option<ReplicaFacts>,
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
    /// Until the certificate expires.
    pub(super) fn seconds_left(&self, now: WallTime) -> i64 {
        self.certificate.until().seconds_since(now)
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

    /// Every fact of `/status`.
    pub(crate) fn facts(&self) -> StatusFacts {
        self.facts_of(&self.read())
    }

    /// What the server does and how it is: `serving 5000 listings (mirror), confirmed at 2026-11-22T14:30:00Z`.
    pub(crate) fn line(&self) -> String {
        let facts = self.facts();
        let usage = &facts.usage;
        let served = match facts.listings {
            Some(listings) => {
                let confirmed = facts.confirmed_at.as_deref().unwrap_or("an unknown time");
                format!("serving {} ({usage}), confirmed at {confirmed}", counted(listings, "listing"))
            }
            None if self.usage == Use::Shield => format!("serving ({usage})"),
            None => format!("no data yet ({usage})"),
        };
        if facts.reasons.is_empty() { served } else { format!("{served}; unhealthy: {}", facts.reasons.join("; ")) }
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
            self.following(&replica.picture(), now, oldest)
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

    pub(super) fn facts_of(&self, reading: &Reading) -> StatusFacts {
        let Reading { now, published, picture, reasons, findings, .. } = reading;
        let published = published.as_deref();
        let meta = published.map(|published| &published.meta);
        let texts = |reasons: &[Reason]| reasons.iter().map(|reason| reason.text.clone()).collect();
        let state = if reasons.is_empty() { StatusFacts::HEALTHY } else { StatusFacts::UNHEALTHY };
        let why_local = self.shared.as_ref().and_then(|shared| shared.why_local());
        let is_shared = self.shared.is_some() && why_local.is_none();
        let (bytes, entries) = self.cache.size();
        StatusFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            usage: self.usage.as_str().to_owned(),
            state: state.to_owned(),
            reasons: texts(reasons),
            findings: texts(findings),
            listen: self.listen.clone(),
            tls: self.tls.as_ref().map(|tls| TlsFacts {
                listen: tls.listen.clone(),
                valid_until: tls.certificate.until().rfc3339(),
                problem: tls.certificate.problem(*now),
            }),
            snapshot: published.map(|published| SnapshotFacts {
                id: published.dataset.id.to_string(),
                certificate: published.meta.certificate.as_str().to_owned(),
                open_points: published.meta.open_points.clone(),
            }),
            rollback: self.snapshots.as_ref().and_then(Snapshots::rolled_back).map(|rollback| RollbackFacts {
                waiting: rollback.newest.as_ref() != Some(&rollback.served),
                served: rollback.served.to_string(),
                newest: rollback.newest.map(|newest| newest.to_string()),
            }),
            versions: self.snapshots.as_ref().map(|snapshots| snapshots.kept().len()),
            listings: published.map(|published| published.dataset.len() as u64),
            details: reading.details.map(|(covered, of)| DetailFacts {
                mirrored: covered.mirrored as u64,
                current: Some(covered.current as u64),
                of: of as u64,
                wanted: self.wants_all().map(|all| if all { "all" } else { "on-demand" }.to_owned()),
            }),
            confirmed_at: published.and_then(|published| published.claimed().rfc3339()),
            age_seconds: reading.age,
            unconfirmed: reading.unconfirmed,
            origin: self.origin_facts(reading),
            terms: published.map(terms),
            volatile: meta.map(|meta| meta.volatile.iter().map(str::to_owned).collect()),
            left_out: meta.map(|meta| meta.left_out.clone()),
            disproved: meta.and_then(|meta| meta.disproved.as_ref()).map(|all| all.iter().map(word).collect()),
            unproved: meta.map(|meta| meta.unproved().map(word).collect()),
            held: picture.held.clone(),
            parity: self.audits.as_ref().and_then(parity),
            rate_limit: LimitFacts { store: if is_shared { "shared" } else { "local" }.to_owned(), why: why_local },
            hit_ratio: self.telemetry.hit_ratio(),
            cache: CacheFacts { bytes, entries },
            reload: self.reloads.last(),
            disk: reading.disk.clone(),
            publish: self.publish.as_ref().map(|publish| self.publishing(&publish.view())),
            edges: self.snapshots.as_ref().map(|snapshots| edges(snapshots.edges())),
            last_error: picture.last_error.clone(),
            replica: reading.replica.clone(),
            advice: self.advice(reading),
            recent: self.recent.notes().iter().map(RecentNote::of).collect(),
        }
    }

    fn origin_facts(&self, Reading { picture, state, eta_seconds, .. }: &Reading) -> OriginFacts {
        let texts = |(key, value): (&&str, &&str)| ((*key).to_owned(), (*value).to_owned());
        OriginFacts {
            state: state.as_str().to_owned(),
            budget: self.budget.as_ref().map(Budget::view).map(|view| BudgetFacts {
                limit: view.limit,
                free: view.limit.map(|_| view.free),
                paused_seconds: view.paused.as_secs(),
                waiting: view.waiting,
            }),
            eta_seconds: *eta_seconds,
            pass: picture.pass,
            passes: picture.passes,
            failures: picture.health.failures(),
            requests: picture.sent.iter().map(|(class, count)| ((*class).to_owned(), *count)).collect(),
            stamps: picture.stamps.iter().map(texts).collect(),
        }
    }

    fn publishing(&self, view: &Publishing) -> PublishFacts {
        PublishFacts {
            sequence: view.sequence,
            last_success: view.last_success.and_then(WallTime::rfc3339),
            behind_seconds: view.behind_seconds(self.clock.now_mono()),
            why: view.why().map(str::to_owned),
        }
    }

    /// `oldest`: how old a head and its data may be.
    fn following(&self, picture: &Following, now: WallTime, oldest: Duration) -> ReplicaFacts {
        ReplicaFacts {
            sequence: (picture.sequence > 0).then_some(picture.sequence),
            last_poll: picture.last_poll.and_then(WallTime::rfc3339),
            behind_seconds: picture.behind(self.clock.now_mono()).map(|behind| behind.as_secs()),
            why: picture.why(now, oldest),
        }
    }

    /// Whether all details are wanted; `None` where the server does not decide it.
    pub(super) fn wants_all(&self) -> Option<bool> {
        self.details.as_ref().and_then(Details::all_wanted)
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
        let all = self.wants_all() == Some(true);
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

/// The running score of the audits; `None` before anything was compared.
fn parity(audits: &Audits) -> Option<ParityFacts> {
    let score = audits.score();
    Some(ParityFacts {
        percent: score.percent()?,
        compared: score.compared(),
        differences: score.differences(),
        properties: score.properties().iter().map(|property| (*property).to_owned()).collect(),
        last_at: score.last_at().and_then(WallTime::rfc3339),
    })
}

/// How the terms' members are known, by taxonomy.
fn terms(published: &Snapshot) -> BTreeMap<String, TermFacts> {
    const MOST_NAMED: usize = 20;
    let of_kind = |kind: TaxonomyKind| {
        let mut facts = TermFacts::default();
        for (slug, membership) in published.dataset.memberships(kind) {
            match membership {
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

/// How each case of odd requests is answered.
fn edges(edges: &Edges) -> EdgeFacts {
    /// Valid filters that exclude each other, where the origin does not answer with an empty list.
    const ELSEWHERE: &str = "city-outside-state";
    /// Several terms with commas between them.
    const COMMAS: &str = "comma-list";
    let mut facts = EdgeFacts { state: edges.state().as_str().to_owned(), ..EdgeFacts::default() };
    let Some(learned) = edges.learned() else {
        // Of the cases: the few requests about filters are on the operator's page.
        return EdgeFacts { own: Case::ALL.map(word).into(), probes: edges.probes().0, ..facts };
    };
    for case in Case::ALL {
        match learned.lessons.get(&case) {
            Some(lesson) => drop(facts.cases.insert(word(case), lesson.what())),
            None => facts.own.push(word(case)),
        }
    }
    if learned.elsewhere {
        facts.cases.insert(ELSEWHERE.to_owned(), Lesson::Through.what());
    }
    match learned.commas {
        Some(differs) => {
            let lesson = if differs { Lesson::Through } else { Lesson::AsOurs };
            facts.cases.insert(COMMAS.to_owned(), lesson.what());
        }
        None => facts.own.push(COMMAS.to_owned()),
    }
    facts.probes = learned.probes;
    facts.probed_at = WallTime::from_millis(learned.probed_ms).rfc3339();
    facts
}

/// The word of a plain enum.
fn word(of: impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}
