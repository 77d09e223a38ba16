//! One request of an unknown path on its way to the origin and back, and what of the answer is kept.
//!
//! It does not decide whether to ask. The body runs in a task of its own, so that what is kept does not depend on the
//! client that asked for it. Callers: [`super`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AGE, AUTHORIZATION, CONTENT_LENGTH, COOKIE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, Method, StatusCode};

use crate::cache::coded::Coded;
use crate::cache::stored::Stored;
use crate::cache::{Key, Purges};
use crate::semantics::caching::{
    Allowed, Exchange, NotStored, Purpose, RequestDirectives, ResponseDirectives, Selecting, Terms, Vary,
    blames_the_request, end_to_end, freshen, head_agrees, is_bare, is_plain, may_store, onward, reflects,
};
use crate::upstream::client::{AskError, Asker};
use crate::upstream::flight::Ticket;

use super::{Flight, Head, LARGE, Landing, PassThrough, Question, is_failure, told, wants_part};
use crate::proxy::spool::{Reader, Spool};
use crate::upstream::forward::{Arrived, Pieces, Sending};
use crate::upstream::wire::Interim;

/// What a fetch brings to the one who started it.
#[derive(Debug)]
pub(super) enum Fetched {
    /// What was kept is still right.
    Confirmed { stored: Arc<Stored>, fwd_status: u16, is_kept: bool },
    /// An answer, while it arrives.
    Arriving { head: Arc<Head>, body: Option<Reader>, keeps: bool },
}

/// One fetch.
#[derive(Debug)]
pub(super) struct Fetch {
    /// What the client wants.
    pub question: Question,
    /// Under which its answer is kept.
    pub key: Key,
    /// What the answers are known to vary by.
    pub names: Vec<HeaderName>,
    /// What is kept already, and revalidated.
    pub kept: Option<Arc<Stored>>,
    /// Who waits.
    pub asker: Asker,
}

/// Whether an answer is kept for others, and if not, whom that is due to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Kept,
    /// To this request, or to what the answer shows of it: others may share.
    Personal,
    /// To what is asked for.
    Private,
}

/// What those who waited hear of a failure: that of a request with fields of its own may be due to these.
fn failed_for(said: impl FnOnce() -> HeaderMap, error: AskError, bare: bool) -> Landing {
    if bare || matches!(error, AskError::Spent(_)) {
        return Landing::Failed(error);
    }
    Landing::FailedFor(error, Arc::new(said()))
}

/// What a failure says to those who only hear of it.
fn failure(question: &Question, arrived: &Arrived) -> AskError {
    let path = String::from_utf8_lossy(&question.target).into_owned();
    AskError::Status { status: arrived.status.as_u16(), path, retry_after: arrived.retry_after() }
}

/// Whether the answer can be for others, too.
fn purpose(question: &Question, kept: Option<&Stored>) -> Purpose {
    if wants_part(question, kept) || RequestDirectives::of(&question.fields).no_store {
        Purpose::Pass
    } else {
        Purpose::Store
    }
}

/// What is sent of a client's header. What is kept is revalidated with its own validators and in the name of everybody
/// whom it answers. `names`: what the answers are known to vary by.
fn fields(question: &Question, allowed: &Allowed, names: &[HeaderName], kept: Option<&Stored>) -> HeaderMap {
    let purpose = purpose(question, kept);
    let mut fields = onward(&question.fields, purpose, allowed, |name| names.contains(name));
    if let Some(stored) = kept.filter(|_| question.method == Method::GET && purpose == Purpose::Store) {
        for (name, value) in [(IF_NONE_MATCH, &stored.etag), (IF_MODIFIED_SINCE, &stored.last_modified)] {
            if let Some(value) = value {
                fields.insert(name, value.clone());
            }
        }
    }
    fields
}

/// What will be kept when the body is complete.
pub(super) struct Keeping {
    pub key: Key,
    pub stored: Stored,
    pub asked: Purges,
    pub sent: HeaderMap,
    pub vary: Vary,
}

impl PassThrough {
    /// Asks the origin; the fetch goes on when the caller is dropped.
    pub(super) async fn start(
        &self,
        fetch: Fetch,
        ticket: Option<Ticket<Flight, Landing>>,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Fetched, AskError> {
        let this = self.clone();
        let task = tokio::spawn(async move { this.fetch(fetch, ticket, interim).await });
        task.await.unwrap_or_else(|error| Err(AskError::nonsense("the request", error)))
    }

    async fn fetch(
        &self,
        fetch: Fetch,
        ticket: Option<Ticket<Flight, Landing>>,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Fetched, AskError> {
        let inner = &*self.0;
        let Fetch { question, key, names, kept, asker } = &fetch;
        let asked = inner.cache.purges(key);
        let fields = fields(question, &inner.allowed, names, kept.as_deref());
        let sending = Sending {
            method: question.method.clone(),
            target: question.target.clone(),
            fields,
            body: Bytes::new(),
            received: question.version,
            asker: asker.clone(),
        };
        let sent = sending.fields.clone();
        // A failure that one client's fields may have brought about is none of the resource.
        let shared = purpose(question, kept.as_deref()) == Purpose::Store;
        let bare = shared && is_bare(&sent, &Vary::Nothing);
        let arrived = match inner.upstream.send(sending, interim).await {
            Ok(arrived) => arrived,
            Err(error) => {
                if bare {
                    inner.failures.failed(key, &error, inner.clock.now_mono());
                }
                if let Some(ticket) = ticket {
                    let said = || told(question, &inner.allowed, names);
                    ticket.land(failed_for(said, error.clone(), bare));
                }
                return Err(error);
            }
        };
        if is_failure(arrived.status) {
            if bare {
                let error = failure(question, &arrived);
                inner.failures.failed(key, &error, inner.clock.now_mono());
            }
        } else {
            inner.failures.answered(key);
        }
        if let Some(kept) = kept.as_ref().filter(|_| question.method == Method::HEAD) {
            self.learn_from_head(key, kept, &sent, &arrived, asked);
        }
        // A 304 confirms what it was asked about: with conditions of the client, or to HEAD, that is nothing of ours.
        let confirms = arrived.status == StatusCode::NOT_MODIFIED && question.method == Method::GET && shared;
        if let Some(kept) = kept.as_ref().filter(|kept| confirms && kept.has_validator()) {
            let stored = Arc::new(self.confirmed(kept, &arrived));
            let keeps = self.keeps(question, key, &sent, &stored, &arrived);
            let is_kept = keeps == Keeps::Kept && inner.cache.keep_confirmed(key, kept, &stored, asked);
            if keeps == Keeps::Private {
                inner.cache.forget_stored(key, kept);
            }
            if let Some(ticket) = ticket {
                ticket.land(match keeps {
                    _ if is_kept => Landing::Kept(stored.clone(), 304),
                    Keeps::Private => Landing::Private,
                    Keeps::Kept | Keeps::Personal => Landing::Personal,
                });
            }
            return Ok(Fetched::Confirmed { stored, fwd_status: 304, is_kept });
        }
        Ok(self.arriving(&fetch, ticket, sent, arrived, asked).await)
    }

    /// Whether an answer may be kept for others.
    fn keeps(&self, question: &Question, key: &Key, sent: &HeaderMap, stored: &Stored, arrived: &Arrived) -> Keeps {
        let inner = &*self.0;
        let directives = ResponseDirectives::of(&stored.fields);
        let allowed =
            |sent: &HeaderMap| may_store(&question.method, sent, stored.status, &stored.fields, &directives, None);
        if question.method != Method::GET {
            return Keeps::Private;
        }
        if blames_the_request(stored.status) && !is_bare(sent, &Vary::of(&stored.fields)) {
            return Keeps::Personal;
        }
        // What is asked for a part with all of a client's fields is that client's, even if all of it comes.
        let own = allowed(sent).err().or_else(|| sent.contains_key(RANGE).then_some(NotStored::Partial));
        let now = inner.clock.now_mono();
        if own.is_none() {
            inner.private.forget(key);
        } else if own == Some(NotStored::Partial) || allowed(&HeaderMap::new()).is_ok() {
            if matches!(own, Some(NotStored::Authorization | NotStored::Cookie)) {
                inner.personal.mark(key, now);
            }
            return Keeps::Personal;
        } else {
            if !is_failure(arrived.status) {
                inner.private.mark(key, now);
            }
            return Keeps::Private;
        }
        // Our own validators were sent, which is no secret of one client.
        if reflects(sent, &Vary::of(&stored.fields), &stored.fields, &[]) { Keeps::Personal } else { Keeps::Kept }
    }

    /// What is kept, as a 304 confirms it (RFC 9111 §4.3.4).
    fn confirmed(&self, kept: &Stored, arrived: &Arrived) -> Stored {
        let mut fields = kept.fields.clone();
        freshen(&mut fields, &end_to_end(&arrived.headers, false));
        self.stored(kept.status, fields, kept.body.clone(), kept.selecting.clone(), arrived)
    }

    /// An answer with the terms on which it is kept.
    pub(super) fn stored(
        &self,
        status: StatusCode,
        mut fields: HeaderMap,
        body: Arc<Coded>,
        selecting: Selecting,
        arrived: &Arrived,
    ) -> Stored {
        let exchange = Exchange { asked: arrived.asked, received: arrived.received };
        let terms = Terms::of(status, &fields, &ResponseDirectives::of(&fields), exchange, None);
        // It grows: what is sent is counted anew each time.
        fields.remove(AGE);
        Stored {
            status,
            link: None,
            etag: fields.get(ETAG).cloned(),
            last_modified: fields.get(LAST_MODIFIED).cloned(),
            fields,
            body,
            terms,
            selecting,
            arrived: self.0.clock.now_mono(),
        }
    }

    /// What an answer to HEAD says about what is kept (RFC 9111 §4.3.5).
    fn learn_from_head(&self, key: &Key, kept: &Arc<Stored>, sent: &HeaderMap, arrived: &Arrived, asked: Purges) {
        if arrived.status != StatusCode::OK || kept.status != StatusCode::OK {
            return;
        }
        let head = end_to_end(&arrived.headers, false);
        let personal =
            RequestDirectives::of(sent).no_store || [AUTHORIZATION, COOKIE].iter().any(|name| sent.contains_key(name));
        if personal || reflects(sent, &Vary::of(&head), &head, &[]) {
            // It says something of this client, and not what others would be told.
            return;
        }
        let stored = if head_agrees(&kept.fields, &head) {
            self.confirmed(kept, arrived)
        } else {
            // It is stale from now on, and may still stand in for an origin that fails.
            let mut stored = Stored::clone(kept);
            stored.terms.lifetime = Duration::ZERO;
            stored.terms.stale_while_revalidate = Some(Duration::ZERO);
            stored
        };
        self.0.cache.keep_confirmed(key, kept, &Arc::new(stored), asked);
    }

    /// Lets the body run, for the client and for the cache.
    async fn arriving(
        &self,
        fetch: &Fetch,
        ticket: Option<Ticket<Flight, Landing>>,
        sent: HeaderMap,
        arrived: Arrived,
        asked: Purges,
    ) -> Fetched {
        let Fetch { question, key, names, kept, .. } = fetch;
        let fields = end_to_end(&arrived.headers, false);
        let vary = Vary::of(&fields);
        let selecting = Selecting::of(&vary, &sent);
        let head = Arc::new(Head { status: arrived.status, fields: fields.clone() });
        let stored =
            self.stored(arrived.status, fields, Arc::new(Coded::new(Bytes::new())), selecting.clone(), &arrived);
        let length = arrived.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let fits = length.is_none_or(|length| length <= self.0.max_body);
        // A good answer is never replaced by a bad one.
        let worse = is_failure(arrived.status) && kept.as_ref().is_some_and(|kept| self.stands_in(kept));
        let mut decided = self.keeps(question, key, &sent, &stored, &arrived);
        if decided == Keeps::Kept && !fits {
            self.0.private.mark(key, self.0.clock.now_mono());
            decided = Keeps::Private;
        }
        let keeps = decided == Keeps::Kept && !worse;
        if decided == Keeps::Private
            && let Some(kept) = kept.as_ref().filter(|_| question.method == Method::GET && !is_failure(arrived.status))
        {
            // What the origin now answers with something that must not be kept is no longer what is kept.
            self.0.cache.forget_stored(key, kept);
        }
        if question.method == Method::HEAD {
            return Fetched::Arriving { head, body: None, keeps: false };
        }
        let spool = Spool::new(keeps, self.0.upstream.origin().room().for_streams());
        let tap = spool.tap();
        let body = tap.reader();
        let plain = is_plain(&sent, &vary);
        let mut ticket = ticket;
        if !keeps {
            if let Some(ticket) = ticket.take() {
                ticket.land(match decided {
                    // Those who waited would only get the same.
                    _ if is_failure(arrived.status) => {
                        let bare = is_bare(&sent, &Vary::Nothing);
                        let said = || told(question, &self.0.allowed, names);
                        failed_for(said, failure(question, &arrived), bare)
                    }
                    Keeps::Personal => Landing::Personal,
                    Keeps::Kept | Keeps::Private => Landing::Private,
                });
            }
        } else if let Some(ticket) = ticket.as_ref().filter(|_| plain) {
            ticket.land(Landing::Arriving { head: head.clone(), selecting, tap });
        }
        let keeping = keeps.then(|| Keeping { key: key.clone(), stored, asked, sent, vary });
        let (this, ends_with_head) = (self.clone(), arrived.ends_with_head());
        let pumping = async move {
            let kept = this.pump(spool, arrived.body, keeping).await;
            if let Some(ticket) = ticket.filter(|_| !plain) {
                // Whether it shows something of the request is known only now.
                ticket.land(kept.map_or(Landing::Personal, |kept| {
                    let status = kept.status.as_u16();
                    Landing::Kept(kept, status)
                }));
            }
        };
        if ends_with_head {
            // A client that has read all of an answer finds it kept.
            pumping.await;
        } else {
            tokio::spawn(pumping);
        }
        // Whether it shows something of a request that is not plain is not known before its end.
        Fetched::Arriving { head, body, keeps: keeps && plain }
    }

    /// Moves a body to its readers, and into the cache if it is to be kept.
    pub(super) async fn pump(&self, spool: Spool, mut pieces: Pieces, keeping: Option<Keeping>) -> Option<Arc<Stored>> {
        let inner = &*self.0;
        let mut length = 0;
        let last = loop {
            match pieces.next().await {
                None => break Bytes::new(),
                // Its end tells the readers that something is missing.
                Some(Err(error)) => {
                    tracing::debug!(%error, "an answer of the origin ended early");
                    return None;
                }
                Some(Ok(piece)) => {
                    length += piece.len() as u64;
                    if length > inner.max_body {
                        spool.stop_keeping();
                    }
                    if spool.keeps() && pieces.are_all_here() {
                        break piece;
                    }
                    if spool.push(piece).await.is_err() {
                        return None;
                    }
                }
            }
        };
        let this = self.clone();
        let finish = move || {
            let mut kept = None;
            spool.finish(last, |whole| kept = keeping.and_then(|keeping| this.keep(keeping, whole)));
            kept
        };
        // What is large takes its time to be looked through.
        if length > LARGE { inner.upstream.origin().room().parse(finish).await.ok().flatten() } else { finish() }
    }

    /// Keeps a whole body, unless it shows something of the request.
    fn keep(&self, keeping: Keeping, whole: Bytes) -> Option<Arc<Stored>> {
        let Keeping { key, mut stored, asked, sent, vary } = keeping;
        if reflects(&sent, &vary, &stored.fields, &whole) {
            return None;
        }
        stored.body = Arc::new(Coded::new(whole));
        let stored = Arc::new(stored);
        self.0.cache.keep_stored(&key, &stored, asked).then_some(stored)
    }
}
