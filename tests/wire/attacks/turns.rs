//! One client asks for much that takes long to make: others have their turn.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::Notify;

use crate::client::Reply;
use crate::harness::{Setup, each, origin};
use crate::search::indexed;

/// How much it asks for at once.
const MANY: usize = 100;

fn client_of(household: u8) -> reqwest::Client {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, household));
    crate::client::client_builder().no_proxy().local_address(address).build().unwrap()
}

/// Two are made at a time. If one client had both turns, others would wait for all that it asked for before them.
#[tokio::test]
async fn what_takes_long_is_made_for_each_household_in_its_turn() {
    let origin = origin(2000).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    indexed(&server).await;
    // Each is a file of its own: whoever asks for the same is sent the same pieces.
    let pairs: Vec<String> = origin.world(|world| {
        let pair = |id| world.slugs_of(id).map(|(sport, state, _)| format!("sport={sport}&state={state}"));
        world.ids().into_iter().filter_map(pair).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    });
    assert!(pairs.len() > MANY + 1, "{}", pairs.len());
    each(["/explore?sort=name&radius=20000&near=30,-97.", "/dumps/listings.csv?"], async |start| {
        let get = async |client: &reqwest::Client, number: usize| {
            let end = if start.starts_with("/dumps") { pairs[number].clone() } else { number.to_string() };
            let url = format!("http://{}{start}{end}", server.public);
            let reply = Reply::of(client.get(url).send().await.unwrap()).await;
            assert_eq!(reply.status, 200, "{reply:?}");
        };
        let (one, other, done, begun) = (client_of(2), client_of(3), AtomicUsize::new(0), Notify::new());
        // Its connection is open before it counts.
        get(&other, 0).await;
        let much = (1..=MANY).map(async |number| {
            get(&one, number).await;
            if done.fetch_add(1, Ordering::Relaxed) == 1 {
                begun.notify_one();
            }
        });
        let few = async {
            begun.notified().await;
            get(&other, MANY + 1).await;
            let before = done.load(Ordering::Relaxed);
            assert!(before < MANY / 2, "after {before} of {MANY}");
        };
        futures_util::join!(join_all(much), few);
    })
    .await;
}
