//! Learns how the origin answers odd requests: two probes a case, out of the background's share of the budget.
//!
//! [`probes`] has the requests, [`plan`] says when and how often they are sent,
//! [`crate::api::edges::lesson::judge`] judges the answers. It publishes nothing. Callers: [`crate::app`] runs it.

mod plan;
mod probes;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;

use crate::api::edges::lesson::{Came, MOST_BODY, Said, Seen};
use crate::semantics::excerpt::Excerpt;
use crate::snapshot::edges::apply::fits;
use crate::store::LEARNED;
use crate::upstream::client::{Answer, AskError, Asker};
use crate::upstream::window::Class;

use super::MirrorContext;
use plan::{EdgeQuestion, EdgeStep, Evidence, RoundFacts};
use probes::Probe;

/// The key of the stored answers to the probes.
const EVIDENCE: &str = "edges/evidence";

/// The longest sleep: the wall clock may jump meanwhile, and a refresh may happen.
const TICK: Duration = Duration::from_secs(5);

/// After a request that failed.
const PAUSE: Duration = Duration::from_secs(10);

/// How long the questions wait for details that do not come.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// The learner: asks each question twice, at least a `ttl` apart.
pub struct EdgeLearner(pub MirrorContext);

impl EdgeLearner {
    /// Asks until the process ends.
    pub async fn run(self) {
        let mut evidence = self.restored();
        let began = self.0.clock.now_mono();
        loop {
            let facts = RoundFacts {
                now_ms: self.0.clock.now_wall().as_millis(),
                apart: self.0.settings.load().ttl,
                refreshed_ms: self.0.copies.client.status().picture().refreshed_ms,
            };
            let waited = self.0.clock.now_mono().since(began) >= PATIENCE;
            let wait = match plan::next(&evidence, &facts) {
                EdgeStep::Begin if self.is_mirrored() || (waited && self.0.newest.load().is_some()) => {
                    evidence.begin(self.0.copies.client.base().as_str());
                    self.keep(&evidence);
                    None
                }
                EdgeStep::Begin => Some(Duration::from_secs(1)),
                EdgeStep::Ask(question, round) => self.ask(&mut evidence, question, round).await,
                EdgeStep::Judge => {
                    self.judge(&mut evidence, facts.now_ms);
                    None
                }
                EdgeStep::Wait(wait) => Some(wait),
            };
            if let Some(wait) = wait {
                tokio::time::sleep(wait.min(TICK)).await;
            }
        }
    }

    /// What came of the questions before a restart, if they were put to this origin.
    fn restored(&self) -> Evidence {
        let kept = self.0.store.state_json::<Evidence>(EVIDENCE).unwrap_or_else(|error| {
            tracing::warn!(%error, "the stored answers to odd requests cannot be read; the origin is asked again");
            None
        });
        let evidence = kept.filter(|kept| kept.origin == self.0.copies.client.base().as_str()).unwrap_or_default();
        self.0.edges.set_probes(evidence.sent, evidence.filters_sent());
        evidence
    }

    fn keep(&self, evidence: &Evidence) {
        self.0.edges.set_probes(evidence.sent, evidence.filters_sent());
        if let Err(error) = self.0.store.put_json(EVIDENCE, evidence) {
            tracing::warn!(%error, "what the origin answered to odd requests could not be stored");
        }
    }

    /// Whether everything is mirrored that is wanted: a first crawl comes before the questions.
    fn is_mirrored(&self) -> bool {
        let Some(published) = self.0.newest.get() else { return false };
        match self.0.details.all_wanted() {
            None => false,
            Some(false) => true,
            Some(true) => self.0.details.mirrored(&published.dataset) == published.dataset.len(),
        }
    }

    /// Sends a request; returns how long to wait before the next one.
    async fn ask(&self, evidence: &mut Evidence, question: EdgeQuestion, round: usize) -> Option<Duration> {
        let Some(published) = self.0.newest.get() else { return Some(TICK) };
        let probe = Probe::of(question, round, &published.dataset);
        drop(published);
        if let Some(probe) = probe {
            let most = if let EdgeQuestion::Odd(_) = question { MOST_BODY as u64 } else { probes::MOST };
            // Stored before it is sent: whatever happens then, it counts.
            *evidence.sent(question) += 1;
            self.keep(evidence);
            let asked =
                self.0.copies.client.probe(&Method::GET, probe.path(), most, Asker::mirror(Class::Background)).await;
            match &asked {
                Err(AskError::Spent(_)) => {
                    *evidence.sent(question) -= 1;
                    self.keep(evidence);
                    return Some(PAUSE);
                }
                Err(error) if !matches!(error, AskError::TooLarge { .. }) && evidence.retries(question) => {
                    tracing::debug!(path = probe.path(), %error, "a question about odd requests is asked again later");
                    self.keep(evidence);
                    return Some(PAUSE);
                }
                _ => tracing::debug!(path = probe.path(), "asked how the origin answers an odd request"),
            }
            let said = match (question, asked) {
                (EdgeQuestion::Odd(_), Ok(answer)) => self.said(&probe, &answer),
                (EdgeQuestion::Known(_), Ok(answer)) => probes::said_of_filter(answer.status, &answer.body),
                (EdgeQuestion::Known(_), Err(AskError::TooLarge { .. })) => probes::another_answer(200),
                (_, Err(AskError::TooLarge { .. })) => Said::Never(format!("the body has more than {MOST_BODY} bytes")),
                // Without an answer, the documented meaning stays.
                (_, Err(error)) => Said::Never(Excerpt(&error).to_string()),
            };
            self.saw(evidence, question, probe.told(), said);
        } else {
            self.saw(evidence, question, Vec::new(), Said::Never("the data does not allow a probe".to_owned()));
        }
        None
    }

    fn saw(&self, evidence: &mut Evidence, question: EdgeQuestion, told: Vec<String>, said: Said) {
        evidence.saw(question, Seen { told, said, at_ms: self.0.clock.now_wall().as_millis() });
        self.keep(evidence);
    }

    /// What an answer to a probe says.
    fn said(&self, probe: &Probe, answer: &Answer) -> Said {
        let media_types: Vec<Option<&str>> =
            answer.headers.get_all(CONTENT_TYPE).iter().map(|value| value.to_str().ok()).collect();
        let came = Came { status: answer.status, media_types: &media_types, body: &answer.body };
        // What was published meanwhile is what the origin spoke of.
        let Some(newest) = self.0.newest.get() else { return Said::of(came) };
        if let Probe::List { rest, odd, .. } = probe
            && came.status == 200
            && came.body.len() <= MOST_BODY
            && let Some(fits) = fits(&newest.dataset, rest, odd, came.body)
        {
            return Said::List(fits);
        }
        // A list where none is expected is data, which does not stand still.
        let is_list = came.status == 200
            && serde_json::from_slice::<serde_json::Value>(came.body).is_ok_and(|value| value.get("items").is_some());
        if is_list { Said::Never("the answer is a list".to_owned()) } else { Said::of(came) }
    }

    fn judge(&self, evidence: &mut Evidence, now_ms: i64) {
        let learned = evidence.judge(now_ms);
        let (lessons, own) = (learned.lessons.len(), learned.own.len());
        tracing::info!(lessons, own, probes = learned.probes, "learned how the origin answers odd requests");
        for (case, why) in &learned.own {
            tracing::debug!(case = case.as_str(), why, "nothing is learned of a case");
        }
        if let Err(error) = self.0.store.put_json(LEARNED, &learned) {
            tracing::warn!(%error, "what was learned of odd requests could not be stored");
        }
        self.0.edges.set(Some(Arc::new(learned)));
        self.keep(evidence);
    }
}
