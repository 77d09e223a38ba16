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
/// list, those whose slug shares a word with another one before others; last one that leaves nothing out.
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
    known.sort_by_cached_key(|(slug, _)| (!slugs.is_part(slug), is_listed(slug), slugs.shared_words(slug).is_empty()));
    known
}

/// A term with few listings has at most so many, and the largest term at least this many times as many.
const FEW: u64 = 4;

/// The terms with few listings, the fewest first. A directory may fill or hide them.
pub(super) fn with_few<'a>(
    dataset: &'a Dataset,
    kind: TaxonomyKind,
    doubtful: &DoubtfulTerms,
) -> Vec<(&'a str, &'a Positions)> {
    let known = || dataset.known_terms(kind).filter(|(_, positions)| !positions.is_empty());
    let most = known().map(|(_, positions)| positions.len()).max().unwrap_or(0).min(FEW * FEW) / FEW;
    let mut few: Vec<_> = known().filter(|(_, positions)| positions.len() <= most).collect();
    few.retain(|(slug, _)| doubtful.is_empty() || !doubtful.contains(&name(kind, slug)));
    few.sort_unstable_by_key(|(slug, positions)| (positions.len(), *slug));
    few.truncate(MOST_PARTS);
    few
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
    /// How many have a word.
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
    pub(super) fn is_part(&self, slug: &str) -> bool {
        self.all.matches(&*folded(slug)).nth(1).is_some()
    }

    /// The words of a slug that others have, too, but at most half of all.
    fn shared_words(&self, slug: &str) -> BTreeSet<&str> {
        let slug = folded(slug);
        let known = slug.split('-').filter_map(|word| self.words.get_key_value(word));
        known.filter(|(_, have)| (2..=self.count / 2).contains(*have)).map(|(word, _)| word.as_str()).collect()
    }

    pub(super) fn share_a_word(&self, slug: &str, other: &str) -> bool {
        !self.shared_words(slug).is_disjoint(&self.shared_words(other))
    }
}

pub(super) fn name(kind: TaxonomyKind, slug: &str) -> TermName {
    TermName { kind, slug: slug.into() }
}
