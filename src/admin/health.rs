//! Health, the reasons when it is bad, and what should be mended although it is good: sentences for people in `/status`
//! and `grandstand status`.
//!
//! Pure. Callers: [`super::status`]; [`super::advice`] says what to do about them.

use std::time::Duration;

use crate::config::Use;
use crate::upstream::status::{DetailTrouble, OldCopy};
use crate::words::counted;

/// The inputs of health.
pub(super) struct Facts<'a> {
    /// How this process is used.
    pub usage: Use,
    /// Why there is no data to answer from; `None`: there is.
    pub not_ready: Option<String>,
    /// Age of the data: seconds since it was confirmed; `None` without data.
    pub age: Option<u32>,
    /// Whether that instant is in the future, so that it confirms nothing.
    pub unconfirmed: bool,
    /// The time by which a refresh must have happened.
    pub ttl: Duration,
    /// `bundle.max_age`.
    pub max_age: Option<Duration>,
    /// Why a snapshot is held back.
    pub held: Option<&'a str>,
    /// The problem of the disk.
    pub disk: Option<&'a str>,
    /// Why the data of a replica is not the newest.
    pub replica: Option<&'a str>,
    /// Details that cannot be fetched.
    pub details: Option<&'a DetailTrouble>,
    /// How many answers in a row a shield was forbidden to store.
    pub unstored: u64,
    /// The oldest copy of a cache that was far older than `origin.cache_ttl`.
    pub old_copy: Option<OldCopy>,
}

/// The age from which on data is not healthy; `None`: at any age it is.
pub(super) fn oldest(usage: Use, ttl: Duration, max_age: Option<Duration>) -> Option<Duration> {
    let refreshed_within = usage.is_confirmed().then(|| Duration::from_secs(3 * ttl.as_secs().max(1)));
    refreshed_within.into_iter().chain(max_age).min()
}

/// A kind of reason: what to do depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The disk does not work.
    Disk,
    /// There is nothing to serve.
    NotReady,
    /// A clock is wrong.
    Clock,
    /// The data was not confirmed in time.
    Unconfirmed,
    /// A snapshot is held back.
    HeldBack,
    /// Details cannot be fetched. The server is healthy.
    Details,
    /// The origin forbids to store its answers. The server is healthy.
    Unstored,
    /// A cache in front of the origin sends copies that are too old.
    OldCopies,
}

/// One reason for which this is not healthy, or should be mended although it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    /// Its kind.
    pub trouble: Trouble,
    /// The sentence.
    pub text: String,
}

impl Reason {
    const fn new(trouble: Trouble, text: String) -> Self {
        Self { trouble, text }
    }
}

/// Every reason for which this is not healthy, the most pressing first; empty: it is.
pub(super) fn reasons(facts: &Facts<'_>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    reasons.extend(facts.disk.map(|why| Reason::new(Trouble::Disk, why.to_owned())));
    reasons.extend(facts.not_ready.clone().map(|why| Reason::new(Trouble::NotReady, why)));
    let limit = oldest(facts.usage, facts.ttl, facts.max_age).map(|oldest| oldest.as_secs());
    match (limit, facts.age) {
        (Some(_), Some(_)) if facts.unconfirmed => {
            let why = "data not confirmed: it is dated in the future, so check the clocks";
            reasons.push(Reason::new(Trouble::Clock, why.to_owned()));
        }
        (Some(limit), Some(age)) if u64::from(age) > limit => {
            let why = facts.replica.map_or_else(String::new, |why| format!(": {why}"));
            let text = format!("data not confirmed for {age} s (limit {limit} s){why}");
            reasons.push(Reason::new(Trouble::Unconfirmed, text));
        }
        _ => {}
    }
    let held = |why| Reason::new(Trouble::HeldBack, format!("a snapshot is held back: {why}"));
    reasons.extend(facts.held.map(held));
    reasons
}

/// So many answers in a row that may not be stored are no accident.
const MANY_UNSTORED: u64 = 3;

/// What should be mended although this is healthy.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Reason> {
    let mut findings = Vec::new();
    match facts.details {
        Some(DetailTrouble { all: true, error, failing, .. }) => {
            let failed = counted(*failing as u64, "request");
            let text =
                format!("no details can be fetched: {failed} failed and none was answered. The last error: {error}");
            findings.push(Reason::new(Trouble::Details, text));
        }
        Some(DetailTrouble { often: often @ 1.., error, .. }) => {
            let many = counted(*often as u64, "detail");
            let text = format!("{many} cannot be fetched, although others can. The last error: {error}");
            findings.push(Reason::new(Trouble::Details, text));
        }
        _ => {}
    }
    if facts.usage == Use::Shield && facts.unstored >= MANY_UNSTORED {
        let text = format!(
            "nothing can be stored: the last {} answers of the origin forbid it with `Cache-Control: private` or \
             `no-store`, so each request of a client becomes a request to the origin",
            facts.unstored
        );
        findings.push(Reason::new(Trouble::Unstored, text));
    }
    findings.extend(facts.old_copy.map(|copy| Reason::new(Trouble::OldCopies, copy.to_string())));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror() -> Facts<'static> {
        Facts {
            usage: Use::Mirror,
            not_ready: None,
            age: Some(3),
            unconfirmed: false,
            ttl: Duration::from_secs(1),
            max_age: None,
            held: None,
            disk: None,
            replica: None,
            details: None,
            unstored: 0,
            old_copy: None,
        }
    }

    #[test]
    fn each_finding_is_a_sentence_and_no_reason() {
        let trouble = |failing, often, all| DetailTrouble { failing, often, all, error: "it is HTML".to_owned() };
        let (few, some, all) = (trouble(2, 0, false), trouble(40, 1, false), trouble(9, 9, true));
        let shield = |unstored| Facts { usage: Use::Shield, unstored, ..mirror() };
        let none: &[&str] = &[];
        for (facts, want) in [
            (mirror(), none),
            (Facts { details: Some(&few), ..mirror() }, none),
            (Facts { details: Some(&some), ..mirror() }, &["1 detail cannot be fetched", "The last error: it is HTML"]),
            (Facts { details: Some(&all), ..mirror() }, &["no details can be fetched: 9 requests", "it is HTML"]),
            (shield(2), none),
            (shield(1000), &["the last 1000 answers", "`Cache-Control: private`"]),
            (Facts { unstored: 1000, ..mirror() }, none),
        ] {
            let texts: Vec<String> = findings(&facts).into_iter().map(|finding| finding.text).collect();
            assert_eq!(texts.is_empty(), want.is_empty(), "{texts:?}");
            assert!(want.iter().all(|part| texts[0].contains(part)), "{texts:?}");
            assert_eq!(reasons(&facts), []);
        }
    }

    #[test]
    fn each_reason_is_a_sentence_and_none_is_health() {
        let (none, minute): (&[&str], _) = (&[], Some(Duration::from_secs(60)));
        for (facts, want) in [
            (mirror(), none),
            (Facts { age: Some(29), ..mirror() }, &["data not confirmed for 29 s (limit 3 s)"]),
            (
                Facts { age: Some(4), ttl: Duration::from_millis(100), ..mirror() },
                &["data not confirmed for 4 s (limit 3 s)"],
            ),
            (
                Facts { age: Some(901), ttl: Duration::from_secs(300), ..mirror() },
                &["data not confirmed for 901 s (limit 900 s)"],
            ),
            (
                Facts { age: Some(0), unconfirmed: true, ..mirror() },
                &["data not confirmed: it is dated in the future, so check the clocks"],
            ),
            (
                Facts { age: None, not_ready: Some("the first crawl has not begun".into()), ..mirror() },
                &["the first crawl has not begun"],
            ),
            (
                Facts { age: Some(9), held: Some("it lost half"), disk: Some("no space"), ..mirror() },
                &["no space", "data not confirmed for 9 s (limit 3 s)", "a snapshot is held back: it lost half"],
            ),
            (Facts { usage: Use::Shield, age: None, ..mirror() }, none),
            (Facts { usage: Use::Offline, age: Some(1 << 30), ..mirror() }, none),
            (Facts { usage: Use::Offline, age: Some(60), max_age: minute, ..mirror() }, none),
            (
                Facts { usage: Use::Offline, age: Some(61), max_age: minute, ..mirror() },
                &["data not confirmed for 61 s (limit 60 s)"],
            ),
            (
                Facts { usage: Use::Offline, age: Some(0), max_age: minute, unconfirmed: true, ..mirror() },
                &["data not confirmed: it is dated in the future, so check the clocks"],
            ),
            (Facts { age: Some(29), max_age: minute, ..mirror() }, &["data not confirmed for 29 s (limit 3 s)"]),
            (Facts { usage: Use::Replica, replica: Some("no head"), ..mirror() }, none),
            (
                Facts { usage: Use::Replica, age: Some(4), replica: Some("no head"), ..mirror() },
                &["data not confirmed for 4 s (limit 3 s): no head"],
            ),
        ] {
            let texts: Vec<String> = reasons(&facts).into_iter().map(|reason| reason.text).collect();
            assert_eq!(texts, want);
        }
    }
}
