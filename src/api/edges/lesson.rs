//! What was learned of an origin's answers to odd requests.
//!
//! Values only; what comes from a bundle is checked. Callers: [`super::judge`] makes them, [`crate::snapshot::edges`]
//! applies them.

use std::collections::BTreeMap;

use http::HeaderValue;
use serde::de::value::StringDeserializer;
use serde::{Deserialize, Deserializer, Serialize};

use super::case::Case;
use super::odd::Odd;
use super::template::Template;
use crate::api::query::ListQuery;

/// The longest body that is learned, in bytes.
pub(crate) const MOST_BODY: usize = 64 << 10;

/// The largest page that is answered, in listings, whatever the origin allows.
pub(crate) const MOST_PER_PAGE: u16 = 1000;

/// What was learned of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Lesson {
    /// The origin answers as we do.
    AsOurs,
    /// The origin answers with a list: `effect` of the odd value, and whether the value is shown as it was asked for.
    List { effect: Effect, shown: bool },
    /// The origin answers with a list that only it can make: it is asked.
    Through,
    /// The origin answers with a status and a body.
    Answer(Answer),
}

/// What an odd value counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effect {
    /// As absent.
    Ignored,
    /// As this number.
    Number(u64),
    /// As the number, but not more than this.
    AtMost(u16),
    /// As the number, up to this; nothing is known beyond it.
    AsAsked(u16),
    /// As the last page.
    LastPage,
    /// No listing matches, or none is on the page.
    Nothing,
    /// The first of two values counts.
    First,
    /// The last of two values counts.
    Last,
}

/// A status with a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub status: u16,
    /// `Content-Type` as the origin sent it; `None`: the body is empty.
    pub media_type: Option<String>,
    pub body: Template,
}

/// Everything that was learned of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Learned {
    /// The lessons. A case without one is answered as the table of the documentation says.
    #[serde(deserialize_with = "of_cases")]
    pub lessons: BTreeMap<Case, Lesson>,
    /// Whether the origin answers a city outside the requested state by anything but an empty list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
    /// Whether the origin answers two terms with a comma between them by anything but an empty list. `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commas: Option<bool>,
    /// Why nothing was learned of the other cases, for people.
    #[serde(deserialize_with = "of_cases")]
    pub own: BTreeMap<Case, String>,
    /// How many requests the cases took.
    pub probes: u32,
    /// How many requests the questions about filters took, beside those.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub filter_probes: u32,
    /// When the last answer came, in milliseconds since 1970.
    pub probed_ms: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Reads what is known of cases. A number beyond 64 bits was one of them; now its class is any other spelling, which the
/// origin is asked about.
pub(crate) fn of_cases<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Case, T>, D::Error> {
    let mut named: BTreeMap<String, T> = BTreeMap::deserialize(from)?;
    named.remove("page-huge");
    let case = |name: String| Case::deserialize(StringDeserializer::new(name));
    named.into_iter().map(|(name, what)| Ok((case(name)?, what))).collect()
}

impl Learned {
    /// How many requests everything took.
    pub(crate) const fn requests(&self) -> u32 {
        self.probes + self.filter_probes
    }

    /// What was learned of the class of an odd parameter.
    pub(crate) fn of(&self, odd: &Odd) -> Option<&Lesson> {
        self.lessons.get(&odd.case()?)
    }

    /// Checks what a bundle brings.
    ///
    /// # Errors
    /// With the problem.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.lessons.iter().try_for_each(|(case, lesson)| {
            let wrong = |why: &str| Err(format!("the lesson {}: {why}", case.as_str()));
            match lesson {
                Lesson::List { effect: Effect::Number(0), .. } => wrong("no page has the number 0"),
                Lesson::List { effect: Effect::AtMost(most) | Effect::AsAsked(most), .. }
                    if !(1..=MOST_PER_PAGE).contains(most) =>
                {
                    wrong("the page size is out of bounds")
                }
                Lesson::AsOurs | Lesson::Through | Lesson::List { .. } => Ok(()),
                Lesson::Answer(answer) => match answer.problem() {
                    Some(why) => wrong(&why),
                    None => Ok(()),
                },
            }
        })
    }
}

/// What may be learned of a status.
pub(crate) const fn is_learnable(status: u16) -> bool {
    // Not what is about us, about how often we ask, about the law of a place, or about a failure.
    matches!(status, 200 | 400..=499) && !matches!(status, 401 | 403 | 407 | 408 | 421 | 425 | 429 | 451)
}

/// A media type whose bodies are harmless on our host, by themselves or in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Browsers do not run it.
    Inert,
    /// Browsers may run it: it is sent in a sandbox.
    Document,
}

/// The family of a media type; `None`: it is not learned.
pub(crate) fn family(media_type: &str) -> Option<Family> {
    const LONGEST: usize = 128;
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_value = media_type.len() <= LONGEST && HeaderValue::from_str(media_type).is_ok();
    match essence.as_str() {
        _ if !is_value || media_type.contains(',') => None,
        "application/json" | "text/plain" => Some(Family::Inert),
        "text/html" | "application/xhtml+xml" | "application/xml" | "text/xml" => Some(Family::Document),
        other if other.starts_with("application/") && other.ends_with("+json") => Some(Family::Inert),
        _ => None,
    }
}

impl Answer {
    /// Why it is not an answer that may be given; `None`: it may.
    fn problem(&self) -> Option<String> {
        let family = self.media_type.as_deref().map(family);
        if !is_learnable(self.status) {
            Some(format!("the status {} is never learned", self.status))
        } else if family == Some(None) || (family.is_none() && self.body.len() > 0) {
            let media_type = self.media_type.as_deref().unwrap_or("(none)");
            Some(format!("the media type {media_type} is never learned"))
        } else if self.body.len() > MOST_BODY {
            Some(format!("a body of {} bytes is never learned", self.body.len()))
        } else {
            None
        }
    }
}

impl Lesson {
    /// What was learned, for people.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::AsOurs => "as ours".to_owned(),
            Self::Through => "read through".to_owned(),
            Self::List { effect, shown } => {
                let effect = match effect {
                    Effect::Ignored => "ignored".to_owned(),
                    Effect::Number(number) => format!("clamped to {number}"),
                    Effect::AtMost(most) => format!("clamped to {most}"),
                    Effect::AsAsked(most) => format!("accepted up to {most}"),
                    Effect::LastPage => "clamped to the last page".to_owned(),
                    Effect::Nothing => "an empty list".to_owned(),
                    Effect::First => "the first value counts".to_owned(),
                    Effect::Last => "the last value counts".to_owned(),
                };
                if *shown { format!("{effect}, shown as asked") } else { effect }
            }
            Self::Answer(answer) => {
                let kind = answer.media_type.as_deref().unwrap_or("without a body");
                format!("{} {kind}", answer.status)
            }
        }
    }

    /// Our own answer in this form; `None`: we refuse.
    pub(crate) const fn ours(case: Case) -> Option<(Effect, bool)> {
        match case {
            Case::PageBeyond | Case::UnknownSport | Case::UnknownState | Case::UnknownCity | Case::SinceFuture => {
                Some((Effect::Nothing, true))
            }
            Case::PerPageOver => Some((Effect::AtMost(ListQuery::MAX_PER_PAGE), false)),
            Case::EmptyNumber | Case::EmptyFilter | Case::EmptySince => Some((Effect::Ignored, false)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, media_type: Option<&str>, body: &str) -> Lesson {
        let body = Template::of([body, body], [&[], &[]]).unwrap();
        Lesson::Answer(Answer { status, media_type: media_type.map(str::to_owned), body })
    }

    fn learned(lessons: impl IntoIterator<Item = (Case, Lesson)>) -> Learned {
        Learned { lessons: lessons.into_iter().collect(), ..Learned::default() }
    }

    #[test]
    fn only_statuses_about_the_question_are_learnable() {
        let learnable: Vec<u16> = (0..=999).filter(|status| is_learnable(*status)).collect();
        for never in [100, 101, 199, 204, 206, 301, 302, 308, 401, 403, 407, 408, 421, 425, 429, 451, 500, 503, 599] {
            assert!(!learnable.contains(&never), "{never}");
        }
        for may in [200, 400, 404, 405, 409, 410, 413, 414, 422] {
            assert!(learnable.contains(&may), "{may}");
        }
    }

    #[test]
    fn media_types_that_browsers_run_are_documents_and_unknown_ones_are_not_learned() {
        for (media_type, expected) in [
            ("application/json", Some(Family::Inert)),
            ("application/problem+json; charset=utf-8", Some(Family::Inert)),
            ("text/plain", Some(Family::Inert)),
            ("Text/HTML; charset=utf-8", Some(Family::Document)),
            ("application/xml", Some(Family::Document)),
            ("image/svg+xml", None),
            ("text/javascript", None),
            ("application/json, text/html", None),
            ("text/html\r\nset-cookie: a", None),
            ("", None),
        ] {
            assert_eq!(family(media_type), expected, "{media_type:?}");
        }
    }

    #[test]
    fn a_lesson_from_a_bundle_that_could_not_be_learned_is_refused() {
        for (lesson, fine) in [
            (answer(404, Some("text/html"), "<p>no</p>"), true),
            (answer(404, None, ""), true),
            (answer(404, None, "no"), false),
            (answer(302, Some("text/html"), ""), false),
            (answer(429, Some("text/html"), ""), false),
            (answer(404, Some("image/svg+xml"), "<svg/>"), false),
            (answer(404, Some("text/html"), &"x".repeat(MOST_BODY + 1)), false),
            (Lesson::List { effect: Effect::AtMost(0), shown: false }, false),
            (Lesson::List { effect: Effect::AtMost(MOST_PER_PAGE + 1), shown: false }, false),
            (Lesson::List { effect: Effect::Number(0), shown: false }, false),
            (Lesson::List { effect: Effect::AtMost(250), shown: false }, true),
            (Lesson::AsOurs, true),
        ] {
            let what = lesson.what();
            assert_eq!(learned([(Case::UnknownId, lesson)]).check().is_ok(), fine, "{what}");
        }
    }
}
