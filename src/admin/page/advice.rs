//! Why the server is unhealthy, or may soon be, and what to do about it.
//!
//! Pure. The reasons are those of `/status`; the advice is only here. Callers: [`super::gather`].

use crate::admin::health::{Reason, Trouble};
use crate::config::Use;
use crate::upstream::status::OriginState;

use super::action::Action;
use super::words::{seconds, sentence, short};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// It makes the server unhealthy.
    Unwell,
    /// The server is still healthy.
    Attention,
}

/// Something that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub weight: Weight,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub todo: String,
    /// An action that helps.
    pub action: Option<Action>,
}

#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    /// How this process is used.
    pub usage: Use,
    /// The reasons of `/status`.
    pub reasons: &'a [Reason],
    /// The findings of `/status`.
    pub findings: &'a [Reason],
    /// The origin's state, as last seen.
    pub origin: OriginState,
    /// The origin's address.
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
    /// Why the limit is not shared although it should be.
    pub alone: Option<&'a str>,
}

impl Facts<'_> {
    /// How the origin fails, with the last error; `None`: it does not.
    fn origin_fails(&self) -> Option<String> {
        let url = self.origin_url.unwrap_or("the origin");
        let how = match self.origin {
            OriginState::CouldNotBeAsked => format!("The origin {url} fails"),
            OriginState::Nonsense => format!("The answers of the origin {url} cannot be used"),
            _ => return None,
        };
        Some(match self.last_error {
            Some(error) => format!("{how}. The last error: {}", sentence(error)),
            None => format!("{how}."),
        })
    }

    fn finding(&self, weight: Weight, reason: &Reason) -> Finding {
        let text = sentence(&reason.text);
        let (what, todo) = match reason.trouble {
            Trouble::Disk => (
                text,
                "Make room on the disk, or make the directory writable. Meanwhile clients get the stored data, and the \
                 server keeps trying to write.",
            ),
            Trouble::NotReady => match (self.usage, self.origin_fails()) {
                (Use::Offline, _) => (text, "Import a bundle: below, or with `grandstand bundle import FILE`."),
                (Use::Replica, _) => (
                    text,
                    "Wait while the first bundle is downloaded. If nothing comes, check replica.url, its credentials, and \
                     that a publisher writes there.",
                ),
                (_, Some(_)) => (
                    text,
                    "Check the address (origin.url) and that this machine can reach it. The server keeps trying.",
                ),
                (_, None) => (
                    text,
                    "Wait: the progress is shown below. Meanwhile the server forwards client requests to the origin.",
                ),
            },
            Trouble::Clock => (
                text,
                "Set the clock of this machine, or of the machine that the data came from, for example with NTP.",
            ),
            Trouble::Unconfirmed => match (self.usage, self.origin_fails()) {
                (Use::Offline, _) => (text, "Import a newer bundle: below, or with `grandstand bundle import FILE`."),
                (Use::Replica, _) if self.rolled_back.is_none() => (
                    text,
                    "Check that this machine can read the object store (replica.url), and that the publisher runs and is healthy. \
                     Meanwhile clients get the stored data with its true Age, and the server keeps trying.",
                ),
                (_, Some(fails)) => (
                    format!("{text} {fails}"),
                    "Check that the origin works and that this machine can reach it. Meanwhile clients get the stored \
                     data with its true Age, and the server keeps trying.",
                ),
                (_, None) if self.rolled_back.is_some() => (
                    format!("{text} A rollback is in effect, so no refresh confirms the current snapshot."),
                    "Release the rollback when clients should get the newest snapshot again.",
                ),
                (_, None) => (
                    text,
                    "A refresh is running, or waits for a free slot. See below what the origin's budget is spent on.",
                ),
            },
            Trouble::HeldBack => {
                let todo = "Check whether the origin really lost these listings. If so, accept the snapshot. If not, \
                            wait: each refresh checks it again.";
                let (todo, action) = (todo.to_owned(), Some(Action::accept()));
                return Finding { weight, what: text, todo, action };
            }
            Trouble::Details => (
                text,
                "Look at the origin's answers to `/api/listings/{id}.json`. Clients get the stored details; the server \
                 asks for the others at longer and longer intervals.",
            ),
            Trouble::Unstored => (
                text,
                "If these answers are the same for everybody, let the origin send `Cache-Control: public` with a \
                 `max-age`, or run a mirror (mirror.enabled = true).",
            ),
            Trouble::OldCopies => {
                (text, "Set `origin.cache_ttl` to the time for which the cache keeps its copies, or shorten that time.")
            }
        };
        Finding { weight, what, todo: todo.to_owned(), action: None }
    }
}

/// All findings, those that make the server unhealthy first; empty: all is well.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let reasons = facts.reasons.iter().map(|reason| (Weight::Unwell, reason));
    let healthy = facts.findings.iter().map(|finding| (Weight::Attention, finding));
    let mut findings: Vec<Finding> =
        reasons.chain(healthy).map(|(weight, reason)| facts.finding(weight, reason)).collect();
    let mut attention = |what: String, todo: &str, action: Option<Action>| {
        findings.push(Finding { weight: Weight::Attention, what, todo: todo.to_owned(), action });
    };
    let is_told = |trouble: &[Trouble]| facts.reasons.iter().any(|reason| trouble.contains(&reason.trouble));
    match facts.origin_fails() {
        Some(fails) if !is_told(&[Trouble::Unconfirmed, Trouble::NotReady]) => {
            let todo = if facts.has_data {
                "Check that the origin works. Nothing is lost yet: clients get the stored data, and the server keeps \
                 trying."
            } else {
                "Check that the origin works. Clients get cached answers, stale ones included; the server keeps trying."
            };
            attention(fails, todo, None);
        }
        None if facts.paused_seconds > 0 => attention(
            format!(
                "No requests are sent to the origin for {}, because it failed or asked for a pause.",
                seconds(facts.paused_seconds)
            ),
            "Wait: the pause ends by itself. If the origin often answers 429, set a lower origin.requests_per_minute.",
            None,
        ),
        _ => {}
    }
    if let Some(damage) = facts.damage.filter(|_| !is_told(&[Trouble::Disk])) {
        let todo = if facts.origin_url.is_some() || facts.usage == Use::Replica {
            "Wait: the server repairs the store from all readable data, and fetches the rest again."
        } else {
            "Import a bundle: its data repairs the store."
        };
        attention(format!("Stored data is damaged: {}", sentence(damage)), todo, None);
    }
    if let Some((served, newest)) = facts.rolled_back {
        let newest = newest.filter(|newest| *newest != served);
        let newest = newest.map_or_else(String::new, |newest| format!(" The newest one, {}, waits.", short(newest)));
        let what = format!("A rollback is in effect: clients get snapshot {}.{newest}", short(served));
        attention(what, "Release it when clients should get the newest snapshot again.", Some(Action::release()));
    }
    if let Some(problem) = facts.tls_problem {
        let todo = "Replace the files of tls.cert and tls.key. They are read again within seconds.";
        attention(format!("HTTPS: {}", sentence(problem)), todo, None);
    }
    if let Some(parity) = facts.parity.filter(|parity| *parity < 100.0) {
        let what = format!("{:.2} % of the compared answers differ from the origin's.", 100.0 - parity);
        let todo = "Look at the differences below. The server fetches that data again by itself; then compare again.";
        attention(what, todo, None);
    }
    if let Some(why) = facts.alone {
        let what = format!("The limit is not shared: each machine counts clients by itself. {}", sentence(why));
        let todo = "Check Redis and rate_limit.store. The server keeps trying, and shares the limit again by itself.";
        attention(what, todo, None);
    }
    findings
}

/// What to do about a warning or an error of the log, by the module that logged it.
pub(super) fn about_note(module: &str) -> &'static str {
    let module = module.strip_prefix("grandstand::").unwrap_or(module);
    ADVICE.iter().find(|(prefix, _)| module.starts_with(prefix)).map_or(
        "If it comes again, read the log around it. If that does not say what to do, report it.",
        |(_, advice)| advice,
    )
}

/// What to do by module; the first prefix that fits counts.
const ADVICE: [(&str, &str); 24] = [
    (
        "shared_limit",
        "Check Redis, and `rate_limit` in /status. Until it answers, each machine counts clients by itself.",
    ),
    ("telemetry::access", "Check log.access_file and the disk. Requests are answered all the same."),
    ("upstream::ledger", "Check that the data directory is writable and the disk has room."),
    ("upstream::stamps", "Do nothing: the server takes the age of answers from Date instead."),
    ("upstream", "Check that the origin works and can be reached. The server keeps trying."),
    ("mirror::task::meaning", "Do nothing: queries that depend on it are forwarded to the origin."),
    ("mirror", "The server keeps trying. If the message comes again and again, look at the origin's answers."),
    ("audit", "Look at the differences under Parity. The server fetches that data again by itself."),
    ("admin::bundle", "The message says why. Correct that, and try again."),
    ("dumps", "Check that the disk has room. The next request for the dump writes it again."),
    (
        "fleet::publisher",
        "Check the object store and its credentials. The server keeps trying; clients notice nothing.",
    ),
    (
        "fleet",
        "Check that the object store can be reached with these credentials, and that its publisher is healthy. The server \
         keeps trying.",
    ),
    ("store::files", "Give grandstand a data directory of its own that other users cannot enter."),
    ("store", "Check the disk. Run `grandstand snapshot verify`; missing data is fetched again."),
    (
        "snapshots",
        "If you gave a command just now, do nothing. Otherwise check the disk, and that the data directory is writable.",
    ),
    (
        "serve::connections",
        "Raise limits.connections and the limit of open files, or find out which client opens so many.",
    ),
    ("serve::tls", "Check the files of tls.cert and tls.key. They are read again within seconds."),
    ("serve", "If it comes again and again, look at what clients send."),
    ("cache", "Do nothing: answers stay correct and are only larger."),
    ("answer", "Check the disk. Run `grandstand snapshot verify`; a restart reads the data again."),
    ("app::keeper", "Check the disk of the data directory. The server keeps trying to repair the store."),
    ("app", "The message names the file or the limit: check it. Run `grandstand status` afterwards."),
    ("cli", "Correct the configuration key that the message names, and restart."),
    ("pingora", "If it comes again and again, look at what clients send, and at the limit of open files."),
];

#[cfg(test)]
mod tests;
