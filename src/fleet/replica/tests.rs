//! Replicas of a publisher over an object store in memory: what they take, and what they refuse. In each row the store has
//! something wrong; then it, or the publisher, puts that right, and every replica has everything.

use super::*;
use crate::fleet::head::{FileHash, NamedBundle};
use crate::fleet::publisher::tests::liar::{L, Liar};
use crate::fleet::publisher::tests::{Desk, SignKey};
use crate::fleet::tests::{Machine, ORIGIN, Served, clock};

struct Replica {
    machine: Machine,
    follower: Follower,
}

impl Replica {
    fn of(desk: &Desk, trusted: &TrustedKeys) -> Self {
        Self::on(Machine::new(&desk.machine.hand, None), desk.liar.clone(), trusted)
    }

    fn on(machine: Machine, liar: Arc<Liar>, trusted: &TrustedKeys) -> Self {
        let follower = Follower {
            store: BundleStore::over(liar),
            data_dir: machine.path(),
            snapshots: machine.snapshots.clone(),
            details: machine.details.clone(),
            trusted: trusted.clone(),
            clock: machine.hand.clock(),
            status: ReplicaStatus::default(),
            commands: Commands::default(),
            state: FollowState::default(),
        };
        Self { machine, follower }
    }

    fn restarted(self, desk: &Desk) -> Self {
        let Self { machine, follower } = self;
        let trusted = follower.trusted.clone();
        drop(follower);
        Self::on(machine.restarted(), desk.liar.clone(), &trusted)
    }

    /// Polls; why that fails.
    async fn polls(&mut self) -> Option<FollowError> {
        self.follower.round().await.err()
    }

    async fn says(&mut self) -> String {
        self.polls().await.map(|error| error.to_string()).unwrap_or_default()
    }

    /// Polls, and has everything that the publisher serves.
    async fn follows(&mut self, desk: &Desk) {
        assert_eq!(self.says().await, "");
        assert_eq!(self.machine.served().unwrap(), desk.served());
        assert_eq!(self.machine.journal(), desk.machine.journal());
        let head = desk.head().await.unwrap();
        let stand = self.follower.snapshots.stand().unwrap();
        assert_eq!((stand.taken.sequence, stand.digest), (head.sequence, Some(head.end().digest.to_string())));
        let names = std::fs::read_dir(self.machine.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(
            names.into_iter().all(|name| !name.to_string_lossy().contains("follow-")),
            "nothing unfinished is left"
        );
    }
}

fn nobody() -> TrustedKeys {
    TrustedKeys::default()
}

/// A store with a full bundle and two deltas, its heads so far and what was served with each, a replica that has taken
/// the first one, and a replica with an empty disk.
struct Fleet {
    desk: Desk,
    heads: Vec<Head>,
    served: Vec<Served>,
    behind: Replica,
    empty: Replica,
}

impl Fleet {
    async fn new() -> Self {
        let mut desk = Desk::new().await;
        let (mut heads, mut served) = (Vec::new(), Vec::new());
        let (mut behind, empty) = (Replica::of(&desk, &nobody()), Replica::of(&desk, &nobody()));
        for last in 1000..1003 {
            desk.machine.serve(1..=last);
            desk.machine.detail(last, &format!("{{\"last\":{last}}}"));
            heads.push(desk.publishes().await);
            served.push(desk.served());
            if last == 1000 {
                behind.follows(&desk).await;
            }
        }
        assert_eq!((heads[2].deltas.len(), &heads[2].full), (2, &heads[0].full));
        Self { desk, heads, served, behind, empty }
    }

    /// The bundle at this place of the chain.
    fn named(&self, at: usize) -> &NamedBundle {
        self.heads[2].chain().nth(at).unwrap()
    }

    async fn bytes(&self, at: usize) -> Vec<u8> {
        self.desk.read(&self.named(at).key()).await.unwrap().to_vec()
    }

    async fn put_head(&self, head: &Head) {
        self.desk.put(&ObjectKey::Head, Some(&head.to_file(None).unwrap())).await;
    }

    /// All replicas follow, after the pause for bad objects.
    async fn gets_well(&mut self) {
        self.desk.machine.wait(1300);
        for replica in [&mut self.behind, &mut self.empty, &mut Replica::of(&self.desk, &nobody())] {
            replica.follows(&self.desk).await;
        }
    }
}

#[tokio::test]
async fn an_object_that_is_not_the_named_one_changes_nothing_until_it_or_a_new_chain_is_there() {
    type Harm = fn(good: &[u8], full: &[u8]) -> Option<Vec<u8>>;
    let harms: [(Harm, &str); 6] = [
        (
            |good, _| Some(good.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == good.len() / 2)).collect()),
            "is not what the head names",
        ),
        (|good, _| Some(good[..good.len() / 2].to_vec()), "bytes, not"),
        (|good, _| Some([good, &b"x"[..]].concat()), "bytes, not"),
        (|_, full| Some(full.to_vec()), "bytes, not"),
        (|good, _| Some(vec![0; good.len()]), "is not what the head names: not a bundle"),
        (|_, _| None, "is not in the object store; the publisher writes everything again"),
    ];
    for (nth, (harm, said)) in harms.into_iter().enumerate() {
        for at in 0..=2 {
            if nth == 3 && at == 0 {
                continue;
            }
            let mut fleet = Fleet::new().await;
            let (key, good) = (fleet.named(at).key(), fleet.bytes(at).await);
            let harmed = harm(&good, &fleet.bytes(0).await);
            fleet.desk.put(&key, harmed.as_deref()).await;
            // The bundles before it are taken, where they are no step back.
            let before = at.checked_sub(1).map(|before| fleet.served[before].clone());
            for replica in [&mut fleet.behind, &mut fleet.empty] {
                let stands = replica.machine.served();
                if at == 0 && stands.is_some() {
                    continue;
                }
                for _ in 0..2 {
                    let why = replica.says().await;
                    assert!(why.contains(said) && why.contains(&key.to_string()), "{why}");
                    assert_eq!(replica.machine.served(), before.clone().or_else(|| stands.clone()), "{said} {at}");
                }
                let reads = || fleet.desk.liar.read.lock().iter().filter(|read| **read == key.to_string()).count();
                let before = reads();
                assert!(!replica.says().await.is_empty());
                assert_eq!(reads(), before, "not fetched again at once");
                assert!(
                    replica.follower.snapshots.stand().unwrap().taken.sequence < fleet.heads[2].sequence,
                    "not taken"
                );
            }
            fleet.desk.put(&key, Some(&good)).await;
            fleet.gets_well().await;
            // The publisher reads its objects back.
            fleet.desk.put(&key, harmed.as_deref()).await;
            let mut desk = fleet.desk.restarted().await;
            let told = desk.rounds().await;
            assert!(
                told.iter().any(|text| text.contains(&format!("the object {key} was missing or altered"))),
                "{told:?}"
            );
            assert!(desk.publishes().await.deltas.is_empty(), "everything is written again");
            fleet.desk = desk;
            fleet.gets_well().await;
        }
    }
}

/// The bundle `named` of a store as if it had another base, another digest or another snapshot, under the name that it then
/// has.
async fn graft(fleet: &Fleet, from: &Desk, named: &NamedBundle, change: impl FnOnce(&mut NamedBundle)) -> NamedBundle {
    let bytes = from.read(&named.key()).await.unwrap();
    let mut other = named.clone();
    change(&mut other);
    let grafted = NamedBundle::new(other.base, other.digest, other.snapshot, FileHash::of(&bytes));
    fleet.desk.put(&grafted.key(), Some(&bytes)).await;
    grafted
}

#[tokio::test]
async fn a_bundle_that_does_not_fit_its_place_in_the_chain_is_refused_and_what_is_before_it_is_served() {
    let mut foreign = Desk::new().await;
    foreign.machine.serve(2000..=3000);
    foreign.publishes().await;
    foreign.machine.serve(2000..=3001);
    let theirs = foreign.publishes().await;
    for (row, said) in [
        ("the second delta in the place of the first one", "it is a delta of snapshot"),
        ("a delta of another publisher", "it is a delta of snapshot"),
        ("a full bundle as a delta", "it is a full bundle, not a delta"),
        ("a delta as the full bundle", "it is a delta, not a full bundle"),
        ("another digest", "its digest is"),
        ("another snapshot", "its snapshot is"),
        ("too large", "has 4294967297 bytes; a bundle may have 4294967296"),
    ] {
        let mut fleet = Fleet::new().await;
        let [full, first, second] = [0, 1, 2].map(|at| fleet.named(at).clone());
        let after_full = |named: &mut NamedBundle| named.base = Some(full.digest);
        let (begin, delta) = match row {
            "the second delta in the place of the first one" => {
                (full.clone(), Some(graft(&fleet, &fleet.desk, &second, after_full).await))
            }
            "a delta of another publisher" => {
                (full.clone(), Some(graft(&fleet, &foreign, theirs.end(), after_full).await))
            }
            "a full bundle as a delta" => (full.clone(), Some(graft(&fleet, &foreign, &theirs.full, after_full).await)),
            "a delta as the full bundle" => (graft(&fleet, &fleet.desk, &first, |named| named.base = None).await, None),
            "another digest" => (graft(&fleet, &fleet.desk, &full, |named| named.digest = second.digest).await, None),
            "another snapshot" => {
                let claims = |named: &mut NamedBundle| named.snapshot = full.snapshot.clone();
                (graft(&fleet, &foreign, &theirs.full, claims).await, None)
            }
            _ => {
                let file = FileHash { bytes: (4 << 30) + 1, blake3: full.blake3 };
                (NamedBundle::new(None, second.digest, full.snapshot.clone(), file), None)
            }
        };
        let deltas: Vec<NamedBundle> = delta.into_iter().collect();
        let snapshot = deltas.last().unwrap_or(&begin).snapshot.clone();
        let of_empty = (!deltas.is_empty()).then(|| fleet.served[0].clone());
        let head =
            Head { sequence: fleet.heads[2].sequence + 1, snapshot, full: begin, deltas, ..fleet.heads[2].clone() };
        fleet.put_head(&head).await;
        for (replica, has) in [(&mut fleet.behind, Some(fleet.served[0].clone())), (&mut fleet.empty, of_empty)] {
            let why = replica.says().await;
            assert!(why.contains(said) && why.contains(&head.end().key().to_string()), "{row}: {why}");
            assert_eq!(replica.machine.served(), has, "{row}");
        }
        fleet.put_head(&Head { sequence: head.sequence + 1, ..fleet.heads[2].clone() }).await;
        fleet.gets_well().await;
    }
}

#[tokio::test]
async fn bundles_that_are_small_files_and_much_memory_are_taken_one_after_the_other() {
    let mut desk = Desk::new().await;
    desk.machine.serve(1..=1000);
    desk.publishes().await;
    let mut served = Vec::new();
    for last in [1001, 1002] {
        // A delta carries the listings that are new or changed: 20 MB each time.
        desk.machine.serve_long((1..=1000).chain([last]), 20_000_000, ORIGIN);
        desk.publishes().await;
        served.push(desk.served());
    }
    assert_eq!(desk.head().await.unwrap().deltas.len(), 2);
    let mut replica = Replica::of(&desk, &nobody());
    let why = replica.says().await;
    assert!(why.contains("bytes of memory together"), "{why}");
    assert_eq!(replica.machine.served().as_ref(), served.first());
    desk.machine.wait(3);
    replica.follows(&desk).await;
}

#[tokio::test]
async fn where_deltas_do_not_fit_the_data_here_the_full_bundle_takes_its_place() {
    for is_there in [false, true] {
        let mut fleet = Fleet::new().await;
        let [full, first, second] = [0, 1, 2].map(|at| fleet.named(at).clone());
        // A head that claims another snapshot for the bundle that the replica has: the delta fits the head, not the data.
        let claimed = NamedBundle::new(
            None,
            full.digest,
            first.snapshot.clone(),
            FileHash { bytes: full.bytes, blake3: full.blake3 },
        );
        if is_there {
            graft(&fleet, &fleet.desk, &full, |named| named.snapshot = first.snapshot.clone()).await;
        }
        let delta = graft(&fleet, &fleet.desk, &second, |named| named.base = Some(full.digest)).await;
        let sequence = fleet.heads[2].sequence + 1;
        fleet.put_head(&Head { sequence, full: claimed.clone(), deltas: vec![delta], ..fleet.heads[2].clone() }).await;
        let why = fleet.behind.says().await;
        let said = if is_there { "its snapshot is" } else { "is not in the object store" };
        assert!(why.contains(said) && why.contains(&claimed.key().to_string()), "{why}");
        let fleet_behind = fleet.behind.restarted(&fleet.desk);
        assert_eq!(fleet_behind.machine.served().as_ref(), Some(&fleet.served[0]));
        assert_eq!(
            fleet_behind.follower.snapshots.stand().unwrap().digest,
            None,
            "nothing builds on this data any more"
        );
        fleet.behind = fleet_behind;
        fleet.put_head(&Head { sequence: sequence + 1, ..fleet.heads[2].clone() }).await;
        fleet.gets_well().await;
    }
}

#[tokio::test]
async fn a_head_that_must_not_be_taken_changes_nothing_and_the_publisher_replaces_it() {
    const HIGHEST: u64 = (1 << 53) - 2;
    let (key, other) = (SignKey::new(), SignKey::new());
    let outer = |text: &str, signature: serde_json::Value| {
        serde_json::json!({ "head": text, "signature": signature }).to_string()
    };
    for signs in [false, true] {
        let own = Some(&key).filter(|_| signs);
        let trusted = own.map_or_else(nobody, |key| key.trusted.clone());
        let mut desk = Desk::over(Arc::default(), &clock(), own, nobody()).await;
        desk.machine.serve(1..=1000);
        desk.publishes().await;
        let old = desk.read(&ObjectKey::Head).await.unwrap();
        desk.machine.serve(1..=1001);
        let mut replica = Replica::of(&desk, &trusted);
        desk.publishes().await;
        replica.follows(&desk).await;
        let unsigned = |said: &'static str| if signs { "the head is not signed" } else { said };
        for row in 0..11 {
            let file = desk.read(&ObjectKey::Head).await.unwrap();
            let head = desk.head().await.unwrap();
            let read: serde_json::Value = serde_json::from_slice(&file).unwrap();
            let numbered = |sequence| Head { sequence, ..head.clone() }.to_file(None).unwrap();
            let (forged, said) = match row {
                0 => (None, "there is no head.json in the object store"),
                1 => (Some(b"<html>".to_vec()), "the head cannot be read"),
                2 => (Some(vec![b' '; 300_000]), "has more than"),
                // Two writers in place leave one head with the end of a longer one behind it.
                3 => (Some([&file[..], &file[file.len() - 20..]].concat()), "the head cannot be read"),
                4 => (Some(old.to_vec()), "which is older than head"),
                5 => (Some(numbered(HIGHEST)), unsigned("more than a day ahead of this machine's clock")),
                6 => (Some(outer("{\"format\":2}", serde_json::Value::Null).into_bytes()), unsigned("format 2")),
                7 => (
                    Some(
                        outer(&head.text().replace("\"full\",", "\"incremental\","), read["signature"].clone())
                            .into_bytes(),
                    ),
                    if signs { "was altered" } else { "differs from the head" },
                ),
                8 if signs => (Some(numbered(head.sequence)), "the head is not signed"),
                9 if signs => (Some(numbered(head.sequence + 1000)), "the head is not signed"),
                10 if signs => (
                    Some(Head { sequence: head.sequence + 9, ..head.clone() }.to_file(Some(&other.signer())).unwrap()),
                    "which is not trusted",
                ),
                _ => continue,
            };
            desk.put(&ObjectKey::Head, forged.as_deref()).await;
            let error = replica.polls().await.unwrap();
            assert!(error.to_string().contains(said), "{row} {signs}: {error}");
            assert_eq!(error.outcome() == PollOutcome::Refused, ![0, 2].contains(&row), "{row} {signs}");
            let is_signature = error.finding().kind == crate::telemetry::findings::Kind::SignatureRefused;
            assert_eq!(is_signature, signs && row >= 5, "{row} {signs}");
            assert_eq!(replica.machine.served().unwrap(), desk.served(), "{row} {signs}");
            let stays = match row {
                // A newer program writes there, or another publisher.
                6 if !signs => Some("format 2"),
                7 if !signs => Some("another publisher"),
                _ => None,
            };
            let told = desk.rounds().await;
            if let Some(named) = stays {
                assert_eq!(desk.read(&ObjectKey::Head).await.as_deref(), forged.as_deref(), "{row}");
                assert!(told.iter().any(|text| text.contains(named)), "{told:?}");
                desk.put(&ObjectKey::Head, Some(&file)).await;
                desk = desk.restarted().await;
            }
            desk.publishes().await;
            let after = desk.head().await.unwrap();
            let is_later = after.sequence > head.sequence && after.sequence < HIGHEST / 2;
            assert!(is_later || stays.is_some(), "{row} {signs}");
            if row != 0 {
                assert_eq!(after.full, head.full, "the chain goes on");
            }
            replica.follows(&desk).await;
        }
    }
}

#[tokio::test]
async fn a_replica_that_was_off_for_longer_than_deltas_are_kept_takes_the_full_bundle() {
    let mut fleet = Fleet::new().await;
    fleet.desk.machine.wait(8 * 86_400);
    fleet.desk.machine.serve(1..=1010);
    let after = fleet.desk.publishes().await;
    assert!(after.deltas.is_empty());
    for named in fleet.heads[2].chain() {
        fleet.desk.put(&named.key(), None).await;
    }
    fleet.gets_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_mirror_begins_with_what_the_store_has_for_it_and_with_nothing_else() {
    for (row, takes) in [
        ("all", Some(2)),
        ("the last delta is lost", Some(1)),
        ("the full bundle is lost", None),
        ("another origin", None),
        ("no head", None),
    ] {
        let fleet = Fleet::new().await;
        match row {
            "the last delta is lost" => fleet.desk.put(&fleet.named(2).key(), None).await,
            "the full bundle is lost" => fleet.desk.put(&fleet.named(0).key(), None).await,
            "no head" => fleet.desk.put(&ObjectKey::Head, None).await,
            _ => {}
        }
        let mut desk = fleet.desk;
        if row == "another origin" {
            desk = Desk::new().await;
            desk.machine.serve_from(1..=1000, &ORIGIN.replace("origin", "other"));
            desk.publishes().await;
        }
        let Replica { machine, follower } = Replica::of(&desk, &nobody());
        follower.seed().await;
        assert_eq!(
            machine.served().map(|served| served.snapshot),
            takes.map(|at: usize| fleet.served[at].snapshot.clone()),
            "{row}"
        );
        let stand = machine.snapshots.stand().unwrap();
        assert_eq!((stand.taken.sequence, stand.digest), (0, None), "a mirror does not follow");
    }
}

/// A request to refresh interrupts a download that does not end, and the next one goes on where it was.
#[tokio::test]
async fn a_download_that_stops_holds_no_refresh_and_goes_on() {
    let Fleet { desk, mut empty, heads, .. } = Fleet::new().await;
    *desk.liar.lie.lock() = Some(L::Stops);
    let (commands, status) = (empty.follower.commands.clone(), empty.follower.status.clone());
    let (said, ()) = tokio::join!(empty.follower.bundle(&heads[2].full, None, "the full bundle"), async {
        while status.lock().received == 0 {
            tokio::task::yield_now().await;
        }
        commands.refresh();
    });
    assert!(matches!(said, Err(FollowError::Interrupted)));
    assert!(empty.follower.status.lock().not_ready().contains("the full bundle: 1 of"), "its progress is told");
    *desk.liar.lie.lock() = None;
    let part = empty.machine.path().join(format!("follow-{}.part", heads[2].full.blake3));
    assert_eq!(std::fs::metadata(&part).unwrap().len(), 1);
    // Its first byte is wrong, and it was not fetched again.
    assert!(empty.says().await.contains("is not what the head names"));
    desk.machine.wait(1300);
    empty.follows(&desk).await;
}
