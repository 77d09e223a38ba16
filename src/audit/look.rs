//! One look at a sample: the origin's answer beside what the mirror would answer.
//!
//! It neither draws samples nor repairs. Callers: [`super::Auditor`].

use std::time::Duration;

use bytes::Bytes;

use crate::api::query::ListQuery;
use crate::api::taxonomy::VolatileKeys;
use crate::mirror::details::asked_once;
use crate::mirror::examiner::confirmed_since;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::pointer::Snapshot;
use crate::store::{DetailState, StoreError, VERDICTS};
use crate::upstream::client::{AskError, Asker};
use crate::upstream::stamps::Place;
use crate::upstream::window::Class;

use super::Auditor;
use super::compare::{self, Difference, DifferenceKind};
use super::job::Outcome;
use super::sample::Request;

/// How long a sample waits for the budget.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often a difference is compared again while the origin keeps changing.
const ROUNDS: usize = 3;

/// The mirror's answer, and the instant for which it is confirmed.
enum Ours {
    List(ListQuery, i64),
    Document(String, i64),
    Missing(i64),
}

/// The origin's answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Theirs {
    /// The status; only 200 has a text.
    status: u16,
    text: String,
    /// Its instant.
    at_ms: i64,
}

/// What a look showed.
pub(super) enum Look {
    Settled(Outcome),
    /// They differ; perhaps the origin has changed since the last refresh.
    Suspect(Theirs),
}

impl Auditor {
    /// Requests of an audit take the background's share of the budget, and wait for it.
    pub(super) fn asker() -> Asker {
        Asker { patience: Some(PATIENCE), ..Asker::mirror(Class::Background) }
    }

    /// Requests a sample and compares. `before`: the origin's answer before a refresh; only with it a difference can be
    /// settled.
    pub(super) async fn look(&self, sample: &Request, before: Option<&Theirs>) -> Look {
        match self.try_look(sample, before).await {
            Ok(look) => look,
            // The difference was seen, even if it cannot be compared any more.
            Err(reason) if before.is_some() => Look::Settled(Outcome::Undecided(reason)),
            Err(reason) => Look::Settled(Outcome::NotAnswered(reason)),
        }
    }

    async fn try_look(&self, sample: &Request, before: Option<&Theirs>) -> Result<Look, String> {
        const UNPUBLISHED: &str = "there is no snapshot";
        if before.is_some() {
            self.bring_up_to_date(sample).await?;
        }
        let published = self.shared.newest.get().ok_or(UNPUBLISHED)?;
        if self.ours(&published, sample)?.is_none() {
            return Ok(Look::Settled(Outcome::ReadThrough));
        }
        let theirs = self.ask(&sample.path(&published.meta.form)).await?;
        // Compares with the present snapshot, not with that at the time of the request.
        let published = self.shared.newest.get().ok_or(UNPUBLISHED)?;
        let Some(ours) = self.ours(&published, sample)? else {
            return Ok(Look::Settled(Outcome::ReadThrough));
        };
        let mut volatile = self.shared.copies.volatile();
        for key in published.meta.volatile.iter() {
            volatile.insert(key);
        }
        if self.differences(&published.dataset, &ours, &theirs, &volatile)?.is_empty() {
            return Ok(Look::Settled(Outcome::Equal));
        }
        let Some(before) = before else { return Ok(Look::Suspect(theirs)) };
        // A field in which even two answers of the origin differ, and nothing else does, means nothing.
        for key in volatile.learn(&before.text, &theirs.text).into_iter().flatten() {
            volatile.insert(&key);
        }
        let differences = self.differences(&published.dataset, &ours, &theirs, &volatile)?;
        if differences.is_empty() {
            return Ok(Look::Settled(Outcome::Equal));
        }
        if matches!(*sample, Request::Detail(id) if self.shared.details.is_unsettled(&published.dataset, id)) {
            let reason = "the origin's CDN returned an old copy of a detail; the detail is fetched again later";
            return Ok(Look::Settled(Outcome::NotAnswered(reason.to_owned())));
        }
        if before.status != theirs.status || volatile.hash(&before.text) != volatile.hash(&theirs.text) {
            return Ok(Look::Suspect(theirs));
        }
        self.doubt(sample, &differences);
        Ok(Look::Settled(Outcome::Different(differences)))
    }

    /// Compares suspects again after a refresh, until the answers are equal or proved different.
    pub(super) async fn confirm(
        &self,
        mut suspects: Vec<(Request, Theirs)>,
        settled: impl Fn(),
    ) -> Vec<(Request, Outcome)> {
        let mut outcomes = Vec::with_capacity(suspects.len());
        let mut reason = "the origin kept changing during the comparison";
        for _ in 0..ROUNDS {
            let at_ms = suspects.iter().map(|(_, theirs)| theirs.at_ms).max().unwrap_or(0);
            if !suspects.is_empty() && !confirmed_since(&self.shared, at_ms).await {
                reason = "the mirror could not be refreshed to compare again";
                break;
            }
            for (sample, theirs) in std::mem::take(&mut suspects) {
                match self.look(&sample, Some(&theirs)).await {
                    Look::Suspect(theirs) => suspects.push((sample, theirs)),
                    Look::Settled(outcome) => {
                        outcomes.push((sample, outcome));
                        settled();
                    }
                }
            }
        }
        outcomes.extend(suspects.into_iter().map(|(sample, _)| (sample, Outcome::Undecided(reason.to_owned()))));
        outcomes
    }

    /// Asks the origin.
    async fn ask(&self, path: &str) -> Result<Theirs, String> {
        let client = &self.shared.copies.client;
        match client.ask(path, None, Self::asker()).await {
            Ok(answer) => {
                let text = String::from_utf8(answer.body.to_vec());
                let text = text.map_err(|error| format!("GET {path}: the origin's answer is not UTF-8: {error}"))?;
                let at_ms = client.stamps().date(Place::of(path), &answer, Some(&text), None).until_ms;
                Ok(Theirs { status: answer.status, text, at_ms })
            }
            // A refusal is an answer too.
            Err(AskError::Status { status: status @ (400..=428 | 430..=499), .. }) => {
                Ok(Theirs { status, at_ms: self.shared.clock.now_wall().as_millis(), ..Theirs::default() })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The mirror's answer, from the served data; `None`: it is the origin's.
    fn ours(&self, published: &Snapshot, request: &Request) -> Result<Option<Ours>, String> {
        let (dataset, at_ms) = (&published.dataset, published.meta.confirmed_ms);
        let failed = |error: StoreError| format!("the data directory: {error}");
        Ok(match request {
            Request::List(query) if self.shared.verdicts.doubts(query).is_some() => None,
            Request::List(query) if dataset.find(query).is_err() => None,
            Request::List(query) => {
                Some(Ours::List(query.clone().within(dataset.content.envelope.largest_page), at_ms))
            }
            Request::Taxonomy(kind) => Some(Ours::Document(dataset.content.taxonomy(*kind).to_owned(), at_ms)),
            Request::Detail(id) if dataset.summary(*id).is_none() => Some(Ours::Missing(at_ms)),
            Request::Detail(id) => self.shared.details.get(*id).map_err(failed)?.map(|record| {
                let (text, at_ms) = (String::from_utf8_lossy(&record.body), record.meta.origin_time_ms);
                let is_gone = record.meta.state == DetailState::Gone;
                if is_gone { Ours::Missing(at_ms) } else { Ours::Document(text.into_owned(), at_ms) }
            }),
        })
    }

    /// Where both answers differ. The message of `Err` says why they cannot be compared.
    fn differences(
        &self,
        dataset: &Dataset,
        ours: &Ours,
        theirs: &Theirs,
        volatile: &VolatileKeys,
    ) -> Result<Vec<Difference>, String> {
        let status = |ours| vec![Difference::new(DifferenceKind::Status, "", ours, &theirs.status.to_string())];
        let (differences, confirmed_ms) = match (ours, theirs.status) {
            (Ours::Missing(at_ms), 200) => (status("404"), *at_ms),
            // Which refusal it is the documentation leaves open.
            (Ours::Missing(_), _) => return Ok(Vec::new()),
            (Ours::List(query, at_ms), 200) => {
                let body = Bytes::copy_from_slice(theirs.text.as_bytes());
                let page = self.shared.copies.page_in(&query.path_and_query(), &body);
                let (_, page) = page.ok_or("the origin's answer is not a list")?;
                (compare::lists(dataset, query, &page).unwrap_or_default(), *at_ms)
            }
            (Ours::Document(text, at_ms), 200) => {
                (compare::documents(text, &theirs.text, volatile).into_iter().collect(), *at_ms)
            }
            (Ours::List(_, at_ms) | Ours::Document(_, at_ms), _) => (status("200"), *at_ms),
        };
        if !differences.is_empty() && theirs.at_ms < confirmed_ms {
            return Err("the origin's CDN returned a copy older than the mirror's".to_owned());
        }
        Ok(differences)
    }

    /// Tells the examiner of a confirmed difference in what a filter selects.
    fn doubt(&self, sample: &Request, differences: &[Difference]) {
        let Request::List(query) = sample else { return };
        let is_meaning = |kind| matches!(kind, DifferenceKind::Field | DifferenceKind::Ids);
        if !query.is_filtered() || !differences.iter().all(|difference| is_meaning(difference.what)) {
            return;
        }
        tracing::warn!(request = %sample, "the origin's filters select other listings than the mirror's");
        self.shared.verdicts.doubt(query, self.shared.clock.now_wall().as_millis());
        // A command ends before it is asked again.
        if let Err(error) = self.shared.store.put_json(VERDICTS, &self.shared.verdicts.table()) {
            tracing::warn!(%error, "what differs could not be stored");
        }
    }

    /// Fetches a detail that is known to be older than its summary.
    async fn bring_up_to_date(&self, request: &Request) -> Result<(), String> {
        let (Request::Detail(id), Some(published)) = (request, self.shared.newest.get()) else { return Ok(()) };
        let hash = published.dataset.summary(*id).map(|summary| summary.hash);
        let record = self.shared.details.get(*id).map_err(|error| error.to_string())?;
        let known = record.map(|record| record.meta.summary_hash);
        if known.is_some() && (known == hash || known == hash.map(asked_once)) {
            return Ok(());
        }
        self.fetch_detail(&published, *id).await
    }
}
