//! How far a mirror is: a bar on a terminal, plain lines elsewhere.
//!
//! Callers: `audit`, `demo`, `sync`.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::app::core::Core;
use crate::origin::details::Details;
use crate::origin::status::OriginStatus;
use crate::snapshot::live::Live;
use crate::snapshot::version::Certificate;

/// What is watched.
#[derive(Clone)]
pub struct Watched {
    live: Live,
    details: Option<Details>,
    status: OriginStatus,
}

/// One look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Pages and taxonomies come in.
    Listing {
        /// Requests done.
        done: u64,
        /// Requests in all, as far as known.
        of: u64,
    },
    /// The list is published; details come in.
    Details {
        /// Mirrored.
        done: u64,
        /// Listings.
        of: u64,
        /// How sure we are of the list.
        certificate: Certificate,
    },
    /// Everything is mirrored and certified.
    Complete {
        /// Listings.
        listings: u64,
    },
}

impl Watched {
    /// Watches a core; `None` when it mirrors nothing.
    pub fn of(core: &Core) -> Option<Self> {
        let status = core.origin.as_ref()?.client.status().clone();
        Some(Self { live: core.live.clone(), details: core.details.clone(), status })
    }

    /// The origin's health.
    pub const fn status(&self) -> &OriginStatus {
        &self.status
    }

    /// How far it is now.
    pub fn look(&self) -> Stage {
        let Some(published) = self.live.current() else {
            let pass = self.status.picture().pass.unwrap_or_default();
            return Stage::Listing { done: pass.done, of: pass.of };
        };
        let of = published.dataset.len() as u64;
        let certificate = published.meta.certificate;
        let settled = matches!(certificate, Certificate::Full | Certificate::Incremental);
        match &self.details {
            Some(details) if settled && details.is_complete(&published.dataset) => Stage::Complete { listings: of },
            Some(details) => Stage::Details { done: details.mirrored(&published.dataset) as u64, of, certificate },
            None => Stage::Complete { listings: of },
        }
    }
}

/// Shows stages as they come.
pub struct Display {
    bar: Option<ProgressBar>,
    last: Option<(u8, u64)>,
}

impl Display {
    /// A bar where standard error is a terminal, lines elsewhere.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            // The template is a constant; without it the default style is shown.
            if let Ok(style) = ProgressStyle::with_template("{msg:>10} {wide_bar} {pos}/{len} {eta}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, last: None }
    }

    /// Shows one stage. Lines come at every tenth, so that a log stays readable.
    pub fn show(&mut self, stage: &Stage) {
        let (rank, word, done, of) = match stage {
            Stage::Listing { done, of } => (0, "pages", *done, *of),
            Stage::Details { done, of, .. } => (1, "details", *done, *of),
            Stage::Complete { listings } => (2, "complete", *listings, *listings),
        };
        self.count(rank, word, done, of);
    }

    /// Shows how many are done of something. `rank` tells one thing from the next.
    pub fn count(&mut self, rank: u8, word: &'static str, done: u64, of: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(of);
            bar.set_position(done);
            bar.set_message(word);
            return;
        }
        let tenth = (done * 10).checked_div(of).unwrap_or(0);
        if self.last != Some((rank, tenth)) && of > 0 {
            eprintln!("{word}: {done} of {of}");
        }
        self.last = Some((rank, tenth));
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How often to look.
pub const INTERVAL: Duration = Duration::from_millis(100);
