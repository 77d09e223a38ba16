//! Health, the reasons when it is bad, and what should be mended although it is good: sentences for people in `/status`
//! and `grandstand status`.
//!
//! Pure. Callers: [`super::status`]; [`super::advice`] says what to do about them.

use std::time::Duration;

use crate::config::Use;
use crate::limit::refused::{BusyAddress, UntrustedProxy};
use crate::upstream::status::{DetailTrouble, OriginState, Picture};
use crate::words::{counted, sentence};

use super::facts::{ReloadFacts, StatusFacts};

/// The age from which on data is not healthy; `None`: at any age it is.
pub(super) fn oldest(usage: Use, ttl: Duration, max_age: Option<Duration>) -> Option<Duration> {
    let refreshed_within = usage.is_confirmed().then(|| Duration::from_secs(3 * ttl.as_secs().max(1)));
    refreshed_within.into_iter().chain(max_age).min()
}

/// Why an offline server without data has nothing to answer from. A forgotten or misspelt origin makes such a server.
pub(crate) const NOTHING_TO_SERVE: &str =
    "no snapshot has been imported yet, and origin.url is not set, so there is nothing to serve";

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
    /// The clients of a proxy share one limit.
    UntrustedProxy,
    /// The limit refuses one address again and again.
    Refused,
    /// Another program writes the head that this server writes.
    Rival,
    /// The origin fails, and the data is not too old yet.
    Origin,
    /// The last reload failed, or left something for a restart.
    Reload,
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

/// Every reason for which this is not healthy, the most pressing first; empty: it is. `not_ready`: why there is no data to
/// answer from.
pub(super) fn reasons(facts: &StatusFacts, not_ready: Option<String>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    reasons.extend(facts.disk.clone().map(|why| Reason::new(Trouble::Disk, why)));
    reasons.extend(not_ready.map(|why| Reason::new(Trouble::NotReady, why)));
    match (facts.unhealthy_after_seconds, facts.age_seconds) {
        (Some(_), _) if facts.unconfirmed => {
            let why = "data not confirmed: it is dated in the future, so check the clocks";
            reasons.push(Reason::new(Trouble::Clock, why.to_owned()));
        }
        (Some(limit), Some(age)) if u64::from(age) > limit => {
            let why = facts.replica.as_ref().and_then(|replica| replica.why.as_ref());
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            let text = format!("data not confirmed for {age} s (limit {limit} s){why}");
            reasons.push(Reason::new(Trouble::Unconfirmed, text));
        }
        _ => {}
    }
    let held = facts.held.as_ref().map(|held| format!("a snapshot is held back: {}", held.reason));
    reasons.extend(held.map(|text| Reason::new(Trouble::HeldBack, text)));
    reasons
}

/// So many answers in a row that may not be stored are no accident.
const MANY_UNSTORED: u64 = 3;

/// What findings come from.
pub(super) struct Found<'a> {
    pub origin: &'a Picture,
    pub proxy: Option<UntrustedProxy>,
    pub busy: Option<BusyAddress>,
    /// What another publisher wrote, as a sentence.
    pub rival: Option<String>,
}

/// How the origin fails, with the last error; `None`: it does not.
pub(super) fn origin_fails(facts: &StatusFacts) -> Option<String> {
    let url = facts.origin.url.as_deref().unwrap_or("the origin");
    let how = match facts.origin.failing()? {
        OriginState::Nonsense => format!("The answers of the origin {url} cannot be used"),
        _ => format!("The origin {url} fails"),
    };
    Some(match &facts.last_error {
        Some(error) => format!("{how}. The last error: {}", sentence(&error.message)),
        None => format!("{how}."),
    })
}

/// What the last reload left to be done.
fn left_by(reload: &ReloadFacts) -> Option<String> {
    let at = reload.at.as_deref().unwrap_or("an unknown time");
    if !reload.errors.is_empty() {
        let errors = reload.errors.join("; ");
        return Some(format!("the reload at {at} failed: {errors}"));
    }
    let keys = reload.needs_restart.join(", ");
    (!keys.is_empty()).then(|| format!("the reload at {at} changed keys that take effect at the next start: {keys}"))
}

/// What should be mended although this is healthy; not what `reasons` say.
pub(super) fn findings(usage: Use, facts: &StatusFacts, reasons: &[Reason], found: Found<'_>) -> Vec<Reason> {
    let Found { origin, proxy, busy, rival } = found;
    let mut findings = Vec::new();
    let is_told = reasons.iter().any(|reason| matches!(reason.trouble, Trouble::Unconfirmed | Trouble::NotReady))
        || matches!(origin.details, Some(DetailTrouble { all: true, .. }));
    findings.extend(origin_fails(facts).filter(|_| !is_told).map(|text| Reason::new(Trouble::Origin, text)));
    findings.extend(facts.reload.as_ref().and_then(left_by).map(|text| Reason::new(Trouble::Reload, text)));
    findings.extend(rival.map(|text| Reason::new(Trouble::Rival, text)));
    match &origin.details {
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
    if usage == Use::Shield && origin.unstored >= MANY_UNSTORED {
        let text = format!(
            "nothing can be stored: the last {} answers of the origin forbid it with `Cache-Control: private` or \
             `no-store`, so each request of a client becomes a request to the origin",
            origin.unstored
        );
        findings.push(Reason::new(Trouble::Unstored, text));
    }
    findings.extend(origin.old_copy.map(|copy| Reason::new(Trouble::OldCopies, copy.to_string())));
    findings.extend(proxy.map(|UntrustedProxy { peer, header }| {
        let text = format!(
            "{peer} sends the header {header}, as proxies do, and is not in client_ip.trusted_proxies: all clients behind it \
             share one limit, and some were refused (429); add its address there if it is your proxy"
        );
        Reason::new(Trouble::UntrustedProxy, text)
    }));
    findings.extend(busy.map(|busy| {
        let (client, refusals, minutes) = (busy.client, busy.refusals, busy.minutes());
        let text = format!("the limit refused {client} at least {refusals} times (429) in {minutes} min");
        Reason::new(Trouble::Refused, text)
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::replica::status::ReplicaFacts;
    use crate::upstream::status::Held;

    #[test]
    fn each_finding_is_a_sentence() {
        let trouble = |failing, often, all| DetailTrouble { failing, often, all, error: "it is HTML".to_owned() };
        let details = |trouble| Picture { details: Some(trouble), ..Picture::default() };
        let unstored = |unstored| Picture { unstored, ..Picture::default() };
        let none: &[&str] = &[];
        for (usage, origin, want) in [
            (Use::Mirror, Picture::default(), none),
            (Use::Mirror, details(trouble(2, 0, false)), none),
            (
                Use::Mirror,
                details(trouble(40, 1, false)),
                &["1 detail cannot be fetched", "The last error: it is HTML"],
            ),
            (Use::Mirror, details(trouble(9, 9, true)), &["no details can be fetched: 9 requests", "it is HTML"]),
            (Use::Shield, unstored(2), none),
            (Use::Shield, unstored(1000), &["the last 1000 answers", "`Cache-Control: private`"]),
            (Use::Mirror, unstored(1000), none),
        ] {
            let found = Found { origin: &origin, proxy: None, busy: None, rival: None };
            let texts: Vec<String> =
                findings(usage, &StatusFacts::default(), &[], found).into_iter().map(|finding| finding.text).collect();
            assert_eq!(texts.is_empty(), want.is_empty(), "{texts:?}");
            assert!(want.iter().all(|part| texts[0].contains(part)), "{texts:?}");
        }
    }

    #[test]
    fn an_origin_that_fails_is_a_finding_until_it_is_a_reason() {
        let mut facts = StatusFacts::default();
        let told = |facts: &StatusFacts, reasons: &[Reason]| {
            let origin = &Picture::default();
            let found = Found { origin, proxy: None, busy: None, rival: None };
            findings(Use::Mirror, facts, reasons, found).into_iter().map(|finding| finding.text).collect::<String>()
        };
        for (state, how) in [
            (OriginState::Answering, ""),
            (OriginState::CouldNotBeAsked, "The origin https://origin.test fails."),
            (OriginState::Nonsense, "The answers of the origin https://origin.test cannot be used."),
        ] {
            facts.origin.url = Some("https://origin.test".to_owned());
            facts.origin.state = state.as_str().to_owned();
            assert_eq!(told(&facts, &[]), how);
        }
        for (trouble, is_told) in [(Trouble::Unconfirmed, false), (Trouble::NotReady, false), (Trouble::HeldBack, true)]
        {
            assert_eq!(!told(&facts, &[Reason::new(trouble, String::new())]).is_empty(), is_told, "{trouble:?}");
        }
    }

    #[test]
    fn each_reason_is_a_sentence_and_none_is_health() {
        let aged = |usage, ttl, max_age: Option<Duration>, age_seconds| StatusFacts {
            unhealthy_after_seconds: oldest(usage, ttl, max_age).map(|oldest| oldest.as_secs()),
            age_seconds,
            ..StatusFacts::default()
        };
        let (second, minute) = (Duration::from_secs(1), Some(Duration::from_secs(60)));
        let mirror = |age| aged(Use::Mirror, second, None, Some(age));
        let offline = |max_age, age| aged(Use::Offline, second, max_age, Some(age));
        let replica = |age| StatusFacts {
            replica: Some(ReplicaFacts { why: Some("no head".to_owned()), ..ReplicaFacts::default() }),
            ..mirror(age)
        };
        let held = Some(Held { reason: "it lost half".to_owned(), ..Held::default() });
        let future = |facts| StatusFacts { age_seconds: None, unconfirmed: true, ..facts };
        let in_future = "data not confirmed: it is dated in the future, so check the clocks";
        let none: &[&str] = &[];
        for (facts, not_ready, want) in vec![
            (mirror(3), None, none),
            (mirror(29), None, &["data not confirmed for 29 s (limit 3 s)"]),
            (
                aged(Use::Mirror, Duration::from_millis(100), None, Some(4)),
                None,
                &["data not confirmed for 4 s (limit 3 s)"],
            ),
            (
                aged(Use::Mirror, Duration::from_secs(300), None, Some(901)),
                None,
                &["data not confirmed for 901 s (limit 900 s)"],
            ),
            (future(mirror(0)), None, &[in_future]),
            (
                aged(Use::Mirror, second, None, None),
                Some("the first crawl has not begun"),
                &["the first crawl has not begun"],
            ),
            (
                StatusFacts { held, disk: Some("no space".to_owned()), ..mirror(9) },
                None,
                &["no space", "data not confirmed for 9 s (limit 3 s)", "a snapshot is held back: it lost half"],
            ),
            (aged(Use::Shield, second, None, None), None, none),
            (offline(None, 1 << 30), None, none),
            (offline(minute, 60), None, none),
            (offline(minute, 61), None, &["data not confirmed for 61 s (limit 60 s)"]),
            (future(offline(minute, 0)), None, &[in_future]),
            (aged(Use::Mirror, second, minute, Some(29)), None, &["data not confirmed for 29 s (limit 3 s)"]),
            (replica(3), None, none),
            (replica(4), None, &["data not confirmed for 4 s (limit 3 s): no head"]),
        ] {
            let reasons = reasons(&facts, not_ready.map(str::to_owned));
            let texts: Vec<String> = reasons.into_iter().map(|reason| reason.text).collect();
            assert_eq!(texts, want);
        }
    }
}
