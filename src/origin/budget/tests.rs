use super::*;

fn waiting(ticket: u64, class: Class, client: Option<u8>) -> Waiting {
    Waiting { ticket, class, client: client.map(|last| IpAddr::from([10, 0, 0, last])) }
}

fn view<'a>(waiting: &'a [Waiting], served: &'a HashMap<IpAddr, u64>) -> View<'a> {
    View {
        waiting,
        free: 60,
        limit: 60,
        client_used: 0,
        background_used: 0,
        detail_due: true,
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
        assert_eq!(choose(&view(&all[..left], &served)), Some(left as u64));
    }
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
