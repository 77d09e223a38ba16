//! Findings: all that is ever said about one thing that is wrong.
//!
//! Where something can be wrong, a function says whether it is, as a [`Finding`]. [`Findings`] remembers what is raised
//! and logs the beginning and the end of each once. `/status`, the console, `grandstand status` and its exit code,
//! `grandstand_finding` and the line for service managers are views of it. `docs/findings.md` is made of the table:
//! `GRANDSTAND_GOLDEN=write cargo test --locked --lib findings_page`. Callers: all who find something wrong;
//! [`crate::server::admin`] looks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Monotonic, WallTime};

/// For how long a finding stays after it is right again, unless it made the server unhealthy: so none flaps.
const KEPT: Duration = Duration::from_secs(60);

/// Whether a finding makes the server unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    No,
    Yes,
    /// Once the data is too old, or there is none, and this is why.
    Old,
}

macro_rules! kinds {
    ($(#[doc = $when:literal] $kind:ident $name:literal $weight:ident $todo:literal;)+) => {
        /// What can be wrong, the most pressing first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind { $(#[doc = $when] $kind,)+ }

        impl Kind {
            pub(crate) const ALL: &[Self] = &[$(Self::$kind,)+];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            const fn weight(self) -> Weight {
                match self { $(Self::$kind => Weight::$weight,)+ }
            }

            /// What to do, if the place where it arises knows nothing better.
            pub(crate) const fn todo(self) -> &'static str {
                match self { $(Self::$kind => $todo,)+ }
            }

            /// What it is about, as documented here.
            #[cfg(test)]
            const fn when(self) -> &'static str {
                match self { $(Self::$kind => $when,)+ }
            }
        }
    };
}

kinds! {
    /// The data directory has no room.
    DiskFull "disk-full" Yes
        "Make room on that disk. What is stored is served.";
    /// The data directory or its file system is read-only.
    DiskReadOnly "disk-read-only" Yes
        "See whether the file system was remounted read-only (`findmnt`, `dmesg`). If not, make the directory writable for the user of the server. What is stored is served.";
    /// Reading or writing the data directory fails in another way.
    DiskFails "disk-fails" Yes
        "Check that disk (`dmesg`, `smartctl`). What is stored is served.";
    /// Work that blocks, as all that reads the disk does, found no free thread for 10 seconds and was dropped.
    ThreadsFew "no-threads" No
        "See whether the disk answers (`dmesg`, `iostat -x`): work that waits for it holds the threads. If it does, the machine has too much to do. Clients get 503 for what was dropped.";
    /// Stored data is damaged and is not repaired yet.
    StoreDamaged "store-damaged" Yes
        "Wait: the server repairs the store from all readable data, and fetches the rest again.";
    /// A new snapshot would lose more listings than `mirror.max_shrink` allows.
    HeldBack "held-back" Yes
        "Check whether the origin really lost these listings (`held` in /status names some). If so, run `grandstand snapshot accept`. If not, wait: each refresh checks it again.";
    /// A rollback is in effect.
    RolledBack "rolled-back" Old
        "Release it (`grandstand snapshot release`) when clients should get the newest snapshot again.";
    /// What the object store has is signed by a key that is not trusted, or not signed.
    SignatureRefused "signature-refused" Old
        "If it is your publisher's key, put it (the second line of its .pub file) into bundle.trusted_keys and restart. If not, somebody else writes there: do not take it.";
    /// A replica cannot read the object store, or what is there is old.
    ReplicaFails "replica-fails" Old
        "Check that this machine can read the object store (replica.url, its credentials), and that the publisher runs and is healthy. What is stored is served.";
    /// The origin cannot be reached, refuses requests, answers with errors, or sends answers that cannot be used.
    OriginFails "origin-fails" Old
        "Check that the origin works, that this machine can reach it, and that its certificate is trusted (origin.ca_file). What is stored is served.";
    /// The origin's answers change back and forth, so that changes are followed seldom.
    AnswersFlip "answers-flip" Old
        "Nothing, while the origin is being deployed. Otherwise, let all its machines give the same answers.";
    /// The data is dated in the future, so that its age is unknown.
    ClockWrong "clock-wrong" Yes
        "Set the clock of this machine, or of the machine that the data came from, for example with NTP.";
    /// There is nothing to serve yet, and nothing else says why.
    NoData "no-data" Yes
        "Wait until every page of the origin is read. Until then the server forwards requests to the origin.";
    /// A mirror cannot confirm its data within 3 x `ttl`: copies of caches before the origin are too old, or the budget is too small.
    TtlShort "ttl-too-short" Old
        "Set ttl to a longer time.";
    /// The data was not confirmed within 3 x `ttl`, or is older than `bundle.max_age`, and nothing else says why.
    Unconfirmed "unconfirmed" Yes
        "Wait: a refresh is due or runs.";
    /// Details cannot be fetched: none, or some again and again.
    DetailsFail "details-fail" No
        "Look at the origin's answers to `/api/listings/{id}.json`. Clients get the stored details; the server asks for the others more and more seldom.";
    /// Single listings in the origin's list are no JSON, or have no valid id, and are left out.
    ListingsBroken "listings-broken" No
        "Tell the provider: the rest is served, and the listings come back once they can be read.";
    /// A change is read again once old copies in caches before the origin have expired.
    CopiesWait "waits-for-copies" Old
        "Nothing. `POST /refresh` asks at once.";
    /// A cache before the origin sends copies older than `origin.cache_ttl`.
    CopiesOld "old-copies" Old
        "Set origin.cache_ttl to the time for which that cache keeps its copies, or shorten that time.";
    /// The origin's answers differ at each look although no `modified` does.
    AnswersUnsteady "answers-unsteady" No
        "Nothing: other bytes alone are no change. If you run the origin, send equal data as equal bytes.";
    /// The clocks of this machine and of the origin differ by more than a minute.
    ClocksDiffer "clocks-differ" No
        "Set this machine's clock, for example with NTP, or tell the provider. Ages are right, instants are not.";
    /// The origin states another number of listings than its pages show.
    TotalDiffers "total-differs" No
        "Nothing: lists show its total, and what is not known here is forwarded. If you run the origin, count what its pages show.";
    /// The origin forbids a shield to store its answers, several times in a row.
    NotStored "not-stored" No
        "If these answers are the same for everybody, let the origin send `Cache-Control: public` with a `max-age`, or run a mirror (mirror.enabled = true).";
    /// The publisher cannot bring the object store up to date.
    PublishFails "publish-fails" No
        "Check what it names. The server keeps trying; clients of the replicas get older data.";
    /// Another publisher has written a later head to this publisher's place.
    PublishRival "publish-rival" No
        "Stop one of the two publishers, or give each a prefix of its own (publish.url). This one writes nothing until that head is ten minutes old, or until it is restarted.";
    /// The object store ignores the conditions of writes.
    PublishUnconditional "publish-unconditional" No
        "Nothing, with one publisher for this prefix. Of two that write at once the last head wins, and neither notices.";
    /// The limit on clients is not shared, although rate_limit.store is set.
    LimitAlone "limit-not-shared" No
        "Check Redis and rate_limit.store. Until it answers, each machine counts clients by itself.";
    /// The last reload found mistakes in the configuration.
    ReloadFailed "reload-failed" No
        "Correct the configuration (`grandstand check` finds mistakes), and reload. The values from before are in effect; a restart would fail, or begin with others.";
    /// Reloads changed keys that take effect at the next start.
    RestartNeeded "restart-needed" No
        "Restart the server when it suits you.";
    /// The socket `admin.sock`, by which commands find this server, could not be made in the data directory.
    SocketMissing "no-admin-socket" No
        "Commands on this machine use admin.listen (or --admin) until then; the server tries again. If the path is too long, or the file system has no sockets, set another data_dir.";
    /// New files of tls.cert and tls.key cannot be used, so that the certificate before stays.
    CertificateFiles "certificate-files" No
        "Replace the files. They are read again within seconds.";
    /// The HTTPS certificate ends within a week, has ended, is not valid yet, or is that of an authority.
    CertificateEnds "certificate-ends" No
        "Replace the files of tls.cert and tls.key: they are read within seconds.";
    /// Clients behind one proxy that is not trusted were refused (429).
    ProxyUntrusted "proxy-untrusted" No
        "If it is your proxy, add its address to client_ip.trusted_proxies, set client_ip.header to the header that it sends, and reload.";
    /// One address was refused (429) a hundred times and more within an hour.
    ClientRefused "client-refused" No
        "If it is a proxy, let it send X-Forwarded-For, and add its address to client_ip.trusted_proxies. If it is a client of yours, give it a limit of its own (rate_limit.override).";
    /// Answers that were compared differ from the origin's.
    AnswersDiffer "answers-differ" No
        "Look at the differences (`grandstand audit`). The server fetches that data again by itself; then compare again.";
    /// Which listings some terms have is not known, so that their queries are read from the origin.
    TermsIncomplete "terms-incomplete" No
        "Nothing: a mirror asks the origin as its budget allows, a replica gets what its publisher knows. Offline, import a bundle of a later snapshot.";
    /// The origin answers a kind of query otherwise than this server would.
    ShapeDisproved "shape-disproved" No
        "Nothing: such queries are forwarded to the origin.";
    /// The origin refused two open cases that clients asked for within an hour (401, 403, 406, 407, 421, 429, 451 or 5xx).
    OpenCasesEnded "open-cases-ended" No
        "Nothing: for an hour such requests are not forwarded, so that the origin does not ban this server. They get what is stored, or 503.";
    /// The origin's lists have another form than is documented.
    FormDiffers "form-differs" No
        "Nothing: this server's lists have that form, too. Fields that depend on the filters are missing in filtered lists.";
    /// The store was damaged and was repaired within the last day.
    StoreRepaired "store-repaired" No
        "Check the disk (`dmesg`, `smartctl`) and the memory. What was lost is fetched again.";
    /// Lines of the log or the access log were lost within the last ten minutes.
    LinesLost "log-lines-lost" No
        "Check what reads standard error, log.access_file and its disk. Requests are answered all the same.";
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub kind: Kind,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub todo: &'static str,
    /// Whether it makes the server unhealthy.
    pub unhealthy: bool,
    /// Why, in words that stay while numbers and names in the text change; empty: the kind says it.
    pub cause: &'static str,
}

impl Finding {
    #[expect(clippy::needless_pass_by_value, reason = "most make a text for it")]
    pub(crate) fn new(kind: Kind, text: impl ToString) -> Self {
        let unhealthy = kind.weight() == Weight::Yes;
        Self { kind, text: text.to_string(), todo: kind.todo(), unhealthy, cause: "" }
    }

    /// With something better to do.
    pub(crate) fn todo(self, todo: &'static str) -> Self {
        Self { todo, ..self }
    }

    /// One cause of several: another one is logged.
    pub(crate) fn because(self, cause: &'static str) -> Self {
        Self { cause, ..self }
    }
}

/// A finding as `/status` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Raised {
    pub name: String,
    /// Whether it makes the server unhealthy.
    pub unhealthy: bool,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub todo: String,
    /// When it was seen first.
    pub since: Option<String>,
}

/// What the data lacks: `text` says it of data that is too old or not there. The first finding that can be the cause says
/// it too; without one it is a finding of its own. `innocent`: what cannot be the cause this time.
pub(crate) fn blame(all: &mut Vec<Finding>, lack: Finding, innocent: &[Kind]) {
    all.sort_by_key(|finding| finding.kind);
    let explains = |finding: &&mut Finding| finding.kind.weight() != Weight::No && !innocent.contains(&finding.kind);
    match all.iter_mut().find(explains) {
        Some(cause) if cause.unhealthy => {}
        Some(cause) => {
            cause.text = format!("{}: {}", lack.text, cause.text);
            cause.unhealthy = true;
        }
        None => all.push(lack),
    }
}

#[derive(Clone, Debug)]
struct KnownFinding {
    finding: Finding,
    since: WallTime,
    /// Since when it is not there any more; `None`: it is.
    over: Option<Monotonic>,
    /// The causes that were logged, each with whether it made the server unhealthy. A serious one that was over is logged
    /// again.
    logged: Vec<(&'static str, bool)>,
}

impl KnownFinding {
    /// Takes in what is there now, and logs a cause that is new, or serious now: each once, however often they take turns.
    fn is_there(&mut self, finding: Finding) {
        let Finding { cause, unhealthy, .. } = finding;
        if self.over.is_some() {
            self.logged.retain(|(_, serious)| !serious);
        }
        (self.finding, self.over) = (finding, None);
        let is_logged = |(logged, serious): &(&'static str, bool)| *logged == cause && *serious >= unhealthy;
        if !self.logged.iter().any(is_logged) {
            self.logged.push((cause, unhealthy));
            log(&self.finding);
        }
    }

    fn raised(&self) -> Raised {
        let Self { finding: Finding { kind, text, todo, unhealthy, .. }, since, over, .. } = self;
        let (name, since, unhealthy) = (kind.name().to_owned(), since.rfc3339(), *unhealthy);
        match over {
            None => Raised { name, unhealthy, text: text.clone(), todo: (*todo).to_owned(), since },
            Some(_) => Raised { name, unhealthy, text: format!("no longer: {text}"), todo: OVER.to_owned(), since },
        }
    }
}

/// What to do about what is not there any more.
const OVER: &str = "Nothing: it is over, and is shown for a minute.";

/// What is raised; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(Arc<Mutex<Vec<KnownFinding>>>);

impl Findings {
    /// Asks what is wrong now, and returns what is raised, the unhealthy ones first. Of each kind there is one.
    pub(crate) fn look(&self, clock: &Clock, now: impl FnOnce() -> Vec<Finding>) -> Vec<Raised> {
        // No two looks at once, so that an older one does not undo a later one.
        // Lock order: this one first. `now` takes those of the parts, one after the other, and none of them looks.
        let mut all = self.0.lock();
        let (mut now, mono, wall) = (now(), clock.now_mono(), clock.now_wall());
        now.sort_by_key(|finding| finding.kind);
        now.dedup_by_key(|finding| finding.kind);
        all.retain_mut(|known| {
            if now.iter().any(|finding| finding.kind == known.finding.kind) {
                return true;
            }
            let over = *known.over.get_or_insert(mono);
            let stays = !known.finding.unhealthy && mono.since(over) < KEPT;
            if !stays {
                tracing::info!(finding = known.finding.kind.name(), "no longer: {}", known.finding.text);
            }
            stays
        });
        for finding in now {
            if let Some(known) = all.iter_mut().find(|known| known.finding.kind == finding.kind) {
                known.is_there(finding);
            } else {
                let mut known = KnownFinding { finding: finding.clone(), since: wall, over: None, logged: Vec::new() };
                known.is_there(finding);
                all.push(known);
            }
        }
        // What is over comes last.
        all.sort_by_key(|known| (known.over.is_some(), !known.finding.unhealthy, known.finding.kind));
        all.iter().map(KnownFinding::raised).collect()
    }
}

/// Logs that a finding was raised, has another cause, or has become serious.
fn log(finding: &Finding) {
    let Finding { kind, text, todo, unhealthy, .. } = finding;
    let finding = kind.name();
    match (kind, unhealthy) {
        // Logged where they happen.
        (Kind::ReloadFailed | Kind::LinesLost | Kind::CertificateFiles, _) => {}
        // Of everyday: a first copy begins, a change waits, something is not known yet.
        (Kind::NoData | Kind::CopiesWait | Kind::TermsIncomplete | Kind::ShapeDisproved, _) => {
            tracing::info!(finding, todo, "{text}");
        }
        (_, true) => tracing::error!(finding, todo, "{text}"),
        (_, false) => tracing::warn!(finding, todo, "{text}"),
    }
}

#[cfg(test)]
mod tests;
