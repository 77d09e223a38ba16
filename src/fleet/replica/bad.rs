//! An object that is of no use: it is not what the head names, or does not fit the data before it.
//!
//! It is left alone for a while, longer each time: the same bytes would come again. Pure. Callers: [`super::take`].

use std::time::Duration;

use super::fetch::FetchError;
use crate::bundle::BundleError;
use crate::clock::Monotonic;
use crate::clock::backoff::{Jitter, doubled};
use crate::fleet::keys::Digest;
use crate::fleet::place::PlaceError;

/// The pause before the first further try, doubled each time.
const FIRST: Duration = Duration::from_secs(2);
/// The longest pause where a try costs a download.
const LONGEST: Duration = Duration::from_secs(600);
/// The longest pause where it costs one request.
const LONGEST_MISSING: Duration = Duration::from_secs(60);

/// What a replica tries: from the bundle that it stands at to the end of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The digest that the replica stands at.
    pub from: Option<String>,
    /// The last bundle of the chain.
    pub to: Digest,
}

/// An object that is of no use.
#[derive(Debug)]
pub(super) struct BadObject {
    /// The hash that the head names.
    blake3: Digest,
    /// What is wrong, and what helps.
    why: String,
    times: u32,
    until: Monotonic,
    /// The attempt that ended there, with all that could be taken before.
    ended: Option<Attempt>,
}

impl BadObject {
    /// An object that failed now. `before`: the last bad object.
    pub(super) fn after(
        before: Option<&Self>,
        blake3: Digest,
        failure: &Failure<'_>,
        now: Monotonic,
        jitter: &Jitter,
    ) -> Self {
        let times = before.filter(|before| before.blake3 == blake3).map_or(0, |before| before.times);
        let pause = doubled(FIRST, times, failure.longest_pause());
        let until = now.plus(jitter.jittered(pause));
        Self { blake3, why: failure.text(), times: times.saturating_add(1), until, ended: None }
    }

    /// What is wrong, and what helps.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// Why an object is not fetched now; `None`: it is.
    pub(super) fn refuses(&self, blake3: &Digest, now: Monotonic) -> Option<&str> {
        (self.blake3 == *blake3 && now < self.until).then_some(&*self.why)
    }

    /// Why an attempt is not made now: it would end as before.
    pub(super) fn refuses_attempt(&self, attempt: &Attempt, now: Monotonic) -> Option<&str> {
        (self.ended.as_ref() == Some(attempt) && now < self.until).then_some(&*self.why)
    }

    /// Notes the attempt that ended here.
    pub(super) fn ends(&mut self, attempt: Attempt) {
        self.ended = Some(attempt);
    }
}

/// How an object failed.
#[derive(Debug)]
pub(super) enum Failure<'a> {
    /// It is missing, too large, or not what the head names.
    Object(&'a FetchError),
    /// It is what the head names, and does not fit the data before it.
    Misfit(&'a str, &'a BundleError),
}

impl Failure<'_> {
    const fn longest_pause(&self) -> Duration {
        match self {
            Self::Object(FetchError::Place(PlaceError::Missing(_))) => LONGEST_MISSING,
            _ => LONGEST,
        }
    }

    /// What happened, to which object, and what helps.
    fn text(&self) -> String {
        match self {
            Self::Object(error @ FetchError::TooLarge { .. }) => error.to_string(),
            Self::Object(error) => format!(
                "{error}; the publisher writes everything again after its next check of the objects; restart the \
                 publisher to check at once"
            ),
            Self::Misfit(key, error) => format!(
                "{key} does not fit the data before it ({error}); if this stays, remove head.json from the object store, and the \
                 publisher writes a full bundle"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> Digest {
        Digest::new([n; 32])
    }

    fn missing() -> FetchError {
        PlaceError::Missing("full/x.gsb".to_owned()).into()
    }

    fn wrong() -> FetchError {
        FetchError::Wrong { key: "delta/x.gsb".to_owned(), why: "its hash is another one".to_owned() }
    }

    #[test]
    fn a_bad_object_is_left_alone_for_longer_each_time_and_no_other_one_is() {
        let (jitter, now) = (Jitter::default(), Monotonic::from_seconds(100));
        for (error, longest) in [(missing(), LONGEST_MISSING), (wrong(), LONGEST)] {
            let (mut bad, mut pauses): (Option<BadObject>, Vec<Duration>) = (None, Vec::new());
            for _ in 0..20 {
                let next = BadObject::after(bad.as_ref(), digest(1), &Failure::Object(&error), now, &jitter);
                assert!(next.refuses(&digest(1), now).is_some() && next.refuses(&digest(2), now).is_none());
                assert!(next.refuses(&digest(1), next.until).is_none());
                pauses.push(next.until.since(now));
                bad = Some(next);
            }
            assert!(pauses[0] <= FIRST * 2 && pauses.iter().all(|pause| *pause <= longest * 2), "{pauses:?}");
            assert!(pauses[19] > pauses[0] * 4, "{pauses:?}");
            let other = BadObject::after(bad.as_ref(), digest(2), &Failure::Object(&error), now, &jitter);
            assert_eq!(other.times, 1, "another object begins anew");
        }
    }

    #[test]
    fn an_attempt_is_not_repeated_before_its_object_is_fetched_again() {
        let now = Monotonic::from_seconds(100);
        let mut bad = BadObject::after(None, digest(1), &Failure::Object(&wrong()), now, &Jitter::default());
        let attempt = |from: Option<&str>, to| Attempt { from: from.map(str::to_owned), to: digest(to) };
        assert_eq!(bad.refuses_attempt(&attempt(None, 9), now), None);
        bad.ends(attempt(None, 9));
        assert!(bad.refuses_attempt(&attempt(None, 9), now).is_some());
        assert_eq!(bad.refuses_attempt(&attempt(Some("a"), 9), now), None, "it stands elsewhere");
        assert_eq!(bad.refuses_attempt(&attempt(None, 8), now), None, "the chain leads elsewhere");
        assert_eq!(bad.refuses_attempt(&attempt(None, 9), bad.until), None);
    }

    #[test]
    fn what_is_wrong_names_the_object_and_what_helps() {
        let of = |error: &FetchError| Failure::Object(error).text();
        assert!(
            of(&missing()).starts_with("full/x.gsb is not in the object store; the publisher writes everything again")
        );
        assert!(
            of(&wrong())
                .starts_with("delta/x.gsb in the object store is not what the head names: its hash is another one; ")
        );
        let large = FetchError::TooLarge { key: "full/x.gsb".to_owned(), bytes: 9, most: 5 };
        assert_eq!(of(&large), large.to_string());
        let misfit =
            BundleError::NeedsBase { needed: crate::snapshot::content::SnapshotId::parse(&"1".repeat(32)).unwrap() };
        let text = Failure::Misfit("delta/x.gsb", &misfit).text();
        assert!(text.starts_with("delta/x.gsb does not fit the data before it (") && text.contains("remove head.json"));
    }
}
