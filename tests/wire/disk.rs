//! A full or read-only disk, a directory in use, a store of another format.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use http::Method;
use sample_origin::World;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::compare::list_is_the_origins;
use crate::harness::{Body, Server, Setup, origin, run, wait_until};

const LIST: &str = "/api/listings.json";
/// Root may write everywhere, unless it may not.
const NO_OVERRIDE: [&str; 2] = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout.trim_ascii() == b"0"
}

/// The setup under which permissions hold even for root.
pub fn bound(setup: Setup) -> Setup {
    if is_root() { setup.under(&NO_OVERRIDE) } else { setup }
}

/// Makes a directory and the files in it writable for their owner, or not.
pub fn set_writable(dir: &Path, writable: bool) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        fs::set_permissions(path, fs::Permissions::from_mode(if writable { 0o644 } else { 0o444 })).unwrap();
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(if writable { 0o755 } else { 0o555 })).unwrap();
}

async fn unhealthy_because(server: &Server, named: &[&str]) {
    wait_until(&format!("/status is 503 and names {named:?}"), || async {
        let reply = server.admin(Method::GET, "/status").await;
        let first = reply.json()["reasons"][0].as_str().unwrap_or_default().to_owned();
        reply.status == 503 && named.iter().all(|text| first.contains(text))
    })
    .await;
}

async fn healthy(server: &Server) {
    wait_until("/status is 200", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;
}

/// Limits the size of files that a process writes.
pub fn limit_files(pid: u32, bytes: &str) {
    let done =
        Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:unlimited")]).status();
    assert!(done.unwrap().success());
}

#[tokio::test]
async fn a_full_disk_is_told_of_with_path_and_bytes_and_survived() {
    let origin = origin(230).await;
    // A limit on the size of files is a full disk.
    let setup = Setup::mirror_of(&origin).alone().set("ttl", "3s");
    let mut server = setup.start().await;
    server.settled(&origin).await;
    let (old, total) = (server.snapshot().await, server.ok(LIST).await.total());
    limit_files(server.process.pid(), "65536");
    let ids = origin.world(World::ids);
    origin.edit(|world| assert!(ids.iter().take(150).all(|id| world.touch(*id))));
    server.refresh().await;
    let store = server.store_file().display().to_string();
    unhealthy_because(&server, &["no space left", &store, "bytes"]).await;
    // It is one thing, and no fault of the origin.
    let status = server.status().await;
    let state = status["origin"]["state"].as_str().unwrap();
    assert!(["unchanged", "changed"].contains(&state), "{state}");
    let findings = status["findings"].as_array().unwrap();
    assert!(findings.len() == 1 && findings[0]["name"] == "disk-full", "{status:#}");
    let (code, said) = run(&["status", "--admin", &server.admin.to_string()].map(str::to_owned)).await;
    assert!(code == 1 && said.contains("\n  problem    no space left"), "{said}");
    assert!(said.contains("\n  to do      Make room on that disk"), "{said}");
    let log = server.process.said();
    assert_eq!((log.matches("disk-full").count(), log.matches("WARN").count()), (1, 0), "{log}");
    assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), old);
    for id in ids.iter().take(20) {
        server.ok(&format!("/api/listings/{id}.json")).await;
    }
    limit_files(server.process.pid(), "unlimited");
    healthy(&server).await;
    wait_until("the change shows", || async { server.snapshot().await != old }).await;
    server.settled(&origin).await;
    list_is_the_origins(&server, &origin, LIST).await;
    assert_eq!(server.ok(LIST).await.total(), total);

    // The same from the start on: stored data is served.
    let now = server.snapshot().await;
    server.process.kill();
    let setup = server.setup.clone();
    server.setup = setup.under(&["bash", "-c", r#"ulimit -S -f 64; exec "$0" "$@""#]);
    server.restart().await;
    server.ready().await;
    assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), now);
    let like = ids[3];
    origin.edit(|world| world.insert_like(like, "While it is full").unwrap());
    server.refresh().await;
    unhealthy_because(&server, &["no space left", &store]).await;
    limit_files(server.process.pid(), "unlimited");
    wait_until("the change shows", || async { server.ok(LIST).await.total() == total + 1 }).await;
    healthy(&server).await;
}

/// Starts on a directory that cannot be written: the lock cannot name the server, so its log does.
async fn start_read_only(server: &mut Server, setup: Setup) {
    set_writable(&server.data_dir(), false);
    server.setup = bound(setup);
    server.process = Body::Child(server.setup.spawn(&server.data_dir()));
    server.found_by_log().await;
    server.ready().await;
    let store = server.store_file().display().to_string();
    unhealthy_because(server, &[&store, "not writable"]).await;
}

#[tokio::test]
async fn a_read_only_data_directory_is_served_and_used_again_when_it_is_writable() {
    let origin = origin(120).await;
    let mut server = Setup::mirror_of(&origin).alone().set("ttl", "3s").start().await;
    server.settled(&origin).await;
    let (snapshot, id) = (server.snapshot().await, origin.world(World::ids)[5]);
    server.process.kill();
    let setup = server.setup.clone();
    start_read_only(&mut server, setup).await;
    assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), snapshot);
    server.ok(&format!("/api/listings/{id}.json")).await;
    origin.edit(|world| world.insert_like(id, "Meanwhile").unwrap());
    server.refresh().await;
    crate::harness::quiet(&origin).await;
    assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), snapshot, "nothing is served that is not durable");
    let (code, said) = server.setup.spawn(&server.data_dir()).end().await;
    assert_eq!(code, 1, "the lock holds without a name: {said}");
    set_writable(&server.data_dir(), true);
    healthy(&server).await;
    wait_until("the change shows", || async { server.ok(LIST).await.total() == 121 }).await;
    wait_until("the holder is named", || {
        let holder = grandstand::data::store::DataDir::holder(server.data_dir());
        let named = holder.is_some_and(|holder| holder.pid == Some(server.process.pid()));
        async move { named }
    })
    .await;
    server.settled(&origin).await;
    server.process.kill();

    // Nothing but the store, as on a volume made elsewhere.
    for name in ["LOCK", "budget"] {
        let _ = fs::remove_file(server.data_dir().join(name));
    }
    start_read_only(&mut server, Setup::offline().alone()).await;
    list_is_the_origins(&server, &origin, LIST).await;
    set_writable(&server.data_dir(), true);
    let (code, said) = server.setup.spawn(&server.data_dir()).end().await;
    assert_eq!(code, 1, "nobody writes beside it: {said}");
    healthy(&server).await;
    list_is_the_origins(&server, &origin, LIST).await;
}

#[tokio::test]
async fn an_empty_directory_that_cannot_be_written_ends_it_and_is_named() {
    let origin = origin(20).await;
    let dir = tempfile::tempdir().unwrap();
    set_writable(dir.path(), false);
    for setup in [bound(Setup::mirror_of(&origin)), bound(Setup::offline())] {
        let (code, said) = setup.spawn(dir.path()).end().await;
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&dir.path().display().to_string()) && said.contains("not writable"), "{said}");
    }
    set_writable(dir.path(), true);
}

#[tokio::test]
async fn a_second_server_with_the_same_configuration_names_the_holder() {
    let mut server = Setup::offline().alone().start().await;
    let same = server.setup.clone().set("listen", &format!("[\"{}\"]", server.public));
    let same = same.set("admin.listen", &server.admin.to_string());
    for setup in [&server.setup, &same] {
        let (code, said) = run(&setup.arguments(&["serve"], &server.data_dir())).await;
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&server.process.pid().to_string()), "{said}");
        assert_eq!(server.admin(Method::GET, "/livez").await.status, 200, "the first is not disturbed");
    }
    server.process.kill();
    server.setup = same;
    server.restart().await;
    assert_eq!(server.admin(Method::GET, "/livez").await.status, 200, "a killed holder leaves no lock");
}

/// A number of the store's file as it is written there: eight bytes, and their checksum bound to table and name.
fn sealed(number: u64) -> Vec<u8> {
    let payload = number.to_le_bytes();
    let sum = xxh3_64_with_seed(&payload, xxh3_64_with_seed(b"format", xxh3_64(b"meta")));
    [payload, sum.to_le_bytes()].concat()
}

/// Writes another format number into a store's file, with the checksums of the pages that it is on.
fn set_format(file: &Path, number: u64) {
    const SLOT: usize = 8 + 4096;
    let (old, new) = (sealed(2), sealed(number));
    let mut bytes = fs::read(file).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 16).filter(|at| bytes[*at..*at + 16] == old[..]).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + 16].copy_from_slice(&new);
        let page = (at + 8) / SLOT;
        let start = page * SLOT - 8;
        let sum = xxh3_64_with_seed(&bytes[start + 8..start + SLOT], page as u64);
        bytes[start..start + 8].copy_from_slice(&sum.to_le_bytes());
    }
    fs::write(file, bytes).unwrap();
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        // Not the socket that a killed server leaves.
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_store_of_another_format_is_refused_and_not_one_byte_changes() {
    let origin = origin(40).await;
    let mut server = Setup::mirror_of(&origin).alone().start().await;
    server.settled(&origin).await;
    server.process.kill();
    for (format, without_lock) in [(3, false), (3, true), (0, false)] {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in contents(&server.data_dir()) {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        if without_lock {
            fs::remove_file(dir.path().join("LOCK")).unwrap();
        }
        set_format(&dir.path().join("grandstand.redb"), format);
        let before = contents(dir.path());
        for setup in [Setup::offline().alone(), Setup::mirror_of(&origin).alone(), Setup::shield_of(&origin).alone()] {
            let (code, said) = setup.spawn(dir.path()).end().await;
            assert_eq!(code, 1, "{said}");
            assert!(said.contains(&format!("format {format}")), "{said}");
            assert!(contents(dir.path()) == before, "format {format}: something was written");
        }
    }
}
