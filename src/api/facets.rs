//! Facets: counts of a search's results by sport and by state.
//!
//! Callers: [`crate::data::snapshot`] counts, [`super::render`] and [`crate::edge::pages`] show.

use super::json::quote_into;
use super::taxonomy::TaxonomyKind;

pub(crate) const COUNTED: [TaxonomyKind; 2] = [TaxonomyKind::Sports, TaxonomyKind::States];

/// The most terms of a kind that are shown: those with the most results.
pub(crate) const MOST_TERMS: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacetCount {
    pub slug: Box<str>,
    /// The display name, or else the slug.
    pub name: Box<str>,
    /// How many results have the term, from 1.
    pub count: u64,
}

/// The terms of each of [`COUNTED`], most results first; without those in doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets(pub [Vec<FacetCount>; COUNTED.len()]);

impl Facets {
    /// How many results have a term; `None`: it may be one of those that are not shown.
    pub(crate) fn count(&self, kind: TaxonomyKind, slug: &str) -> Option<u64> {
        let terms = COUNTED.iter().zip(&self.0).find_map(|(own, terms)| (*own == kind).then_some(terms))?;
        let found = terms.iter().find(|term| *term.slug == *slug).map(|term| term.count);
        found.or((terms.len() < MOST_TERMS).then_some(0))
    }

    /// Appends them as a JSON object: `{"sport":[{"slug":"golf","name":"Golf","count":12}],"state":[]}`.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for (at, (kind, terms)) in COUNTED.iter().zip(&self.0).enumerate() {
            out.push(if at == 0 { b'{' } else { b',' });
            quote_into(out, kind.parameter());
            out.extend_from_slice(b":[");
            for (at, term) in terms.iter().enumerate() {
                out.extend_from_slice(if at == 0 { b"{\"slug\":" } else { b",{\"slug\":" });
                quote_into(out, &term.slug);
                out.extend_from_slice(b",\"name\":");
                quote_into(out, &term.name);
                out.extend_from_slice(b",\"count\":");
                out.extend_from_slice(itoa::Buffer::new().format(term.count).as_bytes());
                out.push(b'}');
            }
            out.push(b']');
        }
        out.push(b'}');
    }
}
