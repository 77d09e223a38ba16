//! Health of the origin by its failures: what they say of it as a whole (nothing, that it fails, or that it wants a pause),
//! of single resources, and how often they are logged.
//!
//! What one client requests or sends must not make the origin count as down. A missing connection counts, whoever
//! asked. Otherwise one household alone makes no outage, and other paths say nothing. A resource that failed lately is
//! requested again after a pause, not at once by every client. Values in, values out: time is an argument, callers log.
//!
//! **An origin that is down.** An origin is *down* after three failures in a row on at least two resources. A failure
//! does not count if one client alone could have caused it; a missing connection always counts.
//! Some failures that count are weaker evidence: a 5xx answer to a client's request, to a fetch of a detail, or to a
//! background check. If the last failure is one of these, at least three resources must have failed. An origin that is
//! down is paused for longer and longer, up to 5 s. Then about one request at a time tries it; refreshes, crawl, stale
//! reads and waiting clients take turns. A resource that fails alone is paused for 1, 2, then 4 s; a longer
//! `Retry-After` counts. A 429 pauses everything, for its `Retry-After`, else for at most 10 s. But a 429 to a request
//! that carried a client's headers pauses only that resource; if several clients get 429 for three resources,
//! everything pauses, for at most 10 s. If the origin answers a request of ours after that, such answers pause nothing
//! until one of ours gets 429: clients choose what they request, and must not choose when we rest.
//!
//! Callers: [`super::status`], [`super::client`], [`crate::mirror::details`], [`crate::edge::proxy`].

use std::net::IpAddr;
use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::clock::Monotonic;
use crate::data::cache::Key;
use crate::data::cache::recent::Recent;

use super::ask::AskError;
use super::window::Class;

/// How many failures in a row mean that the origin fails, and not one resource of it.
pub(crate) const FEW: u32 = 3;

/// The household and the purpose behind a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// What it was for.
    pub class: Class,
    /// The only household that wanted it; `None`: the mirror wanted it, or it was answered well before.
    pub household: Option<IpAddr>,
    /// Whether it was a request of ours: of a known endpoint, with no field of a client.
    pub is_ours: bool,
}

impl Witness {
    pub const fn mirror(class: Class) -> Self {
        Self { class, household: None, is_ours: true }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The origin as a whole fails: after how many failures in a row.
    pub outage: Option<u32>,
    /// It asks for a pause; the inner `None` means that it does not say for how long.
    #[expect(clippy::option_option, reason = "it asks, and may say for how long")]
    pub asked: Option<Option<Duration>>,
    /// Whether the failure says anything about the origin as a whole.
    pub counts: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Health {
    failures: u32,
    /// The first few different things that failed.
    failing: Vec<Failing>,
    /// The first few requests with client fields that got 429.
    limited: Vec<Failing>,
    /// Whether such requests paused everything, and none of ours was answered since.
    paused_by_clients: bool,
    /// Whether one of ours was answered after such a pause, and none got 429 since.
    only_clients_are_limited: bool,
}

#[derive(Clone, Debug)]
struct Failing {
    target: ContentHash,
    household: Option<IpAddr>,
    asked: Option<Duration>,
}

/// How much a failure says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Nothing,
    /// It counts only together with failures of other resources.
    Single,
    Whole,
}

impl Health {
    /// A request was answered. `is_ours`: as in [`Witness`].
    pub fn answered(&mut self, is_ours: bool) {
        *self = Self {
            paused_by_clients: self.paused_by_clients && !is_ours,
            only_clients_are_limited: self.only_clients_are_limited || (is_ours && self.paused_by_clients),
            ..Self::default()
        };
    }

    /// How many failures in a row there are.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// The request failed. `paused`: the origin is paused, and this was on the wire already.
    pub fn failed(&mut self, error: &AskError, witness: Witness, paused: bool) -> Judgement {
        let retry_after = match error {
            AskError::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let target = ContentHash::of(error.asked().map_or(&[][..], |path| path.as_bytes()));
        // If there was no connection, the origin is down, whatever the request was.
        let unreached = matches!(error, AskError::Connection { reached: false, .. });
        let household = witness.household.filter(|_| !unreached);
        let failing = Failing { target, household, asked: retry_after };
        if matches!(error, AskError::Status { status: 429, .. }) {
            return self.limited(failing, witness);
        }
        let single = matches!(witness.class, Class::Client | Class::Details | Class::Background);
        let weight = match error {
            _ if paused || !(witness.is_ours || unreached) => Weight::Nothing,
            AskError::Status { status: 500.., .. } if single => Weight::Single,
            AskError::Timeout { .. } | AskError::Connection { .. } | AskError::Status { status: 500.., .. } => {
                Weight::Whole
            }
            _ => Weight::Nothing,
        };
        let asked_for_all = matches!(error, AskError::Status { status: 500.., .. }) && !single;
        let asked = retry_after.filter(|_| asked_for_all).map(Some);
        if weight == Weight::Nothing {
            return Judgement { outage: None, asked, counts: false };
        }
        let known_household = household.is_some() && self.failing.iter().any(|one| one.household == household);
        let many = self.failing.len() >= FEW as usize;
        let is_new = note(&mut self.failing, failing);
        // A household counts once. A resource counts once, if its failures are `Single` and few resources fail.
        if !known_household && (weight == Weight::Whole || is_new || many) {
            self.failures = self.failures.saturating_add(1);
        }
        let targets = self.failing.len();
        let enough = match weight {
            Weight::Single => targets >= FEW as usize,
            _ => targets > 1 && self.failures >= FEW,
        };
        let outage = (enough && !is_one_household(&self.failing)).then_some(self.failures.max(FEW));
        // If all say how long, the shortest counts.
        let wanted = self.failing.iter().map(|one| one.asked).chain([retry_after]).min().flatten();
        let asked = asked.or(wanted.filter(|_| outage.is_some()).map(Some));
        Judgement { outage, asked, counts: true }
    }

    /// 429: it is about everything if the request was ours. With client fields, three resources and several households
    /// must get it.
    fn limited(&mut self, failing: Failing, witness: Witness) -> Judgement {
        const LONGEST: Duration = Duration::from_secs(10);
        if witness.is_ours {
            (self.paused_by_clients, self.only_clients_are_limited) = (false, false);
            return Judgement { outage: None, asked: Some(failing.asked), counts: false };
        }
        if self.only_clients_are_limited {
            return Judgement::default();
        }
        note(&mut self.limited, failing);
        let all = self.limited.len() >= FEW as usize && !is_one_household(&self.limited);
        let asked = self.limited.iter().map(|one| one.asked).min().flatten().map(|asked| asked.min(LONGEST));
        // Clients choose what they request: after a pause, the next one needs three refusals again.
        if all {
            self.limited.clear();
            self.paused_by_clients = true;
        }
        Judgement { outage: None, asked: all.then_some(asked), counts: false }
    }
}

/// Adds to the first few; `true` if its subject was not known to fail, as far as remembered.
fn note(few: &mut Vec<Failing>, failing: Failing) -> bool {
    if let Some(known) = few.iter_mut().find(|one| one.target == failing.target) {
        known.asked = failing.asked;
        if known.household != failing.household {
            known.household = None;
        }
        return false;
    }
    if few.len() < FEW as usize {
        few.push(failing);
    } else if is_one_household(few)
        && let Some(last) = few.last_mut()
    {
        // A single household makes room for others.
        *last = failing;
    }
    true
}

fn is_one_household(failing: &[Failing]) -> bool {
    let first = failing.first().and_then(|one| one.household);
    first.is_some() && failing.iter().all(|one| one.household == first)
}

/// The longest pause of a resource that keeps failing: its return shows within seconds.
const LONGEST: Duration = Duration::from_secs(4);
/// The longest pause that the origin may ask for: it may be well again much sooner.
const LONGEST_ASKED: Duration = Duration::from_secs(300);
/// How many failures in a row begin a pause.
const BEGIN_A_PAUSE: u32 = 2;
/// How many resources are remembered: one that is forgotten costs one more request.
const MOST: usize = 1024;

#[derive(Debug)]
struct FailedResource {
    times: u32,
    until: Monotonic,
    error: AskError,
}

#[derive(Debug)]
pub(crate) struct Failures(Recent<FailedResource>);

impl Default for Failures {
    fn default() -> Self {
        Self(Recent::new(MOST))
    }
}

impl Failures {
    /// Why a resource is paused, if it is.
    pub(crate) fn resting(&self, key: &Key, now: Monotonic) -> Option<AskError> {
        self.0.with(key, |failing| {
            let failing = failing.as_ref().filter(|failing| failing.until > now)?;
            let mut error = failing.error.clone();
            if let AskError::Status { retry_after: Some(wait), .. } = &mut error {
                *wait = failing.until.since(now);
            }
            Some(error)
        })
    }

    /// The origin gave no answer. A spent budget does not count as a failure.
    pub(crate) fn failed(&self, key: &Key, error: &AskError, now: Monotonic) {
        if matches!(error, AskError::Spent(_)) {
            return;
        }
        let asked = match error {
            AskError::Status { status: 429 | 500.., retry_after: Some(asked), .. } => (*asked).min(LONGEST_ASKED),
            _ => Duration::ZERO,
        };
        self.0.with(key, |known| {
            let times = known.as_ref().map_or(1, |failing| failing.times.saturating_add(1));
            let more = times.checked_sub(BEGIN_A_PAUSE);
            let own = more.map_or(Duration::ZERO, |more| Duration::from_secs(1 << more.min(2)));
            let until = now.plus(own.min(LONGEST).max(asked));
            *known = Some(FailedResource { times, until, error: error.clone().shortened() });
        });
    }

    pub(crate) fn answered(&self, key: &Key) {
        self.0.with(key, |known| *known = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIRROR: Witness = Witness::mirror(Class::Crawl);

    fn client(last: u8) -> Witness {
        let household = Some(IpAddr::from([10, 0, 0, last]));
        Witness { class: Class::Client, household, is_ours: true }
    }

    fn foreign(last: u8) -> Witness {
        Witness { is_ours: false, ..client(last) }
    }

    fn status(status: u16, path: &str, seconds: Option<u64>) -> AskError {
        AskError::Status { status, path: path.to_owned(), retry_after: seconds.map(Duration::from_secs) }
    }

    fn outage(health: &mut Health, error: &AskError, witness: Witness) -> Option<u32> {
        health.failed(error, witness, false).outage
    }

    fn broken(path: &str, reached: bool) -> AskError {
        AskError::Connection { path: path.to_owned(), reason: "x".into(), reached }
    }

    #[test]
    fn what_one_household_asks_for_makes_no_outage_however_much_it_is() {
        let mut health = Health::default();
        for number in 0..50 {
            let path = format!("/{number}");
            for error in [status(503, &path, Some(3600)), broken(&path, true)] {
                assert_eq!(health.failed(&error, client(1), false), Judgement { counts: true, ..Judgement::default() });
            }
        }
        // Nor does it take room from what others see, or make that look worse.
        assert_eq!(outage(&mut health, &status(500, "/a", None), client(2)), Some(FEW));
        assert!(health.failures() <= FEW);
    }

    #[test]
    fn errors_of_unknown_paths_say_nothing() {
        let mut health = Health::default();
        for number in 0..50_u8 {
            let path = format!("/{number}");
            for error in [status(500, &path, Some(60)), broken(&path, true)] {
                assert_eq!(health.failed(&error, foreign(number), false), Judgement::default());
            }
        }
        assert_eq!(health.failures(), 0);
    }

    #[test]
    fn without_a_connection_the_origin_is_down_whatever_was_asked() {
        let mut health = Health::default();
        let paths = ["/a", "/b", "/c"];
        let outages = paths.map(|path| outage(&mut health, &broken(path, false), foreign(1)));
        assert_eq!(outages, [None, None, Some(FEW)]);
    }

    #[test]
    fn several_households_or_what_was_well_before_are_enough() {
        let mut health = Health::default();
        let households =
            [1, 2, 3].map(|last| outage(&mut health, &status(500, &format!("/{last}"), None), client(last)));
        assert_eq!(households, [None, None, Some(FEW)]);
        let mut health = Health::default();
        let well_before = Witness { household: None, ..client(1) };
        let before = ["/a", "/b", "/c"].map(|path| outage(&mut health, &status(500, path, None), well_before));
        assert_eq!(before, [None, None, Some(FEW)]);
        health.answered(true);
        assert_eq!((health.failures(), outage(&mut health, &status(500, "/d", None), MIRROR)), (0, None));
    }

    #[test]
    fn a_429_is_about_everything_only_if_the_request_was_ours_or_many_hear_it() {
        let error = |path: &str| status(429, path, Some(3600));
        let asked = Some(Some(Duration::from_secs(3600)));
        assert_eq!(Health::default().failed(&error("/a"), MIRROR, false).asked, asked);
        assert_eq!(Health::default().failed(&error("/a"), client(1), false).asked, asked);
        let mut health = Health::default();
        for number in 0..20 {
            assert_eq!(health.failed(&error(&format!("/{number}")), foreign(1), false), Judgement::default());
        }
        let shorter = status(429, "/x", Some(9));
        assert_eq!(
            health.failed(&shorter, foreign(2), false).asked,
            Some(Some(Duration::from_secs(9))),
            "the shortest"
        );
        assert_eq!(health.failed(&error("/y"), foreign(3), false), Judgement::default(), "the next one takes as many");
    }

    #[test]
    fn clients_that_get_429_pause_nothing_for_long_and_only_once_if_the_origin_answers_us() {
        let mut health = Health::default();
        let round = |health: &mut Health| {
            let error = |path: &str| status(429, path, Some(3600));
            [1, 2, 3].map(|last| health.failed(&error(&format!("/{last}")), foreign(last), false).asked)[2]
        };
        let briefly = Some(Some(Duration::from_secs(10)));
        assert_eq!(round(&mut health), briefly);
        // That another client's request is answered says nothing of ours.
        health.answered(false);
        assert_eq!(round(&mut health), briefly);
        health.answered(true);
        for _ in 0..3 {
            assert_eq!(round(&mut health), None, "only what clients request is limited");
            health.answered(false);
        }
        let asked = Some(Some(Duration::from_secs(3600)));
        assert_eq!(health.failed(&status(429, "/ours", Some(3600)), MIRROR, false).asked, asked);
        assert_eq!(round(&mut health), briefly);
    }

    #[test]
    fn what_was_on_the_wire_together_counts_once() {
        let mut health = Health::default();
        for path in ["/a", "/b", "/c", "/d"] {
            assert_eq!(health.failed(&status(500, path, None), MIRROR, true), Judgement::default());
        }
    }

    #[test]
    fn a_resource_that_keeps_failing_is_left_alone_for_seconds_at_most() {
        let failures = Failures::default();
        let (key, other) = (Key::origin("/a"), Key::origin("/b"));
        let error = AskError::nonsense("/a", "HTML");
        let mut now = Monotonic::from_seconds(100);
        failures.failed(&key, &error, now);
        assert!(failures.resting(&key, now).is_none(), "once is not often");
        for seconds in [1, 2, 4, 4, 4] {
            failures.failed(&key, &error, now);
            let rest = Duration::from_secs(seconds);
            assert!(failures.resting(&key, now).is_some() && failures.resting(&other, now).is_none());
            assert!(failures.resting(&key, now.plus(rest.saturating_sub(Duration::from_millis(1)))).is_some());
            now = now.plus(rest);
            assert!(failures.resting(&key, now).is_none(), "{seconds} s");
        }
        failures.failed(&key, &error, now);
        failures.answered(&key);
        assert!(failures.resting(&key, now).is_none());
        failures.failed(&other, &AskError::Spent(super::super::budget::Spent::soon()), now);
        failures.failed(&other, &AskError::Spent(super::super::budget::Spent::soon()), now);
        assert!(failures.resting(&other, now).is_none(), "a spent budget is no failure");
    }

    /// As long as the origin asks for, but not so long that its recovery is noticed late.
    #[test]
    fn a_resource_rests_as_long_as_the_origin_asks_for_it_within_five_minutes() {
        let (failures, now) = (Failures::default(), Monotonic::from_seconds(100));
        let error = |status, seconds| AskError::Status {
            status,
            path: "/".into(),
            retry_after: Some(Duration::from_secs(seconds)),
        };
        for (number, (status, asked, rests)) in [(503, 30, 30), (500, 3600, 300), (429, 30, 30)].into_iter().enumerate()
        {
            let key = Key::origin(format!("/{number}"));
            failures.failed(&key, &error(status, asked), now);
            let later = |seconds| now.plus(Duration::from_secs(seconds));
            assert!(failures.resting(&key, later(rests)).is_none(), "{status} {asked}");
            if let Some(just_before) = u64::checked_sub(rests, 1) {
                let told = failures.resting(&key, later(just_before)).unwrap();
                assert_eq!(told.retry_after(), Duration::from_secs(1), "what is left of it");
            }
        }
    }

    #[test]
    fn what_is_remembered_of_a_failure_is_short_however_long_the_address() {
        let (failures, now) = (Failures::default(), Monotonic::from_seconds(100));
        let path = format!("/{}", "\u{e9}".repeat(30_000));
        for _ in 0..2 {
            failures.failed(&Key::origin(&path), &AskError::nonsense(&path, "HTML"), now);
        }
        let told = failures.resting(&Key::origin(&path), now).unwrap();
        assert!(told.asked().unwrap().len() <= 204, "{told}");
        assert!(failures.resting(&Key::origin(format!("{path}x")), now).is_none());
    }
}
