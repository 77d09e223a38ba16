//! Answers to open cases, which are odd requests such as `page=0` ([`crate::api::odd`] has the table of them): by the
//! meaning that the examiner found for the row of the table, else the origin's own answer.
//!
//! [`crate::data::snapshot::odd`] says which row a request belongs to, and what it selects. What the table itself says
//! counts only where nobody can be asked. Callers: [`super`].

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::api::odd::{Meaning, Odd, OddQuery, Row, is_askable, is_word};
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::odd::{self, Applied, Decision};
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::answer::admit::OddRequest;
use crate::edge::answer::render;
use crate::protocol::hops::Caller;
use crate::protocol::problem::Problem;

use super::{Finder, Found, NamedSnapshot};

pub(super) enum OddFound {
    /// As it stands, by the meaning of its row.
    AsAsked,
    List(Applied),
    Problem(Problem),
    /// The origin's answer to this path.
    Through(String),
    /// By the table: nobody can be asked.
    Table,
}

impl Finder {
    /// Whether the origin may be asked beside this snapshot: not if the client named it, because the origin has only its
    /// present data.
    pub(super) fn may_ask(&self, named: &NamedSnapshot) -> bool {
        !named.pinned && self.may_ask_at_all()
    }

    fn may_ask_at_all(&self) -> bool {
        self.proxy.is_some() && !self.current.view().is_behind()
    }

    /// How a query is answered that selects no listing; `None`: nothing is odd about it.
    pub(super) fn looked_up(&self, named: &NamedSnapshot, query: &ListQuery, raw: Option<&str>) -> Option<OddFound> {
        let known = |row| self.verdicts.meaning(row);
        let published = &named.published;
        let form = &published.meta.form;
        let decision = odd::of_empty(known, &published.dataset, query, form.page_size, self.now_nanos())?;
        if self.verdicts.are_ignored() {
            return Some(OddFound::AsAsked);
        }
        Some(Self::odd_found(decision, spelled(published, query, raw), self.may_ask(named)))
    }

    /// Where the origin is asked for slugs that no term has, where no meaning of theirs counts, or why it is not; `None`:
    /// there are none, or nobody can be asked. `true`: the client chose the bytes; plain slugs that an index may lack count as
    /// ordinary values.
    pub(super) fn of_unknown_slugs(
        &self,
        named: &NamedSnapshot,
        query: &ListQuery,
        raw: Option<&str>,
    ) -> Option<Result<(String, bool), Problem>> {
        let published = &named.published;
        let odds = odd::unknown_slugs(&published.dataset, query);
        if odds.is_empty() || !self.may_ask(named) {
            return None;
        }
        let is_plain = |slug: &str| slug.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        let may_be_a_term = |odd: &Odd| {
            let kind = TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == odd.parameter);
            kind.is_some_and(|kind| published.dataset.unnamed(kind) > 0) && odd.values.iter().all(|slug| is_plain(slug))
        };
        if odds.iter().all(may_be_a_term) {
            return Some(Ok((published.meta.form.path_of(query), false)));
        }
        Some(askable(&odds, spelled(published, query, raw)).map(|path| (path, true)))
    }

    /// `path`: the query for the origin, with the client's bytes for these values.
    fn odd_found(decision: Decision, path: impl Fn(&[Odd]) -> String, may_ask: bool) -> OddFound {
        match decision {
            Decision::AsAsked => OddFound::AsAsked,
            Decision::List(applied) => OddFound::List(applied),
            Decision::Refused(status, odd) => OddFound::Problem(refused(status, &odd)),
            Decision::Unknown(_) if !may_ask => OddFound::Table,
            Decision::Unknown(odds) => askable(&odds, path).map_or_else(OddFound::Problem, OddFound::Through),
        }
    }

    pub(super) async fn odd_list(
        &self,
        named: NamedSnapshot,
        applied: Applied,
        client: &Caller,
    ) -> Result<Found, Problem> {
        // It has a key of its own, and perhaps a cached reply.
        if applied.empty == odd::Empty::No {
            return Box::pin(self.list(named, applied.query, None, client)).await;
        }
        let NamedSnapshot { published, pinned, .. } = named;
        let pin = pinned.then(|| published.dataset.id.as_str());
        let reply = render::odd_list(&published, &applied, &self.public_url, pin);
        let reply =
            reply.map_err(|_doubt| Problem::unavailable("The listings of this query are in doubt").after(60))?;
        Ok(Found::of_snapshot(Arc::new(reply), published, pinned))
    }

    pub(super) async fn odd(
        &self,
        published: Arc<Snapshot>,
        asked: OddRequest,
        client: &Caller,
    ) -> Result<Found, Problem> {
        let OddRequest { odd, ours } = asked;
        let named = self.named(published, odd.pin.as_deref())?;
        let page_size = named.published.meta.form.page_size;
        let ours = ours.map(|ours| if odd.has_size() { ours } else { ListQuery { per_page: page_size, ..ours } });
        if self.verdicts.are_ignored() {
            return self.list(named, ours?, None, client).await;
        }
        let may_ask = self.may_ask(&named);
        let known = |row| self.verdicts.meaning(row);
        let decision = odd::of_odd(known, &named.published.dataset, &odd, page_size, self.now_nanos());
        match Self::odd_found(decision, |odds| odd.path(odds), may_ask) {
            // Which listings it is without is the origin's to say.
            OddFound::List(applied)
                if applied.empty == odd::Empty::Page && self.verdicts.doubts(&applied.query).is_some() =>
            {
                if !may_ask {
                    return Err(Problem::unavailable(self.absent.query).after(self.absent.retry_after));
                }
                self.spare(&odd.path(&odd.odds), client).await
            }
            OddFound::List(applied) => self.odd_list(named, applied, client).await,
            // Ours says what is wrong with it.
            OddFound::Problem(problem) => {
                Err(ours.err().filter(|ours| ours.status() == problem.status()).unwrap_or(problem))
            }
            OddFound::Through(path) => self.spare(&path, client).await,
            OddFound::AsAsked | OddFound::Table => {
                Box::pin(self.list(named, ours?, None, client)).await.map(Found::provisional)
            }
        }
    }

    fn now_nanos(&self) -> i64 {
        self.clock.now_wall().as_millis().saturating_mul(1_000_000)
    }

    /// The origin's answer to bytes that a client chose.
    pub(super) async fn spare(&self, path: &str, client: &Caller) -> Result<Found, Problem> {
        self.read(path, false, true, None, client).await
    }

    /// Answers for an id that is no canonical number, as it came.
    pub(super) async fn no_listing(&self, id: &str, client: &Caller) -> Result<Found, Problem> {
        let text = percent_decode_str(id).decode_utf8().ok();
        let text = text.as_deref().unwrap_or(id);
        let ours = Problem::unknown_listing(text);
        // A number, and no listing has so large a one.
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0') {
            return Err(ours);
        }
        let row = is_word(text).then_some(Row::IdWord);
        match row.and_then(|row| self.verdicts.meaning(row)) {
            Some(Meaning::Refused(status)) if status != 404 => Err(Problem::refused_value(status, "id", text)),
            Some(_) => Err(ours),
            None if self.verdicts.are_ignored() || !self.may_ask_at_all() => Err(ours),
            None if !is_askable(text) => Err(ours),
            None => self.spare(&format!("/api/listings/{id}.json"), client).await,
        }
    }
}

/// The path to ask the origin for, unless a value is one that is not sent to it.
fn askable(odds: &[Odd], path: impl Fn(&[Odd]) -> String) -> Result<String, Problem> {
    const WHAT: &str = "must be at most 32 ASCII letters, digits, spaces and + - . , : _";
    match odds.iter().find(|odd| !odd.is_askable()) {
        None => Ok(path(odds)),
        Some(odd) => Err(Problem::bad_parameter(odd.parameter, odd.values.join(", "), WHAT)),
    }
}

/// The path of a query for the origin, with the client's bytes for odd values.
fn spelled(published: &Snapshot, query: &ListQuery, raw: Option<&str>) -> impl Fn(&[Odd]) -> String {
    move |odds| {
        let spelled = raw.and_then(|raw| OddQuery::path_of(raw, odds));
        spelled.unwrap_or_else(|| published.meta.form.path_of(query))
    }
}

/// Our own words for a refusal of the origin.
fn refused(status: u16, odd: &Odd) -> Problem {
    Problem::refused_value(status, odd.parameter, &odd.values.join(", "))
}
