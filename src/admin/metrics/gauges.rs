//! Gauges that are read on request: the state of the data, the origin, the limiter and the cache.
//!
//! The same facts as `/status`. Callers: [`super::answer`].

use crate::audit::score::Score;

use super::super::status::Status;
use super::families::Families;

/// Writes all of them.
pub(super) fn write(status: &Status, families: &mut Families) {
    let version = env!("CARGO_PKG_VERSION");
    families.fact("grandstand_build_info", "The program that runs", "version", version);
    data(status, families);
    if let Some(budget) = &status.budget {
        let view = budget.view();
        if view.limit.is_some() {
            families.gauge("grandstand_origin_budget_free", "Requests that may be sent to the origin now", view.free);
        }
        let paused = view.paused.as_secs_f64();
        families.gauge("grandstand_origin_paused_seconds", "Seconds until requests to the origin resume", paused);
    }
    if let Some(tls) = &status.tls {
        let left = tls.certificate.until().seconds_since(status.clock.now_wall());
        families.gauge("grandstand_certificate_seconds", "Seconds until the served certificate expires", left);
    }
    let windows = status.limiter.windows();
    families.gauge("grandstand_limit_windows", "Clients whose requests are being counted", windows);
    let help = "Clients forgotten early because there were more than max_clients";
    families.counter("grandstand_limit_evicted", help, status.limiter.evicted());
    if let Some(shared) = &status.shared {
        let help = "Whether Redis counts for the whole fleet; 0: this process counts for itself";
        families.gauge("grandstand_limit_shared", help, u8::from(shared.why_local().is_none()));
        let help = "Decisions of the limit, by who made them";
        families.counters("grandstand_limit_decisions", help, "by", shared.counters.decisions());
        let help = "How often Redis stopped answering in time";
        families.counter("grandstand_limit_store_losses", help, shared.counters.lost());
        let help = "Requests that were admitted without Redis and counted there later";
        families.counter("grandstand_limit_replayed", help, shared.counters.replayed());
        let help = "Requests that were admitted without Redis and are not counted there, because there were too many";
        families.counter("grandstand_limit_forgotten", help, shared.forgotten());
    }
    let (bytes, entries) = status.cache.size();
    families.gauge("grandstand_cache_bytes", "Bytes held in the cache", bytes);
    families.gauge("grandstand_cache_entries", "Answers held in the cache", entries);
    let tally = status.cache.tally();
    let help = "Rendered replies that were cache misses, by whether they were stored";
    families.counters("grandstand_cache_replies", help, "outcome", tally.outcomes());
    let help = "Recompressions of often requested bodies, by outcome";
    families.counters("grandstand_cache_codings", help, "outcome", tally.codings());
    if let Some(origin) = &status.origin {
        let sent = origin.picture().sent;
        families.counters("grandstand_origin_requests", "Requests sent to the origin by class", "class", sent);
    }
    if let Some(audits) = &status.audits {
        audit(&audits.score(), families);
    }
}

/// The current version.
fn data(status: &Status, families: &mut Families) {
    let ready = u8::from(status.ready().is_ok());
    families.gauge("grandstand_ready", "Whether requests can be answered", ready);
    let Some(published) = &status.live.current() else { return };
    let now = status.clock.now_wall();
    let age = published.age_seconds(now);
    let help = "Whether the data is dated in the future, so that its age is unknown";
    families.gauge("grandstand_unconfirmed", help, u8::from(age.is_none()));
    if let Some(age) = age {
        families.gauge("grandstand_age_seconds", "Age of the data: seconds since it was confirmed", age);
    }
    families.gauge("grandstand_listings", "Listings in the current snapshot", published.dataset.len());
    let rolled_back = status.versions.as_ref().is_some_and(|versions| versions.rolled_back().is_some());
    families.gauge("grandstand_rolled_back", "Whether a rollback is in effect", u8::from(rolled_back));
    if let Some(details) = &status.details {
        let mirrored = details.mirrored(&published.dataset);
        families.gauge("grandstand_details_mirrored", "Listings whose detail is mirrored", mirrored);
        let wanted = if details.all_wanted() == Some(true) { published.dataset.len() } else { 0 };
        let help = "Listings whose detail is fetched in advance; 0 on demand and offline";
        families.gauge("grandstand_details_wanted", help, wanted);
    }
}

fn audit(score: &Score, families: &mut Families) {
    let help = "Requests compared with the origin, by outcome";
    families.counters("grandstand_audit_samples", help, "outcome", score.counts());
    if let Some(percent) = score.percent() {
        let help = "Share of the last compared samples that equal the origin";
        families.gauge("grandstand_parity_ratio", help, percent / 100.0);
    }
}
