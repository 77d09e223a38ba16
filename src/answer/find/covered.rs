//! Finds what the snapshot has: a page of the list, a taxonomy, a detail, what changed. What is in doubt or missing is
//! asked of the origin.
//!
//! Callers: [`super`].

use std::sync::Arc;

use crate::answer::render;
use crate::api::listing::ListingId;
use crate::cache::Key;
use crate::mirror::copies::CopyError;
use crate::mirror::details::Details;
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::hops::Caller;
use crate::semantics::problem::Problem;
use crate::snapshot::pointer::Snapshot;
use crate::store::{DetailRecord, DetailState};

use super::{Finder, Found, LARGE, failed};

impl Finder {
    /// The detail of a listing: the stored one, else the origin's, which is stored.
    pub(super) async fn detail(&self, published: Arc<Snapshot>, id: ListingId, client: &Caller) -> Found {
        let Some(summary) = published.dataset.summary(id) else {
            if published.dataset.is_incomplete() {
                // The origin's pages lack listings that it has.
                return self.through(&format!("/api/listings/{id}.json"), false, client).await;
            }
            return self.unknown(id);
        };
        let Some(details) = &self.details else { return Problem::internal().into() };
        let kept = self.cache.reply(&Key::Detail(id));
        // A newer record makes the cache forget the reply. But if a listing was removed and comes back, the cache may
        // still have its detail although the store has not.
        let made_of = || if details.holds(id) { render::basis_of_detail(&published) } else { render::NO_BASIS };
        if let Some(reply) = kept.filter(|reply| self.holds(reply, &published, made_of)) {
            return Found::Snapshot { reply, published, forwarded: None, pinned: false };
        }
        let revision = details.revision();
        let (record, forwarded) = match details.read(id).await {
            Ok(Some(record)) => (record, None),
            Err(error) => {
                tracing::error!(%error, %id, "a stored detail cannot be read");
                let problem = Problem::unavailable("The stored detail cannot be read");
                return Found::Problem { problem, retry_after: Some(30) };
            }
            Ok(None) => {
                let Some(proxy) = &self.proxy else {
                    let problem = Problem::detail_not_mirrored(id.0, self.absent.detail);
                    return Found::Problem { problem, retry_after: Some(self.absent.retry_after) };
                };
                let asker = proxy.asker(client);
                match details.fetch_once(proxy.upstream().origin(), &published.meta.volatile, summary, asker).await {
                    Ok((record, collapsed)) => {
                        let fwd_status = if record.meta.state == DetailState::Gone { 404 } else { 200 };
                        (record, Some(CacheOutcome::Miss(Forwarded { fwd_status, stored: true, collapsed })))
                    }
                    Err(error) => match &*error {
                        CopyError::Ask(error) => return failed(error),
                        CopyError::Store(error) => {
                            tracing::error!(%error, %id, "a detail cannot be stored");
                            return Found::Problem { problem: Problem::internal(), retry_after: Some(30) };
                        }
                    },
                }
            }
        };
        self.answer_detail(details, published, id, record, revision, forwarded).await
    }

    async fn answer_detail(
        &self,
        details: &Details,
        published: Arc<Snapshot>,
        id: ListingId,
        record: DetailRecord,
        revision: u64,
        forwarded: Option<CacheOutcome>,
    ) -> Found {
        if record.meta.state == DetailState::Gone {
            return self.unknown(id);
        }
        let made = if record.body.len() > LARGE {
            let (published, body) = (published.clone(), record.body);
            match tokio::task::spawn_blocking(move || render::detail(&published, body)).await {
                Ok(made) => made,
                Err(error) => {
                    tracing::error!(%error, %id, "a detail could not be rendered");
                    return Problem::internal().into();
                }
            }
        } else {
            render::detail(&published, record.body)
        };
        let reply = Arc::new(made.made_of(render::basis_of_detail(&published)));
        if forwarded.is_none() {
            let key = Key::Detail(id);
            // A newer record may have arrived while the older one was rendered; its arrival forgets the key.
            if self.cache.keep_if_wanted(key.clone(), &reply) && details.revision() != revision {
                self.cache.forget(&key);
            }
        }
        Found::Snapshot { reply, published, forwarded, pinned: false }
    }
}

impl Finder {
    pub(super) async fn changes(&self, published: Arc<Snapshot>, since: Box<str>) -> Found {
        let key = Key::Changes(since.clone());
        let kept = self.cache.reply(&key);
        if let Some(reply) = kept.clone().filter(|reply| reply.epoch() == published.epoch) {
            return Found::Snapshot { reply, published, forwarded: None, pinned: false };
        }
        let journal = (self.journal)();
        let large = journal.is_large();
        let (shown, named) = (published.clone(), since.clone());
        let make = move || {
            let changes = journal.since(&named, shown.dataset.id.as_str())?;
            Some(render::changes(&shown, &named, &changes))
        };
        // Other clients of this thread must not wait for a look at a million ids.
        let made = if large { tokio::task::spawn_blocking(make).await } else { Ok(make()) };
        let made = match made {
            Ok(Some(made)) => made,
            Ok(None) => {
                return Problem::snapshot_gone("since", &*since, Some(published.dataset.id.as_str())).into();
            }
            Err(error) => {
                tracing::error!(%error, "/changes.json cannot be answered");
                return Problem::internal().into();
            }
        };
        // One of them must not push out all others.
        let keepable = made.weight() as u64 <= self.cache.largest();
        let reply = match kept {
            Some(kept) if keepable => self.cache.renew_reply(key, kept, made),
            _ => {
                let made = Arc::new(made);
                if keepable {
                    self.cache.keep_if_wanted(key, &made);
                }
                made
            }
        };
        Found::Snapshot { reply, published, forwarded: None, pinned: false }
    }
}
