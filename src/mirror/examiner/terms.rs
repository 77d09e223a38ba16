//! Terms for examples: which of them show most, and which slugs a filter that compares otherwise mistakes for one another.
//!
//! Pure. Callers: [`super::example`].

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::api::odd::folded;
use crate::api::shape::TermName;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::{Membership, Positions};

/// So many of the largest terms may be part of another one's slug.
pub(super) const MOST_PARTS: usize = 64;

/// The terms in doubt although their shapes are not.
pub(super) type DoubtfulTerms = BTreeSet<TermName>;

/// The terms with the most listings: first those whose slug is a part of another one, known by name before known by their own
/// list; last one that leaves nothing out.
pub(super) fn telling<'a>(
    dataset: &'a Dataset,
    kind: TaxonomyKind,
    doubtful: &DoubtfulTerms,
) -> Vec<(&'a str, &'a Positions)> {
    let mut known: Vec<_> = dataset.known_terms(kind).collect();
    known.retain(|(slug, _)| doubtful.is_empty() || !doubtful.contains(&name(kind, slug)));
    let all = dataset.len() as u64;
    known.sort_unstable_by_key(|(slug, positions)| (positions.len() == all, Reverse(positions.len()), *slug));
    let slugs = Slugs::of(dataset, kind);
    known.truncate(MOST_PARTS);
    // What the origin itself listed for a slug shows nothing of how it matches slugs.
    let is_listed = |slug: &str| matches!(dataset.membership(kind, slug), Some(Membership::Listed(..)));
    known.sort_by_cached_key(|(slug, _)| (!slugs.has_part(slug), !slugs.shares_a_word(slug), is_listed(slug)));
    known
}

/// The terms that an index names and no listing has.
pub(super) fn without_listings(dataset: &Dataset, kind: TaxonomyKind) -> impl Iterator<Item = &str> {
    let terms = dataset.memberships(kind);
    terms.filter(|(_, known)| known.positions().is_some_and(Positions::is_empty)).map(|(slug, _)| slug)
}

/// The slugs of a taxonomy, without case and accents: a filter that compares otherwise mistakes them for one another.
pub(super) struct Slugs {
    /// A line each.
    all: String,
    /// How many have this word.
    words: HashMap<String, usize>,
    count: usize,
}

impl Slugs {
    pub(super) fn of(dataset: &Dataset, kind: TaxonomyKind) -> Self {
        let slugs: Vec<String> = dataset.memberships(kind).map(|(slug, _)| folded(slug).into_owned()).collect();
        let mut words = HashMap::new();
        for word in slugs.iter().flat_map(|slug| slug.split('-').collect::<BTreeSet<_>>()) {
            *words.entry(word.to_owned()).or_default() += 1;
        }
        Self { all: slugs.join("\n"), words, count: slugs.len() }
    }

    /// Whether a slug is a part of another one.
    pub(super) fn has_part(&self, slug: &str) -> bool {
        self.all.matches(&*folded(slug)).nth(1).is_some()
    }

    /// Whether this word tells slugs apart, as one that most of them have does not.
    fn tells(&self, word: &str) -> bool {
        self.words.get(word).is_some_and(|have| 2 * have <= self.count)
    }

    fn shares_a_word(&self, slug: &str) -> bool {
        let slug = folded(slug);
        slug.split('-').any(|word| self.tells(word) && self.words.get(word).is_some_and(|have| *have > 1))
    }

    pub(super) fn are_akin(&self, slug: &str, other: &str) -> bool {
        let (slug, other) = (folded(slug), folded(other));
        slug.split('-').any(|word| self.tells(word) && other.split('-').any(|of_other| of_other == word))
    }
}

pub(super) fn name(kind: TaxonomyKind, slug: &str) -> TermName {
    TermName { kind, slug: slug.into() }
}
