//! A real S3 server.

use super::change;
use crate::fleet::s3::S3;
use crate::fleet::store::{Head, lists, told};
use crate::gap::{Desk, everything, is_one_of};
use crate::harness::{Server, Setup, origin, until, wait_until};

/// The head that has what a server serves, with objects in order.
async fn published(s3: &S3, server: &Server) -> (Head, Vec<(String, Vec<u8>)>) {
    let snapshot = server.snapshot().await;
    let head = until("the store has what is served", || async {
        let reply = s3.get("a/b", "head.json").await;
        (reply.status == 200).then(|| Head::parse(&reply.body)).filter(|head| head.snapshot() == snapshot)
    })
    .await;
    let mut objects = Vec::new();
    for key in head.keys() {
        objects.push((key.clone(), s3.get("a/b", &key).await.body.to_vec()));
    }
    head.check(|key| objects.iter().find(|(own, _)| own == key).unwrap().1.clone());
    (head, objects)
}

#[tokio::test]
async fn an_s3_server_gets_everything_and_then_the_changes() {
    let (s3, origin) = (S3::start().await, origin(400).await);
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    server.setup = s3.publishing(server.setup.clone(), "a/b");
    server.restart().await;
    server.settled(&origin).await;
    let (first, _) = published(&s3, &server).await;
    change(&origin, &server).await;
    let (second, objects) = published(&s3, &server).await;
    assert!(second.full() == first.full() && !second.deltas().is_empty());
    let desk = Desk::new();
    for (number, entry) in second.chain().into_iter().enumerate() {
        let object = objects.iter().find(|(key, _)| *key == entry["key"].as_str().unwrap()).unwrap();
        let name = format!("{number}.gsb");
        std::fs::write(desk.path(&name), &object.1).unwrap();
        desk.does(&Setup::offline(), &desk.data(), &["import"], &name).await;
    }
    let imported = everything(&desk.serve_copy(Setup::offline()).await).await;
    is_one_of(&lists(imported), &[&lists(everything(&server).await)]);

    s3.delete("a/b", "head.json").await;
    server.refreshed(&origin).await;
    let (third, _) = published(&s3, &server).await;
    assert!(third.sequence() > second.sequence() && third.deltas().is_empty());
    wait_until("all is told", || async { told(&server).await["behind_seconds"] == 0 }).await;
    assert!(!server.process.said().contains("hunter2"));
}

#[tokio::test]
async fn credentials_and_endpoint_come_from_the_usual_environment() {
    let (s3, origin) = (S3::start().await, origin(60).await);
    let endpoint = format!("AWS_ENDPOINT={}", s3.url());
    let setup = Setup::mirror_of(&origin).set("publish.url", &S3::place("a/b")).under(&[
        "env",
        &endpoint,
        "AWS_ACCESS_KEY_ID=tester",
        "AWS_SECRET_ACCESS_KEY=hunter2",
        "AWS_REGION=us-east-1",
    ]);
    let server = setup.start().await;
    server.settled(&origin).await;
    published(&s3, &server).await;
}
