//! The two clocks: wall time, which people and headers see, and monotonic time, which limits and timeouts count in.
//!
//! The only place that reads the system's clocks. Not a global: a [`Clock`] is passed on, and decisions take `now` as
//! an argument. A clock also knows how far the origin's clock is from it, as soon as answers of the origin were noted.
//! Callers: most rooms; tests use [`Clock::fake`] and [`Clock::of_runtime`].

pub(crate) mod backoff;
mod origin;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use origin::{Instants, OriginLag, WRONG_MS};

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;
/// 9999-12-31T23:59:59Z, the last second that an HTTP-date can say (RFC 9110 §5.6.7).
const LAST_HTTP_SECOND: i64 = 253_402_300_799;
/// 0000-01-01T00:00:00Z, the first instant that RFC 3339 can say.
const FIRST_MILLIS: i64 = -62_167_219_200_000;

/// An instant of wall time in milliseconds since 1970-01-01T00:00:00Z. It may jump either way between two readings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WallTime(i64);

/// Whole seconds, rounded up: a wait of so long is long enough.
pub(crate) const fn ceil_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add((duration.subsec_nanos() > 0) as u64)
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a timestamp with an offset (such as 2026-11-20T12:00:00Z)")]
pub struct NotATime(String);

impl WallTime {
    /// From milliseconds since the epoch; negative values lie before it.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// From seconds since the epoch; saturates.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whether it is no more than some 8,000 years away: what else claims to be an instant is a mistake, or a lie.
    pub(crate) const fn is_plausible(self) -> bool {
        let beyond = (LAST_HTTP_SECOND + 1) * 1000;
        -beyond < self.0 && self.0 < beyond
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The instant `seconds` later (earlier when negative); saturates.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1000)))
    }

    /// The instant `duration` later, to the millisecond; saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this instant, negative when `earlier` is later; saturates.
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whole seconds from `earlier` to this instant, rounded down, negative when `earlier` is later.
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        self.millis_since(earlier).div_euclid(1000)
    }

    /// The instant as an IMF-fixdate (RFC 9110 §5.6.7), rounded down to the second. `None` outside the years 0 to 9999,
    /// which no HTTP-date can say: the field is left out then, because another instant would be a lie.
    pub fn http_date(self) -> Option<String> {
        match self.as_seconds() {
            seconds @ 0..=LAST_HTTP_SECOND => {
                Some(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs())))
            }
            // The library above panics before 1970.
            seconds => {
                let at = jiff::Timestamp::from_second(seconds).ok()?;
                jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok()
            }
        }
    }

    /// The instant in RFC 3339 form, in UTC, with as many decimals as it needs: `2026-11-20T12:00:00.25Z`. `None`
    /// outside the years 0 to 9999 (but for the last day of 9999), which that form cannot say: `null` in JSON. For
    /// people there is `Display`, which always says something.
    pub fn rfc3339(self) -> Option<String> {
        let at = jiff::Timestamp::from_millisecond(self.0).ok()?;
        (self.0 >= FIRST_MILLIS).then(|| at.to_string())
    }

    /// Reads a timestamp that carries an offset, of the years -9999 to 9999, rounded down to the millisecond.
    pub fn parse_rfc3339(text: &str) -> Result<Self, NotATime> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| NotATime(text.to_owned()))?;
        Ok(Self(i64::try_from(parsed.as_nanosecond().div_euclid(1_000_000)).unwrap_or(i64::MAX)))
    }

    fn from_system(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(0).plus(after),
            Err(before) => Self(i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)),
        }
    }
}

/// For people: in RFC 3339 form, or that the calendar ends before it.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rfc3339() {
            Some(text) => f.write_str(&text),
            None => write!(f, "an instant beyond the calendar ({} ms since 1970)", self.0),
        }
    }
}

/// An instant of monotonic time in nanoseconds since the process started (strictly: since its [`Clock`] was made). It
/// never goes back, means nothing in another process, and lasts 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Monotonic(u64);

impl Monotonic {
    /// From nanoseconds since the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From whole seconds since the start; saturates.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(NANOS))
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `duration` later; saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// The time from `earlier` to this instant, zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The wall time by our clock, and by the clock that dates the origin's answers: an origin that is behind has its own.
/// Ages of data count by the second one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    pub wall: WallTime,
    /// By the origin's, if that is behind; never later than ours.
    pub by_origin: WallTime,
}

/// Both clocks say the same.
impl From<WallTime> for Now {
    fn from(wall: WallTime) -> Self {
        Self { wall, by_origin: wall }
    }
}

/// Where the time comes from: the operating system, a test's hand, or tokio's runtime. Clones share it.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    /// What the origin's answers have shown of its clock.
    origin: Arc<OriginLag>,
}

#[derive(Clone, Debug)]
enum Source {
    System { started: Instant },
    Hands(Arc<Hands>),
}

/// What both clocks showed when they began to follow the runtime's, or show for good.
#[derive(Debug)]
struct Hands {
    wall: AtomicI64,
    mono: AtomicU64,
    follows: Option<tokio::time::Instant>,
}

impl Hands {
    fn passed(&self) -> Duration {
        self.follows.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

impl Clock {
    fn of(source: Source) -> Self {
        Self { source, origin: Arc::default() }
    }

    /// The operating system's clocks; monotonic time starts at zero now.
    pub fn system() -> Self {
        Self::of(Source::System { started: Instant::now() })
    }

    fn by_hand(wall: WallTime, follows: Option<tokio::time::Instant>) -> FakeClock {
        let hands = Arc::new(Hands { wall: AtomicI64::new(wall.0), mono: AtomicU64::new(0), follows });
        FakeClock(Self::of(Source::Hands(Arc::clone(&hands))), hands)
    }

    /// A clock that stands still at `wall` until it is moved, with monotonic time zero.
    pub fn fake(wall: WallTime) -> FakeClock {
        Self::by_hand(wall, None)
    }

    /// A clock that follows tokio's own and shows `wall` now: where a test pauses the runtime's time, everything that
    /// reads this clock lives in the same virtual time as sleeps and timeouts do. The hand makes its wall time jump.
    pub fn of_runtime(wall: WallTime) -> (Self, FakeClock) {
        let hand = Self::by_hand(wall, Some(tokio::time::Instant::now()));
        (hand.clock(), hand)
    }

    pub fn now_wall(&self) -> WallTime {
        match &self.source {
            Source::System { .. } => WallTime::from_system(SystemTime::now()),
            Source::Hands(hands) => WallTime(hands.wall.load(Ordering::SeqCst)).plus(hands.passed()),
        }
    }

    pub fn now_mono(&self) -> Monotonic {
        match &self.source {
            Source::System { started } => Monotonic(nanos(started.elapsed())),
            Source::Hands(hands) => Monotonic(hands.mono.load(Ordering::SeqCst)).plus(hands.passed()),
        }
    }

    fn instants(&self) -> Instants {
        Instants { wall: self.now_wall(), mono: self.now_mono() }
    }

    /// An answer of the origin that no cache kept, as far as it says, has arrived with this `Date` a moment ago.
    pub fn note_origin_date(&self, date: WallTime, received: WallTime) {
        self.origin.note(self.instants(), received, date);
    }

    /// By how many milliseconds the origin's clock is behind this one, negative when it is ahead: the smallest
    /// `received - Date` of the last hour. 0 while unknown, and after a jump of the wall clock.
    pub fn origin_lag_ms(&self) -> i64 {
        self.origin.smallest_ms(self.instants())
    }

    /// By how many milliseconds the origin's clock is behind this one, negative when it is ahead, if every answer of the last
    /// hour says so: by more than a minute, and more than caches of this `lifetime` can make of it.
    pub fn differs_from_origin_ms(&self, lifetime: Duration) -> Option<i64> {
        let most_ms = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX).saturating_add(WRONG_MS);
        let behind = Some(self.origin_lag_ms()).filter(|lag_ms| *lag_ms > most_ms);
        behind.or_else(|| self.origin.ahead_ms(self.instants()).map(|ahead_ms| -ahead_ms))
    }

    pub fn now(&self) -> Now {
        self.read().1
    }

    /// The monotonic time, and the wall time by both clocks.
    pub fn read(&self) -> (Monotonic, Now) {
        let now = self.instants();
        let lag_ms = self.origin.smallest_ms(now);
        (now.mono, Now { wall: now.wall, by_origin: WallTime(now.wall.0.saturating_sub(lag_ms.max(0))) })
    }
}

/// The hand that moves a [`Clock::fake`] or makes a [`Clock::of_runtime`] jump; clones move the same one.
#[derive(Clone, Debug)]
pub struct FakeClock(Clock, Arc<Hands>);

impl FakeClock {
    /// The clock that this hand moves.
    pub fn clock(&self) -> Clock {
        self.0.clone()
    }

    /// Lets `duration` pass on both clocks (wall time counts its whole milliseconds).
    pub fn advance(&self, duration: Duration) {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.1.wall.fetch_add(millis, Ordering::SeqCst);
        self.1.mono.fetch_add(nanos(duration), Ordering::SeqCst);
    }

    /// Makes the wall clock jump to `wall`, as NTP or an operator would; monotonic time does not move.
    pub fn set_wall(&self, wall: WallTime) {
        self.1.wall.store(wall.0, Ordering::SeqCst);
    }

    /// Makes the wall clock jump by so many milliseconds, back when negative; monotonic time does not move.
    pub fn jump(&self, millis: i64) {
        self.1.wall.fetch_add(millis, Ordering::SeqCst);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_origin_that_is_later_than_caches_make_it_has_another_clock() {
        let clock = Clock::fake(WallTime::from_seconds(1_000_000)).clock();
        let at = |behind: i64| WallTime::from_seconds(1_000_000 - behind);
        let differs = |seconds| clock.differs_from_origin_ms(Duration::from_secs(seconds));
        assert_eq!(differs(0), None);
        clock.note_origin_date(at(360), at(0));
        assert_eq!([299, 300].map(differs), [Some(360_000), None]);
        clock.note_origin_date(at(30), at(0));
        assert_eq!(differs(0), None, "one answer shows that it was a cache");
    }

    #[test]
    fn an_instant_renders_as_http_date_and_rfc_3339() {
        let time = WallTime::from_millis(784_111_777_250);
        assert_eq!(WallTime::parse_rfc3339("1994-11-06T09:49:37.250+01:00"), Ok(time));
        assert_eq!(time.http_date().as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(time.rfc3339().as_deref(), Some("1994-11-06T08:49:37.25Z"));
    }

    #[test]
    fn an_instant_before_1970_or_beyond_the_calendar_is_never_shown_as_1970() {
        for (millis, http, rfc) in [
            (-1, Some("Wed, 31 Dec 1969 23:59:59 GMT"), Some("1969-12-31T23:59:59.999Z")),
            (-18_489_600_000, Some("Sun, 01 Jun 1969 00:00:00 GMT"), Some("1969-06-01T00:00:00Z")),
            (-62_167_219_200_000, Some("Sat, 01 Jan 0000 00:00:00 GMT"), Some("0000-01-01T00:00:00Z")),
            (-62_167_219_200_001, None, None),
            (253_402_300_799_999, Some("Fri, 31 Dec 9999 23:59:59 GMT"), None),
            (253_402_300_800_000, None, None),
            (i64::MAX, None, None),
            (i64::MIN, None, None),
        ] {
            let time = WallTime::from_millis(millis);
            assert_eq!((time.http_date().as_deref(), time.rfc3339().as_deref()), (http, rfc), "{millis}");
            let told = time.to_string();
            assert!(!told.contains("1970-") && (rfc.is_some() || told.contains("beyond the calendar")), "{told}");
        }
    }

    #[test]
    fn a_text_without_an_offset_is_no_instant() {
        for text in ["", "2026-11-20", "2026-11-20T12:00:00", "tomorrow", "2026-13-01T00:00:00Z"] {
            assert_eq!(WallTime::parse_rfc3339(text), Err(NotATime(text.to_owned())));
        }
    }

    #[test]
    fn a_wall_clock_that_jumps_leaves_monotonic_time_alone() {
        let hand = Clock::fake(WallTime::from_seconds(1000));
        let clock = hand.clock();
        hand.advance(Duration::from_millis(1500));
        assert_eq!((clock.now_wall(), clock.now_mono()), (WallTime::from_millis(1_001_500), Monotonic(1_500_000_000)));
        hand.set_wall(WallTime::from_seconds(5));
        assert_eq!((clock.now_wall(), clock.now_mono()), (WallTime::from_seconds(5), Monotonic(1_500_000_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_of_the_runtime_moves_with_its_sleeps_and_jumps_by_hand() {
        let (clock, hand) = Clock::of_runtime(WallTime::from_seconds(1000));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!((clock.now_wall(), clock.now_mono()), (WallTime::from_seconds(4600), Monotonic::from_seconds(3600)));
        hand.jump(-600_000);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((clock.now_wall(), clock.now_mono()), (WallTime::from_seconds(4001), Monotonic::from_seconds(3601)));
    }

    #[test]
    fn the_system_clock_moves_forward_and_knows_the_century() {
        let clock = Clock::system();
        let (before, after) = (clock.now_mono(), clock.clone().now_mono());
        assert!(before <= after);
        assert!(clock.now_wall() > WallTime::from_seconds(1_700_000_000));
    }

    proptest! {
        #[test]
        fn every_instant_renders_and_the_arithmetic_never_overflows(a: i64, b: i64) {
            let (x, y) = (WallTime::from_millis(a), WallTime::from_millis(b));
            let _ = (x.http_date(), x.rfc3339(), x.seconds_since(y), x.plus_seconds(b), WallTime::from_seconds(a));
        }

        #[test]
        fn the_parser_is_total(text in "\\PC*") {
            let _ = WallTime::parse_rfc3339(&text);
        }

        #[test]
        fn rfc_3339_round_trips(millis in -60_000_000_000_000_i64..250_000_000_000_000) {
            let time = WallTime::from_millis(millis);
            prop_assert_eq!(WallTime::parse_rfc3339(&time.rfc3339().unwrap()), Ok(time));
        }
    }
}
