//! The table of metrics: name, type, labels, unit and help of each, and where its value is read.
//!
//! `docs/metrics.md` is made of it and of the table of `/status` in `tests`:
//! `GRANDSTAND_GOLDEN=write cargo test --locked --lib metrics_page`. Callers: [`super`].

use std::collections::BTreeMap;

use crate::clock::Monotonic;
use crate::edge::serve::connections::Full;
use crate::fleet::publisher::status::{ObjectKind, PublishState};
use crate::fleet::replica::status::{PollOutcome, ReplicaState};
use crate::origin::status::Picture;
use crate::origin::window::Class;
use crate::server::admin::facts::{DetailFacts, StatusFacts};
use crate::server::admin::process::Process;
use crate::server::admin::status::Status;
use crate::telemetry::findings;
use crate::telemetry::lines::{LineQueue, standard_error};
use crate::telemetry::timing::Histogram;
use crate::words::named;

named! {
    /// The type of a metric.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind, as_str {
        /// Rises only; its sample has `_total` after the name.
        Counter = "counter",
        /// Goes up and down.
        Gauge = "gauge",
        /// Counts values by size; its samples have `_bucket`, `_sum` and `_count` after the name.
        Histogram = "histogram",
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name, of a counter without `_total`.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The base unit; empty: a plain number.
    pub unit: &'static str,
    /// The labels, in their order.
    pub labels: &'static [&'static str],
    /// The meaning, without a full stop.
    pub help: &'static str,
    pub(super) read: fn(&Scrape<'_>) -> Samples,
}

/// What the values are read from: the facts of `/status`, and counters that it does not show.
pub(super) struct Scrape<'a> {
    facts: StatusFacts,
    picture: Picture,
    status: &'a Status,
    now: Monotonic,
    publish: Option<PublishState>,
    replica: Option<ReplicaState>,
    process: Process,
}

/// The values of a metric.
#[derive(Debug)]
pub(super) enum Samples {
    /// The metric has no meaning here.
    Absent,
    One(f64),
    /// By the values of the labels, which are our own words and need no escapes.
    Labelled(Vec<(Vec<String>, u64)>),
    Times(Vec<Histogram>),
}

impl<'a> Scrape<'a> {
    pub(super) fn of(status: &'a Status) -> Self {
        Self {
            facts: status.facts(),
            picture: status.picture(),
            status,
            now: status.clock.now_mono(),
            publish: status.publish.as_ref().map(|publish| publish.lock().clone()),
            replica: status.replica.as_ref().map(|replica| replica.lock().clone()),
            process: Process::now(),
        }
    }
}

/// The numbers that a sample can have; a truth is 0 or 1.
macro_rules! numbers {
    ($($type:ident: $value:ident => $number:expr;)+) => {$(
        impl From<$type> for Samples {
            fn from($value: $type) -> Self {
                Self::One($number)
            }
        }

        impl From<Option<$type>> for Samples {
            fn from(value: Option<$type>) -> Self {
                value.map_or(Self::Absent, Self::from)
            }
        }
    )+};
}

numbers! {
    bool: value => f64::from(u8::from(value));
    f64: value => value;
    i64: value => value as f64;
    u32: value => f64::from(value);
    u64: value => value as f64;
    usize: value => value as f64;
}

/// Samples by one label.
fn by<N: Into<u64>>(values: impl IntoIterator<Item = (impl ToString, N)>) -> Samples {
    Samples::Labelled(values.into_iter().map(|(of, value)| (vec![of.to_string()], value.into())).collect())
}

/// Samples by one label, with those of these words that were never counted.
fn from_zero<N: Into<u64>>(
    words: impl IntoIterator<Item = &'static str>,
    values: impl IntoIterator<Item = (impl ToString, N)>,
) -> Samples {
    let mut all: BTreeMap<String, u64> = words.into_iter().map(|word| (word.to_owned(), 0)).collect();
    all.extend(values.into_iter().map(|(of, value)| (of.to_string(), value.into())));
    by(all)
}

macro_rules! table {
    ($($kind:ident $name:literal $labels:tt $unit:literal $help:literal = $at:ident => $value:expr;)+) => {
        /// Every metric, in the order of the page.
        pub const ALL: &[Metric] = &[$(
            Metric {
                name: $name,
                kind: Kind::$kind,
                unit: $unit,
                labels: &$labels,
                help: $help,
                read: |$at| Samples::from($value),
            },
        )+];
    };
}

table! {
    Gauge "grandstand_build_info" ["version"] "" "The program that runs; always 1"
        = at => by([(&at.facts.version, true)]);
    Gauge "grandstand_ready" [] "" "Whether there is something to serve (/readyz is 200), 0 or 1"
        = at => at.status.ready().is_ok();
    Gauge "grandstand_healthy" [] "" "Whether /status is 200, 0 or 1"
        = at => at.facts.is_healthy();
    Gauge "grandstand_finding" ["name"] "" "Whether something is wrong: a finding of docs/findings.md, 1 while it is raised"
        = at => by(findings::Kind::ALL.iter().map(|kind| (kind.name(), at.facts.findings.iter().any(|raised| raised.name == kind.name()))));
    Gauge "grandstand_held" [] "" "Whether a snapshot is held back, 0 or 1"
        = at => at.facts.held.is_some();
    Gauge "grandstand_age_seconds" [] "seconds" "Age of the data: time since it was confirmed; absent while unknown"
        = at => at.facts.age_seconds;
    Gauge "grandstand_age_limit_seconds" [] "seconds" "The age above which the server is unhealthy; absent: at no age"
        = at => at.facts.unhealthy_after_seconds;
    Gauge "grandstand_refreshed_timestamp_seconds" [] "seconds" "When the last refresh ended, in seconds since 1970"
        = at => at.picture.refreshed_ms.map(|at_ms| at_ms as f64 / 1000.0);
    Gauge "grandstand_unconfirmed" [] "" "Whether the data is dated in the future, so that its age is unknown, 0 or 1"
        = at => at.facts.listings.map(|_| at.facts.unconfirmed);
    Gauge "grandstand_snapshot_certificate" ["certificate"] "" "How sure the current snapshot is, as in /status; always 1"
        = at => by(at.facts.snapshot.iter().map(|snapshot| (&snapshot.certificate, true)));
    Gauge "grandstand_snapshots" [] "" "Snapshots that are kept"
        = at => at.facts.versions;
    Gauge "grandstand_listings" [] "" "Listings in the current snapshot"
        = at => at.facts.listings;
    Gauge "grandstand_details_mirrored" [] "" "Listings whose detail is stored"
        = at => at.facts.details.as_ref().map(|details| details.mirrored);
    Gauge "grandstand_details_wanted" [] "" "Listings whose detail should be stored in advance; 0 with on-demand details, offline and in a replica"
        = at => at.facts.details.as_ref().map(DetailFacts::in_advance);
    Gauge "grandstand_rolled_back" [] "" "Whether a rollback is in effect, 0 or 1"
        = at => at.facts.listings.map(|_| at.facts.rollback.is_some());
    Counter "grandstand_answers" ["route", "outcome", "status"] "" "Answers on the public listener; outcome: as in Cache-Status, or problem (an error), document (a page), refused (429), preflight, options"
        = at => Samples::Labelled(at.status.telemetry.answers());
    Histogram "grandstand_answer_seconds" ["route", "outcome"] "seconds" "Time from the end of the request's headers until the answer is ready, or in some cases sent; outcome: fresh, stale, origin, refused, error or other"
        = at => Samples::Times(at.status.telemetry.timings());
    Counter "grandstand_forwards" ["fwd", "fwd_status", "stored", "collapsed"] "" "Answers that needed the origin; the labels are those of Cache-Status"
        = at => Samples::Labelled(at.status.telemetry.forwards());
    Counter "grandstand_body_bytes" [] "bytes" "Body bytes sent on the public listener"
        = at => at.status.telemetry.body_bytes();
    Counter "grandstand_access_log_dropped" [] "" "Lines of the access log that were dropped because its file, the disk or the reader was too slow or failed"
        = at => at.status.access.load().as_ref().map(|log| log.lines.dropped_requests());
    Counter "grandstand_log_dropped" [] "" "Lines of the log that were dropped because nobody read standard error in time"
        = _at => standard_error().map_or(0, LineQueue::dropped_text);
    Gauge "grandstand_connections" [] "" "Open client connections"
        = at => at.facts.connections.open;
    Counter "grandstand_connections_evicted" [] "" "Idle client connections that were closed to make room"
        = at => at.facts.connections.evicted;
    Counter "grandstand_connections_refused" ["limit"] "" "Client connections that were refused, by limit"
        = at => from_zero(Full::WORDS, at.facts.connections.refused.clone());
    Counter "grandstand_proxy_protocol_refused" ["reason"] "" "Connections that were closed because of the PROXY protocol, by reason: untrusted (not from a trusted proxy), missing (no header), malformed, too-long, late (not within 3 s), cut (connection ended within the header)"
        = at => by(at.facts.connections.headers_refused.clone());
    Counter "grandstand_origin_requests" ["class"] "" "Requests sent to the origin, by purpose: refresh, client, crawl, details, background"
        = at => match at.facts.origin.url {
            Some(_) => from_zero(Class::ALL.map(Class::as_str), at.picture.sent.clone()),
            None => Samples::Absent,
        };
    Counter "grandstand_origin_answers" ["status"] "" "Answers of the origin, by status"
        = at => by(at.picture.statuses.clone());
    Histogram "grandstand_origin_seconds" ["class"] "seconds" "Time from a request to the origin until the head of its answer, by purpose"
        = at => Samples::Times(at.picture.took.iter().map(|(class, times)| times.histogram(vec![class])).collect());
    Gauge "grandstand_origin_budget_free" [] "" "Requests that may be sent to the origin now; absent without a budget"
        = at => at.facts.origin.budget.as_ref().and_then(|budget| budget.free);
    Gauge "grandstand_origin_failing_seconds" [] "seconds" "For how long the origin has failed since the start of the process, or sent answers that cannot be used: a mirror counts between two tries, too, a shield until the last failure, which it forgets after ten minutes without another; 0: it answers"
        = at => at.facts.origin.url.as_ref().map(|_| at.picture.failing().unwrap_or_default().as_secs_f64());
    Gauge "grandstand_origin_paused_seconds" [] "seconds" "Time until requests to the origin resume, after failures or because it asked for a pause"
        = at => at.status.budget().map(|budget| budget.view().paused.as_secs_f64());
    Counter "grandstand_audit_samples" ["outcome"] "" "Requests compared with the origin, by outcome"
        = at => by(at.status.audits.iter().flat_map(|audits| audits.score().counts().collect::<Vec<_>>()));
    Gauge "grandstand_parity_ratio" [] "ratio" "Share of the last compared samples that equal the origin, 0 to 1"
        = at => at.facts.parity.as_ref().map(|parity| parity.percent / 100.0);
    Gauge "grandstand_limit_windows" [] "" "Clients whose requests are being counted"
        = at => at.facts.rate_limit.clients;
    Counter "grandstand_limit_evicted" [] "" "Clients forgotten early because there were more than 200,000"
        = at => at.status.limiter.evicted();
    Gauge "grandstand_limit_shared" [] "" "Whether Redis counts for the whole fleet, 0 or 1; absent without rate_limit.store"
        = at => at.facts.rate_limit.url.as_ref().map(|_| at.facts.rate_limit.why.is_none());
    Counter "grandstand_limit_decisions" ["by"] "" "Decisions of the fleet's limit, by: store (Redis), memory (an earlier refusal by Redis) or process (this process alone)"
        = at => by(at.facts.rate_limit.decisions.clone().into_iter().flatten());
    Counter "grandstand_limit_store_losses" [] "" "How often Redis became unusable"
        = at => at.facts.rate_limit.lost;
    Counter "grandstand_limit_replayed" [] "" "Decisions of this process that it reported to Redis later"
        = at => at.facts.rate_limit.replayed;
    Counter "grandstand_limit_forgotten" [] "" "Decisions of this process that it could not report to Redis because there were too many"
        = at => at.facts.rate_limit.forgotten;
    Gauge "grandstand_cache_bytes" [] "bytes" "Bytes held in the cache"
        = at => at.facts.cache.bytes;
    Gauge "grandstand_cache_entries" [] "" "Answers held in the cache"
        = at => at.facts.cache.entries;
    Counter "grandstand_cache_replies" ["outcome"] "" "Answers from the snapshot that were not in the cache: passing (not stored), kept (stored); cached ones after a new snapshot: confirmed (still right), renewed (rendered again)"
        = at => by(at.status.cache.outcomes());
    Counter "grandstand_cache_codings" ["outcome"] "" "Popular answers that were chosen for stronger compression, by outcome: recoded (done), turned-away (too many were waiting)"
        = at => by(at.status.cache.codings());
    Gauge "grandstand_certificate_seconds" [] "seconds" "Time until the HTTPS certificate expires; absent without HTTPS"
        = at => at.status.certificate.as_ref().map(|certificate| certificate.until().seconds_since(at.status.clock.now_wall()));
    Gauge "grandstand_replica_sequence" [] "" "Number of the last head.json that the replica took"
        = at => at.facts.replica.as_ref().map(|replica| replica.sequence.unwrap_or(0));
    Gauge "grandstand_replica_behind_seconds" [] "seconds" "For how long the replica has lacked something that the object store has; 0: nothing is missing; absent until its first poll has ended"
        = at => at.replica.as_ref().and_then(|replica| replica.behind(at.now)).map(|behind| behind.as_secs_f64());
    Counter "grandstand_replica_polls" ["outcome"] "" "Reads of head.json by the replica, by outcome: unchanged, taken, refused, failed"
        = at => by(at.replica.iter().flat_map(|replica| PollOutcome::ALL.map(PollOutcome::as_str).into_iter().zip(replica.polls)));
    Counter "grandstand_replica_received_bytes" [] "bytes" "Bytes of bundles and journals that the replica received"
        = at => at.replica.as_ref().map(|replica| replica.received);
    Gauge "grandstand_publish_sequence" [] "" "Number of the last head.json that was written"
        = at => at.facts.publish.as_ref().and_then(|publish| publish.sequence);
    Gauge "grandstand_publish_behind_seconds" [] "seconds" "For how long the object store has lacked something that clients get; 0: nothing is missing"
        = at => at.facts.publish.as_ref().map(|publish| publish.behind_seconds);
    Counter "grandstand_publish_objects" ["kind"] "" "New bundles and heads written to the object store, by kind: full, delta, head"
        = at => by(at.publish.iter().flat_map(|publish| ObjectKind::ALL.map(ObjectKind::as_str).into_iter().zip(publish.written)));
    Counter "grandstand_publish_bytes" [] "bytes" "Bytes of bundles that were written to the object store"
        = at => at.publish.as_ref().map(|publish| publish.bytes);
    Counter "grandstand_publish_failures" ["reason"] "" "Failed attempts to write to the object store, by reason"
        = at => by(at.publish.iter().flat_map(|publish| publish.failures.iter().copied()));
    Gauge "grandstand_disk_failing" [] "" "Whether the data directory cannot be read or written, 0 or 1; absent without one"
        = at => at.status.snapshots.as_ref().map(|snapshots| !snapshots.store().works());
    Gauge "grandstand_store_bytes" [] "bytes" "Size of the store's file"
        = at => at.status.snapshots.as_ref().and_then(|snapshots| Some(std::fs::metadata(snapshots.store().path()).ok()?.len()));
    Gauge "grandstand_disk_free_bytes" [] "bytes" "Free space where the data directory lies"
        = at => at.status.snapshots.as_ref().and_then(|snapshots| snapshots.store().free_bytes());
    Gauge "process_start_time_seconds" [] "seconds" "When the process started, in seconds since 1970"
        = at => at.process.started;
    Counter "process_cpu_seconds" [] "seconds" "CPU time, user and system"
        = at => at.process.cpu_seconds;
    Gauge "process_resident_memory_bytes" [] "bytes" "Resident memory"
        = at => at.facts.memory_bytes;
    Gauge "process_virtual_memory_bytes" [] "bytes" "Virtual memory"
        = at => at.process.virtual_bytes;
    Gauge "process_threads" [] "" "Threads"
        = at => at.process.threads;
    Gauge "process_open_fds" [] "" "Open file descriptors"
        = at => at.process.open_fds;
    Gauge "process_max_fds" [] "" "Limit of open file descriptors"
        = at => at.process.max_fds;
}

#[cfg(test)]
mod tests;
