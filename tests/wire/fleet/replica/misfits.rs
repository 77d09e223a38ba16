//! Deltas that do not fit: of another base, of another publisher, with a gap before them. Each is what its head names, byte
//! by byte.

use std::fs;

use sample_origin::{Origin, Switches, World};
use serde_json::Value;

use super::{Shelf, all_of, follows, health, polled, replica_of, says};
use crate::gap::{is_one_of, mirrored};
use crate::harness::{Server, edit, wait_until};

/// Changes some listings, and waits until the mirror serves that.
async fn change(origin: &Origin, mirror: &Server, from: usize) {
    edit(origin, mirror, |world: &mut World| {
        let ids = world.ids();
        assert!(ids.iter().skip(from).take(5).all(|id| world.touch(*id)));
    })
    .await;
}

/// A mirror whose shelf has a full bundle and two deltas, without a head.
async fn three_bundles() -> (Origin, Server, Shelf) {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    for round in 0..2 {
        change(&origin, &mirror, round * 20).await;
        shelf.delta(&mirror).await;
    }
    (origin, mirror, shelf)
}

/// A replica that has taken the full bundle of the shelf alone; then the chain is as long as before.
async fn behind(shelf: &mut Shelf) -> (Server, String) {
    let chain = shelf.chain.clone();
    shelf.chain.truncate(1);
    let (old, sequence) = (shelf.snapshot(), shelf.publish());
    let replica = replica_of(shelf).start().await;
    follows(&replica, &old, sequence).await;
    shelf.chain = chain;
    (replica, old)
}

/// Waits until this is the reason, although somebody asks for another try.
async fn insists(replica: &Server, named: &str) {
    wait_until(named, || async {
        replica.refresh().await;
        replica.status().await["replica"]["why"].as_str().is_some_and(|why| why.contains(named))
    })
    .await;
}

/// Publishes the right chain; the replica takes it.
async fn gets_well(replica: &Server, mirror: &Server, shelf: &mut Shelf, chain: Vec<Value>) {
    shelf.chain = chain;
    let sequence = shelf.publish();
    follows(replica, &shelf.snapshot(), sequence).await;
    is_one_of(&all_of(replica).await, &[&all_of(mirror).await]);
    wait_until("nothing is wrong", || async { health(replica).await.1["replica"]["why"].is_null() }).await;
}

#[tokio::test]
async fn a_delta_of_another_base_is_refused_and_what_is_before_it_is_served() {
    let (_origin, mirror, mut shelf) = three_bundles().await;
    let right = shelf.chain.clone();
    let (replica, old) = behind(&mut shelf).await;
    let before = all_of(&replica).await;
    // The second delta in the place of the first one.
    let grafted = shelf.graft(&right[2], &right[0]);
    shelf.chain = vec![right[0].clone(), grafted.clone()];
    shelf.publish();
    let why = says(&replica, "it is a delta of snapshot").await;
    assert!(why.contains(grafted["key"].as_str().unwrap()) && why.contains(&format!("not of {old}")), "{why}");
    polled(&replica, "failed").await;
    is_one_of(&all_of(&replica).await, &[&before]);
    // An empty disk gets the full bundle alone.
    let fresh = replica_of(&shelf).start().await;
    fresh.ready().await;
    assert_eq!(fresh.snapshot().await, old);
    insists(&fresh, "it is a delta of snapshot").await;
    gets_well(&replica, &mirror, &mut shelf, right.clone()).await;
    gets_well(&fresh, &mirror, &mut shelf, right).await;
}

#[tokio::test]
async fn a_delta_of_another_publisher_is_refused() {
    let (_origin, mirror, mut shelf) = three_bundles().await;
    let right = shelf.chain.clone();
    let (other_origin, other_mirror) = mirrored(80, Switches::default()).await;
    let mut other = Shelf::new();
    other.full(&other_mirror).await;
    change(&other_origin, &other_mirror, 0).await;
    other.delta(&other_mirror).await;
    let (replica, _old) = behind(&mut shelf).await;
    let before = all_of(&replica).await;
    fs::copy(other.file(other.key_of(1)), shelf.file("foreign")).unwrap();
    let mut foreign = other.chain[1].clone();
    foreign["key"] = "foreign".into();
    shelf.chain = vec![right[0].clone(), shelf.graft(&foreign, &right[0])];
    shelf.publish();
    says(&replica, "it is a delta of snapshot").await;
    is_one_of(&all_of(&replica).await, &[&before]);
    // The whole chain of another publisher is another matter: without keys, whoever writes the head is believed.
    gets_well(&replica, &mirror, &mut shelf, right).await;
}

#[tokio::test]
async fn a_gap_in_the_chain_is_named_and_what_is_before_it_is_served() {
    let (origin, mirror, mut shelf) = three_bundles().await;
    change(&origin, &mirror, 40).await;
    shelf.delta(&mirror).await;
    let right = shelf.chain.clone();
    let (replica, _old) = behind(&mut shelf).await;
    let gap = shelf.key_of(2).to_owned();
    let good = fs::read(shelf.file(&gap)).unwrap();
    fs::remove_file(shelf.file(&gap)).unwrap();
    let fresh = replica_of(&shelf).start().await;
    shelf.publish();
    let first = right[1]["snapshot"].as_str().unwrap();
    for server in [&replica, &fresh] {
        let why = says(server, "is not in the object store").await;
        assert!(why.contains(&gap) && why.contains("the publisher writes everything again"), "{why}");
        wait_until("the delta before the gap is served", || async { server.snapshot().await == first }).await;
    }
    shelf.put(&gap, &good);
    for server in [&replica, &fresh] {
        insists_no_more(server).await;
        is_one_of(&all_of(server).await, &[&all_of(&mirror).await]);
    }
}

/// Waits until nothing is wrong any more.
async fn insists_no_more(replica: &Server) {
    wait_until("nothing is wrong", || async {
        replica.refresh().await;
        replica.status().await["replica"]["why"].is_null()
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_was_off_for_longer_than_deltas_are_kept_takes_the_full_bundle() {
    let (origin, mirror, mut shelf) = three_bundles().await;
    let sequence = shelf.publish();
    let mut replica = replica_of(&shelf).start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    let old: Vec<String> = (0..3).map(|at| shelf.key_of(at).to_owned()).collect();
    replica.down().await;
    change(&origin, &mirror, 60).await;
    shelf.full(&mirror).await;
    change(&origin, &mirror, 80).await;
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    for key in &old {
        fs::remove_file(shelf.file(key)).unwrap();
    }
    replica.restart().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
}

#[tokio::test]
async fn where_deltas_do_not_fit_the_data_here_the_full_bundle_takes_its_place() {
    let (_origin, mirror, mut shelf) = three_bundles().await;
    let right = shelf.chain.clone();
    let (mut replica, _old) = behind(&mut shelf).await;
    let before = all_of(&replica).await;
    // A head that claims another snapshot for the bundle that the replica has: the second delta fits the head, not the data.
    let mut claimed = right[0].clone();
    claimed["snapshot"] = right[1]["snapshot"].clone();
    claimed["key"] =
        format!("full/{}-{}.gsb", claimed["snapshot"].as_str().unwrap(), &claimed["digest"].as_str().unwrap()[..16])
            .into();
    let grafted = shelf.graft(&right[2], &right[0]);
    let missing = claimed["key"].as_str().unwrap().to_owned();
    shelf.chain = vec![claimed, grafted];
    shelf.publish();
    says(&replica, &format!("{missing} is not in the object store")).await;
    let said = replica.process.said();
    assert!(
        said.contains("the deltas do not follow from the newest snapshot here; fetching the full bundle"),
        "{said}"
    );
    is_one_of(&all_of(&replica).await, &[&before]);
    replica.restart().await;
    is_one_of(&all_of(&replica).await, &[&before]);
    gets_well(&replica, &mirror, &mut shelf, right).await;
}
