//! What clients see of a known endpoint's answer: checked, rewritten, without fields that are not for them.
//!
//! Not its lifetime in the cache. Callers: [`super`].

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use http::header::{
    ACCEPT_RANGES, AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    LAST_MODIFIED, VARY,
};

use crate::api::json::Picked;
use crate::api::links::Rewrite;
use crate::api::query::Parameters;
use crate::api::route::Route;
use crate::api::{json, links};
use crate::cache::coded::Coded;
use crate::cache::stored::Stored;
use crate::semantics::caching::{end_to_end, freshen};
use crate::semantics::precondition::EntityTag;
use crate::semantics::problem::{self, Problem};
use crate::upstream::client::{Answer, AskError, Validators};

/// Fields about a body that is recoded.
const ABOUT_THE_BODY: [HeaderName; 8] = [
    CONTENT_LENGTH,
    CONTENT_ENCODING,
    ACCEPT_RANGES,
    VARY,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// What clients see of it.
pub(super) struct Representation {
    pub status: StatusCode,
    pub fields: HeaderMap,
    pub body: Arc<Coded>,
    pub link: Option<HeaderValue>,
    pub etag: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
}

impl Representation {
    /// A document of the API, with its links rewritten.
    ///
    /// # Errors
    /// When it is not JSON.
    pub(super) fn document(
        path: &str,
        answer: &Answer,
        rewrite: Option<&Rewrite>,
        public_url: &str,
    ) -> Result<Self, AskError> {
        let nonsense = |error: &dyn std::fmt::Display| AskError::nonsense(path, error);
        let text = std::str::from_utf8(&answer.body).map_err(|error| nonsense(&error))?;
        let rewritten = match rewrite {
            Some(rewrite) => rewrite.apply(text, path.split('?').next().unwrap_or(path)),
            None => json::check(text).map(|()| Cow::Borrowed(text)),
        };
        let body = match rewritten.map_err(|error| nonsense(&error))? {
            Cow::Borrowed(_) => answer.body.clone(),
            Cow::Owned(text) => text.into(),
        };
        let mut fields = end_to_end(&answer.headers, true);
        for name in ABOUT_THE_BODY.iter().chain(&[AGE, ETAG]) {
            fields.remove(name);
        }
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

    /// What is kept, as a 304 confirms it.
    pub(super) fn confirmed(kept: &Stored, headers: &HeaderMap) -> Self {
        let mut fields = kept.fields.clone();
        let mut news = end_to_end(headers, true);
        for name in ABOUT_THE_BODY.iter().chain(&[AGE, ETAG]) {
            news.remove(name);
        }
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
    pub(super) fn missing(path: &str, headers: &HeaderMap) -> Self {
        let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
        let document = id.map_or_else(|| Problem::unknown_path(path), Problem::unknown_listing);
        let mut fields = end_to_end(headers, true);
        for name in ABOUT_THE_BODY.iter().chain(&[AGE, ETAG, LAST_MODIFIED]) {
            fields.remove(name);
        }
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(problem::CONTENT_TYPE));
        let body = Arc::new(Coded::new(document.to_json()));
        let status = StatusCode::NOT_FOUND;
        Self { status, fields, body, link: None, etag: None, last_modified: None }
    }

    /// A refusal in the origin's words: only it knows what a slug or a page beyond the last means.
    pub(super) fn refusal(status: StatusCode, answer: &Answer) -> Self {
        let mut fields = end_to_end(&answer.headers, true);
        for name in ABOUT_THE_BODY.iter().chain(&[AGE, ETAG, LAST_MODIFIED]) {
            fields.remove(name);
        }
        let body = Arc::new(Coded::new(answer.body.clone()));
        Self { status, fields, body, link: None, etag: None, last_modified: None }
    }
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
        (Route::List, Some(total), Ok(asked)) => links::list(license.as_deref(), &asked.list, total, public_url, None),
        _ => links::license(license.as_deref()),
    }
}
