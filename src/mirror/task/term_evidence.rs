//! What the origin has listed for terms, and the indexes of lists that rest on it.
//!
//! [`super::learn`] asks the origin. Callers: [`super`] and its parts.

use std::sync::Arc;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::content::Content;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::{Evidence, ListedTerm};
use crate::snapshot::pointer::Snapshot;
use crate::store::Store;

use super::{MirrorError, blocking};

/// What the origin has listed for terms.
pub(super) struct TermEvidence {
    known: Evidence,
    /// Counts changes: lists indexed before are behind.
    revision: usize,
}

/// An indexed list, and the evidence that its indexes rest on.
#[derive(Clone)]
pub(super) struct Indexed {
    pub(super) dataset: Arc<Dataset>,
    revision: usize,
}

impl TermEvidence {
    pub(super) const fn new(known: Evidence) -> Self {
        Self { known, revision: 0 }
    }

    pub(super) const fn known(&self) -> &Evidence {
        &self.known
    }

    pub(super) fn insert(&mut self, kind: TaxonomyKind, slug: &str, listed: ListedTerm) {
        self.known.insert((kind, slug.to_owned()), listed);
        self.revision += 1;
    }

    /// Takes what an import has put into the store.
    pub(super) fn read_back(&mut self, store: &Store) {
        match store.evidence() {
            Ok(known) => self.known = known,
            Err(error) => {
                tracing::warn!(%error, "the stored lists of ambiguous terms cannot be read; a mirror fetches them again");
            }
        }
        self.revision += 1;
    }

    /// Indexes a list. What is in the newest snapshot is not read again.
    pub(super) async fn index(&self, content: Content, newest: Option<Arc<Snapshot>>) -> Result<Indexed, MirrorError> {
        let known = self.known.clone();
        let index = move || match newest {
            Some(newest) => newest.dataset.followed_by(content, &known),
            None => Dataset::build(content, &known),
        };
        let dataset = blocking(move || Ok(index())).await??;
        Ok(Indexed { dataset: Arc::new(dataset), revision: self.revision })
    }

    /// Indexes a list, unless it is the newest snapshot's.
    pub(super) async fn index_news(
        &self,
        content: Content,
        newest: Option<Arc<Snapshot>>,
    ) -> Result<Indexed, MirrorError> {
        match newest {
            Some(newest) if newest.dataset.id == content.id() => {
                Ok(Indexed { dataset: newest.dataset.clone(), revision: self.revision })
            }
            newest => self.index(content, newest).await,
        }
    }

    /// The same list with all term evidence so far: some may have arrived while it waited for its confirmation.
    pub(super) async fn caught_up(
        &self,
        list: Indexed,
        newest: Option<Arc<Snapshot>>,
    ) -> Result<Arc<Dataset>, MirrorError> {
        match newest {
            Some(newest) if newest.dataset.id == list.dataset.id => Ok(newest.dataset.clone()),
            _ if list.revision == self.revision => Ok(list.dataset),
            newest => Ok(self.index(list.dataset.content.clone(), newest).await?.dataset),
        }
    }
}
