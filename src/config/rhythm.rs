//! Rhythm of confirmations: whether a mirror can confirm its data within `ttl`, given the age of cached copies before the
//! origin, and how often the budget has room for a refresh.
//!
//! Pure. Callers: [`super::checks`], and [`crate::server::admin`] for a mirror that runs.

use std::time::Duration;

use super::units::{MINUTE, duration_text};
use super::{Config, Use};

/// How many requests a refresh takes.
const REFRESH: u32 = 5;

/// The age of the data at which the next refresh is due.
pub(crate) fn due(ttl: Duration) -> Duration {
    ttl.mul_f64(0.7)
}

/// The age from which on data is not healthy; `None`: at any age it is.
pub(crate) fn oldest(usage: Use, config: &Config) -> Option<Duration> {
    let refreshed_within = usage.is_confirmed().then(|| Duration::from_secs(3 * config.ttl.as_secs().max(1)));
    refreshed_within.into_iter().chain(config.bundle.max_age).min()
}

/// The longest time between two refreshes. With a `limit` of requests in 60 s they come as they are due until it is used
/// up, and then none for the rest of that time.
fn apart(ttl: Duration, limit: Option<u32>) -> Duration {
    match limit.map(|limit| (limit / REFRESH, limit.max(1))) {
        None => due(ttl),
        Some((0, limit)) => MINUTE * REFRESH.div_ceil(limit),
        Some((refreshes, _)) => due(ttl).max(MINUTE.saturating_sub(due(ttl) * (refreshes - 1))),
    }
}

/// Why the data of a mirror gets older than `oldest` although the origin answers, and what to do; `None`: it does not.
/// `copies`: how old the origin's answers are when they come. `limit`: the budget for 60 s.
pub(crate) fn too_late(
    ttl: Duration,
    oldest: Duration,
    copies: Duration,
    limit: Option<u32>,
) -> Option<(String, &'static str)> {
    if copies + apart(ttl, limit) <= oldest {
        return None;
    }
    let [ttl_text, oldest_text] = [ttl, oldest].map(duration_text);
    Some(if copies + due(ttl) > oldest {
        let text = format!(
            "ttl is {ttl_text}, so the data is too old after {oldest_text}, but caches before the origin send copies that \
             are up to {} old, and confirm the data for no later instant",
            duration_text(copies)
        );
        (
            text,
            "Set ttl to origin.cache_ttl or more. If no cache is before the origin, or it keeps copies for a shorter \
                time, correct origin.cache_ttl (0s: no cache).",
        )
    } else {
        let limit = limit.unwrap_or_default();
        let text = format!(
            "ttl is {ttl_text}, so the data is too old after {oldest_text}, but a refresh takes {REFRESH} requests, and \
             origin.requests_per_minute ({limit}) leaves {} without any",
            duration_text(Duration::from_secs(apart(ttl, Some(limit)).as_secs()))
        );
        (text, "Set ttl to a longer time, or raise origin.requests_per_minute if the origin allows more.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_late_where_copies_are_too_old_or_the_budget_is_too_small_for_the_ttl() {
        for (ttl, copies, limit, why) in [
            (300, 300, Some(60), None),
            (300, 0, Some(5), None),
            (300, 700, Some(60), Some("copies that are up to 11m40s old")),
            (60, 300, Some(60), Some("copies that are up to 5m old")),
            (60, 138, None, None),
            (60, 139, None, Some("copies that are up to 2m19s old")),
            (5, 0, Some(60), Some("origin.requests_per_minute (60) leaves 21s without any")),
            (5, 0, None, None),
            (6, 0, Some(60), None),
            (60, 0, Some(1), Some("origin.requests_per_minute (1) leaves 5m without any")),
            (300, 0, Some(1), None),
        ] {
            let told =
                too_late(Duration::from_secs(ttl), Duration::from_secs(3 * ttl), Duration::from_secs(copies), limit);
            let text = told.as_ref().map(|(text, _)| text.as_str());
            assert!(
                text.map_or(why.is_none(), |text| why.is_some_and(|why| text.contains(why))),
                "{ttl} {copies}: {text:?}"
            );
        }
    }
}
