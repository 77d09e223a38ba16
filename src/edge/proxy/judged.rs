//! Answer of a known endpoint: read whole, and checked before clients get it.
//!
//! The request is built from the key alone, so nothing unkeyed can poison an entry; the answer must be JSON. Clients see it
//! rewritten, without fields that are not for them. It does not decide whether to ask. Callers: [`super::fetch`].

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ACCEPT_RANGES, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, ETAG, EXPIRES, HeaderMap,
    HeaderName, HeaderValue, LAST_MODIFIED, VARY,
};
use http::{Method, StatusCode};

use crate::api::json::Picked;
use crate::api::links::Rewrite;
use crate::api::page::Page;
use crate::api::query::{ListQuery, Parameters};
use crate::api::route::Route;
use crate::api::taxonomy::VolatileKeys;
use crate::api::{json, links, page, taxonomy};
use crate::data::cache::coded::Coded;
use crate::data::cache::recent::Asking;
use crate::data::cache::reply::Stored;
use crate::origin::client::{Answer, AskError, Asker, Validators};
use crate::protocol::caching::{
    Exchange, Freshness, NotStored, ResponseDirectives, Selecting, Vary, end_to_end, freshen, may_store,
};
use crate::protocol::precondition::EntityTag;
use crate::protocol::problem;
use crate::protocol::problem::Problem;

use super::fetch::Fetch;
use super::{LARGE, Proxy};

/// How long a 404 is cached.
const MISSING: Duration = Duration::from_secs(60);

impl Proxy {
    /// Asks for a document, judges and stores the answer. Returns it with the origin's status (304 for a revalidation),
    /// and whether it is stored, and so everybody's.
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
        let is_open = question.is_spare();
        let judged = if answer.body.len() as u64 > LARGE {
            // Reading a large body takes time.
            let (this, path, answer, kept) = (self.clone(), path.clone(), answer.clone(), kept.clone());
            let room = client.room();
            let judging = room.parse(move || this.judge(&path, rewrites, is_open, &answer, kept.as_deref()));
            judging.await.unwrap_or_else(|error| Err(AskError::nonsense("the answer", error)))
        } else {
            self.judge(&path, rewrites, is_open, &answer, kept.as_deref())
        };
        let judged = judged.map_err(|error| client.named(error));
        let status = judged.as_ref().map_or(StatusCode::OK, |(stored, _)| stored.status);
        let lacks =
            (!is_open && is_lacking(&path, status)).then(|| client.named(AskError::answered(&path, status.as_u16())));
        // Any other answer that something is missing does not show whether answers are usable.
        if lacks.is_some() || !status.is_client_error() {
            client.judged(lacks.as_ref().or(judged.as_ref().err()));
        }
        let (stored, may_keep) = judged?;
        let stored = Arc::new(stored);
        let is_kept = may_keep && inner.cache.keep_stored(key, &stored, asking);
        Ok((stored, answer.status, is_kept))
    }

    /// The judged answer, and whether it may be cached. `is_open`: it is one to an open case, which may be anything.
    fn judge(
        &self,
        path: &str,
        rewrites: bool,
        is_open: bool,
        answer: &Answer,
        kept: Option<&Stored>,
    ) -> Result<(Stored, bool), AskError> {
        let (inner, config) = (&*self.0, &self.0.config);
        let mut shown = match (answer.status, kept) {
            // A 304 to an unconditional request confirms nothing.
            (304, Some(kept)) if kept.has_validator() => Representation::confirmed(kept, &answer.headers),
            (200, _) => {
                let rewrite = rewrites.then_some(&config.rewrite);
                let document = Representation::document(path, answer, rewrite, &config.public_url);
                match document.and_then(|document| document.checked(path, kept)) {
                    Err(_) if is_open => Representation::verbatim(StatusCode::OK, answer),
                    document => document?,
                }
            }
            (404 | 410, _) if !is_open && matches!(Route::of(path), Route::Detail(_)) => {
                Representation::missing(path, &answer.headers)
            }
            (status @ 400..=499, _) => {
                let status = StatusCode::from_u16(status).map_err(|error| AskError::nonsense(path, error))?;
                Representation::verbatim(status, answer)
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
        let mut terms = Freshness::of(shown.status, &judged, &directives, exchange, ttl);
        let allowed = may_store(&Method::GET, &sent, shown.status, &judged, &directives, ttl);
        if shown.status.is_success() {
            let forbidden = matches!(allowed, Err(NotStored::Private | NotStored::NoStore));
            inner.upstream.origin().status().stored(!forbidden);
        }
        let may_keep = allowed.is_ok() && shown.body.identity().len() as u64 <= inner.cache.largest();
        if shown.status.is_client_error() && may_keep && terms.lifetime > MISSING {
            // The resource may exist soon: no cache keeps this for longer.
            terms.lifetime = MISSING;
            shown.fields.remove(EXPIRES);
            shown.fields.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
        }
        if is_open {
            shown.link = None;
            let others: Vec<HeaderName> =
                shown.fields.keys().filter(|name| !OF_OPEN_CASES.contains(name)).cloned().collect();
            for name in others {
                shown.fields.remove(name);
            }
        }
        let Representation { status, fields, body, link, etag, last_modified } = shown;
        let (selecting, arrived) = (Selecting::of(&Vary::NOTHING, &sent), inner.clock.now_mono());
        Ok((
            Stored { status, fields, body, link, etag, last_modified, terms, selecting, language: None, arrived },
            may_keep,
        ))
    }
}

/// Fields about a body that is recoded, and those that get a value of ours.
const ABOUT_THE_BODY: [HeaderName; 10] = [
    AGE,
    ETAG,
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    ACCEPT_RANGES,
    VARY,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// What an answer to an open case keeps.
const OF_OPEN_CASES: [HeaderName; 4] = [CACHE_CONTROL, CONTENT_TYPE, DATE, EXPIRES];

/// What clients see of it.
struct Representation {
    pub status: StatusCode,
    pub fields: HeaderMap,
    pub body: Arc<Coded>,
    pub link: Option<HeaderValue>,
    pub etag: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
}

impl Representation {
    /// A document of the API, with its links rewritten.
    fn document(path: &str, answer: &Answer, rewrite: Option<&Rewrite>, public_url: &str) -> Result<Self, AskError> {
        let nonsense = |error: &dyn std::fmt::Display| AskError::nonsense(path, error);
        let document = path.split('?').next().unwrap_or(path);
        let text = std::str::from_utf8(&answer.body).map_err(|error| nonsense(&error));
        let checked = text.and_then(|text| json::check(text).map_err(|error| nonsense(&error)));
        let whole = match checked {
            Ok(()) => answer.body.clone(),
            // As in a snapshot: a listing that cannot be read does not keep the others from anybody.
            Err(error) if Route::of(document) == Route::List => {
                let rest = page::without_broken_items(&answer.body).and_then(|(rest, _)| String::from_utf8(rest).ok());
                rest.filter(|rest| json::check(rest).is_ok()).ok_or(error)?.into()
            }
            Err(error) => return Err(error),
        };
        let text = std::str::from_utf8(&whole).map_err(|error| nonsense(&error))?;
        let rewritten = rewrite.map_or(Ok(Cow::Borrowed(text)), |rewrite| rewrite.apply(text, document));
        let body = match rewritten.map_err(|error| nonsense(&error))? {
            Cow::Borrowed(_) => whole.clone(),
            Cow::Owned(text) => text.into(),
        };
        let mut fields = visible(&answer.headers, &[]);
        // It is JSON: with another type browsers could take it for a page.
        let is_json = |kind: &HeaderValue| {
            let kind = kind.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
        };
        if fields.get_all(CONTENT_TYPE).iter().nth(1).is_some() || !fields.get(CONTENT_TYPE).is_some_and(is_json) {
            fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let Validators { etag, last_modified } = answer.validators();
        // Weakened: the body may be rewritten and recoded for clients (RFC 9110 §8.8.1).
        let tag = etag.as_ref().and_then(|etag| EntityTag::parse(etag.as_bytes())).map(|tag| tag.weakened());
        if let Some(tag) = &tag {
            fields.insert(ETAG, tag.to_header_value());
        }
        let value = |text: Option<String>| text.and_then(|text| HeaderValue::from_str(&text).ok());
        Ok(Self {
            status: StatusCode::OK,
            fields,
            body: Arc::new(Coded::new(body)),
            link: link(path, text, public_url),
            etag: value(etag),
            last_modified: value(last_modified),
        })
    }

    /// Refuses a list whose `items` or `total` has a wrong type or is lost, and an index that lost its terms.
    fn checked(self, path: &str, kept: Option<&Stored>) -> Result<Self, AskError> {
        fn text(body: &Coded) -> &str {
            std::str::from_utf8(body.identity()).unwrap_or_default()
        }
        let has_terms = |text: &str| taxonomy::terms(text).is_ok_and(|terms| !terms.is_empty());
        let has_lost = |has: fn(&str) -> bool| !has(text(&self.body)) && kept.is_some_and(|kept| has(text(&kept.body)));
        // An empty list may have `null` items.
        match Route::of(path.split('?').next().unwrap_or(path)) {
            Route::List
                if (members(text(&self.body)).contains(&Some(false))
                    || has_lost(|list| members(list) == [Some(true); 2]))
                    && Page::parse(self.body.identity(), &VolatileKeys::default()).is_err() =>
            {
                Err(AskError::nonsense(path, "the list has no array `items` or no number `total`"))
            }
            Route::Taxonomy(_) if has_lost(has_terms) => Err(AskError::nonsense(path, "the index has no terms")),
            _ => Ok(self),
        }
    }

    /// What is kept, as a 304 confirms it.
    fn confirmed(kept: &Stored, headers: &HeaderMap) -> Self {
        let mut fields = kept.fields.clone();
        let news = visible(headers, &[]);
        freshen(&mut fields, &news);
        Self {
            status: kept.status,
            fields,
            body: kept.body.clone(),
            link: kept.link.clone(),
            etag: kept.etag.clone(),
            last_modified: headers.get(LAST_MODIFIED).cloned().or_else(|| kept.last_modified.clone()),
        }
    }

    /// For a missing resource. The words are ours: the origin's may be anything.
    fn missing(path: &str, headers: &HeaderMap) -> Self {
        let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
        let document = id.map_or_else(|| Problem::unknown_path(path), Problem::unknown_listing);
        let mut fields = visible(headers, &[LAST_MODIFIED]);
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(problem::CONTENT_TYPE));
        let body = Arc::new(Coded::new(document.to_json()));
        let status = StatusCode::NOT_FOUND;
        Self { status, fields, body, link: None, etag: None, last_modified: None }
    }

    /// In the origin's words: only it knows what a slug or a page beyond the last means.
    fn verbatim(status: StatusCode, answer: &Answer) -> Self {
        let fields = visible(&answer.headers, &[LAST_MODIFIED]);
        let body = Arc::new(Coded::new(answer.body.clone()));
        Self { status, fields, body, link: None, etag: None, last_modified: None }
    }
}

/// Whether the origin lacks what each one has: then `origin.url` names another place.
fn is_lacking(path: &str, status: StatusCode) -> bool {
    let is_everywhere = path == "/api/listings.json" || matches!(Route::of(path), Route::Taxonomy(_));
    is_everywhere && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
}

/// Whether `items` is an array, and `total` a number from 0 up, or a text of one, as Perl may write it; `None`: absent.
fn members(list: &str) -> [Option<bool>; 2] {
    let [items, total] = json::pick(list, &["items", "total"]).unwrap_or_default();
    let judged = |value, is_right: fn(&str) -> bool| match value {
        Picked::Absent => None,
        Picked::Once(value) => Some(is_right(value)),
        Picked::Repeated(..) => Some(false),
    };
    let is_count = |value: &str| value.trim_matches('"').starts_with(|first: char| first.is_ascii_digit());
    [judged(items, |value| value.starts_with('[')), judged(total, is_count)]
}

/// The fields that clients see, without those about the body and `more`.
fn visible(headers: &HeaderMap, more: &[HeaderName]) -> HeaderMap {
    let mut fields = end_to_end(headers, true);
    for name in ABOUT_THE_BODY.iter().chain(more) {
        fields.remove(name);
    }
    fields
}

/// Our own `Link`: the licence that the document names, and for a list the pages around it.
fn link(path: &str, text: &str, public_url: &str) -> Option<HeaderValue> {
    let [license, total] = json::pick(text, &["license", "total"]).unwrap_or_default().map(|picked| match picked {
        Picked::Absent => None,
        Picked::Once(value) | Picked::Repeated(value, _) => Some(value),
    });
    let license = license.and_then(json::string).and_then(|license| links::license_target(&license));
    let (document, query) = path.split_once('?').unwrap_or((path, ""));
    let total = total.and_then(|total| total.parse().ok());
    match (Route::of(document), total, Parameters::parse(query)) {
        // Of an odd query, only the origin knows the pages.
        (Route::List, Some(total), Ok(asked)) if !asked.is_odd => {
            let query = (&asked.list, ListQuery::DEFAULT_PER_PAGE);
            links::list(license.as_deref(), query, total, public_url, None)
        }
        _ => links::license(license.as_deref()),
    }
}
