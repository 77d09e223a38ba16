//! Two publishers on one prefix: no head is ever torn, the sequence only rises, and one of them stops.

use http::Method;
use sample_origin::Origin;

use crate::clocks::Hand;
use crate::fleet::s3::S3;
use crate::fleet::store::{Head, Store, leads_to, publishing};
use crate::harness::{Server, Setup, edit, origin, wait_until};

async fn grow(origin: &Origin, server: &Server) {
    edit(origin, server, |world| assert!(world.insert_like(world.ids()[3], "Somewhere New").is_some())).await;
}

/// Waits until the store has everything of this publisher: what follows would be written during the other one's turn.
async fn is_done(store: &Store, server: &Server) -> Head {
    wait_until("nothing is on its way", || async {
        let told = crate::fleet::store::told(server).await;
        told["details_missing"] == 0 && told["behind_seconds"] == 0 && told["why"].is_null()
    })
    .await;
    store.has(server).await
}

/// Waits until this publisher has lost against another one.
async fn has_lost(server: &Server) {
    wait_until("it says that it has lost", || async { server.finding("publish-rival").await.is_some() }).await;
}

#[tokio::test]
async fn of_two_publishers_the_later_one_wins_until_it_is_silent_or_the_other_one_is_restarted() {
    let (store, hand) = (Store::new(), Hand::new());
    let (origin_one, mut one) = publishing(200, &store.url(), |setup| hand.on(setup)).await;
    is_done(&store, &one).await;
    let (origin_two, mut two) = publishing(150, &store.url(), |setup| setup).await;
    is_done(&store, &two).await;
    has_lost(&one).await;
    grow(&origin_one, &one).await;
    grow(&origin_two, &two).await;
    let head = is_done(&store, &two).await;
    leads_to(&store, &head, &two).await;
    assert_eq!(two.finding("publish-rival").await, None);

    one.restart().await;
    let later = is_done(&store, &one).await;
    assert!(later.sequence() > head.sequence());
    leads_to(&store, &later, &one).await;
    has_lost(&two).await;
    two.restart().await;
    is_done(&store, &two).await;
    has_lost(&one).await;

    two.down().await;
    hand.set(700);
    one.admin(Method::POST, "/refresh").await;
    let back = store.has(&one).await;
    leads_to(&store, &back, &one).await;
}

#[tokio::test]
async fn two_publishers_at_once_on_a_store_with_conditions_do_no_harm() {
    let s3 = S3::start().await;
    let (one, two) = (origin(60).await, origin(90).await);
    let mut servers = Vec::new();
    for origin in [&one, &two] {
        let server = s3.publishing(Setup::mirror_of(origin), "both").start().await;
        server.settled(origin).await;
        servers.push(server);
    }
    let mut last = 0;
    for _round in 0..4 {
        for (origin, server) in [&one, &two].into_iter().zip(&servers) {
            origin.edit(|world| {
                let id = world.ids()[3];
                assert!(world.touch(id));
            });
            server.refresh().await;
        }
        let before = last;
        wait_until("a later head", || async {
            let head = s3.get("both", "head.json").await;
            head.status == 200 && Head::parse(&head.body).sequence() > before
        })
        .await;
        let head = Head::parse(&s3.get("both", "head.json").await.body);
        assert!(head.sequence() >= last);
        last = head.sequence();
        for key in head.keys() {
            assert_eq!(s3.get("both", &key).await.status, 200, "{key}");
        }
    }
    one_has_won(&servers).await;
}

/// Waits until one of them publishes, and the other one says that it has lost.
pub async fn one_has_won(servers: &[Server]) {
    wait_until("one has won", || async {
        let mut lost = 0;
        for server in servers {
            let told = crate::fleet::store::told(server).await;
            let has_lost = server.finding("publish-rival").await.is_some();
            lost += usize::from(has_lost);
            let is_done = told["why"].is_null() && told["behind_seconds"] == 0;
            if !(has_lost || is_done) {
                return false;
            }
        }
        lost + 1 == servers.len()
    })
    .await;
}
