//! Search in the current snapshot: words, places and filters over an index in memory.
//!
//! The index is made beside serving and publishing, after each swap. Until it is there, the snapshot before is
//! searched. Routes and headers are in [`crate::edge::answer`], parameters in [`crate::api::query::search`]. Callers:
//! [`crate::edge::answer`], [`crate::server`] starts it.

pub mod index;
mod occurrence;
mod order;
pub(crate) mod places;
mod plan;
mod ranks;
mod words;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::Semaphore;

use crate::api::query::search::SearchQuery;
use crate::config::Settings;
use crate::data::snapshot::dataset::{Dataset, Unselected};
use crate::data::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::tasks::fair::FairSemaphore;
use crate::tasks::{Aborted, blocking};

use index::{AllHits, Hits, SearchIndex};

/// So many long searches run or wait, each of another household, and so many of them run.
const MOST_LONG: usize = 64;
const AT_ONCE: usize = 2;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSearched {
    #[error("The search index is being made")]
    Unready,
    /// The household has a long search under way, or many households have.
    #[error("Too many long searches are under way; each address may have one at a time")]
    Busy,
    #[error(transparent)]
    Unselected(#[from] Unselected),
    #[error(transparent)]
    Aborted(#[from] Aborted),
}

struct Indexed {
    published: Arc<Snapshot>,
    index: Arc<SearchIndex>,
}

struct SearchState {
    current: SnapshotPointer,
    indexed: ArcSwapOption<Indexed>,
    long: FairSemaphore,
    running: Arc<Semaphore>,
    settings: Settings,
}

/// Searches; cheap to clone.
#[derive(Clone)]
pub(crate) struct Searches(Arc<SearchState>);

impl Searches {
    /// Without an index. `settings`: `rate_limit.ipv6_prefix` says what a household is.
    pub(crate) fn new(current: SnapshotPointer, settings: Settings) -> Self {
        let (long, running) = (FairSemaphore::new(MOST_LONG, 1), Arc::new(Semaphore::new(AT_ONCE)));
        Self(Arc::new(SearchState { current, indexed: ArcSwapOption::empty(), long, running, settings }))
    }

    /// Makes the index of each snapshot that becomes current, until the process ends.
    pub(crate) async fn run(self) {
        let mut swaps = self.0.current.watch();
        loop {
            swaps.borrow_and_update();
            if let Some(published) = self.0.current.get() {
                self.follow(published).await;
            }
            if swaps.changed().await.is_err() {
                return;
            }
        }
    }

    async fn follow(&self, published: Arc<Snapshot>) {
        let known = self.0.indexed.load_full().filter(|known| known.published.dataset.id == published.dataset.id);
        let index = if let Some(known) = known {
            // It was only confirmed.
            known.index.clone()
        } else {
            let dataset = published.dataset.clone();
            match blocking(move || SearchIndex::of(&dataset).map_err(std::io::Error::other)).await {
                Ok(index) => Arc::new(index),
                Err(error) => return tracing::error!(%error, "the search index could not be made"),
            }
        };
        tracing::debug!(snapshot = %published.dataset.id, "the search index is there");
        // Until here the snapshot before stays in memory, and its index beside the new one.
        self.0.indexed.store(Some(Arc::new(Indexed { published, index })));
    }

    /// Searches `current`, or the snapshot before while `current` has no index; returns which. A long search runs on another
    /// thread.
    pub(crate) async fn find(
        &self,
        current: Arc<Snapshot>,
        query: &SearchQuery,
        client: IpAddr,
    ) -> Result<(Hits, Arc<Snapshot>), NotSearched> {
        self.find_by(current, query, client, SearchIndex::find_short, SearchIndex::find).await
    }

    pub(crate) async fn find_all(
        &self,
        current: Arc<Snapshot>,
        query: &SearchQuery,
        client: IpAddr,
    ) -> Result<(AllHits, Arc<Snapshot>), NotSearched> {
        self.find_by(current, query, client, |_, _, _| None, SearchIndex::find_all).await
    }

    async fn find_by<T: Send + 'static>(
        &self,
        current: Arc<Snapshot>,
        query: &SearchQuery,
        client: IpAddr,
        short: impl FnOnce(&SearchIndex, &Dataset, &SearchQuery) -> Option<Result<T, Unselected>>,
        find: impl FnOnce(&SearchIndex, &Dataset, &SearchQuery) -> Result<T, Unselected> + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), NotSearched> {
        let indexed = self.0.indexed.load_full().ok_or(NotSearched::Unready)?;
        let is_current = indexed.published.dataset.id == current.dataset.id;
        let published = if is_current { current } else { indexed.published.clone() };
        let query = indexed.index.settled(&published.dataset, query)?;
        if let Some(found) = short(&indexed.index, &published.dataset, &query) {
            return Ok((found?, published));
        }
        let household = self.0.settings.household(client);
        // Refused at once, so that at most MOST_LONG run or wait, one of each household.
        let turn = self.0.long.try_take(Some(household), 1).ok_or(NotSearched::Busy)?;
        // Never closed.
        let running = self.0.running.clone().acquire_owned().await;
        let (query, searched) = (query.into_owned(), published.clone());
        let search = move || {
            // They end with the work: a client that leaves must not begin more of it.
            let _until_done = (turn, running);
            Ok::<_, NotSearched>(find(&indexed.index, &searched.dataset, &query)?)
        };
        Ok((blocking(search).await?, published))
    }
}

#[cfg(test)]
mod tests {
    use super::index::tests::dataset;
    use super::*;
    use crate::config::Config;
    use crate::data::snapshot::meta::SnapshotMeta;
    use serde_json::{Value, json};

    fn named(name: &str, count: usize) -> Vec<Value> {
        (0..count).map(|_| json!({"name": name, "lat": 30.0, "lng": -97.0})).collect()
    }

    fn searches() -> (Searches, SnapshotPointer) {
        let current = SnapshotPointer::default();
        (Searches::new(current.clone(), Settings::new(Config::default())), current)
    }

    fn publish(current: &SnapshotPointer, listings: &[Value]) -> Arc<Snapshot> {
        current.swap(Arc::new(dataset(listings)), SnapshotMeta::full(1), 1);
        current.get().unwrap()
    }

    fn client(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[tokio::test]
    async fn until_there_is_an_index_the_snapshot_before_is_searched() {
        let (searches, current) = searches();
        let query = SearchQuery::parse("q=one").unwrap();
        let first = publish(&current, &named("one", 2));
        let found = searches.find(first.clone(), &query, client(1)).await;
        assert!(matches!(found, Err(NotSearched::Unready)));
        searches.follow(first.clone()).await;
        let second = publish(&current, &named("two", 3));
        let (hits, published) = searches.find(second.clone(), &query, client(1)).await.unwrap();
        assert_eq!((hits.total, &published.dataset.id), (2, &first.dataset.id));
        searches.follow(second.clone()).await;
        let (hits, published) = searches.find(second.clone(), &query, client(1)).await.unwrap();
        assert_eq!((hits.total, &published.dataset.id), (0, &second.dataset.id));
    }

    #[tokio::test]
    async fn a_confirmed_snapshot_keeps_its_index_and_answers_as_confirmed() {
        let (searches, current) = searches();
        let query = SearchQuery::parse("q=one").unwrap();
        let first = publish(&current, &named("one", 2));
        searches.follow(first).await;
        let index = searches.0.indexed.load_full().unwrap().index.clone();
        let confirmed = publish(&current, &named("one", 2));
        let (_, published) = searches.find(confirmed.clone(), &query, client(1)).await.unwrap();
        assert!(Arc::ptr_eq(&published, &confirmed));
        searches.follow(confirmed).await;
        assert!(Arc::ptr_eq(&searches.0.indexed.load_full().unwrap().index, &index));
    }

    #[tokio::test]
    async fn a_household_has_one_long_search_at_a_time() {
        let (searches, current) = searches();
        let published = publish(&current, &named("one", 12_000));
        searches.follow(published.clone()).await;
        let long = SearchQuery::parse("near=30,-97&radius=20000").unwrap();
        let under_way = searches.0.long.try_take(Some(client(1)), 1);
        let found = searches.find(published.clone(), &long, client(1)).await;
        assert!(matches!(found, Err(NotSearched::Busy)));
        let short = SearchQuery::parse("q=two").unwrap();
        assert_eq!(searches.find(published.clone(), &short, client(1)).await.unwrap().0.total, 0);
        assert_eq!(searches.find(published.clone(), &long, client(2)).await.unwrap().0.total, 12_000);
        drop(under_way);
        assert_eq!(searches.find(published, &long, client(1)).await.unwrap().0.total, 12_000);
    }

    #[tokio::test]
    async fn a_search_whose_words_are_found_slowly_is_a_long_one() {
        let (searches, current) = searches();
        let letters = (0x4e00..0x9000).filter_map(char::from_u32);
        let mut listings: Vec<Value> = letters.map(|letter| json!({"name": format!("{letter}bcdefg")})).collect();
        listings.push(json!({"name": "abcdefg"}));
        let published = publish(&current, &listings);
        searches.follow(published.clone()).await;
        let query = SearchQuery::parse("q=abcdefg").unwrap();
        let under_way = searches.0.long.try_take(Some(client(1)), 1);
        let found = searches.find(published.clone(), &query, client(1)).await;
        assert!(matches!(found, Err(NotSearched::Busy)), "not on this thread");
        drop(under_way);
        let (hits, _) = searches.find(published, &query, client(1)).await.unwrap();
        assert_eq!(hits.page[0].position as usize, listings.len() - 1);
    }

    #[tokio::test]
    async fn the_index_follows_the_snapshots() {
        let (searches, current) = searches();
        let following = tokio::spawn(searches.clone().run());
        for name in ["one", "two"] {
            let published = publish(&current, &named(name, 2));
            let indexed = || searches.0.indexed.load_full().map(|indexed| indexed.published.dataset.id.clone());
            while indexed().as_ref() != Some(&published.dataset.id) {
                tokio::task::yield_now().await;
            }
        }
        following.abort();
    }
}
