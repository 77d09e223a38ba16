//! Progress of a mirror: a bar on a terminal, plain lines elsewhere.
//!
//! Callers: `audit`, `bundle`, `demo`, `sync`.

use std::fmt;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::app::core::Core;
use crate::mirror::details::{Covered, Details};
use crate::snapshot::meta::Certificate;
use crate::snapshot::pointer::SnapshotPointer;
use crate::upstream::status::OriginStatus;
use crate::words::counted;

use super::terminal::Terminal;

/// The watched mirror.
#[derive(Clone)]
pub(super) struct Watched {
    /// The newest snapshot.
    newest: SnapshotPointer,
    details: Option<Details>,
    status: OriginStatus,
}

/// The state at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Pages and taxonomies come in.
    Listing {
        /// Requests done.
        done: u64,
        /// Requests in all, as far as known.
        of: u64,
    },
    /// The list is published; details come in.
    Details {
        /// As new as their summaries.
        done: u64,
        /// Listings.
        of: u64,
        /// How sure we are of the list.
        certificate: Certificate,
    },
    /// Everything is mirrored and certified.
    Complete { listings: u64 },
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listing { of: 0, .. } => f.write_str("no page has been read"),
            Self::Listing { done, of } => write!(f, "{done} of {}", counted(*of, "page")),
            Self::Details { done, of, certificate } => {
                write!(f, "{done} of {}, certificate {}", counted(*of, "detail"), certificate.as_str())
            }
            Self::Complete { listings } => {
                write!(f, "{} with details, but not confirmed yet", counted(*listings, "listing"))
            }
        }
    }
}

impl Watched {
    /// Watches a core; `None` when it mirrors nothing.
    pub(super) fn of(core: &Core) -> Option<Self> {
        let status = core.origin.as_ref()?.client.status().clone();
        let newest = core.snapshots.as_ref()?.newest().clone();
        Some(Self { newest, details: core.details.clone(), status })
    }

    /// The origin's health.
    pub(super) const fn status(&self) -> &OriginStatus {
        &self.status
    }

    /// The present state.
    pub(super) fn look(&self) -> Stage {
        let Some(published) = self.newest.get() else {
            let pass = self.status.picture().pass.unwrap_or_default();
            return Stage::Listing { done: pass.done, of: pass.of };
        };
        let covered = self.details.as_ref().map(|details| details.covered(&published.dataset));
        Stage::of(published.dataset.len(), published.meta.certificate, covered)
    }
}

impl Stage {
    /// The stage of a published list; `covered`: `None` without details.
    fn of(listings: usize, certificate: Certificate, covered: Option<Covered>) -> Self {
        let of = listings as u64;
        match covered {
            Some(Covered { current, .. }) if !is_settled(certificate) || current < listings => {
                Self::Details { done: current as u64, of, certificate }
            }
            _ => Self::Complete { listings: of },
        }
    }
}

/// Whether a copy with this certificate can be complete.
pub(super) const fn is_settled(certificate: Certificate) -> bool {
    matches!(certificate, Certificate::Full | Certificate::Incremental)
}

/// Shows stages as they come.
pub(super) struct Display {
    bar: Option<ProgressBar>,
    last: Option<(u8, u64)>,
    /// The rank of the count, its start, and the number done then.
    began: Option<(u8, Instant, u64)>,
}

impl Display {
    /// A bar where standard error is a terminal, lines elsewhere.
    pub(super) fn new() -> Self {
        let bar = Terminal::of_stderr().redraws.then(|| {
            let bar = ProgressBar::new(0);
            // The template is a constant; without it the default style is shown.
            if let Ok(style) = ProgressStyle::with_template("{msg:>10} {wide_bar} {pos}/{len} {rate:>9} {eta:>4} left")
            {
                bar.set_style(style.with_key("rate", put_rate));
            }
            bar
        });
        Self { bar, last: None, began: None }
    }

    /// Shows one stage. Lines come at every tenth, so that a log stays readable.
    pub(super) fn show(&mut self, stage: &Stage) {
        let (rank, word, done, of) = match stage {
            Stage::Listing { done, of } => (0, "pages", *done, *of),
            Stage::Details { done, of, .. } => (1, "details", *done, *of),
            Stage::Complete { listings } => (2, "complete", *listings, *listings),
        };
        self.count(rank, word, done, of);
    }

    /// Shows a count. `rank` distinguishes the counted things.
    pub(super) fn count(&mut self, rank: u8, word: &'static str, done: u64, of: u64) {
        if self.began.is_none_or(|(began, _, _)| began != rank) && of > 0 {
            self.began = Some((rank, Instant::now(), done));
        }
        if let Some(bar) = &self.bar {
            bar.set_length(of);
            bar.set_position(done);
            bar.set_message(word);
            return;
        }
        let tenth = (done * 10).checked_div(of).unwrap_or(0);
        if self.last != Some((rank, tenth)) && of > 0 {
            let since = self.began.map_or(done, |(_, _, since)| since);
            let elapsed = self.began.map_or(Duration::ZERO, |(_, at, _)| at.elapsed());
            eprintln!(
                "{word}: {done} of {of}{}",
                remaining(done.saturating_sub(since), of.saturating_sub(done), elapsed)
            );
        }
        self.last = Some((rank, tenth));
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Bytes of a file, on a terminal only.
pub(super) struct BytesBar(ProgressBar);

/// A bar for bytes where standard error is a terminal, nothing elsewhere.
pub(super) fn bytes_bar(word: &'static str) -> BytesBar {
    let bar = if Terminal::of_stderr().redraws { ProgressBar::new(0) } else { ProgressBar::hidden() };
    // The template is a constant; without it the default style is shown.
    if let Ok(style) =
        ProgressStyle::with_template("{msg:>10} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta:>4} left")
    {
        bar.set_style(style);
    }
    bar.set_message(word);
    BytesBar(bar)
}

impl BytesBar {
    /// Shows how many are done.
    pub(super) fn show(&self, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// Shows activity of unknown length.
pub(super) struct Spinner(ProgressBar);

impl Spinner {
    /// A spinner where standard error is a terminal, nothing elsewhere.
    pub(super) fn new(what: &'static str) -> Self {
        let bar = if Terminal::of_stderr().redraws { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    /// Removes it.
    pub(super) fn finish(self) {
        self.0.finish_and_clear();
    }
}

/// The rate of a bar.
fn put_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    // Nothing can be done about a closed terminal.
    let _ = out.write_str(&rate(state.per_sec()));
}

/// So many a second, or a minute where that is a better number.
fn rate(per_second: f64) -> String {
    match per_second {
        rate if !rate.is_finite() || rate <= 0.0 => "-".to_owned(),
        rate if rate >= 100.0 => format!("{rate:.0}/s"),
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate => format!("{:.1}/min", rate * 60.0),
    }
}

/// The rate, and how long the rest takes if it goes on like this; nothing when that says nothing.
fn remaining(done: u64, left: u64, elapsed: Duration) -> String {
    if done == 0 || left == 0 || elapsed < Duration::from_secs(1) {
        return String::new();
    }
    let seconds = (elapsed.as_secs_f64() * left as f64 / done as f64).ceil() as u64;
    let rate = rate(done as f64 / elapsed.as_secs_f64());
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!(", {rate}, about {seconds} s left"),
        (0, _) => format!(", {rate}, about {minutes} min {} s left", seconds % 60),
        _ => format!(", {rate}, about {hours} h {minutes} min left"),
    }
}

/// How often to look.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outdated_details_are_not_counted_as_done() {
        let covered = |mirrored, current| Some(Covered { mirrored, current });
        let certificate = Certificate::Full;
        assert_eq!(Stage::of(3, certificate, covered(3, 1)), Stage::Details { done: 1, of: 3, certificate });
        assert_eq!(Stage::of(3, certificate, covered(3, 3)), Stage::Complete { listings: 3 });
        assert_eq!(Stage::of(3, certificate, None), Stage::Complete { listings: 3 });
        let certificate = Certificate::Provisional;
        assert_eq!(Stage::of(3, certificate, covered(3, 3)), Stage::Details { done: 3, of: 3, certificate });
    }

    #[test]
    fn what_is_left_is_said_in_words_once_it_is_known() {
        for (done, left, seconds, text) in [
            (0, 10, 5, ""),
            (10, 10, 0, ""),
            (10, 0, 5, ""),
            (100, 900, 5, ", 20.0/s, about 45 s left"),
            (100, 900, 20, ", 5.0/s, about 3 min 0 s left"),
            (60, 1_000_000, 60, ", 1.0/s, about 277 h 46 min left"),
            (30, 60, 60, ", 30.0/min, about 2 min 0 s left"),
            (50_000, 50_000, 2, ", 25000/s, about 2 s left"),
        ] {
            assert_eq!(remaining(done, left, Duration::from_secs(seconds)), text, "{done} {left} {seconds}");
        }
    }
}
