use std::time::Duration;

use crate::clock::Clock;
use crate::origin::budget::Budget;
use crate::origin::client::ClientConfig;
use crate::origin::crawl::check_page;
use crate::origin::status::OriginStatus;
use crate::origin::window::Class;
use crate::sample::{Origin, Switches, World};
use crate::store::DataDir;

use super::*;

const PATH: &str = "/api/listings.json?per_page=100";

async fn scene(limit: Option<usize>) -> (Origin, Copies, Budget, tempfile::TempDir) {
    let origin =
        Origin::start("127.0.0.1:0".parse().unwrap(), World::generate(30, 1), Switches::default()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
    let budget = Budget::open(limit, None, Clock::system());
    let config = ClientConfig {
        base: origin.url().parse().unwrap(),
        timeout: Duration::from_secs(5),
        max_body: 1 << 20,
        longest_pause: Duration::from_secs(1),
        user_agent: "test".into(),
    };
    let client = OriginClient::new(config, None, budget.clone(), OriginStatus::default(), Clock::system()).unwrap();
    (origin, Copies::new(client, store, Arc::default()), budget, dir)
}

#[tokio::test]
async fn a_background_look_that_waits_for_the_budget_does_not_hold_up_a_refresh() {
    let (_origin, copies, budget, _dir) = scene(Some(12)).await;
    // The background's tenth is one slot of twelve, and it is taken.
    let taken = budget.acquire(Class::Background, None, None).await.unwrap();
    let sweep = tokio::spawn({
        let copies = copies.clone();
        async move { copies.look(PATH, Asker::mirror(Class::Background), check_page).await.map(|_| ()) }
    });
    while budget.view().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let refresh = copies.look(PATH, Asker::mirror(Class::Refresh), check_page);
    let looked = tokio::time::timeout(Duration::from_secs(10), refresh).await;
    assert!(looked.expect("the refresh goes first").is_ok());
    assert!(!sweep.is_finished());
    drop(taken);
    sweep.abort();
}

#[tokio::test]
async fn an_answer_to_an_older_question_never_takes_a_newer_copy_back() {
    let (origin, copies, _budget, _dir) = scene(None).await;
    copies.look(PATH, Asker::mirror(Class::Crawl), check_page).await.unwrap();
    // The slow look asks with the first copy's validators, and is answered 304 before the change.
    origin.set(|switches| switches.latency = Duration::from_secs(2));
    let slow = tokio::spawn({
        let copies = copies.clone();
        async move { copies.look(PATH, Asker::mirror(Class::Background), check_page).await.unwrap() }
    });
    // Its answer is made on arrival and held back for the latency.
    while origin.count() < 2 {
        tokio::task::yield_now().await;
    }
    origin.set(|switches| switches.latency = Duration::ZERO);
    let id = origin.world(World::ids)[0];
    origin.edit(|world| assert!(world.touch(id)));
    let new = copies.look(PATH, Asker::mirror(Class::Refresh), check_page).await.unwrap();
    assert_eq!(new.change, Change::Changed);
    let late = slow.await.unwrap();
    assert_ne!(late.change, Change::Changed);
    assert!(late.body == new.body, "what is known by then");
    let kept = copies.recent(PATH, 0, i64::MAX).unwrap().unwrap();
    assert!(kept.body == new.body);
    assert_eq!(kept.until_ms, new.until_ms);
}
