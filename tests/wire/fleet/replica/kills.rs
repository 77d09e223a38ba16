//! kill -9 of a replica at random instants: it always has one of the states that were published, whole, and ends with the
//! last one.
//!
//! `GRANDSTAND_KILLS=100` runs as many rounds.

use std::time::Duration;

use sample_origin::Switches;

use super::{Shelf, all_of, follows, replica_of};
use crate::gap::{is_one_of, mirrored, names};
use crate::harness::{Aim, edit, until};

#[tokio::test]
async fn a_replica_that_is_killed_at_any_instant_has_a_published_state_and_follows_on() {
    let rounds: u32 = std::env::var("GRANDSTAND_KILLS").map_or(12, |rounds| rounds.parse().unwrap());
    let (origin, mirror) = mirrored(130, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
    let mut replica = replica_of(&shelf).set("replica.poll", "100ms").alone().start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    let mut old = all_of(&mirror).await;
    let mut aim = Aim::new(Duration::from_millis(600));
    let (mut befores, mut afters) = (0, 0);
    for round in 0..rounds {
        edit(&origin, &mirror, |world| {
            let ids = world.ids();
            let some = || ids.iter().skip(round as usize % 7).step_by(3).take(60);
            assert!(some().all(|id| world.touch(*id) && world.change_detail(*id)));
            assert!(world.remove(ids[100]));
            world.insert_like(ids[120], &format!("Round {round}")).unwrap();
        })
        .await;
        // Now and then the chain begins anew.
        if round % 4 == 3 {
            shelf.full(&mirror).await;
        } else {
            shelf.delta(&mirror).await;
        }
        let new = all_of(&mirror).await;
        let sequence = shelf.publish();
        tokio::time::sleep(aim.next()).await;
        // Without its store it shows what it has.
        replica.restart_with("replica.url", "file:///nowhere/at/all").await;
        let which = is_one_of(&all_of(&replica).await, &[&old, &new]);
        (befores, afters) = if which == 0 { (befores + 1, afters) } else { (befores, afters + 1) };
        aim.learn(which == 1);
        replica.restart_with("replica.url", &shelf.url()).await;
        follows(&replica, &shelf.snapshot(), sequence).await;
        is_one_of(&all_of(&replica).await, &[&new]);
        let left = until("downloads are tidied", || async {
            let left: Vec<_> = names(&replica.data_dir()).into_iter().filter(|name| name.contains("follow-")).collect();
            left.is_empty().then_some(left)
        });
        assert!(left.await.is_empty());
        old = new;
    }
    eprintln!("{rounds} kills: {befores} before the new state was durable, {afters} after");
}
