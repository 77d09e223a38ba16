//! Answers from the snapshot: a page of the list, a taxonomy, a detail, what changed. What is in doubt or missing is
//! asked of the origin.
//!
//! Callers: [`super`].

use std::sync::Arc;

use http::StatusCode;

use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::api::query::search::SearchQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::cache::Key;
use crate::data::snapshot::dataset::Unselected;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::seconds::{Cut, Reading, WrittenInstant};
use crate::data::snapshot::verdicts::Doubtful;
use crate::data::store::DetailState;
use crate::edge::answer::render;
use crate::edge::search::NotSearched;
use crate::mirror::copies::CopyError;
use crate::protocol::cache_status::{CacheOutcome, Forwarded};
use crate::protocol::hops::Caller;
use crate::protocol::problem::Problem;
use crate::tasks::blocking;

use crate::edge::answer::compose::FromSnapshot;

use super::odd::OddFound;
use super::{Finder, Found, NamedSnapshot, failed};

/// Larger documents are not rendered on a thread that serves clients, in bytes.
const LARGE: usize = 64 << 10;

/// What `render` makes, on another thread if it is `large`: other clients of this thread must not wait.
async fn rendered<T: Send + 'static>(large: bool, render: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    if large { blocking(|| Ok(render())).await } else { Ok(render()) }
}

impl Finder {
    /// `raw`: as in [`ApiTarget::List`](crate::edge::answer::admit::ApiTarget::List).
    pub(super) async fn list(
        &self,
        named: NamedSnapshot,
        query: ListQuery,
        raw: Option<&str>,
        client: &Caller,
    ) -> Result<Found, Problem> {
        let query = query.within(named.published.dataset.content.envelope.largest_page);
        match self.verdicts.doubts(&query) {
            None => self.covered_list(named, query, raw, client).await,
            Some(doubt) => {
                // A slug that no term has is an open case here, too. The meaning found for others says nothing about it.
                match self.of_unknown_slugs(&named, &query, raw) {
                    Some(asked) => {
                        let (path, is_spare) = asked?;
                        self.read(&path, false, is_spare, Some(&named.published), client).await
                    }
                    None => Box::pin(self.doubtful_list(named, query, doubt, client)).await,
                }
            }
        }
    }

    /// A list of a shape that the origin answers otherwise.
    async fn doubtful_list(
        &self,
        named: NamedSnapshot,
        query: ListQuery,
        doubt: Doubtful,
        client: &Caller,
    ) -> Result<Found, Problem> {
        if !doubt.only_order || self.proxy.is_some() {
            match self.ask(&named, &query, client).await {
                Err(problem) if problem.status() != StatusCode::SERVICE_UNAVAILABLE => return Err(problem),
                // The right listings in our order are better than none.
                Err(_) if doubt.only_order => {}
                Err(problem) => {
                    let name = doubt.name;
                    return Err(problem.because(&format!(
                        "This server cannot answer for the origin, which answers queries with these filters otherwise ({name})"
                    )));
                }
                found => return found,
            }
        }
        Ok(self.covered_list(named, query, None, client).await?.provisional())
    }

    async fn covered_list(
        &self,
        named: NamedSnapshot,
        query: ListQuery,
        raw: Option<&str>,
        client: &Caller,
    ) -> Result<Found, Problem> {
        let pinned = named.pinned;
        let key = Key::List(query);
        let kept = if pinned { None } else { self.cache.reply(&key) };
        let kept = match kept {
            Some(reply) if reply.epoch() == named.published.epoch => {
                return Ok(Found::of_snapshot(reply, named.published, pinned));
            }
            kept => kept,
        };
        let Key::List(query) = &key else { return Err(Problem::internal()) };
        let published = &named.published;
        // An index that lacks terms cannot say that a slug is unknown.
        let is_unnamed = published.dataset.may_lack_a_term(&query.slugs);
        if is_unnamed && let Some(asked) = self.of_unknown_slugs(&named, query, raw) {
            let (path, is_spare) = asked?;
            return self.read(&path, false, is_spare, Some(published), client).await;
        }
        let (cut, is_sure) = self.cut(&named, query, client).await?;
        let Ok(found) = published.dataset.find_by(query, &cut) else {
            // A term of the query is in doubt: the origin knows.
            return self.ask(&named, query, client).await;
        };
        // A query that selects no listing may be an open case, which only the data shows.
        let odd = if found.items.is_empty() { self.looked_up(&named, &cut.put(query), raw) } else { None };
        let is_ordinary = odd.is_none() && !is_unnamed && is_sure;
        let is_provisional = is_unnamed || !is_sure || matches!(odd, Some(OddFound::Table));
        match odd {
            Some(OddFound::List(mut applied)) => {
                let since = &mut applied.query.modified_since;
                *since = since.take().and(query.modified_since.clone());
                return self.odd_list(named, applied, client).await;
            }
            Some(OddFound::Problem(problem)) => return Err(problem),
            Some(OddFound::Through(path)) => return self.spare(&path, client).await,
            Some(OddFound::AsAsked | OddFound::Table) | None => {}
        }
        if !pinned && is_ordinary {
            self.verdicts.note(query);
        }
        let pin = pinned.then(|| published.dataset.id.as_str());
        let made = render::list(published, query, found, &self.public_url, pin);
        // An open case is not cached: the reply would hide a meaning that is found later.
        let reply = if pinned || !is_ordinary { Arc::new(made) } else { self.cache.settle_reply(key, kept, made) };
        let ours = Found::of_snapshot(reply, named.published, pinned);
        Ok(if is_provisional { ours.provisional() } else { ours })
    }

    /// Which listings the `modified_since` of a query selects, and whether the origin has said so.
    async fn cut(&self, named: &NamedSnapshot, query: &ListQuery, client: &Caller) -> Result<(Cut, bool), Problem> {
        let published = &named.published;
        let instant = query.modified_since.as_ref().map(WrittenInstant::of);
        let Some(instant @ WrittenInstant { at, .. }) = instant else { return Ok((Cut::exactly(0), true)) };
        if self.verdicts.are_ignored() || published.dataset.find(query).is_err() {
            return Ok((Cut::exactly(at), true));
        }
        let read = async || {
            let (verdicts, published) = (self.verdicts.clone(), published.clone());
            let is_large = published.dataset.len() > LARGE;
            rendered(is_large, move || verdicts.seconds().reading(&published.dataset, instant)).await
        };
        let mut reading = read().await?;
        if matches!(reading, Reading::Unsure(_))
            && self.may_ask(named)
            && let (Some(instants), Some(proxy)) = (&self.instants, &self.proxy)
        {
            Box::pin(instants.learn(published.dataset.asked_about(instant), proxy.asker(client))).await;
            reading = read().await?;
        }
        Ok(match reading {
            // All pages of a snapshot have one meaning, whatever is learned between them.
            Reading::Sure(_) if named.pinned && published.dataset.hides(at) => {
                (published.dataset.most_after(at), false)
            }
            Reading::Sure(cut) => (cut, true),
            Reading::Unsure(cut) => (cut, false),
        })
    }

    /// Asks the origin for an answer that the snapshot does not have.
    async fn ask(&self, named: &NamedSnapshot, query: &ListQuery, client: &Caller) -> Result<Found, Problem> {
        let published = &named.published;
        // The origin has only its present data.
        if named.beside.is_some() || self.current.view().is_behind() {
            let why = "the meaning of the query is in doubt in this snapshot, and the origin can answer only for its present data";
            return Err(Problem::snapshot_unavailable(published.dataset.id.as_str(), why).after(3600));
        }
        self.read(&published.meta.form.path_of(query), false, false, Some(published), client).await
    }

    pub(super) async fn taxonomy(&self, named: NamedSnapshot, kind: TaxonomyKind) -> Result<Found, Problem> {
        let NamedSnapshot { published, pinned, beside } = named;
        let key = Key::Taxonomy(kind);
        // The cache has the reply of the current snapshot.
        let served = beside.is_none();
        let kept = self.cache.reply(&key).filter(|_| served);
        if let Some(reply) = kept.clone().filter(|reply| reply.epoch() == published.epoch) {
            return Ok(Found::of_snapshot(reply, published, pinned));
        }
        let rewrite = self.rewrite.of_origin(published.meta.origin.as_deref());
        let (shown, rewrite) = (published.clone(), rewrite.into_owned());
        let large = published.dataset.content.taxonomy(kind).len() > LARGE;
        let made = rendered(large, move || render::taxonomy(&shown, kind, &rewrite)).await?.map_err(|error| {
            tracing::error!(%error, path = kind.path(), "a stored taxonomy cannot be rendered");
            Problem::internal()
        })?;
        let reply = if served { self.cache.settle_reply(key, kept, made) } else { Arc::new(made) };
        Ok(Found::of_snapshot(reply, published, pinned))
    }

    /// The detail of a listing: the stored one, else the origin's, which is stored.
    pub(super) async fn detail(
        &self,
        published: Arc<Snapshot>,
        id: ListingId,
        client: &Caller,
    ) -> Result<Found, Problem> {
        let Some(summary) = published.dataset.summary(id) else {
            if published.dataset.is_incomplete() {
                // The origin's pages lack listings that it has.
                return self.read(&format!("/api/listings/{id}.json"), false, false, Some(&published), client).await;
            }
            return Err(Problem::unknown_listing(id.to_string()));
        };
        let details = self.details.as_ref().ok_or_else(Problem::internal)?;
        let kept = self.cache.reply(&Key::Detail(id));
        // A newer record makes the cache forget the reply.
        if let Some(reply) = kept.clone().filter(|reply| reply.epoch() == published.epoch) {
            return Ok(Found::of_snapshot(reply, published, false));
        }
        // Read before the detail: what arrives meanwhile makes another one.
        let revision = details.revision();
        let (record, forwarded) = match details.read(id).await {
            Ok(Some(record)) => (record, None),
            Err(error) => {
                tracing::error!(%error, %id, "a stored detail cannot be read");
                return Err(Problem::unavailable("The stored detail cannot be read").after(30));
            }
            Ok(None) => {
                let Some(proxy) = &self.proxy else {
                    let problem = Problem::detail_not_mirrored(id.0, self.absent.detail);
                    return Err(problem.after(self.absent.retry_after));
                };
                let asker = proxy.asker(client);
                let (origin, volatile) = (proxy.upstream().origin(), &published.meta.volatile);
                let fetch = self.on_demand.fetch(details, origin, volatile, summary, asker);
                match Box::pin(fetch).await {
                    Ok((record, collapsed)) => {
                        let fwd_status = if record.meta.state == DetailState::Gone { 404 } else { 200 };
                        (record, Some(CacheOutcome::Miss(Forwarded { fwd_status, stored: true, collapsed })))
                    }
                    Err(error) => match &*error {
                        CopyError::Ask(error) => return Err(failed(error)),
                        CopyError::Store(error) => {
                            tracing::error!(%error, %id, "a detail cannot be stored");
                            return Err(Problem::internal().after(30));
                        }
                    },
                }
            }
        };
        if record.meta.state == DetailState::Gone {
            return Err(Problem::unknown_listing(id.to_string()));
        }
        let (shown, body) = (published.clone(), record.body);
        let made = rendered(body.len() > LARGE, move || render::detail(&shown, body)).await?;
        // DEVIATION: with our tag and the snapshot's `Age`, although the origin has just sent it: the next request
        // finds it stored, and must get the same.
        if forwarded.is_some() {
            let reply = Arc::new(made);
            let found = FromSnapshot { reply, published, forwarded, pinned: false, is_provisional: false };
            return Ok(Found::Snapshot(found));
        }
        let key = Key::Detail(id);
        let reply = self.cache.settle_reply(key.clone(), kept.clone(), made);
        // A newer record may have arrived while the older one was rendered: its arrival forgot the key, and the older one
        // must not come back. One that was confirmed did not.
        let is_new = kept.is_none_or(|kept| !Arc::ptr_eq(&kept, &reply));
        if is_new && details.revision() != revision {
            self.cache.forget(&key);
        }
        Ok(Found::of_snapshot(reply, published, false))
    }

    pub(super) async fn changes(&self, published: Arc<Snapshot>, since: Box<str>) -> Result<Found, Problem> {
        let key = Key::Changes(since.clone());
        let kept = self.cache.reply(&key);
        if let Some(reply) = kept.clone().filter(|reply| reply.epoch() == published.epoch) {
            return Ok(Found::of_snapshot(reply, published, false));
        }
        let journal = self.current.view().journal.clone();
        let large = journal.is_large();
        let (shown, named) = (published.clone(), since.clone());
        let make = move || {
            let changes = journal.since(&named, shown.dataset.id.as_str())?;
            Some(render::changes(&shown, &named, &changes))
        };
        let unknown = || Problem::changes_unknown(&*since, published.dataset.id.as_str());
        let made = rendered(large, make).await?.ok_or_else(unknown)?;
        let reply = self.cache.settle_reply(key, kept, made);
        Ok(Found::of_snapshot(reply, published, false))
    }

    pub(super) async fn search(
        &self,
        current: Arc<Snapshot>,
        query: Box<SearchQuery>,
        client: &Caller,
    ) -> Result<Found, Problem> {
        let searches = self.searches.as_ref().ok_or_else(Problem::internal)?;
        let key = Key::Search(query);
        let kept = self.cache.reply(&key);
        if let Some(reply) = kept.clone().filter(|reply| reply.epoch() == current.epoch) {
            return Ok(Found::of_snapshot(reply, current, false));
        }
        let Key::Search(query) = &key else { return Err(Problem::internal()) };
        let epoch = current.epoch;
        let (hits, published) = searches.find(current, query, client.address).await.map_err(unsearched)?;
        let made = render::search(&published, query, &hits, &self.public_url);
        // The snapshot before is searched only until there is an index of the current one.
        let reply = if published.epoch == epoch { self.cache.settle_reply(key, kept, made) } else { Arc::new(made) };
        Ok(Found::of_snapshot(reply, published, false))
    }
}

pub(in crate::edge::answer) fn unsearched(why: NotSearched) -> Problem {
    match why {
        NotSearched::Unselected(why) => unselected(&why, Problem::unavailable),
        NotSearched::Unready | NotSearched::Busy => Problem::unavailable(&why.to_string()).after(1),
        NotSearched::Aborted(error) => error.into(),
    }
}

/// Why a filter selects nothing that is known. `unavailable` makes a 503 of a reason.
pub(in crate::edge::answer) fn unselected(why: &Unselected, unavailable: fn(&str) -> Problem) -> Problem {
    if let Unselected::Unknown { kind, slug } = why {
        let expected = format!("must be a slug of {}", kind.path());
        return Problem::bad_parameter(kind.parameter(), &slug[..], &expected);
    }
    if let Unselected::Nowhere { slug } = why {
        let expected = format!("must be LAT,LNG in degrees, or a slug of {}", TaxonomyKind::Cities.path());
        return Problem::bad_parameter("near", &slug[..], &expected);
    }
    unavailable(&why.to_string()).after(60)
}
