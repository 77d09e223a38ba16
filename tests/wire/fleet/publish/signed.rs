//! Signed heads and bundles, verified by the real tool.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sample_origin::World;

use super::change;
use crate::fleet::store::{Store, publishing, told};
use crate::harness::{Setup, origin, run, wait_until};

/// The password of a fixture, whose key costs little: the tool's own keys take a second and a gigabyte.
const PASSWORD: &str = "correct horse";

/// Makes a key without a password.
pub fn key(dir: &Path) {
    let mut tool = Command::new("minisign");
    tool.args(["-G", "-W", "-p", "k.pub", "-s", "k.key"]).current_dir(dir).stdout(Stdio::null());
    assert!(tool.status().expect("the tool `minisign` is there: setup.sh installs it").success());
}

/// The public line of a key.
pub fn public(dir: &Path) -> String {
    fs::read_to_string(dir.join("k.pub")).unwrap().lines().nth(1).unwrap().to_owned()
}

/// Lays down a key with a password.
fn encrypted_key(dir: &Path) {
    for (fixture, name) in [("encrypted.pub", "k.pub"), ("encrypted.key", "k.key")] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture), dir.join(name)).unwrap();
    }
}

fn verifies(dir: &Path, file: &Path, signature: &Path) -> bool {
    let (file, signature) = (file.to_str().unwrap(), signature.to_str().unwrap());
    let tool = Command::new("minisign")
        .args(["-V", "-q", "-p", "k.pub", "-x", signature, "-m", file])
        .current_dir(dir)
        .status();
    tool.unwrap().success()
}

pub fn signing(dir: &Path) -> impl FnOnce(Setup) -> Setup + use<> {
    let (key, password) = (dir.join("k.key"), dir.join("password"));
    move |setup| {
        let setup = setup.set("publish.sign_key", key.to_str().unwrap());
        if password.exists() { setup.set("publish.sign_password_file", password.to_str().unwrap()) } else { setup }
    }
}

#[tokio::test]
async fn the_head_and_every_bundle_are_signed() {
    for password in [None, Some(PASSWORD)] {
        let (store, dir) = (Store::new(), tempfile::tempdir().unwrap());
        if let Some(password) = password {
            encrypted_key(dir.path());
            fs::write(dir.path().join("password"), format!("{password}\n")).unwrap();
        } else {
            key(dir.path());
        }
        let (origin, server) = publishing(200, &store.url(), signing(dir.path())).await;
        store.has(&server).await;
        change(&origin, &server).await;
        let head = store.has(&server).await;
        assert!(!head.deltas().is_empty());
        let (text, signature) = (dir.path().join("text"), dir.path().join("text.minisig"));
        fs::write(&text, head.outer["head"].as_str().unwrap()).unwrap();
        fs::write(&signature, head.outer["signature"].as_str().unwrap()).unwrap();
        assert!(verifies(dir.path(), &text, &signature));
        for entry in head.chain() {
            let key = entry["key"].as_str().unwrap();
            let signature = store.root().join(format!("{key}.minisig"));
            assert!(verifies(dir.path(), &store.root().join(key), &signature), "{key}");
        }
        assert!(!fs::read_to_string(&text).unwrap().contains(PASSWORD), "no password travels");
    }
}

#[tokio::test]
async fn status_names_the_key_and_counts_the_details_on_their_way() {
    let (store, dir, origin) = (Store::new(), tempfile::tempdir().unwrap(), origin(60).await);
    key(dir.path());
    let setup = signing(dir.path())(Setup::mirror_of(&origin)).set("publish.url", &store.url());
    let server = setup.set("mirror.details", "on-demand").start().await;
    server.ready().await;
    store.until("the certificate", |head| head.inner["certificate"] == "full").await;
    store.has(&server).await;
    let trusted = format!("[\"{}\"]", public(dir.path()));
    let setup = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms");
    let replica = setup.set("bundle.trusted_keys", &trusted).start().await;
    wait_until("it has the head", || async { replica.status().await["replica"]["behind_seconds"] == 0 }).await;
    let named = fs::read_to_string(dir.path().join("k.pub")).unwrap();
    let mut ids = origin.world(World::ids).into_iter();
    for (server, part) in [(&server, "publish"), (&replica, "replica")] {
        wait_until("details are on their way", || {
            let id = ids.next().unwrap();
            let (named, words) = (&named, ["status", "--admin", &server.admin.to_string()].map(str::to_owned));
            async move {
                // A bundle with details follows after a minute.
                let detail = server.get(&format!("/api/listings/{id}.json")).await;
                let (told, said) = (server.status().await[part].clone(), run(&words).await.1);
                let key = told["signed_by"].as_str().unwrap();
                assert!(named.contains(key) && said.contains(&format!(", signed by {key}, ")), "{named} {said}");
                let is_said = said.contains("detail is on its way)") || said.contains("details are on their way)");
                (detail.status == 200 || part == "replica") && told["details_missing"].as_u64() > Some(0) && is_said
            }
        })
        .await;
    }
}

#[tokio::test]
async fn an_altered_signature_is_noticed_and_told_until_everything_was_read_back() {
    let (store, dir) = (Store::new(), tempfile::tempdir().unwrap());
    key(dir.path());
    // The objects are checked every five seconds.
    let often = |setup| signing(dir.path())(setup).set("publish.keep", "80s");
    let (_origin, server) = publishing(60, &store.url(), often).await;
    let before = store.has(&server).await;
    let signature = store.root().join(format!("{}.minisig", before.full()));
    let text = fs::read_to_string(&signature).unwrap();
    fs::write(&signature, text.replace("confirmed", "comfirned")).unwrap();
    wait_until("it is told", || async {
        told(&server).await["why"].as_str().is_some_and(|why| why.contains(".minisig was missing or altered"))
    })
    .await;
    wait_until("it is written again", || async {
        let full = store.root().join(store.head().unwrap().full());
        verifies(dir.path(), &full, &full.with_extension("gsb.minisig"))
    })
    .await;
    wait_until("everything was read back", || async { told(&server).await["why"].is_null() }).await;
}

#[tokio::test]
async fn another_key_begins_another_chain() {
    let (store, dir) = (Store::new(), tempfile::tempdir().unwrap());
    let (origin, mut server) = publishing(60, &store.url(), |setup| setup).await;
    let unsigned = store.has(&server).await;
    key(dir.path());
    server.restart_with("publish.sign_key", dir.path().join("k.key").to_str().unwrap()).await;
    server.settled(&origin).await;
    let signed = store.until("a signed head", |head| head.outer["signature"].is_string()).await;
    assert!(signed.sequence() > unsigned.sequence());
    let signature = store.root().join(format!("{}.minisig", signed.full()));
    assert!(verifies(dir.path(), &store.root().join(signed.full()), &signature));
}

#[tokio::test]
async fn a_key_without_its_password_publishes_nothing_and_says_so() {
    let (store, dir) = (Store::new(), tempfile::tempdir().unwrap());
    encrypted_key(dir.path());
    let (_origin, server) = publishing(60, &store.url(), signing(dir.path())).await;
    wait_until("it is told", || async {
        told(&server).await["why"].as_str().is_some_and(|why| why.contains("publish.sign_password_file"))
    })
    .await;
    assert!(store.head().is_none());
    assert_eq!(server.status().await["state"], "healthy");
}
