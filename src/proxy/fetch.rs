//! One fetch: asks the origin, and gives the result to its starter and to all waiting clients.
//!
//! It decides neither whether to ask nor what to store. It runs in a task of its own, so that storing does not depend
//! on the client that asked. Callers: [`super::together`].

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderName;

use crate::cache::Key;
use crate::cache::stored::Stored;
use crate::upstream::client::{AskError, Asker};
use crate::upstream::forward::Sending;
use crate::upstream::wire::Listener;

use super::Proxy;
use super::landing::{Landing, Waiting, failed_for};
use super::onward::{sent, tells_of_the_resource, told};
use super::question::{Endpoint, Head, Question};
use super::spool::Reader;

/// The result of a fetch for the client that started it.
#[derive(Debug)]
pub(super) enum Fetched {
    /// A whole answer: of a known endpoint, or a stored one that is still valid.
    Whole {
        stored: Arc<Stored>,
        fwd_status: u16,
        is_kept: bool,
    },
    Arriving {
        head: Arc<Head>,
        body: Option<Reader>,
        is_kept: bool,
    },
}

#[derive(Debug)]
pub(super) struct Fetch {
    /// The client's request.
    pub question: Question,
    /// The key of its answer.
    pub key: Key,
    /// The names that the answers vary by.
    pub names: Vec<HeaderName>,
    /// The stored answer to revalidate.
    pub kept: Option<Arc<Stored>>,
    /// The purpose, and the client that waits.
    pub asker: Asker,
}

impl Proxy {
    /// Asks the origin; goes on when the caller is dropped.
    pub(super) async fn start(
        &self,
        fetch: Fetch,
        waiting: Waiting,
        interim: Option<Listener>,
    ) -> Result<Fetched, AskError> {
        let this = self.clone();
        let task = tokio::spawn(async move { this.fetch(fetch, waiting, interim).await });
        task.await.unwrap_or_else(|error| Err(AskError::nonsense("the request", error)))
    }

    /// Asks the origin.
    pub(super) async fn fetch(
        &self,
        fetch: Fetch,
        waiting: Waiting,
        interim: Option<Listener>,
    ) -> Result<Fetched, AskError> {
        let inner = &*self.0;
        let Fetch { question, key, names, kept, asker } = &fetch;
        let asking = inner.cache.asking(key);
        let sent = sent(question, &inner.config.allowed, names, kept.as_deref());
        let bare = tells_of_the_resource(question, &sent, kept.as_deref());
        let error = match question.endpoint {
            Endpoint::Known { rewrites, .. } => match self.judged(&fetch, rewrites, &asking).await {
                Ok((stored, fwd_status, is_kept)) => {
                    inner.failures.answered(key);
                    if let Some(waiting) = waiting {
                        let kept = Landing::Kept(stored.clone(), fwd_status);
                        waiting.land(if is_kept { kept } else { Landing::Private });
                    }
                    return Ok(Fetched::Whole { stored, fwd_status, is_kept });
                }
                Err(error) => error,
            },
            Endpoint::Unknown => {
                let sending = Sending {
                    method: question.method.clone(),
                    target: question.target.clone(),
                    fields: sent.clone(),
                    body: Bytes::new(),
                    received: question.version,
                    asker: asker.clone(),
                };
                match inner.upstream.send(sending, interim).await {
                    Ok(arrived) => return Ok(self.arrived(fetch, waiting, sent, arrived, asking).await),
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
