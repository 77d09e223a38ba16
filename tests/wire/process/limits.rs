//! Limits of the system: the size of files, the number of open ones, the number of threads.

use std::time::Duration;

use sample_origin::World;

use crate::disk::limit_files;
use crate::harness::faults::Faults;
use crate::harness::{Setup, edit, origin, wait_until};

#[tokio::test]
async fn an_access_log_that_reaches_the_largest_size_loses_lines_and_not_the_server() {
    let origin = origin(20).await;
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let setup =
        Setup::mirror_of(&origin).alone().set("log.access", "true").set("log.access_file", log.to_str().unwrap());
    let mut server = setup.start().await;
    server.settled(&origin).await;
    server.ok("/api/listings.json").await;
    wait_until("a line is written", || async { std::fs::metadata(&log).unwrap().len() > 0 }).await;
    let length = std::fs::metadata(&log).unwrap().len();
    limit_files(server.process.pid(), &length.to_string());
    server.ok("/api/listings.json").await;
    wait_until("it is told", || async { server.process.said().contains("the access log cannot be written") }).await;
    server.ok("/api/listings.json").await;
    assert_eq!((server.process.ended(), std::fs::metadata(&log).unwrap().len()), (None, length));
}

#[tokio::test]
async fn an_upload_or_an_export_beyond_the_largest_size_is_a_full_disk() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).alone().start().await;
    server.settled(&origin).await;
    let client = crate::client::plain_client();
    let url = format!("http://{}/bundle", server.admin);
    let bundle = client.get(&url).send().await.unwrap().bytes().await.unwrap();
    limit_files(server.process.pid(), "4096");
    assert!(bundle.len() > 4096);
    let upload = client.post(&url).body(bundle).send().await.unwrap();
    assert_eq!(upload.status(), 507, "{}", upload.text().await.unwrap());
    let export = client.get(&url).send().await.unwrap();
    assert_eq!(export.status(), 507, "{}", export.text().await.unwrap());
    // A dump needs no disk.
    let dump = client.get(format!("{url}?format=details-ndjson")).send().await.unwrap();
    assert_eq!((dump.status().as_u16(), dump.text().await.unwrap().lines().count()), (200, 60));
    limit_files(server.process.pid(), "unlimited");
    let id = origin.world(World::ids)[0];
    server.ok(&format!("/api/listings/{id}.json")).await;
}

#[tokio::test]
async fn too_few_open_files_are_one_line_that_says_how_many_are_needed() {
    let dir = tempfile::tempdir().unwrap();
    let under = |limit: u32| format!(r#"ulimit -n {limit}; exec "$0" "$@""#);
    let run = async |limit: u32, setup: Setup, command: &str| {
        setup.under(&["bash", "-c", &under(limit)]).command(&[command], &dir.path().join("data")).end().await
    };
    for (command, limits) in
        [("serve", &[10, 20, 40, 64, 127, 255][..]), ("demo", &[40, 100]), ("check", &[10, 20]), ("sync", &[10, 63])]
    {
        for limit in limits {
            let (code, said) = run(*limit, Setup::offline(), command).await;
            let told = format!("grandstand: the limit of open files is {limit}, but at least ");
            assert!(code == 1 && said.starts_with(&told) && said.lines().count() == 1, "{command} {limit}: {said}");
            assert!(said.contains("ulimit -n") && said.contains("LimitNOFILE="), "{said}");
        }
    }
    let (code, said) = run(64, Setup::offline(), "check").await;
    assert_eq!(code, 0, "{said}");
    let origin = origin(20).await;
    let (code, said) = run(64, Setup::mirror_of(&origin), "sync").await;
    assert_eq!(code, 0, "{said}");
    for limit in [256, 300] {
        let mut server = Setup::mirror_of(&origin).under(&["bash", "-c", &under(limit)]).start().await;
        server.settled(&origin).await;
        // More clients than there is room for; nobody but them is hurt.
        let held = futures_util::future::join_all(
            (0..limit)
                .map(|_| tokio::time::timeout(Duration::from_secs(5), tokio::net::TcpStream::connect(server.public))),
        )
        .await;
        server.refreshed(&origin).await;
        assert!(server.process.ended().is_none());
        drop(held);
        wait_until("it answers", || async {
            let client = crate::client::plain_client();
            let url = format!("http://{}/api/listings.json", server.public);
            client.get(url).send().await.is_ok_and(|reply| reply.status() == 200)
        })
        .await;
    }
}

#[tokio::test]
async fn without_new_threads_nothing_starts_and_a_server_that_runs_does_everything() {
    let origin = origin(120).await;
    let (setup, dir, faults) = Faults::of(Setup::mirror_of(&origin));
    faults.begin("thread", "refused");
    for command in ["serve", "demo", "sync", "check"] {
        let (code, said) = setup.command(&[command], &dir.path().join("data")).end().await;
        let told = "grandstand: the system gives this process 0 more threads, but at least ";
        assert!(code == 1 && said.starts_with(told) && said.lines().count() == 1, "{command}: {said}");
        assert!(said.contains("ulimit -u") && said.contains("TasksMax="), "{said}");
    }
    faults.end("thread");
    let server = setup.start_in(dir).await;
    server.settled(&origin).await;
    faults.begin("thread", "refused");
    let id = origin.world(World::ids)[5];
    for _ in 0..2 {
        server.ok("/explore?sort=name").await;
        server.ok(&format!("/api/listings/{id}.json")).await;
        server.ok("/dumps/listings.csv").await;
        server.ok("/api/listings.json?per_page=100").await;
        server.get("/api/unknown").await;
        wait_until("there is an index", || async { server.get("/search.json?q=a").await.status == 200 }).await;
        edit(&origin, &server, |world| assert!(world.touch(id))).await;
    }
    let said = server.process.said();
    assert!(!said.contains("panic") && !said.contains("ERROR"), "{said}");
}
