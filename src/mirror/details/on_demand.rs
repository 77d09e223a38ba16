//! Details on demand: one that clients wait for is fetched once for all of them, and not retried for a while after a
//! failure.
//!
//! Callers: [`crate::edge::answer`].

use std::sync::Arc;
use std::time::Duration;

use crate::api::listing::{ListingId, Summary};
use crate::api::taxonomy::VolatileKeys;
use crate::data::cache::Key;
use crate::data::details::Details;
use crate::data::store::DetailRecord;
use crate::mirror::copies::CopyError;
use crate::origin::budget::Spent;
use crate::origin::client::{AskError, Asker, OriginClient};
use crate::origin::health::Failures;
use crate::tasks::single_flight::{Role, SingleFlight};

/// Details that clients wait for; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct OnDemand(Arc<OnDemandState>);

#[derive(Default)]
struct OnDemandState {
    flights: SingleFlight<ListingId, Result<DetailRecord, Arc<CopyError>>>,
    /// Recent fetches for clients that failed.
    failures: Failures,
}

impl OnDemand {
    /// Fetches a detail once for all waiting clients; `true` if another client's request fetched it. A client that
    /// leaves does not end the fetch.
    pub(crate) async fn fetch(
        &self,
        details: &Details,
        client: &OriginClient,
        volatile: &VolatileKeys,
        summary: &Summary,
        asker: Asker,
    ) -> Result<(DetailRecord, bool), Arc<CopyError>> {
        let key = Key::Detail(summary.id);
        let now = client.now_mono();
        if let Some(error) = self.0.failures.resting(&key, now) {
            return Err(Arc::new(error.into()));
        }
        let deadline = asker.patience.map(|patience| now.plus(patience));
        loop {
            let left = deadline.map(|deadline| deadline.since(client.now_mono()));
            let (landed, joined) = match self.0.flights.join(&summary.id) {
                Role::Waiter(waiter) => {
                    // It may wait longer for its slot than this client; on the wire it needs the full timeout.
                    let bound = left.map(|left| left.saturating_add(client.config().timeout));
                    let landed = tokio::time::timeout(bound.unwrap_or(Duration::MAX), waiter.landed()).await;
                    (landed.ok().flatten(), true)
                }
                Role::Leader(leader, waiter) => {
                    let (this, details, client, key) = (self.clone(), details.clone(), client.clone(), key.clone());
                    let (volatile, summary) = (volatile.clone(), summary.clone());
                    let asker = Asker { patience: left, ..asker.clone() };
                    tokio::spawn(async move {
                        // An earlier flight may have landed since the caller looked.
                        let here = details.read(summary.id).await.ok().flatten();
                        let fetched = match here {
                            Some(record) => Ok(record),
                            None => details.fetch(&client, &volatile, &summary, asker).await.map_err(Arc::new),
                        };
                        match fetched.as_ref().map_err(|error| &**error) {
                            Ok(_) => this.0.failures.answered(&key),
                            Err(CopyError::Ask(error)) => {
                                this.0.failures.failed(&key, error, client.now_mono());
                            }
                            Err(CopyError::Store(_)) => {}
                        }
                        leader.end(fetched);
                    });
                    (waiter.landed().await, false)
                }
            };
            let lost = || Arc::new(CopyError::from(AskError::from(Spent::soon())));
            match landed.unwrap_or_else(|| Err(lost())) {
                // The client that began the fetch got no slot, or gave up earlier: that says nothing about this one,
                // which is judged by its own place in the queue and its own patience.
                Err(error) if joined && matches!(*error, CopyError::Ask(AskError::Spent(_))) => {
                    let left = deadline.map(|deadline| deadline.since(client.now_mono()));
                    let is_over = left.is_some_and(|left| left.is_zero());
                    if (is_over || !self.0.flights.is_running(&summary.id))
                        && let Some(spent) = client.budget().judge(asker.client, left)
                    {
                        return Err(Arc::new(AskError::from(spent).into()));
                    }
                }
                other => return other.map(|record| (record, joined)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::net::TcpListener;

    use super::*;
    use crate::api::hash::ContentHash;
    use crate::clock::Clock;
    use crate::config::Proxy;
    use crate::data::cache::Cache;
    use crate::data::snapshot::pointer::SnapshotPointer;
    use crate::data::store::{DataDir, Store};
    use crate::origin::budget::Budget;
    use crate::origin::client::ClientConfig;
    use crate::origin::status::OriginStatus;
    use crate::origin::window::Class;
    use crate::origin::wire::Wire;

    /// An origin that closes each connection after its request, and how often it was asked.
    async fn failing() -> (OnDemand, Details, OriginClient, Budget, Arc<AtomicUsize>, tempfile::TempDir) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let asked = Arc::<AtomicUsize>::default();
        let counter = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.readable().await;
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
        let details = Details::open(store, Cache::new(1 << 20), SnapshotPointer::default()).unwrap();
        let budget = Budget::open(None, None, Clock::system());
        let second = Duration::from_secs(1);
        let config = ClientConfig { base, timeout: 5 * second, max_body: 1 << 20, longest_pause: second };
        let wire = Arc::new(Wire::new(config.timeout, "test", None, Proxy::default()).unwrap());
        let client = OriginClient::over(wire, config, budget.clone(), OriginStatus::default(), Clock::system());
        (OnDemand::default(), details, client, budget, asked, dir)
    }

    fn summary() -> Summary {
        let raw = bytes::Bytes::from_static(br#"{"id":1}"#);
        Summary { id: ListingId(1), hash: ContentHash::of(&raw), raw }
    }

    fn asker(patience: Duration) -> Asker {
        Asker::client(None, patience)
    }

    #[tokio::test]
    async fn a_detail_that_keeps_failing_is_not_asked_for_by_every_client() {
        let (on_demand, details, client, _budget, asked, _dir) = failing().await;
        for _ in 0..20 {
            let patience = asker(Duration::from_secs(5));
            let outcome = on_demand.fetch(&details, &client, &VolatileKeys::default(), &summary(), patience).await;
            assert!(matches!(*outcome.unwrap_err(), CopyError::Ask(AskError::Connection { .. })));
        }
        let asked = asked.load(Ordering::SeqCst);
        assert!((1..=3).contains(&asked), "{asked}");
    }

    #[tokio::test]
    async fn whoever_joins_has_a_patience_of_their_own() {
        let (on_demand, details, client, budget, asked, _dir) = failing().await;
        budget.try_gently(Some(Duration::from_secs(1)));
        let _hanging = budget.acquire(Class::Client, None, None).await.unwrap();
        let (summary, volatile) = (summary(), VolatileKeys::default());
        let first = on_demand.fetch(&details, &client, &volatile, &summary, asker(Duration::from_millis(200)));
        let second = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            on_demand.fetch(&details, &client, &volatile, &summary, asker(Duration::from_secs(5))).await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(matches!(*first.unwrap_err(), CopyError::Ask(AskError::Spent(_))));
        let second = second.unwrap_err();
        assert!(matches!(*second, CopyError::Ask(AskError::Connection { .. })), "it was asked: {second}");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn no_client_is_refused_because_those_that_asked_before_it_have_no_place() {
        let (on_demand, details, client, budget, asked, _dir) = failing().await;
        budget.try_gently(Some(Duration::from_secs(3600)));
        let hanging = budget.acquire(Class::Client, None, None).await.unwrap();
        let household = |last| Some(IpAddr::from([10, 0, 0, last]));
        let waiting = async |many| {
            let full = async {
                while budget.view().waiting != many {
                    tokio::task::yield_now().await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(20), full).await;
            assert_eq!(budget.view().waiting, many);
        };
        for _ in 0..256 {
            let budget = budget.clone();
            tokio::spawn(async move { budget.acquire(Class::Client, household(1), None).await.map(drop) });
        }
        waiting(256).await;
        let (summary, volatile) = (summary(), VolatileKeys::default());
        let ask = |last| {
            let asker = Asker { patience: None, ..Asker::client(household(last), Duration::ZERO) };
            on_demand.fetch(&details, &client, &volatile, &summary, asker)
        };
        let crowd = join_all([1, 1, 1, 1, 1, 2].map(ask));
        let (mut answers, ()) = tokio::join!(crowd, async {
            waiting(257).await;
            drop(hanging);
        });
        let other = answers.pop().unwrap().unwrap_err();
        assert!(matches!(*other, CopyError::Ask(AskError::Connection { .. })), "it was asked: {other}");
        let refused = |answer: &Result<_, Arc<CopyError>>| {
            answer.as_ref().is_err_and(|error| matches!(**error, CopyError::Ask(AskError::Spent(_))))
        };
        assert!(answers.iter().any(refused), "the first one has no place");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "once for all that are left");
    }
}
