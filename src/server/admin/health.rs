//! Health of this server: collects the findings of every place where something can be wrong, and adds what the age of the
//! data says. The places decide and word it ([`crate::telemetry::findings`]).
//!
//! Callers: [`super::status`], [`super::history`].

use std::time::Duration;

use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::config::Use;
use crate::config::rhythm::{oldest, too_late};
use crate::data::snapshot::verdicts::table::State;
use crate::origin::budget::Budget;
use crate::origin::status::{Picture, Progress};
use crate::protocol::client_address::ClientIpConfig;
use crate::tasks;
use crate::telemetry::findings::{Finding, Kind, Raised, blame};
use crate::telemetry::lines::standard_error;
use crate::words::{self, counted};

use super::status::Status;

fn too_few_threads(refused: u64) -> Option<Finding> {
    (refused > 0).then(|| {
        let text = format!("{} got no thread within 10 s and was dropped", counted(refused, "task"));
        Finding::new(Kind::ThreadsFew, text)
    })
}

/// `behind_ms`: the origin's clock; negative: it is ahead.
fn clocks_differ(behind_ms: i64) -> Finding {
    let by = words::seconds(behind_ms.unsigned_abs() / 1000);
    let (how, so) = if behind_ms < 0 { ("behind", "") } else { ("ahead of", ": replicas take the data for too old") };
    Finding::new(Kind::ClocksDiffer, format!("the clock is {by} {how} that of the origin{so}"))
}

/// Whether an origin that has failed for so long is why data is overdue for so long: a hiccup explains no old data.
fn is_why(failing: Duration, overdue: Duration, ttl: Duration) -> bool {
    2 * failing + ttl >= overdue
}

/// Why an offline server without data has nothing to answer from. A forgotten or misspelt origin makes such a server.
pub(crate) const NOTHING_TO_SERVE: &str =
    "no snapshot has been imported yet, and origin.url is not set, so there is nothing to serve";

const IMPORT: &str = "Import a bundle, for example with `grandstand bundle import FILE`. If this should be a mirror or a \
                      shield, set origin.url and restart.";
const IMPORT_NEWER: &str = "Import a newer bundle, for example with `grandstand bundle import FILE`.";
const FIRST_BUNDLE: &str = "Wait while the first bundle is downloaded. The publisher writes a missing or damaged bundle again \
                            within ten minutes, or at once after a restart. If nothing comes, check replica.url, its \
                            credentials, and that a publisher writes there.";
const NO_COPY: &str = "Check that the origin works, admits this machine and can be reached from it. There is no copy here: \
                       clients get what is cached, and errors. A mirror keeps trying; a shield does with the next request. A \
                       certificate of your own authority needs origin.ca_file.";
const REFUSED: &str = "Wait for newer data: such queries get 503 here, because only the origin knows their answer.";
const BUDGET: &str =
    "Wait: a refresh is due or runs, or it waits for the origin's budget (`origin.budget` in /status).";

impl Status {
    /// Everything that is raised, what makes the server unhealthy first.
    pub(super) fn look(&self) -> Vec<Raised> {
        self.findings.look(&self.clock, || self.wrong())
    }

    fn wrong(&self) -> Vec<Finding> {
        let (config, now, instants) = (self.settings.load(), self.clock.now_mono(), self.clock.now());
        let (published, offline) = (self.current.get(), self.usage == Use::Offline);
        let oldest = oldest(self.usage, &config);
        let picture = self.picture();
        let mut all = picture.findings();
        // A refusal has its own remedy, with data and without.
        let is_usual = |finding: &&mut Finding| finding.todo == Kind::OriginFails.todo();
        for fails in all.iter_mut().filter(|_| published.is_none()).filter(is_usual) {
            fails.todo = NO_COPY;
        }
        all.extend(self.snapshots.iter().flat_map(|snapshots| snapshots.store().findings()).map(|finding| {
            match finding.kind {
                Kind::StoreDamaged if offline => finding.todo("Import a bundle: its data repairs the store."),
                _ => finding,
            }
        }));
        all.extend(too_few_threads(tasks::refused()));
        all.extend(self.budget().into_iter().flat_map(Budget::findings));
        all.extend(self.snapshots.as_ref().and_then(|snapshots| Some(snapshots.rolled_back()?.finding())));
        all.extend(
            self.replica
                .as_ref()
                .and_then(|replica| replica.lock().finding(now, instants.wall, oldest.unwrap_or(config.ttl))),
        );
        all.extend(self.publish.iter().flat_map(|publish| publish.lock().findings()));
        all.extend(self.certificate.iter().flat_map(|certificate| certificate.findings(instants.wall)));
        all.extend(self.shared.as_ref().and_then(|shared| shared.finding()));
        // A reload may have made it trusted.
        let trusted_proxies = config.client_ip.trusted_proxies.clone();
        let client_ip = ClientIpConfig { trusted_proxies, ..ClientIpConfig::default() };
        all.extend(self.limiter.refused.findings(now, |peer| client_ip.trusts(peer)));
        all.extend(self.reloads.findings());
        all.extend(self.socket.finding());
        all.extend(self.clock.differs_from_origin_ms(config.origin.cache_ttl).map(clocks_differ));
        all.extend(self.audits.as_ref().and_then(|audits| audits.score().finding()));
        let access = self.access.load();
        let queues = standard_error().into_iter().chain(access.as_ref().map(|access| &access.lines));
        all.extend(queues.filter_map(|queue| queue.finding(now)));
        let Some(published) = published else {
            if self.usage == Use::Shield {
                // It has no data that could be old.
                for finding in &mut all {
                    finding.unhealthy = false;
                }
            } else {
                // The first copy waits for no younger copies.
                blame(&mut all, self.no_data(), &[Kind::CopiesOld, Kind::CopiesWait]);
            }
            return all;
        };
        all.extend(oldest.filter(|_| self.usage == Use::Mirror).and_then(|oldest| self.too_late(&picture, oldest)));
        let mut disproved = self.shapes(State::Disproved).unwrap_or_default();
        disproved.extend(self.doubtful_terms().iter().map(ToString::to_string));
        if !disproved.is_empty() {
            let text = format!("the origin answers these otherwise than this server would: {}", disproved.join(", "));
            let finding = Finding::new(Kind::ShapeDisproved, text);
            all.push(if self.usage == Use::Mirror { finding } else { finding.todo(REFUSED) });
        }
        all.extend(published.meta.form.told().map(|text| Finding::new(Kind::FormDiffers, text)));
        all.extend(published.dataset.total_differs().map(|text| Finding::new(Kind::TotalDiffers, text)));
        let doubtful = published.dataset.doubtful().len() as u64;
        // A mirror asks the origin, and a replica its publisher, which takes some minutes.
        let asks = !offline && now < Monotonic::from_seconds(600);
        let mut lacks = Vec::new();
        if doubtful > 0 && !asks {
            lacks.push(format!("which listings {} have is not known", counted(doubtful, "term")));
        }
        let unnamed = TaxonomyKind::ALL.map(|kind| (published.dataset.unnamed(kind), kind.parameter()));
        let unnamed = unnamed.into_iter().filter(|(count, _)| *count > 0 && (doubtful == 0 || !asks));
        let unnamed: Vec<_> =
            unnamed.map(|(count, kind)| format!("the {kind} of {}", counted(count, "listing"))).collect();
        if !unnamed.is_empty() {
            let unnamed = unnamed.join(" and ");
            lacks.push(format!("the index lacks {unnamed}: queries with other slugs are read from the origin"));
        }
        if !lacks.is_empty() {
            all.push(Finding::new(Kind::TermsIncomplete, lacks.join("; ")));
        }
        let age = published.age_seconds(instants);
        if oldest.is_some() && published.is_unconfirmed(instants.wall) {
            let text = "data not confirmed: it is dated in the future, so its age is unknown";
            all.push(Finding::new(Kind::ClockWrong, text));
        } else if let (Some(limit), Some(age)) = (oldest.map(|oldest| oldest.as_secs()), age)
            && u64::from(age) > limit
        {
            let lack = Finding::new(Kind::Unconfirmed, format!("data not confirmed for {age} s (limit {limit} s)"));
            let has_limit = self.budget().is_some_and(|budget| budget.view().limit.is_some());
            let todo = match self.usage {
                Use::Offline => IMPORT_NEWER,
                _ if has_limit => BUDGET,
                _ => lack.todo,
            };
            let overdue = Duration::from_secs(u64::from(age) - limit).min(now.since(Monotonic::from_seconds(0)));
            let failing = picture.failing().unwrap_or_default();
            let fails = (!is_why(failing, overdue, config.ttl)).then_some(Kind::OriginFails);
            // One that was seen once, long ago, explains nothing.
            let copies = picture.copy_age(self.clock.origin_lag_ms());
            let copies = copies.is_none_or(|age| age <= config.origin.cache_ttl).then_some(Kind::CopiesOld);
            let innocent: Vec<Kind> = fails.into_iter().chain(copies).collect();
            blame(&mut all, lack.todo(todo), &innocent);
        }
        all
    }

    /// Why data gets too old although the origin answers, as long as the configuration and its caches are such.
    fn too_late(&self, picture: &Picture, oldest: Duration) -> Option<Finding> {
        let (config, limit) = (self.settings.load(), self.budget()?.view().limit);
        // Much older ones have a finding of their own.
        let most = picture.old_copy().map_or(Duration::MAX, |_| config.origin.cache_ttl);
        let copies = picture.copy_age(self.clock.origin_lag_ms()).unwrap_or_default().min(most);
        let limit = limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let (text, todo) = too_late(config.ttl, oldest, copies, limit)?;
        Some(Finding::new(Kind::TtlShort, text).todo(todo))
    }

    fn no_data(&self) -> Finding {
        let finding = Finding::new(Kind::NoData, self.not_ready());
        match self.usage {
            Use::Offline => finding.todo(IMPORT),
            Use::Replica => finding.todo(FIRST_BUNDLE),
            _ => finding,
        }
    }

    pub(crate) fn ready(&self) -> Result<(), String> {
        if self.telemetry.stops() {
            return Err("the server stops".to_owned());
        }
        if self.usage == Use::Shield || self.current.get().is_some() {
            return Ok(());
        }
        let mut all = self.wrong();
        all.retain(|finding| finding.unhealthy);
        Err(all.into_iter().next().map_or_else(|| self.not_ready(), |finding| finding.text))
    }

    fn not_ready(&self) -> String {
        match (self.usage, self.picture().pass) {
            (Use::Replica, _) => self.replica.as_ref().map_or_else(String::new, |replica| replica.lock().not_ready()),
            (Use::Offline, _) => NOTHING_TO_SERVE.to_owned(),
            (_, Some(Progress { of: 0, .. })) => "the first crawl waits for the first page of the list".to_owned(),
            (_, Some(pass)) => {
                format!("the first crawl is running: {} of {} done", pass.done, counted(pass.of, "request"))
            }
            (_, None) => "the first crawl has not begun".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_got_no_thread_is_told() {
        assert_eq!(too_few_threads(0), None);
        assert_eq!(too_few_threads(3).map(|finding| finding.kind), Some(Kind::ThreadsFew));
    }

    #[test]
    fn an_origin_is_why_data_is_old_if_it_has_failed_about_as_long() {
        const DAY: u64 = 86_400;
        let ttl = 300;
        for (failing, overdue, is_its) in [
            // It failed before the data became old, or since the server started.
            (600, 1, true),
            (10, 5, true),
            (3 * DAY, 3 * DAY, true),
            // It answered meanwhile.
            (0, 3600, false),
            (20, 3 * DAY, false),
            (2 * DAY, 3 * DAY, true),
        ] {
            let [failing, overdue, ttl] = [failing, overdue, ttl].map(Duration::from_secs);
            assert_eq!(is_why(failing, overdue, ttl), is_its, "{failing:?} {overdue:?}");
        }
    }
}
