//! Personalities: how the sample origin answers what its documentation leaves open.
//!
//! Not the answers themselves, which `query`, `lists` and `answer` give. Callers: the modules beside it, tests,
//! `grandstand origin --edges`.

/// What a slug that no term has selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownSlug {
    /// Nothing.
    #[default]
    Nothing,
    /// It is answered 404.
    NotFound,
    /// Everything: the filter does not count and is not echoed.
    Ignored,
}

/// What becomes of a `page` or `per_page` that is no positive number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadNumber {
    /// It is answered 400.
    #[default]
    Refused,
    /// The default takes its place.
    Default,
}

/// What becomes of a `per_page` above the largest page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TooMany {
    /// The largest page takes its place.
    #[default]
    Clamped,
    /// It is answered 400.
    Refused,
}

/// What becomes of a `modified_since` that cannot be read, or lies in the future.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OddSince {
    /// 400 if it cannot be read; else it counts as any other.
    #[default]
    Usual,
    /// It is answered 400.
    Refused,
    /// It does not count, and is not echoed.
    Ignored,
}

/// What a page beyond the last shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BeyondLast {
    /// Nothing.
    #[default]
    Empty,
    /// It is answered 404.
    NotFound,
    /// Nothing, with a total of 0: rows are counted beside those of the page.
    NoTotal,
    /// The last page.
    LastPage,
}

/// Which value of a repeated parameter counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeated {
    /// The last.
    #[default]
    Last,
    /// The first.
    First,
    /// It is answered 400.
    Refused,
    /// Any value of a filter will do; of a number the last counts.
    Either,
}

/// What several terms with commas between them select.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commas {
    /// They are one slug, which no term has.
    #[default]
    OneSlug,
    /// Any of the terms will do.
    Either,
}

/// What a city outside the state that is asked for shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Elsewhere {
    /// Nothing: a listing has to pass both filters.
    #[default]
    Nothing,
    /// The listings of the city: the state does not count, but it is echoed.
    CityCounts,
    /// It is answered 404.
    NotFound,
}

/// How what the documentation leaves open is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edges {
    /// What a slug that no term has selects.
    pub unknown_slug: UnknownSlug,
    /// What becomes of a number that is none.
    pub bad_number: BadNumber,
    /// Largest page size.
    pub largest_page: u64,
    /// What becomes of a larger one.
    pub too_many: TooMany,
    /// What becomes of an instant that cannot be read, or lies in the future.
    pub odd_since: OddSince,
    /// What a page beyond the last shows.
    pub beyond: BeyondLast,
    /// Which of several values counts.
    pub repeated: Repeated,
    /// What a city outside the state that is asked for shows.
    pub elsewhere: Elsewhere,
    /// What several terms with commas between them select.
    pub commas: Commas,
    /// Whether an empty value is a value, not an absent one.
    pub empty_counts: bool,
    /// Whether errors are HTML pages, which repeat values as they are: a careless origin.
    pub html: bool,
    /// Whether a path with a trailing slash is redirected to the one without.
    pub slash_redirects: bool,
}

impl Default for Edges {
    fn default() -> Self {
        Self {
            unknown_slug: UnknownSlug::default(),
            bad_number: BadNumber::default(),
            largest_page: 100,
            too_many: TooMany::default(),
            odd_since: OddSince::default(),
            beyond: BeyondLast::default(),
            repeated: Repeated::default(),
            elsewhere: Elsewhere::default(),
            commas: Commas::default(),
            empty_counts: false,
            html: false,
            slash_redirects: false,
        }
    }
}

impl Edges {
    /// The names of all personalities.
    pub const NAMES: [&str; 4] = ["documented", "strict", "lenient", "html"];

    /// The personality of this name; `None`: there is none.
    pub fn named(name: &str) -> Option<Self> {
        let strict = Self {
            unknown_slug: UnknownSlug::NotFound,
            too_many: TooMany::Refused,
            odd_since: OddSince::Refused,
            beyond: BeyondLast::NotFound,
            repeated: Repeated::Refused,
            elsewhere: Elsewhere::NotFound,
            empty_counts: true,
            slash_redirects: true,
            ..Self::default()
        };
        match name {
            "documented" => Some(Self::default()),
            "strict" => Some(strict),
            "lenient" => Some(Self {
                unknown_slug: UnknownSlug::Ignored,
                bad_number: BadNumber::Default,
                largest_page: 250,
                odd_since: OddSince::Ignored,
                beyond: BeyondLast::LastPage,
                repeated: Repeated::First,
                elsewhere: Elsewhere::CityCounts,
                commas: Commas::Either,
                ..Self::default()
            }),
            "html" => Some(Self { html: true, odd_since: OddSince::Usual, empty_counts: false, ..strict }),
            _ => None,
        }
    }
}
