//! What was learned of an origin's answers to odd requests, and how: from two answers to a lesson, or to the reason why
//! nothing is learned.
//!
//! Which readings of a list fit the data is found in [`crate::snapshot::edges`]. What comes from a bundle is checked.
//! Callers: [`crate::mirror`] learns, [`crate::snapshot::edges`], [`crate::answer`] and [`crate::audit`] apply.

use std::collections::BTreeMap;

use http::HeaderValue;
use serde::de::value::StringDeserializer;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Case, Odd};
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
    Answer(LearnedAnswer),
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
pub(crate) struct LearnedAnswer {
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

impl LearnedAnswer {
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

/// The body of a learned answer: fixed text, with gaps where the origin repeats what was asked for.
///
/// The answer comes from our host, so a repeated value must never become markup: only values of harmless characters are
/// filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Piece {
    Text(String),
    /// The asked value with this number.
    Value(u8),
}

impl Template {
    /// What two bodies have in common, each with the values that were asked for; `None`: they differ in more than these.
    pub(crate) fn of(bodies: [&str; 2], values: [&[&str]; 2]) -> Option<Self> {
        let [one, other] = [0, 1].map(|at| Self::cut(bodies[at], values[at]));
        (one == other).then_some(one)
    }

    /// Cuts the values out of a body, where they stand alone.
    fn cut(body: &str, values: &[&str]) -> Self {
        let mut pieces = Vec::new();
        let (mut text, mut before) = (String::new(), None);
        let mut rest = body;
        while let Some(next) = rest.chars().next() {
            let is_start = !before.is_some_and(|before: char| before.is_ascii_alphanumeric());
            let here = |(_, value): &(usize, &&str)| {
                let after = rest.strip_prefix(**value);
                !value.is_empty() && after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphanumeric()))
            };
            let found = values.iter().enumerate().filter(here).max_by_key(|(_, value)| value.len());
            if let Some((number, value)) = found.filter(|_| is_start) {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Value(number as u8));
                before = value.chars().last();
                rest = &rest[value.len()..];
            } else {
                text.push(next);
                before = Some(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Self(pieces)
    }

    /// The body for these values; `None`: one that is missing or not harmless would have to be filled in.
    pub(crate) fn fill(&self, values: &[&str]) -> Option<String> {
        let mut body = String::with_capacity(self.len());
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => body.push_str(text),
                Piece::Value(number) => {
                    body.push_str(values.get(usize::from(*number)).filter(|value| is_harmless(value))?);
                }
            }
        }
        Some(body)
    }

    /// Whether it repeats any value.
    #[cfg(test)]
    pub(crate) fn repeats(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Value(_)))
    }

    /// The length of its text, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|piece| if let Piece::Text(text) = piece { text.len() } else { 1 }).sum()
    }
}

/// Whether a value cannot become markup, or part of an address, wherever it is put.
pub(crate) fn is_harmless(value: &str) -> bool {
    /// In bytes.
    const LONGEST: usize = 64;
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST).contains(&value.len()) && value.bytes().all(harmless)
}

/// One answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// What a body may repeat.
    pub told: Vec<String>,
    pub said: Said,
    /// When it came, in milliseconds since 1970.
    pub at_ms: i64,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Said {
    /// A list, with the readings that fit it.
    List(Vec<(Effect, bool)>),
    /// A status and a body.
    Answer { status: u16, media_type: Option<String>, body: String },
    /// What is never learned, and why.
    Never(String),
}

/// The answer of an origin as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came<'a> {
    pub status: u16,
    /// Every `Content-Type`; `None`: one that is not text.
    pub media_types: &'a [Option<&'a str>],
    pub body: &'a [u8],
}

impl Said {
    /// What an answer that is no list says.
    pub(crate) fn of(came: Came<'_>) -> Self {
        let Came { status, media_types, body } = came;
        if !is_learnable(status) {
            return Self::Never(format!("the status {status} is never learned"));
        }
        if body.len() > MOST_BODY {
            return Self::Never(format!("the body has {} bytes; at most {MOST_BODY} are learned", body.len()));
        }
        let Ok(body) = std::str::from_utf8(body) else {
            return Self::Never("the body is not UTF-8".to_owned());
        };
        let media_type = match media_types {
            [] if body.is_empty() => None,
            [Some(media_type)] if family(media_type).is_some() => Some((*media_type).to_owned()),
            other => {
                let types: Vec<&str> = other.iter().map(|media_type| media_type.unwrap_or("(not text)")).collect();
                let types = if types.is_empty() { "(none)".to_owned() } else { types.join(", ") };
                return Self::Never(format!("the media type {types} is never learned"));
            }
        };
        Self::Answer { status, media_type, body: body.to_owned() }
    }
}

/// What two answers to a case teach.
pub(crate) fn judge(case: Case, [one, other]: [&Seen; 2]) -> Result<Lesson, String> {
    match (&one.said, &other.said) {
        (Said::Never(why), _) | (_, Said::Never(why)) => Err(why.clone()),
        (Said::List(one), Said::List(other)) => lists(case, one, other),
        (
            Said::Answer { status, media_type, body },
            Said::Answer { status: other_status, media_type: other_type, body: other_body },
        ) => {
            if status != other_status || media_type != other_type {
                return Err(format!("the two answers differ: {status} and {other_status}"));
            }
            let told = [one, other].map(|seen| seen.told.iter().map(String::as_str).collect::<Vec<_>>());
            // The parameter comes last, and may be a word of the text.
            let values =
                [0, 1].map(|at| &told[at][..told[at].len().saturating_sub(usize::from(names_parameter(case)))]);
            let bodies = [body.as_str(), other_body.as_str()];
            let template = Template::of(bodies, values).or_else(|| Template::of(bodies, [&told[0], &told[1]]));
            let body = template.ok_or("the bodies of the two answers differ")?;
            Ok(Lesson::Answer(LearnedAnswer { status: *status, media_type: media_type.clone(), body }))
        }
        _ => Err("one answer is a list, the other is not".to_owned()),
    }
}

/// Whether the last of what may be repeated is the parameter.
const fn names_parameter(case: Case) -> bool {
    matches!(
        case,
        Case::RepeatedNumber | Case::RepeatedFilter | Case::EmptyNumber | Case::EmptyFilter | Case::EmptySince
    )
}

fn lists(case: Case, one: &[(Effect, bool)], other: &[(Effect, bool)]) -> Result<Lesson, String> {
    let ours = Lesson::ours(case);
    if ours.is_some_and(|ours| one.contains(&ours) && other.contains(&ours)) {
        return Ok(Lesson::AsOurs);
    }
    if let Some(&(effect, shown)) = one.iter().find(|fits| other.contains(fits)) {
        return Ok(Lesson::List { effect, shown });
    }
    // One value was within the bound, which the other one shows.
    let bound = |fits: &[(Effect, bool)]| {
        fits.iter().find_map(|(effect, _)| if let Effect::AtMost(most) = effect { Some(*most) } else { None })
    };
    let accepted = |fits: &[(Effect, bool)]| {
        fits.iter().find_map(|(effect, _)| if let Effect::AsAsked(asked) = effect { Some(*asked) } else { None })
    };
    match [(bound(one), accepted(other)), (bound(other), accepted(one))] {
        [(Some(most), Some(asked)), _] | [_, (Some(most), Some(asked))] if most >= asked && most <= MOST_PER_PAGE => {
            return Ok(Lesson::List { effect: Effect::AtMost(most), shown: false });
        }
        _ => {}
    }
    if let (Some(one), Some(other)) = (accepted(one), accepted(other)) {
        return Ok(Lesson::List { effect: Effect::AsAsked(one.max(other)), shown: false });
    }
    // Several values may mean any of them, or something else: which listings that is only the origin knows.
    if case == Case::RepeatedFilter {
        return Ok(Lesson::Through);
    }
    Err("the lists fit no reading, or different ones".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    fn answer(status: u16, media_type: Option<&str>, body: &str) -> Lesson {
        let body = Template::of([body, body], [&[], &[]]).unwrap();
        Lesson::Answer(LearnedAnswer { status, media_type: media_type.map(str::to_owned), body })
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

    #[test]
    fn a_body_that_repeats_the_value_becomes_a_template() {
        let template = Template::of(
            [r#"{"error":"no sport 'golf9'","docs":"/golf9"}"#, r#"{"error":"no sport 'x'","docs":"/x"}"#],
            [&["golf9"], &["x"]],
        );
        let template = template.unwrap();
        assert!(template.repeats());
        let filled = template.fill(&["a-b.c_D"]).unwrap();
        assert_eq!(filled, r#"{"error":"no sport 'a-b.c_D'","docs":"/a-b.c_D"}"#);
    }

    #[test]
    fn a_reflected_value_never_becomes_markup() {
        let template = Template::of(["<p>a</p>", "<p>b</p>"], [&["a"], &["b"]]).unwrap();
        let long = "x".repeat(65);
        for value in ["<b>", "a b", "\"", "'", "&lt;", "a/b", "é", "", "a\n", "%3C", "a:b", "{", "\u{202e}", &long] {
            assert_eq!(template.fill(&[value]), None, "{value:?}");
        }
        assert_eq!(template.fill(&[]), None);
        assert!(template.fill(&[&long[1..]]).is_some());
    }

    #[test]
    fn bodies_that_differ_in_anything_else_are_no_template() {
        for (one, other) in [("a at 1", "b at 2"), ("a", "b "), ("a a", "b"), ("about a", "bbout b"), ("", "b")] {
            assert_eq!(Template::of([one, other], [&["a"], &["b"]]), None, "{one:?} {other:?}");
        }
        let fixed = Template::of(["not found", "not found"], [&["a"], &["b"]]).unwrap();
        assert!(!fixed.repeats());
        assert_eq!(fixed.fill(&["<b>"]).as_deref(), Some("not found"), "it is not put in");
    }

    #[test]
    fn values_are_found_where_they_stand_alone_the_longest_first() {
        let template = Template::of(["100 < 1000", "100 < 101"], [&["1000"], &["101"]]).unwrap();
        assert_eq!(template.fill(&["7"]).as_deref(), Some("100 < 7"));
        let both = Template::of(["a-1 a", "b-1 b"], [&["a", "a-1"], &["b", "b-1"]]).unwrap();
        assert_eq!(both.fill(&["x", "y"]).as_deref(), Some("y x"));
    }

    proptest! {
        #[test]
        fn what_was_learned_of_two_bodies_gives_both_back(text in ".{0,40}", one in "[a-z]{5,9}", other in "[A-Z]{5,9}") {
            let body = |value: &str| format!("{text} {value}; {text}");
            let (first, second) = (body(&one), body(&other));
            let template = Template::of([&first, &second], [&[one.as_str()], &[other.as_str()]]);
            if let Some(template) = template {
                prop_assert_eq!(template.fill(&[one.as_str()]), Some(first));
                prop_assert_eq!(template.fill(&[other.as_str()]), Some(second));
            } else {
                prop_assert!(text.contains(&one) || text.contains(&other));
            }
        }
    }

    fn seen(told: &[&str], said: Said) -> Seen {
        Seen { told: told.iter().map(|&told| told.to_owned()).collect(), said, at_ms: 0 }
    }

    fn came(status: u16, media_type: &str, body: &str) -> Said {
        Said::of(Came { status, media_types: &[Some(media_type)], body: body.as_bytes() })
    }

    fn of(case: Case, one: (&str, Said), other: (&str, Said)) -> Result<Lesson, String> {
        judge(case, [&seen(&[one.0], one.1), &seen(&[other.0], other.1)])
    }

    #[test]
    fn statuses_that_are_not_about_the_question_are_never_learned() {
        for status in
            [100, 102, 199, 204, 301, 302, 303, 307, 308, 401, 403, 407, 408, 421, 425, 429, 451, 500, 502, 503]
        {
            let same = || came(status, "application/json", "{}");
            let why = of(Case::PageZero, ("", same()), ("", same())).unwrap_err();
            assert!(why.contains(&status.to_string()), "{why}");
        }
    }

    #[test]
    fn what_differs_between_the_probes_is_not_learned() {
        let json = |body: &str| came(404, "application/json", body);
        for (one, other) in [
            (json(r#"{"at":1}"#), json(r#"{"at":2}"#)),
            (json("{}"), came(410, "application/json", "{}")),
            (json("{}"), came(404, "text/plain", "{}")),
            (json("{}"), Said::List(vec![(Effect::Ignored, false)])),
            (json("{}"), came(503, "application/json", "{}")),
        ] {
            assert!(of(Case::UnknownSport, ("a", one.clone()), ("b", other.clone())).is_err(), "{one:?} {other:?}");
            assert!(of(Case::UnknownSport, ("a", other), ("b", one)).is_err());
        }
    }

    #[test]
    fn bodies_over_64_kib_and_bodies_without_a_safe_type_are_not_learned() {
        let long = "x".repeat(MOST_BODY + 1);
        for (body, fine) in [(&long[..], false), (&long[1..], true)] {
            let said = || came(404, "text/plain", body);
            assert_eq!(of(Case::UnknownId, ("1", said()), ("2", said())).is_ok(), fine);
        }
        for media_types in [&[Some("image/svg+xml")][..], &[None], &[], &[Some("text/html"), Some("text/plain")]] {
            let said = Said::of(Came { status: 404, media_types, body: b"x" });
            assert!(matches!(said, Said::Never(_)), "{media_types:?}");
        }
        let binary = Said::of(Came { status: 404, media_types: &[Some("text/plain")], body: b"\xff" });
        assert!(matches!(binary, Said::Never(_)));
    }

    #[test]
    fn a_body_that_names_value_and_parameter_is_learned_for_all_of_a_case() {
        let text = |parameter: &str, value: &str| format!("the page has no {parameter}: {value}");
        let seen = |parameter: &str, value: &str| {
            seen(&[value, "7", parameter], came(400, "text/plain", &text(parameter, value)))
        };
        let lesson = judge(Case::RepeatedNumber, [&seen("page", "2"), &seen("per_page", "3")]).unwrap_err();
        assert!(lesson.contains("differ"), "the word of the text is taken for the parameter: {lesson}");
        let lesson = judge(Case::RepeatedFilter, [&seen("sport", "a"), &seen("state", "b")]).unwrap();
        let Lesson::Answer(answer) = lesson else { panic!("no answer") };
        assert_eq!(answer.body.fill(&["x", "7", "city"]).as_deref(), Some("the page has no city: x"));
    }

    #[test]
    fn what_both_lists_allow_is_learned_and_ours_comes_first() {
        let list = |fits: &[(Effect, bool)]| Said::List(fits.to_vec());
        let (first, last) = ((Effect::Number(1), false), (Effect::LastPage, false));
        let learn =
            |case, one: &[(Effect, bool)], other: &[(Effect, bool)]| of(case, ("", list(one)), ("", list(other)));
        let lesson = learn(Case::PageZero, &[first, last], &[first]);
        assert_eq!(lesson, Ok(Lesson::List { effect: Effect::Number(1), shown: false }));
        assert!(learn(Case::PageZero, &[first], &[last]).is_err());
        assert!(learn(Case::PageZero, &[], &[]).is_err());
        let ours = (Effect::Nothing, true);
        assert_eq!(learn(Case::PageBeyond, &[last, ours], &[last, ours]), Ok(Lesson::AsOurs));
    }

    #[test]
    fn lists_of_several_values_that_fit_no_reading_are_read_through() {
        let list = |fits: &[(Effect, bool)]| Said::List(fits.to_vec());
        let learn = |case| of(case, ("", list(&[])), ("", list(&[(Effect::Last, false)])));
        assert_eq!(learn(Case::RepeatedFilter), Ok(Lesson::Through));
        assert!(learn(Case::RepeatedNumber).is_err());
    }

    #[test]
    fn the_bound_of_the_page_size_is_found() {
        let list = |effect| Said::List(vec![(effect, false)]);
        let learn = |one, other| of(Case::PerPageOver, ("1000", list(one)), ("101", list(other)));
        let at_most = |most| Ok(Lesson::List { effect: Effect::AtMost(most), shown: false });
        assert_eq!(learn(Effect::AtMost(100), Effect::AtMost(100)), Ok(Lesson::AsOurs));
        assert_eq!(learn(Effect::AtMost(50), Effect::AtMost(50)), at_most(50));
        assert_eq!(learn(Effect::AtMost(250), Effect::AsAsked(101)), at_most(250));
        let all = Ok(Lesson::List { effect: Effect::AsAsked(1000), shown: false });
        assert_eq!(learn(Effect::AsAsked(1000), Effect::AsAsked(101)), all);
        assert!(learn(Effect::AtMost(50), Effect::AtMost(60)).is_err());
    }
}
