mod clients;
mod coming_back;
mod shares;

use super::choice::{ClientTurn, View, choose};
use super::*;

fn waiting(ticket: u64, class: Class, client: Option<u8>) -> Waiting {
    Waiting { ticket, class, client: client.map(|last| IpAddr::from([10, 0, 0, last])), demand: None, until: None }
}

fn view<'a>(waiting: &'a [Waiting], served: &'a HashMap<IpAddr, u64>) -> View<'a> {
    View {
        waiting,
        free: 60,
        limit: 60,
        client_used: 0,
        refresh_used: 0,
        background_used: 0,
        detail_due: true,
        clients: ClientTurn::Stale,
        crawl_has_work: true,
        served,
    }
}

#[test]
fn the_order_is_refresh_clients_crawl_details_background() {
    let served = HashMap::new();
    let all = [
        waiting(1, Class::Background, None),
        waiting(2, Class::Details, None),
        waiting(3, Class::Crawl, None),
        waiting(4, Class::Client, Some(1)),
        waiting(5, Class::Refresh, None),
    ];
    for left in (1..=5).rev() {
        assert_eq!(
            choose(&View { background_used: 3, ..view(&all[..left], &served) }),
            (left > 1).then_some(left as u64)
        );
    }
    // A little for the background goes before the endless details, and more than a little only when nothing is to do.
    assert_eq!(choose(&view(&all[..2], &served)), Some(1));
    assert_eq!(choose(&View { background_used: 3, crawl_has_work: false, ..view(&all[..1], &served) }), Some(1));
    assert_eq!(choose(&View { free: 0, ..view(&all, &served) }), None);
}

#[test]
fn one_greedy_client_starves_neither_another_client_nor_the_crawl() {
    let mut served = HashMap::new();
    served.insert(IpAddr::from([10, 0, 0, 1]), 7);
    let both =
        [waiting(1, Class::Client, Some(1)), waiting(9, Class::Client, Some(2)), waiting(10, Class::Crawl, None)];
    assert_eq!(choose(&view(&both, &served)), Some(9));
    assert_eq!(choose(&View { client_used: 45, ..view(&both, &served) }), Some(10));
    let idle = View { client_used: 45, crawl_has_work: false, ..view(&both[..2], &served) };
    assert_eq!(choose(&idle), Some(9));
}

#[test]
fn the_crawl_leaves_slots_for_a_refresh_and_background_takes_a_tenth() {
    let served = HashMap::new();
    let crawl = [waiting(1, Class::Crawl, None)];
    assert_eq!(choose(&View { free: 5, ..view(&crawl, &served) }), None);
    assert_eq!(choose(&View { free: 6, ..view(&crawl, &served) }), Some(1));
    assert_eq!(choose(&View { free: 1, refresh_used: 5, ..view(&crawl, &served) }), Some(1), "it has just come");
    let background = [waiting(1, Class::Background, None)];
    assert_eq!(choose(&View { background_used: 6, ..view(&background, &served) }), None);
    let details = [waiting(1, Class::Details, None)];
    assert_eq!(choose(&View { detail_due: false, ..view(&details, &served) }), None);
}

#[tokio::test]
async fn a_spent_budget_says_when_to_come_back() {
    let budget = Budget::open(Some(1), None, Clock::system());
    budget.acquire(Class::Client, None, None).await.unwrap().answered();
    let patience = Some(Duration::from_millis(5));
    let spent = budget.acquire(Class::Client, None, patience).await.err().unwrap();
    assert!((58..=61).contains(&spent.retry_after.as_secs()), "{spent:?}");
    assert_eq!(budget.view().waiting, 0);
}

#[tokio::test]
async fn an_unlimited_budget_waits_only_while_paused() {
    let budget = Budget::open(None, None, Clock::system());
    for _ in 0..200 {
        budget.acquire(Class::Details, None, None).await.unwrap().answered();
    }
    budget.pause(Duration::from_secs(30));
    let spent = budget.acquire(Class::Refresh, None, Some(Duration::from_millis(5))).await.err().unwrap();
    assert!((28..=30).contains(&spent.retry_after.as_secs()), "{spent:?}");
}

/// A client with a long queue of old tickets has one turn like anybody else.
#[tokio::test]
async fn a_client_with_many_waiting_reads_takes_turns_with_the_others() {
    let budget = Budget::open(Some(40), None, Clock::system());
    budget.pause(Duration::from_millis(200));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut reads = Vec::new();
    for (client, many) in [(1_u8, 100), (2, 5), (3, 5), (4, 5)] {
        for _ in 0..many {
            let (budget, order) = (budget.clone(), order.clone());
            reads.push(tokio::spawn(async move {
                let address = Some(IpAddr::from([10, 0, 0, client]));
                let permit = budget.acquire(Class::Client, address, Some(Duration::from_secs(2))).await;
                if permit.is_ok() {
                    order.lock().push(client);
                }
            }));
        }
    }
    for read in reads {
        read.await.unwrap();
    }
    let order = order.lock().clone();
    assert_eq!(order.len(), 40);
    for turn in order[..20].chunks(4) {
        let mut turn = turn.to_vec();
        turn.sort_unstable();
        assert_eq!(turn, [1, 2, 3, 4], "{order:?}");
    }
}
