//! What the mirror does next. Pure: facts in, one step out.
//!
//! Refreshes come first: long work is done in pieces. Callers: [`super::task`].

use std::time::Duration;

use crate::snapshot::meta::Certificate;

/// Why every page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To publish at all, or with a better certificate.
    Certify,
    /// The origin has changed, and a refresh does not show enough.
    Follow,
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// `None`: nothing is published.
    pub certificate: Option<Certificate>,
    /// When a refresh is due; zero: now.
    pub refresh_in: Duration,
    /// What the active work is for, and when it continues.
    pub begun: Option<(Purpose, Duration)>,
    /// A command asked to read every page.
    pub asked: bool,
    /// Time since the last attempt to get the certificate `full`; `None`: none yet.
    pub tried: Option<Duration>,
    /// Pause after an attempt that failed.
    pub patience: Duration,
    /// Pause before new work, after a failure.
    pub begin_in: Duration,
    /// When to ask the origin about terms in doubt and filters; `None`: nothing to ask.
    pub learn_in: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Five conditional requests.
    Refresh,
    /// Begin to read every page.
    Begin(Purpose),
    /// Continue the active work.
    Continue,
    /// Ask the origin about terms in doubt and filters.
    Learn,
    /// Nothing for so long.
    Wait(Duration),
}

/// A wait that is long enough for something else.
const LONG: Duration = Duration::from_secs(30);

/// Whether the mirror tries for no better certificate.
pub(super) const fn is_settled(certificate: Certificate) -> bool {
    matches!(certificate, Certificate::Full | Certificate::Incremental)
}

pub(super) fn next(facts: &Facts) -> Step {
    let Some(certificate) = facts.certificate else {
        return match facts.begun {
            None if !facts.begin_in.is_zero() => Step::Wait(facts.begin_in),
            None => Step::Begin(Purpose::Certify),
            Some((_, wait)) if wait.is_zero() => Step::Continue,
            Some((_, wait)) => Step::Wait(wait),
        };
    };
    // Work that follows a change looks at everything a refresh would.
    let follows = matches!(facts.begun, Some((Purpose::Follow, _)));
    let asked = facts.asked && facts.begin_in.is_zero();
    if !follows && !asked && facts.refresh_in.is_zero() {
        return Step::Refresh;
    }
    if asked {
        return Step::Begin(Purpose::Certify);
    }
    if let Some((_, wait)) = facts.begun
        && wait.is_zero()
    {
        return Step::Continue;
    }
    let settle_in = match certificate {
        _ if facts.begun.is_some() => None,
        Certificate::Full | Certificate::Incremental => None,
        // An earlier attempt in this process was held back, or got no better certificate.
        Certificate::Provisional | Certificate::BestEffort => {
            let patience = facts.tried.map_or(Duration::ZERO, |ago| facts.patience.saturating_sub(ago));
            Some(patience.max(facts.begin_in))
        }
    };
    if settle_in.is_some_and(|wait| wait.is_zero()) {
        return Step::Begin(Purpose::Certify);
    }
    // Asking about terms and filters never delays active work, unless that waits for long anyway.
    let idle = !follows && facts.begun.is_none_or(|(_, wait)| wait >= LONG);
    let learn_in = facts.learn_in.filter(|_| idle);
    if learn_in.is_some_and(|wait| wait.is_zero()) {
        return Step::Learn;
    }
    let asked_in = facts.asked.then_some(facts.begin_in);
    let waits = [facts.begun.map(|(_, wait)| wait), settle_in, learn_in, asked_in];
    let waits = waits.into_iter().flatten().chain((!follows).then_some(facts.refresh_in));
    Step::Wait(waits.min().unwrap_or(facts.refresh_in))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const SOON: Duration = Duration::from_secs(1);
    const LATER: Duration = Duration::from_secs(60);

    const QUIET: Facts = Facts {
        certificate: Some(Certificate::Full),
        refresh_in: LATER,
        begun: None,
        asked: false,
        tried: None,
        patience: LATER,
        begin_in: NOW,
        learn_in: None,
    };

    #[test]
    fn a_mirror_without_a_snapshot_reads_until_it_has_one() {
        let none = Facts { certificate: None, refresh_in: NOW, ..QUIET };
        assert_eq!(next(&none), Step::Begin(Purpose::Certify));
        assert_eq!(next(&Facts { begin_in: SOON, ..none }), Step::Wait(SOON));
        let reading = |wait| Facts { begun: Some((Purpose::Certify, wait)), ..none };
        assert_eq!(next(&reading(NOW)), Step::Continue);
        assert_eq!(next(&reading(SOON)), Step::Wait(SOON));
    }

    #[test]
    fn a_refresh_that_is_due_goes_before_all_but_what_follows_a_change() {
        let due = Facts { refresh_in: NOW, learn_in: Some(NOW), certificate: Some(Certificate::Provisional), ..QUIET };
        assert_eq!(next(&due), Step::Refresh);
        let certifying = Facts { begun: Some((Purpose::Certify, NOW)), ..due };
        assert_eq!(next(&certifying), Step::Refresh);
        let following = |wait| Facts { begun: Some((Purpose::Follow, wait)), ..due };
        assert_eq!(next(&following(NOW)), Step::Continue);
        assert_eq!(next(&following(SOON)), Step::Wait(SOON));
    }

    #[test]
    fn what_is_not_settled_is_settled_at_once_and_after_that_patiently() {
        let provisional = Facts { certificate: Some(Certificate::Provisional), ..QUIET };
        assert_eq!(next(&provisional), Step::Begin(Purpose::Certify));
        assert_eq!(next(&Facts { tried: Some(SOON), ..provisional }), Step::Wait(LATER.saturating_sub(SOON)));
        assert_eq!(next(&Facts { begin_in: SOON, ..provisional }), Step::Wait(SOON), "it has just failed");
        assert_eq!(next(&Facts { begin_in: SOON, asked: true, ..QUIET }), Step::Wait(SOON));
        let effort = Facts { certificate: Some(Certificate::BestEffort), ..QUIET };
        assert_eq!(next(&effort), Step::Begin(Purpose::Certify));
        assert_eq!(next(&Facts { tried: Some(SOON), ..effort }), Step::Wait(LATER.saturating_sub(SOON)));
        assert_eq!(next(&Facts { tried: Some(LATER), ..effort }), Step::Begin(Purpose::Certify));
        let waiting = Facts { begun: Some((Purpose::Certify, SOON)), ..provisional };
        assert_eq!(next(&waiting), Step::Wait(SOON), "it goes on when it may");
    }

    #[test]
    fn questions_wait_for_quiet_times_and_a_pass_that_is_asked_for_does_not() {
        assert_eq!(next(&QUIET), Step::Wait(LATER));
        assert_eq!(next(&Facts { learn_in: Some(NOW), ..QUIET }), Step::Learn);
        assert_eq!(next(&Facts { learn_in: Some(SOON), ..QUIET }), Step::Wait(SOON));
        let busy = Facts { learn_in: Some(NOW), begun: Some((Purpose::Certify, SOON)), ..QUIET };
        assert_eq!(next(&busy), Step::Wait(SOON));
        let waiting = Facts { begun: Some((Purpose::Certify, LATER)), ..busy };
        assert_eq!(next(&waiting), Step::Learn);
        let asked = Facts { asked: true, refresh_in: NOW, begun: Some((Purpose::Follow, SOON)), ..QUIET };
        assert_eq!(next(&asked), Step::Begin(Purpose::Certify));
    }
}
