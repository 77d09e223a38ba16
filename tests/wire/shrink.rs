//! A snapshot that lost too much is held back until it is accepted.

use http::Method;
use sample_origin::World;

use crate::compare::list_is_the_origins;
use crate::harness::{Server, Setup, origin, run, wait_until};

const LIST: &str = "/api/listings.json";

/// `grandstand snapshot accept` beside the server.
async fn accept(server: &Server) -> (i32, String) {
    run(&server.setup.arguments(&["snapshot", "accept"], &server.data_dir())).await
}

#[tokio::test]
async fn a_collapse_is_held_back_until_it_is_accepted() {
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let before = server.ok(LIST).await;
    let all = origin.world(World::clone);
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    let left = origin.world(World::len);
    assert!((30..90).contains(&left));
    server.refresh().await;
    wait_until("/status tells what is held back", || async { !server.status().await["held"].is_null() }).await;
    let reply = server.admin(Method::GET, "/status").await;
    assert_eq!(reply.status, 503, "held back is unhealthy");
    let held = reply.json()["held"].clone();
    assert_eq!((held["listings"].as_u64(), held["serving"].as_u64()), (Some(left as u64), Some(120)), "{held:#}");
    let (lost, told) = (120 - left as u64, &reply.json()["findings"][0]);
    assert_eq!((&told["name"], &told["unhealthy"]), (&"held-back".into(), &true.into()), "{told}");
    let text = told["text"].as_str().unwrap();
    assert!(text.contains(&format!("{lost} of 120 listings would vanish")) && text.contains("by state: "), "{text}");
    let count = |of: &str| held[of].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>();
    assert_eq!((count("sports"), count("states")), (lost, lost), "{held:#}");
    let vanishing = held["vanishing"].as_array().unwrap();
    assert!(vanishing.len() == 20 && vanishing[0]["name"].as_str().is_some_and(|name| !name.is_empty()), "{held:#}");
    for _ in 0..2 {
        let reply = server.ok(LIST).await;
        assert_eq!((reply.etag(), reply.total()), (before.etag(), 120));
        server.refreshed(&origin).await;
    }

    // The origin recovers: judged again, nothing is held any more.
    origin.edit(|world| *world = all);
    server.refresh().await;
    wait_until("no snapshot is held back", || async { server.status().await["held"].is_null() }).await;
    assert_eq!(server.ok(LIST).await.etag(), before.etag());

    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    server.refresh().await;
    wait_until("it is held back again", || async { !server.status().await["held"].is_null() }).await;
    let accepted = server.admin(Method::POST, "/snapshots/accept").await;
    assert!((200..300).contains(&accepted.status), "{accepted:?}");
    wait_until("it is published", || async { server.ok(LIST).await.total() == left as u64 }).await;
    wait_until("and healthy", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;
    list_is_the_origins(&server, &origin, LIST).await;
}

#[tokio::test]
async fn what_is_held_back_is_judged_anew_by_five_requests_and_accepted_by_command() {
    let origin = origin(530).await;
    let mut server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    let nothing = accept(&server).await;
    assert!(nothing.0 == 1 && nothing.1.contains("no snapshot is held back"), "{nothing:?}");
    assert_eq!(server.admin(Method::POST, "/snapshots/accept").await.status, 409);
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    let left = origin.world(World::len) as u64;
    server.refresh().await;
    wait_until("it is held back", || async { !server.status().await["held"].is_null() }).await;
    crate::harness::quiet(&origin).await;
    for _ in 0..2 {
        origin.clear_log();
        server.refreshed(&origin).await;
        assert!(origin.count() <= 5, "{:#?}", origin.log());
        assert!(!server.status().await["held"].is_null());
    }
    // A restart forgets it, and finds it again.
    server.restart().await;
    wait_until("it is held back again", || async { !server.status().await["held"].is_null() }).await;
    let accepted = accept(&server).await;
    assert_eq!(accepted.0, 0, "{accepted:?}");
    assert!(accepted.1.contains(&format!("{} is the newest snapshot now: ", server.snapshot().await)), "{accepted:?}");
    assert_eq!(server.ok(LIST).await.total(), left);
    list_is_the_origins(&server, &origin, LIST).await;
    // Once is once.
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(4)));
    server.refresh().await;
    wait_until("the next collapse is held back", || async { !server.status().await["held"].is_null() }).await;
    assert_eq!(server.ok(LIST).await.total(), left);
}

#[tokio::test]
async fn an_acceptance_ends_with_what_it_was_given_for() {
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    let all = origin.world(World::clone);
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    server.refresh().await;
    wait_until("it is held back", || async { !server.status().await["held"].is_null() }).await;
    // The origin recovers in the moment of the acceptance.
    origin.edit(|world| *world = all);
    assert_eq!(server.admin(Method::POST, "/snapshots/accept").await.status, 202);
    wait_until("no snapshot is held back", || async { server.status().await["held"].is_null() }).await;
    crate::harness::quiet(&origin).await;
    assert_eq!(server.ok(LIST).await.total(), 120);
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(3)));
    server.refresh().await;
    wait_until("another collapse is held back", || async { !server.status().await["held"].is_null() }).await;
    assert_eq!(server.ok(LIST).await.total(), 120);
}

#[tokio::test]
async fn a_collapse_during_the_first_crawl_is_held_back_and_the_origin_left_alone() {
    let origin = origin(330).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    wait_until("it is published", || async { server.status().await["snapshot"]["certificate"] == "provisional" }).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    wait_until("it is held back", || async { !server.status().await["held"].is_null() }).await;
    crate::harness::quiet(&origin).await;
    assert_eq!(server.ok(LIST).await.total(), 330);
    let accepted = accept(&server).await;
    assert_eq!(accepted.0, 0, "{accepted:?}");
    list_is_the_origins(&server, &origin, LIST).await;
}

#[tokio::test]
async fn a_collapse_in_small_steps_is_held_back_too() {
    let origin = origin(200).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    let ids = origin.world(World::ids);
    let mut total = 200;
    for step in 0..3 {
        let gone = &ids[step * 15..(step + 1) * 15];
        origin.edit(|world| world.retain(|venue| !gone.contains(&venue.id)));
        server.refresh().await;
        if step < 2 {
            total -= 15;
            wait_until("a small loss is published", || async { server.ok(LIST).await.total() == total }).await;
        }
    }
    wait_until("more than a fifth within a day is held back", || async { !server.status().await["held"].is_null() })
        .await;
    assert_eq!(server.ok(LIST).await.total(), 170);
}

#[tokio::test]
async fn accepting_what_the_origin_no_longer_has_says_what_is_served_and_fails() {
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    server.refresh().await;
    wait_until("it is held back", || async { !server.status().await["held"].is_null() }).await;
    crate::harness::quiet(&origin).await;
    let like = origin.world(World::ids)[1];
    origin.edit(|world| world.insert_like(like, "Since then").unwrap());
    let accepted = accept(&server).await;
    assert!(accepted.0 == 1 && accepted.1.contains("was not published"), "{accepted:?}");
    assert!(accepted.1.contains(&server.snapshot().await), "{accepted:?}");
}

#[tokio::test]
async fn what_is_held_back_stays_told_while_the_origin_goes_on_changing() {
    let origin = origin(330).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    server.refresh().await;
    wait_until("it is held back", || async { !server.status().await["held"].is_null() }).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(4)));
    let left = origin.world(World::len);
    server.refresh().await;
    wait_until("what the origin has now is held back", || async {
        let held = server.status().await["held"].clone();
        assert!(!held.is_null(), "nothing got better meanwhile");
        held["listings"] == left
    })
    .await;
}
