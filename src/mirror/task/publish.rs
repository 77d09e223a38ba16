//! Publication of a list. One that lost too many listings is held back until an operator accepts it.
//!
//! Callers: [`super`] and its parts.

use std::sync::Arc;
use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Venue};
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::{Monotonic, WallTime};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::meta::{Certificate, SnapshotMeta};
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshots::SIZES;
use crate::data::store::{States, Store, StoreError};
use crate::origin::status::{HeldBack, OriginStatus, Vanishing};
use crate::protocol::excerpt;

use super::super::copies::DATE_GRAIN_MS;
use super::super::pass::{self, Assembled, Beside};
use super::schedule::{ChangedPart, ContentPart, Flips};
use super::{DAY_MS, Mirror, MirrorError, blocking};

/// A list with its indexes: consistent in itself.
#[derive(Clone)]
pub(super) struct List {
    pub(super) dataset: Arc<Dataset>,
    pub(super) beside: Beside,
}

#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) list: List,
    /// Whether it builds on the newest snapshot; else every page was read.
    pub(super) is_amended: bool,
    /// The latest instant for which all its parts are confirmed.
    pub(super) until_ms: i64,
    /// How often it could not be confirmed, because copies were of different instants.
    pub(super) tries: u32,
    /// What was proved of it when the disk did not take it: then it is published without another question.
    pub(super) proof: Option<Proof>,
}

/// A list with everything that its publication takes.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) list: List,
    pub(super) meta: SnapshotMeta,
}

/// How sure we are of a list.
#[derive(Clone)]
pub(super) struct Proof {
    pub(super) certificate: Certificate,
    /// The latest instant for which it is confirmed, in milliseconds of the origin's time.
    pub(super) until_ms: i64,
    /// What is still open, for people.
    pub(super) open_points: Vec<String>,
}

impl Proof {
    pub(super) const fn of(certificate: Certificate, until_ms: i64) -> Self {
        Self { certificate, until_ms, open_points: Vec::new() }
    }

    /// For a list that never held still: best effort.
    pub(super) fn open(point: &str, until_ms: i64) -> Self {
        Self { certificate: Certificate::BestEffort, until_ms, open_points: vec![point.to_owned()] }
    }
}

/// Holds back a list that shrank too much.
pub(super) struct ShrinkGuard {
    store: Arc<Store>,
    status: OriginStatus,
    /// The share of the listings that may vanish within a day.
    max_shrink: f64,
    pub(super) held: Option<Prepared>,
    /// So many listings are accepted: the held list, or what the origin has by then, if no smaller.
    pub(super) accepted: Option<usize>,
    written: Option<(Monotonic, WallTime)>,
}

/// The sizes of the last day. Their times follow a wall clock that jumped since they were `written`; while no process
/// looked, one that went back.
fn of_the_last_day(
    mut sizes: Vec<(i64, usize)>,
    written: Option<(Monotonic, WallTime)>,
    (mono, wall): (Monotonic, WallTime),
) -> Vec<(i64, usize)> {
    const JUMP_MS: i64 = 60_000;
    let now_ms = wall.as_millis();
    let jump = written.map_or(0, |(mono_then, then)| {
        let passed = i64::try_from(mono.since(mono_then).as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(then.as_millis()).saturating_sub(passed)
    });
    let jump = if jump.saturating_abs() > JUMP_MS { jump } else { 0 };
    for (at, _) in &mut sizes {
        *at = at.saturating_add(jump).min(now_ms);
    }
    sizes.retain(|(at, _)| now_ms.saturating_sub(*at) <= DAY_MS);
    sizes
}

impl ShrinkGuard {
    pub(super) const fn new(store: Arc<Store>, status: OriginStatus, max_shrink: f64) -> Self {
        Self { store, status, max_shrink, held: None, accepted: None, written: None }
    }

    /// Nothing is held back or accepted any more.
    pub(super) fn forget(&mut self) {
        (self.held, self.accepted) = (None, None);
        self.status.update(|picture| picture.held = None);
    }

    /// Accepts the list that is told as held, also while what the origin has in its place is read; `false`: there is none.
    pub(super) fn accept(&mut self) -> bool {
        let told = self.status.picture().held.map(|held| usize::try_from(held.listings).unwrap_or(usize::MAX));
        self.accepted = told.or(self.accepted);
        told.is_some()
    }

    /// Holds back a list that would lose too much, compared with the newest snapshot and with the last day. Else
    /// returns the sizes to store.
    fn judge(
        &mut self,
        newest: Option<&Snapshot>,
        next: &Prepared,
        judged: (Monotonic, WallTime),
    ) -> Result<Option<States>, StoreError> {
        const HOUR_MS: i64 = 3_600_000;
        // How many listings were published when.
        let stored = self.store.state_json(SIZES)?.unwrap_or_default();
        let (mut sizes, now_ms) = (of_the_last_day(stored, self.written, judged), judged.1.as_millis());
        let then = next.list.dataset.len();
        let largest = sizes.iter().map(|(_, listings)| *listings).max().unwrap_or(0);
        let served = newest.map_or(0, |newest| newest.dataset.len());
        let now = served.max(largest);
        let shrank = newest.is_some() && shrank_too_much(now, then, self.max_shrink);
        // A list no smaller than the accepted one is accepted, too: it may have moved on meanwhile.
        let accepted = self.accepted.take().is_some_and(|listings| then >= listings);
        if shrank && accepted {
            tracing::warn!(now, then, "a snapshot that lost many listings was accepted");
            sizes.clear();
        } else if shrank {
            let lost = now - then;
            let most = self.max_shrink;
            let reason = format!(
                "{lost} of {now} listings would vanish, more than mirror.max_shrink = {most} allows within a day"
            );
            let (snapshot, serving) = (next.list.dataset.id.to_string(), served as u64);
            let held = HeldBack { snapshot, listings: then as u64, serving, reason, ..HeldBack::default() };
            let held = newest.map(|newest| vanishing(held, &newest.dataset, &next.list.dataset));
            self.status.update(|picture| picture.held = held);
            self.held = Some(next.clone());
            return Ok(None);
        }
        match sizes.last_mut() {
            // Of those within one hour the largest is kept.
            Some((at, largest)) if now_ms - *at < HOUR_MS => *largest = then.max(*largest),
            _ => sizes.push((now_ms, then)),
        }
        let mut states = States::default();
        states.put_json(SIZES, &sizes)?;
        self.written = Some(judged);
        Ok(Some(states))
    }
}

/// Adds which listings the next data set lacks.
fn vanishing(mut held: HeldBack, newest: &Dataset, next: &Dataset) -> HeldBack {
    const MOST_NAMED: usize = 20;
    for summary in newest.content.summaries.iter().filter(|summary| next.position(summary.id).is_none()) {
        let Venue { name, sport, state, .. } = Venue::read(&summary.raw);
        for (counts, of) in [(&mut held.sports, sport), (&mut held.states, state)] {
            *counts.entry(excerpt::first(&of.unwrap_or_else(|| "(none)".into()), LONGEST_NAME)).or_default() += 1;
        }
        if held.vanishing.len() < MOST_NAMED {
            let name = excerpt::first(&name.unwrap_or_default(), LONGEST_NAME);
            held.vanishing.push(Vanishing { id: summary.id.0, name });
        }
    }
    for counts in [&mut held.sports, &mut held.states] {
        let mut fewest: Vec<u64> = counts.values().copied().collect();
        fewest.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(least) = fewest.get(MOST_COUNTED).copied() {
            counts.retain(|_, count| *count > least);
        }
    }
    held
}

/// The most characters of a name in `/status`, and the most sports or states.
const LONGEST_NAME: usize = 100;
const MOST_COUNTED: usize = 100;

/// Whether a snapshot lost more listings than may vanish at once.
fn shrank_too_much(serving: usize, next: usize, max_shrink: f64) -> bool {
    let lost = serving.saturating_sub(next);
    lost > 0 && (lost as f64) > serving as f64 * max_shrink
}

impl Mirror {
    /// Publishes the pages that were read. A list equal to the newest snapshot is not indexed again.
    pub(super) async fn publish_assembled(&mut self, assembled: Assembled, proof: Proof) -> Result<(), MirrorError> {
        let list = match self.newest() {
            Some(newest) if newest.dataset.id == assembled.content.id() => {
                List { dataset: newest.dataset.clone(), beside: assembled.beside }
            }
            newest => self.terms.index(assembled, newest).await?,
        };
        self.publish(list, proof).await
    }

    /// Publishes a list, unless it lost too many listings.
    pub(super) async fn publish(&mut self, list: List, proof: Proof) -> Result<(), MirrorError> {
        let Proof { certificate, until_ms, open_points } = proof;
        let newest = self.newest();
        for field in &list.beside.left_out {
            tracing::warn!(field, "a field beside the items differs between the pages of one crawl; it is left out");
        }
        let now = self.clock.now_wall();
        let same = newest.as_ref().filter(|newest| newest.dataset.id == list.dataset.id);
        let confirmed = same.filter(|newest| !newest.is_unconfirmed(now));
        let now_ms = now.as_millis();
        // Never backwards for the same data; other data is confirmed for its own instant.
        let before = confirmed.map_or(i64::MIN, |newest| newest.meta.confirmed_ms).min(now_ms);
        // A later refresh proves less of its instant than the pass of its own.
        let is_later = certificate == Certificate::Full && before > until_ms;
        let meta = SnapshotMeta {
            certificate: if is_later { Certificate::Incremental } else { certificate },
            confirmed_ms: until_ms.max(before),
            claimed_ms: None,
            published_ms: same.map_or(now_ms, |newest| newest.meta.published_ms),
            volatile: self.copies.volatile(),
            volatile_values: list.beside.volatile_values.clone(),
            left_out: list.beside.left_out.clone(),
            open_points,
            form: newest.as_ref().map(|newest| newest.meta.form.clone()).unwrap_or_default(),
            origin: Some(self.copies.client.base().as_str().to_owned()),
        };
        let next = Prepared { list, meta };
        match self.shrink.judge(newest.as_deref(), &next, (self.clock.now_mono(), self.clock.now_wall()))? {
            Some(sizes) => self.switch_to(next, sizes).await,
            None => Ok(()),
        }
    }

    /// Publishes a list that was held back and accepted.
    pub(super) async fn publish_held(&mut self, mut held: Prepared) -> Result<(), MirrorError> {
        // Evidence of terms may have arrived meanwhile.
        held.list.dataset = self.terms.index_again(&held.list.dataset, self.newest()).await?;
        let listings = held.list.dataset.len();
        tracing::warn!(listings, "a snapshot that lost many listings was accepted");
        let mut sizes = States::default();
        sizes.remove(SIZES);
        self.switch_to(held, sizes).await
    }

    /// Makes a list the newest snapshot; `sizes` are remembered with it.
    async fn switch_to(&mut self, Prepared { list, meta }: Prepared, sizes: States) -> Result<(), MirrorError> {
        let same = self.newest().filter(|newest| newest.dataset.id == list.dataset.id);
        let dataset = same.map_or(list.dataset, |newest| newest.dataset.clone());
        let now_ms = self.clock.now_wall().as_millis();
        let (published, kept) = (dataset.clone(), meta.clone());
        // The sizes in the same transaction: a crash cannot publish a list and forget how large the one before it was.
        self.switch(move |snapshots, seen| snapshots.publish(seen, &published, kept, sizes)).await?;
        tracing::info!(
            snapshot = %dataset.id,
            listings = dataset.len(),
            certificate = meta.certificate.as_str(),
            confirmed = %WallTime::from_millis(meta.confirmed_ms),
            "published"
        );
        self.shrink.forget();
        let pages = pass::pages_of(&dataset);
        // No client waits for this.
        let snapshots = self.snapshots.clone();
        // After the publication: until then a restart may need the copies.
        let tidy = move || snapshots.tidy().and_then(|()| forget_copies(snapshots.store(), pages, now_ms));
        if let Err(error) = blocking(tidy).await {
            tracing::warn!(%error, "data that is no longer needed could not be removed");
        }
        Ok(())
    }
}

/// What differs, of some of it. What is not there has a hash of its own.
pub(super) fn changed(before: &Dataset, after: &Dataset) -> Vec<ChangedPart> {
    let absent = ContentHash::of(b"");
    let hash = |of: &Dataset, id| of.summary(id).map_or(absent, |summary| summary.hash);
    let known = before.content.summaries.iter().map(|known| (known.id, known.hash, hash(after, known.id)));
    let new = after.content.summaries.iter().filter(|next| before.position(next.id).is_none());
    let new = new.map(|next| (next.id, absent, next.hash));
    let listings = known.chain(new).filter(|(_, known, next)| known != next);
    let listings = listings.map(|(id, known, next)| (ContentPart::Listing(id), known, next));
    let taxonomies = TaxonomyKind::ALL.into_iter().filter_map(|kind| {
        let [known, next] = [before, after].map(|of| ContentHash::of(of.content.taxonomy(kind).as_bytes()));
        (known != next).then_some((ContentPart::Taxonomy(kind), known, next))
    });
    listings.take(Flips::MOST).chain(taxonomies).collect()
}

/// Lists with a term that show some of the changes; of what was moved or removed, those that it has left.
pub(super) fn lists_of(before: &Dataset, after: &Dataset, changed: &[ChangedPart]) -> Vec<ListQuery> {
    const MOST: usize = 4;
    let ids = changed.iter().filter_map(|(part, ..)| match part {
        ContentPart::Listing(id) => Some(*id),
        ContentPart::Taxonomy(_) => None,
    });
    let list = |id: ListingId, kind: TaxonomyKind| {
        let term_of = |of: &Dataset| {
            let at = of.position(id)?;
            let (slug, listings) = of.known_terms(kind).find(|(_, listings)| listings.contains(at))?;
            Some((slug.to_owned(), listings.range_cardinality(..at)))
        };
        let (was, is) = (term_of(before), term_of(after));
        let stays = was.as_ref().map(|(slug, _)| slug) == is.as_ref().map(|(slug, _)| slug);
        let (slug, rank) = if stays { is? } else { was.or(is)? };
        let query = ListQuery::largest_pages().with_term(kind, &slug);
        let last = query.total_pages(after.find(&query).ok()?.total).max(1);
        Some(query.with_page((rank / pass::PAGE_SIZE + 1).min(last)))
    };
    let some = ids.clone().step_by((ids.count() / MOST).max(1)).take(MOST);
    some.flat_map(|id| TaxonomyKind::ALL.into_iter().filter_map(move |kind| list(id, kind))).collect()
}

/// Whether `before` lacks a change that is older than the instant for which it was confirmed, but not older than a cache can
/// hide.
pub(super) fn has_missed(before: &Snapshot, after: &Dataset, changed: &[ChangedPart], cache_ttl: Duration) -> bool {
    let most_ms = i64::try_from(cache_ttl.as_millis()).unwrap_or(i64::MAX);
    // Clocks differ a little, and what is modified shows a little later.
    let hidden_ms = (most_ms / 10).max(3 * DATE_GRAIN_MS)..=most_ms;
    let modified = changed.iter().filter_map(|(part, ..)| match part {
        ContentPart::Listing(id) => after.modified_of(*id),
        ContentPart::Taxonomy(_) => None,
    });
    let confirmed_ms = before.meta.confirmed_ms;
    modified.map(|nanos| confirmed_ms.saturating_sub(nanos / 1_000_000)).any(|ago_ms| hidden_ms.contains(&ago_ms))
}

/// Removes unused copies: pages beyond the last but one, and probes of earlier snapshots.
fn forget_copies(store: &Store, pages: u64, now_ms: i64) -> Result<(), StoreError> {
    let useless = store.copy_metas()?.into_iter().filter(|(path, meta)| {
        // The one after the last shows that there is no more.
        let beyond = pass::page_of(path).is_some_and(|page| page > pages + 1);
        beyond || (path.contains("modified_since=") && now_ms - meta.fetched_ms > DAY_MS)
    });
    store.remove_copies(&useless.map(|(path, _)| path).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collapse_is_told_from_a_loss() {
        for (serving, next, held) in
            [(100, 100, false), (100, 80, false), (100, 79, true), (0, 0, false), (1, 0, true), (5, 9, false)]
        {
            assert_eq!(shrank_too_much(serving, next, 0.2), held, "{serving} -> {next}");
        }
        assert!(!shrank_too_much(10, 0, 1.0));
    }

    #[test]
    fn what_was_published_within_a_day_is_known_whatever_the_wall_clock_does_meanwhile() {
        const HOUR: i64 = 3600;
        const MONTH: i64 = 30 * 24 * HOUR;
        let at = |wall: i64, mono: i64| (Monotonic::from_seconds(mono.unsigned_abs()), WallTime::from_seconds(wall));
        let (sizes, written) = (vec![(0, 9), (20 * HOUR * 1000, 7)], at(20 * HOUR, 20 * HOUR));
        for (written, now, left) in [
            (Some(written), at(21 * HOUR, 21 * HOUR), &[9, 7][..]),
            (Some(written), at(30 * HOUR, 30 * HOUR), &[7]),
            (Some(written), at(21 * HOUR + MONTH, 21 * HOUR), &[9, 7]),
            (Some(written), at(21 * HOUR - MONTH, 21 * HOUR), &[9, 7]),
            (Some(written), at(30 * HOUR + MONTH, 30 * HOUR), &[7]),
            (None, at(-MONTH, 0), &[9, 7]),
            (None, at(30 * HOUR, 0), &[7]),
        ] {
            let known: Vec<usize> =
                of_the_last_day(sizes.clone(), written, now).into_iter().map(|size| size.1).collect();
            assert_eq!(known, left, "{now:?}");
        }
    }
}
