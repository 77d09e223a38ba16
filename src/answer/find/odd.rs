//! Finds the answer to an odd request: ours, or what was learned of the origin's, or the origin itself.
//!
//! [`crate::snapshot::edges`] decides what is odd, and what it means. Callers: [`super`].

use std::sync::Arc;

use bytes::Bytes;
use percent_encoding::percent_decode_str;

use crate::answer::admit::OddRequest;
use crate::answer::render;
use crate::api::edges::lesson::{Family, LearnedAnswer, family};
use crate::api::edges::{Case, Odd, OddQuery, is_askable, is_word};
use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::semantics::hops::Caller;
use crate::semantics::problem::Problem;
use crate::snapshot::edges;
use crate::snapshot::edges::Decision;
use crate::snapshot::edges::apply::Applied;
use crate::snapshot::pointer::Snapshot;

use super::{Finder, Found, NamedSnapshot};

/// An answer in the origin's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Learned {
    /// The status.
    pub status: u16,
    /// `Content-Type`; `None`: the body is empty.
    pub media_type: Option<String>,
    /// Whether browsers may run such a body, so that it needs a sandbox.
    pub sandbox: bool,
    /// The body.
    pub body: Bytes,
}

/// The decision about an odd request.
pub(super) enum OddFound {
    /// Ours.
    Ours,
    /// A list.
    List(Applied),
    /// A status and a body.
    Body(Learned),
    /// The origin's answer to this path.
    Through(String),
    /// The same, if asking costs others nothing.
    Spare(String),
}

impl Learned {
    fn of(answer: &LearnedAnswer, body: String) -> Self {
        let media_type = answer.media_type.clone();
        let sandbox = media_type.as_deref().and_then(family) != Some(Family::Inert) && media_type.is_some();
        Self { status: answer.status, media_type, sandbox, body: body.into() }
    }
}

impl OddFound {
    /// `path`: the query for the origin; its odd parameters have the client's bytes.
    fn of(decision: Decision<'_>, path: impl FnOnce(&[Odd]) -> String) -> Self {
        match decision {
            Decision::Ours | Decision::AsOurs => Self::Ours,
            Decision::List(applied) => Self::List(applied),
            Decision::Body(answer, body) => Self::Body(Learned::of(answer, body)),
            Decision::Through => Self::Through(path(&[])),
            Decision::Odd(odds) => Self::Spare(path(&odds)),
        }
    }
}

impl Found {
    /// Our own answer in place of the origin's, which gave none.
    pub(super) fn provisional(self) -> Self {
        match self {
            Self::Provisional(ours) => Self::Provisional(ours),
            ours => Self::Provisional(Box::new(ours)),
        }
    }
}

impl Finder {
    /// The decision about a query that selects no listing; `None`: it is not odd.
    pub(super) fn looked_up(&self, published: &Snapshot, query: &ListQuery, raw: Option<&str>) -> Option<OddFound> {
        if !self.edges.are_used() {
            return None;
        }
        let (learned, now) = (self.edges.learned(), self.now_nanos());
        let decision = edges::of_empty(learned.as_deref(), &published.dataset, query, now)?;
        let spelled = |odds: &[Odd]| raw.and_then(|raw| OddQuery::path_of(raw, odds));
        Some(OddFound::of(decision, |odds| spelled(odds).unwrap_or_else(|| query.path_and_query())))
    }

    /// Whether the right answer is the origin's, which is asked if that costs others nothing.
    pub(super) const fn asks_about(&self, odd: &OddFound) -> bool {
        matches!(odd, OddFound::Spare(_)) && self.proxy.is_some()
    }

    /// Answers an odd request; `None`: grandstand's own answer counts. `allowed`: the origin may be asked.
    pub(super) async fn answer_odd(
        &self,
        published: &Arc<Snapshot>,
        pinned: bool,
        odd: OddFound,
        allowed: bool,
        client: &Caller,
    ) -> Option<Found> {
        match odd {
            OddFound::Body(learned) => Some(Found::Learned(learned)),
            OddFound::Through(path) if allowed => self.while_it_answers(&path, false, client).await,
            OddFound::Spare(path) if allowed => self.while_it_answers(&path, true, client).await,
            OddFound::Ours | OddFound::Through(_) | OddFound::Spare(_) => None,
            OddFound::List(applied) if self.verdicts.doubts(&applied.query).is_some() => None,
            OddFound::List(applied) => {
                let pin = pinned.then(|| published.dataset.id.as_str());
                let reply = render::odd_list(published, &applied, &self.public_url, pin).ok()?;
                let (reply, published) = (Arc::new(reply), published.clone());
                Some(Found::of_snapshot(reply, published, pinned))
            }
        }
    }

    /// Answers a query that the parser calls odd.
    pub(super) async fn odd(
        &self,
        published: Arc<Snapshot>,
        asked: OddRequest,
        client: &Caller,
    ) -> Result<Found, Problem> {
        let OddRequest { odd, ours } = asked;
        let named = self.named(published, odd.pin.as_deref())?;
        let mut is_provisional = false;
        if let Some(lessons) = self.edges.learned() {
            let decision = edges::of_odd(&lessons, &named.published.dataset, &odd, self.now_nanos());
            match OddFound::of(decision, |odds| odd.path(odds)) {
                // It has a key of its own, and perhaps a cached reply.
                OddFound::List(applied) if applied.is_ordinary() => {
                    return self.list(named, applied.query, None, false, client).await;
                }
                found => {
                    let NamedSnapshot { published, pinned, beside } = &named;
                    let allowed = beside.is_none() && !pinned && !(self.is_behind)();
                    is_provisional = allowed && self.asks_about(&found);
                    if let Some(found) = self.answer_odd(published, *pinned, found, allowed, client).await {
                        return Ok(found);
                    }
                }
            }
        }
        let ours = match ours {
            Ok(query) => self.list(named, query, None, is_provisional, client).await,
            Err(problem) => Err(problem),
        };
        if is_provisional { Ok(ours.unwrap_or_else(Found::Problem).provisional()) } else { ours }
    }

    /// Answers for the id of no listing.
    pub(super) fn unknown(&self, id: ListingId) -> Result<Found, Problem> {
        self.without_listing(&id.to_string(), Case::UnknownId)
    }

    /// Answers for an id that is no canonical number, as it came.
    pub(super) async fn no_listing(&self, id: &str, client: &Caller) -> Result<Found, Problem> {
        let text = percent_decode_str(id).decode_utf8().ok();
        let text = text.as_deref().unwrap_or(id);
        if is_word(text) {
            return self.without_listing(text, Case::IdWord);
        }
        let ours = Problem::unknown_listing(text);
        if !self.edges.are_learned() || self.proxy.is_none() || !is_askable(text) || (self.is_behind)() {
            return Err(ours);
        }
        let found = self.while_it_answers(&format!("/api/listings/{id}.json"), true, client).await;
        Ok(found.unwrap_or_else(|| Found::Problem(ours).provisional()))
    }

    fn without_listing(&self, id: &str, case: Case) -> Result<Found, Problem> {
        let learned = self.edges.learned();
        let answer = learned.as_deref().and_then(|lessons| edges::of_id(lessons.lessons.get(&case), id));
        match answer {
            Some((answer, body)) => Ok(Found::Learned(Learned::of(answer, body))),
            None => Err(Problem::unknown_listing(id)),
        }
    }

    /// The origin's own answer; `None`: it gives none. `spare`: it is asked only if that costs others nothing.
    async fn while_it_answers(&self, path: &str, spare: bool, client: &Caller) -> Option<Found> {
        let proxy = self.proxy.as_ref()?;
        let (stored, outcome) = Box::pin(proxy.read(path, false, spare, None, client)).await.ok()?;
        Some(Found::Through { stored, outcome })
    }

    fn now_nanos(&self) -> i64 {
        self.clock.now_wall().as_millis().saturating_mul(1_000_000)
    }
}
