//! The table of metrics: name, type, unit, labels and help of each, once.
//!
//! `/metrics` writes nothing that is not here; a test compares. `docs/metrics.md` is made of it:
//! `GRANDSTAND_GOLDEN=write cargo test --locked --lib metrics_page`. Callers: [`super`], `admin::metrics`.

use prometheus_client::registry::{Metric as Registrable, Registry};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rises only; its sample has `_total` after the name.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size; its samples have `_bucket`, `_sum` and `_count` after the name.
    Histogram,
}

impl Kind {
    /// The word for it in `/metrics`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

macro_rules! table {
    ($($id:ident: $kind:ident $name:literal $labels:tt $unit:literal $help:literal;)+) => {
        $(
            #[doc = $help]
            pub(crate) const $id: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: $unit,
                labels: &$labels,
                help: $help,
            };
        )+
        /// Every metric, in the order of the page.
        pub const ALL: &[Metric] = &[$($id),+];
    };
}

table! {
    BUILD_INFO: Gauge "grandstand_build_info" ["version"] "" "The program that runs; always 1";
    READY: Gauge "grandstand_ready" [] "" "Whether there is something to serve (/readyz is 200), 0 or 1";
    HEALTHY: Gauge "grandstand_healthy" [] "" "Whether /status is 200, 0 or 1";
    HELD: Gauge "grandstand_held" [] "" "Whether a snapshot is held back, 0 or 1";
    AGE: Gauge "grandstand_age_seconds" [] "seconds" "Age of the data: time since it was confirmed; absent while unknown";
    UNCONFIRMED: Gauge "grandstand_unconfirmed" [] "" "Whether the data is dated in the future, so that its age is unknown, 0 or 1";
    LISTINGS: Gauge "grandstand_listings" [] "" "Listings in the current snapshot";
    DETAILS_MIRRORED: Gauge "grandstand_details_mirrored" [] "" "Listings whose detail is stored";
    DETAILS_WANTED: Gauge "grandstand_details_wanted" [] "" "Listings whose detail should be stored in advance; 0 with on-demand details, offline and in a replica";
    ROLLED_BACK: Gauge "grandstand_rolled_back" [] "" "Whether a rollback is in effect, 0 or 1";
    ANSWERS: Counter "grandstand_answers" ["route", "outcome", "status"] "" "Answers on the public listener; outcome: as in Cache-Status, or problem (an error), document (a page), refused (429), preflight, options";
    ANSWER_SECONDS: Histogram "grandstand_answer_seconds" ["route", "outcome"] "seconds" "Time from the end of the request's headers until the answer is ready, or in some cases sent; outcome: fresh, stale, origin, refused, error or other";
    FORWARDS: Counter "grandstand_forwards" ["fwd", "fwd_status", "stored", "collapsed"] "" "Answers that needed the origin; the labels are those of Cache-Status";
    BODY_BYTES: Counter "grandstand_body_bytes" [] "bytes" "Body bytes sent on the public listener";
    ACCESS_DROPPED: Counter "grandstand_access_log_dropped" [] "" "Lines of the access log that were dropped because its file or the disk was too slow or failed";
    CONNECTIONS: Gauge "grandstand_connections" [] "" "Open client connections";
    CONNECTIONS_EVICTED: Counter "grandstand_connections_evicted" [] "" "Idle client connections that were closed to make room";
    CONNECTIONS_REFUSED: Counter "grandstand_connections_refused" ["limit"] "" "Client connections that were refused, by limit";
    PROXY_REFUSED: Counter "grandstand_proxy_protocol_refused" ["reason"] "" "Connections that were closed because of the PROXY protocol, by reason: untrusted (not from a trusted proxy), missing (no header), malformed, too-long, late (not within 3 s), cut (connection ended within the header)";
    ORIGIN_REQUESTS: Counter "grandstand_origin_requests" ["class"] "" "Requests sent to the origin, by purpose: refresh, client, crawl, details, background";
    ORIGIN_BUDGET_FREE: Gauge "grandstand_origin_budget_free" [] "" "Requests that may be sent to the origin now; absent without a budget";
    ORIGIN_PAUSED: Gauge "grandstand_origin_paused_seconds" [] "seconds" "Time until requests to the origin resume, after failures or because it asked for a pause";
    AUDIT_SAMPLES: Counter "grandstand_audit_samples" ["outcome"] "" "Requests compared with the origin, by outcome";
    PARITY: Gauge "grandstand_parity_ratio" [] "ratio" "Share of the last compared samples that equal the origin, 0 to 1";
    LIMIT_WINDOWS: Gauge "grandstand_limit_windows" [] "" "Clients whose requests are being counted";
    LIMIT_EVICTED: Counter "grandstand_limit_evicted" [] "" "Clients forgotten early because there were more than max_clients";
    LIMIT_SHARED: Gauge "grandstand_limit_shared" [] "" "Whether Redis counts for the whole fleet, 0 or 1; absent without rate_limit.store";
    LIMIT_DECISIONS: Counter "grandstand_limit_decisions" ["by"] "" "Decisions of the fleet's limit, by: store (Redis), memory (an earlier refusal by Redis) or process (this process alone)";
    LIMIT_LOSSES: Counter "grandstand_limit_store_losses" [] "" "How often Redis became unusable";
    LIMIT_REPLAYED: Counter "grandstand_limit_replayed" [] "" "Decisions of this process that it reported to Redis later";
    LIMIT_FORGOTTEN: Counter "grandstand_limit_forgotten" [] "" "Decisions of this process that it could not report to Redis because there were too many";
    CACHE_BYTES: Gauge "grandstand_cache_bytes" [] "bytes" "Bytes held in the cache";
    CACHE_ENTRIES: Gauge "grandstand_cache_entries" [] "" "Answers held in the cache";
    CACHE_REPLIES: Counter "grandstand_cache_replies" ["outcome"] "" "Answers from the snapshot that were not in the cache: passing (not stored), kept (stored); cached ones after a new snapshot: confirmed (still right), renewed (rendered again)";
    CACHE_CODINGS: Counter "grandstand_cache_codings" ["outcome"] "" "Popular answers that were chosen for stronger compression, by outcome: recoded (done), turned-away (too many were waiting)";
    CERTIFICATE: Gauge "grandstand_certificate_seconds" [] "seconds" "Time until the HTTPS certificate expires; absent without HTTPS";
    REPLICA_SEQUENCE: Gauge "grandstand_replica_sequence" [] "" "Number of the last head.json that the replica took";
    REPLICA_BEHIND: Gauge "grandstand_replica_behind_seconds" [] "seconds" "For how long the replica has lacked something that the object store has; 0: nothing is missing";
    REPLICA_POLLS: Counter "grandstand_replica_polls" ["outcome"] "" "Reads of head.json by the replica, by outcome: unchanged, taken, refused, failed";
    REPLICA_RECEIVED: Counter "grandstand_replica_received_bytes" [] "bytes" "Bytes of bundles and journals that the replica received";
    PUBLISH_SEQUENCE: Gauge "grandstand_publish_sequence" [] "" "Number of the last head.json that was written";
    PUBLISH_BEHIND: Gauge "grandstand_publish_behind_seconds" [] "seconds" "For how long the object store has lacked something that clients get; 0: nothing is missing";
    PUBLISH_OBJECTS: Counter "grandstand_publish_objects" ["kind"] "" "New bundles and heads written to the object store, by kind: full, delta, head";
    PUBLISH_BYTES: Counter "grandstand_publish_bytes" [] "bytes" "Bytes of bundles that were written to the object store";
    PUBLISH_FAILURES: Counter "grandstand_publish_failures" ["reason"] "" "Failed attempts to write to the object store, by reason";
    PROCESS_START: Gauge "process_start_time_seconds" [] "seconds" "When the process started, in seconds since 1970";
    PROCESS_CPU: Counter "process_cpu_seconds" [] "seconds" "CPU time, user and system";
    PROCESS_RESIDENT: Gauge "process_resident_memory_bytes" [] "bytes" "Resident memory";
    PROCESS_VIRTUAL: Gauge "process_virtual_memory_bytes" [] "bytes" "Virtual memory";
    PROCESS_THREADS: Gauge "process_threads" [] "" "Threads";
    PROCESS_FDS: Gauge "process_open_fds" [] "" "Open file descriptors";
    PROCESS_MAX_FDS: Gauge "process_max_fds" [] "" "Limit of open file descriptors";
}

/// Registers the counter or gauge of a metric.
pub(crate) fn register(registry: &mut Registry, metric: Metric, value: impl Registrable) {
    registry.register(metric.name, metric.help, value);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    const INTRODUCTION: &str = "\
<!-- Generated from src/telemetry/table.rs by a test. Do not edit: change the table, then run
     GRANDSTAND_GOLDEN=write cargo test --locked --lib metrics_page -->

# Metrics

`GET /metrics` on the [admin listener](operate.md#the-admin-listener) has these metrics, in the text format of
Prometheus, or as OpenMetrics if `Accept` asks for it. A metric is absent when it has no meaning, for example the age of
data that is not there yet. [`config/prometheus/`](../config/prometheus) has alert rules,
[`config/grafana/`](../config/grafana) a dashboard.

| metric | type | unit | labels | meaning |
|---|---|---|---|---|
";

    fn page() -> String {
        let mut page = INTRODUCTION.to_owned();
        for metric in ALL {
            let total = if metric.kind == Kind::Counter { "_total" } else { "" };
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let (name, kind, unit) = (metric.name, metric.kind.as_str(), metric.unit);
            // Writing to a String cannot fail.
            let _ = writeln!(page, "| `{name}{total}` | {kind} | {unit} | {} | {} |", labels.join(", "), metric.help);
        }
        page
    }

    #[test]
    fn the_metrics_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
        if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
            std::fs::write(&path, page()).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(stored, page(), "out of date: GRANDSTAND_GOLDEN=write cargo test --locked --lib metrics_page");
    }

    #[test]
    fn names_are_unique_and_end_in_their_base_unit() {
        let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len());
        for metric in ALL {
            let Metric { name, unit, help, labels, .. } = metric;
            assert!(name.starts_with("grandstand_") || name.starts_with("process_"), "{name}");
            assert!(unit.is_empty() || name.ends_with(unit), "{name} is in {unit}");
            assert!(["", "seconds", "bytes", "ratio"].contains(unit), "{name}: {unit} is no base unit");
            assert!(!name.ends_with("_total") && !help.ends_with('.') && !help.contains(['\n', '\\', '|']), "{name}");
            assert!(labels.iter().all(|label| *label != "le"), "{name}");
        }
    }
}
