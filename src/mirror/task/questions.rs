//! The five questions of a refresh, put to the origin in a way that it understands.
//!
//! [`super::super::refresh`] defines them and judges the answers. Callers: [`super`] and its parts.

use super::super::copies::{Copy, CopyError};
use super::super::crawl::{self, Crawler};
use super::super::pass;
use super::super::refresh::{Answers, Probe, ProbeShape};
use super::{MirrorError, TRIES};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::upstream::client::AskError;
use crate::upstream::window::Class;

/// Statuses for a question that a server does not understand.
const REFUSED: [u16; 3] = [400, 414, 422];

/// Puts the five questions of a refresh.
pub(super) struct Questions {
    crawler: Crawler,
    shape: ProbeShape,
    /// How often in a row the probe alone was not answered.
    unprobed: u32,
}

impl Questions {
    pub(super) fn new(crawler: Crawler) -> Self {
        Self { crawler, shape: ProbeShape::default(), unprobed: 0 }
    }

    /// Whether the origin answers no probe.
    pub(super) fn are_without_probe(&self) -> bool {
        self.shape == ProbeShape::None
    }

    /// Falls back to a probe that the origin may understand.
    pub(super) fn probe_otherwise(&mut self) {
        self.shape = self.shape.next();
        tracing::warn!(
            shape = self.shape.as_str(),
            "the origin answers the probe differently than expected; probing in another way"
        );
    }

    /// The probe for a data set, as the origin understands it.
    pub(super) fn probe_of(&self, dataset: &Dataset, confirmed_ms: i64) -> Option<Probe> {
        Probe::of(dataset, confirmed_ms, self.shape)
    }

    /// The five questions about a data set.
    pub(super) async fn ask(&mut self, dataset: &Dataset, confirmed_ms: i64) -> Result<Answers, MirrorError> {
        // One request first: nothing more is sent to an origin that does not answer it.
        let mut copies = self.crawler.fetch_all(vec![pass::page_path(1)], Class::Refresh).await?;
        let paths: Vec<String> = TaxonomyKind::ALL.iter().map(|kind| kind.path().to_owned()).collect();
        let probe = self.probe_of(dataset, confirmed_ms);
        let (taxonomies, probed) =
            tokio::join!(self.crawler.fetch_all(paths, Class::Refresh), self.probe(probe.as_ref()));
        let Some(first) = copies.pop() else {
            return Err(CopyError::from(AskError::nonsense(&pass::page_path(1), "no answer was kept")).into());
        };
        let taxonomies = crawl::in_order(taxonomies?)?;
        let probe = self.understand(dataset, confirmed_ms, probe, probed).await?;
        Ok(Answers { probe, first, taxonomies })
    }

    async fn probe(&self, probe: Option<&Probe>) -> Result<Option<Copy>, CopyError> {
        let Some(probe) = probe else { return Ok(None) };
        Ok(self.crawler.fetch_all(vec![probe.path.clone()], Class::Refresh).await?.pop())
    }

    /// A refused probe changes its shape. A probe that alone stays unanswered, again and again, is given up for this
    /// time, and every page is read instead.
    async fn understand(
        &mut self,
        dataset: &Dataset,
        confirmed_ms: i64,
        mut probe: Option<Probe>,
        mut probed: Result<Option<Copy>, CopyError>,
    ) -> Result<Option<(Probe, Copy)>, MirrorError> {
        while let Err(CopyError::Ask(AskError::Status { status, .. })) = &probed
            && REFUSED.contains(status)
            && probe.is_some()
        {
            self.probe_otherwise();
            probe = self.probe_of(dataset, confirmed_ms);
            probed = self.probe(probe.as_ref()).await;
        }
        match probed {
            Ok(copy) => {
                self.unprobed = 0;
                Ok(probe.zip(copy))
            }
            Err(CopyError::Ask(error)) if self.unprobed + 1 >= TRIES => {
                tracing::warn!(%error, "only the probe fails; every page is read instead");
                Ok(None)
            }
            Err(error) => {
                self.unprobed += 1;
                Err(error.into())
            }
        }
    }
}
