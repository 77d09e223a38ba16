//! Finds a document of this server, and writes the head of its answer.
//!
//! [`crate::pages`] makes the content. Callers: [`super::find`], [`super::respond`].

use std::sync::Arc;

use http::{Method, StatusCode};

use crate::api::route::WantedDocument;
use crate::cache::Key;
use crate::cache::rendered::{Confinement, Lifetime, Rendered};
use crate::clock::WallTime;
use crate::pages::Unrendered;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::{self, Precondition};
use crate::semantics::problem::Problem;
use crate::snapshot::pointer::Snapshot;

use super::compose::{Answer, Asked, ConstantHeaders, NOSNIFF, Outcome, common};
use super::find::{Finder, Found};
use super::head::{self as fields, Head};

/// A page loads nothing but what is ours, and nobody may frame it.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                           base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The same for the viewer of the API's description, which styles itself and brings its images along.
const VIEWER_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                             connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// After how many seconds a client may ask again for what shows the first snapshot.
const NO_SNAPSHOT_FOR: u64 = 30;

impl Finder {
    /// Finds a document for a client that likes `coding` best.
    pub(super) async fn document(&self, mut wanted: WantedDocument, coding: Coding) -> Found {
        let pages = self.pages.load_full();
        if let WantedDocument::Asset(name) = &wanted
            && let Some(packed) = pages.packed(name, coding)
        {
            return Found::Document { document: packed, published: None };
        }
        let published = if wanted.shows_data() { self.current.get() } else { None };
        if let (WantedDocument::Explore(query), Some(published)) = (&mut wanted, &published)
            && query.page > 1
        {
            // All pages beyond the last one are the last one: clients choose any number.
            let total = published.dataset.find(query).map_or(0, |found| found.total);
            query.page = query.page.min(query.total_pages(total).max(1));
        }
        let epoch = published.as_ref().map_or(0, |published| published.epoch);
        let key = Key::Document(wanted.clone());
        let kept = self.cache.rendered(&key);
        if let Some(document) = kept.clone().filter(|kept| kept.epoch() == epoch) {
            document.prepare(coding).await;
            return Found::Document { document, published };
        }
        // Rendering takes a millisecond, the map of a large snapshot longer: other clients of this thread must not
        // wait.
        let (renderer, shown) = (pages.clone(), published.clone());
        // Never closed.
        let turn = self.rendering.acquire().await;
        let rendering = tokio::task::spawn_blocking(move || renderer.render(&wanted, shown.as_deref()));
        let rendered = rendering.await;
        drop(turn);
        match rendered {
            Ok(Ok(made)) => {
                let document = self.cache.keep_rendered(key.clone(), kept.as_ref(), made);
                if !Arc::ptr_eq(&pages, &self.pages.load()) {
                    // A reload came in between.
                    self.cache.forget(&key);
                }
                document.prepare(coding).await;
                Found::Document { document, published }
            }
            Ok(Err(Unrendered::NoSuchAsset(name))) => Problem::unknown_path(&*name).into(),
            Ok(Err(Unrendered::NoSnapshot)) => {
                let (why, retry_after) = match &self.details {
                    Some(_) => ("there is no snapshot yet", NO_SNAPSHOT_FOR),
                    None => ("a shield keeps no snapshot", 86_400),
                };
                Found::Problem { problem: Problem::unavailable(why), retry_after: Some(retry_after) }
            }
            Err(error) => {
                tracing::error!(%error, "a page could not be rendered");
                Problem::internal().into()
            }
        }
    }
}

impl ConstantHeaders {
    /// A document of this server, in `head`.
    pub(super) fn document<H: Head>(
        &self,
        asked: Asked<'_>,
        document: &Rendered,
        published: Option<&Arc<Snapshot>>,
        now: WallTime,
        mut head: H,
    ) -> Answer<H> {
        let (coding, variant, tag) = document.variant(asked.coding);
        let state = if asked.conditional {
            precondition::evaluate(asked.method, asked.headers, tag)
        } else {
            Precondition::Proceed
        };
        let status = match state {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None, head),
            Precondition::NotModified => StatusCode::NOT_MODIFIED,
            Precondition::Proceed => StatusCode::OK,
        };
        let whole = status == StatusCode::OK;
        head.begin(status);
        if whole {
            head.put_static(&fields::CONTENT_TYPE, document.kind.content_type);
            head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
            head.put_static(&fields::REFERRER_POLICY, "same-origin");
            let policy = match document.kind.confinement {
                Confinement::None => None,
                Confinement::Page => Some(PAGE_POLICY),
                Confinement::Viewer => Some(VIEWER_POLICY),
            };
            if let Some(policy) = policy {
                head.put_static(&fields::CONTENT_SECURITY_POLICY, policy);
            }
            head.put(&fields::CONTENT_LENGTH, &variant.length);
            if coding != Coding::Identity {
                head.put_static(&fields::CONTENT_ENCODING, coding.as_str());
            }
        }
        match document.kind.lifetime {
            Lifetime::Revalidated => head.put_static(&fields::CACHE_CONTROL, "public, no-cache"),
            Lifetime::OfAnswers => head.put(&fields::CACHE_CONTROL, self.cache_control()),
            Lifetime::Day => head.put_static(&fields::CACHE_CONTROL, "public, max-age=86400"),
            Lifetime::Immutable => head.put_static(&fields::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        }
        if let Some(tag) = tag {
            head.put(&fields::ETAG, &tag.to_header_value());
        }
        let vary = if document.kind.varies_by_accept { "Accept, Accept-Encoding" } else { "Accept-Encoding" };
        head.put_static(&fields::VARY, vary);
        head.put_static(&fields::ACCEPT_RANGES, "none");
        if let Some(published) = published {
            Self::of_snapshot(published, now, &mut head);
        }
        common(&mut head, asked.limit);
        let body = (whole && *asked.method != Method::HEAD).then(|| variant.body.clone());
        Answer { status, head, body, outcome: Outcome::Document }
    }
}
