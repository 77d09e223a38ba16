//! One fetch: asks the origin, and gives the result to its starter and to all waiting clients. Methods that no cache answers
//! are forwarded, and what they change is forgotten.
//!
//! It decides neither whether to ask nor what to store. It runs in a task of its own, so that storing does not depend
//! on the client that asked. Callers: [`super`], [`super::coalesce`].

use std::sync::Arc;

use http::HeaderName;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};

use crate::data::cache::Key;
use crate::data::cache::reply::{Stored, Variants};
use crate::origin::client::{AskError, Asker};
use crate::origin::wire::Listener;
use crate::protocol::cache_status::{CacheOutcome, Forwarded};
use crate::protocol::caching::{Allowed, Purpose, Vary, end_to_end, invalidated, missed, onward};

use super::request::{
    Endpoint, FetchOutcome, Head, ProxyAnswer, ProxyRequest, Waiting, and_these, asked_for, failed_for, is_of_another,
    sent, tells_of_the_resource, told,
};
use super::spool::Spool;
use super::{Proxy, Reason};

#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub question: ProxyRequest,
    pub key: Key,
    /// The names that the answers vary by.
    pub names: Vec<HeaderName>,
    /// Whether an answer was seen, so that these are all.
    pub is_seen: bool,
    /// The stored answer to revalidate.
    pub kept: Option<Arc<Stored>>,
    /// Whether a 304 was about another answer than that: the origin is asked without conditions (RFC 9111 §4.3.4).
    pub unconditional: bool,
    /// The purpose, and the client that waits.
    pub asker: Asker,
    /// What the result is for `Cache-Status`.
    pub why: Reason,
}

impl Proxy {
    /// Asks the origin; goes on when the caller is dropped.
    pub(super) async fn start(
        &self,
        fetch: Fetch,
        waiting: Waiting,
        interim: Option<Listener>,
    ) -> Result<ProxyAnswer, AskError> {
        let this = self.clone();
        let task = tokio::spawn(async move { this.fetch(fetch, waiting, interim).await });
        task.await.unwrap_or_else(|error| Err(AskError::nonsense("the request", error)))
    }

    pub(super) async fn fetch(
        &self,
        mut fetch: Fetch,
        waiting: Waiting,
        interim: Option<Listener>,
    ) -> Result<ProxyAnswer, AskError> {
        let inner = &*self.0;
        let Fetch { question, key, names, kept, asker, why, .. } = &fetch;
        let asking = inner.cache.asking(key);
        let is_good = |variants: &Variants| variants.iter().any(|stored| stored.status.is_success());
        let is_seen = fetch.is_seen || inner.cache.stored(key).as_deref().is_some_and(is_good);
        let mut sent = sent(question, &inner.config.allowed, names, is_seen, kept.as_deref());
        if fetch.unconditional {
            sent.remove(IF_NONE_MATCH);
            sent.remove(IF_MODIFIED_SINCE);
        }
        let bare = tells_of_the_resource(question, &sent, kept.as_deref());
        let error = match question.endpoint {
            Endpoint::Known { rewrites, .. } => match self.judged(&fetch, rewrites, &asking).await {
                Ok((stored, fwd_status, is_kept)) => {
                    inner.failures.answered(key);
                    let forwarded = Forwarded { fwd_status, stored: is_kept, collapsed: false };
                    // DEVIATION: also if it may not be stored (RFC 9111 §4): nothing of a client was sent.
                    if let Some(waiting) = waiting {
                        waiting.land(FetchOutcome::Whole(stored.clone(), forwarded));
                    }
                    return Ok(ProxyAnswer::Stored { stored, outcome: why(forwarded) });
                }
                Err(error) => error,
            },
            Endpoint::Unknown => {
                let came = inner.upstream.send(question.sending(sent.clone(), asker.clone()), interim.clone()).await;
                match came.and_then(|arrived| asked_for(arrived, &sent)) {
                    Ok(arrived) if is_of_another(question, kept.as_deref(), &arrived) => {
                        drop(arrived);
                        // Once: a 304 without conditions is an error.
                        fetch.unconditional = true;
                        return Box::pin(self.fetch(fetch, waiting, interim)).await;
                    }
                    Ok(arrived) => {
                        let whole =
                            super::request::sent(question, &inner.config.allowed, names, false, kept.as_deref());
                        let missed = missed(&whole, &sent, &Vary::of(&arrived.headers));
                        if missed.is_empty() {
                            return Ok(self.arrived(fetch, waiting, sent, arrived, asking).await);
                        }
                        // The answers of this resource did not depend on them until now.
                        fetch.names = and_these(std::mem::take(&mut fetch.names), missed);
                        drop(arrived);
                        return Box::pin(self.fetch(fetch, waiting, interim)).await;
                    }
                    Err(error) => error,
                }
            }
        };
        if bare {
            inner.failures.failed(key, &error, inner.clock.now_mono());
        }
        if let Some(waiting) = waiting {
            waiting.end(failed_for(|| told(question, &inner.config.allowed, names), error.clone(), bare));
        }
        Err(error)
    }
}

impl Proxy {
    /// A method that is not for caches: forwarded as it is. What it changes is forgotten (RFC 9111 §4.4), whether or
    /// not its client waits for the answer.
    pub(super) async fn forward(
        &self,
        question: ProxyRequest,
        interim: Option<Listener>,
    ) -> Result<ProxyAnswer, AskError> {
        let this = self.clone();
        let task = tokio::spawn(async move { this.forwarded(&question, interim).await });
        task.await.unwrap_or_else(|error| Err(AskError::nonsense("the request", error)))
    }

    async fn forwarded(&self, question: &ProxyRequest, interim: Option<Listener>) -> Result<ProxyAnswer, AskError> {
        let inner = &*self.0;
        let sent = onward(&question.fields, Purpose::Pass, &Allowed::All, |_| true);
        let arrived = inner.upstream.send(question.sending(sent, self.asker_of(question)), interim).await?;
        let fields = end_to_end(&arrived.headers, false);
        let target = String::from_utf8_lossy(&question.target);
        for target in invalidated(&question.method, arrived.status, &target, &fields, &inner.config.bases) {
            let void = Key::origin(&target);
            inner.cache.purge(&void);
            inner.flights.close_where(|(key, _)| *key == void);
        }
        let head = Arc::new(Head { status: arrived.status, fields });
        let forwarded = Forwarded { fwd_status: arrived.status.as_u16(), stored: false, collapsed: false };
        let spool = Spool::new(false, None, self.room_of(question));
        let body = spool.tap().reader();
        let this = self.clone();
        tokio::spawn(async move { this.pump(spool, arrived.body, None, &mut None).await });
        Ok(ProxyAnswer::Streamed { head, body, outcome: CacheOutcome::Method(forwarded) })
    }
}
