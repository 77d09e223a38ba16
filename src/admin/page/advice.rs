//! Why the server is not well, or soon may not be, and what to do about each reason.
//!
//! Pure. The reasons are those of `/status`; what to do is said here only. Callers: [`super::gather`].

use crate::admin::health::{Reason, Trouble};
use crate::config::Use;
use crate::upstream::status::OriginState;

use super::action::Action;
use super::words::{seconds, sentence, short};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// The server is unhealthy for it.
    Unwell,
    /// It is healthy all the same.
    Attention,
}

/// Something that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub todo: String,
    /// What can be done right here.
    pub action: Option<Action>,
}

/// What findings depend on.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    /// How this process is used.
    pub usage: Use,
    /// The reasons of `/status`.
    pub reasons: &'a [Reason],
    /// How the last look at the origin ended.
    pub origin: OriginState,
    /// Its address.
    pub origin_url: Option<&'a str>,
    /// The last failure, even if all is well again.
    pub last_error: Option<&'a str>,
    /// For how many seconds nothing is sent to the origin.
    pub paused_seconds: u64,
    /// Whether there is data to serve.
    pub has_data: bool,
    /// During a rollback: the current and the newest snapshot.
    pub rolled_back: Option<(&'a str, Option<&'a str>)>,
    /// What is wrong with the certificate of the HTTPS listener.
    pub tls_problem: Option<&'a str>,
    /// What is damaged in the store.
    pub damage: Option<&'a str>,
    /// The share of compared requests that equal the origin, in percent.
    pub parity: Option<f64>,
}

impl Facts<'_> {
    /// Whether the origin fails, and how; with the last error.
    fn origin_fails(&self) -> Option<String> {
        let url = self.origin_url.unwrap_or("the origin");
        let how = match self.origin {
            OriginState::CouldNotBeAsked => format!("The origin {url} cannot be asked"),
            OriginState::Nonsense => format!("The answers of the origin {url} cannot be used"),
            _ => return None,
        };
        Some(match self.last_error {
            Some(error) => format!("{how}. The last error: {}", sentence(error)),
            None => format!("{how}."),
        })
    }

    fn reason(&self, reason: &Reason) -> Finding {
        let text = sentence(&reason.text);
        let (what, todo) = match reason.trouble {
            Trouble::Disk => (
                text,
                "Make room on the disk, or make the directory writable. Clients get the stored data meanwhile; \
                 writing is tried again by itself.",
            ),
            Trouble::NotReady => match (self.usage, self.origin_fails()) {
                (Use::Offline, _) => (text, "Import a bundle: below, or with `grandstand bundle import FILE`."),
                (_, Some(fails)) => (
                    format!("{text} {fails}"),
                    "Check the address (origin.url) and that this machine can reach it. Requests are tried again by \
                     themselves.",
                ),
                (_, None) => (
                    text,
                    "Wait: the progress is shown below. Until then requests of clients are forwarded to the origin.",
                ),
            },
            Trouble::Clock => {
                (text, "Set the clock of this machine, or of the machine that the data came from, for example by NTP.")
            }
            Trouble::Unconfirmed => match (self.usage, self.origin_fails()) {
                (Use::Offline, _) => (text, "Import a newer bundle: below, or with `grandstand bundle import FILE`."),
                (_, Some(fails)) => (
                    format!("{text} {fails}"),
                    "Check that the origin works and that this machine can reach it. Clients get the stored data with \
                     its true Age meanwhile; refreshes are tried again by themselves.",
                ),
                (_, None) if self.rolled_back.is_some() => (
                    format!("{text} It is that of a rollback, which nothing confirms."),
                    "Release the rollback when clients shall get the newest snapshot again.",
                ),
                (_, None) => (
                    text,
                    "Look below at what the origin's budget is spent on: a refresh is running, or waits for a free slot.",
                ),
            },
            Trouble::HeldBack => {
                let todo = "Check whether the origin really lost these listings. If so, accept the snapshot. If not, \
                            wait: each refresh checks it again.";
                let (todo, action) = (todo.to_owned(), Some(Action::accept()));
                return Finding { weight: Weight::Unwell, what: text, todo, action };
            }
        };
        Finding { weight: Weight::Unwell, what, todo: todo.to_owned(), action: None }
    }
}

/// Everything that an operator should know, what makes the server unhealthy first; empty: all is well.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts.reasons.iter().map(|reason| facts.reason(reason)).collect();
    let mut attention = |what: String, todo: &str, action: Option<Action>| {
        findings.push(Finding { weight: Weight::Attention, what, todo: todo.to_owned(), action });
    };
    let is_told = |trouble: &[Trouble]| facts.reasons.iter().any(|reason| trouble.contains(&reason.trouble));
    match facts.origin_fails() {
        Some(fails) if !is_told(&[Trouble::Unconfirmed, Trouble::NotReady]) => {
            let todo = if facts.has_data {
                "Check that the origin works. Nothing is lost yet: clients get the stored data, and requests are tried \
                 again by themselves."
            } else {
                "Check that the origin works. Clients get cached answers, stale ones included; requests are tried again \
                 by themselves."
            };
            attention(fails, todo, None);
        }
        None if facts.paused_seconds > 0 => attention(
            format!(
                "Nothing is sent to the origin for {}, because it failed or asked for that.",
                seconds(facts.paused_seconds)
            ),
            "Wait: it ends by itself. If the origin often answers 429, set a lower origin.requests_per_minute.",
            None,
        ),
        _ => {}
    }
    if let Some(damage) = facts.damage.filter(|_| !is_told(&[Trouble::Disk])) {
        let todo = if facts.origin_url.is_some() {
            "Wait: the store is repaired with what can be read of it, and the rest is fetched again."
        } else {
            "Import a bundle: that repairs the store with what the bundle holds."
        };
        attention(format!("Stored data is damaged: {}", sentence(damage)), todo, None);
    }
    if let Some((served, newest)) = facts.rolled_back {
        let newest = newest.filter(|newest| *newest != served);
        let newest = newest.map_or_else(String::new, |newest| format!(" The newest one, {}, waits.", short(newest)));
        let what = format!("A rollback is in force: clients get snapshot {}.{newest}", short(served));
        attention(what, "Release it when clients shall get the newest snapshot again.", Some(Action::release()));
    }
    if let Some(problem) = facts.tls_problem {
        let todo = "Replace the files of tls.cert and tls.key. They are read again within seconds.";
        attention(format!("HTTPS: {}", sentence(problem)), todo, None);
    }
    if let Some(parity) = facts.parity.filter(|parity| *parity < 100.0) {
        let what = format!("{:.2} % of the requests that were compared differ from the origin.", 100.0 - parity);
        let todo = "Look at the differences below. What differs is fetched again by itself; compare again afterwards.";
        attention(what, todo, None);
    }
    findings
}

/// What to do about a warning or an error of the log, by the module that logged it.
pub(super) fn about_note(module: &str) -> &'static str {
    let module = module.strip_prefix("grandstand::").unwrap_or(module);
    ADVICE.iter().find(|(prefix, _)| module.starts_with(prefix)).map_or(
        "If it comes again, look at the log around it, and report it if the sentence does not say what to do.",
        |(_, advice)| advice,
    )
}

/// What to do by module; the first prefix that fits counts.
const ADVICE: [(&str, &str); 23] = [
    (
        "shared_limit",
        "Check Redis, and `rate_limit` in /status. Until it answers, each machine counts clients by itself.",
    ),
    ("telemetry::access", "Check log.access_file and the disk. Requests are answered all the same."),
    ("upstream::ledger", "Check that the data directory is writable and the disk has room."),
    ("upstream::stamps", "Nothing: the age of answers is counted by their Date instead."),
    ("upstream", "Check that the origin works and can be reached. Requests are tried again by themselves."),
    ("mirror::assumptions", "Nothing: queries that depend on it are forwarded to the origin."),
    ("mirror", "Nothing, if it stops: it is tried again by itself. Else look at the origin's answers."),
    ("audit", "Look at the differences under Parity. What differs is fetched again by itself."),
    ("admin::bundle", "The sentence says why; correct that and try again."),
    ("dumps", "Check that the disk has room. The dump is built again when somebody asks for it."),
    ("store::files", "Give grandstand a data directory of its own that other users cannot enter."),
    ("store", "Check the disk. Run `grandstand snapshot verify`; what is missing is fetched again."),
    ("versions", "Nothing after a command of yours. Else check the disk and that the data directory is writable."),
    ("serve::connections", "Raise limits.connections and the limit of open files, or find out who opens so many."),
    ("serve::tls", "Check the files of tls.cert and tls.key. They are read again within seconds."),
    ("serve", "Nothing, if it stops. Else look at what clients send."),
    ("cache", "Nothing: answers stay right and are only larger."),
    ("answer", "Check the disk. Run `grandstand snapshot verify`; a restart reads the data again."),
    ("app::keeper", "Check the disk that the data directory is on. Repair is tried again by itself."),
    ("app", "The sentence names the file or the limit; check it. Run `grandstand status` afterwards."),
    ("cli", "Correct the configuration key that the sentence names, and restart."),
    ("sample", "Nothing: this is the sample origin."),
    ("pingora", "Nothing, if it stops. Else look at what clients send, and at the limit of open files."),
];

#[cfg(test)]
mod tests;
