//! The state of the server: the contents of `/status` and `/readyz`, and one line for service managers.
//!
//! Callers: [`super::Admin`], [`super::history`], `metrics`, [`crate::server`].

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::shape::TermName;
use crate::clock::{Clock, Monotonic, WallTime};
use crate::config::{OriginConfig, Settings, Use, rhythm};
use crate::data::cache::Cache;
use crate::data::details::Details;
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::snapshot::verdicts::table::State;
use crate::data::snapshots::Snapshots;
use crate::edge::limit::Limiter;
use crate::edge::serve::tls::certificate::Current;
use crate::edge::shared_limit::SharedLimit;
use crate::fleet::publisher::status::PublishStatus;
use crate::fleet::replica::status::{ReplicaFacts, ReplicaStatus};
use crate::mirror::examiner::report::Audits;
use crate::mirror::pass::PAGE_SIZE;
use crate::origin::budget::Budget;
use crate::origin::client::OriginClient;
use crate::origin::status::{OriginState, Picture, eta_seconds};
use crate::protocol::excerpt::Excerpt;
use crate::telemetry::access::InEffect;
use crate::telemetry::findings::Findings;
use crate::telemetry::history::History;
use crate::telemetry::{Group, Telemetry};
use crate::words::counted;

use super::eta::Promise;
use super::facts::{
    AdminFacts, BudgetFacts, CacheFacts, ConnectionFacts, DetailFacts, LimitFacts, OriginFacts, ParityFacts,
    RollbackFacts, SnapshotFacts, StatusFacts, TermFacts, TlsFacts,
};
use super::process::Process;
use super::reload::Reloads;
use super::socket::SocketState;

pub(crate) struct Status {
    pub usage: Use,
    /// The data directory, an absolute path.
    pub data_dir: String,
    pub started_at: WallTime,
    /// The certificate for new connections; `None` without HTTPS.
    pub certificate: Option<Arc<Current>>,
    pub current: SnapshotPointer,
    /// The way to the origin; `None` offline.
    pub origin: Option<OriginClient>,
    /// The kept snapshots; `None` in shield use, as the details.
    pub snapshots: Option<Snapshots>,
    pub details: Option<Details>,
    /// The audits; `None` without a mirror.
    pub audits: Option<Audits>,
    pub cache: Cache,
    pub telemetry: Telemetry,
    pub limiter: Arc<Limiter>,
    /// The limit of the fleet; `None`: this process counts by itself.
    pub shared: Option<Arc<SharedLimit>>,
    pub settings: Settings,
    pub reloads: Reloads,
    /// Whether commands find this server in its data directory.
    pub socket: SocketState,
    pub clock: Clock,
    pub access: InEffect,
    pub history: History,
    pub findings: Findings,
    /// The publisher; `None`: nothing is written to an object store.
    pub publish: Option<PublishStatus>,
    /// The object store that a replica follows; `None` in other uses.
    pub replica: Option<ReplicaStatus>,
    pub is_demo: bool,
    /// The end of the copy that was shown last.
    pub promise: Mutex<Promise>,
}

impl Status {
    /// How the origin is; of nothing where there is none.
    pub(super) fn picture(&self) -> Picture {
        self.origin.as_ref().map(|origin| origin.status().picture()).unwrap_or_default()
    }

    pub(crate) fn budget(&self) -> Option<&Budget> {
        self.origin.as_ref().map(OriginClient::budget)
    }

    /// Whether there is nothing left to copy: the list is certified, all its details are as new as it is, and the origin was
    /// looked at. Cheaper than [`facts`](Self::facts).
    pub(crate) fn is_settled(&self) -> bool {
        let (Some(published), Some(details)) = (self.current.get(), self.details.as_ref()) else { return false };
        let looked = matches!(self.picture().state, OriginState::Changed | OriginState::Unchanged);
        published.meta.certificate.is_settled() && looked && details.is_complete(&published.dataset)
    }

    pub(crate) fn facts(&self) -> StatusFacts {
        let picture = self.picture();
        // What is published meanwhile must not be healthy without its data.
        let (findings, facts) = (self.look(), self.measured(&picture));
        let reasons: Vec<String> = findings.iter().filter(|one| one.unhealthy).map(|one| one.text.clone()).collect();
        let state = if reasons.is_empty() { StatusFacts::HEALTHY } else { StatusFacts::UNHEALTHY };
        StatusFacts { state: state.to_owned(), reasons, findings, ..facts }
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
        let why = Excerpt(facts.reasons.join("; "));
        if facts.reasons.is_empty() { served } else { format!("{served}; unhealthy: {why}") }
    }

    /// All facts but those that are concluded from them.
    fn measured(&self, picture: &Picture) -> StatusFacts {
        let (instants, mono) = (self.clock.now(), self.clock.now_mono());
        let config = self.settings.load();
        let published = self.current.get();
        let (dataset, meta) = (published.as_ref().map(|one| &one.dataset), published.as_ref().map(|one| &one.meta));
        let covered = dataset.zip(self.details.as_ref()).map(|(dataset, details)| details.covered(dataset));
        let details = dataset.zip(covered).map(|(dataset, covered)| DetailFacts {
            mirrored: covered.mirrored as u64,
            current: covered.current as u64,
            of: dataset.len() as u64,
            wanted: self.wants_all().map(|all| if all { "all" } else { "on-demand" }.to_owned()),
        });
        let oldest = rhythm::oldest(self.usage, &config);
        let (bytes, entries) = self.cache.size();
        let (counted, not_modified) = self.telemetry.answer_groups();
        let groups = Group::ALL.into_iter().map(Group::as_str).zip(counted).chain([("not_modified", not_modified)]);
        StatusFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at.rfc3339(),
            uptime_seconds: mono.as_nanos() / 1_000_000_000,
            memory_bytes: Process::now().resident_bytes,
            usage: self.usage.as_str().to_owned(),
            demo: self.is_demo,
            public_url: config.public_url.as_str().to_owned(),
            listen: config.listen.clone(),
            data_dir: self.data_dir.clone(),
            admin: AdminFacts::of(&config.admin),
            tls: config.tls.as_ref().zip(self.certificate.as_ref()).map(|(tls, certificate)| TlsFacts {
                listen: tls.listen.clone(),
                valid_until: certificate.until().rfc3339(),
            }),
            snapshot: published.as_ref().map(|published| SnapshotFacts {
                id: published.dataset.id.to_string(),
                certificate: published.meta.certificate.as_str().to_owned(),
                open_points: published.meta.open_points.clone(),
            }),
            rollback: self.snapshots.as_ref().and_then(Snapshots::rolled_back).map(|rollback| RollbackFacts {
                waiting: rollback.newest.as_ref() != Some(&rollback.served),
                served: rollback.served.to_string(),
                newest: rollback.newest.map(|newest| newest.to_string()),
            }),
            versions: self.snapshots.as_ref().map(|snapshots| snapshots.view().kept.len()),
            listings: dataset.map(|dataset| dataset.len() as u64),
            confirmed_at: published.as_ref().and_then(|published| published.claimed().rfc3339()),
            age_seconds: published.as_ref().and_then(|published| published.age_seconds(instants)),
            unconfirmed: published.as_ref().is_some_and(|published| published.is_unconfirmed(instants.wall)),
            ttl_seconds: self.usage.is_confirmed().then(|| config.ttl.as_secs()),
            unhealthy_after_seconds: oldest.map(|oldest| oldest.as_secs()),
            origin: self.origin_facts(&config.origin, picture, details.as_ref(), mono),
            terms: dataset.map(|dataset| TermFacts::of(dataset, &self.doubtful_terms())),
            volatile: meta.map(|meta| meta.volatile.iter().map(str::to_owned).collect()),
            left_out: meta.map(|meta| meta.left_out.clone()),
            confirmed: self.shapes(State::Confirmed),
            disproved: self.shapes(State::Disproved),
            unproved: self.shapes(State::Unproved),
            open_cases: self.snapshots.as_ref().map(|snapshots| snapshots.verdicts().rows()),
            held: picture.held.clone(),
            parity: self.audits.as_ref().and_then(|audits| ParityFacts::of(&audits.score())),
            rate_limit: LimitFacts::of(&config.rate_limit, &self.limiter, self.shared.as_deref()),
            connections: ConnectionFacts::of(&self.telemetry),
            answers: groups.map(|(group, count)| (group.to_owned(), count)).collect(),
            hit_ratio: self.telemetry.hit_ratio(),
            cache: CacheFacts { bytes, entries },
            reload: self.reloads.last(),
            publish: self.publish.as_ref().map(|publish| {
                let details = details.as_ref().map(|details| (details.mirrored, details.in_advance()));
                publish.lock().facts(mono, details)
            }),
            last_error: picture.last_error.clone(),
            replica: self.replica.as_ref().map(|replica| {
                let oldest = oldest.unwrap_or(config.ttl);
                let details_missing = details.as_ref().map(|details| details.of.saturating_sub(details.current));
                ReplicaFacts { details_missing, ..replica.lock().facts(mono, instants.wall, oldest) }
            }),
            details,
            // They follow from all the others.
            state: String::new(),
            reasons: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// The shapes of queries in this state; `None`: there is no data, or not all were asked yet.
    pub(super) fn shapes(&self, state: State) -> Option<Vec<String>> {
        self.current.get().as_ref()?;
        self.snapshots.as_ref()?.verdicts().names(state)
    }

    /// The terms in doubt: the origin answers their lists otherwise, and those of other terms as this server does.
    pub(super) fn doubtful_terms(&self) -> BTreeSet<TermName> {
        self.snapshots.as_ref().map_or_else(BTreeSet::new, |snapshots| snapshots.verdicts().terms())
    }

    fn origin_facts(
        &self,
        config: &OriginConfig,
        picture: &Picture,
        details: Option<&DetailFacts>,
        now: Monotonic,
    ) -> OriginFacts {
        let state = if self.usage.has_origin() { picture.state } else { OriginState::Offline };
        let texts = |(key, value): (&&str, &&str)| ((*key).to_owned(), (*value).to_owned());
        let eta = self.promise.lock().told(self.estimate(picture, details), now);
        OriginFacts {
            url: config.url.as_ref().map(ToString::to_string),
            proxy: config.url.as_ref().and_then(|url| config.proxy.shown_for(url.as_str())),
            state: state.as_str().to_owned(),
            budget: self.budget().map(|budget| BudgetFacts::of(&budget.view())),
            refreshed_at: picture.refreshed_ms.and_then(|at| WallTime::from_millis(at).rfc3339()),
            next_refresh_seconds: picture.refresh_due.map(|due| due.since(now).as_secs()),
            eta_seconds: eta,
            pass: picture.pass,
            passes: picture.passes,
            failures: picture.health.failures(),
            failing_seconds: picture.failing().map(|failing| failing.as_secs()),
            requests: picture.sent.iter().map(|(class, count)| ((*class).to_owned(), *count)).collect(),
            stamps: picture.stamps.iter().map(texts).collect(),
        }
    }

    /// Whether all details are wanted; `None` where the server does not decide it.
    fn wants_all(&self) -> Option<bool> {
        self.details.as_ref().and_then(Details::all_wanted)
    }

    /// When everything is mirrored: the rest of a pass, the closing round of a first one, and the details if
    /// all are wanted. `None`: unknown, also while nothing advances.
    fn estimate(&self, picture: &Picture, details: Option<&DetailFacts>) -> Option<u64> {
        let pass = picture.pass.map(|pass| (pass.of.saturating_sub(pass.done), pass.of));
        let (left, missing) = match (pass, details) {
            // The first page is not here yet.
            (Some((_, 0)) | None, None) => return None,
            (Some((left, of)), None) => (left + of, of.saturating_mul(PAGE_SIZE)),
            (pass, Some(details)) => (pass.map_or(0, |(left, _)| left), details.of.saturating_sub(details.current)),
        };
        let all = self.wants_all() == Some(true);
        let stuck = all && missing > 0 && picture.details_failing >= missing;
        // Without a pass, the state is that of the last refresh, however long ago.
        let fails = if pass.is_some() { picture.is_failing() } else { picture.health.failures() > 0 };
        let fails = fails || self.snapshots.as_ref().is_some_and(|snapshots| !snapshots.store().works());
        // What waits for a cache before the origin ends when that says so.
        if stuck || picture.copies.is_some() || (fails && (left > 0 || missing > 0)) {
            return None;
        }
        let left = if all { left.saturating_add(missing) } else { left };
        let limit = self.budget()?.view().limit;
        eta_seconds(left, limit, picture.pace.per_second(Instant::now()))
    }
}
