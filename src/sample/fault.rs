//! Faults: what goes wrong, for which requests and how often.
//!
//! Only the decision. What a fault looks like on the wire is in `wire`. Called by the server once per admitted
//! request.

use std::time::Duration;

use super::dice::Dice;
use super::raw::Raw;
use super::tamper::Tamper;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This status with a small JSON error.
    Status(u16),
    /// 429; `Retry-After` in seconds, or without that header.
    TooManyRequests(Option<u64>),
    /// The connection is dropped without an answer.
    Reset,
    /// No answer, ever.
    Hang,
    /// A page of HTML with status 200 and no entity tag.
    HtmlWith200,
    /// This text as JSON with status 200 and no entity tag: wrong types, half a document, a total that collapsed.
    Body(String),
    /// The right answer, of which the second half is missing although `Content-Length` counts it.
    Truncated,
    /// The right answer in pieces of 64 bytes, each after this pause.
    SlowDrip(Duration),
    /// A JSON array that never ends, as fast as the client reads.
    EndlessBody,
    /// 302 to this address.
    Redirect(String),
    /// The right answer after so many redirects, each a relative reference to the same path with another query.
    Detour(u32),
    /// This status with a `Retry-After` that is an HTTP-date so many seconds ahead.
    Later(u16, u64),
    /// 304, whatever was asked.
    NotModified,
    /// A JSON array that never ends, in a gzip body that grows a thousand times more slowly; endless without gzip
    /// where the client does not accept it.
    GzipBomb,
    /// The right answer, its text altered.
    Tampered(Tamper),
    /// The right answer, 200 or 304, with these header fields.
    Falsified(Vec<(&'static str, Vec<u8>)>),
    /// The right answer, its bytes altered.
    Raw(Raw),
}

/// A fault and the requests that it befalls.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    /// Start of path and query, after the origin's prefix: `/api/listings.json?page=2`. Empty matches everything.
    pub path_prefix: String,
    /// Share of the matching requests, `0.0..=1.0`.
    pub probability: f64,
    /// How many more requests it befalls; counts down. `None`: no end.
    pub times: Option<u32>,
    /// What goes wrong.
    pub fault: Fault,
}

impl FaultRule {
    /// A fault that always befalls requests whose path and query start so.
    pub fn always(path_prefix: &str, fault: Fault) -> Self {
        // One that could never strike lets a test pass that shows nothing.
        debug_assert!(path_prefix.is_empty() || path_prefix.starts_with('/'), "no path starts with {path_prefix}");
        Self { path_prefix: path_prefix.to_owned(), probability: 1.0, times: None, fault }
    }

    /// A fault that befalls the next so many requests whose path and query start so.
    pub fn times(path_prefix: &str, times: u32, fault: Fault) -> Self {
        Self { times: Some(times), ..Self::always(path_prefix, fault) }
    }

    /// A fault that befalls a share of all requests.
    pub fn share(probability: f64, fault: Fault) -> Self {
        Self { probability, ..Self::always("", fault) }
    }
}

/// The fault, if any, that befalls a request for `target`; counts it.
pub(super) fn strike(rules: &mut [FaultRule], target: &str, dice: &mut Dice) -> Option<Fault> {
    for rule in rules {
        let applies = target.starts_with(&rule.path_prefix) && rule.times != Some(0);
        if applies && dice.chance(rule.probability) {
            rule.times = rule.times.map(|left| left - 1);
            return Some(rule.fault.clone());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_count_down_and_leave_other_paths_alone() {
        let mut dice = Dice::of(&[1]);
        let mut rules = [FaultRule::times("/api/cities", 2, Fault::Reset), FaultRule::share(0.5, Fault::Hang)];
        assert_eq!(strike(&mut rules, "/api/cities.json", &mut dice), Some(Fault::Reset));
        assert_eq!(strike(&mut rules, "/api/cities.json", &mut dice), Some(Fault::Reset));
        let struck = (0..1_000).filter(|_| strike(&mut rules, "/api/cities.json", &mut dice) == Some(Fault::Hang));
        assert!((400..600).contains(&struck.count()));
        assert_eq!(strike(&mut rules[..1], "/api/states.json", &mut dice), None);
    }
}
