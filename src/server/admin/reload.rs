//! `POST /reload`, and the last reload in `/status`.
//!
//! It reads no configuration and changes nothing itself: [`crate::server`] does. Callers: [`super::Admin`],
//! [`super::status`]; [`crate::server`] makes the reports.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::StatusCode;

use crate::protocol::excerpt::Excerpt;
use crate::telemetry::findings::{Finding, Kind};

use super::facts::ReloadFacts;
use super::{Reply, error, json_reply, problem_reply};

/// The last reload; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reloads {
    last: Arc<ArcSwapOption<ReloadFacts>>,
    /// The last one that was put into effect.
    applied: Arc<ArcSwapOption<ReloadFacts>>,
}

/// A restart reads what the reload has read.
const CORRECT_FIRST: &str = "Correct the configuration before you restart the server: it would not start.";

impl Reloads {
    pub(crate) fn record(&self, report: ReloadFacts) {
        let report = Arc::new(report);
        if report.ok {
            self.applied.store(Some(report.clone()));
        }
        self.last.store(Some(report));
    }

    /// `None` before the first reload.
    pub(super) fn last(&self) -> Option<ReloadFacts> {
        self.last.load().as_deref().cloned()
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let at = |report: &ReloadFacts| report.at.clone().unwrap_or_default();
        let (last, applied) = (self.last.load(), self.applied.load());
        let failed = last.as_ref().filter(|report| !report.ok).map(|report| {
            let text = format!("the reload at {} failed: {}", at(report), report.errors.join("; "));
            Finding::new(Kind::ReloadFailed, Excerpt(text))
        });
        let waits = applied.as_ref().filter(|report| !report.needs_restart.is_empty()).map(|report| {
            let keys = report.needs_restart.join(", ");
            let text = format!("as of {}, changed keys take effect at the next start: {keys}", at(report));
            let finding = Finding::new(Kind::RestartNeeded, text);
            if failed.is_some() { finding.todo(CORRECT_FIRST) } else { finding }
        });
        failed.into_iter().chain(waits).collect()
    }
}

/// Reads the configuration again and puts it into effect; it blocks. `None`: this process has none to read.
pub(crate) type Reloader = Arc<dyn Fn() -> Option<ReloadFacts> + Send + Sync>;

/// Reloads, and reports how that ended: 200, or 422 with every mistake.
pub(super) async fn answer(reloader: &Reloader) -> Reply {
    let reload = reloader.clone();
    let report = match tokio::task::spawn_blocking(move || reload()).await {
        Ok(Some(report)) => report,
        Ok(None) => return error(StatusCode::CONFLICT, "this server was started without a configuration to read"),
        Err(gone) => {
            let why = format!("internal error: the task was aborted ({gone})");
            return error(StatusCode::INTERNAL_SERVER_ERROR, &why);
        }
    };
    if report.errors.is_empty() {
        return json_reply(StatusCode::OK, &report);
    }
    let mut problem = serde_json::to_value(&report).unwrap_or_default();
    let mistakes = report.errors.join("; ");
    problem["title"] = "Unprocessable Content".into();
    problem["detail"] = format!("the configuration has mistakes, so nothing has changed: {mistakes}").into();
    problem_reply(StatusCode::UNPROCESSABLE_ENTITY, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_waits_until_the_configuration_is_correct() {
        let reloads = Reloads::default();
        let todo = || reloads.findings().last().unwrap().todo;
        let needs_restart = vec!["data_dir".to_owned()];
        reloads.record(ReloadFacts { ok: true, needs_restart, ..ReloadFacts::default() });
        assert_eq!(todo(), Kind::RestartNeeded.todo());
        reloads.record(ReloadFacts { ok: false, ..ReloadFacts::default() });
        assert_eq!(todo(), CORRECT_FIRST);
    }
}
