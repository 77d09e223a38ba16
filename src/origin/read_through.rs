//! Reads that a client waits for and that the snapshot does not cover: fetched once, kept, served stale on failure.
//!
//! A simple shared cache for known endpoints. The request sent is built from the key alone, so nothing unkeyed can
//! poison an entry. Callers: [`crate::serve`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, HeaderMap, HeaderName, HeaderValue, LINK};

use crate::api::json;
use crate::api::rewrite::Rewrite;
use crate::cache::entry::{self, Entry};
use crate::cache::reply::Reply;
use crate::cache::{Cache, Key};
use crate::clock::Clock;
use crate::semantics::etag::EntityTag;
use crate::semantics::problem::{self, Problem};

use super::budget::Spent;
use super::client::{Answer, AskError, Asker, OriginClient, Validators};
use super::flight::Flights;
use super::window::Class;

/// How a read ended.
#[derive(Clone, Debug)]
pub enum Through {
    /// Fresh from the cache.
    Hit(Arc<Entry>),
    /// Fetched now.
    Fetched {
        /// The answer.
        entry: Arc<Entry>,
        /// The origin's status: 304 for a revalidation.
        fwd_status: u16,
        /// Whether another client's request fetched it.
        collapsed: bool,
        /// Whether it is kept.
        stored: bool,
    },
    /// Stale, because the origin failed.
    Stale {
        /// The kept answer.
        entry: Arc<Entry>,
        /// Why.
        error: AskError,
    },
}

/// The reader; cheap to clone.
#[derive(Clone)]
pub struct ReadThrough {
    inner: Arc<Inner>,
}

struct Inner {
    client: OriginClient,
    cache: Cache,
    rewrite: Rewrite,
    clock: Clock,
    ttl: Duration,
    stale_if_error: Duration,
    wait: Duration,
    flights: Flights<Key, AskError>,
}

/// How long answers live where the origin does not say.
#[derive(Clone, Copy, Debug)]
pub struct ReadConfig {
    /// Freshness where the origin gives none.
    pub ttl: Duration,
    /// How long a stale answer may stand in for a failing origin.
    pub stale_if_error: Duration,
    /// How long a client waits for the budget.
    pub wait: Duration,
}

impl ReadThrough {
    /// A reader that keeps what it fetches in `cache`.
    pub fn new(client: OriginClient, cache: Cache, rewrite: Rewrite, config: ReadConfig, clock: Clock) -> Self {
        let ReadConfig { ttl, stale_if_error, wait } = config;
        let flights = Flights::default();
        Self { inner: Arc::new(Inner { client, cache, rewrite, clock, ttl, stale_if_error, wait, flights }) }
    }

    /// How patient a client's read is.
    pub fn asker(&self, client: IpAddr) -> Asker {
        Asker { class: Class::Client, client: Some(client), patience: Some(self.inner.wait) }
    }

    /// The client that asks the origin.
    pub fn client(&self) -> &OriginClient {
        &self.inner.client
    }

    /// Reads a canonical path and query. `rewrites`: the document holds `api_url`s.
    ///
    /// # Errors
    /// When the origin gives no answer and none is kept that may stand in for it.
    pub async fn read(&self, path: &str, rewrites: bool, client: IpAddr) -> Result<Through, AskError> {
        let key = Key::Through(path.into());
        let now = self.inner.clock.now_mono();
        if let Some(entry) = self.inner.cache.entry(&key).filter(|entry| entry.fresh_for(now).is_some()) {
            return Ok(Through::Hit(entry));
        }
        let turn = tokio::time::timeout(self.inner.wait, self.inner.flights.turn(&key)).await;
        let kept = self.inner.cache.entry(&key);
        let Ok(mut turn) = turn else {
            return self.stale_or(kept, Spent { retry_after: Duration::from_secs(1) }.into());
        };
        let now = self.inner.clock.now_mono();
        if let Some(entry) = kept.as_ref().filter(|entry| turn.waited && entry.fresh_for(now).is_some()) {
            let fwd_status = entry.reply.status.as_u16();
            return Ok(Through::Fetched { entry: entry.clone(), fwd_status, collapsed: true, stored: true });
        }
        if let Some(error) = turn.failure() {
            return self.stale_or(kept, error);
        }
        match self.fetch(&key, path, rewrites, client, kept.as_deref()).await {
            Ok(through) => Ok(through),
            Err(error) => {
                turn.fail(error.clone());
                self.stale_or(kept, error)
            }
        }
    }

    /// What is kept, if it may stand in for an origin that fails.
    fn stale_or(&self, kept: Option<Arc<Entry>>, error: AskError) -> Result<Through, AskError> {
        let now = self.inner.clock.now_mono();
        match kept.filter(|entry| entry.stale_for(now) <= self.inner.stale_if_error) {
            Some(entry) => Ok(Through::Stale { entry, error }),
            None => Err(error),
        }
    }

    async fn fetch(
        &self,
        key: &Key,
        path: &str,
        rewrites: bool,
        client: IpAddr,
        kept: Option<&Entry>,
    ) -> Result<Through, AskError> {
        let validators =
            kept.map(|entry| Validators { etag: entry.etag.clone(), last_modified: entry.last_modified.clone() });
        let answer = self.inner.client.ask(path, validators.as_ref(), self.asker(client)).await?;
        let entry = Arc::new(self.entry(path, rewrites, &answer, kept)?);
        let stored = entry::may_store(&answer.headers);
        if stored {
            self.inner.cache.keep_entry(key.clone(), entry.clone());
        }
        Ok(Through::Fetched { entry, fwd_status: answer.status, collapsed: false, stored })
    }

    fn entry(&self, path: &str, rewrites: bool, answer: &Answer, kept: Option<&Entry>) -> Result<Entry, AskError> {
        let (reply, validators) = match (answer.status, kept) {
            (304, Some(kept)) => {
                let old = Validators { etag: kept.etag.clone(), last_modified: kept.last_modified.clone() };
                let reply = Reply::new(kept.reply.body().clone(), kept.reply.tag.clone(), None, 0)
                    .with_kind(kept.reply.status, Some(kept.reply.content_type.clone()));
                (reply, old)
            }
            (200, _) => {
                let text = std::str::from_utf8(&answer.body).map_err(|error| AskError::nonsense(path, error))?;
                json::check(text).map_err(|error| AskError::nonsense(path, error))?;
                let body = if rewrites {
                    let document = path.split('?').next().unwrap_or(path);
                    let rewritten = self.inner.rewrite.apply(text, document);
                    rewritten.map_err(|error| AskError::nonsense(path, error))?.into()
                } else {
                    answer.body.clone()
                };
                let validators = answer.validators();
                // Weakened: the body may be rewritten and is recoded for clients (RFC 9110 §8.8.1).
                let tag = validators.etag.as_ref().and_then(|etag| EntityTag::parse(etag.as_bytes()).ok());
                let reply = Reply::new(body, tag.map(|tag| tag.weakened()), None, 0);
                (reply.with_kind(StatusCode::OK, answer.headers.get(CONTENT_TYPE).cloned()), validators)
            }
            (404 | 410, _) => {
                let problem = HeaderValue::from_static(problem::CONTENT_TYPE);
                let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
                let document = id.map_or_else(|| Problem::unknown_path(path), Problem::unknown_listing);
                let reply = Reply::new(document.to_json(), None, None, 0);
                (reply.with_kind(StatusCode::NOT_FOUND, Some(problem)), Validators::default())
            }
            (status, _) => return Err(AskError::nonsense(path, format!("status {status}"))),
        };
        let missing = reply.status == StatusCode::NOT_FOUND;
        let says = answer.headers.contains_key(CACHE_CONTROL) || answer.headers.contains_key(EXPIRES);
        let origin_time = answer.time(None).at();
        let age = answer.received.millis_since(origin_time);
        let mut entry = Entry {
            reply,
            etag: validators.etag,
            last_modified: validators.last_modified,
            link: joined(&answer.headers, &LINK),
            cache_control: joined(&answer.headers, &CACHE_CONTROL),
            expires: answer.headers.get(EXPIRES).cloned(),
            arrived: self.inner.clock.now_mono(),
            initial_age: Duration::from_millis(u64::try_from(age).unwrap_or(0)),
            lifetime: entry::lifetime(&answer.headers, answer.stamps.date.unwrap_or(answer.received), self.inner.ttl),
        };
        match kept.filter(|_| answer.status == 304 && !says) {
            // RFC 9111 §3.2: what a 304 does not mention stays as it was.
            Some(kept) => {
                (entry.cache_control, entry.expires) = (kept.cache_control.clone(), kept.expires.clone());
                entry.lifetime = kept.lifetime;
                entry.link = entry.link.or_else(|| kept.link.clone());
            }
            None if missing => {
                entry.lifetime = MISSING.min(entry.lifetime);
                entry.cache_control = entry.cache_control.or_else(|| Some(HeaderValue::from_static("max-age=60")));
            }
            None => {}
        }
        Ok(entry)
    }
}

/// How long a 404 is kept at most.
const MISSING: Duration = Duration::from_secs(60);

/// All lines of a field as one (RFC 9110 §5.3).
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<HeaderValue> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    if lines.is_empty() { None } else { HeaderValue::from_bytes(&lines.join(&b", "[..])).ok() }
}
