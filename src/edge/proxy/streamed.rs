//! Answer of an unknown path: passed on while it arrives, and cached if allowed.
//!
//! It asks nothing. The body runs in a task of its own, so that caching it does not depend on the client that asked.
//! Callers: [`super::fetch`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AGE, CONTENT_LANGUAGE, CONTENT_LENGTH, ETAG, LAST_MODIFIED};
use http::{HeaderMap, Method, StatusCode};

use crate::data::cache::Key;
use crate::data::cache::coded::Coded;
use crate::data::cache::recent::Asking;
use crate::data::cache::reply::Stored;
use crate::origin::client::AskError;
use crate::origin::forward::{Arrived, Pieces};
use crate::protocol::cache_status::Forwarded;
use crate::protocol::caching::{
    Exchange, Freshness, NotStored, OneLanguage, Purpose, ResponseDirectives, Selecting, Vary, blames_the_request,
    end_to_end, freshen, has_same_validator, head_agrees, is_bare, may_store, unnamed, validating_date,
};

use super::fetch::Fetch;
use super::request::{
    FetchOutcome, Head, ProxyAnswer, ProxyRequest, Waiting, failed_for, is_failure, purpose, tells_of_the_resource,
    told,
};
use super::spool::Spool;
use super::{AMBIGUOUS_FOR, LARGE, PRIVATE_FOR, Proxy};

/// Whether an answer is cached for others, and if not, why.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Kept,
    /// Because of this request: other requests may share an answer.
    Personal,
    /// Because of the resource.
    Private,
}

/// The failure for clients that only wait.
fn failure(question: &ProxyRequest, arrived: &Arrived) -> AskError {
    let path = String::from_utf8_lossy(&question.target).into_owned();
    AskError::Status { status: arrived.status.as_u16(), path, retry_after: arrived.retry_after() }
}

/// What to cache when the body is complete.
pub(super) struct Keeping {
    pub key: Key,
    pub stored: Stored,
    pub asking: Asking,
    /// Whether the request was such that the answer says something about the resource for others.
    pub tells: bool,
}

impl Proxy {
    /// Takes in the head of an answer, and lets the body run.
    pub(super) async fn arrived(
        &self,
        fetch: Fetch,
        waiting: Waiting,
        sent: HeaderMap,
        arrived: Arrived,
        asking: Asking,
    ) -> ProxyAnswer {
        let inner = &*self.0;
        let Fetch { question, key, kept, why, .. } = &fetch;
        let shared = purpose(question, kept.as_deref()) == Purpose::Store;
        if tells_of_the_resource(question, &sent, kept.as_deref()) {
            if is_failure(arrived.status) {
                inner.failures.failed(key, &failure(question, &arrived), inner.clock.now_mono());
            } else {
                inner.failures.answered(key);
            }
        }
        if let Some(kept) = kept.as_ref().filter(|_| question.method == Method::HEAD && shared) {
            self.learn_from_head(key, kept, &sent, &arrived, &asking);
        }
        // A 304 confirms only what the request asked for: one to a client's conditions, or to HEAD, confirms no cached
        // answer.
        let confirms = arrived.status == StatusCode::NOT_MODIFIED && question.method == Method::GET && shared;
        if let Some(kept) = kept.as_ref().filter(|kept| confirms && kept.has_validator()) {
            let stored = Arc::new(self.confirmed(kept, &sent, &arrived));
            let keeps = self.keeps(&fetch, &sent, &stored, &arrived);
            let is_kept = keeps == Keeps::Kept && inner.cache.keep_confirmed(key, kept, &stored, &asking);
            if keeps == Keeps::Private {
                inner.cache.forget_stored(key, kept);
            }
            let forwarded = Forwarded { fwd_status: 304, stored: is_kept, collapsed: false };
            if let Some(waiting) = waiting {
                waiting.land(match keeps {
                    _ if is_kept => FetchOutcome::Whole(stored.clone(), forwarded),
                    Keeps::Private => FetchOutcome::Private,
                    Keeps::Kept | Keeps::Personal => FetchOutcome::Personal,
                });
            }
            return ProxyAnswer::Stored { stored, outcome: why(forwarded) };
        }
        self.arriving(&fetch, waiting, sent, arrived, asking).await
    }

    /// Whether an answer may be cached for others.
    fn keeps(&self, fetch: &Fetch, sent: &HeaderMap, stored: &Stored, arrived: &Arrived) -> Keeps {
        let (inner, Fetch { question, key, kept, .. }) = (&*self.0, fetch);
        let directives = ResponseDirectives::of(&stored.fields);
        let allowed =
            |sent: &HeaderMap| may_store(&question.method, sent, stored.status, &stored.fields, &directives, None);
        if question.method != Method::GET {
            return Keeps::Private;
        }
        // With all of a client's fields, or against its will (RFC 9111 §5.2.1.5). The fields that were sent do not show
        // it: a client's `Connection` takes some out.
        if purpose(question, kept.as_deref()) == Purpose::Pass {
            return Keeps::Personal;
        }
        if blames_the_request(stored.status) && !is_bare(sent, &Vary::of(&stored.fields)) {
            return Keeps::Personal;
        }
        let own = allowed(sent).err();
        let now = inner.clock.now_mono();
        let tells = tells_of_the_resource(question, sent, kept.as_deref());
        if own.is_none() {
            if tells {
                inner.private.forget(key);
            }
        } else if !tells || own == Some(NotStored::Partial) || allowed(&HeaderMap::new()).is_ok() {
            if matches!(own, Some(NotStored::Authorization | NotStored::Cookie)) {
                inner.personal.mark(key, now, PRIVATE_FOR);
            }
            return Keeps::Personal;
        } else {
            if !is_failure(arrived.status) {
                inner.private.mark(key, now, PRIVATE_FOR);
            }
            return Keeps::Private;
        }
        Keeps::Kept
    }

    /// The cached answer, as a 304 to this request confirms it (RFC 9111 §4.3.4).
    fn confirmed(&self, kept: &Stored, sent: &HeaderMap, arrived: &Arrived) -> Stored {
        let mut fields = kept.fields.clone();
        freshen(&mut fields, &end_to_end(&arrived.headers, false));
        let is_same = fields.get(CONTENT_LANGUAGE) == kept.fields.get(CONTENT_LANGUAGE);
        let language = kept.language.clone().filter(|_| is_same);
        let selecting = kept.selecting.clone().and(unnamed(sent, &self.0.config.allowed), sent);
        Stored { language, ..self.stored(kept.status, fields, kept.body.clone(), selecting, arrived) }
    }

    /// An answer with the terms on which it is cached.
    pub(super) fn stored(
        &self,
        status: StatusCode,
        mut fields: HeaderMap,
        body: Arc<Coded>,
        selecting: Selecting,
        arrived: &Arrived,
    ) -> Stored {
        let exchange = Exchange { asked: arrived.asked, received: arrived.received };
        let terms = Freshness::of(status, &fields, &ResponseDirectives::of(&fields), exchange, None);
        let last_modified = validating_date(&fields, arrived.received).cloned();
        // It grows: computed for each answer sent.
        fields.remove(AGE);
        Stored {
            status,
            link: None,
            etag: fields.get(ETAG).cloned(),
            last_modified,
            fields,
            body,
            terms,
            selecting,
            language: None,
            arrived: self.0.clock.now_mono(),
        }
    }

    /// What an answer to HEAD says about the cached one (RFC 9111 §4.3.5).
    fn learn_from_head(&self, key: &Key, kept: &Arc<Stored>, sent: &HeaderMap, arrived: &Arrived, asking: &Asking) {
        let is_ambiguous = self.0.ambiguous.holds(key, self.0.clock.now_mono());
        if arrived.status != StatusCode::OK || kept.status != StatusCode::OK || is_ambiguous {
            return;
        }
        let head = end_to_end(&arrived.headers, false);
        let stored = if head_agrees(&kept.fields, &head) {
            // As a 304 would: if a GET with these fields could be stored for others.
            let directives = ResponseDirectives::of(&head);
            let for_others = may_store(&Method::GET, sent, arrived.status, &head, &directives, None).is_ok();
            if !for_others || !is_bare(sent, &Vary::of(&head)) {
                return;
            }
            self.confirmed(kept, sent, arrived)
        } else if is_bare(sent, &Vary::of(&head)) {
            // It is stale from now on, and may still stand in for a failing origin.
            let mut stored = Stored::clone(kept);
            stored.terms.lifetime = Duration::ZERO;
            stored.terms.stale_while_revalidate = Some(Duration::ZERO);
            stored
        } else {
            return;
        };
        self.0.cache.keep_confirmed(key, kept, &Arc::new(stored), asking);
    }

    /// Lets the body run, for the client and for the cache.
    async fn arriving(
        &self,
        fetch: &Fetch,
        mut waiting: Waiting,
        sent: HeaderMap,
        arrived: Arrived,
        asking: Asking,
    ) -> ProxyAnswer {
        let Fetch { question, key, names, kept, why, .. } = fetch;
        let fields = end_to_end(&arrived.headers, false);
        let vary = Vary::of(&fields);
        let selecting = Selecting::of(&vary, &sent).and(unnamed(&sent, &self.0.config.allowed), &sent);
        let head = Arc::new(Head { status: arrived.status, fields: fields.clone() });
        let outcome = |stored| why(Forwarded { fwd_status: arrived.status.as_u16(), stored, collapsed: false });
        let language = OneLanguage::of(&sent, arrived.status, &fields);
        let body = Arc::new(Coded::new(Bytes::new()));
        let stored = Stored { language, ..self.stored(arrived.status, fields, body, selecting.clone(), &arrived) };
        let length = arrived.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let fits = length.is_none_or(|length| length <= self.0.config.max_body);
        // A good answer is never replaced by a bad one.
        let worse = is_failure(arrived.status) && kept.as_ref().is_some_and(|kept| self.stands_in(false, kept));
        let tells = tells_of_the_resource(question, &sent, kept.as_deref());
        let mut decided = self.keeps(fetch, &sent, &stored, &arrived);
        if decided == Keeps::Kept && !fits {
            decided = self.too_large(key, tells);
        }
        let spool = Spool::new(decided == Keeps::Kept && !worse, length, self.room_of(question));
        let keeps = spool.keeps();
        if decided == Keeps::Kept && !worse && !keeps {
            // There is no room.
            decided = Keeps::Personal;
        }
        if decided == Keeps::Private
            && let Some(kept) = kept.as_ref().filter(|kept| kept.selecting.matches(&sent))
            && question.method == Method::GET
            && !is_failure(arrived.status)
        {
            // The origin's new answer must not be cached, so the cached one is outdated.
            self.0.cache.forget_stored(key, kept);
        }
        if question.method == Method::HEAD {
            return ProxyAnswer::Streamed { head, body: None, outcome: outcome(false) };
        }
        let tap = spool.tap();
        let body = tap.reader();
        if !keeps {
            if let Some(waiting) = waiting.take() {
                waiting.end(match decided {
                    // Waiting clients would get the same.
                    _ if is_failure(arrived.status) => {
                        let said = || told(question, &self.0.config.allowed, names);
                        failed_for(said, failure(question, &arrived), tells)
                    }
                    Keeps::Personal => FetchOutcome::Personal,
                    Keeps::Kept | Keeps::Private => FetchOutcome::Private,
                });
            }
        } else if let Some(waiting) = &waiting {
            if !self.is_usable(question.is_known(), &stored) || !selecting.is_by_vary_alone() {
                // Further clients ask the origin, as they do when the answer is complete. Those that wait and cannot share
                // this one begin another fetch.
                waiting.close();
            }
            waiting.land(FetchOutcome::Arriving { head: head.clone(), selecting, tap });
        }
        let keeping = keeps.then(|| Keeping { key: key.clone(), stored, asking, tells });
        let (this, ends_with_head) = (self.clone(), arrived.ends_with_head());
        let pumping = async move { this.pump(spool, arrived.body, keeping, &mut waiting).await };
        let is_kept = if ends_with_head {
            // A client that has read all of an answer finds it cached.
            pumping.await
        } else {
            tokio::spawn(pumping);
            // Only the end shows it, after the head has been sent.
            false
        };
        ProxyAnswer::Streamed { head, body, outcome: outcome(is_kept) }
    }

    /// Why an answer that is too large for the cache is not kept.
    fn too_large(&self, key: &Key, tells: bool) -> Keeps {
        if !tells {
            return Keeps::Personal;
        }
        self.0.private.mark(key, self.0.clock.now_mono(), PRIVATE_FOR);
        Keeps::Private
    }

    /// Moves a body to its readers, and into the cache if it is to be cached. As soon as it is only passed on, at the pace
    /// of its readers, nobody else waits for it any more.
    pub(super) async fn pump(
        &self,
        spool: Spool,
        mut pieces: Pieces,
        mut keeping: Option<Keeping>,
        waiting: &mut Waiting,
    ) -> bool {
        let inner = &*self.0;
        let mut length = 0;
        let last = loop {
            match pieces.next().await {
                None => break Bytes::new(),
                // Its end tells the readers that something is missing.
                Some(Err(error)) => {
                    tracing::debug!(%error, "an answer of the origin ended early");
                    return false;
                }
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(piece)) => {
                    length += piece.len() as u64;
                    let fits = length <= inner.config.max_body;
                    if keeping.is_some() && fits {
                        if pieces.are_all_here() {
                            break piece;
                        }
                        if spool.keep(&piece) {
                            continue;
                        }
                    }
                    if let Some(keeping) = keeping.take() {
                        let is_private = !fits && self.too_large(&keeping.key, keeping.tells) == Keeps::Private;
                        if let Some(waiting) = waiting.take() {
                            waiting.end(if is_private { FetchOutcome::Private } else { FetchOutcome::Personal });
                        }
                    }
                    if spool.pass(piece).await.is_err() {
                        return false;
                    }
                }
            }
        };
        let this = self.clone();
        let finish = move || {
            let mut is_kept = false;
            spool.finish(last, |whole| {
                is_kept = keeping.is_some_and(|keeping| this.keep(keeping, whole));
                is_kept
            });
            is_kept
        };
        // Joining the pieces of a large body takes time.
        if length > LARGE { inner.upstream.origin().room().parse(finish).await.unwrap_or(false) } else { finish() }
    }

    /// Caches a whole body, without validators if they came with another body: then they tell nothing apart.
    fn keep(&self, keeping: Keeping, whole: Bytes) -> bool {
        let Keeping { key, mut stored, asking, .. } = keeping;
        let (inner, now) = (&*self.0, self.0.clock.now_mono());
        let variants = inner.cache.stored(&key);
        let old = variants.as_ref().and_then(|variants| variants.iter().find(|old| old.selecting == stored.selecting));
        if old.is_some_and(|old| has_same_validator(&old.fields, &stored.fields) && *old.body.identity() != whole) {
            inner.ambiguous.mark(&key, now, AMBIGUOUS_FOR);
        }
        if inner.ambiguous.holds(&key, now) {
            (stored.etag, stored.last_modified) = (None, None);
            stored.fields.remove(ETAG);
            stored.fields.remove(LAST_MODIFIED);
        }
        stored.body = Arc::new(Coded::new(whole));
        inner.cache.keep_stored(&key, &Arc::new(stored), &asking)
    }
}
