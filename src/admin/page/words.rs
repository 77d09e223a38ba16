//! Numbers, times and states in words, as people read them on the operator's page.
//!
//! Pure. Callers: [`super::gather`], [`super::advice`], [`super::chart`], [`super::view`].

use crate::clock::WallTime;
use crate::snapshot::meta::Certificate;
use crate::upstream::status::OriginState;

/// A whole number with commas: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of one in percent, rounded down, so that 100 % means all.
pub(super) fn share(share: f64) -> String {
    if share >= 1.0 {
        return "100 %".to_owned();
    }
    let tenths = (share.max(0.0) * 1000.0).floor() / 10.0;
    format!("{tenths:.1} %")
}

/// A time of so many seconds: `42 s`, `3 min`, `2 h 5 min`, `3 days`.
pub(super) fn seconds(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{minutes} min"),
        7200..172_800 if minutes % 60 == 0 => format!("{hours} h"),
        7200..172_800 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} days", count(days)),
    }
}

/// A time of so many microseconds: `80 µs`, `1.2 ms`, `3.4 s`.
pub(super) fn micros(micros: f64) -> String {
    match micros {
        ..1000.0 => format!("{micros:.0} µs"),
        ..10_000.0 => format!("{:.1} ms", micros / 1e3),
        ..1_000_000.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

/// A number of bytes: `512 bytes`, `1.5 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    let size = bytes as f64;
    match bytes {
        0..10_000 => format!("{} bytes", count(bytes)),
        10_000..1_000_000 => format!("{:.0} kB", size / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", size / 1e6),
        _ => format!("{:.1} GB", size / 1e9),
    }
}

/// A number with as many decimals as it needs at its size.
pub(super) fn decimal(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        ..0.1 => format!("{number:.2}"),
        ..10.0 => format!("{number:.1}"),
        _ => count(number.round() as u64),
    }
}

/// An instant to the second: `2026-11-22 11:25:00 UTC`.
pub(super) fn instant(at: WallTime) -> String {
    let text = WallTime::from_seconds(at.as_seconds()).to_string();
    match text.strip_suffix('Z').and_then(|text| text.split_once('T')) {
        Some((day, time)) => format!("{day} {time} UTC"),
        None => text,
    }
}

/// A sentence begins with a capital and ends with a full stop.
pub(super) fn sentence(text: &str) -> String {
    let text = text.trim();
    let mut letters = text.chars();
    let mut sentence: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    sentence.push_str(letters.as_str());
    if !sentence.ends_with(['.', '!', '?', '…']) {
        sentence.push('.');
    }
    sentence
}

/// The first digits of an id, enough to tell kept snapshots apart.
pub(super) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// A certificate in words.
pub(super) const fn certificate(certificate: Certificate) -> &'static str {
    match certificate {
        Certificate::Provisional => {
            "Every page was read, and all pages fit together, but perhaps they are not of one instant. Further requests for every page will show whether they are."
        }
        Certificate::Full => "There is one instant at which the origin had exactly this data.",
        Certificate::Incremental => {
            "A refresh of a snapshot with the certificate full or incremental. Meanwhile the origin's first page, taxonomies and recent changes stayed the same, and the rest follows from them."
        }
        Certificate::BestEffort => {
            "Three tries gave no proof. What is not proven is listed below; later passes try again."
        }
    }
}

/// Result of the last look at the origin.
pub(super) const fn origin(state: OriginState) -> &'static str {
    match state {
        OriginState::NotAsked => "Not asked yet",
        OriginState::Offline => "No origin: this server is offline",
        OriginState::Crawling => "Answers; all pages are being read",
        OriginState::Answering => "Answers",
        OriginState::Unchanged => "Answers; the last refresh found no changes",
        OriginState::Changed => "Answers; the last refresh found changes",
        OriginState::CouldNotBeAsked => "Cannot be reached",
        OriginState::Nonsense => "Answers cannot be used",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        for (got, want) in [
            (count(0), "0"),
            (count(999), "999"),
            (count(1_234_567), "1,234,567"),
            (share(0.999_99), "99.9 %"),
            (share(1.0), "100 %"),
            (seconds(119), "119 s"),
            (seconds(120), "2 min"),
            (seconds(7500), "2 h 5 min"),
            (seconds(86_400), "24 h"),
            (seconds(172_800), "2 days"),
            (micros(80.4), "80 µs"),
            (micros(1234.0), "1.2 ms"),
            (micros(45_000.0), "45 ms"),
            (micros(3_400_000.0), "3.4 s"),
            (bytes(512), "512 bytes"),
            (bytes(1_500_000), "1.5 MB"),
            (decimal(0.0), "0"),
            (decimal(0.034), "0.03"),
            (decimal(1.25), "1.2"),
            (decimal(12_345.6), "12,346"),
            (instant(WallTime::from_millis(1_700_000_000_999)), "2023-11-14 22:13:20 UTC"),
            (sentence("no space"), "No space."),
            (sentence("really?"), "Really?"),
            (short("0123456789abcdef").to_owned(), "0123456789ab"),
            (short("é").to_owned(), "é"),
        ] {
            assert_eq!(got, want);
        }
    }
}
