//! The answer of a known endpoint: read whole, and checked before clients get it.
//!
//! The request is built from the key alone, so nothing unkeyed can poison an entry; the answer must be JSON. It does
//! not decide whether to ask. Callers: [`super::fetch`].

mod representation;

use std::sync::Arc;
use std::time::Duration;

use http::header::{AGE, CACHE_CONTROL, EXPIRES, HeaderMap, HeaderValue, VARY};
use http::{Method, StatusCode};

use crate::api::route::Route;
use crate::cache::asking::Asking;
use crate::cache::stored::Stored;
use crate::semantics::caching::{Exchange, NotStored, ResponseDirectives, Selecting, Terms, Vary, may_store};
use crate::upstream::client::{Answer, AskError, Asker, Validators};

use super::fetch::Fetch;
use super::{LARGE, Proxy};

use representation::Representation;

/// How long a 404 is cached.
const MISSING: Duration = Duration::from_secs(60);

impl Proxy {
    /// Asks for a document, judges and stores the answer. Returns it with the origin's status (304 for a revalidation),
    /// and whether it is stored, and so everybody's.
    ///
    /// # Errors
    /// When there is no answer, or none that may be shown.
    pub(super) async fn judged(
        &self,
        fetch: &Fetch,
        rewrites: bool,
        asking: &Asking,
    ) -> Result<(Arc<Stored>, u16, bool), AskError> {
        let inner = &*self.0;
        let client = inner.upstream.origin();
        let Fetch { question, key, kept, asker, .. } = fetch;
        let path = String::from_utf8_lossy(&question.target).into_owned();
        let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
        let validators = kept.as_ref().map(|stored| Validators {
            etag: stored.etag.as_ref().and_then(text),
            last_modified: stored.last_modified.as_ref().and_then(text),
        });
        let asker = Asker { was_well: kept.is_some(), ..asker.clone() };
        let answer = client.ask(&path, validators.as_ref(), asker).await?;
        let judged = if answer.body.len() as u64 > LARGE {
            // Reading a large body takes time.
            let (this, path, answer, kept) = (self.clone(), path.clone(), answer.clone(), kept.clone());
            let room = client.room();
            let judging = room.parse(move || this.judge(&path, rewrites, &answer, kept.as_deref()));
            judging.await.unwrap_or_else(|error| Err(AskError::nonsense("the answer", error)))
        } else {
            self.judge(&path, rewrites, &answer, kept.as_deref())
        };
        let (stored, may_keep) = judged.inspect_err(|error| client.unusable(error, fetch.asker.class))?;
        if let Some(early) = inner.early.get() {
            early.offer(&path, &answer).await;
        }
        let stored = Arc::new(stored);
        let is_kept = may_keep && inner.cache.keep_stored(key, &stored, asking);
        Ok((stored, answer.status, is_kept))
    }

    /// The judged answer, and whether it may be cached.
    fn judge(
        &self,
        path: &str,
        rewrites: bool,
        answer: &Answer,
        kept: Option<&Stored>,
    ) -> Result<(Stored, bool), AskError> {
        let (inner, config) = (&*self.0, &self.0.config);
        let mut shown = match (answer.status, kept) {
            // A 304 to an unconditional request confirms nothing.
            (304, Some(kept)) if kept.has_validator() => Representation::confirmed(kept, &answer.headers),
            (200, _) => {
                Representation::document(path, answer, rewrites.then_some(&config.rewrite), &config.public_url)?
            }
            (404 | 410, _) if is_detail(path) => Representation::missing(path, &answer.headers),
            (status @ 400..=499, _) => {
                let status = StatusCode::from_u16(status).map_err(|error| AskError::nonsense(path, error))?;
                Representation::refusal(status, answer)
            }
            (status, _) => return Err(AskError::nonsense(path, format!("status {status}"))),
        };
        let explicit = shown.fields.contains_key(CACHE_CONTROL) || shown.fields.contains_key(EXPIRES);
        if shown.status.is_client_error() && !explicit {
            shown.fields.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
        }
        // `Age` is about this answer only. Our request never differs, so only `*` in `Vary` has a meaning.
        let mut judged = shown.fields.clone();
        let star = answer.headers.get_all(VARY).iter().any(|value| value.as_bytes().contains(&b'*'));
        let vary = star.then(|| HeaderValue::from_static("*"));
        for (name, value) in [(AGE, answer.headers.get(AGE).cloned()), (VARY, vary)] {
            match value {
                Some(value) => drop(judged.insert(name, value)),
                None => drop(judged.remove(name)),
            }
        }
        let directives = ResponseDirectives::of(&judged);
        let (ttl, sent) = (Some(config.settings.load().ttl), HeaderMap::new());
        let exchange = Exchange { asked: answer.asked, received: answer.received };
        let mut terms = Terms::of(shown.status, &judged, &directives, exchange, ttl);
        let allowed = may_store(&Method::GET, &sent, shown.status, &judged, &directives, ttl);
        if shown.status.is_success() {
            let forbidden = matches!(allowed, Err(NotStored::Private | NotStored::NoStore));
            inner.upstream.origin().status().stored(!forbidden);
        }
        let may_keep = allowed.is_ok() && shown.body.identity().body.len() as u64 <= inner.cache.largest();
        if shown.status.is_client_error() && may_keep && terms.lifetime > MISSING {
            // The resource may exist soon: no cache keeps this for longer.
            terms.lifetime = MISSING;
            shown.fields.remove(EXPIRES);
            shown.fields.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
        }
        let Representation { status, fields, body, link, etag, last_modified } = shown;
        let (selecting, arrived) = (Selecting::of(&Vary::NOTHING, &sent), inner.clock.now_mono());
        Ok((
            Stored { status, fields, body, link, etag, last_modified, terms, selecting, language: None, arrived },
            may_keep,
        ))
    }
}

/// Whether a path is that of a detail.
fn is_detail(path: &str) -> bool {
    matches!(Route::of(path), Route::Detail(_))
}
