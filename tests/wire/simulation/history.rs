//! The origin's history: each version of each listing, and each state with the instant it began at.
//!
//! Recorded beside the origin after each edit; answers queries in its own way, by walking. Callers: `script`, which
//! edits, and `check`, which compares.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use grandstand::api::query::ListQuery;
use grandstand::api::taxonomy::{TaxonomyKind, VolatileKeys};
use sample_origin::Origin;

/// Milliseconds of the origin's time.
pub type Ms = i64;

/// One version of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// The summary as it stands in lists.
    pub summary: String,
    /// The detail, volatile values blanked.
    pub detail: String,
    /// `modified` in nanoseconds since the epoch.
    pub modified: i64,
    /// The slugs by the taxonomies' index.
    pub slugs: [String; 3],
}

/// The origin's state from one edit to the next.
#[derive(Clone, Debug)]
pub struct State {
    pub from: Ms,
    /// Ids in the origin's order, each with the number of its version.
    pub order: Vec<(u64, usize)>,
    /// The taxonomies, volatile values blanked.
    pub taxonomies: [Arc<str>; 3],
}

/// The whole history.
#[derive(Debug, Default)]
pub struct History {
    versions: HashMap<u64, Vec<Version>>,
    states: Vec<State>,
    replaced: HashSet<u64>,
}

impl History {
    /// Records the origin's state from `now` on; `changed` are the listings that may have a new version, `replaced`
    /// those that went or came one for another, so that neither counts nor `modified` show it.
    pub fn record(&mut self, origin: &Origin, now: Ms, changed: &[u64], replaced: &[u64]) {
        self.replaced.extend(replaced);
        for &id in changed {
            let Some((summary, detail)) = origin.texts_of(id) else { continue };
            let (slugs, modified) = origin.world(|world| {
                let (sport, state, city) = world.slugs_of(id).unwrap();
                let at = world.venue(id).unwrap().modified.at.as_nanosecond();
                ([sport.to_owned(), state, city.to_owned()], i64::try_from(at).unwrap())
            });
            let version = Version { summary, detail: blanked(&detail), modified, slugs };
            let versions = self.versions.entry(id).or_default();
            if versions.last() != Some(&version) {
                versions.push(version);
            }
        }
        let ids = origin.world(|world| world.ids_in(origin.switches().order));
        let order = ids.into_iter().map(|id| (id, self.versions[&id].len() - 1)).collect();
        let taxonomies = TaxonomyKind::ALL.map(|kind| {
            let text = blanked(&origin.expected_text(kind.path()).1);
            let before = self.states.last().map(|state| &state.taxonomies[kind.index()]);
            before.filter(|before| ***before == *text).cloned().unwrap_or_else(|| text.into())
        });
        self.states.push(State { from: now, order, taxonomies });
    }

    /// The state now.
    pub fn latest(&self) -> &State {
        self.states.last().unwrap()
    }

    /// The states of which any instant lies between two, the latest first.
    pub fn between(&self, first: Ms, last: Ms) -> impl Iterator<Item = &State> {
        let ends = self.states.iter().skip(1).map(|next| next.from).chain([Ms::MAX]);
        let lasting = self.states.iter().zip(ends).collect::<Vec<_>>();
        lasting
            .into_iter()
            .rev()
            .filter(move |(state, end)| state.from <= last && *end >= first)
            .map(|(state, _)| state)
    }

    /// All states, the latest first.
    pub fn backwards(&self) -> impl Iterator<Item = &State> {
        self.states.iter().rev()
    }

    /// Whether a listing came or went so that neither counts nor `modified` showed it.
    pub fn was_replaced(&self, id: u64) -> bool {
        self.replaced.contains(&id)
    }

    /// One version.
    pub fn version(&self, id: u64, number: usize) -> &Version {
        &self.versions[&id][number]
    }

    /// The numbers of the first and the last such version of a listing; `None` when there was none.
    pub fn numbers(&self, id: u64, looks_so: impl Fn(&Version) -> bool) -> Option<(usize, usize)> {
        let versions = self.versions.get(&id)?;
        Some((versions.iter().position(&looks_so)?, versions.iter().rposition(&looks_so)?))
    }

    /// The ids that a query finds among these listings, page and all, and how many there are.
    pub fn find(&self, order: &[(u64, usize)], query: &ListQuery) -> (Vec<u64>, u64) {
        let fits = |&&(id, number): &&(u64, usize)| {
            let version = self.version(id, number);
            let slugs = query.slugs.iter().zip(&version.slugs);
            slugs.into_iter().all(|(wanted, is)| wanted.as_deref().is_none_or(|wanted| wanted == is))
                && query.modified_since.as_ref().is_none_or(|since| version.modified > since.at)
        };
        let all: Vec<u64> = order.iter().filter(fits).map(|(id, _)| *id).collect();
        let skip = (query.page - 1) as usize * usize::from(query.per_page);
        (all.iter().copied().skip(skip).take(usize::from(query.per_page)).collect(), all.len() as u64)
    }
}

/// A taxonomy or a detail without its volatile values.
pub fn blanked(text: &str) -> String {
    let mut keys = VolatileKeys::default();
    keys.insert("request_id");
    keys.blank(text).0
}
