//! Forwards methods that no cache answers, and invalidates what they change.
//!
//! Their answers are for one client: RFC 9110 §9.3.3 lets a cache store an answer to POST for GET, but the body of the POST
//! decides what it says. It decides nothing about GET and HEAD. Callers: [`super`].

use std::sync::Arc;

use crate::cache::Key;
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::caching::{Allowed, Purpose, end_to_end, invalidated, onward};
use crate::upstream::client::AskError;
use crate::upstream::forward::Sending;
use crate::upstream::wire::Listener;

use super::Proxy;
use super::question::{Head, Passed, Question};
use super::spool::Spool;

impl Proxy {
    /// A method that is not for caches: forwarded as it is. What it changes is forgotten (RFC 9111 §4.4), whether or
    /// not its client waits for the answer.
    pub(super) async fn forward(&self, question: Question, interim: Option<Listener>) -> Result<Passed, AskError> {
        let this = self.clone();
        let task = tokio::spawn(async move { this.forwarded(&question, interim).await });
        task.await.unwrap_or_else(|error| Err(AskError::nonsense("the request", error)))
    }

    async fn forwarded(&self, question: &Question, interim: Option<Listener>) -> Result<Passed, AskError> {
        let inner = &*self.0;
        let sent = onward(&question.fields, Purpose::Pass, &Allowed::All, |_| true);
        let sending = Sending {
            method: question.method.clone(),
            target: question.target.clone(),
            fields: sent,
            body: question.body.clone(),
            received: question.version,
            asker: self.asker_of(question),
        };
        let arrived = inner.upstream.send(sending, interim).await?;
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
        tokio::spawn(async move { drop(this.pump(spool, arrived.body, None, &mut None).await) });
        Ok(Passed::Streamed { head, body, outcome: CacheOutcome::Method(forwarded) })
    }
}
