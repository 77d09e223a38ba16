//! Gauges that are read on request: the state of the data, the origin, the limiter and the cache.
//!
//! The same facts as `/status`. Callers: [`super::answer`].

use crate::audit::job::Score;
use crate::clock::Monotonic;
use crate::fleet::replica::status::Picture;
use crate::telemetry::table;

use super::super::status::Status;
use super::families::Families;

/// Writes all of them.
pub(super) fn write(status: &Status, families: &mut Families) {
    families.info(table::BUILD_INFO, env!("CARGO_PKG_VERSION"));
    data(status, families);
    families.histograms(table::ANSWER_SECONDS, &status.telemetry.timings());
    if let Some(access) = status.access.load().as_ref() {
        families.counter(table::ACCESS_DROPPED, access.dropped());
    }
    if let Some(budget) = &status.budget {
        let view = budget.view();
        if view.limit.is_some() {
            families.gauge(table::ORIGIN_BUDGET_FREE, view.free);
        }
        families.gauge(table::ORIGIN_PAUSED, view.paused.as_secs_f64());
    }
    if let Some(tls) = &status.tls {
        let left = tls.certificate.until().seconds_since(status.clock.now_wall());
        families.gauge(table::CERTIFICATE, left);
    }
    limit(status, families);
    let (bytes, entries) = status.cache.size();
    families.gauge(table::CACHE_BYTES, bytes);
    families.gauge(table::CACHE_ENTRIES, entries);
    let tally = status.cache.tally();
    families.counters(table::CACHE_REPLIES, tally.outcomes());
    families.counters(table::CACHE_CODINGS, tally.codings());
    if let Some(origin) = &status.origin {
        families.counters(table::ORIGIN_REQUESTS, origin.picture().sent);
    }
    if let Some(replica) = &status.replica {
        self::replica(&replica.picture(), status.clock.now_mono(), families);
    }
    if let Some(audits) = &status.audits {
        audit(&audits.score(), families);
    }
}

fn limit(status: &Status, families: &mut Families) {
    families.gauge(table::LIMIT_WINDOWS, status.limiter.windows());
    families.counter(table::LIMIT_EVICTED, status.limiter.evicted());
    if let Some(shared) = &status.shared {
        families.flag(table::LIMIT_SHARED, shared.why_local().is_none());
        families.counters(table::LIMIT_DECISIONS, shared.counters.decisions());
        families.counter(table::LIMIT_LOSSES, shared.counters.lost());
        families.counter(table::LIMIT_REPLAYED, shared.counters.replayed());
        families.counter(table::LIMIT_FORGOTTEN, shared.forgotten());
    }
}

/// The current snapshot.
fn data(status: &Status, families: &mut Families) {
    let reading = status.read();
    families.flag(table::READY, status.ready().is_ok());
    families.flag(table::HEALTHY, reading.reasons.is_empty());
    families.flag(table::HELD, status.holds_back());
    let Some(published) = &reading.published else { return };
    let age = reading.age;
    families.flag(table::UNCONFIRMED, age.is_none());
    if let Some(age) = age {
        families.gauge(table::AGE, age);
    }
    families.gauge(table::LISTINGS, published.dataset.len());
    let rolled_back = status.snapshots.as_ref().is_some_and(|snapshots| snapshots.rolled_back().is_some());
    families.flag(table::ROLLED_BACK, rolled_back);
    if let Some(details) = &status.details {
        families.gauge(table::DETAILS_MIRRORED, details.mirrored(&published.dataset));
        let wanted = if details.all_wanted() == Some(true) { published.dataset.len() } else { 0 };
        families.gauge(table::DETAILS_WANTED, wanted);
    }
}

fn replica(picture: &Picture, now: Monotonic, families: &mut Families) {
    families.gauge(table::REPLICA_SEQUENCE, picture.sequence);
    if let Some(behind) = picture.behind(now) {
        families.gauge(table::REPLICA_BEHIND, behind.as_secs_f64());
    }
    families.counters(table::REPLICA_POLLS, picture.polls.counts());
    families.counter(table::REPLICA_RECEIVED, picture.received);
}

fn audit(score: &Score, families: &mut Families) {
    families.counters(table::AUDIT_SAMPLES, score.counts());
    if let Some(percent) = score.percent() {
        families.gauge(table::PARITY, percent / 100.0);
    }
}
