//! Membership of slugs: the listings of each, and the evidence for them.
//!
//! Filters take slugs while listings carry display names, so membership needs evidence: a name that one term alone has,
//! and its count, else the ids in the origin's list for the term. Counts never tell terms with one name apart. Unknown
//! slugs match no listing, unless the index lacks terms. Without evidence the term is in doubt, and the origin answers.
//! Callers: [`crate::data::snapshot::dataset`] asks, [`crate::mirror`] collects evidence.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::taxonomy::{TaxonomyKind, Term};
use crate::tasks::threads::beside;

use super::columns::{Names, Traits};

/// Positions of listings in the origin's order.
pub(crate) type Positions = RoaringBitmap;

#[derive(Clone, Debug, PartialEq)]
pub enum Membership {
    /// No other term has the display name, and the count agrees.
    Named(Positions),
    /// From the origin's list, valid for this fingerprint.
    Listed(Positions, [u8; 16]),
    /// Not known; ask the origin.
    Doubtful,
}

impl Membership {
    /// The word for `/status`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Named(_) => "named",
            Self::Listed(..) => "listed",
            Self::Doubtful => "doubtful",
        }
    }

    pub const fn positions(&self) -> Option<&Positions> {
        match self {
            Self::Named(positions) | Self::Listed(positions, _) => Some(positions),
            Self::Doubtful => None,
        }
    }
}

/// The origin's list for one term, and the conditions under which it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedTerm {
    /// The ids in no particular order.
    pub ids: Vec<ListingId>,
    /// [`Groups::fingerprint`] of the term when it was listed.
    pub fingerprint: [u8; 16],
    /// The snapshot of the list. Ids that the term's names do not explain hold for it only.
    pub snapshot: String,
}

pub type Evidence = BTreeMap<(TaxonomyKind, String), ListedTerm>;

type Grouped = HashMap<Box<str>, Positions, RandomState>;

#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_value: [Grouped; 3],
    by_city_and_state: HashMap<Box<str>, Grouped, RandomState>,
}

impl Groups {
    /// Groups all listings by their traits.
    pub(crate) fn by(traits: &[Traits], names: &Names) -> Self {
        let names = names.texts();
        let by_value = |kind: TaxonomyKind| -> Grouped {
            let numbers = traits.iter().map(|traits| traits.values[kind.index()]);
            let groups = by_number(numbers, names.len()).zip(&names).filter(|(positions, _)| !positions.is_empty());
            groups.map(|(positions, name)| ((&**name).into(), positions)).collect()
        };
        let by_city_and_state = || {
            let mut pairs: HashMap<(u32, u32), u32, RandomState> = HashMap::default();
            let number = |Traits { values: [_, state, city], .. }: &Traits| {
                let next = pairs.len() as u32;
                if *city == Traits::ABSENT { Traits::ABSENT } else { *pairs.entry((*city, *state)).or_insert(next) }
            };
            let numbers: Vec<u32> = traits.iter().map(number).collect();
            let mut pairs: Vec<((u32, u32), u32)> = pairs.into_iter().collect();
            pairs.sort_unstable_by_key(|(_, number)| *number);
            let mut grouped: HashMap<Box<str>, Grouped, RandomState> = HashMap::default();
            for (positions, ((city, state), _)) in by_number(numbers.iter().copied(), pairs.len()).zip(pairs) {
                // A state without a name counts as absent.
                let state = names.get(state as usize).map_or("", |state| state);
                let states = grouped.entry((&*names[city as usize]).into()).or_default();
                *states.entry(state.into()).or_default() |= positions;
            }
            grouped
        };
        let (by_city_and_state, by_value) = beside(by_city_and_state, || TaxonomyKind::ALL.map(by_value));
        Self { by_value, by_city_and_state }
    }

    pub(crate) fn names(&self) -> usize {
        self.by_value.iter().map(HashMap::len).sum()
    }

    fn of(&self, kind: TaxonomyKind, value: &str) -> Option<&Positions> {
        self.by_value[kind.index()].get(value)
    }

    /// The slugs of sports that listings name.
    pub(crate) fn sports(&self) -> impl Iterator<Item = (&str, &Positions)> {
        self.by_value[0].iter().map(|(slug, positions)| (&**slug, positions))
    }

    /// How many listings are among those of no term: the index lacks their terms. The listings of a name that a doubtful term
    /// has do not count.
    pub(crate) fn unnamed(&self, kind: TaxonomyKind, terms: &[Term], known: &HashMap<Box<str>, Membership>) -> u64 {
        if kind == TaxonomyKind::Sports {
            return 0;
        }
        // Names whose listings are all those of one term, or may be those of a doubtful one.
        let mut named: HashSet<&str> = HashSet::new();
        for term in terms {
            let positions = known.get(&*term.slug).and_then(Membership::positions);
            let is_all = |name: &&str| {
                let of_term = positions.map(Positions::len);
                of_term.is_none() || of_term == self.of(kind, name).map(Positions::len)
            };
            named.extend(term.strings.iter().map(|(_, text)| text.as_str()).filter(is_all));
        }
        let others = self.by_value[kind.index()].iter().filter(|(name, _)| !named.contains(&***name));
        let others = others.filter(|(name, _)| !name.trim().is_empty());
        let mut rest = others.fold(Positions::new(), |all, (_, positions)| all | positions);
        for positions in known.values().filter_map(Membership::positions) {
            rest -= positions;
        }
        rest.len()
    }

    /// A hash of everything that determines a term's listings: its own fields, and the ids of the listings with its
    /// display names, in any order.
    pub(crate) fn fingerprint(&self, kind: TaxonomyKind, term: &Term, id_at: &dyn Fn(u32) -> ListingId) -> [u8; 16] {
        let mut text = format!("{}\0{:?}\0{:?}\0", term.slug, term.strings, term.numbers).into_bytes();
        let names = term.strings.iter().map(|(_, value)| value.as_str());
        for name in names.chain([term.slug.as_str()]) {
            let states = self.by_city_and_state.get(name).filter(|_| kind == TaxonomyKind::Cities);
            let mut states: Vec<_> = states.into_iter().flatten().collect();
            states.sort_unstable_by_key(|(state, _)| *state);
            for (state, positions) in states {
                text.extend_from_slice(state.as_bytes());
                put_ids(&mut text, positions, id_at);
            }
            if let Some(positions) = self.of(kind, name) {
                put_ids(&mut text, positions, id_at);
            }
        }
        ContentHash::of(&text).to_bytes()
    }
}

/// The ids at some positions, sorted, so that moves do not matter.
fn put_ids(text: &mut Vec<u8>, positions: &Positions, id_at: &dyn Fn(u32) -> ListingId) {
    let mut ids: Vec<ListingId> = positions.iter().map(id_at).collect();
    ids.sort_unstable();
    for id in ids {
        text.extend_from_slice(&id.0.to_le_bytes());
    }
}

/// The positions of each number below `count`. They are sorted first, so that groups are built one after the other:
/// there are too many for the CPU's cache.
fn by_number(numbers: impl Iterator<Item = u32> + Clone, count: usize) -> impl Iterator<Item = Positions> {
    let numbers = (0_u32..).zip(numbers).filter(move |(_, number)| (*number as usize) < count);
    let mut ends = vec![0_usize; count + 1];
    for (_, number) in numbers.clone() {
        ends[number as usize + 1] += 1;
    }
    for number in 0..count {
        ends[number + 1] += ends[number];
    }
    let mut sorted = vec![0_u32; ends[count]];
    // Each group starts at the end of the group before.
    for (position, number) in numbers {
        let end = &mut ends[number as usize];
        sorted[*end] = position;
        *end += 1;
    }
    let mut start = 0;
    (0..count).map(move |number| {
        let group = sorted[std::mem::replace(&mut start, ends[number])..ends[number]].iter().copied();
        // They are in ascending order, so none is refused.
        Positions::from_sorted_iter(group).unwrap_or_default()
    })
}

/// The data set that slugs are resolved for.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub groups: &'a Groups,
    pub snapshot: &'a str,
    pub id_at: &'a dyn Fn(u32) -> ListingId,
    pub position_of: &'a dyn Fn(ListingId) -> Option<u32>,
}

impl Scene<'_> {
    /// The origin's list for a term, if it still holds.
    fn listed(&self, kind: TaxonomyKind, term: &Term, evidence: &Evidence) -> Option<Membership> {
        let listed = evidence.get(&(kind, term.slug.clone()))?;
        if listed.fingerprint != self.groups.fingerprint(kind, term, self.id_at) {
            return None;
        }
        let positions: Positions = listed.ids.iter().map(|id| (self.position_of)(*id)).collect::<Option<_>>()?;
        let names = term.strings.iter().filter_map(|(_, name)| self.groups.of(kind, name));
        let explained = names.fold(Positions::new(), |all, group| all | group);
        let holds = listed.snapshot == self.snapshot || positions.is_subset(&explained);
        holds.then_some(Membership::Listed(positions, listed.fingerprint))
    }
}

/// The meaning of the terms' fields, learned from their agreement with the listings.
#[derive(Debug, Default, PartialEq, Eq)]
struct Meaning {
    name: Option<String>,
    count: Option<String>,
}

fn field<'a, T>(fields: &'a [(String, T)], key: Option<&String>) -> Option<&'a T> {
    let key = key?;
    fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// So many fields of terms are tried: each is compared with all terms.
const MOST_KEYS: usize = 64;

/// Of the first few keys the one that most terms satisfy; the first on a tie.
fn best<'a>(
    keys: impl Iterator<Item = &'a String>,
    score: impl Fn(&'a String) -> usize,
) -> Option<(&'a String, usize)> {
    let mut seen: Vec<&String> = Vec::new();
    for key in keys {
        if !seen.contains(&key) {
            seen.push(key);
        }
        if seen.len() == MOST_KEYS {
            break;
        }
    }
    let scored = seen.into_iter().map(|key| (key, score(key)));
    scored.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

impl Meaning {
    fn learn(kind: TaxonomyKind, terms: &[Term], groups: &Groups) -> Self {
        let names = terms.iter().flat_map(|term| term.strings.iter().map(|(key, _)| key));
        let name = best(names, |key| {
            let matches =
                |term: &&Term| field(&term.strings, Some(key)).is_some_and(|name| groups.of(kind, name).is_some());
            terms.iter().filter(matches).count()
        });
        let name = name.filter(|(_, score)| *score > 0).map(|(key, _)| key.clone());
        let counts = terms.iter().flat_map(|term| term.numbers.iter().map(|(key, _)| key));
        let count = best(counts, |key| {
            let agrees = |term: &&Term| {
                let value =
                    if kind == TaxonomyKind::Sports { Some(&term.slug) } else { field(&term.strings, name.as_ref()) };
                let size = value.and_then(|value| groups.of(kind, value)).map_or(0, Positions::len);
                field(&term.numbers, Some(key)) == Some(&size)
            };
            terms.iter().filter(agrees).count()
        });
        Self { name, count: count.map(|(key, _)| key.clone()) }
    }
}

/// The memberships of all slugs of a taxonomy.
pub(crate) fn resolve(
    kind: TaxonomyKind,
    terms: &[Term],
    evidence: &Evidence,
    scene: Scene<'_>,
) -> HashMap<Box<str>, Membership> {
    let groups = scene.groups;
    let meaning = Meaning::learn(kind, terms, groups);
    let mut sharing: HashMap<&str, u32> = HashMap::new();
    for name in terms.iter().filter_map(|term| field(&term.strings, meaning.name.as_ref())) {
        *sharing.entry(name).or_default() += 1;
    }
    let mut known: HashMap<Box<str>, Membership> = HashMap::new();
    for term in terms {
        let named = named(kind, term, &meaning, groups, &sharing);
        let membership = named.map(Membership::Named);
        let membership = membership.or_else(|| scene.listed(kind, term, evidence));
        known.insert(term.slug.as_str().into(), membership.unwrap_or(Membership::Doubtful));
    }
    if kind == TaxonomyKind::Sports {
        for (slug, positions) in groups.sports() {
            known.entry(slug.into()).or_insert_with(|| Membership::Named(positions.clone()));
        }
    }
    known
}

/// The key under which most terms have the listings' display name; `None` if none does.
pub(crate) fn name_key(kind: TaxonomyKind, terms: &[Term], groups: &Groups) -> Option<String> {
    Meaning::learn(kind, terms, groups).name
}

/// The terms known by their own lists although their name has listings that no term with it has: one of the lists may be
/// from before these came. `name_key`: as [`name_key`] says.
pub(crate) fn unexplained<'t>(
    kind: TaxonomyKind,
    (terms, name_key): (&'t [Term], Option<&String>),
    known: &HashMap<Box<str>, Membership>,
    groups: &Groups,
) -> Vec<&'t Term> {
    let mut explained: HashMap<&str, Positions> = HashMap::new();
    let name_of = |term: &'t Term| field(&term.strings, name_key).filter(|_| kind != TaxonomyKind::Sports);
    for (term, name) in terms.iter().filter_map(|term| Some((term, name_of(term)?))) {
        // A term in doubt may have all that are left.
        let positions = known.get(&*term.slug).and_then(Membership::positions).or_else(|| groups.of(kind, name));
        *explained.entry(name).or_default() |= positions.unwrap_or(&Positions::new());
    }
    let is_open = |name: &str| groups.of(kind, name).is_some_and(|all| !all.is_subset(&explained[name]));
    let is_listed = |term: &Term| matches!(known.get(&*term.slug), Some(Membership::Listed(..)));
    terms.iter().filter(|term| is_listed(term) && name_of(term).is_some_and(|name| is_open(name))).collect()
}

/// The positions that name and count prove, or `None`. `sharing`: how many terms have a name.
fn named(
    kind: TaxonomyKind,
    term: &Term,
    meaning: &Meaning,
    groups: &Groups,
    sharing: &HashMap<&str, u32>,
) -> Option<Positions> {
    let count_of = |term: &Term| field(&term.numbers, meaning.count.as_ref()).copied();
    let empty = Positions::new();
    if kind == TaxonomyKind::Sports {
        let group = groups.of(kind, &term.slug).unwrap_or(&empty);
        if term.strings.is_empty() && term.numbers.is_empty() {
            return None;
        }
        return count_of(term).is_none_or(|count| count == group.len()).then(|| group.clone());
    }
    if groups.by_value[kind.index()].is_empty() {
        // No listing has such a name, so no term can have listings.
        return count_of(term).is_none_or(|count| count == 0).then_some(empty);
    }
    let name = field(&term.strings, meaning.name.as_ref())?;
    let group = groups.of(kind, name).unwrap_or(&empty);
    // A count that is a little wrong may be that of another term with the name: only their own lists tell them apart.
    if sharing.get(name.as_str()) != Some(&1) {
        return None;
    }
    let states = (kind == TaxonomyKind::Cities).then(|| groups.by_city_and_state.get(name.as_str())).flatten();
    match count_of(term) {
        Some(count) => (count == group.len()).then(|| group.clone()),
        None => (!group.is_empty() && states.is_none_or(|states| states.len() == 1)).then(|| group.clone()),
    }
}

#[cfg(test)]
mod tests;
