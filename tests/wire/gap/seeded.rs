//! A bundle seeds a mirror: imported data is revalidated, not fetched.

use sample_origin::{Switches, World};

use super::{Desk, LIST, edit, mirrored};
use crate::compare::{detail_is_the_origins, list_is_the_origins, taxonomies_are_the_origins};
use crate::harness::{Server, Setup, wait_until};

/// A mirror of the origin on a copy of this desk's data, started after the origin's log was cleared.
async fn seeded(desk: &Desk, origin: &sample_origin::Origin) -> Server {
    origin.clear_log();
    let server = desk.serve_copy(Setup::mirror_of(origin)).await;
    server.ready().await;
    server.settled(origin).await;
    server
}

#[tokio::test]
async fn a_seeded_mirror_fetches_nothing_that_the_bundle_brought() {
    let (origin, mirror) = mirrored(700, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "seed.gsb").await;
    drop(mirror);
    // With an origin in the configuration, as on the machine that is to mirror it.
    desk.does(&Setup::mirror_of(&origin), &desk.data(), &["import"], "seed.gsb").await;
    assert_eq!(desk.inspect("seed.gsb").await["manifest"]["details"]["present"], 700);
    let server = seeded(&desk, &origin).await;
    let log = origin.log();
    let details: Vec<_> = log.iter().filter(|seen| seen.path_and_query.starts_with("/api/listings/")).collect();
    let fetched = details.iter().filter(|seen| seen.status == 200).count();
    assert_eq!(fetched, 0, "{fetched} details were fetched anew");
    assert!(log.len() <= 2 * 7 + 8 + 10, "{} requests, {} of them for details", log.len(), details.len());

    // It goes on as a mirror does.
    let ids = origin.world(World::ids);
    edit(&origin, &server, |world| {
        assert!(world.touch(ids[3]) && world.remove(ids[50]));
        world.insert_like(ids[80], "The New Park").unwrap();
    })
    .await;
    for page in 1..=14 {
        list_is_the_origins(&server, &origin, &format!("{LIST}?page={page}")).await;
    }
    taxonomies_are_the_origins(&server, &origin).await;
    for id in origin.world(World::ids) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    let fetched = origin
        .log()
        .iter()
        .filter(|seen| seen.path_and_query.starts_with("/api/listings/") && seen.status == 200)
        .count();
    assert!(fetched <= 4, "{fetched} details were fetched for two changes");
}

#[tokio::test]
async fn a_mirror_that_is_seeded_while_the_origin_went_on_fetches_what_changed() {
    let (origin, mirror) = mirrored(300, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "seed.gsb").await;
    drop(mirror);
    let ids = origin.world(World::ids);
    origin.edit(|world| {
        assert!(ids[..6].iter().all(|id| world.touch(*id)) && world.remove(ids[100]));
        world.insert_like(ids[80], "The New Park").unwrap();
    });
    // Beside a mirror without data, because its origin does not answer.
    origin.shutdown().await;
    let server = Setup::mirror_of(&origin).start().await;
    desk.does(&server.setup, &server.data_dir(), &["import"], "seed.gsb").await;
    assert_eq!(server.ok(LIST).await.total(), 300);
    origin.restart().await.unwrap();
    origin.clear_log();
    server.refresh().await;
    crate::harness::wait_until("the origin is caught up with", || async {
        let ids = server.ok(LIST).await.ids();
        ids == origin.expected(LIST).1["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["id"].as_u64().unwrap())
            .collect::<Vec<_>>()
    })
    .await;
    server.settled(&origin).await;
    let fetched: Vec<_> = origin
        .log()
        .into_iter()
        .filter(|seen| seen.path_and_query.starts_with("/api/listings/") && seen.status == 200)
        .map(|seen| seen.path_and_query)
        .collect();
    assert!((7..=8).contains(&fetched.len()), "{fetched:?}");
    for page in 1..=6 {
        list_is_the_origins(&server, &origin, &format!("{LIST}?page={page}")).await;
    }
    for id in origin.world(World::ids) {
        detail_is_the_origins(&server, &origin, id).await;
    }
}

#[tokio::test]
async fn a_mirror_takes_no_older_bundle_and_none_of_another_origin_which_only_seeds_one_with_a_warning() {
    let (other, others_mirror) = mirrored(60, Switches::default()).await;
    let (origin, mut mirror) = mirrored(90, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "old.gsb").await;
    let old = mirror.snapshot().await;
    let own = edit(&origin, &mirror, |world| assert!(world.touch(world.ids()[7]))).await;
    // Newer than the mirror's data.
    edit(&other, &others_mirror, |world| assert!(world.touch(world.ids()[7]))).await;
    desk.does(&others_mirror.setup, &others_mirror.data_dir(), &["export"], "other.gsb").await;
    for stopped in [false, true] {
        if stopped {
            mirror.down().await;
        }
        let older = [old.as_str(), own.as_str(), "but the mirror already has"];
        desk.refuses(&mirror.setup, &mirror.data_dir(), &["import"], "old.gsb", &older).await;
        let named = [other.url().as_str(), origin.url().as_str(), "origin.aliases"]
            .map(|name| name.trim_end_matches('/').to_owned());
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        desk.refuses(&mirror.setup, &mirror.data_dir(), &["import"], "other.gsb", &named).await;
    }
    mirror.restart().await;
    assert_eq!(mirror.snapshot().await, own);
    for id in origin.world(World::ids) {
        detail_is_the_origins(&mirror, &origin, id).await;
    }
    let said = desk.does(&mirror.setup, &desk.data(), &["import"], "other.gsb").await;
    assert!(said.contains("warning: the bundle's data comes from"), "{said}");
    let said = desk.does(&others_mirror.setup, &desk.path("its"), &["import"], "other.gsb").await;
    assert!(!said.contains("warning"), "{said}");
    // Without an origin the operator decides what is served.
    desk.does(&Setup::offline(), &desk.data(), &["import"], "other.gsb").await;
}

#[tokio::test]
async fn data_of_another_origin_is_told_of_wherever_it_comes_in() {
    let (other, others_mirror) = mirrored(60, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&others_mirror.setup, &others_mirror.data_dir(), &["export"], "other.gsb").await;
    let down = crate::harness::origin(20).await;
    down.shutdown().await;
    let names_both = |said: &str| {
        let told = said.lines().find(|line| line.contains("the bundle's data comes from")).unwrap_or_default();
        told.contains(&other.url()) && told.contains(&down.url())
    };
    // Over HTTP.
    let mut mirror = Setup::mirror_of(&down).start().await;
    let request = crate::client::plain_client().post(format!("http://{}/bundle", mirror.admin));
    let answer = request.body(desk.bytes("other.gsb")).send().await.unwrap().text().await.unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert!(names_both(answer["warning"].as_str().unwrap()), "{answer}");
    wait_until("the log tells it", || async { names_both(&mirror.process.said()) }).await;
    mirror.down().await;
    // By a command that knows no origin, through the server and without it.
    for stopped in [false, true] {
        let mut mirror = Setup::mirror_of(&down).start().await;
        if stopped {
            mirror.down().await;
        }
        let said = desk.does(&Setup::offline(), &mirror.data_dir(), &["import"], "other.gsb").await;
        assert!(names_both(&said), "stopped: {stopped}: {said}");
        let own = desk.does(&Setup::offline(), &desk.path(&stopped.to_string()), &["import"], "other.gsb").await;
        assert!(!own.contains("warning"), "{own}");
    }
    let said = desk.does(&Setup::mirror_of(&down), &desk.data(), &["import", "--json"], "other.gsb").await;
    assert!(said.contains("\"warning\":\"the bundle's data comes from"), "{said}");
}
