//! What is asked beside the refreshes: terms in doubt, and what filters mean.
//!
//! Callers: [`super`], after a step that went well.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::copies::CopyError;
use super::super::{assumptions, terms};
use super::{Mirror, MirrorError, blocking, is_settled};

impl Mirror {
    /// What is asked beside the refreshes, and never at their cost: terms in doubt, and what filters mean.
    pub(super) async fn learn(&mut self) {
        if let Err(error) = self.collect_terms().await {
            tracing::warn!(%error, "terms stay in doubt");
        }
        if let Err(error) = self.question().await {
            tracing::warn!(%error, "what filters mean could not be asked");
        }
    }

    /// Asks the origin about terms that are in doubt, each once for what is known of it, and serves what that proves.
    /// Stops when a refresh is due; the rest comes after it.
    async fn collect_terms(&mut self) -> Result<(), MirrorError> {
        let Some(published) = self.live.current() else { return Ok(()) };
        if self.asked.0 != published.dataset.id.as_str() {
            self.asked = (published.dataset.id.to_string(), HashSet::new());
        }
        let open = published.dataset.doubtful().iter();
        let open: Vec<_> =
            open.filter(|(kind, slug, _)| !self.asked.1.contains(&(*kind, slug.clone()))).cloned().collect();
        if open.is_empty() {
            return Ok(());
        }
        tracing::info!(terms = open.len(), "names and counts leave terms in doubt; asking the origin for them");
        let _work = self.crawler.copies().client().budget().crawl_work();
        let mut learned = false;
        let mut failure = None;
        for term in open {
            if self.pause(0) <= self.rhythm.ttl.mul_f64(0.4) && learned {
                break;
            }
            let (kind, slug, fingerprint) = term;
            let key = (kind, slug.clone());
            match terms::list(self.crawler.copies(), &published.dataset, kind, &slug, fingerprint).await {
                Ok(listed) => {
                    self.asked.1.insert(key);
                    if let Some(listed) = listed {
                        self.evidence.insert((kind, slug), listed);
                        learned = true;
                    }
                }
                Err(CopyError::Ask(error)) if error.is_nonsense() => {
                    tracing::warn!(slug, %error, "a term stays in doubt");
                    self.asked.1.insert(key);
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if learned {
            let (store, evidence) = (self.store.clone(), self.evidence.clone());
            blocking(move || terms::save(&store, &evidence)).await?;
            let dataset = self.index(published.dataset.content.clone()).await?;
            self.live.swap(Arc::new(dataset), published.meta.clone(), published.version);
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Asks the origin, once, whether filters mean what we assume.
    async fn question(&self) -> Result<(), MirrorError> {
        let Some(published) = self.live.current() else { return Ok(()) };
        if published.meta.disproved.is_some() || !is_settled(&published.meta) {
            return Ok(());
        }
        let disproved = assumptions::ask(self.crawler.copies(), &published.dataset).await?;
        let mut meta = published.meta.clone();
        meta.disproved = Some(disproved);
        let (store, version, kept) = (self.store.clone(), published.version, meta.clone());
        blocking(move || store.update_meta(version, &kept)).await?;
        self.live.swap(published.dataset.clone(), meta, published.version);
        Ok(())
    }
}
