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
use super::details::Details;
use super::pass;
use crate::upstream::client::Answer;

fn has_listings(body: &Bytes) -> bool {
    Page::parse(body, &VolatileKeys::default()).is_ok_and(|page| !page.items.is_empty())
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
            Route::Taxonomy(_) => self.copies.offer(path, answer),
            // Clients may request any page.
            Route::List if pass::page_of(path).is_some() && has_listings(&answer.body) => {
                self.copies.offer(path, answer)
            }
            _ => Ok(()),
        };
        if let Err(error) = kept {
            tracing::debug!(path, %error, "an answer to a client is not used for the snapshot");
        }
    }
}
