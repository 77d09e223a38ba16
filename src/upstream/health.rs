//! What failures say about the origin as a whole: nothing, that it fails, or that it wants a pause.
//!
//! What one client requests or sends must not make the origin count as down. A missing connection counts, whoever
//! asked. Otherwise one household alone makes no outage, and other paths say nothing. Pure: values in, values out.
//! [`super::failures`] pauses single resources. Callers: [`super::status`], [`super::client`].

use std::net::IpAddr;
use std::time::Duration;

use crate::api::hash::ContentHash;

use super::error::AskError;
use super::window::Class;

/// How many failures in a row mean that the origin fails, and not one resource of it.
pub(crate) const FEW: u32 = 3;

/// Whose request it was.
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
    /// The mirror itself.
    pub const fn mirror(class: Class) -> Self {
        Self { class, household: None, is_ours: true }
    }
}

/// The result of a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The origin as a whole fails: after how many failures in a row.
    pub outage: Option<u32>,
    /// It asks for a pause; the inner `None` means that it does not say for how long.
    #[expect(clippy::option_option, reason = "it asks, and may say for how long")]
    pub asked: Option<Option<Duration>>,
    /// Whether the failure says anything about the origin as a whole.
    pub counts: bool,
}

/// Failures in a row.
#[derive(Clone, Debug, Default)]
pub struct Health {
    failures: u32,
    /// The first few different things that failed.
    failing: Vec<Failing>,
    /// The first few requests with client fields that got 429.
    limited: Vec<Failing>,
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
    /// The origin answered.
    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// How many failures in a row there are.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// The request failed. `paused`: the origin is paused, and this was on the wire already.
    pub fn failed(&mut self, error: &AskError, witness: Witness, paused: bool) -> Verdict {
        let retry_after = match error {
            AskError::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let target = ContentHash::of(error.path().unwrap_or_default().as_bytes());
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
            return Verdict { outage: None, asked, counts: false };
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
        Verdict { outage, asked, counts: true }
    }

    /// 429: it is about everything if the request was ours. With client fields, three resources and several households
    /// must get it.
    fn limited(&mut self, failing: Failing, witness: Witness) -> Verdict {
        if witness.is_ours {
            return Verdict { outage: None, asked: Some(failing.asked), counts: false };
        }
        note(&mut self.limited, failing);
        let all = self.limited.len() >= FEW as usize && !is_one_household(&self.limited);
        let asked = self.limited.iter().map(|one| one.asked).min().flatten();
        // Clients choose what they request: after a pause, the next one needs three refusals again.
        if all {
            self.limited.clear();
        }
        Verdict { outage: None, asked: all.then_some(asked), counts: false }
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
                assert_eq!(health.failed(&error, client(1), false), Verdict { counts: true, ..Verdict::default() });
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
                assert_eq!(health.failed(&error, foreign(number), false), Verdict::default());
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
        health.answered();
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
            assert_eq!(health.failed(&error(&format!("/{number}")), foreign(1), false), Verdict::default());
        }
        let shorter = status(429, "/x", Some(9));
        assert_eq!(
            health.failed(&shorter, foreign(2), false).asked,
            Some(Some(Duration::from_secs(9))),
            "the shortest"
        );
        assert_eq!(health.failed(&error("/y"), foreign(3), false), Verdict::default(), "the next one takes as many");
    }

    #[test]
    fn what_was_on_the_wire_together_counts_once() {
        let mut health = Health::default();
        for path in ["/a", "/b", "/c", "/d"] {
            assert_eq!(health.failed(&status(500, path, None), MIRROR, true), Verdict::default());
        }
    }
}
