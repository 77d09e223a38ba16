//! Data set: a snapshot with its indexes, to find listings, pages, totals, and figures about terms.
//!
//! Immutable and shared. No rendering, no HTTP. Callers: [`crate::edge::answer`], [`crate::mirror`], [`crate::edge::pages`].

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::api::facets::{COUNTED, FacetCount, Facets, MOST_TERMS};
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::odd::folded;
use crate::api::query::ListQuery;
use crate::api::taxonomy::{self, TaxonomyError, TaxonomyKind, Term};
use crate::tasks::threads::beside;

use super::columns::{Columns, Names, Traits};
use super::content::{Content, SnapshotId, envelope_text};
use super::index::{Since, matches};
use super::membership::{self, Evidence, Groups, ListedTerm, Membership, Positions, Scene};

#[derive(Debug)]
pub struct Found<'a> {
    /// How many listings match in all.
    pub total: u64,
    /// The listings of the page, in the origin's order.
    pub items: Vec<&'a Summary>,
}

/// Why the snapshot cannot answer a query by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    Term,
    /// A listing has no readable `modified`, so `modified_since` cannot be evaluated.
    Modified,
    /// The origin counts listings that are not known, so the total of a filtered list is not known.
    Total,
}

/// Why a filter of a dump or a search selects nothing. Unlike the list's filters, these mean the snapshot's membership.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unselected {
    #[error("unknown {} {slug:?}", kind.parameter())]
    Unknown { kind: TaxonomyKind, slug: Box<str> },
    #[error("unknown city {slug:?}")]
    Nowhere { slug: Box<str> },
    #[error("It is not known which listings have the {} {slug:?}", kind.parameter())]
    Doubtful { kind: TaxonomyKind, slug: Box<str> },
    #[error("Some listings have no readable \"modified\", so modified_since cannot be evaluated")]
    Modified,
}

pub struct Dataset {
    /// Names the content.
    pub id: SnapshotId,
    pub content: Content,
    /// Hash of the envelope's carried fields.
    pub envelope_hash: ContentHash,
    terms: [Vec<Term>; 3],
    membership: [HashMap<Box<str>, Membership>; 3],
    doubtful: Vec<(TaxonomyKind, String, [u8; 16])>,
    unexplained: Vec<(TaxonomyKind, String, [u8; 16])>,
    /// See [`Dataset::unnamed`].
    unnamed: [u64; 3],
    /// The key of the display name in each taxonomy.
    name_keys: [Option<String>; 3],
    ids: Ids,
    columns: Columns,
    names: usize,
    modified_known: bool,
    /// For an order that is not by falling `modified`; `None`: a filter is a prefix.
    since: Option<Since>,
    /// The slugs of each taxonomy that have capitals, accents or white space, without these; made when first needed.
    folded: [OnceLock<HashSet<Box<str>>>; 3],
    evidence_print: OnceLock<ContentHash>,
}

/// The position of each listing, sorted by id.
struct Ids(Box<[(ListingId, u32)]>);

impl Ids {
    fn of(summaries: &[Summary]) -> Result<Self, DatasetError> {
        let mut sorted: Box<[_]> = (0..).zip(summaries).map(|(position, summary)| (summary.id, position)).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(DatasetError::Repeated(pair[0].0)),
            None => Ok(Self(sorted)),
        }
    }

    fn position(&self, id: ListingId) -> Option<u32> {
        let at = self.0.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.0[at].1)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("{kind:?}: {source}", kind = kind.path())]
    Taxonomy { kind: TaxonomyKind, source: TaxonomyError },
    #[error("a stored summary cannot be read: {0}")]
    Summary(String),
    #[error("listing {0} is listed twice")]
    Repeated(ListingId),
    #[error("more than {} listings", u32::MAX)]
    TooMany,
}

impl Dataset {
    /// Indexes content.
    pub fn build(content: Content, evidence: &Evidence) -> Result<Self, DatasetError> {
        Self::of(content, Arc::default(), Vec::new(), evidence)
    }

    /// Indexes the next content; unchanged summaries are not read again.
    pub fn followed_by(&self, content: Content, evidence: &Evidence) -> Result<Self, DatasetError> {
        if self.columns.names.are_worn(self.names) {
            return Self::build(content, evidence);
        }
        // Most have the same successor as before.
        let mut next = 0;
        let known = |summary: &Summary| {
            let is_same = |place: &usize| {
                let known = self.content.summaries.get(*place);
                known.is_some_and(|known| known.id == summary.id && known.hash == summary.hash)
            };
            let elsewhere = || self.position(summary.id).map(|place| place as usize).filter(is_same);
            let Some(place) = Some(next).filter(is_same).or_else(elsewhere) else { return Traits::UNREAD };
            next = place + 1;
            self.columns.traits[place]
        };
        let traits = content.summaries.iter().map(known).collect();
        Self::of(content, self.columns.names.clone(), traits, evidence)
    }

    /// Indexes content of which some summaries were read before, by position.
    pub fn of(
        content: Content,
        names: Arc<Names>,
        traits: Vec<Traits>,
        evidence: &Evidence,
    ) -> Result<Self, DatasetError> {
        if u32::try_from(content.summaries.len()).is_err() {
            return Err(DatasetError::TooMany);
        }
        let columns = Columns::read(names, traits, &content.summaries)
            .map_err(|error| DatasetError::Summary(error.to_string()))?;
        let by_id = || (Ids::of(&content.summaries), content.id());
        let ((ids, id), groups) = beside(by_id, || Groups::by(&columns.traits, &columns.names));
        let ids = ids?;
        let mut terms: [Vec<Term>; 3] = Default::default();
        for kind in TaxonomyKind::ALL {
            terms[kind.index()] =
                taxonomy::terms(content.taxonomy(kind)).map_err(|source| DatasetError::Taxonomy { kind, source })?;
        }
        let id_at = |position: u32| content.summaries[position as usize].id;
        let position_of = |id: ListingId| ids.position(id);
        let scene = Scene { groups: &groups, snapshot: id.as_str(), id_at: &id_at, position_of: &position_of };
        let membership = TaxonomyKind::ALL.map(|kind| membership::resolve(kind, &terms[kind.index()], evidence, scene));
        let name_keys = TaxonomyKind::ALL.map(|kind| membership::name_key(kind, &terms[kind.index()], &groups));
        let (mut doubtful, mut unexplained) = (Vec::new(), Vec::new());
        for kind in TaxonomyKind::ALL {
            let (terms, known) = (&terms[kind.index()], &membership[kind.index()]);
            let named = |term: &Term| (kind, term.slug.clone(), groups.fingerprint(kind, term, &id_at));
            let is_doubtful = |term: &&Term| known.get(term.slug.as_str()) == Some(&Membership::Doubtful);
            doubtful.extend(terms.iter().filter(is_doubtful).map(named));
            let keyed = (&terms[..], name_keys[kind.index()].as_ref());
            unexplained.extend(membership::unexplained(kind, keyed, known, &groups).into_iter().map(named));
        }
        let unnamed =
            TaxonomyKind::ALL.map(|kind| groups.unnamed(kind, &terms[kind.index()], &membership[kind.index()]));
        let modified = || columns.traits.iter().map(|traits| traits.modified);
        let is_ordered = modified().is_sorted_by(|a, b| a >= b);
        let since = (!is_ordered).then(|| Since::of(&modified().collect::<Vec<_>>()));
        Ok(Self {
            id,
            doubtful,
            unexplained,
            unnamed,
            name_keys,
            envelope_hash: ContentHash::of(&envelope_text(&content.envelope)),
            since,
            modified_known: !modified().any(|at| at == i64::MIN),
            names: groups.names(),
            ids,
            membership,
            terms,
            columns,
            content,
            folded: Default::default(),
            evidence_print: OnceLock::new(),
        })
    }

    pub fn len(&self) -> usize {
        self.content.summaries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.content.summaries.is_empty()
    }

    pub fn summary(&self, id: ListingId) -> Option<&Summary> {
        self.position(id).map(|position| &self.content.summaries[position as usize])
    }

    /// The position of a listing in the origin's order, from 0.
    pub fn position(&self, id: ListingId) -> Option<u32> {
        self.ids.position(id)
    }

    pub fn terms(&self, kind: TaxonomyKind) -> &[Term] {
        &self.terms[kind.index()]
    }

    /// The membership of a slug; `None` if no term and no listing has it.
    pub fn membership(&self, kind: TaxonomyKind, slug: &str) -> Option<&Membership> {
        self.membership[kind.index()].get(slug)
    }

    /// Whether a slug that no term has differs from that of a term in case, accents or white space around it only.
    pub fn is_respelled(&self, kind: TaxonomyKind, slug: &str) -> bool {
        let plain = folded(slug);
        if self.membership(kind, &plain).is_some() {
            return true;
        }
        let others = self.folded[kind.index()].get_or_init(|| {
            let folded = self.memberships(kind).map(|(known, _)| folded(known));
            folded.filter(|known| matches!(known, Cow::Owned(_))).map(|known| known.into_owned().into()).collect()
        });
        others.contains(&*plain)
    }

    pub fn memberships(&self, kind: TaxonomyKind) -> impl Iterator<Item = (&str, &Membership)> {
        self.membership[kind.index()].iter().map(|(slug, membership)| (&**slug, membership))
    }

    /// The terms of a taxonomy that are known to have listings, with their positions.
    pub fn known_terms(&self, kind: TaxonomyKind) -> impl Iterator<Item = (&str, &Positions)> {
        let known = self.memberships(kind).filter_map(|(slug, known)| Some((slug, known.positions()?)));
        known.filter(|(_, positions)| !positions.is_empty())
    }

    /// The origin's lists for terms that are known only by them: content and evidence give the same data set.
    pub fn evidence(&self) -> Evidence {
        let of_kind = |kind: TaxonomyKind| {
            self.memberships(kind).filter_map(move |(slug, known)| match known {
                Membership::Listed(positions, fingerprint) => {
                    let id_at = |position: u32| self.content.summaries[position as usize].id;
                    let mut ids: Vec<ListingId> = positions.iter().map(id_at).collect();
                    ids.sort_unstable();
                    let listed = ListedTerm { ids, fingerprint: *fingerprint, snapshot: self.id.to_string() };
                    Some(((kind, slug.to_owned()), listed))
                }
                Membership::Named(_) | Membership::Doubtful => None,
            })
        };
        TaxonomyKind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// A hash of what decides, beside the content, which listings slugs have: those known by a list of the origin, and those
    /// in doubt.
    pub fn evidence_print(&self) -> ContentHash {
        *self.evidence_print.get_or_init(|| {
            let of_kind = |kind: TaxonomyKind| {
                self.memberships(kind).filter_map(move |(slug, known)| {
                    let positions: Vec<u8> = match known {
                        Membership::Named(_) => return None,
                        Membership::Listed(positions, _) => positions.iter().flat_map(u32::to_le_bytes).collect(),
                        Membership::Doubtful => b"?".to_vec(),
                    };
                    Some([kind.path().as_bytes(), slug.as_bytes(), &positions].concat())
                })
            };
            let mut parts: Vec<Vec<u8>> = TaxonomyKind::ALL.into_iter().flat_map(of_kind).collect();
            parts.sort_unstable();
            ContentHash::of_parts(parts.iter().map(Vec::as_slice))
        })
    }

    /// The doubtful terms, each with the fingerprint for its evidence.
    pub fn doubtful(&self) -> &[(TaxonomyKind, String, [u8; 16])] {
        &self.doubtful
    }

    /// The terms whose lists, which the origin made for them, may lack listings; each with the fingerprint for its evidence.
    pub fn unexplained(&self) -> &[(TaxonomyKind, String, [u8; 16])] {
        &self.unexplained
    }

    /// How many listings have a display name of this kind that no term has: the index lacks their terms.
    pub fn unnamed(&self, kind: TaxonomyKind) -> u64 {
        self.unnamed[kind.index()]
    }

    /// Whether one of the slugs is unknown, and may be that of listings whose term the index lacks.
    pub fn may_lack_a_term(&self, slugs: &[Option<Box<str>>; 3]) -> bool {
        let is_unknown = |(kind, slug): (TaxonomyKind, &Option<Box<str>>)| {
            self.unnamed(kind) > 0 && slug.as_ref().is_some_and(|slug| self.membership(kind, slug).is_none())
        };
        TaxonomyKind::ALL.into_iter().zip(slugs).any(is_unknown)
    }

    /// Every known `modified` in the origin's order, in nanoseconds since the epoch.
    pub fn modified(&self) -> impl Iterator<Item = i64> + '_ {
        self.columns.traits.iter().map(|traits| traits.modified).filter(|at| *at > i64::MIN)
    }

    /// `modified` of one listing, in nanoseconds since the epoch.
    pub fn modified_of(&self, id: ListingId) -> Option<i64> {
        self.position(id).and_then(|position| self.modified_at(position))
    }

    /// `modified` of the listing at a position, in nanoseconds since the epoch.
    pub fn modified_at(&self, position: u32) -> Option<i64> {
        self.columns.traits.get(position as usize).map(|traits| traits.modified).filter(|at| *at > i64::MIN)
    }

    /// The positions of listings whose `modified` is in this range, in order.
    pub(super) fn modified_within(&self, from: i64, to: i64) -> Vec<u32> {
        let traits = &self.columns.traits;
        let is_within = |at: i64| (from..=to).contains(&at);
        match &self.since {
            None => {
                let begin = traits.partition_point(|traits| traits.modified > to) as u32;
                let end = traits.partition_point(|traits| traits.modified >= from) as u32;
                (begin..end).collect()
            }
            Some(since) if !since.has_any(from, to) => Vec::new(),
            Some(_) => {
                let all = 0..self.len() as u32;
                all.filter(|position| is_within(traits[*position as usize].modified)).collect()
            }
        }
    }

    /// Finds the page that a query asks for.
    pub fn find(&self, query: &ListQuery) -> Result<Found<'_>, Doubt> {
        if query.modified_since.is_some() && !self.modified_known {
            return Err(Doubt::Modified);
        }
        if let Some((total, unknown)) = self.content.envelope.stated_total() {
            // Terms whose counts agree lack nothing. But what no list shows may have another time now; and where a total
            // counts what no list shows, every total may do so.
            let listed = self.len() as u64;
            let is_explained =
                (listed..=listed.saturating_add(unknown)).contains(&total) && query.modified_since.is_none();
            // An origin that counts only so far counts what is less.
            let is_counted = total < listed && unknown == 0 && self.find_known(query)?.total < total;
            if query.is_filtered() && !is_explained && !is_counted {
                return Err(Doubt::Total);
            }
        }
        self.find_known(query)
    }

    /// How the total that the origin states differs from what its pages show, for people.
    pub(crate) fn total_differs(&self) -> Option<String> {
        let (total, unknown) = self.content.envelope.stated_total()?;
        let listed = self.len();
        Some(match unknown {
            0 => format!("the origin states a total of {total} listings, but its pages show {listed}"),
            _ => format!(
                "the origin states a total of {total} listings; {listed} are known, and at least {unknown} are not, or not as they are now"
            ),
        })
    }

    /// Whether the origin has listings that are not known as they are now.
    pub fn is_incomplete(&self) -> bool {
        self.content.envelope.stated_total().is_some_and(|(_, unknown)| unknown > 0)
    }

    /// The same, but `modified_since` leaves out listings with an unreadable `modified`: for comparisons only.
    pub fn find_known(&self, query: &ListQuery) -> Result<Found<'_>, Doubt> {
        let selected = matches(&self.membership, &query.slugs)?;
        let (offset, size) = self.span(query);
        let since = query.modified_since.as_ref().map(|since| since.at);
        if let (Some(at), Some(unordered)) = (since, &self.since) {
            let (total, page) = match &selected {
                None => unordered.find(at, offset, size),
                Some(positions) => unordered.scan(positions, at, offset, size),
            };
            return Ok(Found { total: total as u64, items: self.at(page) });
        }
        // Positions from `end` on do not match; below it they do.
        let traits = &self.columns.traits;
        let end = since.map_or(self.len(), |at| traits.partition_point(|traits| traits.modified > at));
        let Some(positions) = selected else {
            let items = page(&self.content.summaries[..end], offset, size).iter().collect();
            let stated = self.content.envelope.stated_total().filter(|_| since.is_none());
            return Ok(Found { total: stated.map_or(end as u64, |(total, _)| total), items });
        };
        let total = positions.range_cardinality(..end as u32);
        let size = size.min(usize::try_from(total).unwrap_or(usize::MAX).saturating_sub(offset));
        let first = u32::try_from(offset).ok().and_then(|offset| positions.select(offset));
        let page = first.into_iter().flat_map(|first| positions.range(first..)).take(size);
        Ok(Found { total, items: self.at(page) })
    }

    /// The page of a query that selects these.
    pub(super) fn page_of(&self, positions: &[u32], query: &ListQuery) -> Found<'_> {
        let (offset, size) = self.span(query);
        Found { total: positions.len() as u64, items: self.at(page(positions, offset, size).iter().copied()) }
    }

    /// Where the page of a query begins, and its size.
    fn span(&self, query: &ListQuery) -> (usize, usize) {
        let size = query.per_page.min(self.content.envelope.largest_page.unwrap_or(u16::MAX));
        let offset = u128::from(query.page - 1) * u128::from(size);
        (usize::try_from(offset).unwrap_or(usize::MAX), usize::from(size))
    }

    fn at(&self, positions: impl IntoIterator<Item = u32>) -> Vec<&Summary> {
        positions.into_iter().map(|position| &self.content.summaries[position as usize]).collect()
    }
}

/// The part of `all` that a page shows; empty beyond the end.
fn page<T>(all: &[T], offset: usize, size: usize) -> &[T] {
    let start = offset.min(all.len());
    &all[start..start.saturating_add(size).min(all.len())]
}

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
        self.membership(kind, slug)?.positions().map(Positions::len)
    }

    /// The terms of a kind that listings of another term have, each with the number of those listings, in the order of the
    /// taxonomy; without those in doubt.
    pub fn terms_within(&self, kind: TaxonomyKind, of: TaxonomyKind, slug: &str) -> Vec<(&Term, u64)> {
        let within = self.membership(of, slug).and_then(|known| known.positions());
        within.map(|within| self.terms_among(kind, within)).unwrap_or_default()
    }

    /// The same for the listings at some positions.
    pub(crate) fn terms_among(&self, kind: TaxonomyKind, within: &Positions) -> Vec<(&Term, u64)> {
        let shared = |term: &Term| Some(self.membership(kind, &term.slug)?.positions()?.intersection_len(within));
        let terms = self.terms(kind).iter();
        terms.filter_map(|term| shared(term).filter(|count| *count > 0).map(|count| (term, count))).collect()
    }

    /// How many of the listings at some positions each sport and each state has.
    pub(crate) fn facets(&self, within: &Positions) -> Facets {
        Facets(COUNTED.map(|kind| {
            let mut counts = self.terms_among(kind, within);
            counts.sort_by_key(|(_, count)| Reverse(*count));
            counts.truncate(MOST_TERMS);
            let shown = |(term, count): (&Term, u64)| FacetCount {
                slug: term.slug.as_str().into(),
                name: self.label(kind, term).into(),
                count,
            };
            counts.into_iter().map(shown).collect()
        }))
    }

    /// The positions of every listing with these slugs that was modified after `since`, in order.
    pub fn select(&self, slugs: &[Option<Box<str>>; 3], since: Option<i64>) -> Result<Vec<u32>, Unselected> {
        for (kind, slug) in TaxonomyKind::ALL.into_iter().zip(slugs) {
            let Some(slug) = slug else { continue };
            match self.membership(kind, slug) {
                None => return Err(Unselected::Unknown { kind, slug: slug.clone() }),
                Some(known) if known.positions().is_none() => {
                    return Err(Unselected::Doubtful { kind, slug: slug.clone() });
                }
                Some(_) => {}
            }
        }
        let mut positions = self.positions(slugs).unwrap_or_default();
        if let Some(since) = since {
            if !self.modified_known {
                return Err(Unselected::Modified);
            }
            positions.retain(|position| self.columns.traits[*position as usize].modified > since);
        }
        Ok(positions)
    }

    /// The positions of every listing that the slugs leave, in order.
    pub fn positions(&self, slugs: &[Option<Box<str>>; 3]) -> Result<Vec<u32>, Doubt> {
        let selected = matches(&self.membership, slugs)?;
        Ok(selected.map_or_else(|| (0..self.len() as u32).collect(), |positions| positions.iter().collect()))
    }
}

#[cfg(test)]
mod tests;
