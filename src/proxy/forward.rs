//! Forwards methods that no cache answers, and invalidates what they change.
//!
//! It decides nothing about GET and HEAD. Callers: [`super`].

use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use crate::cache::Key;
use crate::cache::coded::Coded;
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::caching::{
    Allowed, Purpose, ResponseDirectives, Selecting, Vary, end_to_end, invalidated, is_for_others, may_store, onward,
    stores_for_get,
};
use crate::upstream::client::AskError;
use crate::upstream::forward::Sending;
use crate::upstream::wire::Listener;

use super::Proxy;
use super::onward::selectable;
use super::question::{Head, Passed, Question};
use super::spool::Spool;
use super::streamed::Keeping;

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
            fields: sent.clone(),
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
        let key = Key::origin(&question.target);
        let asking = inner.cache.asking(&key);
        let head = Arc::new(Head { status: arrived.status, fields: fields.clone() });
        let forwarded = Forwarded { fwd_status: arrived.status.as_u16(), stored: false, collapsed: false };
        let keeping =
            stores_for_get(&question.method, &target, arrived.status, &fields, &inner.config.bases).then(|| {
                let vary = Vary::of(&fields);
                let selecting = Selecting::of(&vary, &selectable(question, &inner.config.allowed));
                let stored =
                    self.stored(arrived.status, fields, Arc::new(Coded::new(Bytes::new())), selecting, &arrived);
                Keeping { key, stored, asking, sent: sent.clone(), vary }
            });
        let keeping = keeping
            .filter(|keeping| is_for_others(&sent, &keeping.stored.fields, &inner.config.allowed))
            .filter(|keeping| {
                let directives = ResponseDirectives::of(&keeping.stored.fields);
                may_store(&Method::GET, &sent, keeping.stored.status, &keeping.stored.fields, &directives, None).is_ok()
            });
        let spool = Spool::new(keeping.is_some(), inner.upstream.origin().room().for_streams());
        let body = spool.tap().reader();
        let (this, ends_with_head) = (self.clone(), arrived.ends_with_head());
        let pumping = async move { drop(this.pump(spool, arrived.body, keeping).await) };
        if ends_with_head {
            // As in a fetch: stored before the client gets it.
            pumping.await;
        } else {
            tokio::spawn(pumping);
        }
        Ok(Passed::Streamed { head, body, outcome: CacheOutcome::Method(forwarded) })
    }
}
