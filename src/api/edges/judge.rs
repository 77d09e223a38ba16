//! From two answers of an origin to a lesson, or to the reason why nothing is learned.
//!
//! Pure. Which readings of a list fit the data is found in [`crate::snapshot::edges`]. Callers: [`crate::mirror`].

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::lesson::{Answer, Effect, Lesson, MOST_BODY, MOST_PER_PAGE, family, is_learnable};
use super::template::Template;

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
///
/// # Errors
/// With the reason why they teach nothing.
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
            Ok(Lesson::Answer(Answer { status: *status, media_type: media_type.clone(), body }))
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
