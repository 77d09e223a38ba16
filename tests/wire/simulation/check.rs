//! Checks each certificate's promise against the origin's history.
//!
//! Callers: `script`, for every publication, for details on samples, and at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use grandstand::api::listing::{ListingId, Summary};
use grandstand::api::query::{ListQuery, ModifiedSince};
use grandstand::api::taxonomy::TaxonomyKind;
use grandstand::clock::Clock;
use grandstand::data::details::Details;
use grandstand::data::snapshot::content::Content;
use grandstand::data::snapshot::dataset::{Dataset, Doubt};
use grandstand::data::snapshot::meta::Certificate;
use grandstand::data::snapshot::pointer::Snapshot;
use grandstand::data::store::DetailState;
use parking_lot::Mutex;
use rand::RngExt as _;
use rand::rngs::SmallRng;

use super::history::{History, Ms, State, blanked};

/// How much later a confirmed instant may be than it says: `Date` and `Age` are whole seconds.
const GRAIN: Ms = 2_000;
/// The newest listings that every refresh sees, with any question.
const PROBED: usize = 10;

/// The checker of one run.
pub struct Checker {
    history: Arc<Mutex<History>>,
    clock: Clock,
    /// Whether the mirror's clock may have been behind: then its dates may be too early.
    jumps: bool,
    dice: SmallRng,
    /// The oldest version that may still be shown, by listing.
    least: HashMap<u64, usize>,
    shown: HashSet<u64>,
    gone: HashSet<u64>,
    details: HashMap<u64, usize>,
    confirmed: HashMap<String, Ms>,
    queried: Option<Arc<Dataset>>,
    /// Publications by certificate, and queries compared.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Checker {
    pub fn new(history: Arc<Mutex<History>>, clock: Clock, jumps: bool, dice: SmallRng) -> Self {
        let (least, shown, gone, details) = Default::default();
        let (confirmed, counts) = Default::default();
        Self { history, clock, jumps, dice, least, shown, gone, details, confirmed, queried: None, counts }
    }

    /// Checks what is served from now on.
    pub fn publication(&mut self, published: &Snapshot) -> Result<(), String> {
        let (meta, content) = (&published.meta, &published.dataset.content);
        *self.counts.entry(meta.certificate.as_str()).or_default() += 1;
        let history = Arc::clone(&self.history);
        let history = history.lock();
        self.dated(published)?;
        let versions = versions(&history, content)?;
        let settled = matches!(meta.certificate, Certificate::Full | Certificate::Incremental);
        if settled {
            self.forwards(&history, content)?;
        } else if !meta.open_points.iter().any(|point| point.starts_with("the origin's pages contradict each other")) {
            // Pages that never fitted, for long, are lived with: then listings come from other lists, too.
            each_page_was_an_answer(&history, content)?;
        }
        let last = if self.jumps { Ms::MAX } else { meta.confirmed_ms + GRAIN };
        let mut states = history.between(meta.confirmed_ms, last);
        let exact = states.find(|state| differs(&history, content, state).is_none());
        match meta.certificate {
            Certificate::Full if exact.is_none() => return Err(no_instant(&history, content, meta.confirmed_ms, last)),
            Certificate::Incremental if exact.is_none() => seen_since(&history, content, meta.confirmed_ms)?,
            _ => {}
        }
        if exact.is_some() && !self.queried.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &published.dataset)) {
            self.queried = Some(published.dataset.clone());
            self.queries(&history, &published.dataset, &versions)?;
        }
        Ok(())
    }

    /// Nothing is confirmed for the future, nor less confirmed than before.
    fn dated(&mut self, published: &Snapshot) -> Result<(), String> {
        let (confirmed, now) = (published.meta.confirmed_ms, self.clock.now_wall().as_millis());
        if confirmed > now {
            return Err(format!("confirmed for {} ms in the future", confirmed - now));
        }
        let before = self.confirmed.entry(published.dataset.id.to_string()).or_insert(confirmed);
        if confirmed < *before && !self.jumps {
            return Err(format!("the same snapshot is confirmed for {} ms earlier than before", *before - confirmed));
        }
        *before = confirmed;
        Ok(())
    }

    /// Data never goes back from one settled snapshot to the next.
    fn forwards(&mut self, history: &History, content: &Content) -> Result<(), String> {
        for summary in &content.summaries {
            let id = summary.id.0;
            let (first, last) = history.numbers(id, |version| shows(version.summary.as_str(), summary)).unwrap();
            let least = self.least.entry(id).or_default();
            if last < *least {
                return Err(format!("listing {id} went back from version {least} to {last}"));
            }
            *least = first.max(*least);
            if self.gone.contains(&id) {
                return Err(format!("listing {id} is back although the settled snapshot before did not have it"));
            }
        }
        let now: HashSet<u64> = content.summaries.iter().map(|summary| summary.id.0).collect();
        self.gone.extend(self.shown.difference(&now));
        self.shown = now;
        Ok(())
    }

    /// Every term, and a sample of combinations, finds the same as the origin's own walk over these listings.
    fn queries(&mut self, history: &History, dataset: &Dataset, versions: &[(u64, usize)]) -> Result<(), String> {
        let mut queries = Vec::new();
        let mut slugs: [BTreeSet<&str>; 3] = Default::default();
        for &(id, number) in versions {
            for (kind, slug) in history.version(id, number).slugs.iter().enumerate() {
                slugs[kind].insert(slug);
            }
        }
        for (kind, slugs) in slugs.iter().enumerate() {
            queries.extend(slugs.iter().map(|slug| {
                let mut query = ListQuery { per_page: 100, ..ListQuery::default() };
                query.slugs[kind] = Some((*slug).into());
                query
            }));
        }
        for _ in 0..20.min(versions.len()) {
            let (id, number) = versions[self.dice.random_range(0..versions.len())];
            let version = history.version(id, number);
            let mut query = ListQuery { per_page: self.dice.random_range(1..=100), ..ListQuery::default() };
            for (kind, slug) in version.slugs.iter().enumerate() {
                query.slugs[kind] = self.dice.random_bool(0.4).then(|| slug.as_str().into());
            }
            if self.dice.random_bool(0.6) {
                let at = version.modified + self.dice.random_range(-1..=1) * 1_000_000_000;
                query.modified_since = Some(ModifiedSince { text: "-".into(), at });
            }
            queries.push(query);
        }
        for mut query in queries {
            loop {
                let (ids, total) = history.find(versions, &query);
                let found = match dataset.find(&query) {
                    Ok(found) => found,
                    Err(Doubt::Term) => break,
                    Err(doubt) => return Err(format!("{}: {doubt:?}", query.path_and_query())),
                };
                *self.counts.entry("queries").or_default() += 1;
                let here: Vec<u64> = found.items.iter().map(|summary| summary.id.0).collect();
                if (found.total, &here) != (total, &ids) {
                    let path = query.path_and_query();
                    return Err(format!(
                        "{path}: {} of {} found, not {} of {total}",
                        here.len(),
                        found.total,
                        ids.len()
                    ));
                }
                if ids.is_empty() {
                    break;
                }
                query.page += 1;
            }
        }
        Ok(())
    }

    /// Checks some stored details: each is one that the origin had, and none goes backwards.
    pub fn details(&mut self, details: &Details, ids: &[u64]) -> Result<(), String> {
        let history = self.history.lock();
        for &id in ids {
            let Some(record) = details.get(ListingId(id)).map_err(|error| error.to_string())? else { continue };
            if record.meta.state == DetailState::Gone {
                continue;
            }
            let text = blanked(&String::from_utf8_lossy(&record.body));
            let Some((first, last)) = history.numbers(id, |version| version.detail == text) else {
                return Err(format!("the detail of {id} is none that the origin ever had"));
            };
            let least = self.details.entry(id).or_default();
            if last < *least {
                return Err(format!("the detail of {id} went back from version {least} to {last}"));
            }
            *least = first.max(*least);
        }
        Ok(())
    }

    /// Checks that no detail is older than its summary.
    pub fn details_follow(&self, published: Option<&Snapshot>, details: &Details) -> Result<(), String> {
        let Some(published) = published else { return Err("nothing is published".to_owned()) };
        let history = self.history.lock();
        for summary in &published.dataset.content.summaries {
            let id = summary.id;
            let record = details.get(id).map_err(|error| error.to_string())?;
            let Some(record) = record.filter(|record| record.meta.state == DetailState::Present) else {
                return Err(format!("the detail of {id} is missing"));
            };
            let text = blanked(&String::from_utf8_lossy(&record.body));
            let needed = history.numbers(id.0, |version| shows(&version.summary, summary));
            let shown = history.numbers(id.0, |version| version.detail == text);
            if let (Some((needed, _)), Some((_, shown))) = (needed, shown)
                && shown < needed
            {
                let meta = &record.meta;
                return Err(format!("the detail of {id} has version {shown}, its summary {needed}: {meta:?}"));
            }
        }
        Ok(())
    }

    /// Checks that a mirror of a quiet origin shows all that a refresh can see; with `exact`, all there is.
    pub fn settled(&self, published: Option<&Snapshot>, exact: bool) -> Result<(), String> {
        let Some(published) = published else { return Err("nothing is published".to_owned()) };
        let (certificate, content) = (published.meta.certificate, &published.dataset.content);
        if !matches!(certificate, Certificate::Full | Certificate::Incremental) {
            return Err(format!("it is only {}: {:?}", certificate.as_str(), published.meta.open_points));
        }
        let history = self.history.lock();
        let latest = history.latest();
        let mut seen = Seen::ALL.into_iter();
        let reason = if exact {
            differs(&history, content, latest)
        } else {
            seen.find_map(|seen| seen.differs(&history, content, latest))
        };
        reason.map_or(Ok(()), Err)
    }

    /// Checks that every detail is the current one.
    pub fn details_current(&self, details: &Details) -> Result<(), String> {
        let history = self.history.lock();
        for &(id, number) in &history.latest().order {
            let Some(record) = details.get(ListingId(id)).map_err(|error| error.to_string())? else {
                return Err(format!("the detail of {id} is missing"));
            };
            if blanked(&String::from_utf8_lossy(&record.body)) != history.version(id, number).detail {
                return Err(format!("the detail of {id} is not the current one: {:?}", record.meta));
            }
        }
        Ok(())
    }
}

fn shows(text: &str, summary: &Summary) -> bool {
    text.as_bytes() == &*summary.raw
}

/// The version of each listing of a snapshot, in its order: no listing twice, none that the origin never had.
fn versions(history: &History, content: &Content) -> Result<Vec<(u64, usize)>, String> {
    let mut seen = HashSet::new();
    let version = |summary: &Summary| {
        let id = summary.id.0;
        if !seen.insert(id) {
            return Err(format!("listing {id} is there twice"));
        }
        let numbers = history.numbers(id, |version| shows(&version.summary, summary));
        let (_, last) = numbers.ok_or_else(|| format!("listing {id} never looked so: {:?}", summary.raw))?;
        Ok((id, last))
    };
    content.summaries.iter().map(version).collect()
}

/// The first difference between a snapshot and a state.
fn differs(history: &History, content: &Content, state: &State) -> Option<String> {
    if content.summaries.len() != state.order.len() {
        return Some(format!("{} listings, not {}", content.summaries.len(), state.order.len()));
    }
    for (at, (summary, &(id, number))) in content.summaries.iter().zip(&state.order).enumerate() {
        if summary.id.0 != id {
            return Some(format!("at {at} stands {}, not {id}", summary.id));
        }
        if !shows(&history.version(id, number).summary, summary) {
            let here = history.numbers(id, |version| shows(&version.summary, summary));
            return Some(format!("listing {id} at {at} has version {here:?}, not {number}"));
        }
    }
    TaxonomyKind::ALL.into_iter().find_map(|kind| taxonomy_differs(content, state, kind))
}

fn taxonomy_differs(content: &Content, state: &State, kind: TaxonomyKind) -> Option<String> {
    let (here, there) = (blanked(content.taxonomy(kind)), &state.taxonomies[kind.index()]);
    let at = here.bytes().zip(there.bytes()).position(|(one, other)| one != other);
    let around = |text: &str| text.get(at?.saturating_sub(60)..(at? + 60).min(text.len())).map(str::to_owned);
    let differ = *here != **there;
    differ.then(|| format!("{}: {:?}, not {:?}", kind.path(), around(&here), around(there)))
}

/// Why no state of the confirmed instant is this one.
fn no_instant(history: &History, content: &Content, confirmed: Ms, last: Ms) -> String {
    let when = history.backwards().find(|state| differs(history, content, state).is_none());
    let when = when.map_or_else(
        || "the origin never was so".to_owned(),
        |state| format!("the origin was so from {} ms after the confirmed instant on", state.from - confirmed),
    );
    let differences: Vec<_> = history
        .between(confirmed, last)
        .filter_map(|state| {
            Some(format!("(from {:+} ms) {}", state.from - confirmed, differs(history, content, state)?))
        })
        .collect();
    format!("full, but {when}; at the confirmed instant: {differences:?}")
}

/// All that a refresh sees was true at an instant no earlier than the confirmed one. It need not be one instant for
/// everything: a refresh's answers may be copies of different age, and a pass takes time.
fn seen_since(history: &History, content: &Content, confirmed: Ms) -> Result<(), String> {
    for seen in Seen::ALL {
        let states = history.between(confirmed, Ms::MAX);
        let reasons: Vec<_> = states.map(|state| seen.differs(history, content, state)).collect();
        if let Some(reasons) = reasons.into_iter().collect::<Option<Vec<_>>>() {
            return Err(format!("{seen:?} was not so at the confirmed instant, nor later: {reasons:?}"));
        }
    }
    Ok(())
}

/// What a refresh sees of the origin.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Taxonomy(TaxonomyKind),
    FirstPage,
    /// The total, and every listing whose `modified` moved. Invisible are changes that do not move `modified`, and
    /// deletions balanced by insertions with an old `modified`.
    Listings,
    /// The order of the listings that did not change.
    Order,
}

impl Seen {
    const ALL: [Self; 6] = [
        Self::Taxonomy(TaxonomyKind::Sports),
        Self::Taxonomy(TaxonomyKind::States),
        Self::Taxonomy(TaxonomyKind::Cities),
        Self::FirstPage,
        Self::Listings,
        Self::Order,
    ];

    /// The first difference between a snapshot and a state, as far as it is of this kind.
    fn differs(self, history: &History, content: &Content, state: &State) -> Option<String> {
        match self {
            Self::Taxonomy(kind) => taxonomy_differs(content, state, kind),
            Self::FirstPage => {
                let there = state.order.iter().take(100);
                let same = content.summaries.iter().take(100).zip(there.clone());
                let same = same.take_while(|(summary, (id, number))| {
                    summary.id.0 == *id && shows(&history.version(*id, *number).summary, summary)
                });
                let at = same.count();
                (at < there.len()).then(|| format!("at {at} stands another than {:?}", state.order[at]))
            }
            Self::Listings => listings_differ(history, content, state),
            Self::Order => order_differs(history, content, state),
        }
    }
}

fn listings_differ(history: &History, content: &Content, state: &State) -> Option<String> {
    if content.summaries.len() != state.order.len() {
        return Some(format!("total {}, not {}", content.summaries.len(), state.order.len()));
    }
    let here: HashMap<u64, &Summary> = content.summaries.iter().map(|summary| (summary.id.0, summary)).collect();
    let mut newest: Vec<i64> = state.order.iter().map(|&(id, number)| history.version(id, number).modified).collect();
    newest.sort_unstable_by(|one, other| other.cmp(one));
    let probed = newest.get(PROBED - 1).copied().unwrap_or(i64::MIN);
    let there: HashSet<u64> = state.order.iter().map(|(id, _)| *id).collect();
    if let Some(id) = here.keys().find(|id| !there.contains(id) && !history.was_replaced(**id)) {
        return Some(format!("listing {id} is there, and its deletion is none that counts hide"));
    }
    state.order.iter().find_map(|&(id, number)| {
        let version = history.version(id, number);
        let probed = version.modified >= probed;
        let Some(summary) = here.get(&id) else {
            let why = if probed { "modified lately enough to be probed" } else { "no insertion that counts hide" };
            return (probed || !history.was_replaced(id)).then(|| format!("listing {id} is missing: {why}"));
        };
        if shows(&version.summary, summary) {
            return None;
        }
        let (_, shown) = history.numbers(id, |version| shows(&version.summary, summary))?;
        let moved = history.version(id, shown).modified != version.modified;
        let why = if moved { "modified moved" } else { "modified lately enough to be probed" };
        (moved || probed).then(|| format!("listing {id} has version {shown}, not {number}: {why}"))
    })
}

fn order_differs(history: &History, content: &Content, state: &State) -> Option<String> {
    let there: HashMap<u64, usize> = state.order.iter().copied().collect();
    let unchanged = |summary: &&Summary| {
        let number = there.get(&summary.id.0);
        number.is_some_and(|number| shows(&history.version(summary.id.0, *number).summary, summary))
    };
    let order: Vec<u64> = content.summaries.iter().filter(unchanged).map(|summary| summary.id.0).collect();
    let same: HashSet<u64> = order.iter().copied().collect();
    let there = state.order.iter().map(|(id, _)| *id).filter(|id| same.contains(id));
    let displaced = order.into_iter().zip(there).find(|(one, other)| one != other);
    displaced.map(|(one, other)| format!("{one} stands where {other} should, and neither changed"))
}

/// Each page of a snapshot was an answer of the origin at some instant.
fn each_page_was_an_answer(history: &History, content: &Content) -> Result<(), String> {
    for (page, items) in content.summaries.chunks(100).enumerate() {
        let matches = |state: &State| {
            let there = state.order.chunks(100).nth(page).unwrap_or_default();
            let same = |(summary, &(id, number)): (&Summary, &(u64, usize))| {
                summary.id.0 == id && shows(&history.version(id, number).summary, summary)
            };
            there.len() == items.len() && items.iter().zip(there).all(same)
        };
        if !history.backwards().any(matches) {
            return Err(format!("page {} was no answer of the origin at any instant", page + 1));
        }
    }
    Ok(())
}
