//! The switches of the sample origin, usable while it runs.
//!
//! The documented API leaves much open; each switch is an answer that a real origin could give. The default is the most
//! likely one, without faults. Callers: tests set switches, other files of the room read them.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::edges::Edges;
use super::fault::FaultRule;
use super::order::ItemOrder;

/// How `api_url` is written in the taxonomies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ApiUrlStyle {
    /// `http://host:port/prefix/api/...`.
    #[default]
    Absolute,
    /// The same, and every `/` in every string of every body is written `\/`, as PHP does.
    EscapedSlashes,
    /// Without scheme and host: `/prefix/api/...`.
    Relative,
    /// Relative to the taxonomy: `listings.json?...`.
    Sibling,
    /// The same by a detour: `../api/./listings.json?...`.
    Dotted,
    /// Without scheme: `//host:port/prefix/api/...`.
    WithoutScheme,
    /// Under another base address of the same origin, without a trailing slash.
    Alias(String),
}

/// What entity tags depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EtagStyle {
    /// Strong; a hash of the body but for its volatile fields. Another one per content coding.
    #[default]
    Strong,
    /// Weak; the same hash for all content codings.
    Weak,
    /// Strong, and `generated_at` is hashed too: every answer has another tag and nothing is ever a 304.
    WithGeneratedAt,
    /// Strong, and this number is hashed too: every deployment of the origin has other tags for the same content.
    Deployment(u32),
    /// Strong, and one for all contents: what changes is a 304 to those who have it.
    Fixed,
    /// No `ETag` header.
    None,
}

/// The envelope of the taxonomies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaxonomyShape {
    /// An object with `items`.
    #[default]
    Object,
    /// The bare array of terms.
    Array,
    /// An object with the terms two levels down, grouped by their first letter.
    Nested,
    /// Objects in objects without any array: by first letter, then by slug.
    Keyed,
}

/// The field names of a term's display name and count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TermFields {
    /// `name` and `count`.
    #[default]
    NameCount,
    /// `title` and `listings_count`.
    TitleListingsCount,
    /// `label` and `total`.
    LabelTotal,
}

/// How the count of a term is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountStyle {
    /// A number.
    #[default]
    Number,
    /// The number as a string.
    Text,
    /// Not at all.
    Absent,
}

/// How the display names of terms differ from those in listings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TermNames {
    /// They are the same.
    #[default]
    Same,
    /// In capitals.
    Capitals,
    /// Followed by a space.
    TrailingSpace,
    /// `St.` is written `Saint`.
    Saint,
}

/// How `modified` is written in a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModifiedStyle {
    /// With an offset, as the listing has it.
    #[default]
    Offset,
    /// UTC without saying so.
    NoOffset,
    /// UTC with six decimals.
    Fraction,
    /// Without the fraction of the second, by which lists are filtered and sorted nevertheless.
    Second,
    /// The day in UTC; `modified_since` reads it as its first instant.
    Day,
    /// Every seventh listing has none, but `modified_since` finds it.
    Gaps,
}

/// How `filters` is written when no filter is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyFilters {
    /// `{}`.
    #[default]
    Object,
    /// `[]`, as PHP does.
    Array,
}

/// How `page`, `per_page` and ids are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Canonical decimals only.
    #[default]
    Strict,
    /// As `parseInt` of JavaScript or `(int)` of PHP: the number that the value begins with.
    ParseInt,
    /// As `int()` of Python: white space around it, a sign, leading zeros and underscores are fine.
    Python,
}

/// How slugs are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slugs {
    /// Byte by byte.
    #[default]
    Exact,
    /// Without case, accents and white space around them.
    Loose,
    /// One that is a part of another fits that one, too, as `LIKE '%...%'` does.
    Part,
}

/// Which spellings of `modified_since` are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dates {
    /// The documented shapes.
    #[default]
    Documented,
    /// Basic forms, weeks, decimal commas and more than nine decimals, too.
    Iso,
}

/// `total_pages` of a list without listings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyPages {
    /// 0.
    #[default]
    Zero,
    /// 1, as the pagers of Django, Laravel and Rails say.
    One,
}

/// What lists look like beside the documentation.
#[expect(clippy::struct_excessive_bools, reason = "each is a deviation of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStyle {
    /// The page size where none is asked for.
    pub page_size: u64,
    /// Whether `total_pages` counts one more where the last page is full.
    pub one_more: bool,
    /// Whether there is a field that counts what the filters select, by sport.
    pub facets: bool,
    /// Whether `filters` names every parameter, with null where it is absent.
    pub echoes_all: bool,
    /// Whether `total` and `total_pages` are texts.
    pub quotes_totals: bool,
}

impl Default for ListStyle {
    fn default() -> Self {
        Self { page_size: 50, one_more: false, facets: false, echoes_all: false, quotes_totals: false }
    }
}

/// How several filters combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// A listing has to pass all of them.
    #[default]
    All,
    /// One is enough.
    Any,
}

/// What `modified_since` means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// Strictly after.
    #[default]
    After,
    /// At that instant or after.
    AtOrAfter,
    /// The same beside a term, and strictly after in the list of all: of two engines.
    AtOrAfterOfTerms,
    /// Nothing: the parameter is echoed, and every listing passes.
    Ignored,
}

/// How `modified_since` is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Where dates begin.
    pub dates: TimeZone,
    /// What times without offset are.
    pub times: TimeZone,
    /// Whether only the date part of a time counts.
    pub only_dates: bool,
    /// Whether the offset of a time is dropped, and the rest is of the zone of times without one.
    pub drops_offset: bool,
    /// Whether it is compared as text with `YYYY-MM-DD HH:MM:SS` in UTC.
    pub as_text: bool,
}

impl Reading {
    /// Dates and times without offset are of this zone, written as a POSIX rule such as `CST6CDT,M3.2.0,M11.1.0`.
    pub fn local(rule: &str) -> Result<Self, jiff::Error> {
        let zone = TimeZone::posix(rule)?;
        Ok(Self { dates: zone.clone(), times: zone, ..Self::default() })
    }
}

impl Default for Reading {
    fn default() -> Self {
        Self { dates: TimeZone::UTC, times: TimeZone::UTC, only_dates: false, drops_offset: false, as_text: false }
    }
}

/// What `generated_at` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeneratedAt {
    /// When the answer was made.
    #[default]
    Now,
    /// Nothing: the field is absent.
    Absent,
    /// Always the same instant, in seconds since the epoch.
    StandsStill(i64),
    /// So many seconds after the answer was made.
    Ahead(i64),
}

/// What `generated_at` says in each kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// In lists.
    pub lists: GeneratedAt,
    /// In taxonomies, but for bare arrays, which have no place for it.
    pub taxonomies: GeneratedAt,
    /// In details.
    pub details: GeneratedAt,
}

impl Generated {
    /// The same in all of them.
    pub const fn everywhere(says: GeneratedAt) -> Self {
        Self { lists: says, taxonomies: says, details: says }
    }
}

impl Default for Generated {
    fn default() -> Self {
        Self { lists: GeneratedAt::Now, taxonomies: GeneratedAt::Now, details: GeneratedAt::Absent }
    }
}

/// A CDN in front of the origin: 200 answers are kept per node, path with query, and content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cdn {
    /// How long a copy is sent.
    pub max_age: Duration,
    /// Number of nodes; each keeps copies of its own and each request goes to a random one. At least 1.
    pub nodes: u32,
}

impl Default for Cdn {
    fn default() -> Self {
        Self { max_age: Duration::from_secs(300), nodes: 1 }
    }
}

/// What the header of a CDN's copy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyHeader {
    /// The CDN's own `Date`, and `Age`.
    #[default]
    OwnDate,
    /// The origin's `Date`, and `Age` (Varnish, Squid, HAProxy, mod_cache, CloudFront).
    OriginDate,
    /// The CDN's own `Date`, and no `Age` (nginx).
    Silent {
        /// A copy that is too old is sent once more while the CDN fetches a new one (nginx with
        /// `proxy_cache_use_stale updating` and `proxy_cache_background_update`).
        updating: bool,
        /// Whether `X-Cache` says that it is a copy.
        says_so: bool,
    },
}

/// A way of its own in which an origin answers lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// Filtered lists without `per_page` have 20 listings a page.
    SmallFilteredPages,
    /// Unfiltered lists have 10, 25, 50 or 100 listings a page; any other `per_page` counts as absent.
    MenuOfSizes,
    /// Lists with more than 50 listings a page are ordered by id.
    LargePagesById,
    /// Filtered lists without listings are 404.
    EmptyIsNotFound,
    /// Where several filters select nothing, the first one counts alone.
    FallsBack,
    /// A `modified_since` before this second is refused.
    RefusesBefore(i64),
    /// Filtered lists end after so many listings; their total counts no more.
    EndsAfter(usize),
    /// Pages with results beyond so many are refused, with this status.
    Window(u64, u16),
    /// `items` is `null` where a page has none.
    NullIfEmpty,
    /// Times count to the hour.
    WholeHours,
    /// Listings have a field more in lists of a state.
    Ranks,
    /// Pages beyond the last one are 404 in filtered lists.
    EndsFiltered,
    /// A `modified_since` after this second is refused.
    RefusesAfter(i64),
}

/// Everything that can be varied.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Clone, Debug)]
pub struct Switches {
    /// Path in front of `/api/`, such as `/v1`; empty for none. Anything outside of it is 404.
    pub prefix: String,
    /// How to write `api_url`.
    pub api_url: ApiUrlStyle,
    /// Indented bodies.
    pub pretty: bool,
    /// What entity tags depend on.
    pub etags: EtagStyle,
    /// Order of items.
    pub order: ItemOrder,
    /// Order of items in filtered lists; `None`: the same.
    pub filtered_order: Option<ItemOrder>,
    /// The order of listings with equal `modified` is another one for each page and filter, as databases do that sort
    /// by a column that is not unique: one listing is on two pages, and another on none. Another seed is another such
    /// order. `None`: the order is unique.
    pub ties: Option<u64>,
    /// Listings, by id, that every total and count includes, that no list shows and whose details are 404, as with rows
    /// that are marked as deleted.
    pub hidden: Vec<u64>,
    /// What unfiltered lists say as `total`, as from a cache; `None`: how many there are.
    pub cached_total: Option<u64>,
    /// Envelope of the taxonomies.
    pub taxonomy_shape: TaxonomyShape,
    /// Field names of a term.
    pub field_names: TermFields,
    /// Added to every count in the taxonomies, so that they differ from the totals; a count stops at 0.
    pub count_skew: i64,
    /// The one term, by slug, whose count gets 1 added.
    pub skewed_term: Option<String>,
    /// How a count is written.
    pub counts: CountStyle,
    /// How display names of terms are written.
    pub term_names: TermNames,
    /// How `modified` is written.
    pub modified: ModifiedStyle,
    /// What `generated_at` says.
    pub generated: Generated,
    /// How `filters` looks when empty.
    pub empty_filters: EmptyFilters,
    /// How many pages an empty list has.
    pub empty_pages: EmptyPages,
    /// How numbers are read.
    pub numbers: Numbers,
    /// How slugs are compared.
    pub slugs: Slugs,
    /// Which spellings of instants are read.
    pub dates: Dates,
    /// What lists look like beside the documentation.
    pub style: ListStyle,
    /// How filters combine.
    pub combine: Combine,
    /// What `modified_since` means.
    pub since: Since,
    /// How its value is read.
    pub reading: Reading,
    /// Whether lists with `modified_since` also name listings that were removed since.
    pub names_removed: bool,
    /// Whether two versions answer in turns: every second answer shows a field more of each listing.
    pub rolling: bool,
    /// Filters that a gateway in front drops, by parameter.
    pub dropped: Vec<&'static str>,
    /// Filters that are dropped beside another one: both parameters.
    pub dropped_beside: Vec<(&'static str, &'static str)>,
    /// How what the documentation leaves open is answered.
    pub edges: Edges,
    /// How lists are answered otherwise; `None`: as documented.
    pub quirk: Option<Quirk>,
    /// A top-level `request_id` that differs in every answer (not in bare arrays).
    pub request_id: bool,
    /// gzip, when the client accepts it.
    pub gzip: bool,
    /// The `Cache-Control` header of 200 and 304; `None` sends none.
    pub cache_control: Option<String>,
    /// Seconds by which the origin's clock (`Date`, `generated_at`) is ahead.
    pub clock_ahead: i64,
    /// Admissions per client address in any trailing 60 seconds; the next request gets 429. `None`: no limit. Refused
    /// requests do not count, nor do those from before the limit was set.
    pub refuse_61st: Option<u32>,
    /// Shortest and longest random delay in milliseconds, drawn before the arrival is counted and again before the
    /// answer leaves.
    pub jitter_ms: (u64, u64),
    /// Delay between making an answer and sending it.
    pub latency: Duration,
    /// A CDN in front; `None` for none. Arrivals are counted and limited at the CDN.
    pub cdn: Option<Cdn>,
    /// What the CDN writes into the header of its copies.
    pub copy_header: CopyHeader,
    /// Faults; the first rule that applies to a request is used.
    pub faults: Vec<FaultRule>,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            api_url: ApiUrlStyle::default(),
            pretty: false,
            etags: EtagStyle::default(),
            order: ItemOrder::default(),
            filtered_order: None,
            ties: None,
            hidden: Vec::new(),
            cached_total: None,
            taxonomy_shape: TaxonomyShape::default(),
            field_names: TermFields::default(),
            count_skew: 0,
            skewed_term: None,
            counts: CountStyle::default(),
            term_names: TermNames::default(),
            modified: ModifiedStyle::default(),
            generated: Generated::default(),
            empty_filters: EmptyFilters::default(),
            empty_pages: EmptyPages::default(),
            numbers: Numbers::default(),
            slugs: Slugs::default(),
            dates: Dates::default(),
            style: ListStyle::default(),
            combine: Combine::default(),
            since: Since::default(),
            reading: Reading::default(),
            names_removed: false,
            rolling: false,
            dropped: Vec::new(),
            dropped_beside: Vec::new(),
            edges: Edges::default(),
            quirk: None,
            request_id: false,
            gzip: true,
            cache_control: Some("public, max-age=300".to_owned()),
            clock_ahead: 0,
            refuse_61st: None,
            jitter_ms: (0, 0),
            latency: Duration::ZERO,
            cdn: None,
            copy_header: CopyHeader::default(),
            faults: Vec::new(),
        }
    }
}

impl Switches {
    /// The prefix with one leading and no trailing slash, or nothing.
    pub(super) fn mount(&self) -> String {
        match self.prefix.trim_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        }
    }
}
