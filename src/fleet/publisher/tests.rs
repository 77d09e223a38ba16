//! A publisher over an object store in memory: rounds, restarts and rivals. Whatever the store does, nothing is lost, and as
//! soon as it is honest again it has everything.

pub(in crate::fleet) mod liar;

use std::collections::BTreeSet;

use minisign::KeyPair;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;

use super::*;
use crate::clock::FakeClock;
use crate::fleet::head::{FileHash, Head};
use crate::fleet::keys::ObjectKey;
use crate::fleet::tests::{Machine, Served, clock};

use liar::{L, Liar};

/// A key in a file, and the keys that trust it.
pub(in crate::fleet) struct SignKey {
    dir: tempfile::TempDir,
    pub trusted: TrustedKeys,
}

impl SignKey {
    pub(crate) fn new() -> Self {
        let (dir, pair) = (tempfile::tempdir().unwrap(), KeyPair::generate_unencrypted_keypair().unwrap());
        std::fs::write(dir.path().join("key"), pair.sk.to_box(None).unwrap().to_string()).unwrap();
        Self { dir, trusted: TrustedKeys::parse([pair.pk.to_base64().as_str()]).unwrap() }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("key")
    }

    pub(crate) fn signer(&self) -> Signer {
        Signer::open(&self.path(), || unreachable!("it has no password")).unwrap()
    }
}

/// A publisher and its store.
pub(in crate::fleet) struct Desk {
    pub liar: Arc<Liar>,
    pub machine: Machine,
    pub publisher: Publisher,
    others: TrustedKeys,
    /// The highest number of a head that was ever written.
    highest: u64,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::over(Arc::default(), &clock(), None, TrustedKeys::default()).await
    }

    /// A publisher that signs with a key, and believes the heads of others, too.
    pub(crate) async fn over(liar: Arc<Liar>, hand: &FakeClock, key: Option<&SignKey>, others: TrustedKeys) -> Self {
        Self::of(liar, Machine::new(hand, key), others).await
    }

    async fn of(liar: Arc<Liar>, machine: Machine, others: TrustedKeys) -> Self {
        let mut publisher = Publisher::over(
            BundleStore::over(liar.clone()),
            "s3://bucket",
            &machine.config,
            others.clone(),
            machine.snapshots.clone(),
            machine.details.clone(),
            machine.hand.clock(),
            PublishStatus::default(),
        );
        publisher.prepare().await.unwrap();
        Self { liar, machine, publisher, others, highest: 0 }
    }

    pub(crate) async fn restarted(self) -> Self {
        let Self { liar, machine, publisher, others, highest } = self;
        drop(publisher);
        Self { highest, ..Self::of(liar, machine.restarted(), others).await }
    }

    /// Some rounds, each with a check of all objects; returns everything that was said.
    pub(crate) async fn rounds(&mut self) -> BTreeSet<String> {
        let mut said = BTreeSet::new();
        for _ in 0..4 {
            self.publisher.checks.at = None;
            if let Err(error) = self.publisher.round().await {
                said.insert(error.to_string());
            }
            while self.publisher.checks.read_back.is_reading() {
                tokio::task::yield_now().await;
            }
            said.extend(self.publisher.status.lock().findings().into_iter().map(|finding| finding.text));
            if let Some(head) = self.head().await {
                assert!(head.sequence >= self.highest, "heads go back: {} after {}", head.sequence, self.highest);
                self.highest = head.sequence;
            }
        }
        said
    }

    /// Some rounds after which the store has everything, and nothing is wrong.
    pub(crate) async fn publishes(&mut self) -> Head {
        assert_eq!(self.rounds().await, BTreeSet::new());
        assert!(self.is_whole().await);
        self.head().await.unwrap()
    }

    pub(crate) async fn read(&self, key: &ObjectKey) -> Option<Bytes> {
        self.liar.store.get(&Path::from(key.to_string())).await.ok()?.bytes().await.ok()
    }

    /// `None`: removes it.
    pub(crate) async fn put(&self, key: &ObjectKey, bytes: Option<&[u8]>) {
        let path = Path::from(key.to_string());
        match bytes {
            Some(bytes) => drop(self.liar.store.put(&path, bytes.to_vec().into()).await.unwrap()),
            None => self.liar.store.delete(&path).await.unwrap(),
        }
    }

    /// The head that really lies there.
    pub(crate) async fn head(&self) -> Option<Head> {
        Head::read_unverified(&self.read(&ObjectKey::Head).await?).ok()
    }

    /// Whether the store has all that should lie there.
    pub(crate) async fn is_whole(&self) -> bool {
        let Some(chain) = &self.publisher.chain else { return false };
        let served = self.publisher.snapshots.current().get().unwrap();
        if self.head().await.as_ref() != Some(&chain.head) || chain.head.snapshot != served.dataset.id {
            return false;
        }
        for (key, file) in chain.objects() {
            if self.read(&key).await.map(|bytes| FileHash::of(&bytes)) != Some(file) {
                return false;
            }
        }
        true
    }

    pub(crate) fn served(&self) -> Served {
        self.machine.served().unwrap()
    }
}

#[tokio::test]
async fn whatever_an_object_store_does_is_noticed_and_mended_once_it_is_honest() {
    const ALTERED: &str = "missing or altered";
    const UNKEPT: &str = "keeps old answers";
    for (lie, told) in [
        (L::LosesHeads, UNKEPT),
        (L::LosesBundles, ALTERED),
        (L::AltersBundles, ALTERED),
        (L::CutsBundles, ALTERED),
        (L::AltersJournals, ALTERED),
        (L::CutsHeads, UNKEPT),
        (L::WritesAndFails, "it fails"),
        (L::WritesFail, "it fails"),
        (L::IgnoresConditions, ""),
        (L::HasNoConditions, ""),
        (L::ShowsOldHeads, UNKEPT),
        (L::HidesHeads, UNKEPT),
        (L::ReadsFail, "it fails"),
        (L::ListsNothing, ""),
        (L::ListsFail, "it fails"),
        (L::RemovesNothing, ""),
    ] {
        for is_first in [true, false] {
            let mut desk = Desk::new().await;
            desk.machine.serve([1, 2]);
            if !is_first {
                desk.rounds().await;
                assert!(desk.is_whole().await, "{lie:?}");
                desk.machine.serve([1, 2, 3]);
            }
            *desk.liar.lie.lock() = Some(lie);
            let mut said = desk.rounds().await;
            desk.machine.serve([2, 5]);
            said.extend(desk.rounds().await);
            assert!(told.is_empty() || said.iter().any(|text| text.contains(told)), "{lie:?}: {said:?}");
            *desk.liar.lie.lock() = None;
            desk.rounds().await;
            assert!(desk.is_whole().await, "{lie:?} {is_first}");
            desk.machine.serve([1, 4]);
            let said = desk.rounds().await;
            assert!(desk.is_whole().await, "{lie:?} {is_first}, later");
            // It is looked at at the start: what confirms any write ignores its condition.
            let is_unconditional = is_first && matches!(lie, L::LosesHeads | L::IgnoresConditions | L::HasNoConditions);
            let expected: &[&str] =
                if is_unconditional { &["s3://bucket ignores the conditions of writes"] } else { &[] };
            assert_eq!(said.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{lie:?} {is_first}");
        }
    }
}

#[tokio::test]
async fn details_that_replicas_wait_for_go_out_after_seconds_others_after_a_minute_and_a_full_bundle_after_a_week() {
    let mut desk = Desk::new().await;
    desk.machine.serve(1..=1000);
    let full = desk.publishes().await.full;
    // The first publication changed no listing; the second one adds one.
    for (ids, detail, early, rest, deltas) in [(1000, 7, 59, 1, 1), (1001, 7, 59, 1, 3), (1001, 1001, 2, 1, 4)] {
        if desk.machine.snapshots.newest().get().unwrap().dataset.len() < ids {
            desk.machine.serve(1..=ids as u64);
            desk.publishes().await;
        }
        desk.machine.detail(detail, &format!("{{\"at\":{deltas}}}"));
        let before = desk.head().await.unwrap();
        desk.machine.wait(early);
        desk.publisher.catch_up().await.unwrap();
        assert!(desk.head().await.as_ref() == Some(&before) && !desk.publisher.is_due(), "{ids} {detail}");
        desk.machine.wait(rest);
        assert!(desk.publisher.is_due(), "{ids} {detail}");
        desk.publisher.catch_up().await.unwrap();
        let after = desk.head().await.unwrap();
        assert_eq!((after.deltas.len(), &after.snapshot, &after.full), (deltas, &before.snapshot, &full));
        assert!(!desk.publisher.is_due(), "once");
    }
    desk.machine.wait(7 * 86_400);
    assert!(desk.publisher.is_due());
    let next = desk.publishes().await;
    assert!(next.deltas.is_empty() && next.sequence > desk.publisher.clock.now_wall().as_millis().unsigned_abs());
    assert_eq!(desk.publisher.status.lock().written[0], 2, "full bundles");
}

#[tokio::test]
async fn of_two_publishers_the_later_one_wins_until_it_is_silent_or_the_other_one_restarts() {
    let ((key, other), hand) = ((SignKey::new(), SignKey::new()), clock());
    for signs in [false, true] {
        let (liar, key, other) = (Arc::<Liar>::default(), Some(&key).filter(|_| signs), Some(&other).filter(|_| signs));
        let trusted = |key: Option<&SignKey>| key.map(|key| key.trusted.clone()).unwrap_or_default();
        let mut one = Desk::over(liar.clone(), &hand, key, trusted(other)).await;
        let mut two = Desk::over(liar, &hand, other, trusted(key)).await;
        one.machine.serve(1..=3);
        two.machine.serve(1..=4);
        one.publishes().await;
        let of_two = two.publishes().await;
        for _ in 0..2 {
            let said = one.rounds().await;
            assert!(said.iter().all(|text| text.contains("another publisher writes to s3://bucket")), "{said:?}");
            assert!(said.len() == 1 && one.head().await.as_ref() == Some(&of_two));
            one.machine.serve(1..=5);
        }
        let mut one = one.restarted().await;
        one.publishes().await;
        assert_eq!(two.rounds().await.len(), 1, "now the other one has lost");
        one.machine.wait(599);
        assert_eq!(two.rounds().await.len(), 1);
        // As long as the winner writes, its rival waits.
        one.machine.serve(1..=6);
        let of_one = one.publishes().await;
        one.machine.wait(599);
        assert!(two.rounds().await.len() == 1 && two.head().await == Some(of_one));
        one.machine.wait(1);
        two.publishes().await;
        assert_eq!(one.rounds().await.len(), 1);
    }
}
