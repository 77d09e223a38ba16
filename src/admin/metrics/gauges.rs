//! Gauges that are read on request: the state of the data, the origin, the limiter and the cache.
//!
//! The same facts as `/status`. Callers: [`super::answer`].

use crate::audit::score::Score;
use crate::clock::Monotonic;
use crate::fleet::replica::status::Picture;

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
    if let Some(replica) = &status.replica {
        self::replica(&replica.picture(), status.clock.now_mono(), families);
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

fn replica(picture: &Picture, now: Monotonic, families: &mut Families) {
    families.gauge("grandstand_replica_sequence", "Number of the head of the store that was taken", picture.sequence);
    if let Some(behind) = picture.behind(now) {
        let help = "Seconds for which something has been missing that the store has; 0: nothing is";
        families.gauge("grandstand_replica_behind_seconds", help, behind.as_secs_f64());
    }
    families.counters(
        "grandstand_replica_polls",
        "Reads of the store's head, by outcome",
        "outcome",
        picture.polls.counts(),
    );
    let help = "Bytes of bundles and journals received from the store";
    families.counter("grandstand_replica_received_bytes", help, picture.received);
}

fn audit(score: &Score, families: &mut Families) {
    let help = "Requests compared with the origin, by outcome";
    families.counters("grandstand_audit_samples", help, "outcome", score.counts());
    if let Some(percent) = score.percent() {
        let help = "Share of the last compared samples that equal the origin";
        families.gauge("grandstand_parity_ratio", help, percent / 100.0);
    }
}
