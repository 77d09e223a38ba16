//! What people want to know of a data set: how terms are called, how many listings they have, and where those are.
//!
//! Callers: [`crate::pages`].

use crate::api::taxonomy::{TaxonomyKind, Term};

use super::super::index::Matches;
use super::{Dataset, Doubt};

/// Keys under which terms carry their display name, the likeliest first.
const NAMES: [&str; 4] = ["name", "title", "label", "display_name"];

impl Dataset {
    /// How a term is called: its display name, or else its slug.
    pub fn label<'a>(&self, kind: TaxonomyKind, term: &'a Term) -> &'a str {
        let called = |key: &str| term.strings.iter().find(|(own, _)| own == key).map(|(_, name)| name.trim());
        let learned = self.name_keys[kind.index()].as_deref().filter(|key| *key != "slug");
        let names = learned.into_iter().chain(NAMES);
        names.filter_map(called).find(|name| !name.is_empty()).unwrap_or(&term.slug)
    }

    /// How many listings a term has; `None` while that is in doubt.
    pub fn count(&self, kind: TaxonomyKind, slug: &str) -> Option<u64> {
        self.membership(kind, slug)?.positions().map(crate::snapshot::membership::Positions::len)
    }

    /// The terms of a kind that listings of another term have, each with the number of those listings, in the order of the
    /// taxonomy; without those in doubt.
    pub fn terms_within(&self, kind: TaxonomyKind, of: TaxonomyKind, slug: &str) -> Vec<(&Term, u64)> {
        let Some(within) = self.membership(of, slug).and_then(|known| known.positions()) else { return Vec::new() };
        let shared = |term: &Term| Some(self.membership(kind, &term.slug)?.positions()?.intersection_len(within));
        let terms = self.terms(kind).iter();
        terms.filter_map(|term| shared(term).filter(|count| *count > 0).map(|count| (term, count))).collect()
    }

    /// The positions of every listing that the slugs leave, in order.
    ///
    /// # Errors
    /// When a slug is in doubt.
    pub fn positions(&self, slugs: &[Option<Box<str>>; 3]) -> Result<Vec<u32>, Doubt> {
        Ok(match self.index.matches(slugs)? {
            Matches::All => (0..self.len() as u32).collect(),
            Matches::Term { positions, .. } => positions.to_vec(),
            Matches::Of(positions) => positions.into_owned(),
        })
    }
}
