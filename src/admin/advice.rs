//! What is wrong, or may soon be, and what to do about it: `advice` and `recent` in `/status`.
//!
//! Pure. The reasons are those of `/status`, with what to do added. Callers: [`super::status`].

use serde::{Deserialize, Serialize};

use crate::config::Use;
use crate::telemetry::recent::Note;
use crate::words::{seconds, sentence, short};

use super::facts::{RollbackFacts, StatusFacts};
use super::health::{Reason, Trouble, origin_fails};

/// Something that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Advice {
    /// Whether it makes the server unhealthy.
    pub unhealthy: bool,
    /// What is wrong, in sentences.
    pub what: String,
    /// What to do, in sentences.
    pub todo: String,
    /// A request to this listener that helps.
    pub action: Option<Remedy>,
}

/// `POST /snapshots/accept` or `POST /snapshots/release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Remedy {
    Accept,
    Release,
}

/// A warning or an error of the log, with what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecentNote {
    /// `warning` or `error`.
    pub level: String,
    /// When it was logged last.
    pub at: Option<String>,
    /// How many times.
    pub count: u64,
    pub text: String,
    /// `None`: nothing is to be done, because somebody asked for it.
    pub todo: Option<String>,
}

impl RecentNote {
    pub(super) fn of(note: &Note) -> Self {
        Self {
            level: if note.is_error { "error" } else { "warning" }.to_owned(),
            at: note.at.rfc3339(),
            count: note.count,
            text: sentence(&note.text),
            todo: about(&note.text, note.module).map(str::to_owned),
        }
    }
}

/// What the words depend on.
#[derive(Clone, Copy)]
struct Situation<'a> {
    usage: Use,
    facts: &'a StatusFacts,
}

impl Situation<'_> {
    const fn while_origin_fails(&self) -> &'static str {
        if self.facts.snapshot.is_some() {
            "Check that the origin works. Nothing is lost yet: clients get the stored data, and the server keeps trying."
        } else {
            "Check that the origin works. Clients get cached answers, stale ones included; the server keeps trying."
        }
    }

    const fn after_reload(&self) -> &'static str {
        match &self.facts.reload {
            Some(reload) if reload.ok => "Restart the server when it suits you.",
            _ => {
                "Correct the configuration (`grandstand check` finds mistakes), and reload. The values from before are in \
                 effect; a restart would fail."
            }
        }
    }

    fn about(&self, unhealthy: bool, reason: &Reason) -> Advice {
        let text = sentence(&reason.text);
        let (what, todo) = match reason.trouble {
            Trouble::Disk => (
                text,
                "Make room on the disk, or make the directory writable. Meanwhile clients get the stored data, and the \
                 server keeps trying to write.",
            ),
            Trouble::NotReady => match (self.usage, origin_fails(self.facts)) {
                (Use::Offline, _) => (
                    text,
                    "Import a bundle, for example with `grandstand bundle import FILE`. If this should be a mirror or a \
                     shield, set origin.url and restart.",
                ),
                (Use::Replica, _) if is_of_key(&text) => (text, TRUST),
                (Use::Replica, _) => (
                    text,
                    "Wait while the first bundle is downloaded. The publisher writes a missing or damaged bundle again within \
                     ten minutes, or at once after a restart. If nothing comes, check replica.url, its credentials, and \
                     that a publisher writes there.",
                ),
                (_, Some(_)) => (
                    text,
                    "Check the address (origin.url) and that this machine can reach it. The server keeps trying.",
                ),
                (_, None) => (
                    text,
                    "Wait until every page of the origin is read. Meanwhile the server forwards client requests to the origin.",
                ),
            },
            Trouble::Clock => (
                text,
                "Set the clock of this machine, or of the machine that the data came from, for example with NTP.",
            ),
            Trouble::Unconfirmed => match (self.usage, origin_fails(self.facts)) {
                (Use::Offline, _) => (text, "Import a newer bundle, for example with `grandstand bundle import FILE`."),
                (Use::Replica, _) if is_of_key(&text) => (text, TRUST),
                (Use::Replica, _) if self.facts.rollback.is_none() => (
                    text,
                    "Check that this machine can read the object store (replica.url), and that the publisher runs and is healthy. \
                     Meanwhile clients get the stored data with its true Age, and the server keeps trying.",
                ),
                (_, Some(fails)) => (
                    format!("{text} {fails}"),
                    "Check that the origin works and that this machine can reach it. Meanwhile clients get the stored \
                     data with its true Age, and the server keeps trying.",
                ),
                (_, None) if self.facts.rollback.is_some() => (
                    format!("{text} A rollback is in effect, so no refresh confirms the current snapshot."),
                    "Release the rollback when clients should get the newest snapshot again.",
                ),
                (_, None) => (
                    text,
                    "A refresh is running, or waits for a free slot of the origin's budget. Look at what the budget is spent on.",
                ),
            },
            Trouble::HeldBack => {
                let todo = "Check whether the origin really lost these listings. If so, accept the snapshot. If not, \
                            wait: each refresh checks it again.";
                return Advice { unhealthy, what: text, todo: todo.to_owned(), action: Some(Remedy::Accept) };
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
            Trouble::UntrustedProxy => (
                text,
                "If it is your proxy, add its address to client_ip.trusted_proxies, set client_ip.header to the header that \
                 it sends, and reload. Then each client has a limit of its own.",
            ),
            Trouble::Refused => (
                text,
                "If it is a proxy, let it send X-Forwarded-For, and add its address to client_ip.trusted_proxies. If it is a \
                 client of yours, give it a limit of its own (rate_limit.override). Otherwise, do nothing.",
            ),
            Trouble::Origin => (text, self.while_origin_fails()),
            Trouble::Reload => (text, self.after_reload()),
            Trouble::Rival => (
                text,
                "Stop one of the two publishers, or give each a prefix of its own (publish.url): clients of the replicas \
                 get the data of whichever wrote last.",
            ),
            Trouble::OldCopies => {
                (text, "Set `origin.cache_ttl` to the time for which the cache keeps its copies, or shorten that time.")
            }
        };
        Advice { unhealthy, what, todo: todo.to_owned(), action: None }
    }
}

/// Everything that an operator should know, what makes the server unhealthy first; empty: all is well.
pub(super) fn advice(usage: Use, facts: &StatusFacts, reasons: &[Reason], findings: &[Reason]) -> Vec<Advice> {
    let situation = Situation { usage, facts };
    let (unhealthy, healthy) = (reasons.iter().map(|reason| (true, reason)), findings.iter().map(|one| (false, one)));
    let mut advice: Vec<Advice> =
        unhealthy.chain(healthy).map(|(unhealthy, reason)| situation.about(unhealthy, reason)).collect();
    let mut attention = |what: String, todo: &str, action: Option<Remedy>| {
        advice.push(Advice { unhealthy: false, what, todo: todo.to_owned(), action });
    };
    let is_told = |trouble: &[Trouble]| reasons.iter().any(|reason| trouble.contains(&reason.trouble));
    let paused = facts.origin.budget.as_ref().map_or(0, |budget| budget.paused_seconds);
    if paused > 0 && origin_fails(facts).is_none() {
        attention(
            format!(
                "No requests are sent to the origin for {}, because it failed or asked for a pause.",
                seconds(paused)
            ),
            "Wait: the pause ends by itself. If the origin often answers 429, set a lower origin.requests_per_minute.",
            None,
        );
    }
    if let Some(damage) = facts.damage.as_ref().filter(|_| !is_told(&[Trouble::Disk])) {
        let todo = if facts.origin.url.is_some() || usage == Use::Replica {
            "Wait: the server repairs the store from all readable data, and fetches the rest again."
        } else {
            "Import a bundle: its data repairs the store."
        };
        attention(format!("Stored data is damaged: {}", sentence(damage)), todo, None);
    }
    if let Some(RollbackFacts { served, newest, .. }) = &facts.rollback {
        let newest = newest.as_ref().filter(|newest| *newest != served);
        let newest = newest.map_or_else(String::new, |newest| format!(" The newest one, {}, waits.", short(newest)));
        let what = format!("A rollback is in effect: clients get snapshot {}.{newest}", short(served));
        attention(what, "Release it when clients should get the newest snapshot again.", Some(Remedy::Release));
    }
    if let Some(problem) = facts.tls.as_ref().and_then(|tls| tls.problem.as_ref()) {
        let todo = "Replace the files of tls.cert and tls.key. They are read again within seconds.";
        attention(format!("HTTPS: {}", sentence(problem)), todo, None);
    }
    if let Some(parity) = facts.parity.as_ref().filter(|parity| parity.percent < 100.0) {
        let what = format!("{:.2} % of the compared answers differ from the origin's.", 100.0 - parity.percent);
        let todo = "Look at the differences (`grandstand audit`, or Parity on the console). The server fetches that data again by itself; then compare again.";
        attention(what, todo, None);
    }
    if let Some(why) = &facts.rate_limit.why {
        let what = format!("The limit is not shared: each machine counts clients by itself. {}", sentence(why));
        let todo = "Check Redis and rate_limit.store. The server keeps trying, and shares the limit again by itself.";
        attention(what, todo, None);
    }
    if let Some(why) = facts.publish.as_ref().and_then(|publish| publish.why.as_ref()) {
        let todo = "Check what it names. The server keeps trying; its own clients notice nothing, those of the replicas \
                    get older data.";
        attention(sentence(why), todo, None);
    }
    advice
}

/// What helps if a signature is not accepted.
const TRUST: &str = "If it is your publisher's, put its public key (the second line of its .pub file) into \
                     bundle.trusted_keys and restart. If not, somebody else writes there: do not take it.";

/// Whether a text says that a signature is not accepted.
fn is_of_key(text: &str) -> bool {
    text.contains("which is not trusted")
}

/// Warnings about what somebody has asked for: how they begin.
const ASKED_FOR: [&str; 4] = [
    "rolled back",
    "rollback ended",
    "a snapshot that lost many listings was accepted",
    "the number of the last head was forgotten",
];

/// What to do about a warning or an error of the log, by what it says or by the module that logged it.
fn about(text: &str, module: &str) -> Option<&'static str> {
    let is_asked_for = ASKED_FOR.iter().any(|begin| text.starts_with(begin));
    (!is_asked_for).then(|| if is_of_key(text) { TRUST } else { about_module(module) })
}

/// What to do about a warning or an error of the log, by the module that logged it.
fn about_module(module: &str) -> &'static str {
    let module = module.strip_prefix("grandstand::").unwrap_or(module);
    ADVICE.iter().find(|(prefix, _)| module.starts_with(prefix)).map_or(
        "If it comes again, read the log around it. If that does not say what to do, report it.",
        |(_, advice)| advice,
    )
}

/// What to do by module; the first prefix that fits counts.
const ADVICE: [(&str, &str); 26] = [
    (
        "shared_limit",
        "Check Redis, and `rate_limit` in /status. Until it answers, each machine counts clients by itself.",
    ),
    (
        "telemetry::lines",
        "Check log.access_file, its disk, and what reads standard error. Requests are answered all the same.",
    ),
    ("upstream::ledger", "Check that the data directory is writable and the disk has room."),
    ("upstream::stamps", "Do nothing: the server takes the age of answers from Date instead."),
    ("upstream", "Check that the origin works and can be reached. The server keeps trying."),
    ("mirror::task::meaning", "Do nothing: queries that depend on it are forwarded to the origin."),
    ("mirror", "The server keeps trying. If the message comes again and again, look at the origin's answers."),
    ("audit", "Look at the differences (`parity` in /status). The server fetches that data again by itself."),
    ("admin::bundle", "The message says why. Correct that, and try again."),
    ("search", "The snapshot before is searched. The next publication makes another index."),
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
    ("snapshots", "Check the disk, and that the data directory is writable."),
    (
        "serve::connections",
        "Raise limits.connections and the limit of open files, or find out which client opens so many.",
    ),
    ("serve::tls", "Check the files of tls.cert and tls.key. They are read again within seconds."),
    ("serve", "If it comes again and again, look at what clients send."),
    ("cache", "Do nothing: answers stay correct and are only larger."),
    ("answer::admit", "Add the address of your proxy to client_ip.trusted_proxies, and reload."),
    ("answer", "Check the disk. Run `grandstand snapshot verify`; a restart reads the data again."),
    ("app::keeper", "Check the disk of the data directory. The server keeps trying to repair the store."),
    ("app", "The message names the file or the limit: check it. Run `grandstand status` afterwards."),
    ("cli", "Correct the configuration key that the message names, and restart."),
    ("pingora", "If it comes again and again, look at what clients send, and at the limit of open files."),
];

#[cfg(test)]
mod tests;
