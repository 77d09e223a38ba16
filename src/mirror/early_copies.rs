//! Keeps the origin's answers to clients before the first snapshot, so that the crawl does not fetch them again.
//!
//! Does nothing once there is a snapshot: then only the mirror decides what to fetch. Callers: [`crate::proxy`].

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::api::page::Page;
use crate::api::route::Route;
use crate::api::taxonomy::VolatileKeys;
use crate::snapshot::pointer::SnapshotPointer;

use super::copies::Copies;
use super::crawl::check_taxonomy;
use super::details::Details;
use super::pass;
use crate::upstream::client::Answer;

/// Checks that a body is a page with listings: clients may request any page.
fn check_listed(body: &Bytes) -> Result<(), String> {
    let page = Page::parse(body, &VolatileKeys::default()).map_err(|error| error.to_string())?;
    if page.items.is_empty() { Err("the page is empty".to_owned()) } else { Ok(()) }
}

/// How long an answer waits to be stored; it is stored later anyway. Another write may take long.
const PATIENCE: Duration = Duration::from_millis(250);

/// Keeps them; cheap to clone.
#[derive(Clone)]
pub struct EarlyCopies {
    /// For details.
    pub details: Details,
    /// For pages and taxonomies.
    pub copies: Copies,
    /// Shows whether there is a snapshot.
    pub newest: SnapshotPointer,
}

impl EarlyCopies {
    /// Keeps an answer to a canonical path and query, if the mirror would fetch it.
    pub async fn offer(&self, path: &str, answer: &Answer) {
        if answer.status != 200 || self.newest.load().is_some() {
            return;
        }
        let (early, path, answer) = (self.clone(), path.to_owned(), answer.clone());
        let keeping = tokio::task::spawn_blocking(move || early.keep(&path, &answer));
        let _ = timeout(PATIENCE, keeping).await;
    }

    fn keep(&self, path: &str, answer: &Answer) {
        let kept = match Route::of(path.split('?').next().unwrap_or(path)) {
            Route::Detail(id) => {
                self.details.offer(id, answer, self.copies.client().stamps());
                Ok(())
            }
            Route::Taxonomy(_) => self.copies.offer(path, answer, check_taxonomy),
            Route::List if pass::page_of(path).is_some() => self.copies.offer(path, answer, check_listed),
            _ => Ok(()),
        };
        if let Err(error) = kept {
            tracing::debug!(path, %error, "an answer to a client is not used for the snapshot");
        }
    }
}
