//! Signed heads and bundles, verified by the real tool; heads that somebody else writes, and numbers far ahead.

use std::fs;
use std::path::Path;

use http::Method;
use sample_origin::{Switches, World};
use serde_json::json;

use super::change;
use crate::client::plain_client;
use crate::clocks::Hand;
use crate::fleet::store::{Head, Store, leads_to, publishing, replica_of, says, told};
use crate::gap::{Desk, LIST, mirrored};
use crate::harness::minisign::{key, minisign};
use crate::harness::nginx::OnPort;
use crate::harness::{Setup, origin, run, soon, until, wait_until};

/// The password of a fixture, whose key costs little: the tool's own keys take a second and a gigabyte.
const PASSWORD: &str = "correct horse";

/// The highest number but one that a head can have.
const HIGHEST: u64 = (1 << 53) - 2;

/// Lays down a key with a password.
fn encrypted_key(dir: &Path) {
    for (fixture, name) in [("encrypted.pub", "k.pub"), ("encrypted.key", "k.key")] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture), dir.join(name)).unwrap();
    }
}

fn signing(dir: &Path) -> impl FnOnce(Setup) -> Setup + use<> {
    let (key, password) = (dir.join("k.key"), dir.join("password"));
    move |setup| {
        let setup = setup.set("publish.sign_key", key.to_str().unwrap());
        if password.exists() { setup.set("publish.sign_password_file", password.to_str().unwrap()) } else { setup }
    }
}

/// Asserts that the head and its bundles are signed with the key in this directory.
fn is_signed(store: &Store, head: &Head, dir: &Path) {
    let (text, signature) = (dir.join("text"), dir.join("text.minisig"));
    fs::write(&text, head.outer["head"].as_str().unwrap()).unwrap();
    fs::write(&signature, head.outer["signature"].as_str().unwrap()).unwrap();
    let verifies = |file: &Path, signature: &Path| {
        let (file, signature) = (file.to_str().unwrap(), signature.to_str().unwrap());
        minisign(dir, &["-V", "-q", "-p", "k.pub", "-x", signature, "-m", file])
    };
    assert!(verifies(&text, &signature));
    for entry in head.chain() {
        let key = entry["key"].as_str().unwrap();
        let signature = store.root().join(format!("{key}.minisig"));
        assert!(verifies(&store.root().join(key), &signature), "{key}");
    }
    assert!(!fs::read_to_string(&text).unwrap().contains(PASSWORD), "no password travels");
}

/// Puts a head with the highest number in the place of this one, without a signature.
fn forge(store: &Store, head: &Head) {
    let mut inner = head.inner.clone();
    inner["sequence"] = HIGHEST.into();
    let beside = store.root().join("unfinished");
    fs::write(&beside, json!({ "head": inner.to_string(), "signature": null }).to_string()).unwrap();
    fs::rename(&beside, store.root().join("head.json")).unwrap();
}

#[tokio::test]
async fn heads_and_bundles_are_signed_and_what_nobody_trusted_signed_is_replaced_within_seconds() {
    let (store, dir) = (Store::new(), tempfile::tempdir().unwrap());
    encrypted_key(dir.path());
    // Without its password the key publishes nothing.
    let (origin, mut server) = publishing(200, &store.url(), signing(dir.path())).await;
    says(&server, "publish", "publish.sign_password_file").await;
    assert!(store.head().is_none() && server.status().await["state"] == "healthy");
    let password = dir.path().join("password");
    fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    // The objects are checked every five seconds.
    server.setup = server.setup.clone().set("publish.keep", "80s");
    server.restart_with("publish.sign_password_file", password.to_str().unwrap()).await;
    server.settled(&origin).await;
    store.has(&server).await;
    change(&origin, &server).await;
    let head = store.has(&server).await;
    assert!(!head.deltas().is_empty());
    is_signed(&store, &head, dir.path());

    forge(&store, &head);
    let replaced = store.until("it is replaced", |head| head.sequence() < HIGHEST / 2).await;
    assert!(replaced.sequence() > head.sequence());
    is_signed(&store, &replaced, dir.path());
    assert!(server.process.said().contains("head.json is not believed and is replaced"), "{}", server.process.said());

    let signature = store.root().join(format!("{}.minisig", replaced.full()));
    let text = fs::read_to_string(&signature).unwrap();
    fs::write(&signature, text.replace("confirmed", "comfirned")).unwrap();
    says(&server, "publish", ".minisig was missing or altered").await;
    let healed = until("it is written again, and read back", || async {
        let is_well = told(&server).await["why"].is_null();
        store.head().filter(|head| is_well && head.sequence() > replaced.sequence())
    })
    .await;
    is_signed(&store, &healed, dir.path());
}

#[tokio::test]
async fn a_detail_that_the_publisher_lacks_is_503_at_replicas_and_status_counts_those_on_their_way() {
    let (store, dir, origin) = (Store::new(), tempfile::tempdir().unwrap(), origin(60).await);
    let public = key(dir.path(), "k");
    let setup = signing(dir.path())(Setup::mirror_of(&origin)).set("publish.url", &store.url());
    let server = setup.set("mirror.details", "on-demand").start().await;
    server.ready().await;
    store.until("the certificate", |head| head.inner["certificate"] == "full").await;
    store.has(&server).await;
    let replica = replica_of(&store.url()).set("bundle.trusted_keys", &format!("[{public:?}]")).start().await;
    wait_until("it has the head", || async { replica.status().await["replica"]["behind_seconds"] == 0 }).await;
    let named = fs::read_to_string(dir.path().join("k.pub")).unwrap();
    let mut ids = origin.world(World::ids).into_iter();
    for (server_of, part) in [(&server, "publish"), (&replica, "replica")] {
        wait_until("details are on their way", || {
            let id = ids.next().unwrap();
            let (named, server) = (&named, &server);
            let words = ["status", "--admin", &server_of.admin.to_string()].map(str::to_owned);
            async move {
                // A bundle with details follows after a minute.
                let detail = server.get(&format!("/api/listings/{id}.json")).await;
                let (told, said) = (server_of.status().await[part].clone(), run(&words).await.1);
                let key = told["signed_by"].as_str().unwrap();
                assert!(named.contains(key) && said.contains(&format!(", signed by {key}, ")), "{named} {said}");
                let is_said = said.contains("detail is on its way)") || said.contains("details are on their way)");
                detail.status == 200 && told["details_missing"].as_u64() > Some(0) && is_said
            }
        })
        .await;
    }
    let missing = until("the replica lacks a detail", || async {
        for id in replica.ok(LIST).await.ids() {
            let reply = replica.get(&format!("/api/listings/{id}.json")).await;
            if reply.status != 200 {
                return Some(reply);
            }
        }
        None
    })
    .await;
    missing.assert_problem(503, &["its publisher did not have it yet"]);
    assert_eq!(missing.the("retry-after"), "60");
    // Behind a load balancer the publisher answers. A replica without data does no harm there, either.
    let empty = Setup::offline().set("replica.url", "file:///nowhere").start().await;
    let all = OnPort::balancing(&[replica.public, empty.public, server.public]).await;
    for id in replica.ok(LIST).await.ids() {
        let url = format!("{}/api/listings/{id}.json", all.url());
        assert_eq!(plain_client().get(url).send().await.unwrap().status(), 200, "{id}");
    }
}

#[tokio::test]
async fn an_offline_server_publishes_and_from_numbers_far_ahead_there_is_a_way_back() {
    let (store, hand, desk) = (Store::new(), Hand::new(), Desk::new());
    hand.set(3 * 86_400);
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "all.gsb").await;
    desk.does(&Setup::offline(), &desk.data(), &["import"], "all.gsb").await;
    let mut server = desk.serve_copy(hand.on(Setup::offline().set("publish.url", &store.url()))).await;
    let ahead = store.has(&server).await;
    leads_to(&store, &ahead, &mirror).await;
    let mut replica = hand.on(replica_of(&store.url())).start().await;
    wait_until("the replica has it", || async { replica.status().await["replica"]["sequence"] == ahead.sequence() })
        .await;
    hand.set(0);
    server.restart().await;
    replica.restart().await;
    says(&server, "publish", "grandstand snapshot release").await;
    assert!(server.finding("publish-fails").await.unwrap().contains("grandstand snapshot release"));
    says(&replica, "replica", "more than a day ahead of this machine's clock").await;
    assert_eq!(store.head().unwrap().outer, ahead.outer, "it does not write");
    assert_eq!(server.process.said().matches("is more than a day ahead").count(), 1, "told once while it stays");
    let (code, said) = run(&server.setup.arguments(&["snapshot", "release"], &server.data_dir())).await;
    assert!(code == 0 && said.contains("the publisher begins again at the clock"), "{code} {said}");
    let back = store.until("a head at the clock", |head| head.sequence() < ahead.sequence()).await;
    assert!(back.deltas().is_empty() && ahead.sequence() - back.sequence() > 86_400_000);
    soon("nothing is wrong", || async { told(&server).await["why"].is_null() }).await;
    assert_eq!(server.admin(Method::POST, "/snapshots/release").await.status, 409, "there is nothing to release");
    assert_eq!(server.admin(Method::POST, "/refresh?forget=sequence").await.status, 409, "it is no replica");
    says(&replica, "replica", "grandstand refresh --forget-sequence").await;
    assert_eq!(replica.admin(Method::POST, "/refresh?forget=sequences").await.status, 400);
    let (code, said) = run(&replica.setup.arguments(&["refresh", "--forget-sequence"], &replica.data_dir())).await;
    assert_eq!(code, 0, "{said}");
    wait_until("the replica follows", || async {
        let status = replica.status().await;
        status["replica"]["sequence"] == store.head().unwrap().sequence() && status["replica"]["why"].is_null()
    })
    .await;
    // It looks at its head every few seconds. What it reads back of the new chain may make it look the first time.
    for _ in 0..2 {
        let before = store.head().unwrap();
        forge(&store, &before);
        let replaced = store.until("it is replaced", |head| head.sequence() < HIGHEST / 2).await;
        assert!(replaced.sequence() > before.sequence());
    }
    soon("nothing is wrong", || async { told(&server).await["why"].is_null() }).await;
}
