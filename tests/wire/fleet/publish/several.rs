//! Two publishers on one prefix: no head is ever torn, and the sequence only rises.

use std::collections::BTreeSet;

use sample_origin::Origin;

use crate::fleet::s3::S3;
use crate::fleet::store::{Head, Store, leads_to, publishing};
use crate::harness::{Server, Setup, edit, origin, wait_until};

/// A change with its detail in the store: one that follows would be written during the other one's turn.
async fn change_wholly(origin: &Origin, server: &Server) {
    edit(origin, server, |world| assert!(world.insert_like(world.ids()[3], "Somewhere New").is_some())).await;
    wait_until("nothing is on its way", || async {
        let status = server.status().await;
        status["details"]["current"] == status["details"]["of"] && status["publish"]["details_missing"] == 0
    })
    .await;
}

#[tokio::test]
async fn two_publishers_in_one_directory_take_turns_and_do_no_harm() {
    let store = Store::new();
    let (origin_one, one) = publishing(200, &store.url(), |setup| setup).await;
    store.has(&one).await;
    let (origin_two, two) = publishing(150, &store.url(), |setup| setup).await;
    store.has(&two).await;
    let (mut last, mut seen) = (0, BTreeSet::new());
    for round in 0..6 {
        let (origin, server) = if round % 2 == 0 { (&origin_one, &one) } else { (&origin_two, &two) };
        change_wholly(origin, server).await;
        let head = store.has(server).await;
        assert!(head.sequence() > last, "round {round}");
        last = head.sequence();
        seen.insert(head.full().to_owned());
        leads_to(&store, &head, server).await;
    }
    assert!(seen.len() >= 2, "each goes on with its own chain");
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
    for server in &servers {
        wait_until("both have had their turn", || async {
            let told = crate::fleet::store::told(server).await;
            told["why"].is_null() && told["behind_seconds"] == 0
        })
        .await;
    }
}
